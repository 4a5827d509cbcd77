"""ONNX graphs give the outputs of the networks at every length; damaged or different graphs are refused."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("onnxruntime", reason="needs the extra `onnx`")
pytest.importorskip("onnxscript", reason="needs the extra `onnx`")

from contracts import small
from test_sentence_transformers import STEPS, sentence_model

import electra
from electra.artifacts.model_files import CONFIG
from electra.commands.framework.main import main
from electra.exchange import onnx_graph
from electra.exchange.load import Loaded, load
from electra.exchange.verify import verify
from electra.foundation import durable
from electra.foundation.errors import AbsentNetwork, ModelError
from electra.inference.detection import detect
from electra.inference.embedding import embed

pytestmark = pytest.mark.slow

TEXTS = ["the chef cooked the meal .", "ate", "a cat", "the old chef likes that new meal . " * 6]


@pytest.fixture(scope="module", params=["electra", "modern"])
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Loaded, Path]:
    folder = tmp_path_factory.mktemp("onnx")
    network = replace(small.network(folder, architecture=request.param, layers=1), threshold=0.3)
    onnx_graph.write_onnx(network, folder / "out")
    return network, folder / "out"


def test_a_graph_detects_and_embeds_like_the_network(written: tuple[Loaded, Path]) -> None:
    network, folder = written
    graph = onnx_graph.load_onnx(folder, "discriminator")
    for ours, reference in zip(detect(network, TEXTS), detect(graph, TEXTS), strict=True):
        assert [(word.text, word.start) for word in ours.words] == [(w.text, w.start) for w in reference.words]
        assert ours.threshold == reference.threshold == 0.3
        p, q = ([token.p_replaced for token in one.tokens] for one in (ours, reference))
        np.testing.assert_allclose(p, q, atol=1e-5)
    np.testing.assert_allclose(embed(graph, TEXTS), embed(network, TEXTS), atol=1e-4)


def test_the_command_line(written: tuple[Loaded, Path], capfd: pytest.CaptureFixture[str]) -> None:
    every = ["--threshold", "0.000001", "--json", "--backend", "onnx"]
    assert main(["detect", str(written[1]), "the cat ate", *every]) == 0
    assert '"word": "cat"' in capfd.readouterr().out
    assert main(["detect", str(written[1]), "the cat ate"]) == 2
    assert "--backend onnx" in capfd.readouterr().err
    assert main(["detect", str(written[0].folder), "the cat ate", "--backend", "onnx"]) == 2
    assert "no model.onnx" in capfd.readouterr().err


def test_damage_is_a_one_line_error(written: tuple[Loaded, Path], tmp_path: Path) -> None:
    with pytest.raises(AbsentNetwork):
        onnx_graph.load_onnx(written[1], "generator")
    folder = Path(shutil.copytree(written[1], tmp_path / "copy"))
    graph = folder / "model.onnx"
    content = graph.read_bytes()
    graph.write_bytes(content[:-40] + bytes(40))
    with pytest.raises(ModelError, match=r"model\.onnx is damaged"):
        onnx_graph.load_onnx(folder, "encoder")
    assert [finding.problem for finding in verify(written[1])] == [""]
    assert any("is damaged" in finding.problem for finding in verify(folder))
    (folder / durable.MANIFEST).unlink()
    files = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    durable.commit_directory(folder, {**files, "model.onnx": content[: len(content) // 2]})
    with pytest.raises(ModelError):
        onnx_graph.load_onnx(folder, "encoder")


def test_a_graph_that_differs_is_not_written(
    written: tuple[Loaded, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The graph of another network takes the place of the exporter's."""
    network, folder = written
    graph = (folder / "model.onnx").read_bytes()
    monkeypatch.setattr(onnx_graph, "_trace", lambda made, loaded, path: path.write_bytes(graph))
    other = small.network(tmp_path, architecture=network.config.architecture, seed=2, layers=1)
    with pytest.raises(ModelError):
        onnx_graph.write_onnx(other, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    (tmp_path / "busy").mkdir()
    (tmp_path / "busy" / "notes.txt").write_text("mine")
    with pytest.raises(ModelError, match=r"notes\.txt"):
        onnx_graph.write_onnx(network, tmp_path / "busy")


def test_the_logits_are_those_of_a_tagger(written: tuple[Loaded, Path]) -> None:
    """The softmax over the labels of config.json is P(replaced), as pipelines elsewhere compute it."""
    network, folder = written
    labels = json.loads((folder / CONFIG).read_text())["id2label"]
    ids = np.array([network.tokenizer.encode(TEXTS[0]).ids])
    session = onnx_graph.open_session(folder / "model.onnx")
    [logits] = session.run(["logits"], {"input_ids": ids, "attention_mask": np.ones_like(ids)})
    p = torch.from_numpy(logits)[0, 1:-1].softmax(-1)[:, [*labels.values()].index("REPLACED")]
    [detection] = detect(network, TEXTS[:1])
    np.testing.assert_allclose(p, [token.p_replaced for token in detection.tokens], atol=1e-5)


ELSEWHERE = {
    "model.onnx": ("last_hidden_state", ""),
    "onnx/model.onnx": ("token_embeddings", ""),
    "model_optimized.onnx": ("output_0", ""),
    "model_quantized.onnx": ("logits", "no output 'hidden', only logits"),
    "onnx/model_O4.onnx": ("last_hidden_state", "several graphs"),
}


@pytest.mark.parametrize("name", ELSEWHERE)
def test_a_graph_of_another_program(name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A folder of transformers and sentence-transformers whose weights are a graph, with inputs of int32."""
    onnx, (output, problem) = pytest.importorskip("onnx"), ELSEWHERE[name]
    folder, reference = sentence_model(tmp_path, STEPS["normalize"], max_seq_length=8)
    reference.save(str(folder))
    onnx_graph.write_onnx(load(folder, "encoder"), tmp_path / "graph")
    graph = onnx.load(tmp_path / "graph" / "model.onnx")
    (folder / "model.safetensors").unlink()
    (folder / name).parent.mkdir(exist_ok=True)
    make_node, nodes = onnx.helper.make_node, graph.graph.node
    for each in graph.graph.input:
        each.type.tensor_type.elem_type, name_64 = onnx.TensorProto.INT32, f"{each.name}_64"
        for node in nodes:
            node.input[:] = [name_64 if one == each.name else one for one in node.input]
        nodes.insert(0, make_node("Cast", [each.name], [name_64], to=onnx.TensorProto.INT64))
    nodes.append(make_node("Identity", ["hidden"], [output]))
    graph.graph.output[0].name = output
    onnx.save(graph, str(folder / name))
    if problem.startswith("several"):
        onnx.save(graph, str(folder / "onnx" / "model_O3.onnx"))
    if problem:
        assert main(["embed", str(folder), "the cat", "--backend", "onnx"]) == 2
        assert problem in capfd.readouterr().err
    else:
        made = onnx_graph.load_onnx(folder, "encoder")
        np.testing.assert_allclose(embed(made, TEXTS), reference.encode(TEXTS), atol=1e-5)


@pytest.mark.parametrize(
    ("output", "said"), [(np.full((2, 3, 2), np.nan), "not finite"), (np.ones(2), "shape"), (1.0, "shape")]
)
def test_a_graph_that_does_not_match_its_folder_is_refused(
    output: object, said: str, written: tuple[Loaded, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnx_graph.OnnxEncoder, "run", lambda *_: np.asarray(output))
    with pytest.raises(ModelError, match=said):
        onnx_graph.load_onnx(written[1], "discriminator")


def test_a_graph_holds_no_path_of_this_machine(tmp_path: Path) -> None:
    onnx_graph.write_onnx(small.network(tmp_path), tmp_path / "graph")
    content = (tmp_path / "graph" / "model.onnx").read_bytes()
    packages = str(Path(torch.__file__).parents[1])
    for place in (str(Path(electra.__file__).parent), packages, str(Path.home()), ".py"):
        assert place.encode() not in content, place
