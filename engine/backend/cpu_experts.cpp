// SPDX-License-Identifier: MIT
// Mixture of experts: the router's choice, then each expert over the rows that chose it. Rows of
// the two arithmetic classes are grouped apart, and a row's experts are summed in the order of
// their ranks, so that a row's result does not depend on its neighbours. Experts that are not on
// this side are left out.
#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/backend/cpu_backend.h"
#include "engine/backend/cpu_parallel.h"
#include "engine/backend/expert_choice.h"
#include "engine/base/check.h"

namespace ballast::backend {

namespace {

/// The n_used most probable experts under a softmax over all; weights divided by their sum.
void choose_experts(std::span<float> logits, ExpertChoice choice) {
    const float max = *std::max_element(logits.begin(), logits.end());
    float sum = 0.0F;
    for (float& logit : logits) {
        logit = std::exp(logit - max);
        if (std::isnan(logit)) {
            // It compares as neither more nor less, so the same expert would be chosen again. The
            // row still becomes not a number, by its weights.
            logit = 0.0F;
            sum = std::numeric_limits<float>::quiet_NaN();
        }
    }
    const auto n_experts = static_cast<int>(logits.size());
    for (std::size_t rank = 0; rank < choice.n_used(); ++rank) {
        // max_element takes the first of equals, so ties go to the lower number.
        const auto best = std::max_element(logits.begin(), logits.end());
        choice.set(rank, static_cast<int>(best - logits.begin()), *best);
        sum += *best;
        *best = -1.0F;
    }
    for (std::size_t rank = 0; rank < choice.n_used(); ++rank) {
        choice.set(rank, choice.expert(rank, n_experts), choice.weight(rank) / sum);
    }
}

/// The expert that the router put at this rank of the row.
int chosen(const ExpertChoice& choice, std::size_t rank, int n_experts) {
    const int expert = choice.expert(rank, n_experts);
    BALLAST_CHECK(expert >= 0);
    return expert;
}

}  // namespace

void CpuBackend::run(const Router& op, Rows rows, const StepContext& context) {
    const SlotView& in = context.slots[index_of(op.in)];
    const Matrix matrix{.weight = context.weights[index_of(op.weight)],
                        .out = routing_.logits.data(),
                        .out_stride = index_of(op.n_experts)};
    multiply({&matrix, 1}, in.data, in.width, rows);
    const SlotView& choice = context.slots[index_of(op.choice)];
    const auto n_experts = index_of(op.n_experts);
    for (int row = 0; row < rows.n; ++row) {
        choose_experts({routing_.logits.data() + index_of(row) * n_experts, n_experts},
                       {choice, row, op.n_used});
    }
}

void CpuBackend::run(const Experts& op, Rows rows, const StepContext& context) {
    if (rows.n_decode > 0) {
        run_experts(op, context, {.first = 0, .n = rows.n_decode, .decode = true});
    }
    if (rows.n > rows.n_decode) {
        run_experts(
            op, context, {.first = rows.n_decode, .n = rows.n - rows.n_decode, .decode = false});
    }
    const SlotView& out = context.slots[index_of(op.out)];
    const ExpertSlices slices = context.expert_slices(op.layer);
    const auto width = index_of(op.width);
    const auto n_used = index_of(op.n_used);
    for_each(rows.n, width * n_used, [&](int row) {
        const ExpertChoice choice(context.slots[index_of(op.choice)], row, op.n_used);
        float* y = out.row(index_of(row));
        std::fill(y, y + width, 0.0F);
        for (std::size_t rank = 0; rank < n_used; ++rank) {
            if (slices.of(chosen(choice, rank, op.n_experts)) < 0) {
                continue;
            }
            const std::size_t member = index_of(row) * n_used + rank;
            const float weight = choice.weight(rank);
            const float* x = routing_.outputs.data() + member * width;
            for (std::size_t i = 0; i < width; ++i) {
                y[i] += weight * x[i];
            }
        }
    });
}

void CpuBackend::group_by_expert(const Experts& op,
                                 const StepContext& context,
                                 const ClassRows& rows) {
    const SlotView& choice = context.slots[index_of(op.choice)];
    const ExpertSlices slices = context.expert_slices(op.layer);
    // The expert of a member, −1 if it is not here.
    const auto expert_here = [&](int member) {
        const ExpertChoice of_row(choice, member / op.n_used, op.n_used);
        const int expert = chosen(of_row, index_of(member % op.n_used), op.n_experts);
        return slices.of(expert) < 0 ? -1 : expert;
    };
    const int begin = rows.first * op.n_used;
    const int end = (rows.first + rows.n) * op.n_used;
    std::fill(routing_.first.begin(), routing_.first.end(), 0);
    for (int member = begin; member < end; ++member) {
        if (const int expert = expert_here(member); expert >= 0) {
            ++routing_.first[index_of(expert) + 1];
        }
    }
    for (std::size_t expert = 0; expert < index_of(op.n_experts); ++expert) {
        routing_.first[expert + 1] += routing_.first[expert];
    }
    const std::int32_t n_members = routing_.first[index_of(op.n_experts)];
    // Filling moves each end to its start; walking backwards keeps members in rising order.
    for (int member = end - 1; member >= begin; --member) {
        if (const int expert = expert_here(member); expert >= 0) {
            const auto place = --routing_.first[index_of(expert) + 1];
            routing_.members[index_of(place)] = member;
        }
    }
    // first[e + 1] is now the start of e.
    std::copy(routing_.first.begin() + 1, routing_.first.end(), routing_.first.begin());
    routing_.first[index_of(op.n_experts)] = n_members;
}

void CpuBackend::run_experts(const Experts& op, const StepContext& context, const ClassRows& rows) {
    group_by_expert(op, context, rows);
    const ExpertSlices slices = context.expert_slices(op.layer);
    const SlotView& in = context.slots[index_of(op.in)];
    const auto width = index_of(op.width);
    const auto ffn_width = index_of(op.ffn_width);
    const auto activate =
        op.activation == Activation::kSilu ? kernels_.silu_multiply : kernels_.gelu_multiply;
    for (std::size_t expert = 0; expert < index_of(op.n_experts); ++expert) {
        const int begin = routing_.first[expert];
        const int n = routing_.first[expert + 1] - begin;
        if (n == 0) {
            continue;
        }
        const std::int32_t* members = routing_.members.data() + begin;
        const std::size_t slice = index_of(slices.of(static_cast<int>(expert)));
        BALLAST_DCHECK(slice < context.weights[index_of(op.gate)].n_slices);
        for (int i = 0; i < n; ++i) {
            const float* x = in.row(index_of(members[i] / op.n_used));
            std::copy(x, x + width, routing_.inputs.data() + index_of(i) * width);
        }
        const Rows class_rows{.n = n, .n_decode = rows.decode ? n : 0};
        const std::array<Matrix, 2> first = {
            Matrix{context.weights[index_of(op.gate)], slice, routing_.gate.data(), ffn_width},
            Matrix{context.weights[index_of(op.up)], slice, routing_.up.data(), ffn_width}};
        multiply(first, routing_.inputs.data(), width, class_rows);
        for_each(n, ffn_width * 8, [&](int i) {
            float* gate = routing_.gate.data() + index_of(i) * ffn_width;
            activate(gate, routing_.up.data() + index_of(i) * ffn_width, ffn_width, gate);
        });
        const Matrix second{
            context.weights[index_of(op.down)], slice, routing_.results.data(), width};
        multiply({&second, 1}, routing_.gate.data(), ffn_width, class_rows);
        for (int i = 0; i < n; ++i) {
            const float* y = routing_.results.data() + index_of(i) * width;
            std::copy(y, y + width, routing_.outputs.data() + index_of(members[i]) * width);
        }
    }
}

}  // namespace ballast::backend
