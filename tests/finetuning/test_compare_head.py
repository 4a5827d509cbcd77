"""The head `compare`: its features and terms, its initial fit, and its saved form."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from test_all_seeds import silent

from electra.exchange.load import load
from electra.finetuning.heads.compare import FEATURES, CompareHead
from electra.finetuning.heads.parts import linear_fit
from electra.finetuning.heads.parts.contract import HeadShape
from electra.finetuning.heads.parts.linear_fit import fit_by_folds
from electra.finetuning.heads.parts.overlap import OVERLAP_FEATURES
from electra.finetuning.heads.parts.term_model import KIND_SHIFT
from electra.finetuning.predict import export_tuned, predict
from electra.finetuning.runner.all_seeds import finetune
from electra.finetuning.runner.tuned_model import build_head
from electra.finetuning.windows.features import Batch
from electra.foundation.errors import ConfigError, Interrupted, ModelError
from electra.testing import toy_task

CLS, SEP, PAD = 2, 3, 0


def batch(*rows: list[int]) -> Batch:
    length = max(map(len, rows))
    ids = torch.tensor([row + [PAD] * (length - len(row)) for row in rows])
    document_ids = torch.tensor([[0] * len(row) + [-1] * (length - len(row)) for row in rows])
    texts = [tuple(" ".join(f"w{i}" for i in text) for text in halves(row)) for row in rows]
    return Batch(np.arange(len(rows)), ids, torch.zeros_like(ids), document_ids, None, texts)


def halves(row: list[int]) -> tuple[list[int], list[int]]:
    middle = row.index(SEP)
    return row[1:middle], row[middle + 1 : -1]


def cross_entropy(logits: torch.Tensor, gold: torch.Tensor) -> tuple[torch.Tensor, float]:
    return torch.nn.functional.cross_entropy(logits, gold, reduction="sum"), len(gold)


def head(modern_folder: Path, outputs: int = 2) -> CompareHead:
    config = load(str(modern_folder), "encoder").config
    compare_head = build_head("compare", HeadShape("classifier", config, outputs, "mean"), seed=1)
    assert isinstance(compare_head, CompareHead)
    compare_head.fit_statistics([], [CLS, SEP])
    return compare_head.eval()


def numbers(compare_head: CompareHead, inputs: Batch, table: torch.Tensor) -> dict[str, list[float]]:
    hidden = torch.nn.functional.embedding(inputs.input_ids, table)
    return dict(zip(FEATURES, compare_head.compute_features(hidden, inputs, table).T.tolist(), strict=True))


def test_features_of_a_pair_by_hand(modern_folder: Path) -> None:
    compare_head = head(modern_folder)
    table = torch.randn(len(compare_head.rarity), 32, generator=torch.Generator().manual_seed(1))
    compare_head.rarity.fill_(1.0)
    compare_head.rarity[10] = 3.0
    found = numbers(
        compare_head,
        batch([CLS, 10, 11, 12, SEP, 10, 11, SEP], [CLS, 10, 11, SEP, 12, 13, 14, 15, SEP]),
        table,
    )
    assert found["tokens in the other, first"] == pytest.approx([2 / 3, 0])
    assert found["tokens in the other, second"] == pytest.approx([1, 0])
    assert found["tokens in the other, first, weighted"] == pytest.approx([4 / 5, 0]), (
        "a rare one counts more"
    )
    assert found["bigrams in the other, first"] == pytest.approx([1 / 2, 0])
    assert found["bigrams in the other, second"] == pytest.approx([1, 0])
    assert found["words in common"] == pytest.approx([2 / 3, 0]) and found["words in order"] == pytest.approx(
        [4 / 5, 0]
    )
    assert found["log ratio of lengths"] == pytest.approx([np.log(3 / 4), np.log(5 / 3)])
    assert (
        found["similarity by embeddings, second"][0] == pytest.approx(1)
        and found["similarity by embeddings, first"][1] < 1
    )


def test_padding_and_neighbours_in_the_batch_change_nothing(modern_folder: Path) -> None:
    compare_head = head(modern_folder)
    table = torch.randn(len(compare_head.rarity), 32, generator=torch.Generator().manual_seed(2))
    row = [CLS, 10, 11, SEP, 11, 12, SEP]
    alone = numbers(compare_head, batch(row), table)
    with_neighbour = numbers(compare_head, batch(row, [CLS, *range(5, 25), SEP, *range(9, 29), SEP]), table)
    assert [values[0] for values in with_neighbour.values()] == pytest.approx(
        [v[0] for v in alone.values()], abs=1e-6
    )
    assert all(np.isfinite(v[0]) for v in numbers(compare_head, batch([CLS, SEP, SEP]), table).values()), (
        "empty texts"
    )


def test_the_head_starts_from_the_best_linear_model(modern_folder: Path) -> None:
    compare_head = head(modern_folder)
    draw = torch.Generator().manual_seed(3)
    features = torch.randn(500, len(FEATURES), generator=draw) * 5 + 7
    targets = (features[:, 4] + 0.1 * torch.randn(500, generator=draw) > 7).long()

    inputs, hidden = batch([CLS, 10, SEP, 10, SEP]), torch.randn(1, 5, 32)
    compare_head.fit(
        features, compare_head.extract_terms(inputs) * 500, targets, cross_entropy, np.arange(500)
    )
    right = (
        (
            torch.nn.functional.linear(features, compare_head.wide.weight, compare_head.wide.bias).argmax(1)
            == targets
        )
        .float()
        .mean()
    )
    assert right > 0.95
    table = torch.randn(len(compare_head.rarity), 32)
    only = compare_head.wide(compare_head.compute_features(hidden, inputs, table))
    torch.testing.assert_close(
        compare_head(hidden, inputs, table), only + compare_head.counted(compare_head.extract_terms(inputs))
    )


def test_features_that_differ_by_rounding_get_no_weight(modern_folder: Path) -> None:
    compare_head = head(modern_folder)
    draw = torch.Generator().manual_seed(3)
    features = torch.ones(500, len(FEATURES)) * (1 + 1e-7 * torch.randn(500, len(FEATURES), generator=draw))
    targets = (features[:, 4] > 1).long()
    inputs = batch([CLS, 10, SEP, 10, SEP])
    compare_head.fit(
        features, compare_head.extract_terms(inputs) * 500, targets, cross_entropy, np.arange(500)
    )
    assert compare_head.wide.weight.abs().max() < 1


def test_terms_are_the_tokens_of_one_text_or_of_both(modern_folder: Path) -> None:
    compare_head = head(modern_folder)
    [terms] = compare_head.extract_terms(batch([CLS, 10, 11, 11, 12, SEP, 13, 10, SEP]))
    kinds = [[12, 11], [13], [11, 12, 13], [10]]
    assert terms.tolist() == [
        kind << KIND_SHIFT | token for kind, tokens in enumerate(kinds) for token in sorted(tokens)
    ]


def test_in_training_a_pair_gets_held_out_logits(modern_folder: Path) -> None:
    compare_head = head(modern_folder)
    draw = np.random.default_rng(5)
    rows = [[CLS, 5, SEP, *draw.integers(6, 30, 4).tolist(), SEP] for _ in range(400)]
    tell = torch.tensor([int(25 in row or 28 in row) for row in rows])
    inputs = batch(*rows)
    hidden, table = torch.randn(*inputs.input_ids.shape, 32), torch.randn(len(compare_head.rarity), 32)
    features = compare_head.compute_features(hidden, inputs, table)
    compare_head.fit(features, compare_head.extract_terms(inputs), tell, cross_entropy, np.arange(400))
    for answers in (compare_head(hidden, inputs, table), compare_head.train()(hidden, inputs, table)):
        assert (answers.argmax(1) == tell).float().mean() > 0.9


def test_both_orders_of_a_pair_share_a_fold() -> None:
    draw = np.random.default_rng(6)
    x, chance = draw.normal(size=(100, 300)).repeat(2, 0), torch.from_numpy(draw.integers(0, 2, 100))
    targets = chance.repeat_interleave(2)

    def right(groups: np.ndarray) -> float:
        _, answers = fit_by_folds(x, targets, cross_entropy, 2, [10.0], groups=groups)
        return (torch.from_numpy(answers).argmax(1) == targets).double().mean().item()

    assert right(np.arange(100).repeat(2)) < 0.65 and right(np.arange(200)) > 0.8


def test_penalties_are_tried_until_two_are_clearly_worse(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(8)
    noise, chance = draw.normal(size=(60, 200)), torch.from_numpy(draw.integers(0, 2, 60))
    tried: list[float] = []
    fit = linear_fit.fit_linear

    def recorded(x: Any, targets: torch.Tensor, loss: Any, penalty: float, start: Any) -> Any:
        tried.append(round(1 / (2 * penalty * len(targets)), 6))
        return fit(x, targets, loss, penalty, start)

    monkeypatch.setattr(linear_fit, "fit_linear", recorded)
    strengths = [1e-5, 1e-3, 0.1, 10.0, 1000.0, 1e5]
    best, _ = fit_by_folds(noise, chance, cross_entropy, 2, strengths, groups=np.arange(60))
    assert 0.1 in tried and 1000.0 not in tried and 1e5 not in tried
    few, _ = fit_by_folds(noise, chance, cross_entropy, 2, strengths[:3], groups=np.arange(60))
    assert np.array_equal(best, few)

    tried.clear()  # equal losses are no reason to stop
    clear = torch.from_numpy((noise[:, 0] > 0).astype(int))
    fit_by_folds(noise[:, :1], clear, cross_entropy, 2, strengths, groups=np.arange(60))
    assert 1e5 in tried


@pytest.mark.parametrize("with_terms", [True, False])
def test_older_heads_predict_as_before(modern_folder: Path, with_terms: bool) -> None:
    """Those with fewer numbers, without terms, or with their terms under another name."""
    compare_head, old = head(modern_folder), head(modern_folder)
    torch.nn.init.normal_(compare_head.wide.weight, generator=torch.Generator().manual_seed(4))
    torch.nn.init.zeros_(compare_head.wide.weight[:, -len(OVERLAP_FEATURES) :])
    inputs = batch([CLS, 10, SEP, 10, 11, SEP])
    hidden, table = torch.randn(1, 6, 32), torch.randn(len(compare_head.rarity), 32)
    if with_terms:
        compare_head.counted.fit_vocabulary(compare_head.extract_terms(inputs) * 3)
        compare_head.counted.weight = torch.randn(2, len(compare_head.counted.known))
    saved = {
        name.replace("counted.", "differing."): value for name, value in compare_head.state_dict().items()
    }
    if not with_terms:
        saved = {name: value for name, value in saved.items() if not name.startswith("differing.")}
    old.load_state_dict({**saved, "wide.weight": saved["wide.weight"][:, : -len(OVERLAP_FEATURES)]})
    assert torch.equal(old(hidden, inputs, table), compare_head(hidden, inputs, table))


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    """Two texts of the same words or not: nothing else tells the labels."""
    folder = tmp_path / "pairs"
    folder.mkdir()
    words = [*toy_task.OTHER, *toy_task.GOOD, *toy_task.BAD]
    for split, count in (("train", 200), ("dev", 60)):
        draw = np.random.default_rng(count)
        lines = ["sentence1\tsentence2\tlabel"]
        for _ in range(count):
            first = list(draw.choice(words, 4, replace=False))
            same = bool(draw.random() < 0.5)
            other = [word for word in words if word not in first]
            second = draw.permutation(first) if same else draw.choice(other, 4, replace=False)
            lines.append(f"{' '.join(first)}\t{' '.join(second)}\t{'same' if same else 'other'}")
        (folder / f"{split}.tsv").write_text("\n".join(lines) + "\n")
    return folder


@pytest.mark.slow
def test_the_saved_model_predicts_the_same_for_pairs(
    modern_folder: Path, electra_folder: Path, pairs: Path, tmp_path: Path
) -> None:
    for model in (modern_folder, electra_folder):
        out = tmp_path / model.name
        chosen = toy_task.settings(out, pairs, "pair", head="compare", epochs=1, learning_rate=1e-4)
        results = finetune(str(model), chosen, silent)
        assert results["eval_accuracy"] == 1.0, (
            "overlap is given, and one epoch of a small rate does not undo it"
        )
        found = predict(str(out), pairs / "dev.tsv")
        written = (out / "dev_predictions.tsv").read_text() if (out / "dev_predictions.tsv").exists() else ""
        assert len(found.values) == 60 and (not written or found.task.answer(found.values[0]) in written)
        assert "rarity" in load_file(out / "model" / "head.safetensors")
        with pytest.raises(ModelError):
            export_tuned(str(out), tmp_path / "graph")


@pytest.mark.parametrize("style", ["compare", "bag"])
@pytest.mark.slow
def test_a_resumed_training_is_bit_identical(
    modern_folder: Path, pairs: Path, sst2_folder: Path, tmp_path: Path, style: Literal["compare", "bag"]
) -> None:
    data, task = (pairs, "pair") if style == "compare" else (sst2_folder, "sst2")
    uninterrupted, interrupted = (
        toy_task.settings(tmp_path / name, data, task, head=style, epochs=2) for name in ("whole", "broken")
    )
    finetune(str(modern_folder), uninterrupted, silent)
    asked: list[int] = []
    with pytest.raises(Interrupted):
        finetune(str(modern_folder), interrupted, silent, stop=lambda: (asked.append(0), len(asked) == 5)[1])
    lines: list[str] = []
    finetune(str(modern_folder), interrupted, lines.append)
    assert any("resuming from step" in line for line in lines)
    for name in ("model.safetensors", "head.safetensors"):
        one, other = (load_file(settings.out / "model" / name) for settings in (uninterrupted, interrupted))
        assert all(torch.equal(value, other[key]) for key, value in one.items())


def test_unknown_tokens_are_part_of_a_text(modern_folder: Path, pairs: Path, tmp_path: Path) -> None:
    chosen = toy_task.settings(tmp_path / "out", pairs, "pair", head="compare", epochs=0.1)
    finetune(str(modern_folder), chosen, silent)
    saved = load_file(tmp_path / "out" / "model" / "head.safetensors")["between"]
    specials = load(str(modern_folder), "encoder").tokenizer.specials
    assert saved.nonzero().flatten().tolist() == sorted([specials.cls, specials.sep])


def test_regression_predicts_in_the_unit_of_the_data(
    modern_folder: Path, pairs: Path, tmp_path: Path
) -> None:
    for split in ("train", "dev"):
        file = pairs / f"{split}.tsv"
        file.write_text(file.read_text().replace("\tsame", "\t50").replace("\tother", "\t10"))
    out = tmp_path / "out"
    chosen = toy_task.settings(
        out,
        pairs,
        "regression",
        head="compare",
        epochs=1,
        learning_rate=1e-4,
        text_column=("sentence1", "sentence2"),
    )
    results = finetune(str(modern_folder), chosen, silent)
    assert results["eval_spearmanr"] > 0.8
    values = np.array([float(value[0]) for value in predict(str(out), pairs / "dev.tsv").values])
    assert 5 < values.min() < 20 and 40 < values.max() < 55


def test_single_texts_are_refused(modern_folder: Path, sst2_folder: Path, tmp_path: Path) -> None:
    chosen = toy_task.settings(tmp_path / "out", sst2_folder, "sst2", head="compare")
    with pytest.raises(ConfigError):
        finetune(str(modern_folder), chosen, silent)
    assert not (tmp_path / "out").exists()
