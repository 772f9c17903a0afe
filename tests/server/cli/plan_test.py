#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`ballast plan`: what it says of stored pairs, of files, and of mistakes."""

import json
import re
import struct
import unittest

from program import SOURCE, ProgramTest, model

PROFILES = SOURCE / "scheduler/profile"
KEYS = {"model", "hardware", "measured", "verdict", "sentence", "runs", "context", "depth",
        "prefill_tokens", "device_memory_bytes", "host_bytes", "decode_seconds",
        "prefill_seconds", "decode_limit_seconds", "prefill_limit_seconds", "predicted_limit",
        "gap", "bytes", "policies", "groups"}
CLASSES = {"attention", "feed_forward", "experts", "head", "embedding", "kv"}


def names(folder):
    return sorted(path.stem for path in (PROFILES / folder).glob("*.json"))


def stored(folder, name):
    return json.loads((PROFILES / folder / f"{name}.json").read_text(encoding="utf-8"))


class Plan(ProgramTest):
    def plan(self, *arguments):
        return json.loads(self.expect_success("plan", *arguments, "--json"))

    def fails(self, *arguments, **options):
        return self.expect_failure("plan", *arguments, **options)


class List(Plan):
    def test_prints_every_machine_and_every_shape(self):
        text = self.expect_success("plan", "--list")
        machines, shapes = text.split("\nShapes of models")
        self.assertEqual(re.findall(r"^  (\S+) +\S", machines, re.M), names("hardware"))
        self.assertEqual(re.findall(r"^  (\S+) +[\d.]+ [GT]B  \S", shapes, re.M), names("models"))
        self.assertIn("Q4_K_M", shapes)

    def test_goes_without_a_model(self):
        self.assertEqual(self.fails("m", "--list", code=2), "--list goes without a model.")


class Json(Plan):
    def test_has_every_key_and_sums_that_agree(self):
        for shape in ("llama-3.1-8b", "gpt-oss-20b"):
            found = self.plan(shape, "--hardware", "laptop-4060")
            self.assertEqual(set(found), KEYS)
            self.assertEqual(set(found["bytes"]), CLASSES)
            self.assertEqual(found["hardware"], "laptop-4060")
            self.assertIs(found["measured"], False)
            self.assertIs(found["runs"], True)
            self.assertEqual((found["context"], found["depth"]), (4096, 2048))
            self.assertGreaterEqual(found["decode_seconds"], found["decode_limit_seconds"])
            self.assertAlmostEqual(found["predicted_limit"],
                                   found["decode_limit_seconds"] / found["decode_seconds"])
            on_device = sum(of["device"] for of in found["bytes"].values())
            self.assertGreater(on_device, 0)
            self.assertLessEqual(on_device, found["device_memory_bytes"])
            self.assertGreaterEqual(len(found["policies"]), 4)
            for policy in found["policies"]:
                if "decode_seconds" in policy:
                    self.assertGreaterEqual(policy["decode_seconds"],
                                            found["decode_limit_seconds"])
            for group in found["groups"]:
                self.assertLessEqual(group["resident"] + group["streamed"], group["parts"])
                self.assertIn(group["class"], CLASSES)

    def test_more_context_takes_more(self):
        short = self.plan("qwen3-14b", "--hardware", "laptop-4060")
        long = self.plan("qwen3-14b", "--hardware", "laptop-4060", "--context", 32768)
        kv = [sum(found["bytes"]["kv"].values()) for found in (short, long)]
        self.assertAlmostEqual(kv[1], 8 * kv[0])
        self.assertGreater(long["decode_seconds"], short["decode_seconds"])

    def test_overrides_change_the_answer(self):
        def verdict(*arguments):
            found = self.plan("llama-3.3-70b", "--hardware", "laptop-4060", *arguments)
            return found["verdict"]

        self.assertEqual(verdict(), "cannot_run")
        self.assertEqual(verdict("--ram", "128GiB"), "cpu_owns")
        slow, fast = (self.plan("qwen3-32b", "--hardware", "laptop-4060", "--mix", "1:0",
                                "--link-gbps", rate)["prefill_seconds"] for rate in (2, 50))
        self.assertLess(fast, 0.9 * slow)
        self.assertEqual(self.plan("qwen3-14b", "--hardware", "laptop-4060", "--vram-budget",
                                   "2GiB")["device_memory_bytes"], 2 << 30)

    def test_a_quantisation_is_asked_for_by_name(self):
        sizes = [sum(sum(of.values()) for name, of in self.plan(
            f"llama-3.1-8b{quant}", "--hardware", "desktop-4090")["bytes"].items() if name != "kv")
                 for quant in ("", ":Q4_K_M", ":F16")]
        self.assertEqual(sizes[0], sizes[1])
        self.assertGreater(sizes[2], 3 * sizes[1])


