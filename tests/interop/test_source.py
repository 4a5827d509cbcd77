"""Models by hub name, from a local server: downloaded once, then read from the cache, also offline."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from copies import copy_networks

import electra
from electra.artifacts.model import CARD, CONFIG, ONNX
from electra.commands.parts.warm_start import initial_models
from electra.data.hub_files import could_be_hub_name
from electra.exchange.convert import export
from electra.exchange.hub import public_files
from electra.exchange.load import load
from electra.finetuning.runner.finetune import finetune
from electra.foundation import durable
from electra.model.pair import Pair
from electra.serving.models import open_models
from electra.serving.operations import Predict
from electra.testing import toy_task

ExportPair = Callable[..., tuple[Pair, Path]]
FILES = ["1_Pooling/config.json", "config.json", "model.safetensors", "modules.json", "tokenizer.json"]
FILES += ["tokenizer_config.json", "vocab.txt"]
PROGRAM = """
import sys
from electra.foundation.errors import ElectraError
from electra.exchange.source import locate
for name in sys.argv[1:]:
    try:
        print(locate(name))
    except ElectraError as error:
        print(error)
assert "torch" not in sys.modules
"""


class Hub(BaseHTTPRequestHandler):
    """The part of the hub's protocol that a snapshot download needs."""

    branches: dict[str, Path]

    def do_GET(self) -> None:
        asked = re.match("/(api/models/)?owner/model/(tree|revision|resolve)/([^/?]+)/?([^?]*)", self.path)
        commits = {commit(name): folder for name, folder in self.branches.items()}
        if asked and asked[2] == "revision" and asked[3] in self.branches:
            self.sha = commit(asked[3])
            siblings = [{"rfilename": name} for name, _ in listed(self.branches[asked[3]])]
            return self.answer(
                json.dumps({"id": "owner/model", "sha": self.sha, "siblings": siblings}).encode()
            )
        if asked and asked[3] in commits:
            self.sha, folder = asked[3], commits[asked[3]]
            if asked[2] == "tree":
                entries = [
                    {"type": "file", "path": name, "size": size, "oid": "0" * 40}
                    for name, size in listed(folder)
                ]
                return self.answer(json.dumps(entries).encode())
            if (folder / asked[4]).is_file():
                return self.answer((folder / asked[4]).read_bytes())
        self.send_response(404)
        kinds = {"resolve": "EntryNotFound", "revision": "RevisionNotFound"}
        self.send_header("X-Error-Code", kinds.get(asked[2], "RepoNotFound") if asked else "RepoNotFound")
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_HEAD = do_GET

    def answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("ETag", f'"{hashlib.sha256(body).hexdigest()}"')
        self.send_header("X-Repo-Commit", self.sha)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def hub(export_pair: ExportPair) -> Iterator[str]:
    folder = export_pair()[1] / "discriminator"
    (folder / "pytorch_model.bin").write_bytes(b"a pickle that nobody asked for")
    with served(folder) as address:
        yield address


def commit(branch: str) -> str:
    return hashlib.sha1(branch.encode()).hexdigest()


def listed(folder: Path) -> list[tuple[str, int]]:
    files = [file for file in sorted(folder.rglob("*")) if file.is_file()]
    return [(file.relative_to(folder).as_posix(), file.stat().st_size) for file in files]


@contextmanager
def served(main: Path, **branches: Path) -> Iterator[str]:
    """The address of a hub whose owner/model is this folder, with these on other branches."""
    given = {"branches": {"main": main, **branches}}
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Served", (Hub,), given))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


def fetch(names: list[str], home: Path, **environment: str) -> list[str]:
    """What a fresh process makes of the names, one line each: the hub's variables are read when its library
    is imported.
    """
    kept = {key: value for key, value in os.environ.items() if not key.startswith("HF_")}
    environment = {**kept, "HF_HOME": str(home), "HF_HUB_DISABLE_TELEMETRY": "1", **environment}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *names],
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    return done.stdout.splitlines()


@pytest.mark.slow
def test_fetched_once_then_from_the_cache(hub: str, tmp_path: Path) -> None:
    folder, missing = fetch(["owner/model", "owner/other"], tmp_path / "home", HF_ENDPOINT=hub)
    files = [file.relative_to(folder).as_posix() for file in Path(folder).rglob("*") if file.is_file()]
    assert sorted(files) == FILES  # not the pickle
    assert load(folder).kind == "discriminator"  # without a warning: nothing is missing
    assert missing.startswith("owner/other: neither a local folder nor ")
    again, unseen = fetch(
        ["owner/model", "owner/unseen"], tmp_path / "home", HF_ENDPOINT=hub, HF_HUB_OFFLINE="1"
    )
    assert again == folder
    assert unseen.startswith("owner/unseen: not a local folder, and the hub cannot be reached.")


