"""How the states of a text's tokens become its one vector, as sentence-transformers keeps it in a folder.

The file speaks of each way of pooling by a switch of its own, which every version of that library reads.
"""

from __future__ import annotations

from typing import Literal

from electra import durable
from electra.artifacts.model import MODULES, POOLING, ModelFolder
from electra.errors import ModelError

Pooling = Literal["cls", "mean"]
SWITCHES: dict[Pooling, str] = {"mean": "pooling_mode_mean_tokens", "cls": "pooling_mode_cls_token"}


def pooling_files(pooling: Pooling, hidden_size: int) -> dict[str, durable.Content]:
    """The files that make `SentenceTransformer(folder)` pool as we do."""
    steps = [("", "Transformer"), (POOLING.partition("/")[0], "Pooling")]
    modules = [
        {"idx": index, "name": str(index), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for index, (path, kind) in enumerate(steps)
    ]
    switches = {switch: way == pooling for way, switch in SWITCHES.items()}
    settings = {"word_embedding_dimension": hidden_size, **switches}
    return {MODULES: durable.to_json(modules), POOLING: durable.to_json(settings)}


def read_pooling(folder: ModelFolder) -> Pooling | None:
    """What a folder says; None where it says nothing. Raises ModelError for a way that is not ours."""
    path = folder.pooling
    if not path.is_file():
        return None
    settings = durable.read_json(path, ModelError)
    given = settings if isinstance(settings, dict) else {}
    mode = given.get("pooling_mode")  # as versions from 5.2 write it
    chosen = (
        [mode]
        if mode is not None
        else [name for name, on in given.items() if on is True and name.startswith("pooling_mode_")]
    )
    for way, switch in SWITCHES.items():
        if chosen in ([way], [switch]):
            return way
    said = ", ".join(map(str, chosen)) or "nothing"
    fix = f"Set one of {' and '.join(SWITCHES.values())} to true, and nothing else"
    raise ModelError(f"unknown pooling: {said}", where=path, fix=fix)
