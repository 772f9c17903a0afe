#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The subcommands that print and end: what they print, how they fail."""

import json
import os
import re
import socket
import subprocess
import unittest

from program import BINARY, SOURCE, ProgramTest, environment, model, refdata


class Arguments(ProgramTest):
    def test_version_and_help(self):
        self.assertRegex(self.expect_success("--version"), r"^ballast \d+\.\d+\.\d+\n$")
        self.assertIn("serve", self.expect_success("--help"))
        self.assertIn("--port", self.expect_success("serve", "--help"))

    def test_mistakes_name_the_near_word(self):
        self.assertEqual(self.expect_failure("sreve", code=2),
                         "ballast has no subcommand 'sreve'; did you mean 'serve'?")
        self.assertEqual(self.expect_failure("serve", "m", "--prot", "1", code=2),
                         "ballast serve has no option '--prot'; did you mean '--port'?")
        self.expect_failure(code=2)

    def test_one_subcommand_is_enough(self):
        for words in (("show", "none", "serve", "none"), ("doctor", "none", "serve"),
                      ("config", "show", "check"), ("config", "check", "a", "b")):
            with self.subTest(words=words):
                self.assertIn("takes no further argument", self.expect_failure(*words, code=2))

    def test_an_error_that_nobody_can_read_is_an_error(self):
        for redirection in ("2>&-", "2>/dev/full"):
            done = subprocess.run(["bash", "-c", f'exec "$@" {redirection}', "bash", BINARY,
                                   "sreve"], check=False, env=environment(self.home, {}))
            self.assertEqual(done.returncode, 2, redirection)

    def test_eval_refuses_what_it_would_have_to_guess(self):
        ids = ("eval", model(), "--logits", self.home / "out.npy", "--ids")
        for wrong in ("1,,2", "[1,2]", "1,", "x", "1 2"):
            self.assertIn("separated by commas", self.expect_failure(*ids, wrong))
        self.assertIn("not an id", self.expect_failure(*ids, "1,99999999"))
        text = ("eval", model(), "--perplexity", self.write("t.txt", "x"))
        for wrong in (("--chunks", 0), ("--chunks", -1), ("--last",)):
            self.expect_failure(*text, *wrong, code=2)
        self.expect_failure(*ids, "1,2", "--chunks", 3, code=2)

    def test_full_disk_is_no_success(self):
        if not os.path.exists("/dev/full"):
            self.skipTest("SKIPPED: no /dev/full")
        with open("/dev/full", "w", encoding="ascii") as full:
            done = subprocess.run([BINARY, "--version"], stdout=full, stderr=subprocess.PIPE,
                                  text=True, check=False, env=environment(self.home, {}))
        self.assertEqual((done.returncode, done.stderr),
                         (1, "ballast: Cannot write to standard output.\n"))


class Config(ProgramTest):
    def values(self, *arguments, **options):
        """{"server.port": ("2255", "default")}"""
        found = {}
        section = ""
        for line in self.expect_success("config", "show", *arguments, **options).splitlines():
            if line.startswith("["):
                section = line.strip("[]")
            elif " = " in line:
                name, rest = line.split(" = ", 1)
                value, origin = rest.rsplit(" # ", 1)
                found[f"{section}.{name}"] = (value.strip(), origin)
        return found

    def test_show_prints_each_value_and_its_source(self):
        path = self.write(".config/ballast/ballast.toml",
                          "[server]\nport = 1\n[queue]\ndepth = 2\n")
        values = self.values(settings={"BALLAST_SERVER_PORT": "3"})
        self.assertEqual(values["server.port"], ("3", "BALLAST_SERVER_PORT"))
        self.assertEqual(values["queue.depth"], ("2", f"{path}:4"))
        self.assertEqual(values["server.host"], ('"127.0.0.1"', "default"))
        defaults = (SOURCE / "config/ballast.toml").read_text(encoding="utf-8")
        self.assertEqual(len(values), len(re.findall(r"^\w+ = ", defaults, re.M)))

    def test_what_show_prints_can_be_read_again(self):
        settings = {"BALLAST_SERVER_ALLOWED_HOSTS": "a,b", "BALLAST_MODEL_PATH": 'x"\\y'}
        printed = self.expect_success("config", "show", settings=settings)
        path = self.write("again.toml", printed)
        again = self.values("--config", path)
        self.assertEqual(again["server.allowed_hosts"][0], '["a", "b"]')
        self.assertEqual(again["model.path"][0], '"x\\"\\\\y"')

    def test_check_says_what_is_wrong_and_where(self):
        good = self.write("good.toml", "[server]\nport = 80\n")
        self.assertIn("is right", self.expect_success("config", "check", good))
        bad = self.write("bad.toml", "[server]\nprot = 80\n")
        message = f"{bad}:2: unknown key 'prot' in [server]; did you mean 'port'?"
        self.assertEqual(self.expect_failure("config", "check", bad), message)
        self.assertEqual(self.expect_failure("config", "show", "--config", bad), message)
        self.assertEqual(self.expect_failure("serve", "m.gguf", "--config", bad, code=2), message)
        self.assertEqual(
            self.expect_failure("config", "check", settings={"BALLAST_CONFIG": str(bad)}), message)
        self.assertIn("No such file", self.expect_failure("config", "check", self.home / "none"))
        wide = self.write("wide.toml", '[server]\nhost = "0.0.0.0"\n')
        self.assertIn("0.0.0.0", self.expect_failure("config", "check", wide))
        many = self.write("many.toml", "[engine]\nparallel = 100\n")
        self.assertIn("from 1 to 64", self.expect_failure("config", "check", many))


