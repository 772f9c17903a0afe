// SPDX-License-Identifier: MIT
#include "tests/scheduler/reference/instances.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "engine/base/check.h"
#include "scheduler/profile/profile_store.h"

namespace ballast::test {

namespace {

using scheduler::GroupKind;
using scheduler::GroupPlacement;
using scheduler::HardwareProfile;
using scheduler::TensorCatalog;
using scheduler::TensorGroup;

constexpr double kGiga = 1e9;

double between(Rng& rng, double low, double high) {
    return low + (high - low) * rng.uniform();
}

/// Each doubling as likely as another.
double between_log(Rng& rng, double low, double high) {
    return low * std::pow(high / low, rng.uniform());
}

int whole(Rng& rng, int low, int high) {
    return low + static_cast<int>(rng.below(static_cast<std::uint64_t>(high - low + 1)));
}

bool chance(Rng& rng, double probability) {
    return rng.uniform() < probability;
}

template <class T>
T one_of(Rng& rng, std::initializer_list<T> values) {
    return values.begin()[rng.below(values.size())];
}

std::uint64_t bytes(double value) {
    return static_cast<std::uint64_t>(std::llround(value));
}

HardwareProfile random_hardware(Rng& rng) {
    HardwareProfile h;
    h.name = "random";
    h.unified_memory = chance(rng, 0.2);
    h.cpu_read_gbps = between_log(rng, 20, 90);
    if (h.unified_memory) {
        h.name = "random unified";
        h.device_read_gbps = between_log(rng, 60, 500);
        const double most = h.device_read_gbps + h.cpu_read_gbps;
        h.dram_gbps = between(rng, std::max(h.device_read_gbps, h.cpu_read_gbps), most);
    } else {
        h.device_read_gbps = between_log(rng, 60, 1800);
        h.link_gbps = between_log(rng, 2, 60);
        h.dram_gbps =
            between(rng, std::max(h.cpu_read_gbps, h.link_gbps), h.cpu_read_gbps + h.link_gbps);
    }
    h.device_memory_gb = 24;
    h.hop_us = between_log(rng, 5, 120);
    h.device_tflops = h.device_read_gbps * between(rng, 0.05, 0.2);
    h.cpu_tflops = between(rng, 0.5, 3);
    h.expert_prefill_factor = between(rng, 0.3, 0.9);
    h.ram_gb = 128;
    return h;
}

TensorGroup make_attention(int layer, double weight_bytes, double bytes_per_weight, int width) {
    TensorGroup group;
    group.kind = GroupKind::kAttention;
    group.layer = layer;
    group.parts = 8;
    group.weight_bytes = bytes(weight_bytes);
    group.weights = bytes(weight_bytes / bytes_per_weight);
    group.kv_bytes_per_token = 8 * 128 * 2 * 2;  // heads, length, keys and values, 16 bits
    group.attention_width = width;
    return group;
}

TensorGroup make_feed_forward(int layer, double weight_bytes, double bytes_per_weight, int parts) {
    TensorGroup group;
    group.layer = layer;
    group.parts = parts;
    group.weight_bytes = bytes(weight_bytes);
    group.weights = bytes(weight_bytes / bytes_per_weight);
    return group;
}

TensorGroup make_head(double weight_bytes, double bytes_per_weight) {
    TensorGroup group = make_feed_forward(-1, weight_bytes, bytes_per_weight, 128);
    group.kind = GroupKind::kHead;
    return group;
}

/// Weights of a layer with this width, about: attention and a feed-forward of 3.5 times the width.
int width_of(double weights_per_layer) {
    return std::max(256, static_cast<int>(std::sqrt(weights_per_layer / 13.0) / 256.0) * 256);
}

/// Some families see a window in every other layer.
void slide_windows(Rng& rng, TensorCatalog& catalog) {
    if (!chance(rng, 0.25)) {
        return;
    }
    const int window = one_of(rng, {128, 1024, 4096});
    for (TensorGroup& group : catalog.groups) {
        if (group.kind == GroupKind::kAttention && group.layer % 2 == 0) {
            group.window = window;
        }
    }
}

TensorGroup make_experts(Rng& rng, int layer, double expert_bytes, double bytes_per_weight) {
    TensorGroup group;
    group.kind = GroupKind::kExperts;
    group.layer = layer;
    group.expert_bytes = bytes(expert_bytes);
    group.expert_weights = bytes(expert_bytes / bytes_per_weight);
    group.parts = 1 << whole(rng, 4, 9);
    group.experts_used = std::min(whole(rng, 1, 10), group.parts / 2);
    return group;
}

std::string describe(const Instance& instance, std::uint64_t seed) {
    return fmt::format("seed {}: {}, {}, {:.2f} GB budget, context {}{}, locality {}",
                       seed,
                       instance.hardware.name,
                       instance.catalog.name,
                       static_cast<double>(instance.budget_bytes) / kGiga,
                       instance.context,
                       instance.blocking_hops ? ", blocking hops" : "",
                       static_cast<int>(instance.locality));
}

void draw_use(Rng& rng, Instance& instance) {
    instance.context = 1 << whole(rng, 11, 15);  // 2k to 32k
    instance.depth = instance.context / 2;
    instance.prefill_tokens = std::min(1 << whole(rng, 5, 12), instance.context / 2);
    instance.decode_tokens = whole(rng, 16, 512);
    instance.locality = one_of(rng, {Locality::kUniform, Locality::kWeak, Locality::kStrong});
    instance.blocking_hops = chance(rng, 0.3);
}

}  // namespace

HardwareProfile draw_hardware(Rng& rng) {
    const std::vector<std::string> names = scheduler::stored_hardware_names();
    if (chance(rng, 0.5)) {
        return random_hardware(rng);
    }
    const auto stored = scheduler::stored_hardware(names[rng.below(names.size())]);
    BALLAST_CHECK(stored);
    return *stored;
}

TensorCatalog draw_dense_model(Rng& rng) {
    const double total = between_log(rng, 2, 60) * kGiga;
    const double bytes_per_weight = between(rng, 4.5, 8.5) / 8.0;
    TensorCatalog catalog;
    catalog.n_layers =
        std::max(1, static_cast<int>(std::lround(32.0 * std::pow(total / 4.9e9, 0.45))));
    catalog.width = width_of(total / bytes_per_weight / catalog.n_layers);
    const double vocabulary = one_of(rng, {32'000.0, 128'256.0, 151'936.0});
    const double head = std::min(vocabulary * catalog.width * bytes_per_weight, 0.15 * total);
    const double layer = (total - head) / catalog.n_layers;
    const double attention = layer * between(rng, 0.15, 0.35);
    const int parts = whole(rng, 56, 224);
    // As in mixed quantisations some layers may weigh more than others.
    const double heavier = chance(rng, 0.5) ? between(rng, 1.05, 1.25) : 1.0;
    for (int i = 0; i < catalog.n_layers; ++i) {
        const double scale = i % 3 == 2 ? heavier : 1.0;
        catalog.groups.push_back(make_attention(i, attention, bytes_per_weight, catalog.width));
        catalog.groups.push_back(
            make_feed_forward(i, (layer - attention) * scale, bytes_per_weight, parts));
    }
    slide_windows(rng, catalog);
    catalog.groups.push_back(make_head(head, bytes_per_weight));
    catalog.embedding_bytes = bytes(head);
    catalog.name = fmt::format("dense {:.1f} GB, {} layers, {} parts",
                               static_cast<double>(catalog.total_bytes()) / kGiga,
                               catalog.n_layers,
                               parts);
    return catalog;
}

TensorCatalog draw_expert_model(Rng& rng) {
    const double total = between_log(rng, 8, 120) * kGiga;
    const double bytes_per_weight = between(rng, 4.25, 5.0) / 8.0;
    TensorCatalog catalog;
    catalog.n_layers = whole(rng, 24, 64);
    catalog.width = 256 * whole(rng, 8, 24);
    const double layer = total / catalog.n_layers;
    const double square = static_cast<double>(catalog.width) * catalog.width * bytes_per_weight;
    const double attention = std::min(square * between(rng, 1.5, 4.0), 0.15 * layer);
    TensorGroup experts = make_experts(rng, 0, 0.0, bytes_per_weight);
    const double expert = 0.85 * layer / experts.parts;
    experts.expert_bytes = bytes(expert);
    experts.expert_weights = bytes(expert / bytes_per_weight);
    const double router = 4.0 * catalog.width * experts.parts;  // 32 bits a weight
    const double shared = chance(rng, 0.5) ? expert * between(rng, 0.5, 4.0) : 0.0;
    experts.weight_bytes = bytes(router + shared);
    experts.weights = bytes(router / 4.0 + shared / bytes_per_weight);
    const bool first_dense = chance(rng, 0.25);
    for (int i = 0; i < catalog.n_layers; ++i) {
        catalog.groups.push_back(make_attention(i, attention, bytes_per_weight, catalog.width));
        experts.layer = i;
        catalog.groups.push_back(i == 0 && first_dense
                                     ? make_feed_forward(i, 3.0 * square, bytes_per_weight, 64)
                                     : experts);
    }
    slide_windows(rng, catalog);
    const double head = 151'936.0 * catalog.width * bytes_per_weight;
    catalog.groups.push_back(make_head(head, bytes_per_weight));
    catalog.embedding_bytes = bytes(head);
    catalog.name = fmt::format("experts {:.1f} GB, {} layers, {} of {}{}",
                               static_cast<double>(catalog.total_bytes()) / kGiga,
                               catalog.n_layers,
                               experts.experts_used,
                               experts.parts,
                               shared > 0.0 ? " and a shared one" : "");
    return catalog;
}

TensorCatalog draw_chain(Rng& rng, int groups, bool with_experts) {
    constexpr double kBytesPerWeight = 4.8 / 8.0;
    TensorCatalog catalog;
    catalog.width = 256 * whole(rng, 4, 16);
    catalog.n_layers = std::max(1, (groups - 1) / 2);
    const bool alike = chance(rng, 0.5);
    double scale = between_log(rng, 0.2, 20.0);  // around what a hop takes, and far above
    for (int i = 0; i + 1 < groups; ++i) {
        if (!alike) {
            scale = between_log(rng, 0.2, 20.0);
        }
        const int layer = i / 2;
        if (i % 2 == 0) {
            catalog.groups.push_back(
                make_attention(layer, 12e6 * scale, kBytesPerWeight, catalog.width));
        } else if (with_experts && chance(rng, 0.7)) {
            TensorGroup experts = make_experts(rng, layer, 2e6 * scale, kBytesPerWeight);
            experts.weight_bytes =
                bytes(4.0 * catalog.width * experts.parts + (chance(rng, 0.5) ? 3e6 * scale : 0.0));
            experts.weights = experts.weight_bytes;
            catalog.groups.push_back(experts);
        } else {
            catalog.groups.push_back(
                make_feed_forward(layer, 40e6 * scale, kBytesPerWeight, whole(rng, 1, 224)));
        }
    }
    catalog.groups.push_back(make_head(60e6 * scale, kBytesPerWeight));
    catalog.name = fmt::format("chain of {}{}", groups, catalog.has_experts() ? ", experts" : "");
    return catalog;
}

Instance draw_instance(std::uint64_t seed) {
    Rng rng(seed);
    Instance instance;
    instance.hardware = draw_hardware(rng);
    instance.catalog = chance(rng, 0.5) ? draw_dense_model(rng) : draw_expert_model(rng);
    instance.budget_bytes = bytes(between_log(rng, 1.5, 24) * kGiga);
    draw_use(rng, instance);
    instance.name = describe(instance, seed);
    return instance;
}

Instance draw_small_instance(std::uint64_t seed, const SmallLimits& limits) {
    Rng rng(seed);
    Instance instance;
    do {
        instance.hardware = draw_hardware(rng);
    } while (instance.hardware.unified_memory && !limits.unified);
    const int groups = whole(rng, limits.groups_min, limits.groups_max);
    instance.catalog = draw_chain(rng, groups, limits.experts && chance(rng, 0.5));
    draw_use(rng, instance);
    const double all = static_cast<double>(instance.catalog.total_bytes()) +
                       static_cast<double>(instance.catalog.kv_bytes_per_token()) *
                           static_cast<double>(instance.context);
    instance.budget_bytes = bytes(all * between(rng, 0.05, 1.1));
    instance.name = describe(instance, seed);
    return instance;
}

std::vector<std::vector<GroupPlacement>> draw_options(Rng& rng,
                                                      const TensorCatalog& catalog,
                                                      int most) {
    std::vector<std::vector<GroupPlacement>> all;
    for (const TensorGroup& group : catalog.groups) {
        const bool shared = group.kind == GroupKind::kExperts;
        std::vector<GroupPlacement> options = {
            {}, {.resident = group.parts, .shared_on_device = shared}};
        if (shared) {
            options.push_back({.shared_on_device = true});
        }
        const int wanted = whole(rng, 2, most);
        while (static_cast<int>(options.size()) < std::min(wanted, group.parts + 1)) {
            const GroupPlacement placed = {.resident = whole(rng, 1, group.parts),
                                           .shared_on_device = shared};
            if (std::find(options.begin(), options.end(), placed) == options.end()) {
                options.push_back(placed);
            }
        }
        all.push_back(std::move(options));
    }
    return all;
}

}  // namespace ballast::test
