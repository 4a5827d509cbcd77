"""Zero- and few-shot classification with the discriminator itself (Xia et al. 2022, "Prompting ELECTRA").

Each label has words that stand for it. A template makes one sentence of the text and each candidate, the
discriminator reads them all, and the candidate that it takes most for original wins: no new parameter.
Several pieces of a candidate count by the mean of their logits. Few-shot training goes on with the
pre-training task on such sentences: the right candidate is original, each wrong one is replaced.

Accuracy is the expected one: where k candidates share the highest score, a right one among them counts 1/k,
so a model that cannot tell the candidates apart scores chance. Calibrated: less each candidate's score in the
template without a text (after Zhao et al. 2021). Departure: no learning rate and no number of steps is chosen
on further labelled examples; a fixed recipe is run to its end.
"""

from __future__ import annotations

import copy
import importlib.metadata
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from electra import durable
from electra.data.tokenizer import Tokenizer
from electra.errors import ConfigError, DataError, RunFailed, RunFolderError
from electra.finetuning.features import NO_TARGET, Batch, Ids, Windows, collate, epoch_order, evaluation_order
from electra.finetuning.metrics import summary
from electra.finetuning.prompts import Filled, Prompt, PromptSettings, choose_prompt
from electra.finetuning.sequence import SequenceTask
from electra.finetuning.settings import default_learning_rate
from electra.finetuning.tasks import load_task
from electra.interop.load import Loaded, load
from electra.labelled.examples import Example
from electra.labelled.splits import find_split, limit_by_hash
from electra.labelled.tables import format_tsv
from electra.model.pair import build_encoder
from electra.model.passes import positions_at_once
from electra.model.precision import autocast, pick_device, pick_precision
from electra.seeds import key, permute
from electra.training.optimizer import AdamW
from electra.training.schedule import multiplier

RESULTS = "prompt.json"
Scores = npt.NDArray[np.float64]  # [examples, labels]: how original each candidate looks, as log-odds
ORIGINAL, REPLACED = 0, 1


class Judge(nn.Module):
    """The discriminator: log-odds [B, T] that each token was replaced."""

    def __init__(self, loaded: Loaded, dropout: float) -> None:
        super().__init__()
        self.encoder = build_encoder(replace(loaded.config, dropout=dropout, attention_dropout=dropout))
        self.encoder.load_state_dict(loaded.encoder.state_dict())
        self.head = copy.deepcopy(loaded.head)

    def forward(self, batch: Batch) -> Tensor:
        assert self.head is not None
        hidden_BTD = self.encoder(
            batch.input_ids, piece_ids=batch.piece_ids, token_type_ids=batch.token_type_ids
        )
        logits: Tensor = self.head(hidden_BTD)
        return logits


@dataclass(frozen=True)
class Data:
    task: SequenceTask
    train: tuple[Example, ...]
    dev: tuple[Example, ...]
    notes: tuple[str, ...]


