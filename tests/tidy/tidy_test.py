#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Plants a violation of each rule of tidy.py in a small tree and expects exactly that finding, and
no finding for the same thing done right."""

import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import layers  # noqa: E402
import tidy  # noqa: E402

HEAD = "// SPDX-License-Identifier: MIT\n// Says what the file does.\n"


def messages(rule, tree):
    return [f"{path}:{line}: {message}" for path, line, message in rule(tree)]


def source(*lines):
    return HEAD + "\n".join(lines) + "\n"


class TidyTest(unittest.TestCase):
    def expect(self, rule, tree, *needles):
        """The rule finds one thing for each needle, in order, and nothing else."""
        found = messages(rule, tree)
        self.assertEqual(len(found), len(needles), found)
        for message, needle in zip(found, needles):
            self.assertIn(needle, message)


class Direction(TidyTest):
    LOW = {"engine/base/clock.h": source("#pragma once")}

    def test_accepts_a_lower_rank_and_the_own_folder(self):
        tree = self.LOW | {"engine/gguf/reader.h": source("#pragma once"),
                           "engine/gguf/reader.cpp": source('#include "engine/gguf/reader.h"',
                                                            '#include "engine/base/clock.h"')}
        self.expect(tidy.check_direction, tree)

    def test_rejects_a_higher_rank(self):
        tree = {"engine/base/clock.h": source('#include "engine/gguf/reader.h"'),
                "engine/gguf/reader.h": source("#pragma once")}
        self.expect(tidy.check_direction, tree,
                    'engine/base/clock.h:3: "engine/gguf/reader.h": engine/base (rank 0) may not')

    def test_rejects_the_same_rank(self):
        tree = {"engine/chat/a.h": source("#pragma once"),
                "engine/tokenizer/b.cpp": source('#include "engine/chat/a.h"')}
        self.expect(tidy.check_direction, tree, "may not include engine/chat (rank 3)")

    def test_rejects_a_folder_without_rank(self):
        self.expect(tidy.check_direction, {"engine/misc/a.cpp": source()},
                    "folder engine/misc has no rank")

    def test_rejects_a_path_that_is_not_from_the_root(self):
        tree = self.LOW | {"engine/base/a.cpp": source('#include "clock.h"')}
        self.expect(tidy.check_direction, tree, "not a file of the tree")

    def test_rejects_forbidden_edges_that_ranks_would_allow(self):
        for path, target in [("scheduler/sim/a.cpp", "engine/gguf/x.h"),
                             ("server/http/a.cpp", "engine/chat/x.h"),
                             ("server/http/a.cpp", "scheduler/x.h"),
                             ("config/a.cpp", "server/http/session.h"),
                             ("engine/gguf/a.cpp", "tests/support/x.h")]:
            tree = {path: source(f'#include "{target}"'), target: source("#pragma once")}
            found = messages(tidy.check_direction, tree)
            self.assertEqual(len(found), 1, (path, target, found))
            self.assertNotIn("rank", found[0])

    def test_only_the_server_root_and_cli_see_the_configuration(self):
        tree = {"config/load.h": source("#pragma once"),
                "server/cli/serve.cpp": source('#include "config/load.h"'),
                "server/daemon.cpp": source('#include "config/load.h"')}
        self.expect(tidy.check_direction, tree)
        # A higher rank alone would not keep a new folder out.
        layers.RANKS["server/later"] = 13
        try:
            tree = {"config/load.h": source("#pragma once"),
                    "server/later/a.cpp": source('#include "config/load.h"')}
            self.expect(tidy.check_direction, tree, "read the configuration")
        finally:
            del layers.RANKS["server/later"]

    def test_lets_config_include_options(self):
        tree = {"server/http/options.h": source("#pragma once"),
                "config/a.cpp": source('#include "server/http/options.h"')}
        self.expect(tidy.check_direction, tree)


class Containment(TidyTest):
    RIGHT = {"boost/beast/http.hpp": "server/http/session.cpp",
             "boost/beast.hpp": "server/http/session.cpp",
             "boost/asio.hpp": "server/daemon.cpp",
             "nlohmann/json.hpp": "server/api/models.cpp",
             "nlohmann/json_fwd.hpp": "engine/chat/chat_template.h",
             "toml++/toml.h": "config/load.cpp",
             "CLI/CLI.hpp": "server/cli/cli.cpp",
             "prometheus/counter.h": "server/metrics/registry.cpp",
             "pcre2.h": "engine/tokenizer/pretokenize.cpp",
             "utf8proc.h": "engine/tokenizer/normalize.cpp",
             "cblas.h": "engine/kernels/cpu/prefill.cpp",
             "openssl/ssl.h": "server/http/client.cpp",
             "cuda_runtime.h": "engine/kernels/cuda/copy.cu",
             "vulkan/vulkan.h": "engine/kernels/vulkan/module.cpp",
             "immintrin.h": "engine/kernels/cpu/avx2.cpp",
             "tl/expected.hpp": "engine/base/result.h",
             "fmt/format.h": "engine/gguf/reader.cpp"}

    def test_accepts_each_header_in_its_place(self):
        for header, path in self.RIGHT.items():
            self.expect(tidy.check_containment, {path: source(f"#include <{header}>")})

    def test_rejects_each_header_elsewhere(self):
        for header in self.RIGHT:
            if not header.startswith("fmt/"):
                self.expect(tidy.check_containment,
                            {"engine/model/llama.h": source(f"#include <{header}>")},
                            f"<{header}> may not be included here")

    def test_rejects_the_full_json_header_in_a_header(self):
        self.expect(tidy.check_containment,
                    {"server/api/chat_request.h": source("#include <nlohmann/json.hpp>")},
                    "may not be included here")

    def test_rejects_an_unknown_library(self):
        self.expect(tidy.check_containment,
                    {"engine/base/a.cpp": source("#include <curl/curl.h>", "#include <vector>")},
                    "engine/base/a.cpp:3: <curl/curl.h> is unknown")

    def test_every_entry_of_the_table_has_a_case_here(self):
        for pattern, _ in layers.CONTAINMENT:
            self.assertTrue(any(tidy.re.match(pattern, header) for header in self.RIGHT), pattern)


class Cycles(TidyTest):
    def test_rejects_a_cycle_of_three(self):
        tree = {f"engine/base/{a}.h": source(f'#include "engine/base/{b}.h"')
                for a, b in ("ab", "bc", "ca")}
        self.expect(tidy.check_cycles, tree, "include cycle: ")

    def test_accepts_a_diamond(self):
        tree = {"engine/base/a.h": source('#include "engine/base/b.h"',
                                          '#include "engine/base/c.h"'),
                "engine/base/b.h": source('#include "engine/base/d.h"'),
                "engine/base/c.h": source('#include "engine/base/d.h"'),
                "engine/base/d.h": source()}
        self.expect(tidy.check_cycles, tree)


class Banned(TidyTest):
    WRONG = {"steady_clock::now": "auto t = std::chrono::steady_clock::now();",
             "system_clock::now": "auto t = std::chrono::system_clock::now();",
             "sleep_for": "std::this_thread::sleep_for(x);",
             "random_device": "std::random_device device;",
             "rand(": "int x = rand();",
             "getenv": 'const char* x = std::getenv("A");',
             "std::regex": "std::regex pattern;",
             "iostream": "#include <iostream>",
             "std::bind": "auto f = std::bind(g, 1);",
             "using namespace": "using namespace std;",
             "new": "int* x = new int[3];",
             "delete": "delete x;",
             "malloc(": "void* x = std::malloc(3);",
             "detach(": "thread.detach();",
             "reinterpret_cast": "auto* x = reinterpret_cast<int*>(y);",
             "throw": "throw 1;"}

    def test_rejects_each_word(self):
        for name, line in self.WRONG.items():
            self.expect(tidy.check_banned, {"engine/model/a.cpp": source("", line)},
                        f"engine/model/a.cpp:4: '{name}' is banned")

    def test_every_entry_of_the_table_has_a_case_here(self):
        self.assertEqual({entry[0] for entry in layers.BANNED}, set(self.WRONG))

    def test_accepts_each_word_where_it_is_at_home(self):
        for path, line in [("engine/base/clock.cpp", self.WRONG["steady_clock::now"]),
                           ("config/load.cpp", self.WRONG["getenv"]),
                           ("server/notify.cpp", self.WRONG["getenv"]),
                           ("engine/gguf/reader.cpp", self.WRONG["reinterpret_cast"])]:
            self.expect(tidy.check_banned, {path: source(line)})

    def test_leaves_comments_strings_and_look_alikes_alone(self):
        self.expect(tidy.check_banned, {"engine/model/a.cpp": source(
            "// delete the new rows; throw nothing", 'log("using namespace new int");',
            "/* detach( */ Model(const Model&) = delete;", "int new_rows = renew (operand());",
            "auto x = R\"(std::regex)\"; // 'new int'", "int n = 1'000'000; int newest = n;",
            "std::unique_ptr<File> file(new File());", "return std::unique_ptr<A>(new A(3));")})

    def test_sees_code_after_a_character_literal(self):
        self.expect(tidy.check_banned,
                    {"engine/model/a.cpp": source("char c = '\"'; delete x; char d = '\"';")},
                    "'delete' is banned")


class Header(TidyTest):
    def test_accepts_the_right_beginnings(self):
        self.expect(tidy.check_header, {"a.h": source("#pragma once"), "a.cpp": source(),
                                        "tests/a.cpp": HEAD.split("\n")[0] + "\n#include <x>\n",
                                        "run": "#!/bin/sh\n# SPDX-License-Identifier: MIT\n",
                                        "a.py": "# SPDX-License-Identifier: MIT\n"})

    def test_rejects_each_wrong_beginning(self):
        self.expect(tidy.check_header, {"a.cpp": "// Does things.\n// More.\n"}, "first line")
        self.expect(tidy.check_header, {"a.cpp": "// SPDX-License-Identifier: MIT\n#include <x>\n"},
                    "what the file does")
        self.expect(tidy.check_header, {"a.h": source()}, "no #pragma once")
        self.expect(tidy.check_header, {"a.py": "print()\n"}, "no # SPDX")
        self.expect(tidy.check_header, {"run": "#!/bin/sh\necho\n"}, "no # SPDX")


class Lines(TidyTest):
    def expect_line(self, text, needle, path="engine/base/a.cpp"):
        self.expect(tidy.check_lines, {path: source() + text + "\n"}, needle)

    def test_rejects_each_kind(self):
        self.expect_line("int a; ", "white space at the end")
        self.expect_line("x" * 101, "101 columns")
        self.expect_line("x" * 101, "101 columns", "tests/a.sh")
        self.expect_line("\tint a;", "a tab")
        self.expect_line("// TO" "DO: later", "left over")
        self.expect_line("FIX" "ME", "left over", "README.md")
        self.expect_line("path = /wo" "rk/x", "belongs to one machine", "docs/a.md")
        self.expect_line("cd /ro" "ot/x", "belongs to one machine", "a.sh")
        self.expect_line("https://py" "pi.org/simple", "belongs to one machine", "a.txt")
        self.expect(tidy.check_lines, {"a.cpp": HEAD + "int a;"}, "no newline at the end")

    def test_counts_characters_and_leaves_prose_and_data_wide(self):
        self.expect(tidy.check_lines, {"a.cpp": HEAD + "é" * 100 + "\n",
                                       "README.md": "x" * 300 + "\n",
                                       "tests/data/ids.jsonl": "x" * 300 + "\n",
                                       "docs/b.md": "see docs/network/ and net/root/x\n"})


class Lengths(TidyTest):
    def body(self, n, head="int f() {"):
        return source("namespace a {", head, *["    g();"] * n, "}", "}")

    def test_measures_functions(self):
        self.expect(tidy.check_lengths, {"engine/a.cpp": self.body(68)})
        self.expect(tidy.check_lengths, {"engine/a.cpp": self.body(69)},
                    "engine/a.cpp:4: f has 71 lines")

    def test_finds_the_functions_in_odd_places(self):
        for head, name in [("Result<std::vector<int>> A::make(int x) const {", "A::make"),
                           ("template <class T>\nauto pick(T x) -> int {", "pick"),
                           ("A::A(int x)\n    : x_(x) {", "A::A"),
                           ("inline bool operator==(A a, A b) {", "operator=="),
                           ("#define X(a) (a)\nvoid h(const char* s) {", "h")]:
            found = messages(tidy.check_lengths, {"engine/a.cpp": self.body(80, head)})
            self.assertEqual(len(found), 1, head)
            self.assertIn(f"{name} has", found[0])

    def test_does_not_take_a_class_or_a_table_for_a_function(self):
        for head in ("class A {", "enum class Color {", "struct [[nodiscard]] A : B<int> {",
                     "constexpr int kTable[] = {"):
            self.expect(tidy.check_lengths, {"engine/a.cpp": self.body(80, head)})

    def test_sees_a_long_method_inside_a_class(self):
        text = source("class A {", "  public:", "    void f() {", *["        g();"] * 80, "    }",
                      "};")
        self.expect(tidy.check_lengths, {"engine/a.cpp": text}, "f has 82 lines")

    def test_honours_the_list_of_exceptions(self):
        layers.LONG_FUNCTIONS[("engine/a.cpp", "f")] = "reads like the paper"
        try:
            self.expect(tidy.check_lengths, {"engine/a.cpp": self.body(80)})
        finally:
            del layers.LONG_FUNCTIONS[("engine/a.cpp", "f")]

    def test_measures_files(self):
        self.expect(tidy.check_lengths, {"a.cpp": HEAD + "\n" * 498})
        self.expect(tidy.check_lengths, {"a.cpp": HEAD + "\n" * 499}, "501 lines (limit 500)")
        self.expect(tidy.check_lengths, {"tests/a.cpp": HEAD + "\n" * 799}, "801 lines (limit 800)")
        self.expect(tidy.check_lengths, {"a.h": HEAD + "\n" * 199}, "201 lines (limit 200)")

    def test_exceptions_name_functions_that_are_there_and_long(self):
        tree = tidy.read_tree(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
        for path, name in layers.LONG_FUNCTIONS:
            lengths = [last - first + 1 for first, last, found
                       in tidy.functions(tidy.code_only(tree[path])) if found == name]
            self.assertTrue(lengths and max(lengths) > tidy.FUNCTION_LINES, (path, name))
        for path in layers.LONG_FILES:
            limit = tidy.HEADER_LINES if path.endswith(".h") else tidy.SOURCE_LINES
            self.assertGreater(tree[path].count("\n"), limit, path)


class Dead(TidyTest):
    def test_rejects_a_source_that_nothing_builds(self):
        self.expect(tidy.check_dead, {"engine/a/CMakeLists.txt": "f(a SOURCES ab.cpp b.cpp.x)\n",
                                      "engine/a/b.cpp": "", "engine/a/ab.cpp": ""},
                    "engine/a/b.cpp:1: no CMakeLists.txt builds")

    def test_accepts_a_name_a_path_and_a_glob(self):
        self.expect(tidy.check_dead, {"a/CMakeLists.txt": "f(a SOURCES b.cpp c/d.cpp)\n",
                                      "a/b.cpp": "", "a/c/d.cpp": "",
                                      "a/more.cmake": "add_executable(e e.cpp)\n", "a/e.cpp": "",
                                      "s/CMakeLists.txt": "file(GLOB x CONFIGURE_DEPENDS *.cpp)\n",
                                      "s/x.cpp": ""})


class Program(TidyTest):
    def run_on(self, files):
        with tempfile.TemporaryDirectory() as root:
            for path, text in files.items():
                os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
                with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                    file.write(text)
            return subprocess.run([sys.executable, tidy.__file__, root], capture_output=True,
                                  text=True, check=False)

    def test_fails_on_a_finding_and_passes_without(self):
        good = {"engine/base/a.cpp": source("int a;"),
                "engine/base/CMakeLists.txt": "f(a SOURCES a.cpp)\n"}
        self.assertEqual(self.run_on(good).returncode, 0)
        bad = self.run_on(good | {"engine/base/a.cpp": source("std::random_device d;")})
        self.assertEqual(bad.returncode, 1)
        self.assertIn("engine/base/a.cpp:3: 'random_device' is banned", bad.stdout)

    def test_fails_where_there_is_nothing_to_check(self):
        self.assertEqual(self.run_on({}).returncode, 1)


if __name__ == "__main__":
    unittest.main()
