// SPDX-License-Identifier: MIT
// The only file that sees Beast.
#include "server/http/request_parser.h"

#include <exception>
#include <utility>

#include <fmt/format.h>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

namespace ballast::http {

namespace beast_http = boost::beast::http;

struct RequestParser::Beast {
    beast_http::request_parser<beast_http::string_body> parser;
};

RequestParser::RequestParser(std::uint64_t body_bytes_max) : beast_(std::make_unique<Beast>()) {
    beast_->parser.header_limit(static_cast<std::uint32_t>(kHeaderBytesMax));
    beast_->parser.body_limit(body_bytes_max);
}

RequestParser::~RequestParser() = default;

void RequestParser::fail(int status, std::string message) {
    state_ = State::kFailed;
    failure_status_ = status;
    failure_ = std::move(message);
}

std::size_t RequestParser::feed(std::string_view bytes) {
    if (bytes.empty() || state_ == State::kDone || state_ == State::kFailed) {
        return 0;
    }
    auto& parser = beast_->parser;
    boost::system::error_code error;
    std::size_t used = 0;
    try {
        used = parser.put(boost::asio::buffer(bytes.data(), bytes.size()), error);
    } catch (const std::exception&) {
        // Beast throws where a field of a trailer is longer than it can keep.
        fail(431, fmt::format("The request's trailer exceeds {} bytes.", kHeaderBytesMax));
        return 0;
    }
    if (error == beast_http::error::need_more) {
        error = {};
    }
    if (!error && used == 0 && state_ == State::kBody && bytes.size() > kHeaderBytesMax) {
        // Beast waits for the end of a line, and no limit of its own counts this.
        fail(431,
             fmt::format("A chunk's header or the trailer exceeds {} bytes.", kHeaderBytesMax));
        return 0;
    }
    if (error == beast_http::error::body_limit) {
        fail(413, "The request's body is larger than this server accepts.");
    } else if (error == beast_http::error::header_limit) {
        fail(431, fmt::format("The request's headers exceed {} bytes.", kHeaderBytesMax));
    } else if (error == beast_http::error::bad_version) {
        fail(505, "This server speaks HTTP/1.1 and HTTP/1.0.");
    } else if (error) {
        fail(400, fmt::format("The request is not valid HTTP: {}.", error.message()));
    } else {
        if (state_ == State::kHead && parser.is_header_done()) {
            read_head();
        }
        if (state_ == State::kBody && parser.is_done()) {
            request_.body = std::move(parser.get().body());
            state_ = State::kDone;
        }
    }
    return used;
}

void RequestParser::read_head() {
    auto& message = beast_->parser.get();
    keep_alive_ = beast_->parser.keep_alive();
    http_1_0_ = message.version() == 10;
    const auto view = [](boost::beast::string_view text) {
        return std::string_view(text.data(), text.size());
    };
    request_.method = std::string(view(message.method_string()));
    const std::string_view target = view(message.target());
    const std::size_t question = target.find('?');
    request_.path = std::string(target.substr(0, question));
    if (question != std::string_view::npos) {
        request_.query = std::string(target.substr(question + 1));
    }
    bool length = false;
    bool chunked = false;
    bool only_chunked = true;
    for (const auto& field : message) {
        request_.headers.push_back(
            {std::string(view(field.name_string())), std::string(view(field.value()))});
        length = length || field.name() == beast_http::field::content_length;
        if (field.name() == beast_http::field::transfer_encoding) {
            chunked = true;
            only_chunked = only_chunked && boost::beast::iequals(field.value(), "chunked");
        }
    }
    state_ = State::kBody;
    if (length && chunked) {
        // RFC 9112 §6.3: two framings are how requests are smuggled past a proxy.
        fail(400, "The request has both Content-Length and Transfer-Encoding.");
    } else if (chunked && (!only_chunked || !beast_->parser.chunked())) {
        fail(400, "The only transfer encoding this server understands is chunked.");
    } else if (!target.starts_with('/') && !(target == "*" && request_.method == "OPTIONS")) {
        fail(400, "The request's target must be a path.");
    }
}

}  // namespace ballast::http
