#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks the tree for what a compiler does not: the direction of includes, where third-party
headers stand, banned words, lengths, and leftovers. Prints one line a finding and exits 1 if there
is any. tidy_test.py plants a violation of each rule.

Usage: tidy.py [ROOT]"""

import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import layers  # noqa: E402

PRODUCT = ("engine/", "scheduler/", "config/", "server/")
CPP = (".cpp", ".h", ".cu", ".cuh")
TEXT = CPP + (".py", ".sh", ".cmake", ".txt", ".md", ".json", ".toml", ".yml", ".service",
              ".socket", ".comp", ".jinja", ".in")
COLUMNS = 100
FUNCTION_LINES = 70
SOURCE_LINES = 500
HEADER_LINES = 200
TEST_LINES = 800
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"]+)"|<([^>]+)>)', re.M)
# A factory of a class with a private constructor cannot use make_unique.
OWNED_NEW = re.compile(r"\bunique_ptr<[^;{}()]*>\s*\w*\(new\b")
# Written in pieces, so that this file does not find itself.
LEFTOVER = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X)\b")
FOREIGN = re.compile(r"(?<![\w.])/(wo" r"rk|ro" r"ot)/|\bpy" r"pi\.org\b|\bpython" r"hosted\b|"
                     r"\bdeb\.deb" r"ian\.org\b|\bhugging" r"face\.co\b")


def tracked_files(root):
    """Paths of the tree's own files, relative to the root: what git knows or would add."""
    try:
        listed = subprocess.run(
            ["git", "-C", root, "ls-files", "-co", "--exclude-standard", "-z"],
            capture_output=True, check=True).stdout.decode()
        names = [name for name in listed.split("\0") if name]
        if names:
            return sorted(n for n in names if os.path.isfile(os.path.join(root, n)))
    except (OSError, subprocess.CalledProcessError):
        pass
    found = []
    for folder, folders, files in os.walk(root):
        folders[:] = [f for f in folders if f not in (".git", "build", "__pycache__")]
        found += [os.path.relpath(os.path.join(folder, f), root) for f in files]
    return sorted(found)


def read_tree(root):
    """{path: text} of every text file; binary files are left out."""
    tree = {}
    for path in tracked_files(root):
        with open(os.path.join(root, path), "rb") as file:
            data = file.read()
        if b"\0" in data[:4096]:
            continue
        try:
            tree[path] = data.decode("utf-8")
        except UnicodeDecodeError:
            continue
    return tree


