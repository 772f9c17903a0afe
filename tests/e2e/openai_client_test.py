#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The official Python client against `ballast serve` with SmolLM2: what a user's program does on
its first day, and what it sees when it does something wrong."""

import concurrent.futures
import json
import math
import re
import shutil
import subprocess
import sys
import unittest

import openai

from ballast_program import SMOLLM2, SOURCE, Server, model_path
from suite import main

# A question whose answer this small model is sure of, whatever the instruction set.
CAPITAL = [{"role": "user", "content": "What is the capital of Japan?"}]
STORY = [{"role": "user", "content": "Tell me a story about a ship."}]


class WithServer(unittest.TestCase):
    ARGUMENTS = ("--context", "2048", "--parallel", "4")

    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(Server(model_path(SMOLLM2), *cls.ARGUMENTS))
        cls.client = openai.OpenAI(base_url=cls.server.url + "/v1", api_key="none",
                                   max_retries=0, timeout=120)

    def chat(self, messages=None, **fields):
        fields = {"temperature": 0, "max_tokens": 32} | fields
        return self.client.chat.completions.create(model=SMOLLM2, messages=messages or CAPITAL,
                                                   **fields)

    def complete(self, prompt, **fields):
        fields = {"temperature": 0, "max_tokens": 16} | fields
        return self.client.completions.create(model=SMOLLM2, prompt=prompt, **fields)

    def ids_of(self, text):
        return json.loads(self.server.request("POST", "/tokenize", {"content": text})[2])["tokens"]

    def refused(self, body, path="/v1/chat/completions", status=400):
        """Posts a body that must be refused, and gives the error object."""
        got, headers, text = self.server.request("POST", path, body)
        self.assertEqual(got, status, text)
        self.assertIn("application/json", headers.get("Content-Type", ""))
        error = json.loads(text)["error"]
        self.assertLessEqual({"message", "type", "param", "code"}, set(error))
        self.assertIsInstance(error["message"], str)
        self.assertTrue(error["code"] is None or isinstance(error["code"], str), error)
        return error


class Models(WithServer):
    def test_lists_the_model(self):
        models = self.client.models.list().data
        self.assertEqual([model.id for model in models], [SMOLLM2])
        self.assertEqual(models[0].object, "model")
        self.assertGreater(models[0].created, 0)

    def test_retrieves_the_model_by_name(self):
        self.assertEqual(self.client.models.retrieve(SMOLLM2).id, SMOLLM2)

    def test_says_that_a_model_is_unknown(self):
        with self.assertRaises(openai.NotFoundError) as caught:
            self.client.models.retrieve("no-such-model")
        self.assertEqual(caught.exception.code, "model_not_found")


class Chat(WithServer):
    def test_answers(self):
        reply = self.chat()
        self.assertTrue(reply.id.startswith("chatcmpl-"))
        self.assertEqual((reply.object, reply.model), ("chat.completion", SMOLLM2))
        (choice,) = reply.choices
        self.assertEqual((choice.index, choice.message.role), (0, "assistant"))
        self.assertIn("Tokyo", choice.message.content)
        self.assertIn(choice.finish_reason, ("stop", "length"))
        self.assertIsNone(choice.logprobs)
        print("  answer:", choice.message.content)

    def test_counts_tokens(self):
        usage = self.chat(max_tokens=5, messages=STORY).usage
        self.assertEqual(usage.completion_tokens, 5)
        self.assertEqual(usage.total_tokens, usage.prompt_tokens + 5)
        prompt = json.loads(self.server.request("POST", "/apply-template",
                                                {"messages": STORY})[2])["prompt"]
        self.assertEqual(usage.prompt_tokens, len(self.ids_of(prompt)))

    def test_honours_both_names_of_the_token_limit(self):
        for name in ("max_tokens", "max_completion_tokens"):
            fields = {"max_tokens": openai.omit} | {name: 7}
            reply = self.chat(STORY, **fields)
            self.assertEqual((reply.usage.completion_tokens, reply.choices[0].finish_reason),
                             (7, "length"), name)

    def test_streams_the_same_answer(self):
        whole = self.chat()
        chunks = list(self.chat(stream=True))
        self.assertEqual(len({chunk.id for chunk in chunks}), 1)
        self.assertEqual({chunk.object for chunk in chunks}, {"chat.completion.chunk"})
        self.assertTrue(all(len(chunk.choices) == 1 for chunk in chunks))
        self.assertEqual(chunks[0].choices[0].delta.role, "assistant")
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
        self.assertEqual(text, whole.choices[0].message.content)
        reasons = [chunk.choices[0].finish_reason for chunk in chunks]
        self.assertEqual(reasons[:-1], [None] * (len(chunks) - 1))
        self.assertEqual(reasons[-1], whole.choices[0].finish_reason)
        self.assertTrue(all(chunk.usage is None for chunk in chunks))
        # More than the beginning, one lump and the end.
        self.assertGreater(len(chunks), 5)

    def test_streams_usage_on_request(self):
        chunks = list(self.chat(stream=True, stream_options={"include_usage": True}))
        self.assertTrue(all(chunk.usage is None for chunk in chunks[:-1]))
        self.assertEqual(chunks[-1].choices, [])
        self.assertEqual(chunks[-1].usage.total_tokens, self.chat().usage.total_tokens)

    def test_frames_events_as_clients_expect(self):
        body = {"model": SMOLLM2, "messages": CAPITAL, "max_tokens": 4, "stream": True}
        status, headers, text = self.server.request("POST", "/v1/chat/completions", body)
        self.assertEqual(status, 200)
        self.assertTrue(headers["Content-Type"].startswith("text/event-stream"))
        events = text.decode().split("\n\n")
        self.assertEqual(events[-2:], ["data: [DONE]", ""])
        for event in events[:-2]:
            self.assertRegex(event, r"\A(data: \{.*\}|:.*)\Z")

    def test_gives_log_probabilities(self):
        reply = self.chat(STORY, max_tokens=12, logprobs=True, top_logprobs=5)
        entries = reply.choices[0].logprobs.content
        self.assertEqual(len(entries), 12)
        for entry in entries:
            values = [top.logprob for top in entry.top_logprobs]
            self.assertEqual(len(values), 5)
            self.assertEqual(values, sorted(values, reverse=True))
            self.assertLessEqual(sum(map(math.exp, values)), 1.0001)
            # At temperature 0 the best token is taken.
            self.assertEqual((entry.token, entry.logprob),
                             (entry.top_logprobs[0].token, values[0]))
        spoken = b"".join(bytes(entry.bytes) for entry in entries).decode()
        self.assertEqual(spoken, reply.choices[0].message.content)

    def test_repeats_itself_with_a_seed(self):
        def texts(seed):
            fields = {"temperature": 1.2, "max_tokens": 16, "seed": seed}
            streamed = self.chat(STORY, stream=True, **fields)
            return (self.chat(STORY, **fields).choices[0].message.content,
                    "".join(chunk.choices[0].delta.content or "" for chunk in streamed))
        by_seed = [texts(seed) for seed in (1, 2, 3)]
        for whole, streamed in by_seed:
            self.assertEqual(whole, streamed)
        self.assertGreater(len(set(by_seed)), 1)

    def test_gives_several_choices(self):
        fields = {"n": 3, "temperature": 1.2, "seed": 5, "max_tokens": 12}
        reply = self.chat(STORY, **fields)
        self.assertEqual(sorted(choice.index for choice in reply.choices), [0, 1, 2])
        texts = {choice.index: choice.message.content for choice in reply.choices}
        self.assertGreater(len(set(texts.values())), 1)
        streamed = {0: "", 1: "", 2: ""}
        ends = {0: 0, 1: 0, 2: 0}
        for chunk in self.chat(STORY, stream=True, **fields):
            (choice,) = chunk.choices
            streamed[choice.index] += choice.delta.content or ""
            ends[choice.index] += choice.finish_reason is not None
        self.assertEqual(streamed, texts)
        self.assertEqual(ends, {0: 1, 1: 1, 2: 1})

    def test_stops_at_a_string(self):
        free = self.chat(STORY, max_tokens=60).choices[0].message.content
        # A piece that no token boundary need respect, well inside the text.
        stop = free[40:46]
        reply = self.chat(STORY, max_tokens=60, stop=[stop, "never there"]).choices[0]
        self.assertEqual(reply.message.content, free[:free.index(stop)])
        self.assertEqual(reply.finish_reason, "stop")
        streamed = "".join(chunk.choices[0].delta.content or ""
                           for chunk in self.chat(STORY, max_tokens=60, stop=stop, stream=True))
        self.assertEqual(streamed, reply.message.content)

    def test_bends_to_logit_bias(self):
        (the,) = self.ids_of("The")
        reply = self.chat(max_tokens=3, logit_bias={str(the): 100}).choices[0]
        self.assertEqual(reply.message.content, "TheTheThe")


class Completions(WithServer):
    def test_takes_a_string_a_list_and_ids(self):
        prompts = ["The capital of France is", "Two and two is"]
        ids = [self.ids_of(prompt) for prompt in prompts]
        alone = [self.complete(prompt) for prompt in prompts]
        self.assertIn("Paris", alone[0].choices[0].text)
        self.assertEqual(alone[0].object, "text_completion")
        texts = [reply.choices[0].text for reply in alone]
        for prompt in (prompts, ids):
            reply = self.complete(prompt)
            self.assertEqual({choice.index: choice.text for choice in reply.choices},
                             dict(enumerate(texts)))
            self.assertEqual(reply.usage.prompt_tokens,
                             sum(reply.usage.prompt_tokens for reply in alone))
        self.assertEqual(self.complete(ids[0]).choices[0].text, texts[0])

    def test_streams(self):
        whole = self.complete("Once upon a time").choices[0]
        chunks = list(self.complete("Once upon a time", stream=True))
        self.assertEqual("".join(c.choices[0].text for c in chunks if c.choices), whole.text)
        self.assertEqual(chunks[-1].choices[0].finish_reason, whole.finish_reason)

    def test_gives_log_probabilities(self):
        choice = self.complete("Once upon a", logprobs=3).choices[0]
        self.assertEqual("".join(choice.logprobs.tokens), choice.text)
        self.assertEqual(len(choice.logprobs.token_logprobs), len(choice.logprobs.tokens))
        self.assertTrue(all(value <= 0 for value in choice.logprobs.token_logprobs))
        self.assertTrue(all(len(top) == 3 for top in choice.logprobs.top_logprobs))


class Mistakes(WithServer):
    def test_unknown_model(self):
        with self.assertRaises(openai.NotFoundError) as caught:
            self.client.chat.completions.create(model="no-such-model", messages=CAPITAL)
        self.assertEqual(caught.exception.code, "model_not_found")
        self.assertIn("no-such-model", str(caught.exception))
        print("  unknown model:", caught.exception)

    def test_prompt_that_is_too_long(self):
        for stream in (False, True):
            with self.assertRaises(openai.BadRequestError) as caught:
                self.chat([{"role": "user", "content": "ship " * 3000}], stream=stream)
            self.assertEqual(caught.exception.code, "context_length_exceeded")
            self.assertRegex(str(caught.exception), r"maximum context length is 2048 tokens")
        print("  over-long prompt:", caught.exception)
        with self.assertRaises(openai.BadRequestError) as caught:
            self.complete("ship " * 3000)
        self.assertEqual(caught.exception.code, "context_length_exceeded")

    def test_body_that_is_not_json(self):
        for body in ("{", "[1]", "", '{"model": 1', "nonsense", '"text"', "\xff\xfe",
                     "[" * 100000, '{"a":' * 5000):
            error = self.refused(body.encode("latin-1"))
            self.assertEqual(error["type"], "invalid_request_error", body[:20])
        print("  bad JSON:", self.refused("{")["message"])

    def test_missing_fields(self):
        error = self.refused({"model": SMOLLM2})
        self.assertEqual((error["code"], error["param"]),
                         ("missing_required_parameter", "messages"))
        error = self.refused({"model": SMOLLM2}, "/v1/completions")
        self.assertEqual((error["code"], error["param"]), ("missing_required_parameter", "prompt"))

    def test_wrong_types_and_values(self):
        for fields, param in [({"messages": "hello"}, "messages"),
                              ({"messages": []}, "messages"),
                              ({"messages": [{"role": "user", "content": 5}]},
                               "messages[0].content"),
                              ({"messages": [{"content": "x"}]}, "messages[0].role"),
                              ({"temperature": "hot"}, "temperature"),
                              ({"temperature": -1}, "temperature"),
                              ({"top_p": 1.5}, "top_p"),
                              ({"max_tokens": -1}, "max_tokens"),
                              ({"max_tokens": 1.5}, "max_tokens"),
                              ({"n": 0}, "n"),
                              ({"stream": "yes"}, "stream"),
                              ({"stop": 5}, "stop"),
                              ({"seed": "x"}, "seed"),
                              ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
                              ({"top_logprobs": 3}, "top_logprobs"),
                              ({"logit_bias": {"x": 1}}, "logit_bias"),
                              ({"presence_penalty": 3}, "presence_penalty")]:
            with self.subTest(fields=fields):
                error = self.refused({"model": SMOLLM2, "messages": CAPITAL} | fields)
                self.assertTrue((error["param"] or "").startswith(param), error)

    def test_field_that_is_not_honoured_is_named(self):
        tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
        schema = {"type": "json_schema", "json_schema": {"name": "a", "schema": {}}}
        for name, value in [("tools", [tool]), ("response_format", schema)]:
            error = self.refused({"model": SMOLLM2, "messages": CAPITAL, name: value})
            self.assertIn(name, error["message"])

    def test_wrong_path_method_and_host(self):
        error = self.refused({}, "/v1/nothing", 404)
        self.assertEqual(error["code"], "unknown_url")
        status, headers, _ = self.server.request("GET", "/v1/chat/completions")
        self.assertEqual((status, headers["Allow"].split(",")[0]), (405, "POST"))
        status, _, _ = self.server.request("GET", "/v1/models", headers={"Host": "evil.example"})
        self.assertEqual(status, 403)

    def test_body_that_is_too_large(self):
        status, _, _ = self.server.request("POST", "/v1/chat/completions", "x",
                                           headers={"Content-Length": str(1 << 40)})
        self.assertEqual(status, 413)


class Extras(WithServer):
    def test_tokenizes_and_back(self):
        for text in ("Hello, world! 123", "naïve café 🙂", "", "  two  spaces\n"):
            ids = json.loads(self.server.request("POST", "/tokenize", {"content": text})[2])
            self.assertTrue(all(isinstance(i, int) for i in ids["tokens"]))
            back = json.loads(self.server.request("POST", "/detokenize", ids)[2])
            self.assertEqual(back["content"], text)

    def test_shows_the_prompt_of_a_chat(self):
        prompt = json.loads(self.server.request("POST", "/apply-template",
                                                {"messages": CAPITAL})[2])["prompt"]
        self.assertIn("<|im_start|>user\nWhat is the capital of Japan?<|im_end|>", prompt)
        self.assertTrue(prompt.endswith("<|im_start|>assistant\n"))

    def test_names_each_request(self):
        first, second = (self.server.request("GET", "/v1/models")[1]["x-request-id"]
                         for _ in range(2))
        self.assertNotEqual(first, second)
        echoed = self.server.request("GET", "/v1/models", headers={"x-request-id": "mine-1"})[1]
        self.assertEqual(echoed["x-request-id"], "mine-1")

    def test_counts_what_it_does(self):
        before = self.server.metric("ballast_generated_tokens_total")
        self.chat(STORY, max_tokens=9)
        self.assertEqual(self.server.metric("ballast_generated_tokens_total"), before + 9)
        self.assertEqual(self.server.metric("ballast_build_info"), 1)


class Readme(WithServer):
    """Its examples, typed as they stand but for the port."""

    def blocks(self, language):
        text = (SOURCE / "README.md").read_text(encoding="utf-8")
        found = re.findall(rf"^```{language}\n(.*?)^```", text, re.M | re.S)
        return [block.replace("127.0.0.1:2255", f"127.0.0.1:{self.server.port}")
                for block in found if "2255" in block]

    def test_examples_give_an_answer(self):
        if not shutil.which("curl"):
            self.skipTest("SKIPPED: no curl")
        for language, command in (("sh", ["bash", "-c"]), ("python", [sys.executable, "-c"])):
            blocks = self.blocks(language)
            self.assertEqual(len(blocks), 1, language)
            done = subprocess.run([*command, blocks[0]], capture_output=True, text=True,
                                  check=True, timeout=120)
            self.assertIn("The capital of Japan is Tokyo.", done.stdout)


class Neighbours(WithServer):
    def test_many_at_once_get_what_each_gets_alone(self):
        asked = [dict(messages=[{"role": "user", "content": f"Say something about {topic}."}],
                      max_tokens=8 + 3 * number, seed=number, temperature=0.2 * number)
                 for number, topic in enumerate(["tides", "bread", "iron", "owls", "the moon",
                                                 "rain", "glass", "numbers"])]
        alone = [self.chat(**fields).choices[0].message.content for fields in asked]
        with concurrent.futures.ThreadPoolExecutor(len(asked)) as pool:
            for _ in range(2):
                together = pool.map(lambda fields: self.chat(**fields).choices[0].message.content,
                                    asked)
                self.assertEqual(list(together), alone)


if __name__ == "__main__":
    main()
