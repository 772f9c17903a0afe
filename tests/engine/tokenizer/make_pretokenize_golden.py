# SPDX-License-Identifier: MIT
"""Writes tests/data/pretokenize_golden.jsonl:
    python3 tests/engine/tokenizer/make_pretokenize_golden.py

An independent oracle for the pre-tokenizers: the PyPI package tokenizers (Oniguruma), given the
expressions as the models' tokenizer.json files have them. Each line has a text of ours and, by name
of tokenizer.ggml.pre, the lengths of its words in bytes.
"""
import json
import pathlib

from tokenizers import Regex, pre_tokenizers

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
          r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN35 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}"
          r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
CASED = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+SUFFIX"
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*SUFFIX"
         r"|DIGITS| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
TEKKEN = CASED.replace("SUFFIX", "").replace("DIGITS", r"\p{N}")
GPT4O = (CASED.replace("SUFFIX", r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?")
         .replace("DIGITS", r"\p{N}{1,3}"))
DEEPSEEK_V3 = [r"\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
               r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+"""
               r"|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"
               r"|\s*[\r\n]+|\s+(?!\S)|\s+"]
DEEPSEEK_CODER = [r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+",
                  "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+", r"\p{N}"]
FAMILIES = {
    "gpt-2": [GPT2],
    "smollm": [r"\p{N}", GPT2],
    "llama-bpe": [LLAMA3],
    "qwen2": [LLAMA3.replace("{1,3}", "")],
    "qwen35": [QWEN35],
    "tekken": [TEKKEN],
    "gpt-4o": [GPT4O],
    "deepseek-v3": DEEPSEEK_V3,
    "deepseek-coder": DEEPSEEK_CODER,
}

TEXTS = [
    "The ship sits level, doesn't it? I'll say it's fine; WE'LL see what they've done.",
    "Mixed CamelCaseWords and snake_case_names, HTTPServer2Config, iPhone15Pro.",
    "1 22 333 4444 55555 666666 3.14 -2e10 0xFF 12:34:56 $1,234.50 100%",
    "  two  spaces   three\tone tab\t\ttwo\n\n\nthree lines\r\n  indented\r\n\r\n end  ",
    "def tank(level):\n    return {'level': level // 2}  # half\n\n\n",
    "Der Käfer überquert die Straße; où êtes-vous? mañana, ¿qué tal?",
    "e\u0301te\u0301 and A\u030angstro\u0308m: marks stand alone",
    "水は高い所から低い所へ流れる。船は平らになる!123",
    "배는 수평을 유지한다. 물을 옮긴다.",
    "Вода течёт, а корабль стоит ровно — 42 раза.",
    "الماء يتحرك والسفينة ثابتة، ١٢٣.",
    "पानी बहता है और जहाज स्थिर है।",
    "น้ำไหลและเรืออยู่นิ่ง",
    "😀😃 🚢⚓️ 👩‍🔧 x🙂y",
    "!?!? ... --- ((a)) [b] {c} <d/> a/b//c \\\\ `q` ~~ ^_^ $$ ++ ||",
    "ends with spaces   ",
    "   ",
    "\n",
    "a\u00a0b\u2003c\u3000d\u180ee\u0085f\u2028g",
    "'s 't 'S 'T 'Re 'LL x's X'S it''s 'tis",
    "ǅ ǈ Ǆ ﬁ ẞ ʰ ª º Ⅷ ½ ² ٣",
    "https://example.org/path?x=1&y=2#z, mail@example.org",
    "АБВгд ABCdef ÀÉÎõü ΑΒΓδε",
    "tab\tspace newline\n x\n\ty \n\n z",
]


def lengths(text, patterns):
    steps = [pre_tokenizers.Split(Regex(p), "isolated") for p in patterns]
    words = pre_tokenizers.Sequence(steps).pre_tokenize_str(text)
    assert "".join(w for w, _ in words) == text
    return [len(w.encode()) for w, _ in words]


if __name__ == "__main__":
    out = pathlib.Path(__file__).parents[2] / "data" / "pretokenize_golden.jsonl"
    with out.open("w") as f:
        for text in TEXTS:
            line = {"text": text, "lengths": {k: lengths(text, p) for k, p in FAMILIES.items()}}
            f.write(json.dumps(line) + "\n")
