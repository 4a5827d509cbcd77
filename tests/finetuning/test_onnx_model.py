"""A fine-tuned model as an ONNX graph gives the model's predictions."""

import ast
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("onnxruntime", reason="needs the extra `onnx`")
pytest.importorskip("onnxscript", reason="needs the extra `onnx`")

from contracts import toy_task

from electra.commands.framework.main import main
from electra.finetuning.onnx_model import FinetunedGraph
from electra.finetuning.predict import export_tuned, open_predictor
from electra.finetuning.train.all_seeds import finetune
from electra.finetuning.windows.features import LabelledBatch
from electra.inference.embedding import embed
from electra.serving.models import open_models
from electra.serving.operations import PredictRequest

pytestmark = pytest.mark.slow

Write = Callable[..., Path]


def tuned(folder: Path, task: str, architecture: str, write: Write, **changes: object) -> Path:
    model = toy_task.save_encoder(folder / "model", architecture)
    data = write(folder / "data", train=32, dev=10)
    finetune(str(model), toy_task.settings(folder / "out", data, task, epochs=1, **changes))
    return folder / "out"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A fine-tuning and the graph of its model."""
    folder = tmp_path_factory.mktemp("written")
    out = tuned(folder, "classification", "modern", toy_task.write_classification)
    assert export_tuned(str(out), folder / "graph") < 1e-4
    return out, folder / "graph"


def test_a_graph_predicts_and_embeds_the_same(written: tuple[Path, Path]) -> None:
    texts = ["a fine film", "my grim town", "the " * 60]
    model, graph = open_predictor(str(written[0])), open_predictor(str(written[1]), backend="onnx")
    ours, from_graph = model.texts(texts), graph.texts(texts)
    np.testing.assert_allclose(np.stack(ours.values), np.stack(from_graph.values), atol=1e-5)
    assert [row[:2] for row in ours.rows()] == [row[:2] for row in from_graph.rows()]
    np.testing.assert_allclose(embed(model.loaded, texts), embed(graph.loaded, texts), atol=1e-5)
    [served] = open_models([str(written[1])])
    assert served.abilities == ("embed", "predict") and served.describe()["input"] == "text"
    assert PredictRequest(inputs=texts).work(served) == [rows[0] for rows in from_graph.by_example()]


BLOCKED = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "electra", "transformers"):
            raise ImportError(name)
sys.meta_path.insert(0, Blocked())
"""


@pytest.mark.parametrize("page", ["README.md", "serving.md"])
def test_the_lines_for_a_machine_without_torch_give_the_same_probabilities(
    page: str, written: tuple[Path, Path]
) -> None:
    texts = ["The chef cooked the meal.", "It was raw."] if page == "README.md" else ["A fine film.", "My grim town."]
    path = written[1] / page if page == "README.md" else Path(__file__).parents[2] / "docs" / page
    code = next(part for part in path.read_text().split("```python\n")[1:] if "InferenceSession" in part)
    code = code.partition("```")[0].replace('"reviews-onnx"', '"."')
    ran = subprocess.run(
        [sys.executable, "-c", BLOCKED + code], cwd=written[1], capture_output=True, text=True, check=True
    )
    expected = open_predictor(str(written[0]), allow_unknown=True).texts(texts)
    said = ast.literal_eval(ran.stdout.partition("} ")[2])
    np.testing.assert_allclose(said, np.stack(expected.values), atol=1e-5)


def test_token_types_distinguish_the_texts_of_a_pair(tmp_path: Path) -> None:
    """Of the paper's encoder."""
    folder = tuned(tmp_path, "regression", "electra", toy_task.write_regression)
    export_tuned(str(folder), tmp_path / "graph")
    model, graph = open_predictor(str(folder)), open_predictor(str(tmp_path / "graph"), backend="onnx")
    pairs = [("a fine film", "my grim town"), ("the old music of the night", "a"), ("dull", "a red film")]
    ours, from_graph = (np.stack(one.texts(pairs).values) for one in (model, graph))
    np.testing.assert_allclose(ours, from_graph, atol=1e-5)


@pytest.mark.parametrize("head", ["transformers", "linear"])
@pytest.mark.parametrize("task", ["classification", "ner"])
def test_the_traced_module_equals_the_model(task: str, head: str, tmp_path: Path) -> None:
    """Without the exporter, which takes seconds."""
    write = toy_task.write_tagging if task == "ner" else toy_task.write_classification
    predictor = open_predictor(str(tuned(tmp_path, task, "electra", write, head=head)))
    traced = FinetunedGraph(predictor.tuned, types=True).eval()
    ids = torch.randint(5, 20, (3, 8))
    document_ids = torch.zeros_like(ids)
    document_ids[1, 5:] = -1
    types = (document_ids + torch.arange(8) > 2).long()
    with torch.inference_mode():
        hidden, logits = traced(ids, document_ids + 1, types)
        expected = predictor.tuned(LabelledBatch(np.arange(3), ids, types, document_ids, None))
    assert hidden.shape == (3, 8, 32) and traced.per_token == (task == "ner")
    torch.testing.assert_close(logits, expected)


def test_the_command_line(written: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    folder, graph = written
    table = folder.parent / "new.csv"
    table.write_text("number,sentence\n7,a fine film\n")
    assert main(["predict", str(graph), str(table), "--backend", "onnx", "--out", "-"]) == 0
    assert capsys.readouterr().out.startswith("number\tsentence\tpredicted\tprobability\tp(0)\tp(1)\n7\t")
    for wrong, said in (
        (["predict", str(graph), str(table)], "use --backend onnx"),
        (["predict", str(folder), str(table), "--backend", "onnx"], "no model.onnx"),
        (["detect", str(graph), "a fine film", "--backend", "onnx"], "not a discriminator"),
        (
            ["export", str(folder), "--out", str(folder / "model"), "--format", "onnx"],
            "which the graph would",
        ),
    ):
        assert main(wrong) == 2
        problem = capsys.readouterr().err
        assert said in problem and problem.count("\n") == 1
