"""All measurements on a CUDA device: its tests, training compared with a transformers loop, attention.

    python benchmarks/gpu.py [--rounds 3] [--seconds 10] [--out runs/bench-gpu]
    python benchmarks/gpu.py --rehearse          # tiny shapes on the CPU, to try every part

ELECTRA-Small and -Base are trained at lengths 128 and 512, with the paper's dropout and 16,384 tokens per
batch. A plain transformers loop (fp32, bf16, bf16 compiled) and electra (bf16, and with compiled layers) take
turns. Then attention over packed rows, forward and backward, is timed: without a mask, with a mask, and as
variable-length flash attention. Prints tokens/s, MFU relative to this device's own rate of matrix products,
and how long the paper's run of ELECTRA-Small (a million steps of 128 x 128) would take.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import torch
from contest import HERE, Contender, compare, options, python
from torch import Tensor
from torch.nn import functional as F

TOKENS = 16_384  # per batch
PAPER_TOKENS = 1_000_000 * 128 * 128


def main() -> None:
    parser = options(__doc__)
    parser.set_defaults(out=Path("runs/bench-gpu"))
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--rehearse", action="store_true", help="tiny shapes on the CPU")
    parser.add_argument("--attention", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    device = "cpu" if arguments.rehearse else "cuda"
    if device == "cuda" and not torch.cuda.is_available():
        sys.exit("there is no CUDA device; --rehearse tries the parts on the CPU")
    if arguments.attention:
        print(json.dumps(attention_row(device)))
        return
    print(describe(device), flush=True)
    run_tests(device)
    cases = [("tiny", 128)] if arguments.rehearse else list(itertools.product(("small", "base"), (128, 512)))
    for size, length in cases:
        train(size, length, device, arguments)
    ended = subprocess.run(
        python(__file__, "--attention", *(["--rehearse"] if arguments.rehearse else [])),
        capture_output=True,
        text=True,
        check=False,
    )
    if ended.returncode:
        sys.exit(ended.stderr)
    report_attention(json.loads(ended.stdout.splitlines()[-1]), arguments.out)


def describe(device: str) -> str:
    name = (
        torch.cuda.get_device_name() if device == "cuda" else "CPU (a rehearsal: the figures are meaningless)"
    )
    return f"{name}, torch {torch.__version__}, Python {sys.version.split()[0]}"


def run_tests(device: str) -> None:
    marked = ["-m", "cuda"] if device == "cuda" else ["-k", "cpu"]
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", *marked, "tests/training/test_devices.py"],
        cwd=HERE.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    print(f"tests: {ended.stdout.splitlines()[-1] if ended.stdout else ended.stderr}", flush=True)
    if ended.returncode:
        sys.exit(ended.stdout)


def train(size: str, length: int, device: str, arguments: argparse.Namespace) -> None:
    """Compares training at one size and length."""
    batch = 2 if device == "cpu" else TOKENS // length
    shared = ["--length", length, "--seconds", arguments.seconds, "--device", device]
    loop = python(HERE / "transformers_loop.py", "--size", size, "--dropout", 0.1, "--batch", batch, *shared)
    recipe = "tiny" if size == "tiny" else f"paper-{size}"
    settings = [
        "--vocab-size",
        30522,
        "--dropout",
        0.1,
        "--precision",
        "bf16",
        "--batch-size",
        batch,
        *shared,
    ]
    ours = python(HERE / "speed.py", "--recipe", recipe, *settings)
    contenders = [
        Contender("transformers, fp32", [*loop, "--precision", "fp32"]),
        Contender("transformers, bf16", [*loop, "--precision", "bf16"]),
        Contender("transformers, bf16, compiled", [*loop, "--precision", "bf16", "--compile"]),
        Contender("electra, bf16", ours),
        Contender("electra, bf16, compiled layers", [*ours, "--compile", "on"]),
    ]
    if device == "cpu":
        del contenders[2]  # takes minutes to compile on a CPU
    print(f"\n{size}, {batch} x {length}", flush=True)
    rates = {"rate": "tokens_per_s_median", "unit": "tokens/s", "baseline": "transformers, bf16"}
    result = compare(f"gpu-{size}-{length}", contenders, arguments, **rates)
    for name, row in result["contenders"].items():
        turn = row["turns"][-1]
        mfu = (
            f", MFU {turn['mfu']:.1%} of {turn['matmul_gflops'] / 1e3:,.1f} TFLOP/s" if "mfu" in turn else ""
        )
        hours = (
            f", the paper's run {PAPER_TOKENS / row['median'] / 3600:,.1f} h"
            if (size, length) == ("small", 128)
            else ""
        )
        print(f"{name:36} peak {turn['peak_rss_mib']:,} MiB{mfu}{hours}", flush=True)


def packed_ends(rows: int, length: int) -> Tensor:
    """Returns 0 and the ends of packed documents: three per row, of 1/2, 1/4 and 1/4 of its length."""
    lengths = torch.tensor([length // 2, length // 4, length - length // 2 - length // 4]).repeat(rows)
    return F.pad(lengths.cumsum(0), (1, 0)).to(torch.int32)


def attention_row(device: str) -> dict[str, Any]:
    """Returns the milliseconds of attention, forward and backward, for 12 heads of 64 (bf16, no dropout)."""
    from speed import best_of

    results: dict[str, Any] = {}
    for length in (16,) if device == "cpu" else (128, 512):
        rows, heads = (2, 2) if device == "cpu" else (TOKENS // length, 12)
        q, k, v = (
            torch.randn(rows, length, heads, 64, device=device, dtype=torch.bfloat16, requires_grad=True)
            for _ in range(3)
        )
        ends = packed_ends(rows, length).to(device)
        document_ids = torch.repeat_interleave(
            torch.arange(len(ends) - 1, device=device), ends.diff().long()
        ).view(rows, length)
        mask = (document_ids[:, None, :, None] == document_ids[:, None, None, :]).detach()
        ways = {
            "no mask": partial(plain, q, k, v, None),
            "mask": partial(plain, q, k, v, mask),
            "variable length": partial(variable_length, q, k, v, ends, length),
        }
        if device == "cpu":
            ways.pop("variable length")  # has a kernel only for GPUs
        results[str(length)] = {
            name: 1e3 * best_of(lambda way=way: way().sum().backward(), torch.device(device))  # type: ignore[misc]
            for name, way in ways.items()
        }
        if device == "cuda":
            with torch.no_grad():
                difference = (ways["mask"]() - ways["variable length"]()).abs().max()
            results[str(length)]["largest difference"] = float(difference)
    return results


def plain(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2)


def variable_length(q: Tensor, k: Tensor, v: Tensor, ends: Tensor, longest: int) -> Tensor:
    from torch.nn.attention.varlen import varlen_attn

    out = varlen_attn(q.flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1), ends, ends, longest, longest)
    assert isinstance(out, Tensor)
    return out.view_as(q)


def report_attention(results: dict[str, Any], out: Path) -> None:
    print("\nattention, forward and backward, ms")
    for length, ways in results.items():
        print(f"  length {length}: " + ", ".join(f"{name} {value:.3g}" for name, value in ways.items()))
    (out / "gpu-attention.json").write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
