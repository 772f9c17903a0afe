# SPDX-License-Identifier: MIT
# Writes the corpus of the GGUF fuzz target: right files, and one file for each family of faults
# that GGUF readers have had. Needs nothing but Python:
#     python3 tests/fuzz/make_gguf_corpus.py tests/fuzz/corpus/gguf
import struct
import sys
from pathlib import Path

U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)
FORMATS = {U8: "B", I8: "b", U16: "H", I16: "h", U32: "I", I32: "i", F32: "f", BOOL: "B",
           U64: "Q", I64: "q", F64: "d"}
MAX64 = 2**64 - 1


def number(kind, value):
    return struct.pack("<" + FORMATS[kind], value)


def string(text, length=None):
    data = text.encode()
    return number(U64, len(data) if length is None else length) + data


def pair(key, kind, value, key_length=None):
    raw = string(value) if kind == STRING and isinstance(value, str) else value
    raw = raw if isinstance(raw, bytes) else number(kind, raw)
    return string(key, key_length) + number(U32, kind) + raw


def array(kind, values, count=None):
    body = b"".join(string(v) if kind == STRING else number(kind, v) for v in values)
    return number(U32, kind) + number(U64, len(values) if count is None else count) + body


def tensor(name, shape, kind=0, offset=0, n_dims=None):
    dims = b"".join(number(U64, n) for n in shape)
    return (string(name) + number(U32, len(shape) if n_dims is None else n_dims) + dims +
            number(U32, kind) + number(U64, offset))


def file(pairs=(), tensors=(), data=b"", version=3, n_pairs=None, n_tensors=None, magic=b"GGUF",
         alignment=32):
    out = magic + number(U32, version)
    out += number(U64, len(tensors) if n_tensors is None else n_tensors)
    out += number(U64, len(pairs) if n_pairs is None else n_pairs)
    out += b"".join(pairs) + b"".join(tensors)
    return out + b"\0" * (-len(out) % alignment if tensors else 0) + data


def wrong_metadata():
    yield "key-length-max", file([pair("k", BOOL, 1, key_length=MAX64)])
    yield "key-length-half", file([pair("k", BOOL, 1, key_length=2**63)])
    yield "key-empty", file([pair("", BOOL, 1)])
    yield "key-twice", file([pair("a.b", U32, 1), pair("a.b", U32, 2)])
    yield "string-length-max", file([pair("a.b", STRING, string("x", MAX64))])
    yield "string-length-one-over", file([pair("a.b", STRING, string("xyz", 4))])
    for kind in [*FORMATS, STRING]:
        yield f"array-{kind}-count-2e61", file([pair("a.b", ARRAY, array(kind, [], 2**61))])
        yield f"array-{kind}-count-max", file([pair("a.b", ARRAY, array(kind, [], MAX64))])
    yield "array-string-cut", file([pair("a.b", ARRAY, array(STRING, ["x"], 2) + number(U64, 99))])
    yield "array-of-arrays", file([pair("a.b", ARRAY, array(ARRAY, [], 1) + array(U8, [1]))])
    yield "array-type-13", file([pair("a.b", ARRAY, number(U32, 13) + number(U64, 0))])
    yield "value-type-13", file([pair("a.b", 13, b"\0" * 16)])
    yield "value-type-max", file([pair("a.b", 2**32 - 1, b"\0" * 16)])
    yield "bool-2", file([pair("a.b", BOOL, 2)])
    yield "key-count-max", file([pair("a.b", BOOL, 1)], n_pairs=MAX64)
    yield "key-count-2e59", file([pair("a.b", BOOL, 1)], n_pairs=2**59)
    yield "key-count-one-over", file([pair("a.b", STRING, "some text")], n_pairs=2)
    yield "tensor-count-max", file([pair("a.b", BOOL, 1)], n_tensors=MAX64)
    yield "tensor-count-2e59", file([pair("a.b", BOOL, 1)], n_tensors=2**59)
    for value in (0, 1, 3, 13, 24, 2**30, 2**31):
        yield f"alignment-{value}", file([pair("general.alignment", U32, value)],
                                         [tensor("w", [4])], b"\0" * 16)
    yield "alignment-string", file([pair("general.alignment", STRING, "32")])
    yield "alignment-u64", file([pair("general.alignment", U64, 32)])


def wrong_tensors():
    data = b"\x11" * 64
    for n_dims in (0, 5, 2**32 - 1):
        yield f"dims-{n_dims}", file([], [tensor("w", [4], n_dims=n_dims)], data)
    yield "extent-zero", file([], [tensor("w", [4, 0])], data)
    yield "extent-negative", file([], [tensor("w", [MAX64])], data)
    yield "product-wraps", file([], [tensor("w", [2**32, 2**32])], data)
    yield "product-wraps-small", file([], [tensor("w", [2**42 + 1, 2**22])], data)
    yield "bytes-wrap", file([], [tensor("w", [2**62])], data)
    yield "padding-wraps", file([], [tensor("w", [4, 1073741823, 1073741825, 1])], data)
    yield "sizes-wrap", file([], [tensor("w", [0x3FFFFFFFFFFFFFE0]),
                                  tensor("v", [0x3FFFFFFFFFFFFFE0], offset=32)], data)
    yield "row-not-block", file([], [tensor("w", [40, 256], kind=12)], data)
    yield "type-16", file([], [tensor("w", [256], kind=16)], data)
    yield "type-999", file([], [tensor("w", [4], kind=999)], data)
    yield "offset-at-end", file([], [tensor("w", [4], offset=64)], data)
    yield "offset-max", file([], [tensor("w", [4], offset=MAX64 - 31)], data)
    yield "offset-odd", file([], [tensor("w", [4], offset=3)], data)
    yield "overlap", file([], [tensor("w", [16]), tensor("v", [4], offset=32)], data)
    yield "name-twice", file([], [tensor("w", [4]), tensor("w", [4], offset=32)], data)
    yield "name-empty", file([], [tensor("", [4])], data)
    yield "name-long", file([], [tensor("n" * 65, [4])], data)
    yield "data-short", file([], [tensor("w", [17])], data)


def right_files():
    everything = [pair(f"scalar.{kind}", kind, 1) for kind in FORMATS]
    everything += [pair(f"array.{kind}", ARRAY, array(kind, [0, 1])) for kind in FORMATS]
    everything += [pair("text", STRING, "hello"),
                   pair("tokenizer.ggml.tokens", ARRAY, array(STRING, ["<s>", "", "a"]))]
    yield "right-values", file(everything)
    yield "right-empty", file()
    yield "right-version-2", file([pair("general.architecture", STRING, "llama")], version=2)
    yield "right-tensors", file(
        [pair("general.alignment", U32, 64)],
        [tensor("token_embd.weight", [8, 4]), tensor("q", [256], 12, 128),
         tensor("o", [32, 1, 1, 1], 8, 320)], b"\x22" * 354, alignment=64)


def main(folder):
    wrong_headers = [("empty", b""), ("magic-alone", b"GGUF"), ("magic-wrong", file(magic=b"ggjt")),
                     *((f"version-{v}", file(version=v)) for v in (0, 1, 4, 0x03000000))]
    for name, content in [*wrong_headers, *wrong_metadata(), *wrong_tensors(), *right_files()]:
        Path(folder, name + ".gguf").write_bytes(content)


main(sys.argv[1])
