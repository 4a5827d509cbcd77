"""The model card: the README.md of an exported folder, generated from the run's records.

The recipe comes from run.toml, the description of the text from audit.json, and metrics from the last
evaluation in metrics.jsonl. The licence and the language of the text are unknown and left to the author.
"""

import html
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from electra.artifacts.run_files import RunFolder
from electra.data.tables.hub_files import could_be_hub_name, split_revision
from electra.exchange.configs import LOG_ODDS
from electra.exchange.weight_names import Kind
from electra.foundation import durable
from electra.foundation.config import flatten, write_toml
from electra.foundation.errors import ElectraError

TEMPLATE = Path(__file__).with_name("card.md")
_FOLDERS = re.compile(r"^(/|~|[A-Za-z]:[\\/]|\\\\)[^\n]*[\\/]")  # of an absolute path
# kind -> what the example code shows of the output in transformers; others have logits
OUTPUTS: dict[Kind, str] = {"reader": "start_logits  # and end_logits", "encoder": "last_hidden_state"}
PIPELINES: dict[Kind, str] = {
    "generator": "fill-mask",
    "classifier": "text-classification",
    "tagger": "token-classification",
    "reader": "question-answering",
}


@dataclass(frozen=True)
class Card:
    """The contents of a model card; empty parts are omitted."""

    name: str
    kind: Kind  # the kind of head, or encoder if it has none
    architecture: str = ""  # the transformers class that loads the folder
    task: str = ""  # the task, for a fine-tuned head that transformers has no class for
    bits: int | None = None  # bits of a weight, if the weights are integers, which transformers does not read
    objective: str = ""  # the objective that trained an encoder or a full-size masked language model
    summary: str = ""  # sentences after the description
    # label -> value, in order (of a run: steps, tokens, FLOPs, seconds)
    training: dict[str, Any] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)  # metric -> value on held-out text or examples
    measured_on: str = "held-out documents"  # the data of the metrics
    audit: dict[str, Any] = field(default_factory=dict)  # the audit of the training text
    recipe: str = ""  # the resolved recipe, as TOML
    base_model: str = ""  # the model that this one started from
    output: str = LOG_ODDS  # meaning of a discriminator's logits
    threshold: float | None = None  # lowest P(replaced) at which `detect` marks a word


def card_of_run(run: Path, kind: Kind, step: int | None = None, *, beside: bool = False) -> Card:
    """Makes the card of a run's network, "encoder" for a discriminator whose head was not trained.

    `beside`: it is the masked language model that shares the encoder of a run's discriminator.
    """
    folder = RunFolder(run)
    ledger = folder.ledger().until(step)
    last_row = dict(ledger.last("train", "eval") or {})
    record = dict(folder.record) if folder.exists() else {}
    record.pop("environment", None)  # a card is published: paths and the command line of the run are private
    identity, objective = record.get("identity", {}), record.get("objective", {}).get("name", "")
    base = str(identity.get(f"initial_{'discriminator' if kind == 'encoder' else kind}", ""))
    scores = ledger.evals[-1].values if ledger.evals else {}
    known = {key: value for key, value in scores.items() if value is not None}
    threshold = scores.get("best_f1_threshold") if kind == "discriminator" else None
    last_row |= {} if step is None else {"step": step}
    labels = {"step": "steps", "tokens": "tokens", "flops": "FLOPs", "seconds": "seconds"}
    audit: dict[str, Any] = {}
    with suppress(ElectraError):  # a run from a store has none
        audit = durable.read_object(folder.audit, ElectraError)
    is_language_model = "generator" in record and "discriminator" not in record
    return Card(
        name=f"{run.resolve().name}-{'language-model' if beside else kind}",
        kind=kind,
        objective=objective if kind == "encoder" or is_language_model or beside else "",
        training={label: last_row[key] for key, label in labels.items() if last_row.get(key) is not None},
        metrics={key: value for key, value in known.items() if key.startswith("mlm_") or not beside},
        audit=audit,
        recipe=write_toml(without_paths(record)),
        # "runs/mine" could be a name on the hub, unless there is such a path
        base_model=split_revision(base)[0] if could_be_hub_name(base) and not Path(base).exists() else "",
        output=identity.get("output", LOG_ODDS) if kind == "discriminator" else LOG_ODDS,
        threshold=threshold if threshold is not None and 0 <= threshold <= 1 else None,
    )


def without_paths(value: Any) -> Any:
    """Returns plain data with every absolute path, which is private, shortened to its last part."""
    if isinstance(value, dict):
        return {key: without_paths(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [without_paths(inner) for inner in value]
    return _FOLDERS.sub("", value) if isinstance(value, str) else value


def render(card: Card) -> str:
    """Renders README.md: YAML front matter for the hub, then Markdown.

    Cards are published, and texts may be private: none is quoted, and what others named is escaped.
    """
    from huggingface_hub.repocard_data import ModelCardData  # not its ModelCard, which imports a web client
    from jinja2 import Template

    detects = card.kind != "encoder"
    data = ModelCardData(
        library_name="transformers",
        pipeline_tag=PIPELINES.get(card.kind),
        tags=["electra", *["replaced-token-detection"][: int(detects)], card.kind],
        base_model=card.base_model or None,
    )
    measured = f"Measured on {card.measured_on}, which were not used for training."
    audit = {key.replace("_", " "): v for key, v in flatten(card.audit) if not isinstance(v, list)}
    is_headless = detects and card.architecture.endswith("Model")  # transformers has no class for the head
    text = Template(TEMPLATE.read_text(encoding="utf-8")).render(
        card_data=data.to_yaml(),
        card=card,
        name=_plain(card.name),
        quoted_name=json.dumps(card.name),
        is_modern=card.architecture.startswith("ModernBert"),
        only_here=bool(card.bits or card.task or is_headless),
        attribute=OUTPUTS.get(card.kind, "logits"),
        tables=[
            ("Training", "", _rows(card.training)),
            ("Evaluation", measured, _rows(card.metrics)),
            ("Training text", "", _rows(audit)),
        ],
        fence=max(re.findall("`{3,}", card.recipe), key=len, default="``") + "`",
    )
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def _rows(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(_plain(key).replace("|", "\\|"), _number(value)) for key, value in values.items()]


def _plain(text: object) -> str:
    """Returns a text on one line, escaped so that a page that shows the card does not read it as HTML."""
    return html.escape(" ".join(str(text).split()), quote=False)


def _number(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return _plain(value).replace("|", "\\|")
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.4g}" if abs(value) < 1e6 else f"{value:.3e}"
