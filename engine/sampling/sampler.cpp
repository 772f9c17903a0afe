// SPDX-License-Identifier: MIT
// The order is bias, penalties, temperature, top-k, top-p, min-p, draw. Only what a filter keeps is
// ever sorted: nth_element brings the best to the front in linear time.
#include "engine/sampling/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/base/check.h"

namespace ballast::sampling {

namespace {

constexpr float kImpossible = -std::numeric_limits<float>::infinity();
// The OpenAI API's convention: a bias of -100 bans a token.
constexpr float kBanningBias = -100.0F;

/// Best first; of equal ones the lower id, so that the order is the same on every platform.
bool is_better(const TokenLogprob& a, const TokenLogprob& b) {
    return a.logprob != b.logprob ? a.logprob > b.logprob : a.id < b.id;
}

/// Index of the greatest finite logit, the lowest on ties; −1 if there is none.
TokenId arg_max(std::span<const float> logits) {
    TokenId best = -1;
    float best_logit = kImpossible;
    for (std::size_t i = 0; i < logits.size(); ++i) {
        if (logits[i] > best_logit && std::isfinite(logits[i])) {
            best_logit = logits[i];
            best = static_cast<TokenId>(i);
        }
    }
    return best;
}

/// log Σ exp(logit) over the finite logits.
double log_sum_exp(std::span<const float> logits) {
    const TokenId best = arg_max(logits);
    if (best < 0) {
        return -std::numeric_limits<double>::infinity();
    }
    const double shift = static_cast<double>(logits[static_cast<std::size_t>(best)]);
    double sum = 0.0;
    for (const float logit : logits) {
        if (std::isfinite(logit)) {
            sum += std::exp(static_cast<double>(logit) - shift);
        }
    }
    return shift + std::log(sum);
}

float logprob_at(std::span<const float> logits, TokenId id, double normalizer) {
    const float logit = logits[static_cast<std::size_t>(id)];
    return std::isfinite(logit) ? static_cast<float>(static_cast<double>(logit) - normalizer)
                                : kImpossible;
}

bool is_in(std::span<const float> logits, TokenId id) {
    return id >= 0 && static_cast<std::size_t>(id) < logits.size();
}

}  // namespace

double log_probability(std::span<const float> logits, TokenId id) {
    BALLAST_CHECK(is_in(logits, id));
    const float logit = logits[static_cast<std::size_t>(id)];
    if (!std::isfinite(logit)) {
        return -std::numeric_limits<double>::infinity();
    }
    return static_cast<double>(logit) - log_sum_exp(logits);
}

Sampler::Sampler(SamplingOptions options, int vocabulary_size)
    : options_(std::move(options)), rng_(options_.seed) {
    const auto n = static_cast<std::size_t>(vocabulary_size);
    if (!(options_.repetition_penalty > 0.0F)) {
        options_.repetition_penalty = 1.0F;  // zero, negative or NaN means nothing
    }
    if (has_penalties()) {
        is_seen_.resize(n);
        reply_counts_.resize(n);
        seen_ids_.reserve(n);
    }
    if (options_.temperature > 0.0F) {
        candidates_.reserve(n);
    }
    if (options_.top_logprobs >= 0) {
        unmodified_.resize(n);
    }
}

bool Sampler::has_penalties() const {
    return options_.repetition_penalty != 1.0F || options_.presence_penalty != 0.0F ||
           options_.frequency_penalty != 0.0F;
}

void Sampler::count(TokenId id, bool in_reply) {
    if (id < 0 || static_cast<std::size_t>(id) >= is_seen_.size()) {
        return;
    }
    const auto at = static_cast<std::size_t>(id);
    if (is_seen_[at] == 0) {
        is_seen_[at] = 1;
        seen_ids_.push_back(id);
    }
    if (in_reply && reply_counts_[at] < std::numeric_limits<std::uint16_t>::max()) {
        ++reply_counts_[at];
    }
}

void Sampler::observe_prompt(std::span<const TokenId> ids) {
    for (const TokenId id : ids) {
        count(id, false);
    }
}

void Sampler::apply_bias(std::span<float> logits) const {
    for (const auto& [id, bias] : options_.logit_bias) {
        if (is_in(logits, id)) {
            float& logit = logits[static_cast<std::size_t>(id)];
            logit = bias <= kBanningBias ? kImpossible : logit + bias;
        }
    }
    for (const TokenId id : options_.banned) {
        if (is_in(logits, id)) {
            logits[static_cast<std::size_t>(id)] = kImpossible;
        }
    }
}

void Sampler::apply_penalties(std::span<float> logits) const {
    for (const TokenId id : seen_ids_) {
        const auto at = static_cast<std::size_t>(id);
        float& logit = logits[at];
        // Dividing a negative logit would make the token more probable, so it is multiplied.
        logit = logit > 0.0F ? logit / options_.repetition_penalty
                             : logit * options_.repetition_penalty;
        if (reply_counts_[at] > 0) {
            logit -= options_.presence_penalty +
                     options_.frequency_penalty * static_cast<float>(reply_counts_[at]);
        }
    }
}

void Sampler::weigh(std::span<const float> logits, float best) {
    candidates_.clear();
    for (std::size_t i = 0; i < logits.size(); ++i) {
        if (std::isfinite(logits[i])) {
            candidates_.push_back(
                {static_cast<TokenId>(i), std::exp((logits[i] - best) / options_.temperature)});
        }
    }
}

void Sampler::keep_top_k() {
    if (options_.top_k <= 0) {
        return;
    }
    const auto k = static_cast<std::size_t>(options_.top_k);
    if (k < candidates_.size()) {
        const auto end = candidates_.begin() + static_cast<std::ptrdiff_t>(k);
        std::nth_element(candidates_.begin(), end, candidates_.end(), is_better);
        candidates_.erase(end, candidates_.end());
    }
    // The order that nth_element leaves is its own; the draw needs one that is always the same.
    std::sort(candidates_.begin(), candidates_.end(), is_better);
}

void Sampler::keep_top_p() {
    // Written so that a NaN keeps all.
    if (!(options_.top_p < 1.0F)) {
        return;
    }
    double total = 0.0;
    for (const TokenLogprob& candidate : candidates_) {
        total += static_cast<double>(candidate.logprob);
    }
    const double wanted = static_cast<double>(options_.top_p) * total;
    double kept = 0.0;
    std::size_t n_kept = 0;
    // Most distributions are concentrated: a short sorted front is enough. If not, each round sorts
    // four times as many.
    for (std::size_t n_round = 64; n_kept < candidates_.size(); n_round *= 4) {
        const std::size_t n_sorted = std::min(candidates_.size(), n_kept + n_round);
        const auto begin = candidates_.begin() + static_cast<std::ptrdiff_t>(n_kept);
        const auto end = candidates_.begin() + static_cast<std::ptrdiff_t>(n_sorted);
        if (end != candidates_.end()) {
            std::nth_element(begin, end, candidates_.end(), is_better);
        }
        std::sort(begin, end, is_better);
        for (; n_kept < n_sorted; ++n_kept) {
            // At least one is kept, whatever top_p is.
            if (n_kept > 0 && kept >= wanted) {
                candidates_.resize(n_kept);
                return;
            }
            kept += static_cast<double>(candidates_[n_kept].logprob);
        }
    }
}

void Sampler::keep_min_p() {
    if (!(options_.min_p > 0.0F)) {
        return;
    }
    // The best weight is exp(0) = 1, so min_p is a weight itself. Above 1 it would keep nothing.
    const float least = std::min(options_.min_p, 1.0F);
    const auto end = std::remove_if(
        candidates_.begin(), candidates_.end(), [least](const TokenLogprob& candidate) {
            return candidate.logprob < least;
        });
    candidates_.erase(end, candidates_.end());
}

TokenId Sampler::draw() {
    double total = 0.0;
    for (const TokenLogprob& candidate : candidates_) {
        total += static_cast<double>(candidate.logprob);
    }
    double left = rng_.uniform() * total;
    TokenId chosen = -1;
    for (const TokenLogprob& candidate : candidates_) {
        const auto weight = static_cast<double>(candidate.logprob);
        if (weight <= 0.0) {
            continue;  // underflowed: impossible
        }
        chosen = candidate.id;  // the last one takes what rounding leaves over
        left -= weight;
        if (left < 0.0) {
            break;
        }
    }
    return chosen;
}

void Sampler::report_logprobs(Sample& sample) const {
    const double normalizer = log_sum_exp(unmodified_);
    sample.logprob = logprob_at(unmodified_, sample.id, normalizer);
    const auto n_wanted =
        std::min(static_cast<std::size_t>(options_.top_logprobs), unmodified_.size());
    if (n_wanted == 0) {
        return;
    }
    // A heap of the best so far with the worst of them on top; few logits get into it.
    auto& best = sample.top_logprobs;
    best.reserve(n_wanted + 1);
    for (std::size_t i = 0; i < unmodified_.size(); ++i) {
        const TokenLogprob entry = {static_cast<TokenId>(i), unmodified_[i]};
        if (!std::isfinite(entry.logprob) ||
            (best.size() == n_wanted && !is_better(entry, best.front()))) {
            continue;
        }
        best.push_back(entry);
        std::push_heap(best.begin(), best.end(), is_better);
        if (best.size() > n_wanted) {
            std::pop_heap(best.begin(), best.end(), is_better);
            best.pop_back();
        }
    }
    std::sort_heap(best.begin(), best.end(), is_better);
    for (TokenLogprob& entry : best) {
        entry.logprob = logprob_at(unmodified_, entry.id, normalizer);
    }
}

Result<Sample> Sampler::sample(std::span<float> logits) {
    if (options_.top_logprobs >= 0) {
        BALLAST_CHECK(logits.size() == unmodified_.size());
        std::copy(logits.begin(), logits.end(), unmodified_.begin());
    }
    apply_bias(logits);
    if (has_penalties()) {
        BALLAST_CHECK(logits.size() == is_seen_.size());
        apply_penalties(logits);
    }
    Sample sample;
    sample.id = arg_max(logits);
    if (sample.id < 0) {
        if (!options_.logit_bias.empty()) {
            return fail(ErrorCode::kInvalidRequest, "logit_bias leaves no token to choose.");
        }
        return fail(ErrorCode::kInternal,
                    "No token can be chosen: every logit is banned or not a finite number.");
    }
    // Written so that a NaN gives the most probable token.
    if (options_.temperature > 0.0F) {
        weigh(logits, logits[static_cast<std::size_t>(sample.id)]);
        keep_top_k();
        keep_top_p();
        keep_min_p();
        sample.id = draw();
    }
    if (options_.top_logprobs >= 0) {
        report_logprobs(sample);
    }
    count(sample.id, true);
    return sample;
}

}  // namespace ballast::sampling
