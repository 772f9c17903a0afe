// SPDX-License-Identifier: MIT
// A client that sends exactly the bytes it is told to and shows exactly the bytes it got.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <string_view>

namespace ballast::test {

/// One parsed reply.
struct ClientReply {
    int status = 0;
    std::map<std::string, std::string> headers;  // names in lower case
    std::string body;                            // chunks joined
    bool complete = false;                       // the framing said that this was all

    std::string header(const std::string& lower_name) const;
};

/// One TCP connection to 127.0.0.1. Waits at most ten seconds for anything.
class HttpClient {
  public:
    explicit HttpClient(int port);
    ~HttpClient();
    HttpClient(const HttpClient&) = delete;
    HttpClient& operator=(const HttpClient&) = delete;

    void send(std::string_view bytes);
    /// Reads one reply; `head_only` for HEAD.
    ClientReply read_reply(bool head_only = false);
    /// Reads until the bytes that were read so far end with `text`; returns them and forgets them.
    std::string read_until(std::string_view text);
    /// Whatever comes until the server closes.
    std::string read_to_end();
    /// Whether the server closes within the time, with nothing more to read.
    bool closed_within(std::chrono::milliseconds time);
    /// Closes with a reset, as a killed program does.
    void reset();
    void close();

  private:
    /// False at the end of the stream or when the time is over.
    bool read_some(std::chrono::milliseconds time);

    int socket_ = -1;
    std::string buffer_;
    bool ended_ = false;
};

/// "POST path HTTP/1.1" with a Host and a JSON body.
std::string post_json(std::string_view path, std::string_view body, std::string_view extra = "");
std::string get(std::string_view path, std::string_view extra = "");

/// A connection for one request.
ClientReply fetch(int port, std::string_view bytes);

}  // namespace ballast::test
