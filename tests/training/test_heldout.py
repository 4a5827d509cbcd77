"""Held-out numbers are of the text that is held out, and of nothing else: a peer's evaluation reads the
training files.
"""

from dataclasses import replace
from pathlib import Path

from electra.data.corpus.store import TokenStore
from electra.foundation.signals import StopRequest
from electra.testing import toy
from electra.training.assemble import build_run
from electra.training.distributed import World
from electra.training.heldout import evaluate


def test_heldout_numbers_are_of_the_heldout_documents(tmp_path: Path) -> None:
    def numbers(store: TokenStore) -> dict[str, float | None]:
        return evaluate(build_run(toy.recipe(), tmp_path, store, World()), StopRequest())

    store = toy.store()
    usual = numbers(store)
    assert numbers(replace(store, train=toy.documents(200, 3))) == usual
    assert numbers(replace(store, heldout=toy.documents(20, 4))) != usual
