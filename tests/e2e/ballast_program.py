# SPDX-License-Identifier: MIT
"""Runs the built program for the end-to-end tests: a server on a free port, or a command to its
end. Says where models and reference data are, and skips or fails where they are not.

Environment: BALLAST_BINARY (the program), BALLAST_SOURCE_DIR, and those of
tests/support/test_data.h."""

import contextlib
import http.client
import json
import os
import pathlib
import signal
import socket
import subprocess
import tempfile
import time
import unittest

BINARY = os.environ.get("BALLAST_BINARY", "build/ci/ballast")
SOURCE = pathlib.Path(os.environ.get("BALLAST_SOURCE_DIR", "."))
SMOLLM2 = "smollm2-135m-instruct-q4_1"
GEMMA = "gemma-3-270m-q4_k_m"
START_SECONDS = 60
STOP_SECONDS = 30


def _missing(what, required):
    if os.environ.get(required) == "1":
        raise AssertionError(f"{required} is set but there is no {what}")
    raise unittest.SkipTest(f"no {what}")


def model_path(key):
    folder = os.environ.get("BALLAST_TEST_MODELS") or SOURCE / "build/models"
    path = pathlib.Path(folder) / f"{key}.gguf"
    return path if path.is_file() else _missing(f"model {path} (run tests/models.sh)",
                                                "BALLAST_MODELS_REQUIRED")


def refdata_path(name):
    folder = os.environ.get("BALLAST_REFDATA") or SOURCE / "../shared/refdata"
    path = pathlib.Path(folder) / name
    return path if path.exists() else _missing(f"reference data {path}",
                                               "BALLAST_REFDATA_REQUIRED")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


_HOME = tempfile.TemporaryDirectory(prefix="ballast-home-")


def environment():
    """Without the caller's settings and files, so that a test means the same everywhere."""
    kept = {k: v for k, v in os.environ.items()
            if not k.startswith(("BALLAST_", "XDG_", "LISTEN_", "WATCHDOG_", "NOTIFY_"))}
    # Measuring the machine beside a test would slow it down.
    return kept | {"HOME": _HOME.name, "LC_ALL": "C", "BALLAST_ENGINE_PROFILE_WHEN_IDLE": "false"}


def run(*arguments, timeout=60, **options):
    """A command to its end: (exit code, stdout, stderr)."""
    done = subprocess.run([BINARY, *map(str, arguments)], capture_output=True, text=True,
                          timeout=timeout, env=environment(), check=False,
                          stdin=subprocess.DEVNULL, **options)
    return done.returncode, done.stdout, done.stderr


class Server:
    """`ballast serve` as a context: ready on entry, ended in order on exit."""

    def __init__(self, model, *arguments):
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [BINARY, "serve", str(model), "--port", str(self.port), *map(str, arguments)],
            stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log, env=environment())

    def __enter__(self):
        deadline = time.monotonic() + START_SECONDS
        while True:
            if self.process.poll() is not None:
                raise AssertionError(f"the server ended with {self.process.returncode}:\n"
                                     + self.log())
            with contextlib.suppress(OSError, http.client.HTTPException):
                if self.request("GET", "/health", timeout=2)[0] == 200:
                    return self
            if time.monotonic() > deadline:
                self.process.kill()
                raise AssertionError(f"not ready after {START_SECONDS} s:\n" + self.log())
            time.sleep(0.05)

    def __exit__(self, kind, *_):
        code = self.stop()
        log = self.log()
        self._log.close()
        if kind is None and code != 0:
            raise AssertionError(f"the server ended with {code}:\n" + log)

    def stop(self):
        """Sends SIGTERM if it still runs, and gives the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout=STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise AssertionError(f"still there {STOP_SECONDS} s after SIGTERM:\n"
                                 + self.log()) from None

    def log(self):
        self._log.seek(0)
        return self._log.read().decode(errors="replace")

    def request(self, method, path, body=None, headers=None, timeout=120):
        """One exchange without a client library: (status, headers, body bytes)."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            if isinstance(body, (dict, list)):
                body = json.dumps(body)
            given = {"Content-Type": "application/json"} if body is not None else {}
            connection.request(method, path, body=body, headers=given | (headers or {}))
            response = connection.getresponse()
            return response.status, dict(response.getheaders()), response.read()
        finally:
            connection.close()

    def metric(self, name):
        """The sum of a metric's samples, whatever their labels."""
        text = self.request("GET", "/metrics")[2].decode()
        values = [float(line.rsplit(" ", 1)[1]) for line in text.splitlines()
                  if line.split("{")[0].split(" ")[0] == name]
        if not values:
            raise AssertionError(f"no metric {name} in:\n{text}")
        return sum(values)
