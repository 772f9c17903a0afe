# SPDX-License-Identifier: MIT
# Writes quant_blocks.jsonl: for each block format some blocks of random bits and the float32 values
# that the gguf Python package expands them to. Run with that package installed:
#     python3 tests/data/make_quant_blocks.py > tests/data/quant_blocks.jsonl
import json

import numpy as np
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize

TYPES = ("F32 F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_NL IQ4_XS "
         "MXFP4").split()
# Where the halves d, m, dmin stand in a block: random ones would mostly be huge or not numbers.
HALVES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82],
          "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ4_NL": [0],
          "IQ4_XS": [0]}

random = np.random.default_rng(1)
for name in TYPES:
    kind = GGMLQuantizationType[name]
    block_elements, block_bytes = GGML_QUANT_SIZES[kind]
    n_blocks = 1 if block_elements == 256 else 3 if block_elements == 32 else 32
    blocks = random.integers(0, 256, (n_blocks, block_bytes), dtype=np.uint8)
    if name == "F32":
        blocks = random.standard_normal((n_blocks, 1)).astype(np.float32).view(np.uint8)
    if name == "F16":
        blocks = random.standard_normal((n_blocks, 1)).astype(np.float16).view(np.uint8)
    if name == "BF16":
        blocks[:, 1] = blocks[:, 1] & 0xBF
    for at in HALVES.get(name, []):
        scales = random.standard_normal(n_blocks).astype(np.float16) * np.float16(0.01)
        blocks[:, at:at + 2] = scales.reshape(-1, 1).view(np.uint8)
    values = dequantize(np.ascontiguousarray(blocks.reshape(1, -1)), kind)
    print(json.dumps({"type": name, "number": int(kind), "block_elements": block_elements,
                      "block_bytes": block_bytes, "blocks": blocks.tobytes().hex(),
                      "float32": values.astype("<f4").tobytes().hex()}))
