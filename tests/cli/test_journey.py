"""The whole way in miniature, as a user goes it: text, store, run, look, export, import, go on with other
text, fine-tune, predict.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

import driven
import pytest

from electra.artifacts.run import RunFolder
from electra.commands.framework.main import main

pytestmark = pytest.mark.slow

STEPS = 40
SETTINGS = f"""--recipe tiny
--model.size tiny --model.initialisation fan_in --training.length 16 --training.batch-size 8
--training.steps {STEPS} --training.learning-rate 3e-3 --training.warmup 0.1 --training.log-every 1
--training.precision fp32 --training.device cpu --training.threads 1 --evaluation.rows 8""".split()
SENTENCE = "The cat sees the \U0001f408 house."
ON_CPU = ["--device", "cpu"]


def electra(*words: object, stdin: Path | None = None) -> str:
    """Run a command that must succeed; what it said."""
    said, complaint = io.StringIO(), io.StringIO()
    with contextlib.ExitStack() as stack:
        if stdin is not None:
            patch = stack.enter_context(pytest.MonkeyPatch.context())
            patch.setattr(sys, "stdin", stack.enter_context(open(stdin, encoding="utf-8")))
        stack.enter_context(contextlib.redirect_stdout(said))
        stack.enter_context(contextlib.redirect_stderr(complaint))
        code = main([str(word) for word in words])
    assert code == 0, complaint.getvalue()
    return said.getvalue()


@dataclass(frozen=True)
class Journey:
    folder: Path

    def __getitem__(self, name: str) -> Path:
        return self.folder / name

    def losses(self, run: str, name: str = "mlm") -> list[float]:
        return [row["losses"][name] for row in driven.rows(self[run])]

    def events(self, run: str) -> list[dict[str, Any]]:
        return driven.rows(self[run], "event")


@pytest.fixture(scope="module")
def journey(tmp_path_factory: pytest.TempPathFactory) -> Journey:
    """Everything is made once, in the order of the commands below; the tests look at what came of it."""
    at = Journey(tmp_path_factory.mktemp("journey"))
    corpus = driven.write_corpus(at["corpus.txt"])
    other = driven.write_corpus(at["other.txt"], documents=200)
    other.write_text("".join(other.read_text().splitlines(keepends=True)[120:]))
    electra(
        "prepare",
        corpus,
        "--out",
        at["store"],
        "--unit",
        "line",
        "--vocab-size",
        90,
        "--heldout",
        0.1,
        "--workers",
        1,
    )
    electra("pretrain", "--store", at["store"], "--out", at["rtd"], *SETTINGS)
    electra("pretrain", "--store", at["store"], "--out", at["mlm"], *SETTINGS, "--objective.name", "mlm")
    for network in ("discriminator", "generator"):
        electra("export", at["rtd"], "--out", at["exported"] / network, "--network", network)
    both = ["--init", at["exported"]]
    from_text = ["--corpus", "-", "--data.unit", "line", "--data.heldout", 0.1, "--workers", 1]
    shorter = list(SETTINGS)
    shorter[shorter.index("--training.steps") + 1] = "3"
    electra("pretrain", *from_text, *both, "--out", at["continued"], *shorter, stdin=other)
    return at


def test_the_store_accounts_for_its_text(journey: Journey) -> None:
    audit = json.loads((journey["store"] / "audit.json").read_text())
    assert (
        audit["documents_read"]
        == 120
        == audit["documents_train"] + audit["documents_heldout"] + audit["documents_duplicate"]
    )
    assert audit["tokens_lost"] == 0 and audit["tokens_unknown"] == 0


@pytest.mark.parametrize("run", ["rtd", "mlm"])
def test_both_objectives_learn_and_are_exported(journey: Journey, run: str) -> None:
    losses = journey.losses(run)
    assert len(losses) == STEPS and mean(losses[-5:]) < 0.85 * losses[0]
    assert (journey[run] / "report.html").read_text().startswith("<!DOCTYPE html>")
    networks = {path.parent.name for path in journey[run].glob("*/model.safetensors")}
    assert networks == ({"generator", "discriminator"} if run == "rtd" else {"generator"})
    assert journey.events(run)[0]["event"] == "started"
    metrics = driven.rows(journey[run], "eval")[-1]["metrics"]
    assert (metrics.get("auc") is not None) == (run == "rtd") and metrics["generator_accuracy"] is not None


def test_a_run_from_trained_weights_says_its_rate_and_size(journey: Journey) -> None:
    words = [str(word) for word in SETTINGS]
    words[words.index("--training.steps") + 1] = "1"
    at = words.index("--training.learning-rate")
    electra(
        *("pretrain", "--store", journey["store"], "--out", journey["gentle"]),
        *("--init-discriminator", journey["exported"], *words[:at], *words[at + 2 :]),
    )
    events = [row["message"] for row in journey.events("gentle")]
    assert any(message.startswith("learning rate 0.0001, 0.2 of the recipe's") for message in events)
    assert any("4 layers of 128, vocabulary" in message for message in events)
    assert RunFolder(journey["continued"]).record["training"]["learning_rate"] == 3e-3, "as was asked"


def test_show_prints_the_table(journey: Journey) -> None:
    table = electra("show", journey["rtd"], "the cat sees the house .")
    for heading in ("Original", "Masked", "Generated", "Label", "P(replaced)"):
        assert heading in table
    assert electra("show", journey["rtd"], "the cat sees the house .") == table, (
        "the same seed draws the same"
    )


def test_detect_gives_each_word_its_place(journey: Journey) -> None:
    [line] = electra("detect", journey["rtd"], SENTENCE, "--json", *ON_CPU).splitlines()
    found = json.loads(line)
    assert found["text"] == SENTENCE
    assert [SENTENCE[word["start"] : word["end"]] for word in found["words"]] == [
        "The",
        "cat",
        "sees",
        "the",
        "\U0001f408",
        "house",
        ".",
    ]
    assert all(0 <= word["p_replaced"] <= 1 for word in found["words"])


def test_report_compares_runs(journey: Journey) -> None:
    page = journey["compared.html"]
    assert electra("report", journey["rtd"], "--out", page, "--compare", journey["mlm"]).strip() == str(page)
    content = page.read_text()
    assert "mlm" in content and "http://" not in content.replace("http://www.w3.org", ""), "self-contained"


def test_export_and_import_change_no_weight(journey: Journey) -> None:
    from safetensors.torch import load_file

    for network in ("discriminator", "generator"):
        copies = [
            load_file(journey[folder] / network / "model.safetensors") for folder in ("rtd", "exported")
        ]
        assert copies[0].keys() == copies[1].keys() == copies[2].keys()
        assert all(copies[0][name].equal(copy[name]) for copy in copies[1:] for name in copies[0])


def test_continued_on_other_text_goes_on_where_it_was(journey: Journey) -> None:
    for name in ("mlm", "rtd"):
        fresh, learned = journey.losses("rtd", name)[0], mean(journey.losses("rtd", name)[-5:])
        begun = journey.losses("continued", name)[0]
        assert abs(begun - learned) < 0.35 * abs(fresh - learned), (name, fresh, learned, begun)
    store = json.loads((journey["continued"] / "store" / "store.json").read_text())
    assert (
        store["tokenizer_digest"]
        == json.loads((journey["store"] / "store.json").read_text())["tokenizer_digest"]
    )
    assert store["digest"] != json.loads((journey["store"] / "store.json").read_text())["digest"], (
        "other text"
    )


def test_finetune_and_predict(journey: Journey) -> None:
    data = journey["table.csv"]
    rows = [
        f"{subject} {verb} the sea .,{'animal' if subject in ('the cat', 'a dog') else 'person'}"
        for subject in driven.SUBJECTS
        for verb in driven.VERBS
    ]
    data.write_text("text,label\n" + "\n".join(rows) + "\n")
    settings = ["--epochs", 3, "--max-length", 16, "--precision", "fp32", "--learning-rate", 1e-3, *ON_CPU]
    electra(
        "finetune",
        journey["rtd"],
        "--task",
        "classification",
        "--data",
        data,
        "--out",
        journey["tuned"],
        *settings,
    )
    assert json.loads((journey["tuned"] / "all_results.json").read_text())
    electra("predict", journey["tuned"], data, "--out", journey["predictions.tsv"], *ON_CPU)
    predicted = [line.split("\t") for line in journey["predictions.tsv"].read_text().splitlines()]
    assert len(predicted) == 1 + len(rows) and {row[1] for row in predicted[1:]} <= {"animal", "person"}


def test_everything_made_verifies(journey: Journey) -> None:
    for made in ("store", "rtd", "mlm", "continued", "exported", "exported/generator"):
        findings = electra("verify", journey[made]).splitlines()
        assert findings and all(line.startswith("ok ") for line in findings), findings


def test_transformers_reads_the_export(journey: Journey) -> None:
    import torch
    import transformers

    from electra.exchange.load import load

    folder = journey["exported"] / "discriminator"
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    ours = load(folder, "discriminator")
    ids = tokenizer("the cat sees the house .", return_tensors="pt")
    assert ids["input_ids"][0].tolist() == ours.tokenizer.encode("the cat sees the house .").ids
    with torch.no_grad():
        hidden = transformers.AutoModel.from_pretrained(folder)(**ids).last_hidden_state
        assert torch.allclose(hidden, ours.encoder(ids["input_ids"]), atol=1e-5)
