#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A model whose file has no chat template (Gemma 3 270M): completions work, chat says what is
missing, and a template given on the command line makes chat work."""

import tempfile
import unittest

import openai

from ballast_program import GEMMA, Server, model_path, run
from suite import main

PROMPT = "The capital of France is"
MESSAGES = [{"role": "user", "content": PROMPT}]
# Nothing but the last message: so chat must give what a completion gives.
TEMPLATE = "{{ bos_token }}{{ messages[-1]['content'] }}"


def client_of(server):
    return openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0, timeout=120)


class WithoutTemplate(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(Server(model_path(GEMMA), "--context", "1024"))
        cls.client = client_of(cls.server)

    def test_completes(self):
        reply = self.client.completions.create(model=GEMMA, prompt=PROMPT, temperature=0,
                                               max_tokens=16)
        self.assertEqual(reply.usage.prompt_tokens, 6)
        self.assertEqual(reply.usage.completion_tokens, 16)
        self.assertIn("France", reply.choices[0].text)
        print("  completion:", reply.choices[0].text)

    def test_refuses_chat_and_says_how_to_get_it(self):
        with self.assertRaises(openai.BadRequestError) as caught:
            self.client.chat.completions.create(model=GEMMA, messages=MESSAGES)
        self.assertIn("--chat-template", str(caught.exception))
        print("  chat:", caught.exception)


class WithTemplate(unittest.TestCase):
    def test_chats_by_the_given_template(self):
        with tempfile.NamedTemporaryFile("w", suffix=".jinja") as file:
            file.write(TEMPLATE)
            file.flush()
            with Server(model_path(GEMMA), "--context", "1024", "--chat-template",
                        file.name) as server:
                fields = {"model": GEMMA, "temperature": 0, "max_tokens": 16}
                chat = client_of(server).chat.completions.create(messages=MESSAGES, **fields)
                text = client_of(server).completions.create(prompt=PROMPT, **fields)
        self.assertEqual(chat.choices[0].message.content, text.choices[0].text)
        self.assertEqual(chat.usage, text.usage)

    def test_a_template_that_does_not_parse_stops_the_start(self):
        with tempfile.NamedTemporaryFile("w", suffix=".jinja") as file:
            file.write("{% for %}")
            file.flush()
            code, _, error = run("serve", model_path(GEMMA), "--chat-template", file.name)
        self.assertGreater(code, 0)
        self.assertIn(file.name, error)


if __name__ == "__main__":
    main()