def test_a_model_is_loaded_from_a_branch(export_pair: ExportPair, tmp_path: Path) -> None:
    pair = export_pair()[1]
    with served(pair / "discriminator", draft=pair / "generator") as hub:
        newest, older, none = fetch(
            ["owner/model", "owner/model@draft", "owner/model@gone"], tmp_path / "home", HF_ENDPOINT=hub
        )
    assert (load(newest).kind, load(older, "generator").kind) == ("discriminator", "generator")
    assert none.startswith("owner/model@gone: ") and "tag or commit gone" in none


@pytest.mark.slow
def test_a_head_of_ours_answers_from_the_hub(tmp_path: Path) -> None:
    rows = [f"a {word} film,{label}" for word, label in [("good", "yes"), ("bad", "no")] * 20]
    for name in ("train", "dev"):
        (tmp_path / f"{name}.csv").write_text("\n".join(["text,label", *rows]) + "\n")
    settings = toy_task.settings(tmp_path / "tuned", tmp_path, "classification", head="linear", epochs=1)
    finetune("tiny-en", settings, lambda _: None)
    publish_to(tmp_path / "pushed", tmp_path / "tuned")
    assert 'electra.predict(name, "new.csv")' in (tmp_path / "pushed" / "README.md").read_text()
    [here] = open_models([str(tmp_path / "pushed")])
    assert Predict(inputs=["a good film"]).work(here, ["a good film"])[0]["label"] == "yes"
    (tmp_path / "new.csv").write_text("text\na good film\n")
    with served(tmp_path / "pushed") as hub:
        environment = {"HF_ENDPOINT": hub, "HF_HOME": str(tmp_path / "home"), "HF_HUB_OFFLINE": "0"}
        command = [sys.executable, "-m", "electra", "predict", "owner/model", str(tmp_path / "new.csv")]
        done = subprocess.run(
            command, check=False, env=os.environ | environment, capture_output=True, text=True, timeout=100
        )
    assert done.returncode == 0 and "a good film\tyes" in done.stdout, done.stderr


@pytest.mark.slow
def test_a_pushed_run_can_be_loaded_completely(tmp_path: Path) -> None:
    pair, text = tmp_path / "pair", "The chef cooked the castle."
    copy_networks("tiny-en", pair)
    export(electra.load("tiny-en").language_model, pair / "language_model", "tiny-en")
    publish_to(tmp_path / "pushed", pair)
    with served(tmp_path / "pushed") as hub:
        [folder] = fetch(["owner/model"], tmp_path / "home", HF_ENDPOINT=hub)
    back, here = electra.load(folder), electra.load(pair)
    assert back.detect(text) == here.detect(text) == here.detect(text, scorer="language-model")
    assert back.detect(text, scorer="discriminator") == here.detect(text, scorer="discriminator")
    assert electra.show(folder, text) == electra.show(pair, text)
    assert initial_models(folder, None, None) == (folder, folder)
    assert not [finding for finding in electra.verify(folder) if finding.problem]
    again = [file.name for file in public_files(Path(folder), "a/b")]
    assert again == [file.name for file in public_files(pair, "a/b") if not file.name.endswith(CARD)]


def publish_to(out: Path, source: Path) -> None:
    for file in public_files(source, "owner/model"):
        content = file.content
        durable.commit_file(out / file.name, content.read_bytes() if isinstance(content, Path) else content)


def test_a_pushed_graph_can_be_loaded_completely(tmp_path: Path) -> None:
    files = {CONFIG: b'{"model_type": "electra", "vocab_size": 5}', ONNX: b"a graph"}
    files |= {"1_Pooling/config.json": b"{}", CARD: b"# A graph"}
    durable.commit_directory(tmp_path / "pushed", dict(files))
    (tmp_path / "pushed" / CARD).write_text("# A graph, and its licence")
    with served(tmp_path / "pushed") as hub:
        [folder] = fetch(["owner/model"], tmp_path / "home", HF_ENDPOINT=hub)
    assert [finding.problem for finding in electra.verify(folder)] == ["", ""]


def test_a_model_without_safetensors_is_a_one_line_error(
    hub: str, export_pair: ExportPair, tmp_path: Path
) -> None:
    (tmp_path / "pair" / "discriminator" / "model.safetensors").unlink()
    [message] = fetch(["owner/model"], tmp_path / "home", HF_ENDPOINT=hub)
    assert message.startswith("owner/model: no model.safetensors on the hub.")
    assert "from_pickle" in message


def test_a_mistyped_path_is_no_hub_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    assert could_be_hub_name("google/electra-small-discriminator") and could_be_hub_name("electra-small")
    assert could_be_hub_name("me/norwegian@step-00001000") and not could_be_hub_name("runs/typo@main")
    for path in ("runs/typo", "./model", "/tmp/x", "a/b/c", "~/x", "two words", ""):
        assert not could_be_hub_name(path)
