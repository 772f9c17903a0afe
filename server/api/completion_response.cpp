// SPDX-License-Identifier: MIT
// The objects of /v1/completions.
#include "server/api/completion_response.h"

#include <utility>

#include <nlohmann/json.hpp>

#include "server/api/response_json.h"

namespace ballast::api {

namespace {

class CompletionFormat final : public ReplyFormat {
  public:
    CompletionFormat(ReplyHead head, std::vector<std::string> prefixes)
        : head_(std::move(head)), prefixes_(std::move(prefixes)), offsets_(prefixes_.size(), 0) {}

    std::string start(int choice) override {
        const std::string& prefix = prefixes_[index(choice)];
        return prefix.empty() ? std::string{} : chunk(choice, prefix, nullptr, nullptr);
    }

    std::string delta(int choice, const runtime::TextDelta& piece) override {
        if (piece.text.empty() && piece.logprobs.empty()) {
            return {};
        }
        Json logprobs = head_.logprobs
                            ? completion_logprobs(piece.logprobs, offsets_[index(choice)])
                            : Json(nullptr);
        return chunk(choice, piece.text, std::move(logprobs), nullptr);
    }

    std::string finish(int choice, runtime::FinishReason reason) override {
        return chunk(choice, "", nullptr, finish_reason_text(reason));
    }

    std::string usage(const Usage& usage, const runtime::JobStats& timings) override {
        return to_line(with_usage(Json::array(), usage, timings));
    }

    std::string whole(const std::vector<FinishedChoice>& choices,
                      const Usage& usage,
                      const runtime::JobStats& timings) override {
        Json list = Json::array();
        for (std::size_t i = 0; i < choices.size(); ++i) {
            const FinishedChoice& choice = choices[i];
            Json logprobs =
                head_.logprobs ? completion_logprobs(choice.logprobs, offsets_[i]) : Json(nullptr);
            list.push_back(entry(static_cast<int>(i),
                                 prefixes_[i] + choice.text,
                                 std::move(logprobs),
                                 finish_reason_text(choice.reason)));
        }
        return to_line(with_usage(std::move(list), usage, timings));
    }

  private:
    static std::size_t index(int choice) { return static_cast<std::size_t>(choice); }

    static Json entry(int choice, const std::string& text, Json logprobs, Json finish_reason) {
        Json json;
        json["text"] = text;
        json["index"] = choice;
        json["logprobs"] = std::move(logprobs);
        json["finish_reason"] = std::move(finish_reason);
        return json;
    }

    std::string chunk(int choice, const std::string& text, Json logprobs, Json reason) const {
        Json json = head_json(head_, kObject);
        json["choices"] =
            Json::array({entry(choice, text, std::move(logprobs), std::move(reason))});
        if (head_.include_usage) {
            json["usage"] = nullptr;
        }
        return to_line(json);
    }

    Json with_usage(Json choices, const Usage& usage, const runtime::JobStats& timings) const {
        Json json = head_json(head_, kObject);
        json["choices"] = std::move(choices);
        json["usage"] = usage_json(usage);
        json["timings"] = timings_json(timings);
        return json;
    }

    static constexpr const char* kObject = "text_completion";

    const ReplyHead head_;
    const std::vector<std::string> prefixes_;
    std::vector<std::size_t> offsets_;  // characters of each choice's own text so far
};

}  // namespace

std::unique_ptr<ReplyFormat> make_completion_format(ReplyHead head,
                                                    std::vector<std::string> prefixes) {
    return std::make_unique<CompletionFormat>(std::move(head), std::move(prefixes));
}

}  // namespace ballast::api
