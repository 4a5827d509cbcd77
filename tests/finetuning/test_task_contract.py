"""The contract tests: every task for your own data, and presets that read or score in another way."""

from pathlib import Path

import toy_questions
from contracts.tasks import TaskContract

from electra.finetuning.tasks import load_task


class TestTasks(TaskContract):
    task = (
        *("classification", "pair", "regression", "tagging", "ud", "qa"),
        *("cola", "stsb", "ner", "ged", "squad", "squad2"),
    )

    def write_data(self, name: str, folder: Path) -> Path:
        if load_task(name).head == "reader":
            return toy_questions.write_squad(folder, unanswerable=name != "squad", train=20, dev=10)
        super().write_data(name, folder)
        if name == "ud":
            for path in [*folder.iterdir()]:
                lines = (line.split("\t") for line in path.read_text().split("\n"))
                cells = (f"1\t{line[0]}\t_\t{line[1]}" + "\t_" * 6 if line[1:] else "" for line in lines)
                path.with_suffix(".conllu").write_text("\n".join(cells))
                path.unlink()
        if name == "ged":  # its tags are correct and incorrect
            for path in folder.iterdir():
                tags = (line.partition("\t") for line in path.read_text().splitlines())
                path.write_text("".join(f"{w}\t{'i' if t[:1] == 'B' else 'c'}\n" if w else "\n" for w, _, t in tags))
        return folder
