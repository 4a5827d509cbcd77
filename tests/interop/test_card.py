"""The model card contains what the run recorded, is readable by the hub, and omits what is unknown."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from huggingface_hub import ModelCard

from electra.exchange.card import Card, card_of_run, render


def row(kind: str, step: int, **values: object) -> dict[str, object]:
    done = {"tokens": step * 4096 // 100, "flops": step * 1.5e13, "seconds": step * 0.03}
    return {"kind": kind, "step": step, **done, **values}


ROWS = [
    row("train", 100, loss=9.0),
    row("eval", 100, metrics={"auc": 0.61, "f1": None, "gain": 0.01}),
    row("train", 200, loss=8.0),
    row("eval", 200, metrics={"auc": 0.81, "f1": 0.5, "gain": 0.02}),
    {"kind": "event", "step": 200, "event": "finished", "message": ""},
]
RECORD = """
[model]
size = "tiny"
[data]
corpus = "/home/ada/texts.txt"
[identity]
initial_discriminator = "google/electra-small-discriminator"
[environment]
command = "pretrain --corpus /home/ada/secret"
"""


def make_run(folder: Path) -> Path:
    folder.mkdir()
    torn = '{"kind": "train", "st'
    (folder / "metrics.jsonl").write_text("\n".join([*map(json.dumps, ROWS), torn]))
    (folder / "audit.json").write_text(
        json.dumps({"documents": 1200, "unk_rate": 0.00123, "splits": {"train": 1194}, "files": ["a", "b"]})
    )
    (folder / "run.toml").write_text(RECORD)
    return folder


def test_card_of_a_run(tmp_path: Path) -> None:
    card = card_of_run(make_run(tmp_path / "law"), "discriminator")
    text = render(replace(card, architecture="ElectraForPreTraining"))
    data = ModelCard(text).data.to_dict()
    assert data["library_name"] == "transformers" and "replaced-token-detection" in data["tags"]
    assert "license" not in data and "language" not in data
    numbers = ["| steps | 200 |", "| tokens | 8,192 |", "| FLOPs | 3.000e+15 |", "| auc | 0.81 |"]
    audit = ["| documents | 1,200 |", "| unk rate | 0.00123 |", "| splits.train | 1,194 |"]
    assert {"# law-discriminator", 'size = "tiny"', *numbers, *audit} <= set(text.splitlines())
    assert "from transformers import AutoTokenizer, ElectraForPreTraining" in text and "files" not in text
    assert "PATH" not in text and 'name = "law-discriminator"' in text
    assert "/home/ada" not in text and 'corpus = "texts.txt"' in text
    assert data["base_model"] == "google/electra-small-discriminator"


def test_card_of_a_checkpoint_tells_its_own_numbers(tmp_path: Path) -> None:
    card = card_of_run(make_run(tmp_path / "law"), "generator", step=100)
    assert card.training == {"steps": 100, "tokens": 4096, "FLOPs": 1.5e15, "seconds": 3.0}
    assert card.metrics == {"auc": 0.61, "gain": 0.01}


def test_card_of_a_full_size_language_model_is_not_the_small_generators(tmp_path: Path) -> None:
    run = make_run(tmp_path / "law")
    last = {"kind": "eval", "step": 200, "metrics": {"auc": 0.9, "generator_loss": 4.5, "mlm_loss": 3.6}}
    with open(run / "metrics.jsonl", "w") as file:
        file.write(json.dumps(ROWS[0]) + "\n" + json.dumps(last) + "\n")
    (run / "run.toml").write_text(RECORD + '[objective]\nname = "rtd_mlm"\n')
    card = card_of_run(run, "generator", beside=True)
    assert card.metrics == {"mlm_loss": 3.6}
    text = render(card)
    assert text.splitlines()[0] == "---" and "# law-language-model" in text
    assert "as a masked language model" in text and "made the replacements" not in text


def test_card_without_a_run(tmp_path: Path) -> None:
    text = render(card_of_run(tmp_path, "generator"))
    assert "fill-mask" in text and "## Numbers" not in text and "## Recipe" not in text
    base = "google/electra-base"
    card = Card("mine", "classifier", metrics={"accuracy": 0.9}, measured_on="dev", base_model=base)
    data = ModelCard(render(card)).data.to_dict()
    assert data["pipeline_tag"] == "text-classification" and data["base_model"] == base


def test_names_are_text_and_no_html() -> None:
    card = Card("<img src=x onerror=alert(1)>", "discriminator", recipe="a = 1\n```\n<b>", training={"<i>": "<u>"})
    text = render(card)
    assert "# &lt;img src=x onerror=alert(1)&gt;" in text and "| &lt;i&gt; | &lt;u&gt; |" in text
    assert "````toml\na = 1\n```\n<b>\n````" in text
    assert "\n# <" not in text


@pytest.mark.parametrize("threshold", ["0.3", float("nan"), 7, None])
def test_metrics_that_are_not_numbers_are_left_out(threshold: object, tmp_path: Path) -> None:
    run = make_run(tmp_path / "law")
    scores = {"auc": 0.7, "f1": "much", "best_f1_threshold": threshold}
    rows = [*ROWS, {**ROWS[3], "step": 300, "metrics": scores}]
    (run / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    card = card_of_run(run, "discriminator")
    assert card.threshold is None and card.metrics["auc"] == 0.7 and "f1" not in card.metrics
    (run / "metrics.jsonl").write_text("".join(json.dumps({**row, "metrics": [1]}) + "\n" for row in rows))
    assert card_of_run(run, "discriminator").metrics == {}
