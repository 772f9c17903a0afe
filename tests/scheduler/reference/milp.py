# SPDX-License-Identifier: MIT
"""The best division of a short chain as a mixed-integer linear program, solved by HiGHS: an oracle
for the planner's tests, which shares no code with it (docs/scheduling.md has the model).

Usage: milp.py [FILE]: one problem or a list of them as JSON, from the file or from standard input;
prints the answer or the list of answers as JSON.

A problem: hop_seconds, link_bytes_per_second, budget_bytes, tile_bytes, ring_tiles, blocking_hops,
time_limit_seconds, and groups, a list of lists of options: kind ("device", "cpu", "both"), g and c
(seconds of either share), streamed_bytes, tile_seconds (of the device on one tile), v_bytes (device
memory without the ring) and blocked_seconds (of the lane, while the CPU works on the option).
An answer: status ("optimal", "limit" of time or nodes, "infeasible", "gave up"), objective and
choice (null if nothing was found), bound (no choice is faster by this formulation). Six groups with
some 200 options each take seconds; with ten the limits may leave 10% between objective and bound.

Of the lane there is the balance, that what crosses in a step and the time in which it cannot cross
fit into the step, and the same for every stretch of groups, in which as much less has to cross as
the ring holds. Single tiles are not here, so that the steps that a choice really takes may be
longer; their mean is not shorter.
Experts are left out: the probability of a miss depends on the option, and its product with the
time of the state before is not linear."""

import json
import math
import multiprocessing
import os
import queue
import sys

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array

# Stops the few problems that take very long at the same place on every machine; the limit of time
# is there for machines that are busy.
NODES_MAX = 1000


class Rows:
    """Rows `sum of coefficient * variable >= low`, collected one by one."""

    def __init__(self):
        self.entries, self.low, self.high = [], [], []

    def add(self, terms, low, high=np.inf):
        row = len(self.low)
        self.entries += [(row, column, value) for column, value in terms if value != 0.0]
        self.low.append(low)
        self.high.append(high)

    def constraint(self, n_columns):
        rows, columns, values = (np.array(x) for x in zip(*self.entries))
        matrix = csr_array((values, (rows, columns)), shape=(len(self.low), n_columns))
        return LinearConstraint(matrix, self.low, self.high)


