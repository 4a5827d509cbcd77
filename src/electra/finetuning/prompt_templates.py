"""Templates that make a sentence of an example and a candidate, and the words that stand for the labels.

In a template {text} and {text2} are the example's texts and {label} is where the candidates go, one after the
other. Where the template puts a mark right after a text, the text's own final marks are dropped. The
templates and words are those of Gao et al. 2021 (Making pre-trained language models better few-shot learners,
Table 1), which Xia et al. 2022 use as well.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from electra.foundation.errors import ConfigError, nearest

_FIELD = re.compile(r"\{(\w*)\}")
_TEXTS = ("text", "text2")
_MARKS = ".,;:!?"


@dataclass(frozen=True)
class FilledTemplate:
    """A sentence made of a template, and where its parts stand, in characters."""

    sentence: str
    label: tuple[int, int]
    texts: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Prompt:
    template: str
    words: Mapping[str, str]  # label -> what stands for it; one word or several

    def fill(self, texts: Sequence[str], words: str) -> FilledTemplate:
        parts = _FIELD.split(self.template)  # literal, field, literal, ...
        values = {**dict(zip(_TEXTS, texts, strict=False)), "label": words}
        sentence = parts[0]
        spans: dict[str, tuple[int, int]] = {}
        for field, literal in zip(parts[1::2], parts[2::2], strict=True):
            value = values[field].strip()
            if field != "label" and literal[:1] in tuple(_MARKS):
                value = value.rstrip(_MARKS + " ")
            spans[field] = (len(sentence), len(sentence) + len(value))
            sentence += value + literal
        return FilledTemplate(sentence, spans.pop("label"), tuple(spans.values()))


PROMPTS: dict[str, Prompt] = {
    "sst-2": Prompt("{text} It was {label}.", {"negative": "terrible", "positive": "great"}),
    "mnli": Prompt(
        "{text}? {label}, {text2}", {"entailment": "Yes", "neutral": "Maybe", "contradiction": "No"}
    ),
    "rte": Prompt("{text}? {label}, {text2}", {"entailment": "Yes", "not_entailment": "No"}),
    "qnli": Prompt("{text}? {label}, {text2}", {"entailment": "Yes", "not_entailment": "No"}),
    "mrpc": Prompt("{text} {label}, {text2}", {"not_equivalent": "No", "equivalent": "Yes"}),
    "qqp": Prompt("{text} {label}, {text2}", {"not_duplicate": "No", "duplicate": "Yes"}),
    "cola": Prompt("{text} This is {label}.", {"unacceptable": "incorrect", "acceptable": "correct"}),
}


def choose_prompt(
    task: str, labels: Sequence[str], num_texts: int, template: str | None, words: Sequence[str]
) -> Prompt:
    """The task's prompt with what the user wants otherwise. `words`: LABEL=WORDS for each label."""
    known = PROMPTS.get(task)
    if known is None and (template is None or not words):
        fix = 'Pass --template "{text} It was {label}." and --words LABEL=WORD for each label'
        raise ConfigError(f"no prompt is known for the task {task}", where="electra prompt", fix=fix)
    chosen = dict(known.words) if known is not None else {}
    for entry in words:
        label, equals, meaning = entry.partition("=")
        if not equals or not meaning.strip():
            raise ConfigError(f"{entry!r} is not LABEL=WORDS", key="words", fix="For example: positive=great")
        if label not in labels:
            what = f"the task has no label {label!r}"
            raise ConfigError(what, key="words", fix=nearest(label, list(labels)))
        chosen[label] = meaning
    if missing := [label for label in labels if label not in chosen]:
        what = f"nothing stands for the label {missing[0]!r}"
        raise ConfigError(what, key="words", fix=f"Add {missing[0]}=WORD")
    if len(set(chosen.values())) < len(chosen):
        fix = "Give each label words of its own"
        raise ConfigError("two labels have the same words", key="words", fix=fix)
    template = template if template is not None else known.template if known is not None else ""
    fields = [*_TEXTS[:num_texts], "label"]
    if sorted(_FIELD.findall(template)) != sorted(fields):
        what = f"a template of this task has {', '.join(f'{{{field}}}' for field in fields)}, each once"
        raise ConfigError(what, where=f"`template` {template!r}", fix="Fix the template")
    return Prompt(template, {label: chosen[label] for label in labels})
