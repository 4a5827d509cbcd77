"""Times replaced token detection as one would write it with transformers: two models, shared embeddings.

The text is random ids; samples are drawn by Gumbel-max; the optimizer is the fused AdamW, with clipping. The
output layer runs at every position, as in the library's ElectraForMaskedLM. Prints a line of JSON.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import time

import torch
from torch.nn import functional as F
from transformers import ElectraConfig, ElectraForMaskedLM, ElectraForPreTraining

VOCABULARY, MASK = 30522, 103
# layers, hidden size, heads, embedding size, relative width of the generator
SIZES = {"tiny": (4, 128, 2, 128, 0.5), "small": (12, 256, 4, 128, 0.25), "base": (12, 768, 12, 768, 1 / 3)}


def networks(size: str, dropout: float) -> tuple[ElectraForMaskedLM, ElectraForPreTraining]:
    layers, hidden, heads, embedding, width = SIZES[size]
    shape: dict[str, float] = {
        "vocab_size": VOCABULARY,
        "embedding_size": embedding,
        "num_hidden_layers": layers,
    }
    shape |= {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
    narrow = round(hidden * width)
    large = ElectraForPreTraining(
        ElectraConfig(hidden_size=hidden, num_attention_heads=heads, intermediate_size=4 * hidden, **shape)
    )
    small = ElectraForMaskedLM(
        ElectraConfig(hidden_size=narrow, num_attention_heads=narrow // 64, intermediate_size=4 * narrow, **shape)
    )
    small.electra.embeddings = large.electra.embeddings
    small.generator_lm_head.weight = large.electra.embeddings.word_embeddings.weight
    return small.train(), large.train()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--size", choices=list(SIZES), default="small")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dropout", type=float, default=0.1)
    arguments = parser.parse_args()
    generator, discriminator = (network.to(arguments.device) for network in networks(arguments.size, arguments.dropout))
    parameters = list({id(p): p for network in (generator, discriminator) for p in network.parameters()}.values())
    optimizer = torch.optim.AdamW(parameters, lr=5e-4, eps=1e-6, weight_decay=0.01, fused=True)
    if arguments.compile:
        generator, discriminator = torch.compile(generator), torch.compile(discriminator)

    def step() -> float:
        original = torch.randint(1000, VOCABULARY, (arguments.batch, arguments.length), device=arguments.device)
        masked = torch.rand(original.shape, device=arguments.device) < 0.15
        with torch.autocast(arguments.device, torch.bfloat16, enabled=arguments.precision == "bf16"):
            logits = generator(original.masked_fill(masked, MASK)).logits[masked].float()
            mlm = F.cross_entropy(logits, original[masked])
            noise = -torch.log(-torch.log(torch.rand_like(logits) + 1e-9) + 1e-9)
            corrupted = original.clone()
            corrupted[masked] = (logits.detach() + noise).argmax(-1)
            logits = discriminator(corrupted).logits.float()
            loss = mlm + 50 * F.binary_cross_entropy_with_logits(logits, (corrupted != original).float())
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.item()

    for _ in range(2):
        step()
    times: list[float] = []
    started = time.perf_counter()
    while time.perf_counter() - started < arguments.seconds or len(times) < 3:
        began = time.perf_counter()
        step()
        times.append(time.perf_counter() - began)
    tokens = arguments.batch * arguments.length
    cuda = arguments.device == "cuda"
    memory = (
        torch.cuda.max_memory_allocated() >> 20 if cuda else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    )
    rates = {
        "tokens_per_s_median": tokens / statistics.median(times),
        "tokens_per_s_best": tokens / min(times),
    }
    print(json.dumps({**rates, "steps": len(times), "peak_rss_mib": memory}))


if __name__ == "__main__":
    main()
