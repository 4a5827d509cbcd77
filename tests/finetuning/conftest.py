from __future__ import annotations

from pathlib import Path

import pytest
import torch

from electra.testing import toy_task


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
    monkeypatch.setattr("electra.finetuning.runner.train_seed.log_interval", lambda total: 1)
