# SPDX-License-Identifier: MIT
"""Runs the built program for the tests beside it, with none of the caller's settings."""

import os
import pathlib
import subprocess
import tempfile
import unittest

BINARY = os.environ.get("BALLAST_BINARY", "build/dev/ballast")
SOURCE = pathlib.Path(os.environ.get("BALLAST_SOURCE_DIR", "."))


def environment(home, settings):
    kept = {k: v for k, v in os.environ.items()
            if not k.startswith(("BALLAST_", "XDG_", "LISTEN_", "WATCHDOG_", "NOTIFY_"))}
    return kept | {"HOME": str(home), "LC_ALL": "C"} | settings


def data(variable, required, default, name):
    """A file outside the repository; skips, or fails where it is required."""
    path = pathlib.Path(os.environ.get(variable) or SOURCE / default) / name
    if path.exists():
        return path
    if os.environ.get(required) == "1":
        raise AssertionError(f"{required} is set but there is no {path}")
    raise unittest.SkipTest(f"SKIPPED: no {path} (set {variable})")


def refdata(name):
    return data("BALLAST_REFDATA", "BALLAST_REFDATA_REQUIRED", "../shared/refdata", name)


def model():
    return data("BALLAST_TEST_MODELS", "BALLAST_MODELS_REQUIRED", "build/models",
                "smollm2-135m-instruct-q4_1.gguf")


class ProgramTest(unittest.TestCase):
    """Gives each test a home folder of its own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.home = pathlib.Path(folder.name)

    def write(self, name, text):
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def run_program(self, *arguments, settings=None, stdin="", timeout=60):
        return subprocess.run([BINARY, *map(str, arguments)], input=stdin, capture_output=True,
                              encoding="utf-8", timeout=timeout, check=False,
                              env=environment(self.home, settings or {}))

    def expect_success(self, *arguments, **options):
        done = self.run_program(*arguments, **options)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr, "")
        return done.stdout

    def expect_failure(self, *arguments, code=1, **options):
        """One line on stderr, the exit code, no signal. Gives the line."""
        done = self.run_program(*arguments, **options)
        self.assertEqual(done.returncode, code, done.stderr)
        lines = done.stderr.splitlines()
        self.assertEqual(len(lines), 1, done.stderr)
        self.assertTrue(lines[0].startswith("ballast: "), lines[0])
        return lines[0].removeprefix("ballast: ")