class Template(ProgramTest):
    CASE = json.dumps({"case": "x", "messages": [{"role": "user", "content": "Hi"}],
                       "tools": None, "add_generation_prompt": True, "bos_token": "<s>",
                       "eos_token": "</s>", "extra": {"mood": "calm"}})

    def test_prints_the_prompt_and_nothing_else(self):
        path = self.write("t.jinja", "{{ bos_token }}{% for m in messages %}{{ m.role }}: "
                                     "{{ m.content }}{% endfor %}{{ mood }}")
        self.assertEqual(self.expect_success("template", path, stdin=self.CASE),
                         "<s>user: Hicalm")

    def test_fails_with_the_message_of_the_template(self):
        path = self.write("t.jinja", "{{ raise_exception('Roles must alternate!') }}")
        self.assertEqual(self.expect_failure("template", path, stdin=self.CASE),
                         "Roles must alternate!")

    def test_takes_the_time_that_is_given(self):
        path = self.write("t.jinja", "{{ strftime_now('%Y-%m-%d') }}")
        self.assertEqual(
            self.expect_success("template", path, "--now", 1768480496, stdin=self.CASE),
            "2026-01-15")

    def test_refuses_bad_input_in_one_sentence(self):
        path = self.write("t.jinja", "x")
        for stdin, word in (("", "JSON"), ("[1]", "object"), ("{", "byte"),
                            ("[" * 5000, "nested deeper"),
                            (f'{{"messages": {"[" * 100000}{"]" * 100000}}}', "nested deeper"),
                            ('{"messages": 1e400}', "too large"),
                            ('{"mesages": []}', "mesages")):
            with self.subTest(stdin=stdin[:20]):
                self.assertIn(word, self.expect_failure("template", path, stdin=stdin))
        self.assertIn("No such file",
                      self.expect_failure("template", self.home / "none", stdin=self.CASE))
        self.assertIn(str(self.write("bad.jinja", "{% if %}")),
                      self.expect_failure("template", self.home / "bad.jinja", stdin=self.CASE))

    def test_renders_the_reference_cases(self):
        name = "gguf-SmolLM2-135M-Instruct.jinja"
        path = refdata(f"templates/{name}")
        cases = {json.loads(line)["case"]: line
                 for line in open(refdata("templates/cases.jsonl"), encoding="ascii")}
        n_checked = 0
        for line in open(refdata("templates/expected.jsonl"), encoding="ascii"):
            expected = json.loads(line)
            if expected["template"] != name:
                continue
            with self.subTest(case=expected["case"]):
                done = self.run_program("template", path, "--now", 1768480496,
                                        stdin=cases[expected["case"]])
                if expected["ok"]:
                    self.assertEqual((done.returncode, done.stdout), (0, expected["text"]))
                else:
                    self.assertEqual(done.returncode, 1)
                n_checked += 1
        self.assertEqual(n_checked, 33)


