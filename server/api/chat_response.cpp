// SPDX-License-Identifier: MIT
// The objects of /v1/chat/completions.
#include "server/api/chat_response.h"

#include <utility>

#include <nlohmann/json.hpp>

#include "server/api/response_json.h"

namespace ballast::api {

namespace {

class ChatFormat final : public ReplyFormat {
  public:
    explicit ChatFormat(ReplyHead head) : head_(std::move(head)) {}

    std::string start(int choice) override {
        Json delta;
        delta["role"] = "assistant";
        delta["content"] = "";
        return chunk(choice, std::move(delta), nullptr, nullptr);
    }

    std::string delta(int choice, const runtime::TextDelta& piece) override {
        if (piece.text.empty() && piece.logprobs.empty()) {
            return {};
        }
        Json delta;
        delta["content"] = piece.text;
        Json logprobs = head_.logprobs ? chat_logprobs(piece.logprobs) : Json(nullptr);
        return chunk(choice, std::move(delta), std::move(logprobs), nullptr);
    }

    std::string finish(int choice, runtime::FinishReason reason) override {
        return chunk(choice, Json::object(), nullptr, finish_reason_text(reason));
    }

    std::string usage(const Usage& usage, const runtime::JobStats& timings) override {
        Json json = head_json(head_, kChunk);
        json["choices"] = Json::array();
        json["usage"] = usage_json(usage);
        json["timings"] = timings_json(timings);
        return to_line(json);
    }

    std::string whole(const std::vector<FinishedChoice>& choices,
                      const Usage& usage,
                      const runtime::JobStats& timings) override {
        Json list = Json::array();
        for (const FinishedChoice& choice : choices) {
            Json message;
            message["role"] = "assistant";
            message["content"] = choice.text;
            message["refusal"] = nullptr;
            Json json;
            json["index"] = list.size();
            json["message"] = std::move(message);
            json["logprobs"] = head_.logprobs ? chat_logprobs(choice.logprobs) : Json(nullptr);
            json["finish_reason"] = finish_reason_text(choice.reason);
            list.push_back(std::move(json));
        }
        Json json = head_json(head_, "chat.completion");
        json["choices"] = std::move(list);
        json["usage"] = usage_json(usage);
        json["timings"] = timings_json(timings);
        return to_line(json);
    }

  private:
    static constexpr const char* kChunk = "chat.completion.chunk";

    std::string chunk(int choice, Json delta, Json logprobs, Json finish_reason) const {
        Json entry;
        entry["index"] = choice;
        entry["delta"] = std::move(delta);
        entry["logprobs"] = std::move(logprobs);
        entry["finish_reason"] = std::move(finish_reason);
        Json json = head_json(head_, kChunk);
        json["choices"] = Json::array({std::move(entry)});
        if (head_.include_usage) {
            json["usage"] = nullptr;
        }
        return to_line(json);
    }

    const ReplyHead head_;
};

}  // namespace

std::unique_ptr<ReplyFormat> make_chat_format(ReplyHead head) {
    return std::make_unique<ChatFormat>(std::move(head));
}

}  // namespace ballast::api
