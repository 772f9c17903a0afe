#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Counts the parameters of each model description here from its dimensions and compares them with
the published counts. Exits 1 if a total is more than 1.5% off, an active count more than 3%, or
the states of a linear attention do not follow from its heads.

A count that was published as a whole number of billions (listed in rounded_to_whole) need only
round to it.

Usage: check.py [FILE...]"""

import json
import pathlib
import sys

TOTAL_LIMIT = 0.015
ACTIVE_LIMIT = 0.03


def selected(rule, n_layers):
    """The layers a rule names: "all", "even", "odd", a list, {first, step}, {period, offsets}."""
    if isinstance(rule, list):
        return rule
    if isinstance(rule, dict) and "step" in rule:
        return list(range(rule["first"], n_layers, rule["step"]))
    if isinstance(rule, dict):
        return [i for i in range(n_layers) if i % rule["period"] in rule["offsets"]]
    first, step = {"all": (0, 1), "even": (0, 2), "odd": (1, 2)}[rule]
    return list(range(first, n_layers, step))


def attention(model):
    """Parameters of one layer of softmax attention."""
    a, d = model["attention"], model["embedding_length"]
    q, kv = a["heads"] * a["head_length"], a["kv_heads"] * a["head_length"]
    n = d * q * (2 if a.get("output_gate") else 1) + 2 * d * kv + q * d
    n += {"none": 0, "qkv": q + 2 * kv, "qkvo": q + 2 * kv + d}[a["bias"]]
    n += 2 * a["head_length"] if a["qk_norm"] else 0
    return n + (a["heads"] if a.get("sinks") else 0)


def linear_attention(model):
    """Parameters of one layer of gated delta rule: qkv, z, beta and alpha, convolution, output."""
    a, d = model["linear_attention"], model["embedding_length"]
    keys, values = a["key_heads"] * a["key_length"], a["value_heads"] * a["value_length"]
    channels = 2 * keys + values
    n = d * channels + d * values + d * 2 * a["value_heads"] + values * d
    return n + a["conv_kernel"] * channels + 2 * a["value_heads"] + a["value_length"]


def experts(model, n_routed):
    """Parameters of one layer of experts of which n_routed are counted."""
    e, d = model["experts"], model["embedding_length"]
    biases = 2 * e["length"] + d if e.get("bias") else 0
    n = n_routed * (3 * d * e["length"] + biases) + 3 * d * e["shared_length"]
    n += d * e["count"] + (e["count"] if e.get("bias") else 0)
    return n + (d if e.get("shared_gate") else 0)


def count(model):
    """(all parameters, those used for one token) of a model."""
    n_layers, d = model["layers"], model["embedding_length"]
    linear = set(selected(model["linear_attention"]["layers"], n_layers)
                 if "linear_attention" in model else [])
    routed = set(selected(model["experts"]["layers"], n_layers) if "experts" in model else [])
    total = active = d  # the norm before the head
    for layer in range(n_layers):
        n = linear_attention(model) if layer in linear else attention(model)
        n += model["norms_per_layer"] * d
        if layer in routed:
            total += n + experts(model, model["experts"]["count"])
            active += n + experts(model, model["experts"]["used"])
        else:
            n += 3 * d * model["ffn"]["length"]
            total, active = total + n, active + n
    table = d * model["vocabulary"]
    total += table if model["tied_embeddings"] else 2 * table
    active += table * (2 - len(model.get("active_excludes", [])))
    return total, active


def compare(model, key, counted, limit):
    """One line, and whether the count agrees with the published one."""
    published, counted = model[key], counted / 1e9
    off = counted / published - 1
    rounded = key in model.get("rounded_to_whole", [])
    good = round(counted) == published if rounded else abs(off) <= limit
    note = ", published to the billion" if rounded else ""
    return good, f"{counted:.2f}B of {published:g}B ({off:+.2%}{note})"


def main():
    files = [pathlib.Path(f) for f in sys.argv[1:]] or \
        sorted(pathlib.Path(__file__).parent.glob("*.json"))
    failed = 0
    for file in files:
        model = json.loads(file.read_text())
        total, active = count(model)
        good, line = compare(model, "parameters_b", total, TOTAL_LIMIT)
        if "experts" in model:
            also, more = compare(model, "active_parameters_b", active, ACTIVE_LIMIT)
            good, line = good and also, f"{line}, active {more}"
        if "linear_attention" in model:
            a = model["linear_attention"]
            keys, values = a["key_heads"] * a["key_length"], a["value_heads"] * a["value_length"]
            good = good and a["state_elements"] == values * a["key_length"] \
                and a["conv_state_elements"] == (a["conv_kernel"] - 1) * (2 * keys + values)
        good = good and model["name"] == file.stem
        failed += not good
        print(f"{'ok  ' if good else 'FAIL'} {file.stem}: {line}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
