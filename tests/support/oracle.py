# SPDX-License-Identifier: MIT
"""What the models should answer, computed the plainest way: dequantised float32 weights, the whole
prompt at once, no cache. Norms, softmax and rotation angles are in float64. It shares no code with
the engine, which is what makes it an oracle. Knows llama and gemma3 without experts or rope
scaling."""

import numpy as np
from gguf import GGUFReader, quants


def _rms_norm(x, weight, epsilon):
    mean_square = np.mean(np.square(x, dtype=np.float64), axis=-1, keepdims=True)
    return (x / np.sqrt(mean_square + epsilon) * weight).astype(np.float32)


def _rotate(x, base, halves):
    """Rotary positions on x [token, head, dim]; pairs are (i, i + dim/2) or neighbours."""
    n_tokens, _, dim = x.shape
    frequency = base ** (-np.arange(0, dim, 2, dtype=np.float64) / dim)
    angle = np.arange(n_tokens)[:, None, None] * frequency
    cos, sin = np.cos(angle), np.sin(angle)
    first = np.s_[..., : dim // 2] if halves else np.s_[..., 0::2]
    second = np.s_[..., dim // 2:] if halves else np.s_[..., 1::2]
    out = np.empty_like(x)
    out[first] = x[first] * cos - x[second] * sin
    out[second] = x[first] * sin + x[second] * cos
    return out


def _attend(q, k, v, visible):
    """q, k, v [token, head, dim]; visible [query, key]."""
    scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(q.shape[-1])
    scores = np.where(visible, scores, -np.inf).astype(np.float64)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = (weights / weights.sum(axis=-1, keepdims=True)).astype(np.float32)
    return np.einsum("hqk,khd->qhd", weights, v).reshape(len(q), -1)


class Oracle:
    def __init__(self, path):
        self.reader = GGUFReader(path)
        self._tensors = {tensor.name: tensor for tensor in self.reader.tensors}
        self._cache = {}
        self.family = self.field("general.architecture")
        if self.family not in ("llama", "gemma3"):
            raise ValueError(f"the oracle does not know {self.family}")
        self.is_gemma = self.family == "gemma3"
        self.n_layers = self.own("block_count")
        self.width = self.own("embedding_length")
        self.n_heads = self.own("attention.head_count")
        self.n_kv_heads = self.own("attention.head_count_kv", self.n_heads)
        self.head_dim = self.own("attention.key_length", self.width // self.n_heads)
        self.epsilon = self.own("attention.layer_norm_rms_epsilon")
        self.rope_base = self.own("rope.freq_base", 10000.0)
        self.window = self.own("attention.sliding_window", 0)

    def field(self, key, default=None):
        field = self.reader.fields.get(key)
        return default if field is None else field.contents()

    def own(self, key, default=None):
        return self.field(f"{self.family}.{key}", default)

    def weight(self, name):
        """A tensor as float32 [rows, columns], or None if the file has none of that name."""
        if name not in self._tensors:
            return None
        if name not in self._cache:
            tensor = self._tensors[name]
            shape = [int(n) for n in tensor.shape[::-1]]
            values = quants.dequantize(tensor.data, tensor.tensor_type)
            self._cache[name] = values.astype(np.float32).reshape(shape)
        return self._cache[name]

    def _norm(self, x, name):
        weight = self.weight(name + ".weight")
        return x if weight is None else _rms_norm(x, weight, self.epsilon)

    def _linear(self, x, name):
        return x @ self.weight(name + ".weight").T

    def _attention(self, x, layer, prefix):
        position = np.arange(len(x))
        visible = position[None, :] <= position[:, None]
        # Every sixth layer of Gemma 3 sees everything, the others the last `window` tokens.
        is_local = self.is_gemma and self.window and layer % 6 != 5
        if is_local:
            visible &= position[:, None] - position[None, :] < self.window
        base = 10000.0 if is_local else self.rope_base
        q = self._linear(x, prefix + "attn_q").reshape(-1, self.n_heads, self.head_dim)
        k = self._linear(x, prefix + "attn_k").reshape(-1, self.n_kv_heads, self.head_dim)
        v = self._linear(x, prefix + "attn_v").reshape(-1, self.n_kv_heads, self.head_dim)
        q = _rotate(self._norm(q, prefix + "attn_q_norm"), base, self.is_gemma)
        k = _rotate(self._norm(k, prefix + "attn_k_norm"), base, self.is_gemma)
        share = self.n_heads // self.n_kv_heads
        out = _attend(q, np.repeat(k, share, axis=1), np.repeat(v, share, axis=1), visible)
        return self._linear(out, prefix + "attn_output")

    def _feed_forward(self, x, prefix):
        gate = self._linear(x, prefix + "ffn_gate")
        if self.is_gemma:
            inner = np.sqrt(2 / np.pi) * (gate + 0.044715 * gate**3)
            gate = (0.5 * gate * (1 + np.tanh(inner))).astype(np.float32)
        else:
            gate = gate / (1 + np.exp(-gate))
        return self._linear(gate * self._linear(x, prefix + "ffn_up"), prefix + "ffn_down")

    def logits(self, ids, every_position=False):
        """float32 [positions, vocabulary] after these ids: of all positions, or of the last."""
        x = self.weight("token_embd.weight")[ids]
        if self.is_gemma:
            x = x * np.sqrt(np.float32(self.width))
        for layer in range(self.n_layers):
            prefix = f"blk.{layer}."
            out = self._attention(self._norm(x, prefix + "attn_norm"), layer, prefix)
            x = x + self._norm(out, prefix + "post_attention_norm")
            out = self._feed_forward(self._norm(x, prefix + "ffn_norm"), prefix)
            x = x + self._norm(out, prefix + "post_ffw_norm")
        x = self._norm(x if every_position else x[-1:], "output_norm")
        head = self.weight("output.weight")
        return x @ (self.weight("token_embd.weight") if head is None else head).T


def log_softmax(logits):
    logits = logits.astype(np.float64)
    top = logits.max(axis=-1, keepdims=True)
    return logits - top - np.log(np.exp(logits - top).sum(axis=-1, keepdims=True))
