"""Bring your own codec: a frozen record that writes a row as bytes and reads it again, beside the ones that are shipped."""

import sys
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from fedloom.coding import checked, codec, floats_from, floats_to, opened


@dataclass(frozen=True)
class Int8:
    """Whole numbers from -127 to 127, times the largest magnitude of the row. Nothing is drawn, so the key is not used."""

    def encode(self, row, key):
        largest = np.abs(checked(row)).max(keepdims=True)
        return floats_to(largest) + np.rint(row / np.where(largest > 0, largest, 1) * 127).astype(np.int8).tobytes()

    def decode(self, data, n_values, key):
        message = opened(self, data, n_values)
        return floats_from("the largest", message[:4]) * (np.frombuffer(message[4:], np.int8) / np.float32(127))

    def coded(self, row, key):
        return self.decode(self.encode(row, key), len(row), key)

    def n_bits(self, n_values):
        return 32 + 8 * n_values


row = np.random.default_rng(1).standard_t(4, 100_000).astype(np.float32)
axes = Figure(figsize=(4.5, 3), layout="constrained").subplots()
for it in [*map(codec, ("float16", "bfloat16", "qsgd:bits=2", "qsgd:bits=6", "sign", "topk:share=0.3")), Int8()]:
    bits, error = it.n_bits(len(row)) / len(row), np.linalg.norm(it.coded(row, key=7) - row) / np.linalg.norm(row)
    axes.loglog(bits, error, "o", label=it)
    print(f"{it!s:28} {bits:6.2f} bits a value, relative error {error:.2g}")
axes.set(xlabel="bits a value", ylabel="relative error", xlim=(0.5, 60), ylim=(1e-4, 3))
axes.legend(fontsize="small")
axes.figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "own_codec.png", dpi=110)
