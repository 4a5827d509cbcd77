"""Scores all baselines of a fine-tuning: those without a network, and encoders that are not trained.

frozen encoder  a linear model on the encoder's states (the head `frozen`)
cosine          for pairs with scores, a line fitted to the cosine of the two texts' vectors
token vectors   for texts, a linear model on the weighted mean of static token vectors, computed as in
                model2vec: each token is encoded by itself, and frequent tokens weigh less (Arora et al. 2017)

The first two use the encoder to be fine-tuned, before training. If the setting `baseline_model` names another
encoder, all three are also computed with that one.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from electra.artifacts.finetuning import FORMER_NAMES, FinetuningFolder
from electra.exchange.load import Loaded, load
from electra.finetuning.heads import load_head
from electra.finetuning.heads.parts.contract import TrainingData
from electra.finetuning.labelled.examples import Example
from electra.finetuning.metrics.scores import Score
from electra.finetuning.runner.baselines import (
    MAX_TUNING_EXAMPLES,
    NAMES,
    Predict,
    fit_linear,
    score_splits,
    scores,
    title,
)
from electra.finetuning.runner.compared import FROZEN
from electra.finetuning.runner.dataset import Dataset
from electra.finetuning.runner.defaults import encoder_pooling, resolve, separates_texts
from electra.finetuning.runner.one_seed import build_model
from electra.finetuning.runner.over_seeds import result_name
from electra.finetuning.runner.tuned_model import choose_pooling
from electra.finetuning.runner.tuning import Finetuning, evaluate, prepare, source_of
from electra.finetuning.settings import Settings
from electra.foundation import durable
from electra.foundation.arrays import Floats
from electra.foundation.extensions import TASKS
from electra.foundation.progress import Say
from electra.inference.detection import tokenize
from electra.inference.embedding import embed
from electra.model.passes import PaddedBatch, map_rows

COSINE = "cosine of the encoder's vectors"
MANY_EXAMPLES = 5_000  # from which the baselines can take minutes
SMOOTHING = 1e-3  # the a in the token weights a / (a + frequency); model2vec's value


def baselines_needed(tuning: Finetuning, dataset: Dataset, folder: FinetuningFolder) -> bool:
    """Whether baselines are requested, apply to the task and are not all saved yet.

    There are none for question answering, for texts without answers, and for your own tasks, whose
    predictions may be of any kind.
    """
    settings = tuning.settings
    if not settings.baselines:
        return False
    if folder.baselines.is_file():
        saved, model = folder.read_baselines(), settings.baseline_model
        if model is None or any(name.endswith(_of(model)) for name in saved):
            return False
    has_unlabelled = any(example.gold is None for example in dataset.splits["train"])
    return not (has_unlabelled or tuning.task.head == "reader" or TASKS.identity(tuning.settings.task))


def tuning_of_baseline(settings: Settings, dataset: Dataset) -> Finetuning | None:
    """Returns the same fine-tuning with the encoder of the setting `baseline_model`; None without one.

    Raises:
        ModelError: the model is missing, damaged or not supported.
    """
    if settings.baseline_model is None:
        return None
    loaded = load(source_of(settings.baseline_model), "encoder")
    baseline_settings = replace(settings, head="transformers", max_length=None, pooling=None, search=None)
    pooling = encoder_pooling(loaded, dataset.task)
    return prepare(resolve(baseline_settings, dataset, loaded.config, pooling), dataset, loaded)[0]


def measure_all(
    tuning: Finetuning,
    dataset: Dataset,
    folder: FinetuningFolder,
    baseline_tuning: Finetuning | None,
    say: Say,
) -> None:
    """Computes and saves the scores of all baselines, by name, under keys such as `eval_accuracy`.

    Args:
        tuning: the fine-tuning.
        dataset: its data.
        folder: the folder to save the scores in.
        baseline_tuning: the same fine-tuning with the encoder of the setting `baseline_model`; None without
            one.
        say: gets a line at the start, because large data sets take minutes.
    """
    if (size := len(dataset.splits["train"])) >= MANY_EXAMPLES:
        say(f"measuring the baselines on {size:,} training examples; --no-baselines skips them")
    with warnings.catch_warnings():  # scikit-learn warns about convergence and small folds
        warnings.simplefilter("ignore")
        by_name = {title(name, dataset): scores(name, dataset) for name in NAMES}
        by_name |= _encoder_scores(tuning, dataset)
        if baseline_tuning is not None:
            ending = _of(str(tuning.settings.baseline_model))
            encoder_scores = _encoder_scores(baseline_tuning, dataset)
            if tuning.task.head == "classifier":
                features = static_features(baseline_tuning.start, dataset.splits["train"])
                predict = fit_linear(tuning.task, dataset.splits["train"], features)
                encoder_scores["token vectors"] = score_splits(predict, dataset)
            by_name |= {baseline + ending: values for baseline, values in encoder_scores.items()}
    values = {
        name: {key: score.value for key, score in baseline_scores.items()}
        for name, baseline_scores in by_name.items()
    }
    saved = {name: scores for name, scores in folder.read_baselines().items() if name not in FORMER_NAMES}
    durable.commit_json(folder.baselines, {**saved, **values})


def _of(baseline_model: str) -> str:
    """Returns the ending of the names of baselines with the encoder of the setting `baseline_model`."""
    return f" of {Path(baseline_model).name}"


def _encoder_scores(tuning: Finetuning, dataset: Dataset) -> dict[str, dict[str, Score]]:
    """Returns the scores of the baselines that use an encoder's states."""
    by_name: dict[str, dict[str, Score]] = {}
    if tuning.task.num_outputs == 1 and len(dataset.splits["train"][0].texts) == 2:
        predict = _fit_cosine(tuning.start, tuning.task, dataset.splits["train"])
        by_name[COSINE] = score_splits(predict, dataset)
    if tuning.settings.head != "frozen" and tuning.task.head in load_head("frozen").kinds:
        by_name[FROZEN] = _score_frozen(tuning)
    return by_name