class Show(ProgramTest):
    def test_prints_what_the_model_holds(self):
        text = self.expect_success("show", model())
        for line in (r"Architecture +llama", r"Layers +30", r"Width +576, feed-forward 1536",
                     r"Heads +9 of 64, 3 for keys and values", r"Tokenizer +gpt2 \(smollm\), 49152",
                     r"Chat template +in the file", r"Parameters +134\.5 million",
                     r"  Q4_1 +\d+ ", r"  Q8_0 +1 ", r"general\.architecture +\"llama\""):
            self.assertRegex(text, line)

    def test_refuses_what_is_no_model(self):
        for path in (self.home / "none", self.home, self.write("text.gguf", "no model" * 100),
                     self.write("empty.gguf", "")):
            self.assertIn(str(path), self.expect_failure("show", path))

    def test_refuses_every_malformed_file_in_one_sentence(self):
        folder = refdata("malformed")
        n_checked = 0
        for line in open(folder / "index.jsonl", encoding="ascii"):
            name = json.loads(line)["file"]
            with self.subTest(file=name):
                self.assertIn(name, self.expect_failure("show", folder / name))
                n_checked += 1
        self.assertGreater(n_checked, 40)


class Doctor(ProgramTest):
    def setUp(self):
        super().setUp()
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]

    def test_says_what_there_is(self):
        text = self.expect_success("doctor", "--port", self.port)
        for word in ("Processor", "Cores", "Kernels", "Memory", "is free", "no GPU backend",
                     "server.port", "--port"):
            self.assertIn(word, text)

    def test_obeys_and_names_a_forced_instruction_set(self):
        text = self.expect_success("doctor", "--port", self.port,
                                   settings={"BALLAST_FORCE_ISA": "scalar"})
        self.assertRegex(text, r"Kernels +scalar \(forced")

    def test_finds_what_serve_would_find_in_a_model(self):
        problems = self.expect_problem(refdata("malformed/unknown-arch.gguf"), "--port", self.port)
        self.assertEqual(len(problems), 1, problems)

    def expect_problem(self, *arguments, **options):
        done = self.run_program("doctor", *arguments, **options)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        return [line for line in done.stdout.splitlines() if line.startswith("! ")]

    def test_names_the_part_of_the_path_that_is_not_there(self):
        problems = self.expect_problem(self.home / "a/b/m.gguf", "--port", self.port)
        self.assertEqual(len(problems), 1, problems)
        self.assertIn(f"{self.home}/a: No such file", problems[0])

    def test_names_the_port_that_is_taken(self):
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen()
            port = other.getsockname()[1]
            problems = self.expect_problem("--port", port)
        self.assertEqual(len(problems), 1, problems)
        self.assertIn(str(port), problems[0])

    def test_names_a_wrong_setting_and_an_address_of_the_network(self):
        problems = self.expect_problem(settings={"BALLAST_SERVER_PORT": "x"})
        self.assertIn("BALLAST_SERVER_PORT", problems[0])
        problems = self.expect_problem("--host", "0.0.0.0", "--port", self.port)
        self.assertIn("no API keys", problems[0])


class Bench(ProgramTest):
    def test_saves_a_trace_of_the_engines_lanes(self):
        path = self.home / "trace.json"
        self.expect_success("bench", model(), "--prefill", 8, "--decode", 6, "--runs", 1,
                            "--device", "host", "--vram-budget", "64MiB", "--threads", 1,
                            "--save-trace", path)
        trace = json.loads(path.read_text(encoding="utf-8"))
        self.assertIs(trace["otherData"]["simulated"], False)
        spans = [event for event in trace["traceEvents"] if event["ph"] == "X"]
        lanes = {event["args"]["name"]: event["tid"] for event in trace["traceEvents"]
                 if event["name"] == "thread_name"}
        self.assertEqual(set(lanes), {"device", "CPU", "link"})
        # One prompt and four tokens, each of which begins with the embedding.
        self.assertEqual(sum(span["name"] == "embedding" for span in spans), 5)
        computed = [span for span in spans if span["tid"] == lanes["device"]
                    and "share" in span["args"]]
        self.assertTrue(computed)
        self.assertTrue(all(0 < span["args"]["share"] <= 1 and span["args"]["bytes"] > 0
                            for span in computed))
        there = [span for span in spans if span["name"] == "activations to the device"]
        self.assertTrue(there and all(span["args"]["bytes"] > 0 for span in there))
        self.assertEqual(min(span["ts"] for span in spans), 0)

    def test_names_a_trace_that_cannot_be_written(self):
        path = self.home / "none" / "trace.json"
        self.assertEqual(
            self.expect_failure("bench", refdata("tiny/llama-gqa-untied-bpe.gguf"),
                                "--prefill", 4, "--decode", 2, "--runs", 1, "--save-trace", path),
            f"Cannot write {path}: is its folder there, and may it be written?")


