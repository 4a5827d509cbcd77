"""Learnable questions: the answer is the words between "the" and "town", in the vocabulary of toy_task."""

import json
import random
from pathlib import Path
from typing import Any

from contracts import toy_task


def question(draw: random.Random, number: int, unanswerable: bool) -> tuple[str, dict[str, Any]]:
    """A context, and a question about it."""
    filler = [word for word in toy_task.OTHER if word not in ("the", "town")]
    answer = " ".join(draw.choice(toy_task.GOOD) for _ in range(draw.randint(1, 2)))
    before, after = ([draw.choice(filler) for _ in range(draw.randint(0, 3))] for _ in range(2))
    head = "".join(f"{word} " for word in (*before, "the"))
    answerable = not (unanswerable and number % 2)
    context = (
        f"{head}{answer} town " + " ".join(after)
        if answerable
        else " ".join([*before, *after, draw.choice(toy_task.BAD)])
    )
    answers = [{"text": answer, "answer_start": len(head)}] if answerable else []
    entry: dict[str, Any] = {"id": f"q{number}", "question": "my town", "answers": answers}
    return context, entry | ({"is_impossible": not answerable} if unanswerable else {})


def write_squad(folder: Path, unanswerable: bool = False, train: int = 240, dev: int = 60) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    draw = random.Random(4)
    for split, size in (("train", train), ("dev", dev)):
        paragraphs = []
        for number in range(size):
            context, entry = question(draw, number, unanswerable)
            paragraphs.append({"context": context, "qas": [entry]})
        document = {
            "version": "2.0" if unanswerable else "1.1",
            "data": [{"title": split, "paragraphs": paragraphs}],
        }
        (folder / f"{split}-v1.json").write_text(json.dumps(document))
    return folder


def squad(*questions: dict[str, Any], context: str) -> str:
    """A SQuAD file with one paragraph."""
    paragraph = {"context": context, "qas": list(questions)}
    return json.dumps({"version": "1.1", "data": [{"title": "t", "paragraphs": [paragraph]}]})
