// SPDX-License-Identifier: MIT
// Compares Host and Origin with the names this server answers to.
#include "server/http/host_check.h"

#include <algorithm>

#include <fmt/format.h>

namespace ballast::http {

namespace {

bool all_digits(std::string_view text) {
    return std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

bool is_name_character(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_';
}

/// "192.168.0.7" or "[fe80::1]"; whether the numbers are in range does not matter here.
bool looks_like_address(std::string_view host) {
    if (host.starts_with('[')) {
        return true;  // split_host has checked the characters
    }
    return std::count(host.begin(), host.end(), '.') == 3 &&
           std::all_of(
               host.begin(), host.end(), [](char c) { return (c >= '0' && c <= '9') || c == '.'; });
}

}  // namespace

bool split_host(std::string_view text, std::string_view& name, std::string_view& port) {
    std::size_t end = 0;
    if (text.starts_with('[')) {
        end = text.find(']');
        if (end == std::string_view::npos) {
            return false;
        }
        const std::string_view inside = text.substr(1, end - 1);
        const bool digits = !inside.empty() && inside.find(':') != std::string_view::npos &&
                            std::all_of(inside.begin(), inside.end(), [](char c) {
                                return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') ||
                                       (c >= 'A' && c <= 'F') || c == ':' || c == '.';
                            });
        if (!digits) {
            return false;
        }
        ++end;
    } else {
        end = std::min(text.find(':'), text.size());
    }
    name = text.substr(0, end);
    port = {};
    if (end < text.size()) {
        if (text[end] != ':') {
            return false;
        }
        port = text.substr(end + 1);
        if (port.empty() || port.size() > 5 || !all_digits(port)) {
            return false;
        }
    }
    if (name.empty()) {
        return false;
    }
    return name.front() == '[' || std::all_of(name.begin(), name.end(), is_name_character);
}

HostCheck::HostCheck(const std::string& bound_host, const std::vector<std::string>& allowed)
    : names_{"localhost", "127.0.0.1", "[::1]"} {
    any_address_ = bound_host == "0.0.0.0" || bound_host == "::";
    const auto add = [this](const std::string& host) {
        const bool bare_ipv6 = host.find(':') != std::string::npos && !host.starts_with('[');
        names_.push_back(bare_ipv6 ? "[" + host + "]" : host);
    };
    add(bound_host);
    for (const std::string& name : allowed) {
        add(name);
    }
}

bool HostCheck::known(std::string_view host) const {
    const bool listed = std::any_of(names_.begin(), names_.end(), [host](const std::string& name) {
        return equal_ignoring_case(name, host);
    });
    return listed || (any_address_ && looks_like_address(host));
}

int HostCheck::check(const std::vector<Header>& headers, std::string& message) const {
    const std::string* host = nullptr;
    const std::string* origin = nullptr;
    for (const Header& header : headers) {
        if (equal_ignoring_case(header.name, "host")) {
            if (host != nullptr) {
                message = "The request has more than one Host header.";
                return 400;
            }
            host = &header.value;
        } else if (equal_ignoring_case(header.name, "origin")) {
            origin = &header.value;
        }
    }
    if (host == nullptr) {
        message = "The request has no Host header.";
        return 400;
    }
    std::string_view name;
    std::string_view port;
    if (!split_host(*host, name, port)) {
        message = "The Host header is not a host name with an optional port.";
        return 400;
    }
    if (!known(name)) {
        message = fmt::format(
            "This server does not answer to the host name '{}'. If it is yours, add it to "
            "[server] allowed_hosts.",
            name);
        return 403;
    }
    if (origin != nullptr) {
        const std::size_t scheme = origin->find("://");
        const std::string_view authority = scheme == std::string::npos
                                               ? std::string_view{}
                                               : std::string_view(*origin).substr(scheme + 3);
        if (!split_host(authority, name, port) || !known(name)) {
            message = "Web pages of other origins may not use this server.";
            return 403;
        }
    }
    return 0;
}

}  // namespace ballast::http
