"""The model card: the README.md of an exported folder, generated from the run's records.

The recipe comes from run.toml, the description of the text from audit.json, and metrics from the last
evaluation in metrics.jsonl. The licence and the language of the text are unknown and left to the author.
"""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from electra.artifacts.run import RunFolder
from electra.data.hub_files import could_be_hub_name, split_revision
from electra.exchange.configs import CLASSES, LOG_ODDS
from electra.exchange.names import Kind
from electra.foundation import durable
from electra.foundation.config import flatten, write_toml
from electra.foundation.errors import ElectraError

KIND_SENTENCES = {
    "discriminator": (
        "It marks the tokens of a text that look replaced; without its head it is the encoder to fine-tune."
    ),
    "generator": "It is the small masked language model that made the replacements; it fills `[MASK]`.",
    "classifier": (
        "It is a pre-trained encoder fine-tuned to give a text, or a pair of texts, a label or a number."
    ),
    "tagger": (
        "It is a pre-trained encoder fine-tuned to label the words of a text: a word's label is that of its"
        ' first token (in a pipeline: aggregation_strategy="first").'
    ),
    "reader": "It is a pre-trained encoder fine-tuned to find the answer to a question in a text.",
}
# kind -> variable in the example code, attribute of the output in transformers; others have logits
EXAMPLE_OUTPUTS = {
    "reader": ("starts", "start_logits  # and end_logits"),
    "encoder": ("states", "last_hidden_state"),
}
ENERGIES = (
    "A text encoder pre-trained as an energy-based cloze model"
    " ([Electric](https://arxiv.org/abs/2012.08561)). One pass gives an energy for each token:"
    " approximately the negative log-probability of the token given the others. Without its head it is the"
    " encoder to fine-tune."
)
# kind -> pipeline of transformers
FINETUNED_PIPELINES = {
    "classifier": "text-classification",
    "tagger": "token-classification",
    "reader": "question-answering",
}
PIPELINES = {"generator": "fill-mask", **FINETUNED_PIPELINES}
# the metrics of a pre-trained network that the front matter lists
HEADLINE_METRICS = (
    "auc",
    "average_precision",
    "gain",
    "f1",
    "generator_accuracy",
    "generator_loss",
    "discriminator_loss",
)


@dataclass(frozen=True)
class Card:
    """The contents of a model card; empty parts are omitted."""

    name: str
    # the kind of head, or encoder if it has none
    kind: Kind
    # the transformers class that loads the folder
    architecture: str = ""
    # the task, for a fine-tuned head that transformers has no class for
    task: str = ""
    # bits of a weight, if the weights are integers, which transformers does not read
    bits: int | None = None
    # the objective that trained a full-size masked language model
    objective: str = ""
    # sentences after the description
    summary: str = ""
    # label -> value, in order (of a run: steps, tokens, FLOPs, seconds)
    training: dict[str, Any] = field(default_factory=dict)
    # metric -> value on held-out text or examples
    metrics: dict[str, float] = field(default_factory=dict)
    # the data of the metrics
    measured_on: str = "held-out documents"
    # the audit of the training text
    audit: dict[str, Any] = field(default_factory=dict)
    # the resolved recipe, as TOML
    recipe: str = ""
    # the model that this one started from
    base_model: str = ""
    # meaning of a discriminator's logits
    output: str = LOG_ODDS
    # lowest P(replaced) at which `detect` marks a word
    threshold: float | None = None


