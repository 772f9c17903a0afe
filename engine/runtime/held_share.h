// SPDX-License-Identifier: MIT
// Carries out on a running engine what the scheduler's rule says of the device's share: pieces of
// groups go at once and come beside the steps.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/result.h"
#include "engine/runtime/compute.h"
#include "scheduler/share_rule.h"

namespace ballast::runtime {

/// What has moved since the last time that it was asked for.
struct ShareMoves {
    std::uint64_t given_bytes = 0;       // of the device
    std::vector<std::size_t> gone = {};  // groups, wholly or in part, in order
    std::vector<std::size_t> come = {};
    std::uint64_t come_bytes = 0;
    int n_kv_layers_out = 0;  // keys and values that went to the host
    int n_kv_layers_in = 0;
    bool cancelled = false;  // an upload, before all of it had arrived

    void add(ShareMoves more);
    /// For people: ": the feed-forward of layers 3 and 4 went, …"; "" if nothing has moved.
    std::string sentence(const scheduler::TensorCatalog& catalog) const;
    bool any() const { return given_bytes > 0 || !gone.empty() || !come.empty() || cancelled; }
};

/// Engine thread, between two steps. What it is made of outlives it.
class HeldShare final : public scheduler::ShareKeeper {
  public:
    explicit HeldShare(Compute& compute);

    const scheduler::Placement& kept() const override { return kept_; }
    const scheduler::Placement& executed() const override { return executed_; }
    bool uploading() const override;
    int n_changes() const override { return n_changes_; }
    std::uint64_t held_bytes() const override;
    std::uint64_t overhead_bytes() const override;
    scheduler::Placement as_droppable(scheduler::Placement placement) const override;
    void keep(const scheduler::Placement& kept) override;
    void execute(const scheduler::Placement& executed) override;
    void upload(const std::vector<scheduler::ResidencyGrowth>& growth) override;
    void cancel_upload() override;

    /// Most bytes of ours on the device from now on. Nothing is taken beyond, and nothing goes by
    /// itself.
    void set_budget(std::uint64_t bytes) { budget_ = bytes; }
    /// Takes note of what has arrived, and orders more of the upload. False: the device gave no
    /// memory for it, so that the rest is cancelled.
    Result<bool> advance();
    /// Makes the next step what the rule has asked for, and what it streams in prompts what the
    /// plan says. False: the device gave no memory for all of it.
    Result<bool> commit(const scheduler::Placement& plan);
    /// Whether there is something for commit() to do.
    bool is_changed() const { return changed_; }
    /// Nothing is on the device any more.
    void reset();
    /// What could not be had is asked for again.
    void try_again();
    ShareMoves take_moves() { return std::exchange(moves_, {}); }

  private:
    /// Of a piece that is on its way, as the scheduler counts.
    struct Arriving {
        std::size_t group = 0;
        std::uint64_t weight_bytes = 0;
        std::uint64_t kv_bytes = 0;
    };
    Result<bool> advance_by(std::uint64_t bytes_most);
    void refresh();
    bool is_attention(std::size_t group) const;
    std::uint64_t kv_bytes_of_part(std::size_t group) const;
    std::uint64_t kv_due_bytes() const;
    /// Keys and values of heads that do not attend on the device any more go to the host.
    Status send_kv_home();
    Status move_kv(int layer, int n_on_device);
    /// Those of heads that do now come. False: there was no room for some.
    Result<bool> bring_kv();

    Compute& compute_;
    scheduler::Placement kept_;
    scheduler::Placement executed_;
    std::vector<Arriving> arriving_;
    std::uint64_t budget_ = 0;
    int n_changes_ = 0;
    bool changed_ = false;
    bool kv_moves_ = false;  // since the last commit()
    Status failure_ = {};    // of what the rule asked for; the next call here gives it
    ShareMoves moves_;
};

}  // namespace ballast::runtime
