#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`ballast serve`: how it starts, what it refuses, how it ends, what it tells a service manager."""

import contextlib
import http.client
import os
import signal
import socket
import subprocess
import time
import unittest

from program import BINARY, ProgramTest, environment, model

START_SECONDS = 60
# Measuring the machine beside a test would slow it down.
QUIET = {"BALLAST_ENGINE_PROFILE_WHEN_IDLE": "false"}


class Service(ProgramTest):
    def setUp(self):
        super().setUp()
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]

    def start(self, *arguments, settings=None, **options):
        process = subprocess.Popen(
            [BINARY, "serve", *map(str, arguments)], stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
            env=environment(self.home, QUIET | (settings or {})), **options)
        self.addCleanup(self.finish, process)
        return process

    @staticmethod
    def finish(process):
        process.kill()
        process.communicate()

    def lines_until(self, process, text):
        """The lines of stdout up to the one that begins with the text."""
        lines = []
        for line in process.stdout:
            lines.append(line.rstrip("\n"))
            if line.startswith(text):
                return lines
        self.fail(f"no line {text!r} in {lines}: {process.stderr.read()}")

    def health(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        with contextlib.closing(connection):
            connection.request("GET", "/health")
            return connection.getresponse().status


class Starts(Service):
    def test_and_prints_what_a_client_needs(self):
        process = self.start(model(), "--port", self.port, "--context", 256, "--threads", 1,
                             "--parallel", 2)
        text = "\n".join(self.lines_until(process, "OPENAI_API_KEY="))
        url = f"http://127.0.0.1:{self.port}"
        for part in (f"OPENAI_BASE_URL={url}/v1\nOPENAI_API_KEY=ballast", "256 tokens a request",
                     "2 requests at a time", "1 threads", "kernels", "from the model file",
                     f"Listening on:  {url}\n"):
            self.assertIn(part, text)
        self.assertEqual(self.health(), 200)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(timeout=20), 0)

    def test_on_any_free_port_when_it_is_nought(self):
        process = self.start(model(), "--port", 0, "--context", 256)
        lines = self.lines_until(process, "OPENAI_BASE_URL=")
        self.port = int(lines[-1].rsplit(":", 1)[1].removesuffix("/v1"))
        self.assertGreater(self.port, 0)
        self.assertEqual(self.health(), 200)

    def test_with_the_model_and_the_template_of_the_configuration(self):
        template = self.write("t.jinja", "x")
        self.write(".config/ballast/ballast.toml",
                   f'[model]\npath = "{model()}"\nchat_template = "~/t.jinja"\n'
                   f"[server]\nport = {self.port}\n[engine]\ncontext = 256\n")
        process = self.start()
        self.assertIn(f"from {template}", "\n".join(self.lines_until(process, "OPENAI_API_KEY=")))


class Profiles(Service):
    """Nothing of profiling may stop a start."""
    WHEN_IDLE = {"BALLAST_ENGINE_PROFILE_WHEN_IDLE": "true"}

    def test_this_machine_when_idle_and_stores_it(self):
        process = self.start(model(), "--port", self.port, "--context", 256,
                             settings=self.WHEN_IDLE)
        self.lines_until(process, "OPENAI_API_KEY=")
        self.assertEqual(self.health(), 200)
        folder = self.home / ".cache/ballast/profile"
        end = time.monotonic() + 120
        while not list(folder.glob("*.json")):
            self.assertIsNone(process.poll())
            self.assertLess(time.monotonic(), end)
            time.sleep(0.2)
        text = self.run_program("doctor", model(), "--port", 0).stdout
        self.assertIn(f"({list(folder.glob('*.json'))[0]})", text)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(timeout=20), 0)

    def test_where_nothing_can_be_kept_and_ends_when_told(self):
        self.write(".cache", "a file where the folder would be")
        process = self.start(model(), "--port", self.port, "--context", 256,
                             settings=self.WHEN_IDLE)
        self.lines_until(process, "OPENAI_API_KEY=")
        # In the middle of measuring, most likely.
        time.sleep(2)
        self.assertEqual(self.health(), 200)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(timeout=20), 0)


class Refuses(Service):
    def test_to_listen_where_others_can_reach_it(self):
        for host in ("0.0.0.0", "::", "192.0.2.1"):
            message = self.expect_failure("serve", model(), "--host", host, code=2)
            self.assertIn("no API keys", message)
            self.assertIn("127.0.0.1", message)

    def test_a_port_that_is_taken(self):
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen()
            port = other.getsockname()[1]
            self.assertIn(str(port), self.expect_failure("serve", model(), "--port", port))

    def test_a_model_that_cannot_be_loaded(self):
        for path in (self.home / "none.gguf", self.home, self.write("text.gguf", "no model" * 99)):
            self.assertIn(str(path), self.expect_failure("serve", path, "--port", self.port))
        self.assertIn("No model", self.expect_failure("serve", "--port", self.port, code=2))

    def test_settings_out_of_range(self):
        self.assertIn("--threads", self.expect_failure("serve", model(), "--threads", "-1", code=2))
        self.assertIn("--kv-type", self.expect_failure("serve", model(), "--kv-type", "q4",
                                                       code=2))
        self.assertIn("t.jinja", self.expect_failure("serve", model(), "--port", self.port,
                                                     "--chat-template", self.home / "t.jinja"))


class Manager:
    """The service manager's end of sd_notify."""

    def __init__(self, name):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(name.replace("@", "\0", 1))
        self.socket.settimeout(START_SECONDS)

    def wait_for(self, assignment):
        """Reads until an assignment has come; gives all that came with and before it."""
        seen = []
        while assignment not in seen:
            seen += self.socket.recv(4096).decode().split("\n")
        return seen