class Verdicts(Plan):
    def test_nothing_of_the_gpu_is_the_cpu_alone(self):
        text = self.expect_success("plan", "llama-3.1-8b", "--hardware", "desktop-4090",
                                   "--vram-budget", "0B")
        self.assertIn("\nUse the CPU alone: no GPU helps here because it may use none of the "
                      "device's memory.\n", text)
        self.assertEqual(self.plan("llama-3.1-8b", "--hardware", "desktop-4090", "--vram-budget",
                                   "0B")["verdict"], "cpu_alone")

    def test_a_machine_without_a_device_uses_its_cpu(self):
        known = stored("hardware", "laptop-4060")
        kept = {key: known[key] for key in ("description", "source", "cpu_read_gbps", "dram_gbps",
                                            "cpu_tflops", "ram_gb")}
        path = self.write("mine.json", json.dumps(kept | {"name": "mine", "device": False}))
        text = self.expect_success("plan", "llama-3.1-8b", "--hardware", path)
        self.assertIn("\nUse the CPU alone: this machine has no GPU that Ballast can use.\n", text)
        self.assertIn(" on mine (", text)
        found = self.plan("llama-3.1-8b", "--hardware", path)
        self.assertEqual(found["verdict"], "no_device")
        self.assertEqual(found["gap"], 0)
        self.assertEqual(found["device_memory_bytes"], 0)
        self.assertEqual(self.fails("llama-3.1-8b", "--hardware", path, "--link-gbps", 5),
                         "--link-gbps: mine has no link.")

    def test_what_does_not_fit_says_what_would_help(self):
        text = self.expect_success("plan", "llama-4-maverick", "--hardware", "desktop-4090")
        self.assertIn("This cannot run here: it needs ", text)
        self.assertNotIn("predicted speed", text)
        found = self.plan("llama-4-maverick", "--hardware", "desktop-4090")
        self.assertEqual((found["verdict"], found["runs"]), ("cannot_run", False))


class Files(Plan):
    def test_a_gguf_file_by_its_header(self):
        found = self.plan(model(), "--hardware", "laptop-4060")
        self.assertEqual(found["verdict"], "all_on_device")
        self.assertEqual(len(found["groups"]), 2 * 30 + 1)

    def test_an_architecture_that_the_engine_cannot_run_still_plans(self):
        def text(value):
            return struct.pack("<Q", len(value)) + value.encode()

        def number(key, value):
            return text(key) + struct.pack("<II", 4, value)

        keys = [text("general.architecture") + struct.pack("<I", 8) + text("zebra"),
                number("zebra.block_count", 2), number("zebra.embedding_length", 64),
                number("zebra.attention.head_count", 4), number("zebra.context_length", 2048),
                number("zebra.feed_forward_length", 128)]
        shapes = {"token_embd.weight": (64, 100), "output.weight": (64, 100)}
        for layer in (0, 1):
            shapes |= {f"blk.{layer}.attn_{name}.weight": (64, 64)
                       for name in ("q", "k", "v", "output")}
            shapes |= {f"blk.{layer}.ffn_{name}.weight": (64, 128) for name in ("gate", "up")}
            shapes[f"blk.{layer}.ffn_down.weight"] = (128, 64)
        infos, offset = b"", 0
        for name, (columns, rows) in shapes.items():
            infos += text(name) + struct.pack("<IQQIQ", 2, columns, rows, 0, offset)
            offset += 4 * columns * rows
        head = b"GGUF" + struct.pack("<IQQ", 3, len(shapes), len(keys)) + b"".join(keys) + infos
        path = self.home / "zebra.gguf"
        path.write_bytes(head + bytes(-len(head) % 32) + bytes(offset))
        found = self.plan(path, "--hardware", "laptop-4060", "--context", 2048)
        self.assertEqual([group["class"] for group in found["groups"]],
                         ["attention", "feed_forward"] * 2 + ["head"])
        self.assertIs(found["runs"], True)
        self.assertEqual(sum(found["bytes"]["feed_forward"].values()), 2 * 3 * 4 * 64 * 128)
        # What serves refuses it, and says so.
        self.assertIn("zebra", self.expect_failure("serve", path))

    def test_a_shape_of_ones_own(self):
        path = self.write("mine.json", json.dumps(stored("models", "qwen3-14b")
                                                  | {"name": "mine", "layers": 20}))
        found = self.plan(path, "--hardware", "laptop-4060")
        self.assertTrue(found["model"].startswith("mine"), found["model"])
        self.assertEqual(len(found["groups"]), 2 * 20 + 1)

    def test_files_that_are_no_descriptions_are_refused(self):
        huge = self.write("huge.json", " " * ((1 << 20) + 1))
        whole = self.write("whole.json", "{}" + " " * ((1 << 20) - 2))
        empty = self.write("empty.json", "")
        wrong = self.write("wrong.json", "[1")
        for arguments in ((huge, "--hardware", "laptop-4060"),
                          ("qwen3-14b", "--hardware", huge)):
            self.assertEqual(self.fails(*arguments),
                             f"{huge} has more than 1 MiB and so is no description.")
        self.assertEqual(self.fails(empty, "--hardware", "laptop-4060"), f"Cannot read {empty}.")
        for path in (empty, self.home):
            self.assertEqual(self.fails("qwen3-14b", "--hardware", path), f"Cannot read {path}.")
        self.assertEqual(self.fails("qwen3-14b", "--hardware", wrong),
                         f"{wrong}: this is not a JSON object.")
        self.assertTrue(self.fails(wrong, "--hardware", "laptop-4060").startswith(f"{wrong}: "))
        self.assertTrue(self.fails(whole, "--hardware", "laptop-4060").startswith(f"{whole}: "))
        typo = self.write("typo.json", json.dumps(stored("hardware", "laptop-4060")
                                                  | {"cpu_read_gbp": 3}))
        self.assertTrue(self.fails("qwen3-14b", "--hardware", typo).startswith(
            f"{typo}: cpu_read_gbp "))
        for path in (self.home, self.write("text.gguf", "no model" * 100)):
            self.assertIn(str(path), self.fails(path, "--hardware", "laptop-4060"))


