#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The unit files are what systemd understands, and what the program expects.

systemd-analyze also looks for the program, so the units are verified as copies whose ExecStart is
an executable of the test's own. Without systemd-analyze the test is skipped with a line that says
so; where BALLAST_REFDATA_REQUIRED=1 (the test runner's way to say that nothing may be left out) it
fails."""

import configparser
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ.get("BALLAST_SOURCE_DIR", "."))
UNITS = ("ballast.service", "ballast.socket")
ANALYZE = shutil.which("systemd-analyze")


def read_unit(name):
    parser = configparser.ConfigParser(strict=False, interpolation=None, comment_prefixes="#")
    parser.optionxform = str
    parser.read_string((SOURCE / "systemd" / name).read_text(encoding="utf-8"))
    return parser


def verify(edit=lambda name, text: text):
    """systemd-analyze verify over copies of the units: (exit code, output)."""
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder) / "ballast"
        program.write_text("#!/bin/sh\n", encoding="ascii")
        program.chmod(0o755)
        for name in UNITS:
            text = (SOURCE / "systemd" / name).read_text(encoding="utf-8")
            text = text.replace("%h/.local/bin/ballast", str(program))
            (pathlib.Path(folder) / name).write_text(edit(name, text), encoding="utf-8")
        runtime = pathlib.Path(folder) / "run"
        runtime.mkdir(mode=0o700)
        done = subprocess.run(
            [ANALYZE, "verify", "--user", *(str(pathlib.Path(folder) / n) for n in UNITS)],
            capture_output=True, text=True, check=False, timeout=60,
            env=dict(os.environ, XDG_RUNTIME_DIR=str(runtime)))
        return done.returncode, done.stdout + done.stderr


class Units(unittest.TestCase):
    def require_analyze(self):
        if ANALYZE:
            return
        if os.environ.get("BALLAST_REFDATA_REQUIRED") == "1":
            self.fail("systemd-analyze is needed here and is missing (Debian package systemd)")
        self.skipTest("SKIPPED: there is no systemd-analyze to verify the unit files with")

    def test_systemd_understands_them(self):
        self.require_analyze()
        code, output = verify()
        self.assertEqual(code, 0, output)
        self.assertEqual(output.strip(), "")

    def test_a_mistake_would_be_found(self):
        self.require_analyze()
        _, output = verify(lambda _, text: text.replace("WatchdogSec=", "WatchDogSec="))
        self.assertIn("WatchDogSec", output)
        code, output = verify(lambda _, text: text.replace("/ballast serve", "/nothing serve"))
        self.assertNotEqual(code, 0, output)

    def test_the_service_speaks_the_protocols_of_the_program(self):
        service = read_unit("ballast.service")["Service"]
        self.assertEqual(service["Type"], "notify")
        self.assertEqual(service["ExecStart"], "%h/.local/bin/ballast serve")
        self.assertEqual(service["Restart"], "on-failure")
        self.assertGreater(int(service["WatchdogSec"]), 0)
        # The notification goes over a unix socket.
        self.assertIn("AF_UNIX", service["RestrictAddressFamilies"].split())

    def test_the_stop_leaves_time_for_running_requests(self):
        service = read_unit("ballast.service")["Service"]
        default = next(line for line in
                       (SOURCE / "config/ballast.toml").read_text(encoding="utf-8").splitlines()
                       if line.startswith("shutdown_seconds"))
        self.assertGreater(int(service["TimeoutStopSec"]), int(default.split("=")[1]))

    def test_the_socket_is_the_default_address(self):
        socket = read_unit("ballast.socket")["Socket"]
        self.assertEqual(socket["ListenStream"], "127.0.0.1:2255")
        defaults = (SOURCE / "config/ballast.toml").read_text(encoding="utf-8").splitlines()
        self.assertIn('host = "127.0.0.1"', defaults)
        self.assertIn("port = 2255", defaults)


if __name__ == "__main__":
    if not ANALYZE:
        print("SKIPPED: there is no systemd-analyze; the unit files are only read")
    program = unittest.main(exit=False, verbosity=2)
    if not program.result.wasSuccessful():
        sys.exit(1)
