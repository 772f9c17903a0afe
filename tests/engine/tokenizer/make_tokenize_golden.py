# SPDX-License-Identifier: MIT
"""Writes tests/data/tokenize_KEY.jsonl from a model file:

    python3 tests/engine/tokenizer/make_tokenize_golden.py FOLDER_OF_MODELS

An independent oracle: the PyPI package tokenizers, fed the vocabulary inside the GGUF file (PyPI
package gguf). Each line has a text of ours, its ids without special tokens parsed, and with them.
"""
import json
import pathlib
import sys

from gguf import GGUFReader
from tokenizers import AddedToken, Tokenizer, decoders, normalizers, pre_tokenizers
from tokenizers.models import BPE

from make_pretokenize_golden import TEXTS

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)

MORE_TEXTS = [
    "Water moves from tank to tank, and the ship stays level.",
    "A model is only as good as the numbers it is given.",
    "How much memory does this computer have? About 16 GiB, I think.",
    "Please write a haiku about ballast:\n\nCold iron below,\n",
    "1. First item\n2. Second item\n   - nested\n3. Third",
    "| a | b |\n|---|---|\n| 1 | 2 |\n",
    "SELECT name, level FROM tanks WHERE level > 0.5 ORDER BY name;",
    "for (size_t i = 0; i < n; ++i) {\n\tsum += tank[i].level;\n}\n",
    "{\"role\": \"user\", \"content\": \"Wie geht's?\", \"n\": [1, 2.5, null, true]}",
    "export OPENAI_BASE_URL=http://127.0.0.1:8080/v1 && ./run.sh --once",
    "Une cale sèche, des réservoirs pleins : le bateau penche.",
    "A level of 0.000123456789 or 1e-9, at 23:59:59 on 2031-12-31.",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "x" + " " * 70 + "y" + "\n" * 40 + "z",
    "Hyphen-ated words, semi;colons: and (parentheses) [brackets] {braces}.",
    "ALL CAPITALS AND then none; MiXeD cAsE tOo",
]

SPECIAL_TEXTS = {
    "smollm2-135m-instruct-q4_1": [
        "<|im_start|>user\nHello there<|im_end|>\n<|im_start|>assistant\n",
        "text<|endoftext|>more <|im_start|> spaced <|im_end|>",
        "<|im_start|<|im_end|>>",
    ],
    "gemma-3-270m-q4_k_m": [
        "<start_of_turn>user\nHello there<end_of_turn>\n<start_of_turn>model\n",
        "<bos>text<eos>more <start_of_turn> spaced <end_of_turn>",
        "<table><tr><td>1</td></tr></table>",
    ],
}


def byte_level(tokens, merges):
    tokenizer = Tokenizer(BPE(vocab=tokens, merges=merges, fuse_unk=False))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)])
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def sentence_piece(tokens, scores):
    """The merges that lead to each piece, the piece of the highest score first."""
    merges = []
    for piece, index in tokens.items():
        for cut in range(1, len(piece)):
            left, right = piece[:cut], piece[cut:]
            if left in tokens and right in tokens:
                merges.append((-scores[index], tokens[left], tokens[right], left, right))
    merges.sort(key=lambda m: m[:3])
    model = BPE(vocab=tokens, merges=[(m[3], m[4]) for m in merges], byte_fallback=True,
                unk_token="<unk>", fuse_unk=True)
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.Replace(" ", "\u2581")
    return tokenizer


def oracles(path):
    """Two tokenizers: one that knows the user-defined tokens, one that knows the specials too."""
    fields = GGUFReader(path).fields
    get = lambda name: fields["tokenizer.ggml." + name].contents()
    pieces, kinds = get("tokens"), get("token_type")
    tokens = {piece: index for index, piece in enumerate(pieces)}
    pair = []
    for parse in (False, True):
        if get("model") == "gpt2":
            tokenizer = byte_level(tokens, [tuple(m.split(" ", 1)) for m in get("merges")])
        else:
            tokenizer = sentence_piece(tokens, get("scores"))
        wanted = (USER_DEFINED, CONTROL, UNKNOWN) if parse else (USER_DEFINED,)
        tokenizer.add_tokens([AddedToken(p, special=False, normalized=False)
                              for p, kind in zip(pieces, kinds) if kind in wanted])
        pair.append(tokenizer)
    return pair


def main(folder):
    for key, specials in SPECIAL_TEXTS.items():
        plain, parsing = oracles(pathlib.Path(folder, key + ".gguf"))
        out = pathlib.Path(__file__).parents[2] / "data" / f"tokenize_{key}.jsonl"
        with out.open("w") as f:
            for text in TEXTS + MORE_TEXTS + specials:
                ids = [t.encode(text, add_special_tokens=False).ids for t in (plain, parsing)]
                f.write(json.dumps({"text": text, "ids": ids[0], "ids_parsed": ids[1]}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
