#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Ends: a client that goes away frees its place, and SIGTERM ends the process in order, with or
without work in hand."""

import signal
import time
import unittest

import openai

from ballast_program import SMOLLM2, Server, model_path
from suite import main

LONG = {"model": SMOLLM2, "messages": [{"role": "user", "content": "Count as far as you can."}],
        "temperature": 0, "max_tokens": 1800, "stream": True, "extra_body": {"ignore_eos": True}}


def client_of(server):
    return openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0, timeout=120)


def stream_some(client, n_chunks):
    """A long stream of which the first chunks have come."""
    stream = client.chat.completions.create(**LONG)
    for _ in range(n_chunks):
        next(stream)
    return stream


class Ends(unittest.TestCase):
    def serve(self, *arguments):
        return Server(model_path(SMOLLM2), "--context", "2048", *arguments)

    def test_a_client_that_leaves_frees_its_place(self):
        with self.serve("--parallel", "1") as server:
            stream_some(client_of(server), 4).close()
            deadline = time.monotonic() + 20
            while server.metric("ballast_running_sequences") != 0:
                self.assertLess(time.monotonic(), deadline, "still running for nobody")
                time.sleep(0.02)
            # It was given up, not finished.
            self.assertLess(server.metric("ballast_generated_tokens_total"), 1800)
            reply = client_of(server).chat.completions.create(
                **LONG | {"stream": False, "max_tokens": 3})
            self.assertEqual(reply.usage.completion_tokens, 3)

    def test_ends_at_once_when_idle(self):
        for name in (signal.SIGTERM, signal.SIGINT):
            with self.serve() as server:
                server.process.send_signal(name)
                self.assertEqual(server.process.wait(timeout=20), 0, name)

    def test_ends_in_order_during_a_stream(self):
        with self.serve() as server:
            stream = stream_some(client_of(server), 4)
            server.process.send_signal(signal.SIGTERM)
            try:
                for _ in stream:
                    pass
            except (openai.APIError, OSError):
                pass  # cut short with an error event or a closed connection; never without end
            except Exception as error:  # the transport's own kinds of a broken connection
                self.assertIn("http", type(error).__module__)
            self.assertEqual(server.process.wait(timeout=60), 0, server.log())

    def test_answers_nobody_new_while_it_ends(self):
        with self.serve() as server:
            stream = stream_some(client_of(server), 2)
            server.process.send_signal(signal.SIGTERM)
            time.sleep(0.3)
            if server.process.poll() is None:
                with self.assertRaises(openai.APIError):
                    client_of(server).chat.completions.create(
                        **LONG | {"stream": False, "max_tokens": 3})
            stream.close()
            self.assertEqual(server.process.wait(timeout=60), 0, server.log())


if __name__ == "__main__":
    main()
