"""Publishing to a local copy of the hub's API: which files arrive, and which errors occur."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_hub import Hub, fake_hub

from electra.artifacts.model import recorded_files
from electra.artifacts.private import without_paths
from electra.exchange.hub import public_card, public_files
from electra.exchange.weights import read_safetensors, write_weights
from electra.foundation.errors import ModelError
from electra.testing import small

PRIVATE = "/home/somebody/secret project"


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


@pytest.fixture
def hub() -> Iterator[Hub]:
    with fake_hub() as hub:
        yield hub


def publish(hub: Hub, *words: str, token: str = "good", home: Path) -> tuple[int, str, str]:
    """electra export in a process of its own: the library reads its environment when it is imported."""
    given = {
        "HF_ENDPOINT": hub.address,
        "HF_HUB_OFFLINE": "0",
        "HF_HOME": str(home),
        "HF_HUB_DISABLE_XET": "1",
    }
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("HF_", "HUGGING"))}
    environment |= given | ({"HF_TOKEN": token} if token else {})
    ended = subprocess.run(
        [sys.executable, "-m", "electra", "export", *words],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return ended.returncode, ended.stdout, ended.stderr


@pytest.mark.slow
def test_a_published_run_is_complete_and_without_private_paths(hub: Hub, run: Path, tmp_path: Path) -> None:
    code, message, error = publish(hub, str(run), "--push", "me/toy", "--private", home=tmp_path)
    assert code == 0, error
    assert f"{hub.address}/me/toy" in message + error and hub.private is True
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
    ("repo", "token", "said"),
    [
        ("me/toy", "", "token"),
        ("me/toy", "wrong", "401"),
        ("others/toy", "good", "403"),
        ("a b/c d", "good", "name"),
    ],
)
@pytest.mark.slow
def test_an_upload_error_is_one_line(hub: Hub, run: Path, repo: str, token: str, said: str) -> None:
    code, _, error = publish(hub, str(run), "--push", repo, token=token, home=run.parent)
    assert code == 2 and said in error and error.count("\n") == 1
    assert hub.branches == {"main": {}}


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
