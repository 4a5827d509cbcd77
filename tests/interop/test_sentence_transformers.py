"""`SentenceTransformer(folder)` gives the vectors that `embed` gives."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from electra.interop.embedding import embed
from electra.interop.load import load
from electra.interop.transfer import export
from electra.testing import small

TEXTS = ["the chef cooked the meal .", "a cat", "", "that old chef likes the new meal ."]


def test_it_gives_the_same_vectors(tmp_path: Path) -> None:
    library = pytest.importorskip("sentence_transformers", reason="needs the extra `sentences`")
    for architecture, pooling in (("electra", "cls"), ("modern", "mean")):
        made = small.network(tmp_path, architecture=architecture)
        folder = tmp_path / architecture
        export(replace(made, pooling=pooling), folder, folder)
        theirs = library.SentenceTransformer(str(folder), device="cpu").encode(TEXTS)
        np.testing.assert_allclose(theirs, embed(load(folder), TEXTS), atol=1e-5)