def prompt(model: str, settings: PromptSettings, say: Callable[[str], None]) -> dict[str, Any]:
    """Evaluate without training, and after training on each draw of the shots; the contents of
    prompt.json.
    """
    refuse_strangers(settings.out)
    data = read_data(settings)
    task = data.task
    chosen = choose_prompt(task.name, task.labels, len(data.dev[0].texts), settings.template, settings.words)
    loaded = load(model, "discriminator")
    draws = [
        draw_shots(data.train, task, settings.shots, settings.seed + i)
        for i in range(settings.seeds if settings.shots else 0)
    ]
    length = min(settings.max_length, loaded.config.max_positions)
    dev, cut = candidates(data.dev, task, chosen, loaded.tokenizer, length)
    notes = [
        *data.notes,
        *([f"{cut} of {len(data.dev)} texts were cut to fit {length} tokens"] if cut else []),
    ]
    device = pick_device(settings.device, option="--device")
    started = time.monotonic()
    gold = np.array([task.gold_class(example) for example in data.dev])
    pad = loaded.tokenizer.specials.pad
    judge = Judge(loaded, settings.dropout).to(device)
    scores = judge_candidates(judge, dev, len(task.labels), pad, device)
    nothing = candidates(
        [replace(data.dev[0], texts=("",) * len(data.dev[0].texts))], task, chosen, loaded.tokenizer, length
    )[0]
    calibrated = scores - judge_candidates(judge, nothing, len(task.labels), pad, device)
    zero, zero_calibrated = expected_accuracy(scores, gold), expected_accuracy(calibrated, gold)
    say(
        f"{task.name}, {len(gold)} examples: accuracy {zero:.4f} without training, {zero_calibrated:.4f}"
        " calibrated"
    )
    files: dict[str, durable.Content] = {"dev.tsv": table(scores, data.dev, task)}
    rate = settings.learning_rate or default_learning_rate(loaded.config.hidden_size) / 5
    few = []
    for seed, shots in enumerate(draws, settings.seed):
        examples = candidates(shots, task, chosen, loaded.tokenizer, length)[0]
        trained = train(
            Judge(loaded, settings.dropout).to(device), examples, len(task.labels), settings, rate, seed, pad
        )
        after = judge_candidates(trained, dev, len(task.labels), pad, device)
        few.append((expected_accuracy(after, gold), ties(after)))
        files[f"dev-seed-{seed}.tsv"] = table(after, data.dev, task)
        say(f"seed {seed}: accuracy {few[-1][0]:.4f} after {settings.steps} steps on {len(shots)} examples")
    results = {
        **{
            "task": task.name,
            "task_version": task.version,
            "model": model,
            "template": chosen.template,
            "words": dict(chosen.words),
        },
        **{
            "eval_samples": len(gold),
            "chance": 1 / len(task.labels),
            "majority": float(np.bincount(gold).max() / len(gold)),
        },
        **{
            "zero_shot_accuracy": zero,
            "zero_shot_ties": ties(scores),
            "zero_shot_accuracy_calibrated": zero_calibrated,
        },
        **(few_shot(few, settings, rate) if few else {"shots": 0}),
        **{
            "max_length": length,
            "device": str(device),
            "seconds": round(time.monotonic() - started, 3),
            "notes": notes,
        },
        **{f"{name}_version": importlib.metadata.version(name) for name in ("electra", "torch")},
    }
    files[RESULTS] = durable.to_json(results)
    durable.commit_directory(settings.out, files)
    return results


def few_shot(found: Sequence[tuple[float, float]], settings: PromptSettings, rate: float) -> dict[str, Any]:
    numbers = summary([accuracy for accuracy, _ in found])
    return {
        "few_shot_accuracy": numbers["mean"],
        "few_shot_accuracy_sd": numbers["sd"],
        "few_shot_accuracy_median": numbers["median"],
        "few_shot_accuracy_by_seed": [accuracy for accuracy, _ in found],
        "few_shot_ties_by_seed": [share for _, share in found],
        **{
            "shots": settings.shots,
            "seeds": list(range(settings.seed, settings.seed + settings.seeds)),
            "steps": settings.steps,
        },
        **{"batch_size": settings.batch_size, "learning_rate": rate, "dropout": settings.dropout},
    }


def refuse_strangers(out: Path) -> None:
    """The folder is replaced as a whole, so it may hold nothing but an earlier prompting."""
    if out.exists() and not (out / RESULTS).is_file() and (not out.is_dir() or any(out.iterdir())):
        raise RunFolderError("exists and holds no prompting", where=out, fix="Choose another --out")
    ours = re.compile(rf"{re.escape(RESULTS)}|{re.escape(durable.MANIFEST)}|dev(-.*)?\.tsv|\..*")
    if strangers := sorted(path.name for path in out.glob("*") if not ours.fullmatch(path.name)):
        raise RunFolderError(
            f"holds a prompting, and other files ({strangers[0]})",
            where=out,
            fix="Move them, or choose another --out",
        )


