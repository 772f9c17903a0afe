// SPDX-License-Identifier: MIT
// The head of a reply as bytes.
#include "server/http/reply.h"

#include <ctime>

#include <fmt/format.h>

namespace ballast::http {

std::string_view reason_phrase(int status) {
    switch (status) {
        case 200:
            return "OK";
        case 204:
            return "No Content";
        case 400:
            return "Bad Request";
        case 401:
            return "Unauthorized";
        case 403:
            return "Forbidden";
        case 404:
            return "Not Found";
        case 405:
            return "Method Not Allowed";
        case 408:
            return "Request Timeout";
        case 413:
            return "Content Too Large";
        case 415:
            return "Unsupported Media Type";
        case 417:
            return "Expectation Failed";
        case 429:
            return "Too Many Requests";
        case 431:
            return "Request Header Fields Too Large";
        case 500:
            return "Internal Server Error";
        case 503:
            return "Service Unavailable";
        case 505:
            return "HTTP Version Not Supported";
        default:
            return "Status";
    }
}

std::string http_date(std::int64_t unix_seconds) {
    static constexpr const char* kDays[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    static constexpr const char* kMonths[] = {
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    const auto time = static_cast<std::time_t>(unix_seconds);
    std::tm parts{};
    gmtime_r(&time, &parts);
    return fmt::format("{}, {:02} {} {:04} {:02}:{:02}:{:02} GMT",
                       kDays[parts.tm_wday],
                       parts.tm_mday,
                       kMonths[parts.tm_mon],
                       parts.tm_year + 1900,
                       parts.tm_hour,
                       parts.tm_min,
                       parts.tm_sec);
}

std::string serialize_head(const Reply& reply, const HeadContext& context) {
    std::string head = fmt::format("HTTP/1.1 {} {}\r\n", reply.status, reason_phrase(reply.status));
    const auto add = [&head](std::string_view name, std::string_view value) {
        head.append(name).append(": ").append(value).append("\r\n");
    };
    add("Date", http_date(context.unix_seconds));
    if (reply.status != 204) {
        add("Content-Type", reply.content_type);
        add("X-Content-Type-Options", "nosniff");
        if (context.chunked) {
            add("Transfer-Encoding", "chunked");
        } else if (!context.until_close) {
            add("Content-Length", std::to_string(reply.body.size()));
        }
    }
    for (const Header& header : reply.headers) {
        add(header.name, header.value);
    }
    add("x-request-id", context.request_id);
    add("Connection", context.keep_alive ? "keep-alive" : "close");
    head += "\r\n";
    return head;
}

}  // namespace ballast::http
