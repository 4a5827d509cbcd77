"""Learners' sentences with a label for each word."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from electra.finetuning.labelled.tagged_sentences import Sentence, read_columns
from electra.laboratory.analysis.contract import Input, ProbeDataError

Language = Literal["en", "de"]


CORRECT = "c"


def learner_inputs(language: Language, required: bool = True) -> tuple[Input, Input]:
    """Learners' sentences with labels for each word: "c" correct, anything else an error."""
    corpus = {"en": "fce", "de": "falko"}[language]
    dev = (f"ged/{corpus}*/dev.tsv*", "./dev.tsv*", "./*dev*.tsv*")
    test = (f"ged/{corpus}*/test.tsv*", "./test.tsv*", "./*test*.tsv*")
    what = "learners' sentences with a label for each word"
    return Input("learners", f"{what} (dev)", dev, required), Input(
        "learners_test", f"{what} (test)", test, required=False
    )


def read_learners(path: Path) -> list[Sentence]:
    """Sentences with one column of labels, "c" where nothing is wrong; the files write \\" for a quote."""
    found = [
        Sentence(tuple(word.replace('\\"', '"') for word in one.words), one.columns)
        for one in read_columns(path, columns=(1,))
    ]
    if not any(CORRECT in one.columns[0] for one in found):
        raise ProbeDataError(
            f'no word is labelled "{CORRECT}" (correct)',
            where=path,
            fix="Give a word, a tab and its label on each line",
        )
    return found