class Mistakes(Plan):
    def test_unknown_names_list_the_known_ones(self):
        message = self.fails("qwen3-15b", "--hardware", "laptop-4060")
        self.assertTrue(message.startswith("qwen3-15b is neither a file nor a shape. There is no "
                                           "model shape 'qwen3-15b'; there are "), message)
        for name in names("models"):
            self.assertIn(name, message)
        message = self.fails("qwen3-14b", "--hardware", "laptop-4061")
        self.assertTrue(message.startswith("There is no hardware profile 'laptop-4061'; there "
                                           "are "), message)
        for name in names("hardware"):
            self.assertIn(name, message)
        message = self.fails("qwen3-14b:Q5", "--hardware", "laptop-4060")
        self.assertTrue(message.startswith("Q5 is not a quantisation a shape can have; possible "
                                           "are Q4_K_M, "), message)

    def test_a_machine_that_was_not_measured_says_what_to_do(self):
        message = self.fails("qwen3-14b")
        self.assertRegex(message, r"^This machine has no profile yet \(.+\); run `ballast "
                                  r"profile`, or name a machine with --hardware \(`ballast plan "
                                  r"--list`\)\.$")

    def test_a_mix_is_two_numbers(self):
        for wrong in ("", "4", "4:", ":1", "4:1:1", "a:b", "-1:1", "nan:1", "1:inf", "4 :1",
                      "1e7:1", "0x4:1"):
            with self.subTest(mix=wrong):
                self.assertEqual(
                    self.fails("qwen3-14b", "--hardware", "laptop-4060", "--mix", wrong),
                    f'--mix is "{wrong}", but must be PREFILL:DECODE, two numbers from 0 to '
                    "1000000 such as 4:1.")
        self.assertEqual(self.fails("qwen3-14b", "--hardware", "laptop-4060", "--mix", "0:0"),
                         "--mix is 0:0; one of the two must be above 0.")

    def test_a_context_is_one_that_the_model_was_trained_for(self):
        for wrong in (3, 0, -4, 40961):
            message = self.fails("qwen3-14b", "--hardware", "laptop-4060", f"--context={wrong}")
            self.assertRegex(message, rf"^--context is {wrong}, but must be between 4 and 40960, "
                                      r"for which .+ was trained\.$")
        self.assertEqual(self.plan("qwen3-14b", "--hardware", "laptop-4060", "--context",
                                   4)["depth"], 2)
        self.fails("qwen3-14b", "--hardware", "laptop-4060", "--context", 10**12, code=2)

    def test_a_link_is_only_where_there_is_one(self):
        self.assertEqual(self.fails("qwen3-14b", "--hardware", "apple-m3-max", "--link-gbps", 5),
                         "--link-gbps: apple-m3-max has no link.")
        for wrong in ("0", "-1", "nan", "inf", "1e9"):
            self.assertTrue(self.fails("qwen3-14b", "--hardware", "laptop-4060",
                                       f"--link-gbps={wrong}").startswith("--link-gbps is "))

    def test_sizes_and_locality_are_words_that_there_are(self):
        for option in ("--vram-budget", "--ram"):
            self.assertEqual(self.fails("qwen3-14b", option, "6G", code=2),
                             f'{option}: a size is written like 512MiB, 1.5GB or 4096, not "6G"')
        self.assertEqual(self.fails("qwen3-14b", "--hardware", "laptop-4060", "--locality", "hot"),
                         '--locality is "hot"; possible are uniform, weak and strong.')


if __name__ == "__main__":
    unittest.main(verbosity=2)
