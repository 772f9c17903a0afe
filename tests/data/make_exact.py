#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes tests/data/numbers/{exact,greedy,teacher}_<model>.jsonl: what the real models answer by
tests/support/oracle.py, so that a lone clone can test its numbers. Takes some minutes:

    build/venv/bin/python tests/data/make_exact.py build/models tests/data/numbers

exact: one object a prompt: prompt, ids, top20 [[id, logit]], logit_mean and logit_std over the
    vocabulary, and sample {stride, logits}: the logits of ids 0, stride, 2 stride, … — enough to
    estimate the root mean square of a difference. All of the last position.
greedy: prompt, prompt_ids, greedy_ids, top5 (per step [[id, natural-log probability]]) and
    min_margin, the smallest gap between the first two.
teacher: ids of one text longer than Gemma's attention window, and logprobs: the natural-log
    probability of each id but the first, given those before it."""

import json
import pathlib
import sys

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))
from encode import Encoder  # noqa: E402
from oracle import Oracle, log_softmax  # noqa: E402

MODELS = ["smollm2-135m-instruct-q4_1", "gemma-3-270m-q4_k_m"]
N_SAMPLES = 500
GREEDY_STEPS = 24

PROMPTS = [
    "The harbour master counted the boats twice and wrote down",
    "Water boils at a lower temperature on a mountain because",
    "Once upon a time, in a village between two rivers, there lived",
    "1, 1, 2, 3, 5, 8, 13,",
    "Monday, Tuesday, Wednesday, Thursday,",
    "def area_of_circle(radius):\n    return",
    "for (int i = 0; i < count; ++i) {\n    total +=",
    "SELECT name, price FROM fruit WHERE price <",
    '{"city": "Lisbon", "country": "Portugal", "population":',
    "Q: What is the largest planet of the solar system?\nA:",
    "Der Zug nach Hamburg fährt heute",
    "Le matin, elle boit toujours un café et mange",
    "El perro corre por la playa y",
    "春天来了，花园里的",
    "Утром он открыл окно и увидел",
    "To bake bread you need flour, water, salt and",
    "A ship takes water into its tanks when it has no cargo, so that it lies deeper and does not roll",
    "The opposite of hot is cold, the opposite of tall is short, the opposite of early is",
    "🙂 means happy, 😢 means sad, and ❤ means",
    "x",
]
GREEDY_PROMPTS = [PROMPTS[0], PROMPTS[3], PROMPTS[5], PROMPTS[10]]


def long_text():
    """A few hundred words of our own, with turns that a model can learn while it reads."""
    goods = ["barley", "copper wire", "oranges", "timber", "salted fish", "window glass", "wool",
             "coffee", "roof tiles", "bicycles"]
    ports = ["Rostock", "Genoa", "Lagos", "Bergen", "Valparaíso", "Kobe", "Halifax"]
    lines = ["The harbour book of the year, as it was kept by the old clerk and copied here.\n"]
    for number in range(1, 37):
        good, port = goods[number * 7 % 10], ports[number * 3 % 7]
        weight = 12 + number * 37 % 89
        lines.append(f"Ship number {number} came in from {port} with {weight} tonnes of {good}; "
                     f"it left again {1 + number % 4} days later, "
                     + ("empty and with water in its tanks.\n" if number % 3 == 0 else
                        f"carrying {goods[number * 3 % 10]} to {ports[number % 7]}.\n"))
    return "".join(lines)


def rounded(values, digits):
    return [round(float(value), digits) for value in values]


def exact(oracle, encoder, prompt):
    ids = encoder.encode(prompt)
    logits = oracle.logits(ids)[0]
    order = np.argsort(-logits, kind="stable")[:20]
    stride = len(logits) // N_SAMPLES
    return {"prompt": prompt, "ids": ids,
            "top20": [[int(i), round(float(logits[i]), 5)] for i in order],
            "logit_mean": round(float(logits.mean(dtype=np.float64)), 6),
            "logit_std": round(float(logits.std(dtype=np.float64)), 6),
            "sample": {"stride": stride, "logits": rounded(logits[::stride], 4)}}


def greedy(oracle, encoder, prompt):
    ids = encoder.encode(prompt)
    prompt_ids, top5, margin = list(ids), [], float("inf")
    for _ in range(GREEDY_STEPS):
        chance = log_softmax(oracle.logits(ids)[0])
        best = np.argsort(-chance, kind="stable")[:5]
        top5.append([[int(i), round(float(chance[i]), 5)] for i in best])
        margin = min(margin, float(chance[best[0]] - chance[best[1]]))
        ids.append(int(best[0]))
        if ids[-1] == oracle.field("tokenizer.ggml.eos_token_id"):
            break
    return {"prompt": prompt, "prompt_ids": prompt_ids, "greedy_ids": ids[len(prompt_ids):],
            "top5": top5, "min_margin": round(margin, 5)}


def teacher(oracle, encoder, text):
    ids = encoder.encode(text)
    chance = log_softmax(oracle.logits(ids, every_position=True))
    return {"text": text, "ids": ids,
            "logprobs": rounded(chance[np.arange(len(ids) - 1), ids[1:]], 5)}


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    models, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    for model in MODELS:
        oracle = Oracle(models / f"{model}.gguf")
        encoder = Encoder(oracle)
        for kind, work in [("exact", [(exact, p) for p in PROMPTS]),
                           ("greedy", [(greedy, p) for p in GREEDY_PROMPTS]),
                           ("teacher", [(teacher, long_text())])]:
            lines = []
            for function, text in work:
                lines.append(json.dumps(function(oracle, encoder, text)) + "\n")
                print(f"{model} {kind} {len(lines)} of {len(work)}", flush=True)
            (out / f"{kind}_{model}.jsonl").write_text("".join(lines), encoding="ascii")


if __name__ == "__main__":
    main()
