"""A custom probe: does the model notice misspelt words?

    electra analyze runs/mine runs/other --probe examples/typos.py --data texts/ --out runs/analysis
    electra analyze --probe examples/typos.py --probe-option help    # lists the options below

Rows of held-out text get misspellings of three kinds; the model scores every word, and the area under the ROC
curve measures how well the scores separate the misspelt words from all others. A tokenizer alone finds many
misspellings, because it splits unknown words into more tokens: the number of tokens is the baseline to beat.

The file of a probe defines a frozen dataclass `Config`, whose fields are its options (a string under each
says what it does), and a class `Probe`. `tests/examples/test_example_files.py` shows how to run electra's own
tests on it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from electra.foundation import seeds
from electra.foundation.arrays import Floats
from electra.laboratory.analysis import contract
from electra.laboratory.analysis.contract import Data, Findings, Input, Progress, StudiedModel
from electra.laboratory.analysis.measures import bootstrap
from electra.laboratory.analysis.measures.ranking import Ranking
from electra.laboratory.analysis.scoring.scorers import word_ids, word_suspicion
from electra.laboratory.analysis.texts import held_out_rows, text_input

MISSPELLINGS: dict[str, Callable[[str, int], str]] = {  # functions of a word and the index of a letter
    "transposed letters": lambda word, i: word[:i] + word[i + 1] + word[i] + word[i + 2 :],
    "a dropped letter": lambda word, i: word[:i] + word[i + 1 :],
    "a doubled letter": lambda word, i: word[:i] + word[i] + word[i:],
}
TOKENS = "number of tokens in the word"
ROW_LENGTH = 30  # tokens


@dataclass(frozen=True)
class Config:
    """Options of the probe."""

    sentences: int = 300
    """Rows of held-out text."""
    fraction: float = 0.1
    """Fraction of the words of four or more letters to misspell."""
    resamples: int = 200
    """Bootstrap samples per confidence interval."""
    seed: int = 0
    """Seed of the misspellings and the bootstrap."""


class Probe(contract.Probe):
    """Area under the ROC curve of word scores, for each kind of misspelling."""

    title = "Misspellings"
    question = "Does P(replaced) find misspelt words?"
    source = "Kinds of misspelling: Damerau 1964. No published answer for discriminators."
    version = 1  # raise it whenever a change alters a number
    needs = ("discriminator",)
    scales: ClassVar[Mapping[str, tuple[float, float]]] = {  # values of chance and of a perfect scorer
        f"AUC, {kind}": (0.5, 1.0) for kind in MISSPELLINGS
    }
    config: Config

    def inputs(self) -> tuple[Input, ...]:
        return (text_input(),)

    def run(self, models: Sequence[StudiedModel], data: Data, progress: Progress) -> Findings:
        """Adds numbers to the findings by their place on named axes; tables and figures select some."""
        config, findings, tokenizer = self.config, Findings(), models[0].discriminator.tokenizer
        rows = held_out_rows(tokenizer, data["text"], length=ROW_LENGTH, count=config.sentences)
        texts = [tokenizer.decode(row).split() for row in rows]
        for kind_index, kind in enumerate(MISSPELLINGS):
            misspelt = [self.misspell(words, kind, index) for index, words in enumerate(texts)]
            wrong = np.concatenate([np.array(new) != np.array(old) for new, old in zip(misspelt, texts, strict=True)])
            sentence = np.repeat(np.arange(len(texts)), [len(words) for words in texts])
            scores = {
                model.name: np.concatenate(word_suspicion(model.discriminator, misspelt, "odds")) for model in models
            }
            scores[TOKENS] = np.concatenate(
                [np.bincount(word_ids(tokenizer, words), minlength=len(words)) for words in misspelt]
            )
            for scorer, values in scores.items():
                ranking = Ranking(np.nan_to_num(values, nan=-np.inf), wrong)  # words without tokens rank last

                def measure(weights: Floats, ranking: Ranking = ranking) -> dict[str, float]:
                    return {"AUC": ranking.auc(weights)}

                auc = bootstrap.estimates(measure, sentence, resamples=config.resamples, seed=config.seed)
                findings.add_all(auc, misspelling=kind, scorer=scorer)
            first = findings.select(misspelling=kind, scorer=models[0].name)
            findings.headline[f"AUC, {kind}"] = first["AUC"]
            findings.notes.append(f"{kind}: {int(wrong.sum()):,} of {len(wrong):,} words are misspelt.")
            progress(kind, (kind_index + 1) / len(MISSPELLINGS))
        note = "0.5: no better than chance. 1: every misspelt word scores higher than every correct one."
        findings.table("Which misspellings are found", "misspelling", "scorer", note=note)
        shown = {"note": note, "unit": "AUC", "kind": "categories"}
        findings.figure("typos", "AUC", "misspelling", "scorer", {"measure": "AUC"}, **shown)
        return findings

    def misspell(self, words: Sequence[str], kind: str, index: int) -> list[str]:
        """Returns a sentence with some of its words misspelt, drawn from a key of its index."""
        keys = seeds.keys(self.config.seed, f"typos/{kind}", 0, np.array([index]))
        chosen, places = seeds.uniforms(keys, 2 * len(words)).reshape(2, -1)
        return [
            MISSPELLINGS[kind](word, 1 + int(place * (len(word) - 2)))
            if len(word) >= 4 and word.isalpha() and share < self.config.fraction
            else word
            for word, share, place in zip(words, chosen, places, strict=True)
        ]
