"""What lies next to a word in context? Whether the context tells a word's readings apart, how lexical the
space is, and examples.

A form that occurs with several parts of speech ("like", "that") is looked up among its own other occurrences:
does the nearest one have the same part of speech? Static vectors could only answer at chance. Cosines of
centred vectors; neighbours come from other sentences.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from electra.finetuning.labelled.tagged_sentences import Sentence
from electra.foundation.arrays import Floats, Ints
from electra.foundation.progress import part_progress, scaled_progress
from electra.laboratory.analysis.contract import Findings, ProbeDataError, Progress, Table
from electra.laboratory.analysis.representations import by_depth
from electra.laboratory.analysis.representations.encoder_probe import TreebankConfig, TreebankProbe
from electra.laboratory.analysis.representations.encoders import UNTRAINED, Named, Words, common_words

Vectors = npt.NDArray[Any]

CHANCE = "chance"
AROUND = 4  # words of context shown on either side
READINGS = "How often the nearest occurrence of the same form has the same part of speech."
FORMS = "How often the nearest word of all is the same form: how far the space is ordered by form."
TIE = 1e-5  # cosines this close are equal


@dataclass(frozen=True)
class Config(TreebankConfig):
    sentences: int = 1000
    """Treebank sentences whose words are looked at (0: all)."""
    resamples: int = 500
    """Bootstrap samples of the sentences."""
    words: tuple[str, ...] = ()
    """Words to show examples of (default: those whose readings are most evenly spread)."""
    examples: int = 6
    """How many words to show examples of, where none are named."""
    queries: int = 1000
    """Words whose nearest neighbour among all words is looked up (0: all)."""


class Probe(TreebankProbe):
    title = "Nearest neighbours of words in context"
    question = "Does the context of a word move its vector to where its reading is?"
    source = "Nearest neighbours by cosine, among occurrences of one form."
    version = 1
    config: Config

    def look(self, encoders: Sequence[Named], sentences: Sequence[Sentence], progress: Progress) -> Findings:
        words = common_words(encoders, sentences, scaled_progress(progress, 0, 0.5))
        forms = np.array([str(form).lower() for form in words.of(sentence.words for sentence in sentences)])
        tags = words.of(sentence.columns[0] for sentence in sentences)
        groups = ambiguous_forms(forms, tags)
        if not groups:
            what = "no word occurs with two parts of speech"
            raise ProbeDataError(what, where="the treebank", fix="Give more sentences")
        step = max(1, len(forms) // self.config.queries) if self.config.queries else 1
        queries = np.arange(len(forms))[::step]
        same_reading: dict[str, list[Floats]] = {}
        same_form: dict[str, list[Floats]] = {}
        last: dict[str, Vectors] = {}  # the vectors of the last depth
        for number, encoder in enumerate(encoders):
            told = part_progress(progress, f"neighbours by {encoder.name}", number, len(encoders))
            readings, alike = (
                same_reading.setdefault(encoder.name, []),
                same_form.setdefault(encoder.name, []),
            )
            for depth, vectors in enumerate(words.vectors[number]):
                told(depth / len(words.vectors[number]))
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
        found = by_depth.ratios({**same_reading, CHANCE: [np.nan_to_num(chance)]}, comparable, *draws)
        by_chance = found.pop(CHANCE)[0]
        lexical = by_depth.ratios(same_form, 1.0, words.sentence[queries], self.config.resamples)
        findings, first, title = Findings(), encoders[0].name, "Readings told apart"
        note, references = f"{READINGS} Chance: {by_chance.value:.3f}.", {CHANCE: by_chance.value}
        shown = {"about": READINGS, "unit": "share"}
        by_depth.show(findings, title, found, note=note, figure="readings", references=references, **shown)
        if len(encoders) > 1:
            ahead = by_depth.ratios(by_depth.ahead(same_reading), comparable, *draws)
            note = "Paired over the same occurrences."
            by_depth.show(findings, f"{title}: how far {first} is ahead", ahead, note=note)
        by_depth.show(
            findings, "Neighbours of the same form", lexical, note=FORMS, figure="forms", unit="share"
        )
        self._examples(findings, last, groups, sentences, words)
        findings.headline["same part of speech, last depth"] = found[first][-1]
        findings.notes += [
            f"{len(groups)} forms with more than one part of speech, {int(comparable.sum())} occurrences, in"
            f" {len(sentences)} sentences.",
            f"{len(queries)} words looked up among all {len(forms)}. Vectors are centred: their common"
            " direction is"
            " removed.",
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
        """Of words with two readings, an occurrence of each, and the nearest by each trained encoder."""
        flat = [(row, place) for row, sentence in enumerate(sentences) for place in range(len(sentence))]
        tags = words.of(sentence.columns[0] for sentence in sentences)
        wanted = dict.fromkeys(word.lower() for word in self.config.words)
        for word in wanted:
            if word not in groups:
                what = f"{word!r} does not occur with two parts of speech"
                raise ProbeDataError(what, where="words", fix="Name other words")
        chosen = list(wanted) or list(groups)[: self.config.examples]
        for word in chosen:
            items = groups[word]

            def shown(i: int, items: Ints = items) -> str:
                return in_context(sentences, flat[words.kept[items[i]]], tags[items[i]]) if i >= 0 else ""

            for tag, _ in Counter(tags[items].tolist()).most_common(2):
                place = int(np.flatnonzero(tags[items] == tag)[0])
                at = {"reading": tag, "word in context": shown(place)}
                for name in (name for name in last if name != UNTRAINED):
                    near = nearest(last[name][items], np.array([place]), words.sentence[items])
                    findings.add(shown(int(near[0])), measure=f"nearest by {name}", **at)
        findings.tables.append(Table("Examples, last depth", ("reading", "word in context")))


def ambiguous_forms(forms: npt.NDArray[np.str_], tags: npt.NDArray[np.str_]) -> dict[str, Ints]:
    """form -> its occurrences, where at least two tags occur twice; the most evenly spread first."""
    order = np.argsort(forms, kind="stable")
    starts = np.flatnonzero(np.append(True, forms[order][1:] != forms[order][:-1]))
    found = {str(forms[items[0]]): np.sort(items) for items in np.split(order, starts[1:])}
    second = {
        form: Counter(tags[items].tolist()).most_common(2)[1:]
        for form, items in found.items()
        if len(items) > 3
    }
    kept = [form for form, rest in second.items() if rest and rest[0][1] > 1]
    return {form: found[form] for form in sorted(kept, key=lambda form: (-second[form][0][1], form))}


def centred_unit(vectors: npt.NDArray[Any]) -> Vectors:
    centred = vectors - vectors.mean(0, dtype=np.float64).astype(vectors.dtype)
    return np.asarray(centred / np.maximum(np.linalg.norm(centred, axis=1, keepdims=True), 1e-12))


def nearest(unit: Vectors, queries: Ints, sentence: Ints) -> Ints:
    """For each query, the item of another sentence with the highest cosine; -1 where there is none."""
    cosines = _cosines(unit, queries, sentence)
    best = cosines.argmax(1)
    return np.where(np.isfinite(cosines[np.arange(len(queries)), best]), best, -1)


def nearest_alike(unit: Vectors, queries: Ints, labels: npt.NDArray[np.str_], sentence: Ints) -> Floats:
    """For each query, whether the nearest item has its label. Of equally near ones (all are, where vectors
    know no context) the share that has it; 0 where there is none.
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
    """For each occurrence, the share of those in other sentences that have its tag; nan without any."""
    other = sentence[:, None] != sentence[None, :]
    with np.errstate(invalid="ignore"):
        return np.asarray((other & (tags[:, None] == tags[None, :])).sum(1) / other.sum(1))


def in_context(sentences: Sequence[Sentence], place: tuple[int, int], tag: str) -> str:
    words, at = sentences[place[0]].words, place[1]
    return " ".join(
        [*words[max(0, at - AROUND) : at], f"[{words[at]}/{tag}]", *words[at + 1 : at + 1 + AROUND]]
    )
