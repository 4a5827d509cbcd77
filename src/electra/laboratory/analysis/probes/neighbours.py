"""Nearest neighbours of words in context: whether context distinguishes a word's parts of speech.

A form that occurs with several parts of speech ("like", "that") is compared with its own other occurrences:
does the nearest one have the same part of speech? Static vectors could only answer by chance. Cosines of
centred vectors; neighbours come from other sentences.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from electra.finetuning.labelled.tagged_sentences import Sentence
from electra.foundation.arrays import Floats, Ints, Vectors
from electra.foundation.progress import part_progress, scaled_progress
from electra.laboratory.analysis.contract import Findings, ProbeDataError, Progress, Table
from electra.laboratory.analysis.representations import by_depth
from electra.laboratory.analysis.representations.encoder_probe import TreebankConfig, TreebankProbe
from electra.laboratory.analysis.representations.encoders import UNTRAINED, NamedEncoder, Words, common_words

CHANCE = "chance"
AROUND = 4  # words of context shown on each side
READINGS = "How often the nearest occurrence of the same form has the same part of speech."
FORMS = "How often the nearest of all words has the same form: how far the space is ordered by form."
TIE = 1e-5  # cosines this close are equal


@dataclass(frozen=True)
class Config(TreebankConfig):
    """Options of the probe."""

    sentences: int = 1000
    """Treebank sentences to use (0: all)."""
    resamples: int = 500
    """Bootstrap samples of the sentences for the intervals."""
    words: tuple[str, ...] = ()
    """Words to show examples of (default: those whose parts of speech are most evenly distributed)."""
    examples: int = 6
    """Number of words to show examples of, if none are named."""
    queries: int = 1000
    """Words whose nearest neighbour among all words is determined (0: all)."""


class Probe(TreebankProbe):
    """Measures part of speech and form of nearest neighbours, and shows examples."""

    title = "Nearest neighbours of words in context"
    question = "Does context move the vector of a word towards words with the same part of speech?"
    source = "Nearest neighbours by cosine, among occurrences of one form."
    version = 1
    config: Config

    @override
    def run_on_encoders(
        self, encoders: Sequence[NamedEncoder], sentences: Sequence[Sentence], progress: Progress
    ) -> Findings:
        words = common_words(encoders, sentences, scaled_progress(progress, 0, 0.5))
        forms = np.array(
            [str(form).lower() for form in words.select(sentence.words for sentence in sentences)]
        )
        tags = words.select(sentence.columns[0] for sentence in sentences)
        groups = ambiguous_forms(forms, tags)
        if not groups:
            problem = "no word occurs with two parts of speech"
            raise ProbeDataError(problem, where="the treebank", fix="Use more sentences")
        step = max(1, len(forms) // self.config.queries) if self.config.queries else 1
        queries = np.arange(len(forms))[::step]
        same_reading: dict[str, list[Floats]] = {}
        same_form: dict[str, list[Floats]] = {}
        last: dict[str, Vectors] = {}  # at the last depth
        for number, encoder in enumerate(encoders):
            share_read = part_progress(progress, f"neighbours by {encoder.name}", number, len(encoders))
            readings, alike = (
                same_reading.setdefault(encoder.name, []),
                same_form.setdefault(encoder.name, []),
            )
            for depth, vectors in enumerate(words.vectors[number]):
                share_read(depth / len(words.vectors[number]))
                last[encoder.name] = unit = centred_unit(vectors)
                same = [
                    nearest_alike(unit[items], np.arange(len(items)), tags[items], words.sentence[items])
                    for items in groups.values()
                ]
                readings.append(np.concatenate(same))
                alike.append(nearest_alike(unit, queries, forms, words.sentence))
        chance = np.concatenate(
            [expected_at_random(tags[items], words.sentence[items]) for items in groups.values()]
        )
        comparable = np.isfinite(chance)
        draws = words.sentence[np.concatenate(list(groups.values()))], self.config.resamples
        estimates = by_depth.ratios({**same_reading, CHANCE: [np.nan_to_num(chance)]}, comparable, *draws)
        by_chance = estimates.pop(CHANCE)[0]
        lexical = by_depth.ratios(same_form, 1.0, words.sentence[queries], self.config.resamples)
        findings, first, title = Findings(), encoders[0].name, "Readings told apart"
        note, references = f"{READINGS} Chance: {by_chance.value:.3f}.", {CHANCE: by_chance.value}
        labels = {"about": READINGS, "unit": "share"}
        by_depth.add_measure(
            findings, title, estimates, note=note, figure="readings", references=references, **labels
        )
        if len(encoders) > 1:
            ahead = by_depth.ratios(by_depth.differences_to_first(same_reading), comparable, *draws)
            note = "Paired over the same occurrences."
            by_depth.add_measure(findings, f"{title}: how far {first} is ahead", ahead, note=note)
        by_depth.add_measure(
            findings, "Neighbours of the same form", lexical, note=FORMS, figure="forms", unit="share"
        )
        self._examples(findings, last, groups, sentences, words)
        findings.headline["same part of speech, last depth"] = estimates[first][-1]
        findings.notes += [
            f"{len(groups)} forms with more than one part of speech, {int(comparable.sum())} occurrences, in"
            f" {len(sentences)} sentences.",
            f"Nearest neighbours of {len(queries)} words among all {len(forms)}. Vectors are centred: their"
            " common direction is removed.",
        ]
        return findings

    def _examples(
        self,
        findings: Findings,
        last: Mapping[str, Vectors],
        groups: Mapping[str, Ints],
        sentences: Sequence[Sentence],
        words: Words,
    ) -> None:
        """Add, for words with two parts of speech, an occurrence of each and the nearest by each encoder."""
        positions = [(row, place) for row, sentence in enumerate(sentences) for place in range(len(sentence))]
        tags = words.select(sentence.columns[0] for sentence in sentences)
        named = dict.fromkeys(word.lower() for word in self.config.words)
        for word in named:
            if word not in groups:
                problem = f"{word!r} does not occur with two parts of speech"
                raise ProbeDataError(problem, where="words", fix="Name other words")
        chosen = list(named) or list(groups)[: self.config.examples]
        for word in chosen:
            items = groups[word]

            def shown(i: int, items: Ints = items) -> str:
                return (
                    in_context(sentences, positions[words.kept[items[i]]], tags[items[i]]) if i >= 0 else ""
                )

            for tag, _ in Counter(tags[items].tolist()).most_common(2):
                place = int(np.flatnonzero(tags[items] == tag)[0])
                at = {"reading": tag, "word in context": shown(place)}
                for name in (name for name in last if name != UNTRAINED):
                    near = nearest(last[name][items], np.array([place]), words.sentence[items])
                    findings.add(shown(int(near[0])), measure=f"nearest by {name}", **at)
        findings.tables.append(Table("Examples, last depth", ("reading", "word in context")))


def ambiguous_forms(forms: npt.NDArray[np.str_], tags: npt.NDArray[np.str_]) -> dict[str, Ints]:
    """Form -> its occurrences, if at least two tags occur twice; the most evenly distributed first."""
    order = np.argsort(forms, kind="stable")
    starts = np.flatnonzero(np.append(True, forms[order][1:] != forms[order][:-1]))
    occurrences = {str(forms[items[0]]): np.sort(items) for items in np.split(order, starts[1:])}
    second = {
        form: Counter(tags[items].tolist()).most_common(2)[1:]
        for form, items in occurrences.items()
        if len(items) > 3
    }
    kept = [form for form, rest in second.items() if rest and rest[0][1] > 1]
    return {form: occurrences[form] for form in sorted(kept, key=lambda form: (-second[form][0][1], form))}


def centred_unit(vectors: npt.NDArray[Any]) -> Vectors:
    """Vectors [N, D] with their mean subtracted, scaled to length 1."""
    centred = vectors - vectors.mean(0, dtype=np.float64).astype(vectors.dtype)
    return np.asarray(centred / np.maximum(np.linalg.norm(centred, axis=1, keepdims=True), 1e-12))


def nearest(unit: Vectors, queries: Ints, sentence: Ints) -> Ints:
    """For each query, the item of another sentence with the highest cosine; -1 if there is none."""
    cosines = _cosines(unit, queries, sentence)
    best = cosines.argmax(1)
    return np.where(np.isfinite(cosines[np.arange(len(queries)), best]), best, -1)


def nearest_alike(unit: Vectors, queries: Ints, labels: npt.NDArray[np.str_], sentence: Ints) -> Floats:
    """For each query, whether the nearest item has its label.

    With several nearest items (all of them, for static vectors), the share that has it; 0 if there is none.
    """
    cosines = _cosines(unit, queries, sentence)
    near = (cosines >= cosines.max(1, keepdims=True) - TIE) & np.isfinite(cosines)
    return np.asarray(
        (near & (labels[queries][:, None] == labels[None, :])).sum(1) / np.maximum(near.sum(1), 1)
    )


def _cosines(unit: Vectors, queries: Ints, sentence: Ints) -> Vectors:
    cosines = np.asarray(unit[queries] @ unit.T)
    cosines[sentence[queries][:, None] == sentence[None, :]] = -np.inf
    return cosines


def expected_at_random(tags: npt.NDArray[np.str_], sentence: Ints) -> Floats:
    """For each occurrence, the share of those in other sentences that have its tag; NaN without any."""
    other = sentence[:, None] != sentence[None, :]
    with np.errstate(invalid="ignore"):
        return np.asarray((other & (tags[:, None] == tags[None, :])).sum(1) / other.sum(1))


def in_context(sentences: Sequence[Sentence], place: tuple[int, int], tag: str) -> str:
    """A word with the words around it, marked with its tag."""
    words, at = sentences[place[0]].words, place[1]
    return " ".join(
        [*words[max(0, at - AROUND) : at], f"[{words[at]}/{tag}]", *words[at + 1 : at + 1 + AROUND]]
    )
