#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Draws one generated token of a trace that `ballast bench --save-trace` has written: what the CPU,
the device and the copies did when, as an SVG. Docs show it.

Usage: lanes_picture.py TRACE.json OUT.svg [--token 3] [--groups 8]   (--groups: the first so many
groups of the token; 0: all)"""

import argparse
import html
import json

LANES = (("CPU", "CPU"), ("device", "device"), ("link", "copies"))
KINDS = (("attention", "#4878a8"), ("feed-forward", "#e08e45"), ("experts", "#b5679f"),
         ("head", "#6a9f58"), ("activations", "#9a9a9a"))
WIDTH, LEFT, RIGHT, LANE, GAP, TOP = 1100, 70, 20, 46, 14, 46


def events(path):
    """{lane: [(begin ms, end ms, name)]} in order."""
    with open(path, encoding="utf-8") as file:
        given = json.load(file)["traceEvents"]
    names = {e["tid"]: e["args"]["name"] for e in given if e["name"] == "thread_name"}
    lanes = {key: [] for key, _ in LANES}
    for event in given:
        if event["ph"] == "X":
            begin = event["ts"] / 1e3
            lanes[names[event["tid"]]].append((begin, begin + event["dur"] / 1e3, event["name"]))
    return {lane: sorted(spans) for lane, spans in lanes.items()}


def window(lanes, token, groups):
    """Begin and end of the token: from the end of the last one's head."""
    # Both sides may have a part of the head; the later one ends the step.
    heads = [[end for _, end, name in lanes[lane] if name == "head"] for lane in ("CPU", "device")]
    ends = [max(of_step) for of_step in zip(*[side for side in heads if side])]
    begin, end = ends[token], ends[token + 1]
    if groups > 0:
        seen = []
        for lane in ("CPU", "device"):
            for start, stop, name in lanes[lane]:
                if begin <= start < end and name.startswith(("attention", "feed", "experts")):
                    seen.append((start, stop, name))
        order = []
        for _, _, name in sorted(seen):
            if name not in order:
                order.append(name)
        end = max(stop for _, stop, name in seen if name in order[:groups])
    return begin, end


def draw(lanes, begin, end, title):
    scale = (WIDTH - LEFT - RIGHT) / (end - begin)
    height = TOP + len(LANES) * (LANE + GAP) + 44
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
           f'viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="13">',
           f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
           f'<text x="{LEFT}" y="18">{html.escape(title)}</text>']
    for i, (kind, color) in enumerate(KINDS):
        x = LEFT + 130 * i
        out.append(f'<rect x="{x}" y="26" width="11" height="11" fill="{color}"/>'
                   f'<text x="{x + 16}" y="36" font-size="11">{kind}</text>')
    for row, (lane, shown) in enumerate(LANES):
        y = TOP + row * (LANE + GAP)
        out.append(f'<text x="4" y="{y + LANE / 2 + 4}">{shown}</text>')
        out.append(f'<rect x="{LEFT}" y="{y}" width="{WIDTH - LEFT - RIGHT}" height="{LANE}" '
                   'fill="#f3f3f3"/>')
        for start, stop, name in lanes[lane]:
            if stop <= begin or start >= end:
                continue
            x = LEFT + (max(start, begin) - begin) * scale
            width = max((min(stop, end) - max(start, begin)) * scale, 0.8)
            color = next((c for kind, c in KINDS if name.startswith(kind)), "#c8c8c8")
            out.append(f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{LANE}" '
                       f'fill="{color}"><title>{html.escape(name)}, {1e3 * (stop - start):.0f} us'
                       '</title></rect>')
            if width > 7.5 * len(name):
                out.append(f'<text x="{x + 4:.1f}" y="{y + LANE / 2 + 4}" fill="white" '
                           f'font-size="11">{html.escape(name)}</text>')
    y = TOP + len(LANES) * (LANE + GAP) + 4
    for i in range(6):
        x = LEFT + i * (WIDTH - LEFT - RIGHT) / 5
        out.append(f'<text x="{x:.0f}" y="{y + 14}" text-anchor="middle" font-size="11">'
                   f'{i * (end - begin) / 5:.2f} ms</text>')
    out.append("</svg>\n")
    return "\n".join(out)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("trace")
    parser.add_argument("out")
    parser.add_argument("--token", type=int, default=3)
    parser.add_argument("--groups", type=int, default=8)
    asked = parser.parse_args()
    lanes = events(asked.trace)
    begin, end = window(lanes, asked.token, asked.groups)
    what = f"the first {asked.groups} groups of a token" if asked.groups else "a token"
    with open(asked.out, "w", encoding="utf-8") as file:
        file.write(draw(lanes, begin, end, f"{what[0].upper()}{what[1:]}, {end - begin:.2f} ms"))


if __name__ == "__main__":
    main()
