// SPDX-License-Identifier: MIT
// What can be said about a listening address before listening.
#pragma once

#include <string>

#include "engine/base/result.h"

namespace ballast::cli {

/// Fails unless the host is an address of the loopback interface or "localhost": there are no API
/// keys yet, so a wider address would let the whole network use the model. The error says so.
Status check_loopback(const std::string& host);

/// The IP address that a socket is bound to. Errors: it is no internet socket.
Result<std::string> host_of_socket(int descriptor);

/// Whether a TCP port of the host can be listened on now. The error names the address.
Status check_port_free(const std::string& host, int port);

/// A connected socket, which the caller closes. kNotFound if nobody listens there.
Result<int> connect_to(const std::string& host, int port);

/// "http://127.0.0.1:2255"; IPv6 addresses in brackets.
std::string format_url(const std::string& host, int port);

}  // namespace ballast::cli
