"""export --cut-to: states and logits of what stays of a vocabulary are those of transformers before."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from published import ADAPTED, SHAPES, TOLERANCE, published

import electra
from electra.commands.framework.main import main
from electra.data.corpus.cut_vocabulary import ids_in_original
from electra.data.corpus.tokenizer import Tokenizer
from electra.exchange.load import load

LINES = ["the chef cooked the meal.", "the chef ate the meal and the cafe", "a meal, 3 meals", "chef"]
FAST = ("BERT", "RoBERTa", "ModernBERT", "DeBERTa", "EuroBERT")
HEADS: list[Any] = [
    pytest.param(name, "ForMaskedLM", "generator", marks=[pytest.mark.slow] * (name not in FAST))
    for name in SHAPES | ADAPTED
]
HEADS += [(name, "ForSequenceClassification", "classifier") for name in ("BERT", "DeBERTa")]
HEADS += [("ELECTRA", "ForPreTraining", "discriminator"), ("MPNet", "Model", "encoder")]


@pytest.fixture
def text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of lines, in the folder where commands run."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "lines.txt").write_text("\n".join([*LINES, *(f"{line} the" for line in LINES)]))
    return tmp_path / "text"


@pytest.mark.parametrize(("name", "head", "kind"), HEADS)
@torch.inference_mode()
def test_what_stays_is_as_before(name: str, head: str, kind: str, text: Path, uncased: Tokenizer) -> None:
    given, out = Path("given"), Path("out")
    extra = {} if name == "BERT" else {"tie_word_embeddings": name != "ModernBERT"}
    reference = published(name, given, uncased, head, **extra)
    electra.export(given, out=out, cut_to=text, progress="quiet")
    smaller = load(out, "encoder")
    ids = ids_in_original(smaller.tokenizer, uncased)
    assert ids is not None and smaller.config.vocab_size == len(ids) < uncased.vocab_size
    assert smaller.kind == kind
    again = getattr(transformers, f"Auto{'Model' * (head != 'Model')}{head}").from_pretrained(out).eval()
    encoder = transformers.AutoTokenizer.from_pretrained(out)
    assert again.config.vocab_size == len(ids)
    assert again.config.pad_token_id in (None, smaller.tokenizer.specials.pad, reference.config.pad_token_id)
    for line in LINES:
        before, after = uncased.encode(line).ids, encoder(line)["input_ids"]
        assert ids[after].tolist() == before
        expected = reference(input_ids=torch.tensor([before]))[0]
        found = again(input_ids=torch.tensor([after]))[0]
        assert (found - (expected[..., ids] if kind == "generator" else expected)).abs().max() <= TOLERANCE
    vectors = [electra.load(folder).embed(LINES) for folder in (given, out)]
    assert np.abs(vectors[0] - vectors[1]).max() <= TOLERANCE


def test_the_table_says_what_changed(
    text: Path, uncased: Tokenizer, capsys: pytest.CaptureFixture[str]
) -> None:
    published("BERT", Path("given"), uncased)
    (text / "lines.txt").write_text("the chef\n" * 3 + "cooked the meal\n" + "\u6f22 \u0436\n")
    words = ["export", "given", "--cut-to", "text", "--coverage"]
    sizes = []
    for coverage in ("1", "0.4"):
        assert main([*words, coverage, "--out", "out"]) == 0
        rows = {line.split("  ")[0]: line.split() for line in capsys.readouterr().out.splitlines()}
        folder = load("out", "encoder")
        sizes.append(folder.config.vocab_size)
        count = sum(parameter.numel() for parameter in folder.encoder.parameters())
        assert rows["pieces"][-2:] == [str(uncased.vocab_size), str(sizes[-1])]
        assert rows["parameters"][-2:] == [f"{count / 1e6:.1f}", "M"]
        assert float(rows["unknown tokens"][-2].rstrip("%")) == pytest.approx(100 / 7, abs=0.1)
    assert sizes[0] > sizes[1]
    assert json.loads(Path("out/config.json").read_text())["vocab_size"] == sizes[1]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--cut-to", "nowhere.txt"], "nowhere.txt"),
        (["--cut-to", "empty.txt"], "empty.txt"),
        (["--cut-to", "text", "--coverage", "0"], "--coverage"),
        (["--cut-to", "text", "--coverage", "99.95"], "--coverage"),
        (["--cut-to", "text", "--format", "onnx"], "uncut"),
        (["--cut-to", "text", "--out", "text"], "other files"),
    ],
)
def test_what_cannot_be_cut_is_one_line(
    options: list[str], told: str, text: Path, uncased: Tokenizer, capsys: pytest.CaptureFixture[str]
) -> None:
    published("BERT", Path("given"), uncased)
    Path("empty.txt").touch()
    assert main(["export", "given", "--out", "out", *options]) == 2
    *_, line = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ") and told in line and not Path("out").exists()
