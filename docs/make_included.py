"""Make a model that comes with the package out of a run or pair: 16, 8 or 4 bits, what is shared stored once, a card.

    python docs/make_included.py RUN NAME SUMMARY.md [float16|int8|int4]

SUMMARY.md says what the card shall say first: how it was trained, the text and its licence, what it can do.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from electra.artifacts.included import MODELS
from electra.artifacts.model import Dtype
from electra.artifacts.run import PairFolder
from electra.exchange.transfer import load_networks, make_card, share_encoder, write


def make(run: Path, name: str, summary: str, dtype: Dtype = "float16") -> None:
    pair = PairFolder(MODELS / name)
    for folder, loaded in load_networks(run, pair.path).items():
        card = replace(
            make_card(loaded, folder, run), name=f"{name}-{folder.name}", summary=summary, base_model=""
        )
        write(loaded, folder, card, dtype)
        if folder.name != "discriminator":
            share_encoder(folder, "discriminator")


if __name__ == "__main__":
    summary = Path(sys.argv[3]).read_text(encoding="utf-8").strip()
    make(Path(sys.argv[1]), sys.argv[2], summary, *sys.argv[4:])  # type: ignore[arg-type]