class Notifies(Service):
    def test_readiness_life_and_stop(self):
        for name in (str(self.home / "notify"), f"@ballast-serve-test-{os.getpid()}"):
            with self.subTest(name=name):
                manager = Manager(name)
                self.addCleanup(manager.socket.close)
                process = self.start(model(), "--port", self.port, "--context", 256,
                                     settings={"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "400000"})
                seen = manager.wait_for("READY=1")
                self.assertTrue(any(line.startswith("STATUS=Loading") for line in seen), seen)
                self.assertNotIn("WATCHDOG=1", seen)
                self.assertEqual(self.health(), 200)
                begin = time.monotonic()
                for _ in range(5):
                    manager.wait_for("WATCHDOG=1")
                # Five signs of life at half of 0.4 s; a busy machine may be late.
                self.assertGreater(time.monotonic() - begin, 0.7)
                process.send_signal(signal.SIGTERM)
                manager.wait_for("STOPPING=1")
                self.assertEqual(process.wait(timeout=20), 0)

    def test_takes_the_socket_it_is_given(self):
        listener = socket.socket()
        self.addCleanup(listener.close)
        listener.bind(("127.0.0.1", self.port))
        listener.listen()
        # The configured port is another one: the socket counts.
        process = self.start_with_socket(listener)
        self.assertIn(f"OPENAI_BASE_URL=http://127.0.0.1:{self.port}/v1",
                      self.lines_until(process, "OPENAI_API_KEY="))
        self.assertEqual(self.health(), 200)

    def test_refuses_a_socket_that_others_can_reach(self):
        listener = socket.socket()
        self.addCleanup(listener.close)
        listener.bind(("0.0.0.0", 0))
        listener.listen()
        process = self.start_with_socket(listener)
        self.assertEqual(process.wait(timeout=60), 2)
        self.assertIn("no API keys", process.stderr.read())

    def start_with_socket(self, listener):
        """LISTEN_PID must be the program's own process, so a shell sets it and becomes it."""
        descriptor = listener.fileno()
        script = f'exec 3<&{descriptor}; export LISTEN_FDS=1 LISTEN_PID=$$; exec "$@"'
        process = subprocess.Popen(
            ["bash", "-c", script, "bash", BINARY, "serve", str(model()), "--context", "256"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, pass_fds=(descriptor,),
            env=environment(self.home, QUIET))
        self.addCleanup(self.finish, process)
        return process


class Ends(Service):
    def test_in_order_when_told_and_idle(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            process = self.start(model(), "--port", self.port, "--context", 256)
            self.lines_until(process, "OPENAI_API_KEY=")
            process.send_signal(number)
            self.assertEqual(process.wait(timeout=20), 0)

    def test_at_once_when_nothing_but_half_a_request_is_there(self):
        for part in (b"GET /hea", b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\n"
                     b"Content-Length: 99\r\n\r\n{"):
            process = self.start(model(), "--port", self.port, "--context", 256,
                                 settings={"BALLAST_SERVER_SHUTDOWN_SECONDS": "3000"})
            self.lines_until(process, "OPENAI_API_KEY=")
            with socket.create_connection(("127.0.0.1", self.port)) as client:
                client.sendall(part)
                self.assertEqual(self.health(), 200)
                process.send_signal(signal.SIGTERM)
                self.assertEqual(process.wait(timeout=60), 0)

    def test_only_when_told_where_the_standard_streams_are_closed(self):
        process = subprocess.Popen(
            ["bash", "-c", 'exec "$@" <&- >&- 2>&-', "bash", BINARY, "serve", str(model()),
             "--port", str(self.port), "--context", "256"], env=environment(self.home, QUIET))
        self.addCleanup(process.kill)
        while True:
            self.assertIsNone(process.poll())
            try:
                if self.health() == 200:
                    break
            except ConnectionRefusedError:
                pass
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(timeout=20), 0)

    def test_in_order_when_told_while_loading(self):
        process = self.start(model(), "--port", self.port, "--context", 256)
        self.lines_until(process, "Loading")
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(timeout=30), 0)

    def test_after_the_deadline_when_a_request_does_not_end(self):
        self.stream_and_stop(["--context", 8192], "1", signals=1, code=0)

    def test_at_once_when_told_twice(self):
        self.stream_and_stop(["--context", 8192], "600", signals=2, code=128 + signal.SIGTERM)

    def stream_and_stop(self, arguments, shutdown_seconds, signals, code):
        """Stops the server under a reply that would take minutes."""
        process = self.start(model(), "--port", self.port, *arguments,
                             settings={"BALLAST_SERVER_SHUTDOWN_SECONDS": shutdown_seconds})
        self.lines_until(process, "OPENAI_API_KEY=")
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        with contextlib.closing(connection):
            connection.request(
                "POST", "/v1/completions",
                '{"model": "smollm2-135m-instruct-q4_1", "prompt": "Once", "max_tokens": 8000, '
                '"stream": true, "ignore_eos": true}', {"Content-Type": "application/json"})
            response = connection.getresponse()
            self.assertEqual(response.status, 200)
            self.assertTrue(response.read(10))
            begin = time.monotonic()
            process.send_signal(signal.SIGTERM)
            for _ in range(signals - 1):
                time.sleep(0.3)
                process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(timeout=40), code)
            if signals == 1:
                self.assertGreater(time.monotonic() - begin, 0.8)


if __name__ == "__main__":
    unittest.main(verbosity=2)