def _score_frozen(tuning: Finetuning) -> dict[str, Score]:
    """Returns the scores of the head `frozen` on the encoder before fine-tuning."""
    head = load_head("frozen")
    start, task = tuning.start, tuning.task
    own_pooling = encoder_pooling(start, task) or head.pooling
    pooling = choose_pooling(None, task.head, start.config.architecture, own_pooling)
    num_texts = len(tuning.train.texts[0]) if tuning.train.texts else 1
    frozen = tuning.with_settings(
        head=head.name,
        epochs=0.0,
        dropout=0.0,
        pooling=pooling,
        separate_texts=separates_texts(head.name, tuning.task, num_texts),
    )
    model = build_model(frozen, 0)
    data = TrainingData(frozen.train, frozen.task, frozen.start.tokenizer, frozen.device)
    head.start(model.head, model.encoder, data)
    return {
        f"{result_name(split)}_{name}": score
        for split, read_split in frozen.splits.items()
        for name, score in evaluate(frozen, model, read_split).scores.items()
    }


def _fit_cosine(start: Loaded, task: Any, train: Sequence[Example]) -> Predict:
    """Fits a line that predicts a pair's score from the cosine of its vectors before fine-tuning.

    The line is fitted to at most MAX_TUNING_EXAMPLES pairs, and its slope is made positive.
    """

    def cosines(examples: Sequence[Example]) -> Floats:
        first_vectors, second_vectors = (
            embed(start, [example.texts[i] for example in examples]) for i in (0, 1)
        )
        norms = np.linalg.norm(first_vectors, axis=1) * np.linalg.norm(second_vectors, axis=1)
        return np.asarray((first_vectors * second_vectors).sum(1) / np.maximum(norms, 1e-12), np.float64)

    sample = train[:MAX_TUNING_EXAMPLES]
    numbers = np.array([task.gold_number(example) for example in sample])
    slope, offset = np.polyfit(cosines(sample), numbers, 1)
    return lambda examples: [np.array([abs(slope) * value + offset]) for value in cosines(examples)]


def static_features(loaded: Loaded, train: Sequence[Example]) -> Callable[[Sequence[Example]], Floats]:
    """Returns a function from N examples to features computed from static token vectors.

    The features are the text's vector [N, D] or, for pairs, both vectors, their absolute difference and their
    product [N, 4 D]; each is standardised on the training examples.
    """
    vectors: dict[int, Floats] = {}

    def ids_of(text: str) -> list[int]:
        return list(tokenize(loaded.tokenizer, text).ids)

    counts = Counter(token for example in train for text in example.texts for token in ids_of(text))
    num_tokens = max(counts.total(), 1)

    def text_vectors(texts: Sequence[str]) -> Floats:
        ids = [ids_of(text) for text in texts]
        new_tokens = sorted({token for token_ids in ids for token in token_ids} - vectors.keys())
        vectors.update(zip(new_tokens, _encode_tokens(loaded, new_tokens), strict=True))
        weights = [
            [SMOOTHING / (SMOOTHING + counts[token] / num_tokens) for token in token_ids] for token_ids in ids
        ]
        zeros = np.zeros(loaded.config.hidden_size)
        return np.array(
            [
                np.average([vectors[token] for token in token_ids], axis=0, weights=weight)
                if token_ids
                else zeros
                for token_ids, weight in zip(ids, weights, strict=True)
            ]
        )

    def compute(examples: Sequence[Example]) -> Floats:
        texts_by_column = zip(*(example.texts for example in examples), strict=True)
        vectors_by_column = [text_vectors(texts) for texts in texts_by_column]
        if len(vectors_by_column) == 1:
            return vectors_by_column[0]
        first_vectors, second_vectors = vectors_by_column
        return np.hstack(
            [
                first_vectors,
                second_vectors,
                np.abs(first_vectors - second_vectors),
                first_vectors * second_vectors,
            ]
        )

    features = compute(train)
    mean, sd = features.mean(0), features.std(0)
    return lambda examples: (compute(examples) - mean) / np.where(sd > 0, sd, 1.0)


def _encode_tokens(loaded: Loaded, tokens: Sequence[int]) -> list[Floats]:
    """Returns a vector [D] for each token: the mean state of [CLS] token [SEP]."""
    specials = loaded.tokenizer.specials
    rows = [np.array([specials.cls, token, specials.sep], np.int64) for token in tokens]

    def mean_states(batch: PaddedBatch) -> list[Floats]:
        hidden_BTD = loaded.encoder(batch.input_ids, document_ids=batch.document_ids)
        return list(hidden_BTD.double().mean(1).cpu().numpy())

    return list(map_rows(rows, mean_states, loaded.device, pad=specials.pad))
