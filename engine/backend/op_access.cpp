// SPDX-License-Identifier: MIT
// One function an op.
#include "engine/backend/op_access.h"

#include <variant>

namespace ballast::backend {

OpAccess::OpAccess(const Op& op) {
    std::visit([this](const auto& known) { note(known); }, op);
}

void OpAccess::note(const Embed& op) {
    units_.add(op.table);
    writes_.add(op.out);
}

void OpAccess::note(const RmsNorm& op) {
    units_.add(op.weight);
    reads_.add(op.in);
    writes_.add(op.out);
}

void OpAccess::note(const Linear& op) {
    reads_.add(op.in);
    for (std::size_t i = 0; i < static_cast<std::size_t>(op.n_matrices); ++i) {
        units_.add(op.weights[i]);
        writes_.add(op.outs[i]);
    }
}

void OpAccess::note(const Rope& op) {
    for (const SlotId slot : {op.q, op.k}) {
        reads_.add(slot);
        writes_.add(slot);
    }
}

void OpAccess::note(const Attention& op) {
    for (const SlotId slot : {op.q, op.k, op.v}) {
        reads_.add(slot);
    }
    writes_.add(op.out);
}

void OpAccess::note(const GatedActivation& op) {
    reads_.add(op.gate);
    reads_.add(op.up);
    writes_.add(op.out);
}

void OpAccess::note(const Add& op) {
    reads_.add(op.x);
    reads_.add(op.y);
    writes_.add(op.x);
}

void OpAccess::note(const Router& op) {
    units_.add(op.weight);
    reads_.add(op.in);
    writes_.add(op.choice);
}

void OpAccess::note(const Experts& op) {
    for (const UnitId unit : {op.gate, op.up, op.down}) {
        units_.add(unit);
    }
    reads_.add(op.in);
    reads_.add(op.choice);
    writes_.add(op.out);
}

void OpAccess::note(const GatherOutputs& op) {
    reads_.add(op.in);
    writes_.add(op.out);
}

}  // namespace ballast::backend
