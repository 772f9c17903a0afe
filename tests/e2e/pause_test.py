#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The device is given back and taken again while a server answers: by `ballast pause`, `resume`
and `pause --while`, and for a game that a script of samples plays. The texts stay the same."""

import json
import os
import pathlib
import signal
import subprocess
import tempfile
import threading
import time
import unittest

from ballast_program import BINARY, SMOLLM2, Server, environment, model_path, run
from suite import main

# Whole groups: then texts are to the bit those of the CPU alone.
MODEL = ("--context", "512", "--device", "host", "--vram-budget", "256MiB", "--divide-groups",
         "false")
TOKENS = 120


def load(server):
    status, _, body = server.request("GET", "/health")
    assert status == 200, body
    return json.loads(body)["load"]


def complete(server, seed=7, tokens=TOKENS):
    status, _, body = server.request("POST", "/v1/completions", {
        "model": SMOLLM2, "prompt": "Once upon a time", "max_tokens": tokens, "seed": seed,
        "temperature": 1.0})
    assert status == 200, body
    return json.loads(body)["choices"][0]["text"]


def wait_for(condition, seconds=20):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


class Pause(unittest.TestCase):
    def undisturbed(self, seeds):
        with Server(model_path(SMOLLM2), "--context", "512") as server:
            return [complete(server, seed) for seed in seeds]

    def test_pause_and_resume_while_it_answers(self):
        seeds = (1, 2, 3)
        expected = self.undisturbed(seeds)
        with Server(model_path(SMOLLM2), *MODEL) as server:
            self.assertGreater(load(server)["device_bytes"], 0)
            texts = {}
            def ask(seed):
                texts[seed] = complete(server, seed)
            threads = [threading.Thread(target=ask, args=(seed,)) for seed in seeds]
            for thread in threads:
                thread.start()
            time.sleep(0.3)
            code, out, error = run("ps", "--port", server.port)
            self.assertEqual((code, error), (0, ""))
            self.assertRegex(out, r"(?m)^  level +full$")
            self.assertRegex(out, r"(?m)^  attention +\d.* MB ")
            code, out, error = run("pause", "--port", server.port)
            self.assertEqual((code, error), (0, ""))
            self.assertIn("Paused", out)
            out = run("ps", "--port", server.port)[1]
            self.assertRegex(out, r"(?m)^  level +paused: ")
            self.assertRegex(out, r"(?m)^  device +- ours")
            self.assertRegex(out, r"(?m)^  attention +- ")
            shown = json.loads(run("ps", "--json", "--port", server.port)[1])
            self.assertEqual(shown["load"]["level"], "paused")
            shown = load(server)
            self.assertEqual((shown["level"], shown["device_bytes"]), ("paused", 0))
            self.assertEqual(server.metric("ballast_gpu_memory_bytes"), 0)
            time.sleep(0.2)
            code, _, error = run("resume", "--port", server.port)
            self.assertEqual((code, error), (0, ""))
            for thread in threads:
                thread.join()
            self.assertEqual([texts[seed] for seed in seeds], expected)
            complete(server)
            self.assertTrue(wait_for(lambda: complete(server, tokens=16) is not None
                                     and load(server)["device_bytes"] > 0))
            self.assertEqual(load(server)["level"], "full")
            status, _, body = server.request("GET", "/ballast/v1/decisions")
            self.assertEqual(status, 200)
            paused = [entry for entry in json.loads(body)["data"] if entry["cause"] == "paused"]
            self.assertEqual(len(paused), 1)
            self.assertRegex(paused[0]["text"], r"Paused by request; \d+\.\d MiB of the device")

    def test_while_a_command_runs(self):
        with Server(model_path(SMOLLM2), *MODEL) as server:
            ask = f"curl -s http://127.0.0.1:{server.port}/health; exit 3"
            code, out, error = run("pause", "--port", server.port, "--while", "--", "sh", "-c", ask)
            self.assertEqual((code, error), (3, ""))
            inside = json.loads(out)["load"]
            self.assertEqual((inside["level"], inside["device_bytes"]), ("paused", 0))
            self.assertTrue(wait_for(lambda: load(server)["level"] == "full"))

            code, _, _ = run("pause", "--port", server.port, "--while", "--", "sh", "-c",
                             "kill -9 $$")
            self.assertEqual(code, 128 + 9)
            self.assertTrue(wait_for(lambda: load(server)["level"] == "full"))

            code, _, error = run("pause", "--port", server.port, "--while", "--", "no-such-game")
            self.assertEqual(code, 127)
            self.assertIn("no-such-game", error)

    def test_the_server_resumes_by_itself_if_the_pausing_process_is_killed(self):
        with Server(model_path(SMOLLM2), *MODEL) as server:
            with subprocess.Popen(
                    [BINARY, "pause", "--port", str(server.port), "--while", "--", "sleep", "60"],
                    env=environment(), stdin=subprocess.DEVNULL, start_new_session=True) as pausing:
                self.assertTrue(wait_for(lambda: load(server)["level"] == "paused"))
                time.sleep(11)  # longer than one promise lasts
                self.assertEqual(load(server)["level"], "paused")
                pausing.send_signal(signal.SIGKILL)
                pausing.wait()
                self.assertEqual(load(server)["level"], "paused")
                self.assertTrue(wait_for(lambda: load(server)["level"] == "full"))
                os.killpg(pausing.pid, signal.SIGKILL)  # the command that was left over

    def test_a_command_runs_although_no_server_does(self):
        code, out, error = run("pause", "--port", "1", "--while", "--", "echo", "played")
        self.assertEqual((code, out), (0, "played\n"))
        self.assertIn("not paused", error)
        code, _, error = run("pause", "--port", "1")
        self.assertEqual(code, 1)
        self.assertIn("No server answers at http://127.0.0.1:1", error)


class Script(unittest.TestCase):
    def test_a_game_takes_the_memory_and_gives_it_back(self):
        with tempfile.TemporaryDirectory() as folder:
            script = pathlib.Path(folder) / "game.jsonl"
            total = 256 << 20
            script.write_text(
                json.dumps({"t_ms": 0, "device_total_bytes": total, "others_bytes": 0}) + "\n"
                + json.dumps({"t_ms": 2500, "others_bytes": total, "process": "game"}) + "\n"
                + json.dumps({"t_ms": 5000, "others_bytes": 0, "process": None}) + "\n")
            with Server(model_path(SMOLLM2), "--context", "512") as server:
                expected = complete(server)
            with Server(model_path(SMOLLM2), *MODEL, "--gpu-monitor", f"script:{script}") as server:
                levels = set()
                deadline = time.monotonic() + 60
                while True:
                    self.assertEqual(complete(server), expected)
                    shown = load(server)
                    levels.add(shown["level"])
                    if shown["level"] == "minimal":
                        self.assertEqual(shown["device_bytes"], 0)
                        self.assertIn("game", shown["reason"])
                    if "minimal" in levels and shown["device_bytes"] > 0:
                        break
                    self.assertLess(time.monotonic(), deadline, levels)
                self.assertIn("full", levels)
                text = server.request("GET", "/metrics")[2].decode()
                self.assertRegex(text, r'ballast_evicted_bytes_total\{cause="memory"\} [1-9]')
                self.assertIn('ballast_degraded{reason="failed_allocation"} 0', text)

    def test_bad_values_are_refused_in_one_sentence(self):
        with tempfile.TemporaryDirectory() as folder:
            bad = pathlib.Path(folder) / "bad.jsonl"
            bad.write_text('{"t_ms": 0, "other_bytes": 1}\n')
            for value, expected in (("nvml", '"nvml" is no monitor'),
                                    ("script:", '"script:" is no monitor'),
                                    (f"script:{folder}/none", "none"),
                                    (f"script:{bad}", 'Line 1 has the unknown key "other_bytes"')):
                code, _, error = run("serve", model_path(SMOLLM2), "--gpu-monitor", value)
                self.assertGreater(code, 0)
                self.assertIn("engine.gpu_monitor", error)
                self.assertIn(expected, error)
                self.assertEqual(error.count("\n"), 1, error)


if __name__ == "__main__":
    main()
