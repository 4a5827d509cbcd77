"""The contract tests of probes, of electra and of the examples."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from typing_extensions import override

from contracts import small
from electra.exchange.load import Loaded
from electra.foundation.config import field_texts
from electra.laboratory import analysis
from electra.laboratory.analysis.contract import Input, Probe, ProbeDataError, StudiedModel
from electra.testing.contracts import Contract

WRONG = "wrong"
# Headline numbers whose names contain these are not compared: a detector of a single word cannot find such
# errors.
NOT_COMPARED = ("swap", "any token", "frequent", "agreement", "BLiMP")
QUICK = {"resamples": 40, "length": 20}


@dataclass(frozen=True)
class Constant(Loaded):
    """A discriminator with the same output for every token."""

    @override
    def logits(self, input_ids: torch.Tensor, document_ids: torch.Tensor | None = None) -> torch.Tensor:
        return torch.zeros(input_ids.shape)


@dataclass(frozen=True)
class Oracle(Loaded):
    """A discriminator that recognises the one token that is always wrong in these tests."""

    knows: str = WRONG

    @override
    def logits(self, input_ids: torch.Tensor, document_ids: torch.Tensor | None = None) -> torch.Tensor:
        wrong_id = self.tokenizer.token_to_id(self.knows)
        assert wrong_id is not None
        return torch.where(torch.eq(input_ids, wrong_id), torch.tensor(8.0), torch.tensor(-8.0))


def scorer(folder: Path, kind: type[Loaded], **known: Any) -> StudiedModel:
    """Returns a model whose generator always samples the wrong word, with this kind of discriminator."""
    model = small.model(folder, kind.__name__, extra=WRONG)
    generator = model.generator
    wrong_id = generator.tokenizer.token_to_id(WRONG)
    with torch.no_grad():
        assert generator.head is not None and wrong_id is not None
        generator.head.get_parameter("bias")[wrong_id] = 1000.0
    fields = {field.name: getattr(model.discriminator, field.name) for field in dataclasses.fields(Loaded)}
    model.loaded["discriminator"] = kind(**fields, **known)
    return model


def write_data(folder: Path, permute: bool = False, sentences: int = 80) -> Path:
    """Writes small data sets for all of our probes into `folder` and returns it."""
    rng = np.random.default_rng(1)
    for name in ("ged/fce-toy", "ud-toy", "blimp", "nbest"):
        (folder / name).mkdir(parents=True)
    toy = [[cell.split("/")[0] for cell in sentence.split()] for sentence in small.SENTENCES]
    texts = [toy[row % len(toy)] for row in range(sentences)]
    drawn = [[WRONG if rng.random() <= 0.2 else word for word in words] for words in texts]
    labels = np.array(["i" if word == WRONG else "c" for words in drawn for word in words])
    label = iter(labels[rng.permutation(len(labels))] if permute else labels)
    lines = ["".join(f"{word}\t{next(label)}\n" for word in words) for words in drawn]
    (folder / "ged/fce-toy/dev.tsv").write_text("\n".join(lines))
    small.write_treebank(folder / "ud-toy/train.conllu")
    small.write_treebank(folder / "ud-toy/test.conllu", repeats=4)
    text = " ".join(" ".join(words) for words in texts)
    rows = [text[start : start + 200] for start in range(0, len(text), 200)]
    (folder / "heldout.txt").write_text("\n".join(rows))
    pair = {"sentence_good": "that meal like the cat", "sentence_bad": "that meals like the cat"}
    (folder / "blimp/toy_agreement.jsonl").write_text("\n".join(json.dumps(pair) for _ in range(30)))
    lists = []
    for words in toy * 3:
        place = int(rng.integers(len(words)))
        wrong = [*words[:place], WRONG, *words[place + 1 :]]
        scores = [{"acoustic": float(rng.normal()), "lm": float(rng.normal())} for _ in range(2)]
        hypotheses = [{"text": " ".join(t), **s} for t, s in zip((wrong, words), scores, strict=True)]
        lists.append(json.dumps({"ref": " ".join(words), "hyps": hypotheses}))
    (folder / "nbest/toy.jsonl").write_text("\n".join(lists))
    return folder


def run_probe(name: str, model: StudiedModel, data: Path, options: Mapping[str, Any] = QUICK) -> Any:
    """Runs a probe on the model and returns its findings. Options that the probe lacks are ignored."""
    names = {field.name for field in dataclasses.fields(analysis.module_of(name).Config)}
    probe = analysis.create(name, {key: value for key, value in options.items() if key in names})
    return probe.run([model], probe.find([data]), lambda *_: None)


class ProbeContract(Contract):
    """Contract tests of probes. Subclass this in a test file, with the probe's name or path."""

    subject = "probe"
    probe: ClassVar[str | Path | Sequence[str | Path]]
    options: ClassVar[Mapping[str, Any]] = QUICK
    """Options that make a probe fast; those that it lacks are ignored."""
    knows: ClassVar[str] = WRONG
    """The token that stands for every error, which the perfect scorer recognises."""

    def write_data(self, folder: Path) -> Path:
        """Writes the probe's data into `folder`, which does not exist yet, and returns it."""
        return write_data(folder)

    @pytest.fixture
    def data(self, tmp_path: Path) -> Path:
        return self.write_data(tmp_path / "data")

    def headline(self, name: str, tmp_path: Path, data: Path, kind: type[Loaded], end: int, **known: Any) -> None:
        """Checks the headline of a kind of scorer against an end of its scales: 0 chance, 1 maximum."""
        scales = analysis.module_of(name).Probe.scales or pytest.skip("its headline has no scale")
        findings = run_probe(name, scorer(tmp_path, kind, **known), data, self.options)
        compared = [key for key in scales if not end or not any(word in key for word in NOT_COMPARED)]
        found = {key: findings.headline[key].value for key in compared if key in findings.headline}
        assert found == pytest.approx({key: scales[key][end] for key in found}, abs=1e-9)
        assert found or not end
        json.dumps(findings.to_json(), allow_nan=False)

    def test_title_question_source_and_options_are_described(self, name: str) -> None:
        probe = analysis.create(name)
        assert isinstance(probe, Probe)
        for text in (probe.title, probe.question, probe.source):
            assert isinstance(text, str) and text
        assert probe.question.rstrip().endswith("?") and probe.version >= 1
        assert all(isinstance(each, Input) and each.what and each.patterns for each in probe.inputs())
        config: Any = type(probe.config)
        texts = field_texts(config)
        assert all(texts.get(each.name) for each in dataclasses.fields(probe.config)), "a string under each"

    def test_missing_data_are_refused(self, name: str, tmp_path: Path) -> None:
        probe = analysis.create(name)
        if any(each.required for each in probe.inputs()):
            with pytest.raises(ProbeDataError):
                probe.find([tmp_path])

    def test_results_are_reproducible(self, name: str, tmp_path: Path, data: Path) -> None:
        model = small.model(tmp_path, "random", extra=WRONG)
        findings = run_probe(name, model, data, self.options).to_json()
        assert findings["headline"] and json.dumps(findings, allow_nan=False)
        assert run_probe(name, model, data, self.options).to_json() == findings

    def test_a_constant_scorer_gets_chance(self, name: str, tmp_path: Path, data: Path) -> None:
        self.headline(name, tmp_path, data, Constant, 0)

    def test_a_perfect_scorer_gets_the_maximum(self, name: str, tmp_path: Path, data: Path) -> None:
        self.headline(name, tmp_path, data, Oracle, 1, knows=self.knows)
