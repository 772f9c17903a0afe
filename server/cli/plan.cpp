// SPDX-License-Identifier: MIT
// `ballast plan`: how a model would run on a machine, from a file's header or a shape.
#include <cstdio>
#include <string>

#include <fmt/format.h>

#include "scheduler/profile/model_store.h"
#include "scheduler/profile/profile_store.h"
#include "server/cli/commands.h"
#include "server/cli/plan_question.h"
#include "server/cli/plan_report.h"
#include "server/cli/report.h"

namespace ballast::cli {

namespace {

Status list() {
    fmt::print("Machines, assumed figures (--hardware NAME):\n");
    for (const std::string& name : scheduler::stored_hardware_names()) {
        BALLAST_TRY(const auto hardware, scheduler::stored_hardware(name));
        fmt::print("  {:<20}{}\n", name, hardware.description);
    }
    fmt::print("\nShapes of models (NAME or NAME:QUANT; {}):\n",
               fmt::join(scheduler::shape_quants(), ", "));
    for (const std::string& name : scheduler::stored_model_names()) {
        BALLAST_TRY(const auto shape, scheduler::stored_model(name));
        BALLAST_TRY(const auto catalog, scheduler::catalog_of(shape, ""));
        fmt::print(
            "  {:<20}{:>9}  {}\n", name, format_bytes(catalog.total_bytes()), shape.description);
    }
    return {};
}

Status run(const PlanArgs& args, const config::Environment& environment) {
    if (args.list) {
        return list();
    }
    BALLAST_TRY(const AskedPlan asked, ask_plan(args, environment));
    const scheduler::PlanAnswer answer = scheduler::answer(asked.question);
    if (args.json) {
        fmt::print("{}\n", plan_json(asked.question, answer));
    } else {
        print_plan(asked.question, answer);
    }
    return {};
}

}  // namespace

int plan(const PlanArgs& args, const config::Environment& environment) {
    const Status status = run(args, environment);
    return status ? kExitSuccess : report(status.error());
}

}  // namespace ballast::cli
