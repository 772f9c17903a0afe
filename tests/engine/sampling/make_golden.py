# SPDX-License-Identifier: MIT
"""Writes tests/data/sampling_golden.jsonl: python3 tests/engine/sampling/make_golden.py

An independent sampler in double precision with full sorts, and xoshiro256** from its paper. Each
line has options, a prompt and the ids drawn. Logits of step t:
((i * 7919 + 131 * (t // 6)) % 1000) / 50 - 10
for i in 0..999, so that no two are equal.
"""
import json
import math
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "support"))
from xoshiro import Xoshiro

N = 1000


def sample(o, rng, logits, prompt, reply):
    x = dict(enumerate(logits))
    for i, b in o.get("logit_bias", []):
        x[i] = -math.inf if b <= -100 else x[i] + b
    for i in o.get("banned", []):
        x[i] = -math.inf
    rep = o.get("repetition_penalty", 1.0)
    for i in set(prompt) | set(reply):
        x[i] = x[i] / rep if x[i] > 0 else x[i] * rep
    for i in set(reply):
        x[i] -= o.get("presence_penalty", 0.0) + o.get("frequency_penalty", 0.0) * reply.count(i)
    best = max(x.values())
    temperature = o.get("temperature", 1.0)
    if temperature == 0:
        return min(i for i in x if x[i] == best)
    w = sorted(((math.exp((v - best) / temperature), -i) for i, v in x.items()), reverse=True)
    w = [(p, -i) for p, i in w]
    ranked = False
    if o.get("top_k", 0) > 0:
        w, ranked = w[: o["top_k"]], True
    if o.get("top_p", 1.0) < 1:
        total, kept, n = sum(p for p, _ in w), 0.0, 0
        while n < len(w) and (n == 0 or kept < o["top_p"] * total):
            kept += w[n][0]
            n += 1
        w, ranked = w[:n], True
    w = [(p, i) for p, i in w if p >= o.get("min_p", 0.0)]
    if not ranked:
        w.sort(key=lambda e: e[1])
    left = rng.uniform() * sum(p for p, _ in w)
    for p, i in w:
        left -= p
        if left < 0:
            return i
    return w[-1][1]


CASES = [
    {"temperature": 0},
    {"temperature": 1.0},
    {"temperature": 2.5, "top_k": 40},
    {"temperature": 3.0, "top_p": 0.9},
    {"temperature": 8.0, "top_p": 0.95},
    {"temperature": 4.0, "min_p": 0.05},
    {"temperature": 4.0, "top_k": 200, "top_p": 0.8, "min_p": 0.1},
    {"temperature": 0, "repetition_penalty": 1.3},
    {"temperature": 1.5, "repetition_penalty": 1.2, "presence_penalty": 0.7,
     "frequency_penalty": 0.4},
    {"temperature": 0, "presence_penalty": 1.5, "frequency_penalty": 0.5},
    {"temperature": 0, "logit_bias": [[3, 15.5], [700, -100.0]]},
    {"temperature": 1.0, "logit_bias": [[3, 8.5], [4, -100.0]], "banned": [5, 6], "top_k": 10},
]

if __name__ == "__main__":
    out = pathlib.Path(__file__).parents[2] / "data" / "sampling_golden.jsonl"
    with out.open("w") as f:
        for seed, options in enumerate(CASES):
            rng, prompt, reply = Xoshiro(seed), [21, 63, 981, 982, 983], []
            for t in range(24):
                logits = [((i * 7919 + 131 * (t // 6)) % N) / 50 - 10 for i in range(N)]
                reply.append(sample(options, rng, logits, prompt, reply))
            line = {"seed": seed, "options": options, "prompt": prompt, "ids": reply}
            f.write(json.dumps(line) + "\n")