def card_of_run(run: Path, kind: Kind, step: int | None = None, averaged: Sequence[int] = ()) -> Card:
    """Makes the card of a network in the run folder `run`.

    Args:
        run: the run folder.
        kind: discriminator, generator or encoder: a discriminator whose head was not trained.
        step: the step of the checkpoint (None: the last).
        averaged: the steps of averaged checkpoints. The card of an average has no metrics, because they were
            measured on single checkpoints.

    Raises:
        ConfigError: run.toml is not valid TOML.
        RunFolderError: run.toml is empty.
    """
    folder = RunFolder(run)
    ledger = folder.ledger().until(step)
    last_row = ledger.last("train", "eval") or {}
    # A card is published: paths and the command line of the run are private.
    record = {
        name: table
        for name, table in (folder.record if folder.exists() else {}).items()
        if name != "environment"
    }
    network = "discriminator" if kind == "encoder" else kind
    started_from = str(record.get("identity", {}).get(f"initial_{network}", ""))
    scores = {} if averaged or not ledger.evals else ledger.evals[-1].values
    training = {
        "steps": last_row.get("step") if step is None else step,
        "tokens": last_row.get("tokens"),
        "FLOPs": last_row.get("flops"),
        "seconds": last_row.get("seconds"),
    }
    try:
        audit = durable.read_json(folder.audit, ElectraError)
    except ElectraError:  # a run from a store has none
        audit = {}
    return Card(
        name=f"{run.resolve().name}-{kind}",
        kind=kind,
        objective=(
            record.get("objective", {}).get("name", "")
            if kind == "encoder" or ("generator" in record and "discriminator" not in record)
            else ""
        ),
        summary=(
            f"Its weights are the mean over {len(averaged)} checkpoints, from step {averaged[0]:,} to"
            f" step {averaged[-1]:,}."
            if averaged
            else ""
        ),
        training={key: value for key, value in training.items() if value is not None},
        metrics={key: value for key, value in scores.items() if value is not None},
        audit=audit if isinstance(audit, dict) else {},
        recipe=write_toml(record),
        base_model=split_revision(started_from)[0] if _is_hub_name(started_from) else "",
        output=record.get("identity", {}).get("output", LOG_ODDS) if kind == "discriminator" else LOG_ODDS,
        threshold=_probability(scores.get("best_f1_threshold")) if kind == "discriminator" else None,
    )


def _is_hub_name(name: str) -> bool:
    """Whether a name refers to the hub: "runs/mine" could, unless there is such a path."""
    return could_be_hub_name(name) and not Path(name).exists()


def _probability(value: float | None) -> float | None:
    return value if value is not None and 0 <= value <= 1 else None


def card_of_language_model(run: Path, threshold: float | None) -> Card:
    """Makes the card of the masked language model that shares the encoder of a run's discriminator.

    `threshold` is the lowest P(replaced) at which `detect` marks a word (None: not stated). Raises
    ConfigError if run.toml is missing or not valid TOML, RunFolderError if it is empty.
    """
    card = card_of_run(run, "generator")
    return replace(
        card,
        name=f"{run.resolve().name}-language-model",
        objective=RunFolder(run).record.get("objective", {}).get("name", ""),
        metrics={name: value for name, value in card.metrics.items() if name.startswith("mlm_")},
        threshold=threshold,
    )


