# SPDX-License-Identifier: MIT
"""Text to token ids from the vocabulary in a model file, with no code of the engine's: byte-level
BPE by the `tokenizers` package, SPM by merging the best-scored pair until none is left."""

import re

_USER_DEFINED = 4  # token type: stands for itself in any text


class Encoder:
    def __init__(self, oracle):
        self.tokens = oracle.field("tokenizer.ggml.tokens")
        self.ids = {token: i for i, token in enumerate(self.tokens)}
        if oracle.field("tokenizer.ggml.model") == "gpt2":
            self._pieces = self._make_bpe(oracle)
        else:
            self._pieces = self._make_spm(oracle)
        add_bos = oracle.field("tokenizer.ggml.add_bos_token",
                               oracle.field("tokenizer.ggml.model") == "llama")
        self._prefix = [oracle.field("tokenizer.ggml.bos_token_id")] if add_bos else []

    def encode(self, text):
        """The ids of a prompt, with BOS where the vocabulary wants one."""
        return self._prefix + self._pieces(text)

    def _make_bpe(self, oracle):
        from tokenizers import Tokenizer, models, pre_tokenizers
        if oracle.field("tokenizer.ggml.pre") != "smollm":
            raise ValueError("only the pre-tokeniser smollm is known here")
        merges = [tuple(merge.split(" ")) for merge in oracle.field("tokenizer.ggml.merges")]
        bpe = Tokenizer(models.BPE(vocab=self.ids, merges=merges))
        bpe.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=True),
             pre_tokenizers.ByteLevel(add_prefix_space=False)])
        return lambda text: bpe.encode(text, add_special_tokens=False).ids

    def _make_spm(self, oracle):
        types = oracle.field("tokenizer.ggml.token_type")
        scores = oracle.field("tokenizer.ggml.scores")
        fixed = sorted((token for token, kind in zip(self.tokens, types) if kind == _USER_DEFINED),
                       key=len, reverse=True)
        split = re.compile("(" + "|".join(map(re.escape, fixed)) + ")")

        def merge(text):
            pieces = list(text)
            while True:
                pairs = [(scores[self.ids[a + b]], -i) for i, (a, b)
                         in enumerate(zip(pieces, pieces[1:])) if a + b in self.ids]
                if not pairs:
                    return pieces
                at = -max(pairs)[1]  # the best score, and of those the first
                pieces[at:at + 2] = [pieces[at] + pieces[at + 1]]

        def encode(text):
            ids = []
            # With one group, every second part is what the pattern matched.
            for number, part in enumerate(split.split(text) if fixed else [text]):
                pieces = [part] if number % 2 else merge(part.replace(" ", "\u2581"))
                for piece in pieces:
                    ids += [self.ids[piece]] if piece in self.ids else \
                        [self.ids[f"<0x{byte:02X}>"] for byte in piece.encode()]
            return ids
        return encode
