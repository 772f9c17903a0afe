#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes corpus/template: the templates of tests/data/jinja_cases.jsonl, several to a file.

    python3 tests/fuzz/make_template_corpus.py

Those that render are joined, since one failure ends a rendering; those that fail stand alone.
"""
import json
import pathlib

HERE = pathlib.Path(__file__).resolve().parent
TOGETHER = 16


def main():
    cases = [json.loads(line) for line in (HERE.parent / "data/jinja_cases.jsonl").open()][1:]
    good = [c["template"] for c in cases if "text" in c and "variables" not in c]
    bad = [c["template"] for c in cases if "error" in c and c["template"].startswith("{%")]
    folder = HERE / "corpus/template"
    folder.mkdir(parents=True, exist_ok=True)
    for i in range(0, len(good), TOGETHER):
        (folder / f"good_{i // TOGETHER:02}").write_text("\n".join(good[i:i + TOGETHER]))
    for i, source in enumerate(bad):
        (folder / f"bad_{i:02}").write_text(source)


if __name__ == "__main__":
    main()
