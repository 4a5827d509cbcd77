"""The whole way in miniature, as a user goes it: text, store, run, look, export, go on with other text,
fine-tune, predict.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import mean

import driven
import pytest

from electra.artifacts.run import RunFolder
from electra.commands.framework.main import main

pytestmark = pytest.mark.slow

STEPS = 40
MODEL = "--recipe tiny --model.size tiny --model.initialisation fan_in --training.length 16"
BATCHES = "--training.batch-size 8 --training.warmup 0.1 --training.log-every 1 --evaluation.rows 8"
SETTINGS = f"{MODEL} {BATCHES} --training.precision fp32 --training.device cpu --training.threads 1"
RATE = "--training.learning-rate 3e-3"
SENTENCE = "The cat sees the \U0001f408 house."


@pytest.fixture
def electra(journey: Path, capsys: pytest.CaptureFixture[str]) -> object:
    """Runs a command that must succeed; returns what it said."""

    def run(words: str) -> str:
        code = main(shlex.split(words))
        said = capsys.readouterr()
        assert code == 0, said.err
        return said.out

    return run


@pytest.fixture(scope="module")
def journey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Everything is made once, in the order of the commands below; the tests look at what came of it."""
    folder, before = tmp_path_factory.mktemp("journey"), Path.cwd()
    os.chdir(folder)
    driven.write_corpus(Path("corpus.txt"))
    lines = driven.write_corpus(Path("other.txt"), documents=200).read_text().splitlines(keepends=True)
    Path("other.txt").write_text("".join(lines[120:]))
    text = "--corpus - --data.unit line --data.heldout 0.1 --workers 1"
    for words in (
        "prepare corpus.txt --out store --unit line --vocab-size 90 --heldout 0.1 --workers 1",
        f"pretrain --store store --out rtd {SETTINGS} {RATE} --steps {STEPS}",
        f"pretrain --store store --out mlm {SETTINGS} {RATE} --steps {STEPS} --objective.name mlm",
        "export rtd --out exported/discriminator --network discriminator",
        "export rtd --out exported/generator --network generator",
        f"pretrain {text} --init exported --out continued {SETTINGS} {RATE} --steps 3",
        f"pretrain --store store --init-discriminator exported --out gentle {SETTINGS} --steps 1",
    ):
        with pytest.MonkeyPatch.context() as patch, open("other.txt", encoding="utf-8") as file:
            patch.setattr(sys, "stdin", file)
            assert main(shlex.split(words)) == 0, words
    yield folder
    os.chdir(before)


def losses(run: str, name: str = "mlm") -> list[float]:
    return [row["losses"][name] for row in driven.rows(Path(run))]


@pytest.mark.parametrize(
    ("run", "networks"), [("rtd", {"generator", "discriminator"}), ("mlm", {"generator"})]
)
def test_both_objectives_learn_and_are_exported(journey: Path, run: str, networks: set[str]) -> None:
    found = losses(run)
    assert len(found) == STEPS and mean(found[-5:]) < 0.85 * found[0]
    assert Path(run, "report.html").read_text().startswith("<!DOCTYPE html>")
    assert {path.parent.name for path in Path(run).glob("*/model.safetensors")} == networks
    assert driven.rows(Path(run), "event")[0]["event"] == "started"
    metrics = driven.rows(Path(run), "eval")[-1]["metrics"]
    assert (metrics.get("auc") is not None) == (run == "rtd") and metrics["generator_accuracy"] is not None


def test_a_run_from_trained_weights_has_a_lower_rate(journey: Path) -> None:
    events = [row["message"] for row in driven.rows(Path("gentle"), "event")]
    assert RunFolder(Path("gentle")).record["training"]["learning_rate"] == pytest.approx(1e-4)
    assert any("4 layers of 128, vocabulary" in message for message in events)
    assert RunFolder(Path("continued")).record["training"]["learning_rate"] == 3e-3, "as was asked"


def test_show_detect_report_and_verify(electra) -> None:  # type: ignore[no-untyped-def]
    table = electra("show rtd 'the cat sees the house .'")
    assert all(heading in table for heading in ("Original", "Masked", "Generated", "Label", "P(replaced)"))
    assert electra("show rtd 'the cat sees the house .'") == table, "the same seed draws the same"
    [line] = electra(f"detect rtd '{SENTENCE}' --json --device cpu").splitlines()
    found = json.loads(line)
    words = [SENTENCE[word["start"] : word["end"]] for word in found["words"]]
    assert words == ["The", "cat", "sees", "the", "\U0001f408", "house", "."]
    assert all(0 <= word["p_replaced"] <= 1 for word in found["words"])
    assert electra("report rtd --out compared.html").strip().endswith("compared.html")
    page = Path("compared.html").read_text()
    assert "mlm" in page and "http://" not in page.replace("http://www.w3.org", ""), "self-contained"
    for made in ("store", "rtd", "mlm", "continued", "exported", "exported/generator"):
        findings = electra(f"verify {made}").splitlines()
        assert findings and all(line.startswith("ok ") for line in findings), findings


def test_an_export_changes_no_weight_and_transformers_reads_it(journey: Path) -> None:
    import torch
    import transformers
    from safetensors.torch import load_file

    from electra.exchange.load import load

    for network in ("discriminator", "generator"):
        first, second = (load_file(Path(at, network, "model.safetensors")) for at in ("rtd", "exported"))
        assert first.keys() == second.keys() and all(first[name].equal(second[name]) for name in first)
    folder = Path("exported/discriminator")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    ours = load(folder, "discriminator")
    ids = tokenizer("the cat sees the house .", return_tensors="pt")
    assert ids["input_ids"][0].tolist() == ours.tokenizer.encode("the cat sees the house .").ids
    with torch.no_grad():
        hidden = transformers.AutoModel.from_pretrained(folder)(**ids).last_hidden_state
        assert torch.allclose(hidden, ours.encoder(ids["input_ids"]), atol=1e-5)


def test_continued_on_other_text_goes_on_where_it_was(journey: Path) -> None:
    for name in ("mlm", "rtd"):
        fresh, learned = losses("rtd", name)[0], mean(losses("rtd", name)[-5:])
        begun = losses("continued", name)[0]
        assert abs(begun - learned) < 0.35 * abs(fresh - learned), (name, fresh, learned, begun)
    first, other = (json.loads(Path(at, "store.json").read_text()) for at in ("store", "continued/store"))
    assert first["tokenizer_digest"] == other["tokenizer_digest"] and first["digest"] != other["digest"]
