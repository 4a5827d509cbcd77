from pathlib import Path

import pytest
from contracts import toy_task


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return toy_task.save_encoder(tmp_path_factory.mktemp("models") / "toy")


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Many tasks' data below one folder: SST-2 whole, RTE with a dev file only."""
    root = tmp_path_factory.mktemp("data")
    toy_task.write_classification(root / "glue" / "SST-2", train=64, dev=20)
    (root / "glue" / "rte").mkdir()
    rows = [f"{i}\tthe film {i} was {word} .\tthe night .\t{label}\n" for i in range(20) for word, label in PAIRS]
    (root / "glue" / "rte" / "dev.tsv").write_text("index\tsentence1\tsentence2\tlabel\n" + "".join(rows))
    return root


PAIRS = (("fine", "entailment"), ("grim", "not_entailment"), ("kind", "entailment"))
