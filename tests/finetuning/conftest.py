from pathlib import Path

import pytest
import torch
from contracts import toy_task

from electra.finetuning.train.all_seeds import finetune


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def electra_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return toy_task.save_encoder(tmp_path_factory.mktemp("models") / "electra")


@pytest.fixture(scope="session")
def modern_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return toy_task.save_encoder(tmp_path_factory.mktemp("models") / "modern", "modern")


@pytest.fixture(scope="session")
def sst2_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return toy_task.write_classification(tmp_path_factory.mktemp("data") / "sst2", test=20)


@pytest.fixture(scope="session")
def regression_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return toy_task.write_regression(tmp_path_factory.mktemp("data") / "regression")


@pytest.fixture
def every_step_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("electra.finetuning.train.one_seed.log_interval", lambda total: 1)


@pytest.fixture(scope="session")
def classified(electra_folder: Path, sst2_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fine-tuning of two seeds."""
    out = tmp_path_factory.mktemp("classified") / "out"
    settings = toy_task.settings(out, sst2_folder, seeds=2, epochs=4, keep_epoch="best")
    finetune(str(electra_folder), settings, (lines := list[str]()).append)
    assert lines == [line[20:] for line in (out / "log.txt").read_text().splitlines()]
    return out


@pytest.fixture(scope="session")
def measured(electra_folder: Path, regression_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fine-tuning on numbers of pairs."""
    out = tmp_path_factory.mktemp("measured") / "out"
    finetune(str(electra_folder), toy_task.settings(out, regression_folder, "regression", epochs=6))
    return out
