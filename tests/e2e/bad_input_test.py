#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What goes wrong at the start gives one sentence and an exit code, never a crash or a hang."""

import json
import os
import pathlib
import socket
import tempfile
import unittest

from ballast_program import SMOLLM2, free_port, model_path, refdata_path, run
from suite import main


class BadModel(unittest.TestCase):
    def expect_refusal(self, path, *needles):
        for command in (["serve", path, "--port", free_port()], ["show", path]):
            code, _, error = run(*command)
            self.assertIn(code, range(1, 127), f"{command}: {code}\n{error}")
            self.assertEqual(len(error.strip().splitlines()), 1, f"{command}: {error}")
            for needle in (str(path), *needles):
                self.assertIn(needle, error)

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, name, data):
        (self.folder / name).write_bytes(data)
        return self.folder / name

    def test_path_that_is_not_there(self):
        self.expect_refusal(self.folder / "nothing.gguf")

    def test_folder(self):
        self.expect_refusal(self.folder)

    def test_file_that_is_not_gguf(self):
        self.expect_refusal(self.write("text.gguf", b"This is a text, not a model.\n" * 100))
        self.expect_refusal(self.write("empty.gguf", b""))

    @unittest.skipIf(os.geteuid() == 0, "root may read everything")
    def test_file_that_may_not_be_read(self):
        path = self.write("secret.gguf", b"GGUF")
        path.chmod(0)
        self.expect_refusal(path)

    def test_model_that_is_cut(self):
        with open(model_path(SMOLLM2), "rb") as file:
            data = file.read(4 << 20)
        for size in (3, 4, 23, 24, 100, 5000, 1 << 20, len(data)):
            self.expect_refusal(self.write(f"cut-{size}.gguf", data[:size]))

    def test_each_malformed_file(self):
        folder = refdata_path("malformed")
        with open(folder / "index.jsonl", encoding="ascii") as file:
            cases = [json.loads(line) for line in file]
        self.assertGreater(len(cases), 40)
        for case in cases:
            with self.subTest(**case):
                self.expect_refusal(folder / case["file"])


class BadStart(unittest.TestCase):
    def test_port_that_is_taken(self):
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen()
            port = other.getsockname()[1]
            code, _, error = run("serve", model_path(SMOLLM2), "--port", port)
        self.assertIn(code, range(1, 127), error)
        self.assertIn(str(port), error.strip().splitlines()[-1])

    def test_wrong_arguments(self):
        for arguments in ([], ["nonsense"], ["serve"], ["serve", "x.gguf", "--port", "abc"],
                          ["serve", "x.gguf", "--port", "70000"], ["serve", "x.gguf", "--nothing"],
                          ["serve", "x.gguf", "--threads", "-1"]):
            with self.subTest(arguments=arguments):
                code, _, error = run(*arguments)
                self.assertIn(code, range(1, 127))
                self.assertTrue(error.strip())


if __name__ == "__main__":
    main()
