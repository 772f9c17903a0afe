// SPDX-License-Identifier: MIT
// The defence against DNS rebinding: a page of another site may make a browser connect to this
// machine, but it cannot make it send a Host or Origin that we know.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "server/http/request.h"

namespace ballast::http {

/// Immutable; any thread.
class HostCheck {
  public:
    /// Names that are accepted besides localhost, 127.0.0.1 and [::1]: the bound address and the
    /// configured ones. Bound to every interface, any address written in digits is accepted: a
    /// rebinding attack needs a name.
    HostCheck(const std::string& bound_host, const std::vector<std::string>& allowed);

    /// 0 if the request may pass; else the status (400 or 403), and `message` says why.
    int check(const std::vector<Header>& headers, std::string& message) const;

  private:
    bool known(std::string_view host) const;

    std::vector<std::string> names_;
    bool any_address_ = false;
};

/// Splits "name", "name:80", "[::1]:80" into name (with brackets) and port. False if it is none of
/// these.
bool split_host(std::string_view text, std::string_view& name, std::string_view& port);

}  // namespace ballast::http
