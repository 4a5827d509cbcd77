"""Sentences by language learners, with a label for each word."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from electra.finetuning.labelled.tagged_sentences import Sentence, read_columns
from electra.laboratory.analysis.contract import Input, ProbeDataError

Language = Literal["en", "de"]
CORRECT = "c"  # the label of a correct word


def learner_inputs(language: Language, required: bool = True) -> tuple[Input, Input]:
    """Returns the inputs for dev and test files, in which any label but "c" (correct) marks an error."""
    corpus = {"en": "fce", "de": "falko"}[language]
    dev = (f"ged/{corpus}*/dev.tsv*", "./dev.tsv*", "./*dev*.tsv*")
    test = (f"ged/{corpus}*/test.tsv*", "./test.tsv*", "./*test*.tsv*")
    description = "learners' sentences with a label for each word"
    return Input("learners", f"{description} (dev)", dev, required), Input(
        "learners_test", f"{description} (test)", test, required=False
    )


def read_learners(path: Path) -> list[Sentence]:
    """Reads sentences with one column of labels, and removes backslashes before quotation marks.

    Raises:
        ProbeDataError: No word is labelled as correct.
        DataError: The file has too few columns or no sentences.
    """
    sentences = [
        Sentence(tuple(word.replace('\\"', '"') for word in sentence.words), sentence.columns)
        for sentence in read_columns(path, columns=(1,))
    ]
    if not any(CORRECT in sentence.columns[0] for sentence in sentences):
        raise ProbeDataError(
            f'no word is labelled "{CORRECT}" (correct)',
            where=path,
            fix="Each line must be a word, a tab and its label",
        )
    return sentences
