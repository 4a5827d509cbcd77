"""A model folder keeps its meaning: every pair of what is done with folders, for one with every module."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_sentence_transformers import STEPS, sentence_model

import electra
from electra.artifacts.model_files import CONFIG, MODULES
from electra.exchange.load import load
from electra.exchange.onnx_graph import load_onnx
from electra.exchange.pooling import PROMPTS
from electra.foundation.errors import ModelError
from electra.inference.embedding import embed

library = pytest.importorskip("sentence_transformers", reason="needs the extra `sentences`")
pytest.importorskip("onnxruntime", reason="needs the extra `onnx`")
pytestmark = pytest.mark.slow

TEXTS = ["the chef cooked the meal .", "a cat", "that old chef likes the new meal that a cat ate ."]
STILL = {"training.length": 16, "training.learning_rate": 1e-30, "training.weight_decay": 0.0}
STILL |= {"data.unit": "line", "training.precision": "fp32"}


def texts(folder: Path) -> Path:
    (folder / "text.txt").write_text("the old chef ate a new meal .\n" * 300)
    return folder / "text.txt"


def continued(source: Path, out: Path) -> Path:
    electra.pretrain(
        texts(out.parent),
        out=out,
        recipe="continue",
        init_discriminator=source,
        budget="1steps",
        overrides=STILL,
    )
    return out / "discriminator"


def distilled(source: Path, out: Path) -> Path:
    electra.distil(source, texts(out.parent), out=out, keep_layers="0,1", budget="1steps", overrides=STILL)
    return out / "discriminator"


def fine_tuned(source: Path, out: Path) -> Path:
    sentence = "the B-x\nold O\nchef O\n\ncats B-y\nate O\n\n"
    (out.parent / "tags.conll").write_text(sentence.replace(" ", "\t") * 30)
    settings = {"epochs": 0.1, "learning_rate": 1e-30, "dropout": 0, "baselines": False, "max_length": 16}
    electra.finetune(source, task="ner", data=out.parent / "tags.conll", out=out, **settings)
    assert load(out, "encoder").folder == out / "model"
    return out / "model"


def exported(**options: Any) -> Callable[[Path, Path], Path]:
    return lambda source, out: Path(electra.export(source, out=out, **options))


OPERATIONS: dict[str, Callable[[Path, Path], Path]] = {
    "export": exported(),
    "bfloat16": exported(dtype="bfloat16"),
    "int8": exported(dtype="int8"),
    "int4": exported(dtype="int4"),
    "continue": continued,
    "distil": distilled,
    "finetune": fine_tuned,
    "onnx": exported(format="onnx"),
}
ROUNDED, UNREAD = {"bfloat16", "int8", "int4"}, {"int8", "int4", "onnx"}  # by sentence-transformers
REFUSED = {("onnx", name) for name in OPERATIONS}  # a graph has no weights


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    folder, reference = sentence_model(tmp_path_factory.mktemp("original"), STEPS["dense"], max_seq_length=10)
    reference.prompts, reference.default_prompt_name = {"document": "that old ", "query": "a "}, "document"
    reference.save(str(folder))
    (folder / "1_Pooling" / CONFIG).write_text('{"embedding_dimension": 16, "pooling_mode": "cls"}')
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps(settings | {"truncation_side": "left"}))
    return folder, library.SentenceTransformer(str(folder), device="cpu")


@pytest.fixture(scope="module")
def once(original: tuple[Path, Any], tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    return cache(lambda name: OPERATIONS[name](original[0], tmp_path_factory.mktemp(name) / "out"))


def meaning(folder: Path) -> Any:
    """The steps, the prompts and the default one, how much of a text is read, and as which ids."""
    kinds = [step["type"].rpartition(".")[2] for step in json.loads((folder / MODULES).read_text())]
    prompts = json.loads((folder / PROMPTS).read_text())
    loaded = load_any(folder)
    read = loaded.text_vector.max_length, loaded.text_vector.keep_end, loaded.tokenizer.encode(TEXTS[-1]).ids
    return kinds, prompts["prompts"], prompts["default_prompt_name"], read


def load_any(folder: Path) -> Any:
    return load_onnx(folder, "encoder") if (folder / "model.onnx").exists() else load(folder, "encoder")


@pytest.mark.parametrize("second", OPERATIONS)
@pytest.mark.parametrize("first", OPERATIONS)
def test_a_folder_keeps_its_meaning(
    original: tuple[Path, Any], once: Callable[[str], Path], tmp_path: Path, first: str, second: str
) -> None:
    folder, reference = original
    if (first, second) in REFUSED:
        with pytest.raises(ModelError):
            OPERATIONS[second](once(first), tmp_path / "out")
        return
    made = OPERATIONS[second](once(first), tmp_path / "out")
    assert meaning(made) == meaning(folder)
    stays = first if (first, second) == ("bfloat16", "export") else "float32"
    assert json.loads((made / CONFIG).read_text())["dtype"] == (second if second in ROUNDED else stays)
    vectors = embed(load_any(made), TEXTS)
    assert vectors.shape == (3, 7)
    if not ROUNDED & {first, second}:
        np.testing.assert_allclose(vectors, reference.encode(TEXTS), atol=1e-5 if second == "onnx" else 1e-6)
    if second not in UNREAD:
        again = library.SentenceTransformer(str(made), device="cpu", model_kwargs={"dtype": "float32"})
        np.testing.assert_allclose(vectors, again.encode(TEXTS), atol=1e-6)
    if second == "finetune" or (first == "finetune" and second not in ("continue", "distil")):
        assert set(json.loads((made / CONFIG).read_text())["id2label"].values()) == {"O", "B-x", "B-y"}