def read_data(settings: PromptSettings) -> Data:
    columns = {
        "text_column": settings.text_column,
        "label_column": settings.label_column,
        "columns": settings.columns,
    }
    task = load_task(settings.task).configured({"head": "transformers", **columns})
    if not isinstance(task, SequenceTask) or task.kind != "classification":
        raise ConfigError(
            f"{task.name} is not a classification",
            where="--task",
            fix="Prompts choose one of several labels for a text",
        )
    if not settings.data.exists():
        raise DataError(
            "no such file or folder",
            where=settings.data,
            fix="Give --data a folder with a dev file, or the file",
        )
    dev_path: Path | None = settings.data
    train_path: Path | None = None
    if settings.data.is_dir():
        dev_path = find_split(settings.data, "dev", task.dev_files, task.formats)
        train_path = find_split(settings.data, "train", (), task.formats) if settings.shots else None
    if dev_path is None:
        raise DataError("no dev file", where=settings.data, fix="Give --data the file itself")
    if settings.shots and train_path is None:
        raise DataError(
            "no training file to draw the shots from",
            where=settings.data,
            fix="Give --data a folder with a train file",
        )
    dev = task.read(dev_path).examples
    train = task.read(train_path).examples if train_path is not None else ()
    fitted = task if task.labels and not train else task.fit(train or dev)
    notes = []
    if settings.limit and settings.limit < len(dev):
        notes.append(f"evaluated on {settings.limit} of {len(dev)} examples, chosen by hash")
        dev = limit_by_hash(dev, settings.limit)
    return Data(fitted, train, dev, tuple(notes))


def draw_shots(train: Sequence[Example], task: SequenceTask, shots: int, seed: int) -> list[Example]:
    """`shots` examples of each label, another draw for each seed."""
    classes = np.array([task.gold_class(example) for example in train])
    chosen: list[int] = []
    for number, label in enumerate(task.labels):
        members = np.flatnonzero(classes == number)
        if len(members) < shots:
            where = train[0].where.rpartition(":")[0]
            raise DataError(
                f"{len(members)} examples of {label!r}, and {shots} are asked for",
                where=where,
                fix="Lower --shots",
            )
        places = permute(np.arange(len(members)), len(members), key(seed, "prompt/shots", number))
        chosen += members[places < shots].tolist()
    return [train[i] for i in sorted(chosen)]


def candidates(
    examples: Sequence[Example], task: SequenceTask, prompt: Prompt, tokenizer: Tokenizer, max_length: int
) -> tuple[Windows, int]:
    """A window for each label of each example, in that order; and how many examples had to be cut.

    A window's targets are ORIGINAL or REPLACED at the candidate's tokens, and nothing elsewhere.
    """
    ids: list[Ids] = []
    targets: list[Ids] = []
    cut = 0
    for example in examples:
        gold = task.gold_class(example)
        shortened = False
        for number, words in enumerate(prompt.words.values()):
            kept, places, whole = encode(tokenizer, prompt.fill(example.texts, words), max_length)
            target = np.full(len(kept), NO_TARGET, np.int64)
            target[places] = ORIGINAL if number == gold else REPLACED
            ids.append(kept)
            targets.append(target)
            shortened |= not whole
        cut += shortened
    types = [np.zeros(len(row), np.int64) for row in ids]
    return (
        Windows(
            ids, types, np.repeat(np.arange(len(examples)), len(task.labels)), targets, token_targets=True
        ),
        cut,
    )


def encode(tokenizer: Tokenizer, filled: Filled, max_length: int) -> tuple[Ids, Ids, bool]:
    """(ids, the places of the candidate's tokens, whether nothing was cut). Tokens go from the end of the
    longer text.
    """
    whole = tokenizer.encode(filled.sentence)

    def inside(span: tuple[int, int]) -> list[int]:
        tokens = zip(whole.offsets, whole.special, strict=True)
        return [
            i
            for i, ((start, end), special) in enumerate(tokens)
            if not special and start < span[1] and end > span[0]
        ]

    label = inside(filled.label)
    words = filled.sentence[slice(*filled.label)]
    if not label or tokenizer.specials.unk in [whole.ids[i] for i in label]:
        raise ConfigError(
            f"the model's vocabulary cannot write {words!r}",
            where="--words",
            fix="Use other words for this label",
        )
    texts = [inside(span) for span in filled.texts]
    gone: set[int] = set()
    while len(whole.ids) - len(gone) > max_length:
        longest = max(texts, key=len)
        if not longest:
            raise ConfigError(
                f"the template alone has more than {max_length} tokens", where="--max-length", fix="Raise it"
            )
        gone.add(longest.pop())
    kept = [i for i in range(len(whole.ids)) if i not in gone]
    places = np.flatnonzero(np.isin(kept, label))
    return np.array(whole.ids, np.int64)[kept], places, not gone


