"""Models by hub name: which files are asked for, what a folder of them can do, and what is missing."""

import shutil
from collections.abc import Callable
from fnmatch import fnmatch
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import huggingface_hub
import pytest
from copies import copy_networks
from huggingface_hub.errors import LocalEntryNotFoundError, RepositoryNotFoundError, RevisionNotFoundError

import electra
from electra.artifacts.model_files import CARD, CONFIG, ONNX
from electra.data.tables.hub_files import could_be_hub_name
from electra.exchange.huggingface import export
from electra.exchange.load import load
from electra.exchange.source import locate
from electra.foundation import durable
from electra.foundation.errors import ModelError
from electra.model.pair import Pair
from electra.training.starts import initial_models

ExportPair = Callable[..., tuple[Pair, Path]]
FILES = ["1_Pooling/config.json", "config.json", "model.safetensors", "modules.json", "tokenizer.json"]
FILES += ["tokenizer_config.json", "vocab.txt"]
NOT_FOUND: Any = SimpleNamespace(status_code=404, headers={}, request=None)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """The branches of owner/model on the hub, to be filled."""
    branches: dict[str, Path] = {}

    def snapshot(repository: str, *, revision: str | None, allow_patterns: list[str]) -> str:
        if not branches:
            raise LocalEntryNotFoundError("no network")
        if repository != "owner/model":
            raise RepositoryNotFoundError("no", response=NOT_FOUND)
        if (folder := branches.get(revision or "main")) is None:
            raise RevisionNotFoundError("no", response=NOT_FOUND)
        for file in (file for file in folder.rglob("*") if file.is_file()):
            name = file.relative_to(folder).as_posix()
            if any(fnmatch(name, pattern) for pattern in allow_patterns):
                copy = tmp_path / "cache" / str(revision) / name
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(file, copy)
        return str(tmp_path / "cache" / str(revision))

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot)
    return branches


def test_the_files_of_a_model_and_no_others_are_fetched(
    hub: dict[str, Path], export_pair: ExportPair, tmp_path: Path
) -> None:
    pair = export_pair()[1]
    with pytest.raises(ModelError, match="owner/model: not a local folder, and the hub cannot be reached"):
        locate("owner/model")
    hub |= {"main": pair / "discriminator", "draft": pair / "generator"}
    (pair / "discriminator" / "pytorch_model.bin").write_bytes(b"a pickle that nobody asked for")
    folder = locate("owner/model")
    files = (file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file())
    assert sorted(files) == FILES
    assert load("owner/model").kind == "discriminator"  # without a warning: nothing is missing
    assert load("owner/model@draft", "generator").kind == "generator"
    for name, said in (("owner/other", "neither a local folder nor"), ("owner/model@gone", "commit gone")):
        with pytest.raises(ModelError, match=f"{name}: .*{said}"):
            locate(name)
    shutil.rmtree(tmp_path / "cache")
    (pair / "discriminator" / "model.safetensors").unlink()
    with pytest.raises(ModelError, match=r"no model\.safetensors on the hub.*from_pickle"):
        locate("owner/model")


@pytest.mark.slow
def test_a_pushed_run_can_be_loaded_completely(hub: dict[str, Path], tmp_path: Path) -> None:
    pair, text = tmp_path / "pair", "The chef cooked the castle."
    copy_networks("tiny-en", pair)
    export(electra.load("tiny-en").language_model, pair / "language_model", "tiny-en")
    hub["main"] = shutil.copytree(pair / "discriminator", tmp_path / "pushed")
    for name in ("generator", "language_model"):
        shutil.copytree(pair / name, hub["main"] / name)
    folder = locate("owner/model")
    back, here = electra.load(folder), electra.load(pair)
    for scorer in ("both", "language-model"):
        assert back.detect(text, scorer=scorer) == here.detect(text, scorer=scorer)
    assert back.detect(text, scorer="discriminator") == here.detect(text, scorer="discriminator")
    assert electra.show(folder, text) == electra.show(pair, text)
    assert initial_models({}, folder, None) == (str(folder), str(folder))
    assert not [finding for finding in electra.verify(folder) if finding.problem]


def test_a_pushed_graph_can_be_loaded_completely(hub: dict[str, Path], tmp_path: Path) -> None:
    files = {CONFIG: b'{"model_type": "electra", "vocab_size": 5}', ONNX: b"a graph"}
    files |= {"1_Pooling/config.json": b"{}", CARD: b"# A graph"}
    durable.commit_directory(tmp_path / "pushed", dict(files))
    (tmp_path / "pushed" / CARD).write_text("# A graph, and its licence")
    hub["main"] = tmp_path / "pushed"
    assert [finding.problem for finding in electra.verify(locate("owner/model"))] == [""]


def test_a_mistyped_path_is_no_hub_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    assert could_be_hub_name("google/electra-small-discriminator") and could_be_hub_name("electra-small")
    assert could_be_hub_name("me/norwegian@step-00001000") and not could_be_hub_name("runs/typo@main")
    for path in ("runs/typo", "./model", "/tmp/x", "a/b/c", "~/x", "two words", ""):
        assert not could_be_hub_name(path)
