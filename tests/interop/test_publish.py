"""Publishing: which files arrive, and which errors occur."""

from __future__ import annotations

import importlib
import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import huggingface_hub
import pytest
from huggingface_hub import RepoUrl
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, OfflineModeIsEnabled

from electra.artifacts.model import recorded_files
from electra.artifacts.private import without_paths
from electra.commands.framework.main import main
from electra.exchange.hub import public_card, public_files
from electra.exchange.weights import read_safetensors, write_weights
from electra.foundation.errors import ModelError
from electra.testing import small

REFUSED: Any = SimpleNamespace(status_code=401, headers={}, request=None, reason_phrase="Unauthorized")
PRIVATE = "/home/somebody/secret project"


# The HTTP library of the hub's client differs by version (httpx, httpx2)
HTTP = importlib.import_module(type(huggingface_hub.utils.get_session()).__module__.partition(".")[0])


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run with a milestone, and with paths of its machine wherever they may stand."""
    folder = small.write_pair(tmp_path_factory.mktemp("pushed") / "toy")
    (folder / "run.toml").write_text(
        f'[environment]\ncommand = "--corpus {PRIVATE}/x.txt"\n', encoding="utf-8"
    )
    card = f'# toy\n\nname = "toy"  # here\n\ninit = "{PRIVATE}/model"\nAutoModel.from_pretrained(name)\n'
    for name in ("discriminator", "generator"):
        (folder / name / "README.md").write_text(card, encoding="utf-8")
    config = json.loads((folder / "discriminator" / "config.json").read_text(encoding="utf-8"))
    config["_name_or_path"] = f"{PRIVATE}/model"
    (folder / "discriminator" / "config.json").write_text(json.dumps(config), encoding="utf-8")
    weights = folder / "discriminator" / "model.safetensors"
    beside = {name: (weights.parent / name).read_bytes() for name in recorded_files(weights) or {}}
    write_weights(weights, read_safetensors(weights), beside)
    (folder / "discriminator" / ".notes").write_text(PRIVATE, encoding="utf-8")
    for name in ("discriminator", "generator"):
        shutil.copytree(folder / name, folder / "milestones" / "step-00000500" / name)
    return folder


class Api:
    """What a push asks of the library; it keeps what it is given."""

    branches: ClassVar[dict[str, dict[str, bytes]]] = {}
    problem: ClassVar[Exception | None] = None

    def __init__(self, **_: object) -> None:
        pass

    def create_repo(self, repo: str, *, private: bool, exist_ok: bool) -> RepoUrl:
        if self.problem is not None:
            raise self.problem
        assert private and exist_ok
        return RepoUrl(f"https://huggingface.co/{repo}")

    def create_branch(self, repo: str, *, branch: str, exist_ok: bool) -> None:
        self.branches[branch] = {}

    def upload_folder(self, *, folder_path: str, revision: str, **_: object) -> None:
        files = (path for path in Path(folder_path).rglob("*") if path.is_file())
        self.branches[revision] = {
            path.relative_to(folder_path).as_posix(): path.read_bytes() for path in files
        }


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> type[Api]:
    monkeypatch.setattr(huggingface_hub, "HfApi", Api)
    monkeypatch.setattr(huggingface_hub, "get_token", lambda: "good")
    monkeypatch.setattr(Api, "branches", {})
    return Api


def test_a_published_run_is_complete_and_without_private_paths(
    hub: type[Api], run: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", str(run), "--push", "me/toy", "--private"]) == 0
    assert "huggingface.co/me/toy" in "".join(capfd.readouterr())
    for branch, around in (("main", run), ("step-00000500", run / "milestones" / "step-00000500")):
        sent = hub.branches[branch]
        for name, under in (("discriminator", ""), ("generator", "generator/")):
            weights = (around / name / "model.safetensors").read_bytes()
            assert sent[f"{under}model.safetensors"] == weights
            assert {f"{under}config.json", f"{under}tokenizer.json", f"{under}README.md"} <= set(sent)
        assert not [name for name in sent if "toml" in name or name.startswith(".")]
        everything = b"\n".join(
            content for name, content in sent.items() if not name.endswith(".safetensors")
        )
        assert b"somebody" not in everything and str(Path.home()).encode() + b"/" not in everything
    card = hub.branches["step-00000500"]["generator/README.md"].decode()
    assert 'name = "me/toy"\n' in card
    assert 'from_pretrained(name, subfolder="generator", revision="step-00000500")' in card
    assert (run / "discriminator" / "config.json").read_text(encoding="utf-8").count("somebody") == 1


@pytest.mark.parametrize(
    ("problem", "said"),
    [
        (None, "token"),
        (HfHubHTTPError("no", response=REFUSED), "401"),
        (HFValidationError("bad name"), "name"),
        (OfflineModeIsEnabled("offline"), "HF_HUB_OFFLINE"),
        (HTTP.ConnectError("no route"), "ConnectError"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_upload_error_is_one_line(  # noqa: PLR0917
    problem: Exception | None,
    said: str,
    hub: type[Api],
    run: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(Api, "problem", problem)
    monkeypatch.setattr(huggingface_hub, "get_token", lambda: "good" if problem else None)
    assert main(["export", str(run), "--push", "me/toy", "--private"]) == 2
    error = capfd.readouterr().err
    assert said in error and error.count("\n") == 1 and not hub.branches


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("generator/model.safetensors", "model.safetensors"),
        ("milestones/step-00000500/discriminator/config.json", "config.json"),
    ],
)
def test_a_damaged_model_is_not_published(file: str, said: str, run: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(run, tmp_path / "run")
    content = (folder / file).read_bytes()
    changed = content.replace(b"_name_or_path", b"_nome_or_path")
    (folder / file).write_bytes(changed if changed != content else content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(ModelError, match=said):
        public_files(folder, "me/toy")


def test_paths_are_cut() -> None:
    given = {"a": ["/home/me/x/texts.txt", "~/models/mine", "C:\\me\\x"], "/kept/key": "and/or", "n": 1}
    assert without_paths(given) == {"a": ["texts.txt", "mine", "x"], "/kept/key": "and/or", "n": 1}
    card = 'data = "/srv/x/y.txt"\nlist = ["~/a/b", \'/c/d\']\nsee https://host/a/b\n'
    assert public_card(card, "me/toy", "", "main") == (
        'data = "y.txt"\nlist = ["b", \'d\']\nsee https://host/a/b\n'
    )


def test_only_the_model_s_own_files_are_listed(tmp_path: Path) -> None:
    folder = small.write_pair(tmp_path / "pair") / "discriminator"
    expected = {sent.name for sent in public_files(folder, "me/toy")}
    assert {"config.json", "model.safetensors", "README.md", "vocab.txt"} <= expected
    (folder / "notes.txt").write_text("private")
    (folder / "figures.json").write_text("{}")
    (folder / "sub").mkdir()
    (folder / "sub" / "private.json").write_text("{}")
    (folder / "merges.txt").symlink_to("/etc/hostname")
    (tmp_path / "away").mkdir()
    (tmp_path / "away" / "config.json").write_text("{}")
    (folder / "2_Dense").symlink_to(tmp_path / "away")
    assert {sent.name for sent in public_files(folder, "me/toy")} == expected