def at_candidates(logits_BT: Tensor, targets_BT: Tensor) -> tuple[Tensor, Tensor]:
    """(mean logit over the candidate's tokens, ORIGINAL or REPLACED) of each window."""
    there = targets_BT != NO_TARGET
    means_B = (logits_BT.float() * there).sum(1) / there.sum(1)
    return means_B, targets_BT.amax(1)


@torch.inference_mode()
def judge_candidates(
    judge: nn.Module, windows: Windows, num_labels: int, pad: int, device: torch.device
) -> Scores:
    judge.eval()
    scores = np.zeros(len(windows))
    for index in evaluation_order(windows.lengths(), positions_at_once(device)):
        batch = collate(windows, index, pad, device)
        assert batch.targets is not None
        scores[index] = -at_candidates(judge(batch), batch.targets)[0].cpu().numpy()
    if not np.isfinite(scores).all():
        raise RunFailed(
            "the model's outputs are not numbers",
            fix="Its weights are damaged, or --learning-rate is too high",
        )
    return scores.reshape(-1, num_labels)


def train(  # noqa: PLR0917
    judge: Judge,
    windows: Windows,
    num_labels: int,
    settings: PromptSettings,
    rate: float,
    seed: int,
    pad: int,
) -> Judge:
    """Replaced token detection on the candidates of the shots. AdamW, no weight decay, 10 % warm-up, then
    down to 0.
    """
    device = next(judge.parameters()).device
    precision = pick_precision("auto", device)
    optimizer = AdamW(judge.parameters(), lr=0.0, betas=(0.9, 0.999), eps=1e-6, weight_decay=0.0)
    lengths = windows.lengths().reshape(-1, num_labels).max(1)
    order: list[Ids] = []
    judge.train()
    for step in range(settings.steps):
        if not order:
            order = epoch_order(lengths, settings.batch_size, seed, step)
        members = order.pop()
        batch = collate(windows, (members[:, None] * num_labels + np.arange(num_labels)).ravel(), pad, device)
        assert batch.targets is not None
        torch.manual_seed(key(seed, "prompt/dropout", step))
        with autocast(device, precision):
            logits = judge(batch)
        means_B, wanted_B = at_candidates(logits, batch.targets)
        loss = F.binary_cross_entropy_with_logits(means_B, wanted_B.float())
        for parameter in judge.parameters():
            parameter.grad = None
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(judge.parameters(), 1.0)
        for group in optimizer.param_groups:
            group["lr"] = rate * multiplier(step, settings.steps, 0.1, "linear")
        optimizer.step()
    return judge


def winners(scores: Scores) -> npt.NDArray[np.bool_]:
    """Which candidates have an example's highest score."""
    highest: npt.NDArray[np.bool_] = scores == scores.max(1, keepdims=True)
    return highest


def expected_accuracy(scores: Scores, gold: npt.NDArray[np.int64]) -> float:
    """Of drawing one of the winners at random."""
    top = winners(scores)
    return float((top[np.arange(len(gold)), gold] / top.sum(1)).mean())


def ties(scores: Scores) -> float:
    """Share of the examples with more than one winner."""
    return float((winners(scores).sum(1) > 1).mean())


def table(scores: Scores, examples: Sequence[Example], task: SequenceTask) -> bytes:
    rows = [("id", "label", *(f"score({label})" for label in task.labels))]
    for example, row in zip(examples, scores, strict=True):
        rows.append((example.id, task.labels[int(row.argmax())], *(format(value, ".9g") for value in row)))
    return format_tsv(rows)
