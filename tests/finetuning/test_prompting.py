"""Prompting the discriminator: where candidates stand, what wins, what is learned from a few examples."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from electra.commands.cli.main import main
from electra.exchange.load import load
from electra.finetuning import one_seed
from electra.finetuning.features import NO_TARGET, Batch, Tokens, Windows, collate
from electra.finetuning.heads import CandidateHead
from electra.finetuning.labelled.examples import Example
from electra.finetuning.labelled.splits import limit_by_hash
from electra.finetuning.prompt_settings import PromptSettings
from electra.finetuning.prompt_task import (
    ORIGINAL,
    REPLACED,
    CandidateScores,
    PromptTask,
    encode,
    expected_accuracy,
    ties,
)
from electra.finetuning.prompt_templates import PROMPTS, Prompt, choose_prompt
from electra.finetuning.prompting import draw_shots, prepare, prompt, read_data
from electra.finetuning.settings import default_learning_rate
from electra.finetuning.tasks import load_task
from electra.finetuning.text_class import TextClassification
from electra.finetuning.tuned_model import TunedModel
from electra.finetuning.tuning import run_model
from electra.foundation import durable
from electra.foundation.errors import ElectraError, Interrupted, RunFolderError
from electra.testing import toy_task

WORDS = ("positive=bright", "negative=dull")
TEMPLATE = "{text} was {label}."
CPU = torch.device("cpu")


def silent(line: str) -> None:
    pass


def sst2() -> TextClassification:
    task = load_task("sst2")
    assert isinstance(task, TextClassification)
    return task


def examples_in(folder: Path, split: str = "dev") -> tuple[Example, ...]:
    return sst2().read(folder / f"{split}.tsv").examples


def chosen(folder: Path, out: Path, **changes: object) -> PromptSettings:
    options: dict[str, object] = {
        "task": "sst2",
        "data": folder,
        "out": out,
        "template": TEMPLATE,
        "words": WORDS,
        "device": "cpu",
    }
    return PromptSettings(**(options | changes))  # type: ignore[arg-type]


def prompted(negative: str = "dull", positive: str = "bright") -> PromptTask:
    return PromptTask.of(sst2(), Prompt(TEMPLATE, {"negative": negative, "positive": positive}))


def scores_of(network: nn.Module, task: PromptTask, windows: Windows, count: int) -> CandidateScores:
    outputs, _ = run_model(network, windows, task, pad=0, device=CPU)  # type: ignore[arg-type]
    return np.stack(task.predict(outputs, windows, [None] * count))  # type: ignore[list-item]


class Consistent(nn.Module):
    """Takes every token of a sentence for replaced that has good words and bad ones."""

    per_token = False

    def __init__(self, good: list[int], bad: list[int]) -> None:
        super().__init__()
        self.good, self.bad = torch.tensor(good), torch.tensor(bad)
        self.head = CandidateHead(nn.Identity())

    def forward(self, batch: Batch) -> Tensor:
        mixed = torch.isin(batch.input_ids, self.good).any(1) & torch.isin(batch.input_ids, self.bad).any(1)
        return torch.as_tensor(
            self.head((10.0 * mixed.float() - 5.0).unsqueeze(1).expand(batch.input_ids.shape), batch)
        )


@pytest.mark.parametrize("words", [("dull", "bright"), ("dull and grim", "bright")])
def test_a_discriminator_that_knows_which_words_go_together_is_always_right(
    words: tuple[str, str], sst2_folder: Path, tmp_path: Path
) -> None:
    tokenizer, examples, task = toy_task.tokenizer(tmp_path), examples_in(sst2_folder), prompted(*words)
    windows = task.featurize(examples, Tokens(tokenizer), 40)
    groups = [
        [index for word in group if (index := tokenizer.token_to_id(word)) is not None]
        for group in (toy_task.GOOD, toy_task.BAD)
    ]
    gold = np.array([sst2().gold_class(example) for example in examples])
    scores = scores_of(Consistent(*groups), task, windows, len(examples))
    assert windows.truncated == 0 and expected_accuracy(scores, gold) == 1.0 and ties(scores) == 0.0
    contrary = scores_of(Consistent(groups[0][:0], groups[1]), task, windows, len(examples))
    assert (
        expected_accuracy(contrary, gold) == 0.5 and ties(contrary) == 1.0
    )  # it never objects: all candidates tie


def test_several_pieces_count_by_the_mean_of_their_logits(electra_folder: Path, sst2_folder: Path) -> None:
    loaded, examples = load(electra_folder), examples_in(sst2_folder)[:6]
    task = prompted(positive="bright and fine")
    windows = task.featurize(examples, Tokens(loaded.tokenizer), 24)
    scores = scores_of(TunedModel(loaded.encoder, CandidateHead(loaded.head)), task, windows, 6)
    for example, row in zip(examples, scores, strict=True):
        for label, score in zip(("dull", "bright and fine"), row, strict=True):
            ids = loaded.tokenizer.encode(f"{example.texts[0]} was {label}.").ids
            logits = loaded.logits(torch.tensor([ids]))[0]
            there = slice(len(ids) - 2 - len(label.split()), len(ids) - 2)  # before the full stop and [SEP]
            assert score == pytest.approx(-logits[there].mean().item(), abs=1e-5)


def test_targets_stand_at_the_candidates_only(sst2_folder: Path, tmp_path: Path) -> None:
    tokenizer, examples = toy_task.tokenizer(tmp_path), examples_in(sst2_folder)[:4]
    windows = prompted().featurize(examples, Tokens(tokenizer), 40)
    assert windows.targets is not None and list(windows.example) == [0, 0, 1, 1, 2, 2, 3, 3]
    for number, (ids, target) in enumerate(zip(windows.input_ids, windows.targets, strict=True)):
        (place,) = np.flatnonzero(target != NO_TARGET)
        assert (
            tokenizer.id_to_token(ids[place]) == ("dull", "bright")[number % 2]
            and tokenizer.id_to_token(ids[place + 1]) == "."
        )
        gold = sst2().gold_class(examples[number // 2])
        assert target[place] == (ORIGINAL if gold == number % 2 else REPLACED)
    batch = collate(windows, np.arange(8), tokenizer.specials.pad)
    assert batch.targets is not None and int((batch.targets != NO_TARGET).sum()) == 8


def test_sentences_of_the_published_prompts() -> None:
    assert PROMPTS["sst-2"].fill(("a fine film .",), "great").sentence == "a fine film . It was great."
    filled = PROMPTS["mnli"].fill(("He left.", "He is gone."), "Maybe")
    assert (
        filled.sentence == "He left? Maybe, He is gone." and filled.sentence[slice(*filled.label)] == "Maybe"
    )
    assert [filled.sentence[slice(*span)] for span in filled.texts] == ["He left", "He is gone."]
    assert PROMPTS["mnli"].fill(("", ""), "Yes").sentence == "? Yes, "
    for name, known in PROMPTS.items():
        task = load_task(name)
        assert choose_prompt(name, task.label_names, len(task.texts[0]), None, ()) == known and list(
            known.words
        ) == list(task.label_names)


def test_what_is_too_long_is_cut_off_the_longer_text(tmp_path: Path) -> None:
    tokenizer = toy_task.tokenizer(tmp_path)
    filled = Prompt("{text}. {label}, {text2}", {}).fill(("red old red old red", "slow town"), "fine")
    ids, places, whole = encode(tokenizer, filled, 10)
    kept = [tokenizer.id_to_token(i) for i in ids]
    assert (
        kept == ["[CLS]", "red", "old", "red", ".", "fine", "[UNK]", "slow", "town", "[SEP]"]
        and list(places) == [5]
        and not whole
    )
    filled = Prompt("{text}. {label}, {text2}", {}).fill(("red old", "slow town new music my"), "fine")
    kept = [tokenizer.id_to_token(i) for i in encode(tokenizer, filled, 10)[0]]
    assert kept == [
        "[CLS]",
        "red",
        "old",
        ".",
        "fine",
        "[UNK]",
        "slow",
        "town",
        "new",
        "[SEP]",
    ]  # from the end of the second one
    with pytest.raises(ElectraError, match="the template alone has more than 4 tokens"):
        encode(tokenizer, filled, 4)


def test_shots_are_so_many_of_each_label_and_others_for_each_seed(sst2_folder: Path) -> None:
    train = examples_in(sst2_folder, "train")
    draws = [draw_shots(train, sst2(), 8, seed) for seed in (0, 1, 0)]
    for draw in draws:
        assert (
            sorted(str(example.gold) for example in draw) == ["0"] * 8 + ["1"] * 8
            and len({example.id for example in draw}) == 16
        )
    assert draws[0] == draws[2] != draws[1]


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["electra", "modern"])
def test_few_shots_teach_the_discriminators_own_head(
    architecture: str, request: pytest.FixtureRequest, sst2_folder: Path, tmp_path: Path
) -> None:
    model, lines = request.getfixturevalue(f"{architecture}_folder"), list[str]()
    settings = chosen(
        sst2_folder, tmp_path / "out", shots=32, seeds=2, steps=100, learning_rate=3e-3, dropout=0.0
    )
    results = prompt(str(model), settings, lines.append)
    assert results == json.loads((tmp_path / "out" / "prompt.json").read_text())
    by_seed = results["few_shot_accuracy_by_seed"]
    assert results["learning_rate"] == 3e-3
    assert len(by_seed) == 2 and min(by_seed) > 0.85 > results["zero_shot_accuracy"]
    assert results["few_shot_accuracy"] == pytest.approx(np.mean(by_seed))
    assert results["few_shot_accuracy_sd"] == pytest.approx(np.std(by_seed, ddof=1))
    rows = [line.split("\t") for line in (tmp_path / "out/seeds/seed-0/dev.tsv").read_text().splitlines()]
    gold = [("negative", "positive")[int(str(example.gold))] for example in examples_in(sst2_folder)]
    assert np.mean([row[1] == label for row, label in zip(rows[1:], gold, strict=True)]) == pytest.approx(
        by_seed[0]
    )
    again = prompt(str(model), replace(settings, out=tmp_path / "one", seed=1, seeds=1), silent)
    assert again["few_shot_accuracy_sd"] is None and again["few_shot_accuracy_by_seed"] == by_seed[1:]
    seconds = [(tmp_path / out / "seeds/seed-1/dev.tsv").read_text() for out in ("out", "one")]
    assert seconds[0] == seconds[1]  # a draw is a function of its seed
    assert any("seed 1  dev: accuracy" in line for line in lines)


def test_an_update_shows_all_candidates_of_its_examples(
    electra_folder: Path, sst2_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded, settings = load(electra_folder), chosen(sst2_folder, tmp_path, shots=4, steps=6, batch_size=4)
    data = read_data(settings)
    tuning, _ = prepare(settings, data, prompted(), loaded)
    shots = draw_shots(data.train, sst2(), 4, 0)
    train = prompted().featurize(shots, Tokens(loaded.tokenizer), 24, train=True)
    batches, before = list[tuple[int, ...]](), loaded.head.prediction.weight.clone()  # type: ignore[union-attr, operator]
    monkeypatch.setattr(
        one_seed,
        "collate",
        lambda w, index, *rest: (batches.append(tuple(index)), collate(w, index, *rest))[1],
    )
    for seed in (0, 1):
        one_seed.train_seed(replace(tuning, train=train), seed, tmp_path / "checkpoints")
    assert len(batches) == 12 and batches[:6] != batches[6:]
    assert all(index[::2] == tuple(i - 1 for i in index[1::2]) for index in batches)
    assert sorted(i for index in batches[:2] for i in index) == list(
        range(16)
    )  # an epoch shows every shot once
    assert torch.equal(before, loaded.head.prediction.weight)  # type: ignore[union-attr, arg-type]


def test_a_stopped_prompting_is_resumed_and_ends_in_the_same_bits(
    electra_folder: Path, sst2_folder: Path, tmp_path: Path
) -> None:
    settings, calls = (
        chosen(sst2_folder, tmp_path / "whole", shots=4, seeds=2, steps=8, limit_eval=10),
        list[int](),
    )
    whole = prompt(str(electra_folder), settings)
    with pytest.raises(Interrupted):
        prompt(
            str(electra_folder),
            replace(settings, out=tmp_path / "broken"),
            stop=lambda: (calls.append(0), len(calls) == 11)[1],
        )
    assert (tmp_path / "broken/seeds/seed-0").is_dir() and not (tmp_path / "broken/prompt.json").exists()
    with pytest.raises(RunFolderError, match="holds another prompting: shots was 4, now 5"):
        prompt(str(electra_folder), replace(settings, out=tmp_path / "broken", shots=5))
    lines: list[str] = []
    broken = prompt(str(electra_folder), replace(settings, out=tmp_path / "broken"), lines.append)
    assert any("resuming from step 3" in line for line in lines)
    assert {**broken, "seconds": 0} == {**whole, "seconds": 0}
    for name in ("dev.tsv", "seeds/seed-0/dev.tsv", "seeds/seed-1/dev.tsv"):
        assert (tmp_path / "broken" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_a_model_that_cannot_tell_scores_chance_and_says_that_all_tie(
    electra_folder: Path, sst2_folder: Path, tmp_path: Path
) -> None:
    loaded = load(electra_folder)
    judge = TunedModel(loaded.encoder, CandidateHead(loaded.head))
    for parameter in judge.head.parameters():
        nn.init.zeros_(parameter)
    examples = examples_in(sst2_folder)[:31]
    windows = prompted().featurize(examples, Tokens(loaded.tokenizer), 24)
    scores = scores_of(judge, prompted(), windows, 31)
    gold = np.array([sst2().gold_class(example) for example in examples])
    assert expected_accuracy(scores, gold) == 0.5 and ties(scores) == 1.0
    three = np.array([[1.0, 1.0, 0.0], [2.0, 2.0, 2.0], [0.0, 1.0, 0.0]])
    assert expected_accuracy(three, np.array([1, 0, 0])) == pytest.approx((1 / 2 + 1 / 3 + 0) / 3) and ties(
        three
    ) == pytest.approx(2 / 3)


def test_calibration_takes_off_what_a_candidate_scores_without_a_text(
    electra_folder: Path, sst2_folder: Path, tmp_path: Path
) -> None:
    results = prompt(str(electra_folder), chosen(sst2_folder, tmp_path / "out"), silent)
    rows = [line.split("\t") for line in (tmp_path / "out" / "dev.tsv").read_text().splitlines()[1:]]
    scores = np.array([[float(cell) for cell in row[2:]] for row in rows])
    loaded = load(electra_folder)
    empty = []
    for word in ("dull", "bright"):
        ids = loaded.tokenizer.encode(f" was {word}.").ids
        empty.append(
            -loaded.logits(torch.tensor([ids]))[0, ids.index(loaded.tokenizer.token_to_id(word))].item()
        )
    gold = np.array([sst2().gold_class(example) for example in examples_in(sst2_folder)])
    assert results["zero_shot_accuracy"] == pytest.approx((scores.argmax(1) == gold).mean())
    assert results["zero_shot_accuracy_calibrated"] == pytest.approx(
        ((scores - empty).argmax(1) == gold).mean()
    )
    assert "few_shot_accuracy" not in results and results["chance"] == 0.5 and results["majority"] == 0.5


WRONG: list[tuple[dict[str, object], str]] = [
    ({"template": "{text} was fine."}, "a template of this task has {text}, {label}, each once"),
    ({"template": "{text} {text} {label}"}, "each once"),
    ({"template": "{text.__class__} {label}"}, "each once"),
    ({"words": ("positive",)}, "'positive' is not LABEL=WORDS"),
    ({"words": ("good=fine",)}, "the task has no label 'good'"),
    ({"words": ("positive=dull", "negative=dull")}, "two labels have the same words"),
    ({"words": ("positive=marvellous", "negative=dull")}, "vocabulary cannot write 'marvellous'"),
    ({"task": "stsb"}, "sts-b is not a classification"),
    ({"task": "squad"}, "squad is not a classification"),
    ({"task": "wnli", "template": None, "words": ()}, "no prompt is known for the task wnli"),
    ({"shots": 1000}, "examples of 'negative', fewer than `shots` 1000"),
    ({"data": Path("nowhere")}, "no such file or folder"),
]


@pytest.mark.parametrize(("changes", "says"), WRONG, ids=[row[1][:30] for row in WRONG])
def test_wrong_prompts_are_told_in_one_line(
    changes: dict[str, object], says: str, electra_folder: Path, sst2_folder: Path, tmp_path: Path
) -> None:
    folder = wnli(tmp_path) if changes.get("task") == "wnli" else sst2_folder
    with pytest.raises(ElectraError) as caught:
        prompt(str(electra_folder), chosen(folder, tmp_path / "out", **changes), silent)
    assert says in str(caught.value) and "\n" not in str(caught.value) and not (tmp_path / "out").exists()


def wnli(tmp_path: Path) -> Path:
    (tmp_path / "wnli").mkdir()
    (tmp_path / "wnli" / "dev.tsv").write_text("sentence1\tsentence2\tlabel\nred\told\t0\nred\tslow\t1\n")
    return tmp_path / "wnli"


def test_a_folder_of_other_things_is_refused(electra_folder: Path, sst2_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(RunFolderError, match=r"holds files that are not a prompting \(mine.txt\)"):
        prompt(str(electra_folder), chosen(sst2_folder, tmp_path), silent)
    durable.commit_directory(tmp_path / "old", {"prompt.json": b'{"task": "sst-2"}', "dev.tsv": b"id\n"})
    with pytest.raises(RunFolderError, match="holds another prompting: prompting version was 1, now 2"):
        prompt(str(electra_folder), chosen(sst2_folder, tmp_path / "old"), silent)
    assert sorted(path.name for path in (tmp_path / "old").iterdir() if path.name[0] != ".") == [
        *("dev.tsv", "manifest.json", "prompt.json")
    ]


def test_from_the_command_line(
    electra_folder: Path, sst2_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [
        "prompt",
        str(electra_folder),
        "--task",
        "sst2",
        "--data",
        str(sst2_folder / "dev.tsv"),
        "--out",
        str(tmp_path / "out"),
    ]
    assert (
        main(
            [
                *arguments,
                "--template",
                TEMPLATE,
                "--words",
                WORDS[0],
                "--words",
                WORDS[1],
                "--limit-eval",
                "20",
                "--device",
                "cpu",
            ]
        )
        == 0
    )
    told = capsys.readouterr().out
    assert "sst-2, 20 examples: accuracy" in told and "chance 0.5000" in told
    assert json.loads((tmp_path / "out" / "prompt.json").read_text())["words"] == {
        "negative": "dull",
        "positive": "bright",
    }
    judged = [line.split("\t")[0] for line in (tmp_path / "out" / "dev.tsv").read_text().splitlines()[1:]]
    assert (
        judged
        == [example.id for example in limit_by_hash(examples_in(sst2_folder), 20)]
        != [str(i) for i in range(20)]
    )
    assert main([*arguments, "--shots", "-1"]) == 2


def test_few_shots_learn_at_a_fifth_of_the_rate_of_fine_tuning(
    electra_folder: Path, sst2_folder: Path, tmp_path: Path
) -> None:
    results = prompt(
        str(electra_folder),
        chosen(sst2_folder, tmp_path / "out", shots=2, seeds=1, steps=1, limit_eval=4),
        silent,
    )
    assert results["learning_rate"] == pytest.approx(default_learning_rate(32) / 5)
