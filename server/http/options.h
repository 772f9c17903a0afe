// SPDX-License-Identifier: MIT
// What a user may set about the HTTP front end; composed into the configuration by config/.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ballast::http {

struct HttpOptions {
    std::string host = "127.0.0.1";
    int port = 2255;
    int io_threads = 1;
    int connections_max = 256;
    std::uint64_t body_bytes_max = 16ULL << 20;
    int header_timeout_seconds = 10;
    int body_timeout_seconds = 60;
    int idle_timeout_seconds = 75;
    int write_timeout_seconds = 60;
    int shutdown_seconds = 10;  // running requests get this long after SIGTERM
    bool sse_comments = true;   // ": waiting" lines while a long prompt is read
    /// Host header values accepted besides localhost, 127.0.0.1, [::1] and the bound address.
    std::vector<std::string> allowed_hosts;
};

}  // namespace ballast::http