_COMMENT_OR_STRING = re.compile(
    r'//(?:\\\n|[^\n])*|/\*.*?\*/|R"([^()\\\s]{0,16})\(.*?\)\1"|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])+'", re.S)


def code_only(text):
    """The C++ text with comments and literals blanked, every line kept in its place."""
    def blank(match):
        found = match.group(0)
        if found.startswith('"') and text[:match.start()].endswith(("#include ", "# include ")):
            return found
        return re.sub(r"[^\n]", " ", found)
    return _COMMENT_OR_STRING.sub(blank, text)


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def is_product(path):
    return path.startswith(PRODUCT) and path.endswith(CPP)


def is_test_data(path):
    return path.startswith("tests/data/") or path.startswith("tests/fuzz/corpus/")


def includes(text):
    """(line, path in quotes or None, path in angle brackets or None) of each include."""
    return [(line_of(text, m.start()), m.group(1), m.group(2)) for m in INCLUDE.finditer(text)]


def check_direction(tree):
    """Includes go to the own folder or to a strictly lower rank, written from the root."""
    for path in filter(is_product, tree):
        folder = os.path.dirname(path)
        if folder not in layers.RANKS:
            yield path, 1, f"folder {folder} has no rank (tests/tidy/layers.py)"
            continue
        for line, target, _ in includes(tree[path]):
            if target is None:
                continue
            to = os.path.dirname(target)
            if target not in tree:
                yield path, line, f'"{target}" is not a file of the tree, named from its root'
                continue
            why = layers.forbidden_edge(folder, target)
            if why is not None:
                yield path, line, f'"{target}": {why}'
            elif to not in layers.RANKS:
                yield path, line, f'"{target}": folder {to} has no rank'
            elif to != folder and layers.RANKS[to] >= layers.RANKS[folder]:
                yield path, line, (f'"{target}": {folder} (rank {layers.RANKS[folder]}) may not '
                                   f"include {to} (rank {layers.RANKS[to]})")


def check_containment(tree):
    """Other people's headers stand only where layers.CONTAINMENT says."""
    for path in filter(is_product, tree):
        for line, _, target in includes(tree[path]):
            if target is None or target in layers.SYSTEM_HEADERS:
                continue
            rule = next((r for r in layers.CONTAINMENT if re.match(r[0], target)), None)
            if rule is None:
                if re.search(r"[./]", target):
                    yield path, line, f"<{target}> is unknown (tests/tidy/layers.py)"
            elif not any(re.match(allowed, path) for allowed in rule[1]):
                yield path, line, f"<{target}> may not be included here"


def check_cycles(tree):
    """No header includes itself over others."""
    graph = {path: [t for _, t, _ in includes(text) if t in tree]
             for path, text in tree.items() if path.endswith(CPP)}
    state = {}

    def visit(path, trail):
        state[path] = 1
        for target in graph[path]:
            if state.get(target) == 1:
                cycle = trail[trail.index(target):] + [target]
                yield target, 1, "include cycle: " + " → ".join(cycle)
            elif target in graph and target not in state:
                yield from visit(target, trail + [target])
        state[path] = 2

    for path in graph:
        if path not in state:
            yield from visit(path, [path])


def check_banned(tree):
    """The words of layers.BANNED do not occur in the product's code."""
    for path in filter(is_product, tree):
        code = OWNED_NEW.sub(lambda m: re.sub(r"[^\n]", " ", m.group(0)), code_only(tree[path]))
        for name, pattern, instead, allowed in layers.BANNED:
            if any(re.match(a, path) for a in allowed):
                continue
            for match in re.finditer(pattern, code):
                yield path, line_of(code, match.start()), f"'{name}' is banned: use {instead}"


def check_header(tree):
    """The first line names the licence, and a C++ header is guarded."""
    for path, text in tree.items():
        if is_test_data(path):
            continue
        lines = text.split("\n", 2) + ["", ""]
        if path.endswith(CPP):
            if lines[0] != "// SPDX-License-Identifier: MIT":
                yield path, 1, "the first line is not // SPDX-License-Identifier: MIT"
            # A test's name and its first include say it already.
            if not lines[1].startswith("// ") and not path.startswith("tests/"):
                yield path, 2, "the second line does not say what the file does"
            if path.endswith((".h", ".cuh")) and "\n#pragma once\n" not in text:
                yield path, 1, "no #pragma once"
        elif path.endswith((".py", ".sh")) or text.startswith("#!"):
            first = lines[1] if text.startswith("#!") else lines[0]
            if first != "# SPDX-License-Identifier: MIT":
                yield path, 1, "no # SPDX-License-Identifier: MIT at the top"


def check_lines(tree):
    """Line ends, tabs, columns, leftovers, and places that exist on one machine only."""
    for path, text in tree.items():
        if is_test_data(path) or path == "LICENSE":
            continue
        name = os.path.basename(path)
        if not (path.endswith(TEXT) or text.startswith("#!") or name.startswith(".")):
            continue
        narrow = path.endswith(CPP + (".py", ".sh", ".cmake")) or text.startswith("#!") \
            or name == "CMakeLists.txt"
        for number, line in enumerate(text.split("\n"), 1):
            if line != line.rstrip():
                yield path, number, "white space at the end of the line"
            if narrow and len(line) > COLUMNS:
                yield path, number, f"{len(line)} columns (limit {COLUMNS})"
            if narrow and "\t" in line:
                yield path, number, "a tab"
            if LEFTOVER.search(line):
                yield path, number, f"'{LEFTOVER.search(line).group(0)}' is left over"
            if FOREIGN.search(line):
                yield path, number, f"'{FOREIGN.search(line).group(0)}' belongs to one machine"
        if text and not text.endswith("\n"):
            yield path, text.count("\n") + 1, "no newline at the end of the file"


_NOT_FUNCTION = re.compile(r"^(inline\s+)?(namespace|class|struct|enum|union)\b|^extern\s*$")


def functions(code):
    """(first line, last line, name) of each function in code without comments and literals."""
    # Preprocessor lines would be taken for the start of a declaration.
    code = re.sub(r"^[ \t]*#(?:\\\n|[^\n])*", lambda m: re.sub(r"[^\n]", " ", m.group(0)), code,
                  flags=re.M)
    start, inside, stack = 0, None, []
    for match in re.finditer(r"[{};]", code):
        offset, char = match.start(), match.group(0)
        if char == "{":
            head = re.sub(r"^(template\s*<[^{}]*?>\s*|\[\[[^\]]*\]\]\s*|public:|private:|"
                          r"protected:|\s)+", "", code[start:offset])
            is_function = inside is None and "(" in head and not _NOT_FUNCTION.match(head)
            stack.append(is_function)
            if is_function:
                name = re.search(r"(operator\s*\S+|[~\w:]+)\s*\(", head)
                inside = (line_of(code, offset - len(head)), name.group(1) if name else "?")
        elif char == "}" and stack and stack.pop():
            yield inside[0], line_of(code, offset), inside[1]
            inside = None
        if inside is None:
            start = offset + 1


def check_lengths(tree):
    """Files and functions stay short enough to be read in one go."""
    for path, text in tree.items():
        if not path.endswith(CPP):
            continue
        n_lines = text.count("\n")
        limit = HEADER_LINES if path.endswith((".h", ".cuh")) else \
            TEST_LINES if path.startswith("tests/") else SOURCE_LINES
        if n_lines > limit and path not in layers.LONG_FILES:
            yield path, 1, f"{n_lines} lines (limit {limit})"
        for first, last, name in functions(code_only(text)):
            length = last - first + 1
            if length > FUNCTION_LINES and (path, name) not in layers.LONG_FUNCTIONS:
                yield path, first, f"{name} has {length} lines (limit {FUNCTION_LINES})"


def check_dead(tree):
    """Each source is named by the nearest CMakeLists.txt above it, or that one globs."""
    for path in tree:
        if not path.endswith((".cpp", ".cu")):
            continue
        folder = os.path.dirname(path)
        while folder and os.path.join(folder, "CMakeLists.txt") not in tree:
            folder = os.path.dirname(folder)
        build = "".join(text for name, text in tree.items() if os.path.dirname(name) == folder
                        and (name.endswith("CMakeLists.txt") or name.endswith(".cmake")))
        name = re.escape(os.path.relpath(path, folder or "."))
        if not re.search(rf"(?<![\w/.]){name}(?![\w.])|GLOB[^)]*\*\.cpp", build):
            yield path, 1, "no CMakeLists.txt builds this file"


RULES = [check_direction, check_containment, check_cycles, check_banned, check_header, check_lines,
         check_lengths, check_dead]


def findings(tree):
    return sorted(set(finding for rule in RULES for finding in rule(tree)))


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "../..")
    tree = read_tree(root)
    if not tree:
        print(f"tidy: no files under {root}")
        return 1
    found = findings(tree)
    for path, line, message in found:
        print(f"{path}:{line}: {message}")
    print(f"tidy: {len(tree)} files, {len(found)} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