def render(card: Card) -> str:
    """Renders README.md: YAML front matter for the hub, then Markdown."""
    # Lists, such as those of file names, are omitted.
    audit = {
        name.replace("_", " "): value for name, value in flatten(card.audit) if not isinstance(value, list)
    }
    parts = [
        f"---\n{_front_matter(card)}---",
        f"# {_plain(card.name)}",
        _description(card),
        card.summary,
        _usage(card),
        _section("Training", _table(card.training)),
        _section(
            "Evaluation",
            (
                f"Measured on {card.measured_on}, which were not used for training.\n\n{_table(card.metrics)}"
                if card.metrics
                else ""
            ),
        ),
        _section("Training text", _table(audit)),
        _section("Recipe", _fenced("toml", card.recipe.strip()) if card.recipe else ""),
        _section(
            "Before you publish it",
            "Add the licence and the language to the header of this file, and state the source of the text.",
        ),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _description(card: Card) -> str:
    if card.output != LOG_ODDS:
        return ENERGIES
    if card.kind == "encoder":
        origin = f" pre-trained with the objective `{card.objective}`" if card.objective else ""
        return f"A text encoder{origin}, without a head: to fine-tune, or to turn texts into vectors."
    if card.task:
        origin = f"and fine-tuned for {card.task}, with a head that transformers has no class for."
    elif card.objective:
        use = "It fills `[MASK]`; without its head it is the encoder to fine-tune."
        origin = f"as a masked language model (objective `{card.objective}`). {use}"
    else:
        origin = (
            "by replaced token detection ([ELECTRA](https://arxiv.org/abs/2003.10555))."
            f" {KIND_SENTENCES.get(card.kind, '')}"
        )
    return f"A text encoder pre-trained {origin}"


def _front_matter(card: Card) -> str:
    from huggingface_hub import EvalResult, ModelCardData

    detects = card.kind != "encoder"
    results = [
        EvalResult(
            task_type=FINETUNED_PIPELINES.get(card.kind, "replaced-token-detection"),
            dataset_type="text",
            dataset_name=card.measured_on,
            metric_type=metric,
            metric_value=round(float(value), 6),
        )
        for metric, value in card.metrics.items()
        if card.kind in FINETUNED_PIPELINES or (detects and metric in HEADLINE_METRICS)
    ]
    data = ModelCardData(
        library_name="transformers",
        pipeline_tag=PIPELINES.get(card.kind),
        tags=["electra", *["replaced-token-detection"][: int(detects)], card.kind],
        base_model=card.base_model or None,
        model_name=card.name if results else None,
        eval_results=results or None,
    )
    return str(data.to_yaml()).strip() + "\n"


def _usage(card: Card) -> str:
    """Returns the section on use, without an example text: cards are published, and texts may be private."""
    if not card.architecture:
        return ""
    name_line = f"name = {json.dumps(card.name)}  # the path of this folder, or its name on the hub"
    is_deberta_discriminator = (
        card.kind == "discriminator" and card.architecture == CLASSES["deberta"]["encoder"]
    )
    if card.bits is not None:
        code = f"import electra\n\n{name_line}\nmodel = electra.load(name)"
        note = f"The weights are {card.bits}-bit integers"
        note += "; `electra import` writes a copy that transformers loads."
        return _section("Use", f"{_fenced('python', code)}\n\n{note}")
    if card.task or is_deberta_discriminator:
        if card.task:
            code = f'{name_line}\nanswers = electra.predict(name, "new.csv").records()'
        else:
            code = f"{name_line}\nmodel = electra.load(name)\n"
            code += 'model.detect(["The chef ate the meal."])[0].marked  # the words that look replaced'
        note = f"\n\n`{card.architecture}` of transformers loads the encoder, without the head."
        return _section("Use", _fenced("python", f"import electra\n\n{code}") + note)
    output, attribute = EXAMPLE_OUTPUTS.get(card.kind, ("logits", "logits"))
    code = (
        f"from transformers import AutoTokenizer, {card.architecture}\n\n"
        f"{name_line}\n"
        "tokenizer = AutoTokenizer.from_pretrained(name)\n"
        f"model = {card.architecture}.from_pretrained(name)\n"
        f'{output} = model(**tokenizer("...", return_tensors="pt")).{attribute}'
    )
    return _section("Use", _fenced("python", code) + _advice(card))


def _advice(card: Card) -> str:
    if card.kind != "discriminator":
        return ""
    is_modern = card.architecture.startswith("ModernBert")
    logit = "`logits[..., 1]`" if is_modern else "A logit"
    if card.output != LOG_ODDS:
        advice = (
            f"\n\n{logit} is the energy of its token: lower means more probable in its context. It is not"
            " the log-odds of replacement."
        )
    elif is_modern:
        advice = (
            "\n\nThe logits of a token are 0 for `ORIGINAL` and x for `REPLACED`: x above 0 means more likely"
            ' replaced than original. `pipeline("token-classification", name)` gives the probabilities.'
        )
    else:
        advice = "\n\nA logit above 0 means that the token is more likely replaced than original."
    if is_modern:  # the weights of all heads have the same names, so a new head would get this one's
        advice += " To fine-tune it, load it with `num_labels=..., ignore_mismatched_sizes=True`."
    return advice


def _section(title: str, body: str) -> str:
    return f"## {title}\n\n{body}" if body else ""


def _table(values: dict[str, Any]) -> str:
    if not values:
        return ""
    rows = [f"| {_cell(key)} | {_number(value)} |" for key, value in values.items()]
    return "\n".join(["| | |", "|---|---:|", *rows])


def _cell(text: object) -> str:
    return _plain(text).replace("|", "\\|")


def _plain(text: object) -> str:
    """Returns a text on one line, escaped so that a page that shows the card does not read it as HTML."""
    return html.escape(" ".join(str(text).split()), quote=False)


def _fenced(language: str, text: str) -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{language}\n{text}\n{fence}"


def _number(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return _cell(value)
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.4g}" if abs(value) < 1e6 else f"{value:.3e}"
