"""Estimates the efficiency of data parallelism from bytes and FLOPs, without a measurement.

    python benchmarks/scaling.py

An update computes for t_c = batch x length x FLOPs per token / (devices x rate) seconds and then sums its
gradients for t_r = 2 (n - 1) / n x 4 bytes x parameters / bandwidth (ring all-reduce of float32, not
overlapped with the backward pass; within a node first, then between nodes). The efficiency is t_c / (t_c +
t_r). Assumed are 40 % of a dense bf16 peak of 990 TFLOP/s, 300 GB/s between the GPUs of a node, and 50 or
12.5 GB/s between nodes (400 or 100 Gbit/s). Change the constants for other hardware.
"""

from __future__ import annotations

from electra.model.flops import sequence_flops
from electra.model.networks import Networks
from electra.model.pair import build_networks
from electra.model.sizes import discriminator_config, generator_config, resolve_size

RATE = 0.4 * 990e12
WITHIN, FAST, SLOW = 300e9, 50e9, 12.5e9
PUBLISHED = {"small": (128, 128), "base": (256, 512), "large": (2048, 512)}  # batch and length of the paper


def reduction_seconds(parameters: int, devices: int, bandwidth: float) -> float:
    per_node = min(devices, 8)
    nodes = devices // per_node
    within = 2 * (per_node - 1) / per_node * 4 * parameters / WITHIN
    between = 2 * (nodes - 1) / nodes * 4 * parameters / bandwidth
    return within + between


def main() -> None:
    print(
        "size   batch x length  parameters  FLOPs/token  devices  compute ms  reduce ms (400 / 100 Gbit/s)  efficiency"
    )
    for name, (batch, length) in PUBLISHED.items():
        size = resolve_size(name)
        full = discriminator_config(size, "electra", vocab_size=30522, dropout=0.1, attention_dropout=0.1, pad_id=0)
        narrow = generator_config(full, size.generator_width, 1.0)
        parameters = sum(p.numel() for p in build_networks(Networks.pair(full, narrow)).parameters())
        per_token = (
            sequence_flops(narrow, full, length, masked_fraction=0.15, dense_lookup=False) / length * 1.5
        )  # backward is twice
        for devices in (1, 8, 32):
            compute = batch * length * per_token / (devices * RATE)
            fast, slow = (reduction_seconds(parameters, devices, bandwidth) for bandwidth in (FAST, SLOW))
            shares = f"{compute / (compute + fast):6.0%} / {compute / (compute + slow):4.0%}"
            print(
                f"{name:6} {f'{batch} x {length}':>14} {parameters / 1e6:9.1f} M {per_token / 1e9:10.3f} G"
                f" {devices:8} {compute * 1e3:11.2f} {fast * 1e3:13.2f} / {slow * 1e3:<13.2f} {shares}"
            )


if __name__ == "__main__":
    main()