class Profile(ProgramTest):
    def test_is_kept_and_known_again_and_changed_hardware_is_noticed(self):
        def doctor(*arguments):
            return self.run_program("doctor", *arguments).stdout

        self.assertRegex(doctor(), r"Profile +none; none has been measured yet")
        copy = self.home / "copy.json"
        done = self.run_program("profile", model(), "--json", "--out", copy, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("CPU reads", done.stderr)
        profile = json.loads(done.stdout)
        self.assertEqual(json.loads(copy.read_text(encoding="utf-8")), profile)
        self.assertIs(profile["device"], False)
        for key in ("cpu_read_gbps", "cpu_read_one_thread_gbps", "dram_gbps", "copy_gbps",
                    "cpu_tflops", "ram_gb"):
            self.assertGreater(profile[key], 0, key)
        self.assertNotIn("link_gbps", profile)
        self.assertEqual({(op["op"], op["type"]) for op in profile["ops"]},
                         {("linear", "Q4_1"), ("linear", "Q8_0"), ("attention", "F16")})
        stored = list((self.home / ".cache/ballast/profile").iterdir())
        self.assertEqual([json.loads(path.read_text(encoding="utf-8")) for path in stored],
                         [profile])
        self.assertIn(f"({stored[0]})", doctor())
        self.assertIn(f"measured {profile['measured_at']}", doctor())
        changed = self.run_program("doctor", settings={"BALLAST_FORCE_ISA": "scalar"}).stdout
        self.assertIn("none; the hardware has changed: kernels scalar, was ", changed)
        stored[0].write_text("{", encoding="utf-8")
        self.assertIn("this is not a JSON object", doctor())

    def test_of_a_device_has_its_link_and_is_kept_apart(self):
        copy = self.home / "copy.json"
        done = self.run_program("profile", model(), "--device", "host", "--vram-budget", "512MiB",
                                "--out", copy, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        for name, unit in (("link, pinned", "GB/s"), ("link, pinned, back", "GB/s"),
                           ("link, staged", "GB/s"), ("CPU and link together", "GB/s"),
                           ("hop", "us"), ("device reads Q8_0", "GB/s"),
                           # A busy machine may be too slow for one of the two types.
                           ("device arithmetic (Q8_0|Q4_K), 512 tokens", "GFLOPS")):
            self.assertRegex(done.stdout, rf"(?m)^{name} +[0-9.]+ +{unit} ")
            self.assertRegex(done.stderr, rf"% {name}\n")
        profile = json.loads(copy.read_text(encoding="utf-8"))
        self.assertNotIn("device", profile)
        self.assertIs(profile["unified_memory"], False)
        for key in ("link_gbps", "link_staged_gbps", "hop_us", "device_read_gbps",
                    "device_tflops"):
            self.assertGreater(profile[key], 0, key)
        self.assertGreaterEqual(profile["dram_gbps"], profile["cpu_read_gbps"])
        self.assertEqual(profile["device_memory_gb"], 0.536870912)
        self.assertIn("; devices host (cpu (", profile["key"])
        # Serving without a device, and planning for it, know nothing of it.
        self.assertRegex(self.run_program("doctor").stdout,
                         r"Profile +none; the hardware has changed: devices none, was host ")
        self.assertIn("no profile yet", self.expect_failure("plan", "llama-3.1-8b"))
        answer = json.loads(self.expect_success("plan", "llama-3.1-8b", "--json", "--hardware",
                                                copy))
        self.assertTrue(answer["verdict"])

    def test_names_a_device_that_is_none(self):
        message = self.expect_failure("profile", "--device", "cuda")
        self.assertIn('engine.device must be "auto" or "host", not "cuda"', message)
        self.assertEqual(message, self.expect_failure("serve", "m", "--device", "cuda", code=2))
        message = self.expect_failure("profile", "--device", "host", "--vram-budget", "1MiB")
        self.assertIn("the device's 1MiB are too little to measure past", message)
        self.assertIn("must be a size",
                      self.expect_failure("profile", "--vram-budget", "much"))

    def test_that_cannot_be_kept_is_still_printed(self):
        self.write(".cache", "a file where the folder would be")
        done = self.run_program("profile", "--threads", 1, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("The profile is not kept", done.stderr)
        self.assertRegex(done.stdout, r"CPU reads, 1 thread +[0-9.]+ +GB/s")
        self.assertRegex(done.stdout, r"linear Q4_K, 512 tokens +[0-9.]+ +GFLOPS")

    def test_fails_in_one_sentence(self):
        self.assertIn("No such file", self.expect_failure("profile", self.home / "none.gguf"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
