"""What survives a power cut is a folder that the same command completes, and no promise is lost.

Every fsync is a moment at which the power may go; equal states are looked at once.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from contracts import toy_task
from driven import command, fingerprint, toy_store, write_corpus  # noqa: F401
from survivor import Cut, Volume, restore, whole

from electra.artifacts.run_files import RunFolder
from electra.commands.framework.main import main

pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs /proc")


@pytest.fixture
def volume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], Volume]]:
    made: list[Volume] = []

    def make() -> Volume:
        root = tmp_path / "volume"
        root.mkdir()
        made.append(Volume(root, monkeypatch))
        return made[0]

    yield make
    made[0].close()


def restored(cut: Cut, root: Path) -> Path:
    root.mkdir()
    restore(cut, root)
    return root


def rows(content: bytes | None) -> list[int]:
    return [row["step"] for row in map(json.loads, (content or b"").splitlines()) if row["kind"] == "train"]


@pytest.mark.slow
def test_pretraining_survives_a_power_cut(
    toy_store: Path,  # noqa: F811
    volume: Callable[[], Volume],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    watched = volume()
    more = {"training.steps": "8"}
    assert main(command(toy_store, watched.root / "deep" / "run", **more)) == 0
    end = fingerprint(watched.root / "deep" / "run")
    last: dict[int, Cut] = {}
    for cut in watched.cuts:
        saved = [int(name[-22:-14]) for name in whole(cut) if "/checkpoints/" in name]
        newest = max(saved, default=0)
        steps = rows(cut.get("deep/run/metrics.jsonl"))
        assert steps[:newest] == list(range(1, newest + 1)), "no row of what is saved is lost"
        last[newest] = cut
    assert sorted(last) == [0, 4, 8]
    run = restored(last[4], tmp_path / "again") / "deep" / "run"
    assert main(command(toy_store, run, **more)) == 0
    assert fingerprint(run) == end
    assert [point.step for point in RunFolder(run).ledger().train] == list(range(1, 9))
    assert main(["verify", str(run)]) == 0

    run = restored(last[4], tmp_path / "damaged") / "deep" / "run"
    ledger = run / "metrics.jsonl"
    good = ledger.read_bytes()
    assert main(["verify", str(run)]) == 0
    capsys.readouterr()
    for damaged in (b"", good[: len(good) // 2], good[:300] + bytes(len(good) - 300), None):
        ledger.unlink()
        if damaged is not None:
            ledger.write_bytes(damaged)
        assert main(["verify", str(run)]) == 1
        assert "metrics.jsonl has lost" in capsys.readouterr().out
    assert main(command(toy_store, run, **more)) == 0
    assert "metrics.jsonl has lost all rows up to step 4" in capsys.readouterr().out
    assert main(["verify", str(run)]) == 1, "it stays known"


def test_preparing_survives_a_power_cut(volume: Callable[[], Volume], tmp_path: Path) -> None:
    watched, corpus = volume(), write_corpus(tmp_path / "corpus.txt")

    def words(root: Path) -> list[str]:
        out = str(root / "deep" / "store")
        return ["prepare", str(corpus), "--out", out, "--tokenizer.vocab-size", "90", "--workers", "1"]

    assert main(words(watched.root)) == 0
    want = (watched.root / "deep" / "store" / "store.json").read_bytes()
    committed = [bool(whole(cut)) for cut in watched.cuts]
    assert committed[-1] and not committed[0]
    for number in (committed.index(True) - 1, committed.index(True)):
        root = restored(watched.cuts[number], tmp_path / str(number))
        assert main(words(root)) == 0
        assert (root / "deep" / "store" / "store.json").read_bytes() == want
        assert main(["verify", str(root / "deep" / "store")]) == 0
        assert not list((root / "deep").glob(".*")), "nothing of the killed build is left"


@pytest.mark.slow
def test_fine_tuning_survives_a_power_cut(volume: Callable[[], Volume], tmp_path: Path) -> None:
    model = toy_task.save_encoder(tmp_path / "model")
    data = toy_task.write_classification(tmp_path / "data", train=60, dev=20)
    watched = volume()

    def words(root: Path) -> list[str]:
        options = "--task sst2 --seeds 1 --epochs 2 --batch-size 16 --checkpoint-every 3 --precision fp32"
        place = ["finetune", str(model), "--data", str(data), "--out", str(root / "deep" / "tuned")]
        return [*place, *options.split(), "--device", "cpu"]

    assert main(words(watched.root)) == 0
    want = (watched.root / "deep" / "tuned" / "model" / "model.safetensors").read_bytes()
    found = [whole(cut) for cut in watched.cuts]
    in_work = [number for number, names in enumerate(found) if any("/step-" in name for name in names)]
    assert any("/model/" in name for name in found[-1])
    for number in (in_work[0], len(found) - 1):
        root = restored(watched.cuts[number], tmp_path / str(number))
        assert main(words(root)) == 0
        assert (root / "deep" / "tuned" / "model" / "model.safetensors").read_bytes() == want
