"""What one training sequence costs under each objective, beside mlm: the table in objectives.md.

python docs/site/make_costs.py [SIZE [LENGTH [VOCABULARY]]]     default: small 128 30522, the paper's ELECTRA-Small
"""

from __future__ import annotations

import sys

from electra import objectives
from electra.foundation.extensions import OBJECTIVES
from electra.model.networks import Networks
from electra.model.sizes import discriminator_config, generator_config, resolve_size

VARIANTS = [("rtd", {"generator": "uniform"})]


def cost(name: str, options: dict[str, object], size_name: str, length: int, vocabulary: int) -> float:
    size = resolve_size(size_name)
    specials = {"pad": 0, "unk": 100, "cls": 101, "sep": 102, "mask": 103}
    made = objectives.create({"name": name, **options}, vocab_size=vocabulary, specials=specials)
    full = discriminator_config(size, "electra", vocab_size=vocabulary, dropout=0.1, attention_dropout=0.1, pad_id=0)
    needed = dict(made.required_settings)
    small = generator_config(
        full, needed.get("generator_width", size.generator_width), needed.get("generator_depth", 1.0)
    )
    return made.sequence_flops(Networks.pair(full, small if made.auxiliary else None, made.main), length)


if __name__ == "__main__":
    chosen = [*sys.argv[1:], *("small", "128", "30522")[len(sys.argv) - 1 :]]
    shape = (chosen[0], int(chosen[1]), int(chosen[2]))
    baseline = cost("mlm", {}, *shape)
    cases: list[tuple[str, dict[str, object]]] = [(name, {}) for name in OBJECTIVES.names()]
    for name, options in [*cases, *VARIANTS]:
        label = " ".join([name, *(f"{key} = {value}" for key, value in options.items())])
        sys.stdout.write(f"{label:36} {cost(name, options, *shape) / baseline:.2f}\n")
