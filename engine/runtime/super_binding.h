// SPDX-License-Identifier: MIT
// A program for prompts bound to memory for a super-chunk: what lives from one stage to the next
// has rows for all micro-batches, on the host; everything else is the memory of a step, used by one
// micro-batch after the other. And a program for generated tokens, whose steps run in between and
// stream through places of the ring of their own.
#pragma once

#include <memory>
#include <vector>

#include "engine/runtime/step_binding.h"
#include "engine/runtime/super_stages.h"
#include "engine/runtime/weight_ring.h"

namespace ballast::runtime {

/// Engine thread. What it is made of outlives it.
class SuperBinding {
  public:
    struct Parts {
        const model::Model& model;
        backend::Backend& cpu;
        DeviceSide& device;
        const StepBinding& steps;
    };
    /// For so many rows. Null where nothing streams in prompts. kOutOfMemory.
    static Result<std::unique_ptr<SuperBinding>> create(const Parts& parts, int rows);
    ~SuperBinding();
    SuperBinding(const SuperBinding&) = delete;
    SuperBinding& operator=(const SuperBinding&) = delete;

    int rows() const { return rows_; }
    const SuperStages& stages() const { return stages_; }
    /// The program for prompts, with the rows of one micro-batch, which begin at first_row. What is
    /// not carried is where it is for a step.
    BoundStep& at(const backend::StepInput& input, int first_row);
    /// Angles of these rows, once before their first stage.
    void fill_rope(const backend::StepInput& input, int first_row);
    /// Host memory of what the device needs of earlier stages: a memory's rows from this one on.
    float* carried_on_host(backend::SlotId memory, int first_row) const;

    WeightRing& ring() { return *ring_; }
    const WeightRing& ring() const { return *ring_; }
    /// The program of generated tokens, if it streams; null: the one of steps will do.
    BoundStep* between() { return between_ring_ != nullptr ? &between_ : nullptr; }
    WeightRing& between_ring() { return *between_ring_; }

  private:
    SuperBinding(const Parts& parts, int rows) : parts_(parts), rows_(rows) {}
    Status allocate();
    /// A step that streams through places of another ring.
    void rebind(const BoundStep& step, const WeightRing& ring, BoundStep& to) const;

    Parts parts_;
    int rows_;
    SuperStages stages_;
    BoundStep step_;
    BoundStep between_;
    std::unique_ptr<WeightRing> ring_;
    std::unique_ptr<WeightRing> between_ring_;   // null: nothing streams between
    std::vector<float*> on_cpu_;                 // by memory; null: not carried
    std::vector<float*> of_device_;              // likewise
    std::vector<backend::Chunk> chunks_;         // the CPU's
    std::vector<backend::Chunk> host_chunks_;    // the device's, on the host
    std::vector<RopeAngles> rope_;               // of all rows
    std::vector<backend::RopeView> rope_views_;  // of the rows at hand
};

}  // namespace ballast::runtime
