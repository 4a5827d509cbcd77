"""What a run did, looked at again: logged updates done once more, the texts of a batch."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from electra.artifacts import Finding
from electra.artifacts.run import RunFolder
from electra.artifacts.store import DOCUMENTS_SUFFIX
from electra.commands.framework.command import Source
from electra.foundation.errors import ConfigError

if TYPE_CHECKING:
    from electra.data.store import TokenStore


def replay(folder: RunFolder, steps: int, store: Source | None = None) -> list[Finding]:
    """Each thing compared, and its problem ("": none)."""
    from electra.training.replay import replay as once_more

    return once_more(folder, opened_store(folder, store), steps)


def texts_of_batch(folder: RunFolder, step: int, store: Source | None = None) -> list[str]:
    """The rows of the global batch whose update finished `step`, as text; documents in a row are joined."""
    from electra.data.batches import Batches
    from electra.training.recipe import recorded_recipe

    tokens, training = opened_store(folder, store), recorded_recipe(folder.record).training
    if not 0 < step <= (folder.total_steps or step):
        raise ConfigError(f"the run has no step {step:,}", where=folder.path, key="step")
    batches = Batches(tokens.train, length=training.length, seed=training.seed, specials=tokens.specials)
    ids = batches.batch(step - 1, training.batch_size).input_ids
    return [tokens.tokenizer.decode(row.tolist()) for row in ids]


def store_of(folder: RunFolder, given: Source | None = None) -> str:
    """Where the store of a run lies: as given, in its folder, or where it lay. Raises ConfigError."""
    recorded = folder.record.get("environment", {}).get("store")
    kept = str(folder.store.path) if folder.store.exists() else recorded
    if given is None and kept is None:
        what = "the run does not say where its store lies"
        raise ConfigError(what, where=folder.path, key="store", fix="Give `store`")
    return kept if given is None else os.fspath(given)


def opened_store(folder: RunFolder, given: Source | None = None) -> TokenStore:
    """The store of a run; raises StoreError where it is not there or not the one that it was trained on."""
    from electra.commands.parts.stores import existing_tokenizer
    from electra.data.store import TokenStore
    from electra.foundation.errors import StoreError

    record, place = folder.record, store_of(folder, given)
    wanted = record.get("tokenizer", {}).get("source")
    store = TokenStore.open(
        place, existing_tokenizer(wanted) if wanted and place.endswith(DOCUMENTS_SUFFIX) else None
    )
    if store.digest != record.get("identity", {}).get("data"):
        raise StoreError("not the store that the run was trained on", where=place, fix="Give another `store`")
    return store
