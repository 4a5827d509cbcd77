"""A head of the user's own: the one in the documentation, and what is said of mistakes."""

import re
from pathlib import Path

import pytest
from contracts import toy_task

from electra.commands.framework.main import main
from electra.finetuning.predict import open_predictor
from electra.finetuning.train.all_seeds import finetune
from electra.foundation.errors import ConfigError
from electra.foundation.extensions import trust

PAGE = Path(__file__).parents[2] / "docs" / "finetuning.md"
[HEAD] = [block for block in re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.M | re.S) if "HEAD =" in block]


def written(folder: Path, *changes: tuple[str, str]) -> str:
    text = HEAD
    for old, changed in changes:
        assert old in text
        text = text.replace(old, changed)
    path = folder / "lower_head.py"
    path.write_text(text)
    trust(path)
    return str(path)


@pytest.mark.parametrize("task", ["sst2", "regression"])
def test_the_head_of_the_documentation_trains_and_predicts(task: str, tmp_path: Path, modern_folder: Path) -> None:
    write = toy_task.write_regression if task == "regression" else toy_task.write_classification
    data, head = write(tmp_path / "data"), written(tmp_path)
    settings = toy_task.settings(tmp_path / "out", data, task, head=head, epochs=6)
    results = finetune(str(modern_folder), settings)
    assert results["eval_spearmanr" if task == "regression" else "eval_accuracy"] > 0.7
    answers = open_predictor(str(tmp_path / "out"))(next(data.glob("dev.*"))).table()
    saved = (tmp_path / "out/seeds/seed-0/dev.tsv").read_text().splitlines()
    assert [row.split("\t")[0] for row in saved] == [str(row[0]) for row in answers]
    assert len([line for line in HEAD.splitlines() if line]) <= 17


BUILD, FEATURES = "        return Deeper(shape)\n", "        return self.hidden(x).tanh()\n"


@pytest.mark.parametrize(
    ("where", "old", "changed"),
    [
        ("build", "shape.config.hidden_size, shape.config", "shape.hidden_size, shape.config"),
        ("build", BUILD, "        return 1 / 0\n"),
        ("build", BUILD, "        pass\n"),
        ("build", BUILD, "        return nn.Linear(2, 2)\n"),
        ("features", FEATURES, "        return self.hiden(x)\n"),
        ("features", FEATURES, "        return self.hidden(x[:, :3])\n"),
        ("features", FEATURES, "        raise KeyError('x')\n"),
        ("forward", FEATURES, FEATURES + "    def forward(self, hidden, batch):\n        return hidden\n"),
        ("forward", FEATURES, FEATURES + "    def forward(self, h, batch):\n        return h[:, 0, :1]\n"),
        ("forward", FEATURES, FEATURES + "    def forward(self, h):\n        return h\n"),
        (
            "encode",
            FEATURES,
            FEATURES + "    def encode(self, encoder, batch):\n        return encoder(batch)\n",
        ),
        ("rescale", FEATURES, FEATURES + "    def rescale(self, a, b):\n        self.x.mul_(a)\n"),
        ("build", "def build(self, shape)", "def build(self)"),
        ("build", "Deeper(Head)", "Deeper(nn.Module)"),
        ("forward", FEATURES, FEATURES + "    def forward(self, h, b):\n        return None\n"),
        ("start", BUILD, BUILD + "    def start(self, head, encoder, data):\n        data.texts[0]\n"),
    ],
)
def test_a_mistake_is_one_line_that_names_the_head(
    where: str, old: str, changed: str, tmp_path: Path, modern_folder: Path
) -> None:
    data = toy_task.write_classification(tmp_path / "data", train=60, dev=110)
    head = written(tmp_path, (old, changed))
    settings = toy_task.settings(tmp_path / "out", data, head=head, epochs=0.5)
    with pytest.raises(ConfigError) as caught:
        finetune(str(modern_folder), settings)
    line = caught.value.line()
    assert line.startswith("head lower_head") and f": {where}: " in line and "\n" not in line
    assert not (tmp_path / "out" / "all_results.json").exists()


def test_the_command_ends_with_one_line(
    tmp_path: Path, modern_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = toy_task.write_classification(tmp_path / "data", train=60, dev=20)
    head = written(tmp_path, ("shape.config.hidden_size, shape.config", "shape.hidden_size, shape.config"))
    words = ["finetune", str(modern_folder), "--task", "sst2", "--data", str(data), "--head", head]
    assert main([*words, "--out", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err.splitlines()
    assert said[-1].startswith("error: head lower_head.py: build: AttributeError: ") and "line 9" in said[-1]
    assert not any("Traceback" in line for line in said) and not (tmp_path / "out").exists()