class Model:
    """In units in which the slowest of all takes about 1000 and the budget is 1000, so that the
    solver's absolute tolerances mean little."""

    def __init__(self, problem):
        self.problem = problem
        longest = sum(max(o["g"] + o["c"] for o in options) for options in problem["groups"])
        self.per_second = 1000.0 / longest
        self.per_byte = 1000.0 / max(problem["budget_bytes"], 1)
        self.tau = problem["hop_seconds"] * self.per_second
        self.groups = problem["groups"]
        self.columns = []  # (lower bound, upper bound, whole)
        self.rows = Rows()
        self.chosen = [[self.column(0, 1, True) for _ in options] for options in self.groups]
        for columns in self.chosen:
            self.rows.add([(y, 1.0) for y in columns], 1.0, 1.0)
        self.end = self.column()
        self.ring = self.column(0.0, problem["ring_tiles"] * problem["tile_bytes"] * self.per_byte)

    def column(self, low=0.0, high=np.inf, whole=False):
        self.columns.append((low, high, whole))
        return len(self.columns) - 1

    def sum(self, i, value):
        """Minus the sum of value(option) over the options of group i."""
        return [(y, -value(option)) for y, option in zip(self.chosen[i], self.groups[i])]

    def add_memory(self):
        problem = self.problem
        ring = self.ring

        def piece(o):
            tile = min(o["streamed_bytes"], problem["tile_bytes"])
            return problem["ring_tiles"] * tile * self.per_byte

        for i in range(len(self.groups)):
            self.rows.add([(ring, 1.0)] + self.sum(i, piece), 0.0)
        taken = [term for i in range(len(self.groups))
                 for term in self.sum(i, lambda o: o["v_bytes"] * self.per_byte)]
        self.rows.add(taken + [(ring, -1.0)], -problem["budget_bytes"] * self.per_byte)

    def add_lane(self):
        link = self.problem["link_bytes_per_second"]

        def taken(o):
            return (o["streamed_bytes"] / link + o["blocked_seconds"]) * self.per_second

        terms = [term for i in range(len(self.groups)) for term in self.sum(i, taken)]
        self.rows.add([(self.end, 1.0)] + terms, 0.0)

    def add_ring(self, usable, done):
        """usable: the terms of the time at which the device has the residual, before each group;
        done: the variable of the time at which it is through with its share of each.

        When the device has done all before group j, no more has crossed of what j and later groups
        stream than the ring holds: at most its bytes, and of j and what follows at most its number
        of tiles. The rest of what j to k stream crosses before k's last tile is computed, and all
        that the CPU does of j to k - 1 lies in that time too, but for one hop."""
        problem, n = self.problem, len(self.groups)
        link = problem["link_bytes_per_second"] * self.per_byte / self.per_second

        def streamed(o):
            return o["streamed_bytes"] * self.per_byte / link

        def blocked(o):
            return o["blocked_seconds"] * self.per_second

        def last_tile(o):
            return o["tile_seconds"] * self.per_second

        def ahead(o):
            tiles = math.ceil(round(o["streamed_bytes"]) / problem["tile_bytes"])
            own = o["streamed_bytes"] * min(1.0, problem["ring_tiles"] / max(tiles, 1))
            others = max(0, problem["ring_tiles"] - tiles) * problem["tile_bytes"]
            return -(own + others) * self.per_byte / link

        for j in range(n):
            # Past the last group comes the first of the next step. A whole round is the balance.
            for k in range(j, j + n - 1):
                terms = [(done[k % n], 1.0)] + ([(self.end, 1.0)] if k >= n else [])
                terms += [(column, -value) for column, value in usable[j]]
                terms += [t for i in range(j, k + 1) for t in self.sum(i % n, streamed)]
                terms += [t for i in range(j, k) for t in self.sum(i % n, blocked)]
                terms += self.sum(k % n, last_tile)
                self.rows.add(terms + [(self.ring, 1.0 / link)], -self.tau)
                self.rows.add(terms + self.sum(j, ahead), -self.tau)

    def add_overlapped(self):
        """(device, cpu) after each group. Each side's time and the other's differ by a hop at most,
        which gives what holds for the side that does not compute."""
        tau = self.tau

        def by_kind(device, cpu, both):
            def value(o):
                g, c = o["g"] * self.per_second, o["c"] * self.per_second
                return {"device": device, "cpu": cpu, "both": both}[o["kind"]](g, c)
            return value

        share = by_kind(lambda g, c: g, lambda g, c: 0.0, lambda g, c: g)
        stays = by_kind(lambda g, c: g, lambda g, c: c, lambda g, c: g)
        to_device = by_kind(lambda g, c: g - tau, lambda g, c: c + tau, lambda g, c: c + tau)
        stays_cpu = by_kind(lambda g, c: g, lambda g, c: c, lambda g, c: c)
        to_cpu = by_kind(lambda g, c: tau, lambda g, c: c - tau, lambda g, c: tau)

        device, cpu = self.column(tau, tau), self.column(0.0, 0.0)
        usable, done = [], []
        for i in range(len(self.groups)):
            share_done, device_after = self.column(), self.column()
            cpu_after = self.end if i + 1 == len(self.groups) else self.column()
            for after, before, value in [
                    (share_done, device, share), (device_after, share_done, lambda o: 0.0),
                    (device_after, device, stays), (device_after, cpu, to_device),
                    (cpu_after, cpu, stays_cpu), (cpu_after, share_done, to_cpu)]:
                self.rows.add([(after, 1.0), (before, -1.0)] + self.sum(i, value), 0.0)
            usable.append([(device, 1.0)])
            done.append(share_done)
            device, cpu = device_after, cpu_after
        self.add_ring(usable, done)

    def add_blocking(self):
        """One time, the owner's; whether the owner is the CPU; what a change of owners costs."""
        tau = self.tau

        def cost(o):
            g, c = o["g"] * self.per_second, o["c"] * self.per_second
            return {"device": g, "cpu": c, "both": 2 * tau + max(g, c)}[o["kind"]]

        def after_share(o):
            return {"device": 0.0, "cpu": -tau, "both": tau}[o["kind"]]

        now, cpu_owns = self.column(0.0, 0.0), self.column(1.0, 1.0)
        usable, done = [], []
        for i in range(len(self.groups)):
            share_done, after = self.column(), self.column()
            owns_after, change = self.column(0.0, 1.0, True), self.column(0.0, 1.0)
            self.rows.add([(after, 1.0), (now, -1.0), (change, -tau)] + self.sum(i, cost), 0.0)
            self.rows.add([(after, 1.0), (share_done, -1.0)] + self.sum(i, after_share), 0.0)
            self.rows.add([(change, 1.0), (owns_after, -1.0), (cpu_owns, 1.0)], 0.0)
            self.rows.add([(change, 1.0), (owns_after, 1.0), (cpu_owns, -1.0)], 0.0)
            self.rows.add([(owns_after, 1.0)] + self.sum(i, lambda o: o["kind"] == "cpu"), 0.0)
            self.rows.add([(owns_after, -1.0)] + self.sum(i, lambda o: o["kind"] == "device"),
                          -1.0)
            self.rows.add([(change, -1.0)] + self.sum(i, lambda o: o["kind"] == "both"), -1.0)
            usable.append([(now, 1.0), (cpu_owns, tau)])
            done.append(share_done)
            now, cpu_owns = after, owns_after
        self.rows.add([(self.end, 1.0), (now, -1.0), (cpu_owns, tau)], tau)
        self.add_ring(usable, done)

    def solve(self):
        self.add_memory()
        self.add_lane()
        if self.problem["blocking_hops"]:
            self.add_blocking()
        else:
            self.add_overlapped()
        low, high, whole = (np.array(x, dtype=float) for x in zip(*self.columns))
        cost = np.zeros(len(low))
        cost[self.end] = 1.0
        result = milp(cost, integrality=whole, bounds=Bounds(low, high),
                      constraints=self.rows.constraint(len(low)),
                      options={"time_limit": self.problem["time_limit_seconds"],
                               "node_limit": NODES_MAX, "mip_rel_gap": 1e-5})
        answer = {"status": {0: "optimal", 1: "limit", 2: "infeasible"}.get(
                      result.status, result.message),
                  "objective": None, "choice": None, "bound": None}
        if result.get("mip_dual_bound") is not None:
            answer["bound"] = result.mip_dual_bound / self.per_second
        if result.x is not None:
            answer["objective"] = result.fun / self.per_second
            answer["choice"] = [int(np.argmax(result.x[columns])) for columns in self.chosen]
        return answer


def answer_or_give_up(problem):
    """The solver does not look at its clock everywhere, and now and then it never ends."""
    results = multiprocessing.Queue()
    child = multiprocessing.Process(target=lambda: results.put(Model(problem).solve()))
    child.start()
    try:
        return results.get(timeout=2.0 * problem["time_limit_seconds"] + 5.0)
    except queue.Empty:
        return {"status": "gave up", "objective": None, "choice": None, "bound": None}
    finally:
        child.kill()
        child.join()


def main():
    # The solver prints a remark of its own now and then; only the answer may go to our output.
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    multiprocessing.set_start_method("fork")
    with open(sys.argv[1]) if len(sys.argv) > 1 else sys.stdin as file:
        problems = json.load(file)
    if isinstance(problems, dict):
        answer = answer_or_give_up(problems)
    else:
        answer = [answer_or_give_up(problem) for problem in problems]
    with output:
        print(json.dumps(answer), file=output)


if __name__ == "__main__":
    main()
