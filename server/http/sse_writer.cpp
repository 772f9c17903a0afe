// SPDX-License-Identifier: MIT
// Frames events; the connection adds the chunks.
#include "server/http/sse_writer.h"

#include <utility>

namespace ballast::http {

std::string sse_event(std::string_view data) {
    std::string text;
    text.reserve(data.size() + 8);
    text.append("data: ").append(data).append("\n\n");
    return text;
}

Task<Status> SseWriter::start() {
    Reply head;
    head.content_type = "text/event-stream";
    head.headers.push_back({"Cache-Control", "no-cache"});
    started_ = true;
    Status status = co_await connection_.start_stream(std::move(head));
    co_return status;
}

Task<Status> SseWriter::event(std::string data) {
    std::string bytes = sse_event(data);
    Status status = co_await connection_.write_stream(std::move(bytes));
    co_return status;
}

Task<Status> SseWriter::events(std::vector<std::string> data) {
    std::string bytes;
    for (const std::string& one : data) {
        bytes += sse_event(one);
    }
    if (bytes.empty()) {
        co_return Status{};
    }
    Status status = co_await connection_.write_stream(std::move(bytes));
    co_return status;
}

Task<Status> SseWriter::comment(std::string text) {
    std::string bytes = ": " + text + "\n\n";
    Status status = co_await connection_.write_stream(std::move(bytes));
    co_return status;
}

Task<Status> SseWriter::done() {
    std::string last = sse_event("[DONE]");
    Status status = co_await connection_.write_stream(std::move(last));
    if (status) {
        status = co_await connection_.end_stream();
    }
    co_return status;
}

Task<Status> SseWriter::end() {
    Status status = co_await connection_.end_stream();
    co_return status;
}

}  // namespace ballast::http
