"""A corpus that is prepared in shards and merged gives byte-identical files to those of one command."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from pathlib import Path
from typing import Any

import driven
import pytest
from corpora import contents, texts, write

from electra.artifacts.store import ShardsFolder, StoreFolder
from electra.commands.framework.main import main
from electra.data import sharding
from electra.data.settings import CorpusConfig
from electra.data.store_builder import build_store
from electra.data.tokenizer import Tokenizer
from electra.foundation import durable
from electra.foundation.errors import ConfigError, CorpusError, StoreError
from electra.foundation.leases import Leases

CONFIG = CorpusConfig(heldout=0.05)


def corpus(folder: Path, files: int = 7) -> Path:
    """Files of unequal size; some documents come again in later files, one holds what is repaired and counted
    in reading.
    """
    documents = texts(140)
    documents[25] += "\0 and on"
    for number in range(files):
        part = documents[number * 20 : number * 20 + 5 + 2 * number]
        write(folder / "text", [*part, *(documents[:3] if number in (2, 6) else []), ""], f"{number}.jsonl")
    with open(folder / "text" / "4.jsonl", "ab") as file:
        file.write(b'{"text": "not \xff utf-8"}\n')
    return folder / "text"


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_merged_shards_are_the_store_of_one_command(
    tmp_path: Path, tokenizer: Tokenizer, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = corpus(tmp_path)
    if count == 2:
        monkeypatch.setattr(sharding, "_DOCUMENTS", 3)  # copied in many parts
    whole = build_store([text], tokenizer, tmp_path / "whole", config=CONFIG, workers=1)
    folders = [tmp_path / "shards" / str(index) for index in range(count)]
    for index, folder in enumerate(folders):
        assert sharding.build_shard([text], tokenizer, folder, (index, count), config=CONFIG, workers=1)
        assert not sharding.build_shard([text], tokenizer, folder, (index, count), config=CONFIG), (
            "a finished shard stays"
        )
    random.Random(count).shuffle(folders)
    merged = sharding.merge(folders, tmp_path / "merged")
    merged.verify()
    assert merged.audit["documents_duplicate"] == whole.audit["documents_duplicate"] == 6
    assert (merged.audit["nuls_dropped"], merged.audit["bytes_replaced"]) == (1, 1)
    assert contents(tmp_path / "merged") == contents(tmp_path / "whole")


def test_rerunning_finishes_a_killed_shard(tmp_path: Path, tokenizer: Tokenizer) -> None:
    """Killed between the rename and the removal of what was made on the way."""
    text = corpus(tmp_path)
    build_store([text], tokenizer, tmp_path / "whole", config=CONFIG, workers=1)
    shard, merged = tmp_path / "s0", tmp_path / "merged"
    sharding.build_shard([text], tokenizer, shard, (0, 1), config=CONFIG, workers=1)
    output = contents(sharding.merge([shard], merged).path)
    for name in ("whole", "s0", "merged"):
        (tmp_path / f".{name}.building" / "made").mkdir(parents=True)
        (tmp_path / f".{name}.building" / ".lock").touch()
    build_store([text], tokenizer, tmp_path / "whole", config=CONFIG, workers=1)
    assert not sharding.build_shard([text], tokenizer, shard, (0, 1), config=CONFIG, workers=1)
    assert contents(sharding.merge([shard], merged).path) == output
    assert not list(tmp_path.glob(".*")), "swept"


def test_the_merged_store_has_held_out_text_even_if_a_shard_has_none(
    tmp_path: Path, tokenizer: Tokenizer
) -> None:
    text, config = corpus(tmp_path), CorpusConfig(heldout=1e-9)
    folders = [tmp_path / str(index) for index in range(3)]
    for index, folder in enumerate(folders):
        sharding.build_shard([text], tokenizer, folder, (index, 3), config=config, workers=1)
    merged = sharding.merge(folders, tmp_path / "merged")
    assert merged.audit["heldout_by"] == "smallest hash" and merged.heldout.num_documents == 1
    whole = build_store([text], tokenizer, tmp_path / "whole", config=config, workers=1)
    assert merged.digest == whole.digest


def test_shards_that_do_not_match_are_refused(tmp_path: Path, tokenizer: Tokenizer) -> None:
    text = corpus(tmp_path)
    for index in (0, 1, 2):
        sharding.build_shard([text], tokenizer, tmp_path / f"s{index}", (index, 3), config=CONFIG, workers=1)
    sharding.build_shard(
        [text], tokenizer, tmp_path / "other", (2, 3), config=CorpusConfig(heldout=0.2), workers=1
    )
    shards = [tmp_path / f"s{index}" for index in range(3)]
    with pytest.raises(StoreError, match="1/3"):
        sharding.merge([shards[0], shards[2]], tmp_path / "out")
    with pytest.raises(StoreError):
        sharding.merge([*shards, shards[1]], tmp_path / "out")
    with pytest.raises(StoreError, match=r"corpus\.heldout.*0\.2.*0\.05"):
        sharding.merge([*shards[:2], tmp_path / "other"], tmp_path / "out")
    with pytest.raises(StoreError):
        sharding.merge([text], tmp_path / "out")
    with pytest.raises(StoreError):
        sharding.build_shard([text], tokenizer, shards[0], (1, 3), config=CONFIG)
    with pytest.raises(ConfigError):
        sharding.merge([], tmp_path / "out")
    with pytest.raises(ConfigError, match=r"7 .*8 "):
        sharding.build_shard([text], tokenizer, tmp_path / "new", (0, 8))
    damaged = shards[1] / "train.ds"
    damaged.write_bytes(bytes(len(damaged.read_bytes())))
    with pytest.raises(StoreError, match=r"train\.ds"):
        sharding.merge(shards, tmp_path / "out")
    (shards[0] / "shard.json").write_text(
        (shards[0] / "shard.json").read_text().replace('"format": ', '"format": 9', 1)
    )
    durable.commit_directory(
        tmp_path / "newer",
        {name: (shards[0] / name).read_bytes() for name in contents(shards[0]) if name != durable.MANIFEST},
    )
    with pytest.raises(StoreError, match=r"9\d+"):
        sharding.merge([tmp_path / "newer", *shards[1:]], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_shards_without_text_make_no_store_and_no_store_is_overwritten(
    tmp_path: Path, tokenizer: Tokenizer
) -> None:
    text = write(tmp_path / "text", ["", " "]).parent
    sharding.build_shard([text], tokenizer, tmp_path / "s0", (0, 1), config=CONFIG, workers=1)
    with pytest.raises(CorpusError):
        sharding.merge([tmp_path / "s0"], tmp_path / "out")
    assert not (tmp_path / "out").exists()
    write(tmp_path / "out", ["something else"])
    with pytest.raises(StoreError):
        sharding.merge([tmp_path / "s0"], tmp_path / "out")
    assert list(contents(tmp_path / "out")) == ["corpus.jsonl"]


def test_prepare_shards_and_merges(
    tmp_path: Path, tokenizer: Tokenizer, capsys: pytest.CaptureFixture[str]
) -> None:
    text = str(corpus(tmp_path))
    tokenizer.save(tmp_path / "tokenizer")
    given = ["--tokenizer", str(tmp_path / "tokenizer"), "--workers", "1"]
    for index in range(2):
        assert (
            main(["prepare", text, "--out", str(tmp_path / f"s{index}"), "--shard", f"{index}/2", *given])
            == 0
        )
    assert (
        main(
            [
                "prepare",
                *(str(tmp_path / f"s{index}") for index in range(2)),
                "--merge",
                "--out",
                str(tmp_path / "merged"),
            ]
        )
        == 0
    )
    assert main(["prepare", text, "--out", str(tmp_path / "whole"), *given]) == 0
    assert contents(tmp_path / "merged") == contents(tmp_path / "whole")
    assert main(["prepare", text, "--out", str(tmp_path / "x"), "--shard", "2/2", *given]) == 2
    assert main(["prepare", text, "--out", str(tmp_path / "x"), "--shard", "0/2"]) == 2
    message = capsys.readouterr().err.splitlines()
    assert message[-2].startswith("error: ") and "'2/2' is not a shard" in message[-2]
    assert "all shards need the same tokenizer" in message[-1]


@pytest.mark.parametrize(
    ("environment", "text", "shard"),
    [
        (
            {"SLURM_ARRAY_TASK_ID": "5", "SLURM_ARRAY_TASK_MIN": "4", "SLURM_ARRAY_TASK_COUNT": "8"},
            "auto",
            (1, 8),
        ),
        ({"JOB_COMPLETION_INDEX": "3"}, "auto/4", (3, 4)),
        ({"RANK": "1", "WORLD_SIZE": "2"}, "auto", (1, 2)),
    ],
)
def test_a_job_of_an_array_knows_its_shard(
    environment: dict[str, str], text: str, shard: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    for variables in sharding.ENVIRONMENTS:
        for name in filter(None, variables):
            monkeypatch.delenv(name, raising=False)
    with pytest.raises(ConfigError):
        sharding.parse_shard("auto")
    assert sharding.parse_shard("auto/4") == sharding.parse_shard("all/4") == (None, 4)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert sharding.parse_shard(text) == shard


def test_a_job_that_does_not_say_how_many_there_are_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOB_COMPLETION_INDEX", "3")
    with pytest.raises(ConfigError):
        sharding.parse_shard("auto")


@pytest.fixture
def shared(tmp_path: Path, tokenizer: Tokenizer) -> list[str]:
    """The command that each machine runs, with OUT left open at its end."""
    tokenizer.save(tmp_path / "tokenizer")
    given = ["--tokenizer", str(tmp_path / "tokenizer"), "--workers", "1", "--heldout", "0.05"]
    return ["prepare", str(corpus(tmp_path)), *given, "--shard", "all/3", "--out"]


def test_processes_take_the_shards_that_nobody_has_taken(
    shared: list[str], tmp_path: Path, tokenizer: Tokenizer, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, out = tmp_path / "whole", tmp_path / "out"
    build_store([tmp_path / "text"], tokenizer, whole, config=CONFIG, workers=1)
    folder = ShardsFolder.of(out)
    lease = Leases(folder.leases).take("shard 1/3")
    assert lease is not None

    def end_the_other_process() -> None:
        while not (folder.has("shard 0/3") and folder.has("shard 2/3")):
            time.sleep(0.01)
        lines.extend(sharding.missing_shards(out, 3))
        sharding.build_shard(
            [tmp_path / "text"], tokenizer, folder.shard(1).path, (1, 3), config=CONFIG, workers=1
        )
        lease.release()

    lines: list[str] = []
    other = threading.Thread(target=end_the_other_process)
    other.start()
    assert main([*shared, str(out)]) == 0
    other.join()
    assert contents(out) == contents(whole) and not folder.path.exists()
    [line] = lines
    assert line.startswith("shard 1/3 ") and str(os.getpid()) in line
    assert main([*shared, str(out)]) == 0, "a finished store is opened"
    capsys.readouterr()
    assert main([*shared, str(out), "--missing"]) == 0 and capsys.readouterr().out == ""
    assert main([*shared, str(tmp_path / "new"), "--missing"]) == 0
    assert capsys.readouterr().out.splitlines() == ["shard 0/3", "shard 1/3", "shard 2/3"]


def test_auto_outside_of_an_array_is_any_shard(
    shared: list[str], tmp_path: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variables in sharding.ENVIRONMENTS:
        monkeypatch.delenv(variables[0], raising=False)
    whole, out = tmp_path / "whole", tmp_path / "out"
    build_store([tmp_path / "text"], tokenizer, whole, config=CONFIG, workers=1)
    assert main([*("auto/3" if word == "all/3" else word for word in shared), str(out)]) == 0
    assert contents(out) == contents(whole)


def test_shards_of_a_killed_process_are_kept_and_other_settings_refused(
    shared: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out, build, made = tmp_path / "out", sharding.build_shard, list[int]()

    def build_two(*given: Any, **named: Any) -> bool:
        if len(made) == 2:
            raise KeyboardInterrupt
        made.append(given[3][0])
        return build(*given, **named)

    monkeypatch.setattr(sharding, "build_shard", build_two)
    with pytest.raises(KeyboardInterrupt):
        sharding.build_shards(
            [tmp_path / "text"],
            Tokenizer.load(tmp_path / "tokenizer"),
            out,
            3,
            config=CONFIG,
            workers=1,
            memory=10**8,
            say=lambda line: None,
            stop=lambda: False,
        )
    assert made == [0, 1] and not out.exists()
    capsys.readouterr()
    other = ["0.2" if word == "0.05" else "all/4" if word == "all/3" else word for word in shared]
    assert main([*other, str(out)]) == 2
    [error] = capsys.readouterr().err.splitlines()
    assert "heldout" in error and "shards" in error
    monkeypatch.setattr(
        sharding, "build_shard", lambda *given, **named: made.append(given[3][0]) or build(*given, **named)
    )
    assert main([*shared, str(out)]) == 0
    assert made == [0, 1, 2] and StoreFolder(out).exists()


@pytest.mark.parametrize("option", ["--missing", "--engine=slurm"])
@pytest.mark.parametrize("shard", [[], ["--shard", "1/3"]])
def test_only_shared_shards_are_shared(
    shared: list[str], tmp_path: Path, option: str, shard: list[str]
) -> None:
    words = [*shared[: shared.index("--shard")], *shard, option, "--out", str(tmp_path / "out")]
    assert main(words) == 2 and not (tmp_path / "out").exists()


def test_more_shards_than_files_leave_nothing_behind(shared: list[str], tmp_path: Path) -> None:
    before = set(tmp_path.iterdir())
    assert main([*("all/99" if word == "all/3" else word for word in shared), str(tmp_path / "out")]) == 2
    assert set(tmp_path.iterdir()) == before


@pytest.mark.slow
def test_of_two_machines_one_is_killed_and_the_other_does_the_rest(
    shared: list[str], tmp_path: Path, tokenizer: Tokenizer
) -> None:
    for number in range(7):  # long enough to be killed in
        write(tmp_path / "text", texts(4000, seed=number), f"{number}.jsonl")
    words = ["all/7" if word == "all/3" else word for word in shared]
    whole, out = tmp_path / "whole", tmp_path / "out"
    build_store([tmp_path / "text"], tokenizer, whole, config=CONFIG, workers=1)
    first = driven.machine([*words, str(out)], tmp_path / "first")
    second = driven.machine([*words, str(out)], tmp_path / "second")
    assert first.stdout is not None
    next(line for line in first.stdout if line.startswith("shard "))
    first.send_signal(signal.SIGKILL)
    first.communicate()
    said, _ = second.communicate(timeout=240)
    assert second.returncode == 0, said
    assert contents(out) == contents(whole)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]
