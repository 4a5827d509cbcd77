"""Tokens per second of one pre-training step, ours beside the loop one would write with transformers: ELECTRA-Small, random ids.

    python benchmarks/pretrain.py [--rounds 3] [--seconds 10] [--batch 16] [--length 128]

Each contender is a process of its own, and the contenders take turns, so that a busy machine slows all of them. The figures to quote are
the ratios of the medians. Writes one JSON line at the end.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

CONTENDERS = {
    "ours, bf16, dropout 0.1": ("ours", "bf16", 0.1),
    "ours, bf16, no dropout": ("ours", "bf16", 0.0),
    "ours, fp32, dropout 0.1": ("ours", "fp32", 0.1),
    "transformers, bf16, dropout 0.1": ("theirs", "bf16", 0.1),
    "transformers, fp32, dropout 0.1": ("theirs", "fp32", 0.1),
}


def our_step(batch: int, length: int, precision: str, dropout: float) -> Callable[[], None]:
    import numpy as np

    from electra.data.specials import Specials
    from electra.data.store import TokenDocuments, TokenStore
    from electra.training.distributed import World
    from electra.training.loop import update
    from electra.training.recipe import make_recipe
    from electra.training.run import build_run

    random = np.random.default_rng(0)
    documents = TokenDocuments(random.integers(5, 30522, 1_000_000).astype(np.uint16), np.arange(1000, 1_000_001, 1000, dtype=np.uint64))
    specials = Specials(pad=0, unk=1, cls=2, sep=3, mask=4)
    store = TokenStore(Path("memory"), documents, documents, specials, 30522, "none", {"digest": "none"})
    training = {"length": length, "batch_size": batch, "steps": 1_000_000, "precision": precision, "log_every": 1_000_000}
    model = {"size": "small", "dropout": dropout, "attention_dropout": dropout}
    run = build_run(make_recipe({"model": model, "training": training}), Path("memory"), store, World())
    return lambda: update(run)


def their_step(batch: int, length: int, precision: str, dropout: float) -> Callable[[], None]:
    """transformers' two models with shared embeddings, AdamW, clipping; sampling by Gumbel-max over the masked slots."""
    import torch
    from torch.nn import functional as F
    from transformers import ElectraConfig, ElectraForMaskedLM, ElectraForPreTraining

    shape = {"vocab_size": 30522, "embedding_size": 128, "num_hidden_layers": 12}
    shape |= {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
    big = ElectraForPreTraining(ElectraConfig(hidden_size=256, num_attention_heads=4, intermediate_size=1024, **shape)).train()
    little = ElectraForMaskedLM(ElectraConfig(hidden_size=64, num_attention_heads=1, intermediate_size=256, **shape)).train()
    little.electra.embeddings = big.electra.embeddings
    little.generator_lm_head.weight = big.electra.embeddings.word_embeddings.weight
    parameters = list({id(p): p for network in (little, big) for p in network.parameters()}.values())
    optimizer = torch.optim.AdamW(parameters, lr=5e-4, eps=1e-6, weight_decay=0.01, fused=True)

    def step() -> None:
        original = torch.randint(5, 30522, (batch, length))
        masked = torch.rand(original.shape) < 0.15
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
            logits = little(original.masked_fill(masked, 4)).logits[masked].float()
            mlm = F.cross_entropy(logits, original[masked])
            noise = -torch.log(-torch.log(torch.rand_like(logits) + 1e-9) + 1e-9)
            corrupted = original.clone()
            corrupted[masked] = (logits.detach() + noise).argmax(-1)
            judged = big(corrupted).logits.float()
            loss = mlm + 50 * F.binary_cross_entropy_with_logits(judged, (corrupted != original).float())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def measure(step: Callable[[], None], seconds: float) -> list[float]:
    step()
    times: list[float] = []
    began = time.perf_counter()
    while len(times) < 3 or time.perf_counter() - began < seconds:
        before = time.perf_counter()
        step()
        times.append(time.perf_counter() - before)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--contender", choices=list(CONTENDERS))
    options = parser.parse_args()
    if options.contender:
        side, precision, dropout = CONTENDERS[options.contender]
        step = (our_step if side == "ours" else their_step)(options.batch, options.length, precision, dropout)
        times = measure(step, options.seconds)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        print(json.dumps({"tokens_per_s": options.batch * options.length / statistics.median(times), "peak_rss_mib": memory}))
        return
    found: dict[str, list[dict[str, float]]] = {name: [] for name in CONTENDERS}
    shared = [f"--seconds={options.seconds}", f"--batch={options.batch}", f"--length={options.length}"]
    for _ in range(options.rounds):
        for name in CONTENDERS:
            ended = subprocess.run([sys.executable, __file__, f"--contender={name}", *shared], capture_output=True, text=True, check=True)
            found[name].append(json.loads(ended.stdout.splitlines()[-1]))
    medians = {name: statistics.median(row["tokens_per_s"] for row in rows) for name, rows in found.items()}
    slowest = medians["transformers, fp32, dropout 0.1"]
    print(f"{'':34}{'tokens/s':>10}{'spread':>18}{'x fp32 loop':>13}{'peak MiB':>10}")
    for name, rows in found.items():
        rates = [row["tokens_per_s"] for row in rows]
        memory = statistics.median(row["peak_rss_mib"] for row in rows)
        print(f"{name:34}{medians[name]:10,.0f}{f'{min(rates):,.0f}-{max(rates):,.0f}':>18}{medians[name] / slowest:13.2f}{memory:10,.0f}")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
