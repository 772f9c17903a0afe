# SPDX-License-Identifier: MIT
# Writes the corpus of the tokenizer fuzz target: texts, and vocabularies right and wrong. Needs
# nothing but Python:
#     python3 tests/fuzz/make_tokenizer_corpus.py tests/fuzz/corpus/tokenizer
import struct
import sys
from pathlib import Path

STRING, ARRAY, FLOAT, INT, BOOL = 8, 9, 6, 5, 7


def string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def value(v):
    if isinstance(v, bool):
        return BOOL, struct.pack("<B", v)
    if isinstance(v, int):
        return INT, struct.pack("<i", v)
    if isinstance(v, float):
        return FLOAT, struct.pack("<f", v)
    if isinstance(v, str):
        return STRING, string(v)
    kind = value(v[0])[0] if v else INT
    return ARRAY, struct.pack("<IQ", kind, len(v)) + b"".join(value(x)[1] for x in v)


def file(keys):
    out = b"GGUF" + struct.pack("<IQQ", 3, 0, len(keys))
    for key, v in keys.items():
        kind, raw = value(v)
        out += string("tokenizer.ggml." + key) + struct.pack("<I", kind) + raw
    return out


BPE = {"model": "gpt2", "pre": "llama-bpe", "add_bos_token": False,
       "tokens": [*"abcdef", "\u0120", "ab", "\u0120ab", "<|im_end|>", "[tag]"],
       "token_type": [1] * 9 + [3, 4], "merges": ["a b", "\u0120 ab"], "eos_token_id": 9}
SPM = {"model": "llama", "tokens": ["<unk>", "<s>", "</s>", "<0x0A>", "\u2581", "a", "\u2581a"],
       "token_type": [2, 3, 3, 6, 1, 1, 1], "scores": [0.0, 0.0, 0.0, 0.0, -3.0, -2.0, -1.0]}


def vocabularies():
    yield "right-bpe", BPE
    yield "right-spm", SPM
    for name in ("smollm", "deepseek-llm", "gpt-4o", "default", "nonsense"):
        yield "pre-" + name, {**BPE, "pre": name}
    for key in BPE:
        yield "bpe-without-" + key, {k: v for k, v in BPE.items() if k != key}
    for key in SPM:
        yield "spm-without-" + key, {k: v for k, v in SPM.items() if k != key}
    for key in ("tokens", "token_type", "scores"):
        yield "spm-short-" + key, {**SPM, key: SPM[key][:-1]}
    for bad in ("<0x-1>", "<0xG0>", "<0x0>", "<0x000>", ""):
        yield f"spm-byte-{len(bad)}-{ord(bad[3]) if bad[3:] else 0}", {
            **SPM, "tokens": SPM["tokens"][:3] + [bad] + SPM["tokens"][4:]}
    for bad in ("ab", "", "a zz", "b a", " a"):
        yield "merge-" + bad.replace(" ", "_"), {**BPE, "merges": [bad]}
    for bad in (-1, 11, 2**31 - 1):
        yield f"bos-{bad}", {**BPE, "bos_token_id": bad}
        yield f"eos-{bad}", {**SPM, "eos_token_id": bad}
    yield "same-twice", {**BPE, "tokens": BPE["tokens"][:9] + ["a", "a"]}
    yield "all-special", {**SPM, "token_type": [3] * 7}
    yield "nan-score", {**SPM, "scores": [float("nan")] * 7}


TEXTS = {
    "empty": b"", "words": b"abab aa aaaa  ab\n\naab", "specials": b"<s>a</s> <unk> <0x0A>",
    "utf8": "é 漢字 😀 ▁▁a ▁".encode(), "broken": b"a\xff\xc3(\xe2\x82 \xf0\x9f\x98 \xed\xa0\x80",
    "controls": bytes(range(256)), "run": b"a" * 300 + b" " * 300,
    "contractions": b"it's 'LL 12 ab",
}


def main(folder):
    Path(folder).mkdir(parents=True, exist_ok=True)
    for name, content in TEXTS.items():
        Path(folder, "text-" + name).write_bytes(content)
    for name, keys in vocabularies():
        Path(folder, name + ".gguf").write_bytes(file(keys))


main(sys.argv[1])
