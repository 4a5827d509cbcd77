"""`SentenceTransformer(folder)` gives the vectors that `embed` gives."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from contracts import small

import electra
from electra.exchange.huggingface import export
from electra.exchange.load import load
from electra.finetuning.predict import open_tuned, task_of, tuned_model
from electra.finetuning.windows.features import LabelledBatch
from electra.foundation.errors import ModelError
from electra.inference.detection import tokenize
from electra.inference.embedding import embed

TEXTS = ["the chef cooked the meal .", "a cat", "ate", "that old chef likes the new meal ."]


def sentence_model(folder: Path, steps: Callable[[Any, int], list[Any]], **settings: Any) -> tuple[Path, Any]:
    """A BERT of random weights, with `steps` after it, as the library saves it; and the library's model."""
    library = pytest.importorskip("sentence_transformers", reason="needs the extra `sentences`")
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24,
        max_position_embeddings=24, pad_token_id=0,
    )  # fmt: skip
    torch.manual_seed(1)
    words = small.tokenizer(folder)
    words.save(folder / "bert")
    config.vocab_size = words.vocab_size
    transformers.BertModel(config).save_pretrained(folder / "bert")
    parts = pytest.importorskip("sentence_transformers.sentence_transformer.modules")
    transformer = parts.Transformer(str(folder / "bert"), **settings)
    model = library.SentenceTransformer(modules=[transformer, *steps(parts, 16)], device="cpu")
    return folder / "saved", model


STEPS: dict[str, Callable[[Any, int], list[Any]]] = {
    **{
        mode: lambda models, size, mode=mode: [models.Pooling(size, pooling_mode=mode)]
        for mode in ("cls", "mean", "max", "lasttoken")
    },
    "normalize": lambda models, size: [models.Pooling(size), models.Normalize()],
    "dense": lambda models, size: [
        models.Pooling(size),
        models.Dense(size, 5),
        models.Dense(5, 7, bias=False, activation_function=torch.nn.GELU()),
        models.LayerNorm(7),
        models.Dropout(0.5),
        models.Normalize(),
    ],
}


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.slow
def test_every_step_of_a_folder_is_applied(tmp_path: Path, name: str) -> None:
    folder, reference = sentence_model(tmp_path, STEPS[name], max_seq_length=8)
    reference.prompts, reference.default_prompt_name = {"document": "that old "}, "document"
    reference.save(str(folder))
    expected = reference.encode(TEXTS)
    np.testing.assert_allclose(embed(load(folder, "encoder"), TEXTS), expected, atol=1e-5)


def test_switches_of_older_versions_and_folders_of_their_own(tmp_path: Path) -> None:
    folder, reference = sentence_model(tmp_path, STEPS["max"])
    reference.save(str(folder))
    expected = reference.encode(TEXTS)
    switches = {"pooling_mode_max_tokens": True, "pooling_mode_mean_tokens": False}
    pooling = {"word_embedding_dimension": 16, **switches}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    np.testing.assert_allclose(embed(load(folder, "encoder"), TEXTS), expected, atol=1e-5)
    modules = json.loads((folder / "modules.json").read_text())
    modules[0] |= {"path": "0_BERT", "type": "sentence_transformers.models.BERT"}
    (folder / "0_BERT").mkdir()
    for path in [path for path in folder.iterdir() if path.is_file() and path.name != "modules.json"]:
        path.rename(folder / "0_BERT" / path.name)
    (folder / "modules.json").write_text(json.dumps(modules))
    np.testing.assert_allclose(embed(load(folder, "encoder"), TEXTS), expected, atol=1e-5)
    export(load(folder, "encoder"), tmp_path / "copy", folder)
    np.testing.assert_allclose(type(reference)(str(tmp_path / "copy")).encode(TEXTS), expected, atol=1e-5)


@pytest.fixture(scope="module")
def dense(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, reference = sentence_model(tmp_path_factory.mktemp("dense"), STEPS["dense"])
    reference.save(str(folder))
    return folder


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("modules.json", lambda steps: [*steps, {**steps[-1], "type": "sentence_transformers.models.CNN"}]),
        ("modules.json", lambda steps: [*steps[:1], {**steps[1], "path": "../elsewhere"}]),
        ("modules.json", lambda steps: [*steps[:1], {**steps[1], "type": "custom_st.Pooling"}]),
        ("modules.json", lambda steps: [*steps[:1], *steps[2:]]),  # no pooling
        ("modules.json", lambda steps: {"steps": steps}),
        ("1_Pooling/config.json", lambda values: {**values, "pooling_mode": "median"}),
        ("1_Pooling/config.json", lambda values: {**values, "pooling_mode": ["mean", "max"]}),
        ("1_Pooling/config.json", lambda values: {"pooling_mode_third_token": True}),
        ("1_Pooling/config.json", lambda values: []),
        ("2_Dense/config.json", lambda values: {**values, "activation_function": "my.module.Swish"}),
        ("2_Dense/config.json", lambda values: {**values, "module_input_name": "token_embeddings"}),
        ("sentence_bert_config.json", lambda values: {**values, "max_seq_length": "long"}),
        ("sentence_bert_config.json", lambda values: {**values, "processing_kwargs": {"text": {"x": 5}}}),
        ("config_sentence_transformers.json", lambda values: {**values, "default_prompt_name": "query2"}),
    ],
)
def test_unsupported_steps_are_refused(tmp_path: Path, dense: Path, name: str, change: Callable[[Any], Any]) -> None:
    folder = Path(shutil.copytree(dense, tmp_path / "saved"))
    values = json.loads((folder / name).read_text())
    (folder / name).write_text(json.dumps(change(values)))
    with pytest.raises(ModelError) as raised:
        load(folder, "encoder")
    assert "\n" not in str(raised.value) and name.partition("/")[0].partition(".")[0] in str(raised.value)


@pytest.mark.parametrize("mode", ["mean", "max", "lasttoken"])
def test_a_classifier_reads_what_the_encoder_was_made_with(tmp_path: Path, mode: str) -> None:
    """The default head on a sentence encoder, after no training at all, sees the encoder's own vector."""
    folder, reference = sentence_model(tmp_path, STEPS[mode])
    reference.save(str(folder))
    (tmp_path / "rows.csv").write_text(
        "text,label\n" + "".join(f"a cat {i},x\nthat old chef {i},y\n" for i in range(20))
    )
    tuned = electra.finetune(
        folder, task="classification", data=tmp_path / "rows.csv", out=tmp_path / "tuned", epochs=0.1,
        learning_rate=1e-12, dropout=0, baselines=False, max_length=16, allow_unknown=True,
    )  # fmt: skip
    seen: list[Any] = []
    opened, record = open_tuned(str(tuned.path))
    model = tuned_model(opened, task_of(opened, record)[0], record)
    model.head.dense.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))  # type: ignore[union-attr]
    specials = opened.tokenizer.specials
    ids = [[specials.cls, *tokenize(opened.tokenizer, text).ids, specials.sep] for text in TEXTS[:2]]
    longest = max(map(len, ids))
    batch = LabelledBatch(
        np.arange(2),
        torch.tensor([[*row, *[0] * (longest - len(row))] for row in ids]),
        torch.zeros(2, longest, dtype=torch.long),
        torch.tensor([[*[0] * len(row), *[-1] * (longest - len(row))] for row in ids]),
        None,
    )
    with torch.no_grad():
        model.eval()(batch)
    np.testing.assert_allclose(seen[0], reference.encode(TEXTS[:2]), atol=1e-4)


def test_a_cross_encoder_gives_the_outputs_of_a_regression(tmp_path: Path) -> None:
    library = pytest.importorskip("sentence_transformers", reason="needs the extra `sentences`")
    folder = small.write_pair(tmp_path / "pair") / "discriminator"
    rows = "".join(f"a cat {i}\tthat old chef\t{i * 1.5 + 0.25}\n" for i in range(20))
    (tmp_path / "rows.tsv").write_text("text_a\ttext_b\tlabel\n" + rows)
    settings = {
        "epochs": 1,
        "learning_rate": 1e-3,
        "baselines": False,
        "max_length": 16,
        "head": "transformers",
    }
    electra.finetune(folder, task="regression", data=tmp_path / "rows.tsv", out=tmp_path / "tuned", **settings)
    pairs = [("a cat 1", "that old chef"), ("a meal", "the chef")]
    (tmp_path / "new.tsv").write_text("text_a\ttext_b\n" + "".join(f"{a}\t{b}\n" for a, b in pairs))
    found = electra.predict(tmp_path / "tuned", tmp_path / "new.tsv").records()
    expected = [list(row.values())[-1] for row in found]
    made = library.CrossEncoder(str(tmp_path / "tuned" / "model"), device="cpu")
    np.testing.assert_allclose(made.predict(pairs), expected, rtol=1e-4)


def test_weights_in_several_files(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    folder, reference = sentence_model(tmp_path, STEPS["mean"])
    reference.save(str(folder))
    expected = embed(load(folder, "encoder"), TEXTS)
    transformers.BertModel.from_pretrained(folder).save_pretrained(tmp_path / "shards", max_shard_size="4KB")
    (folder / "model.safetensors").unlink()
    for path in (tmp_path / "shards").glob("model*"):
        path.rename(folder / path.name)
    assert len([*folder.glob("model-*")]) > 2
    np.testing.assert_array_equal(embed(load(folder, "encoder"), TEXTS), expected)
    next(folder.glob("model-*")).unlink()
    with pytest.raises(ModelError, match="model-0000"):
        load(folder, "encoder")


def changed(folder: Path, name: str, **values: Any) -> None:
    path = folder / name
    path.write_text(json.dumps((json.loads(path.read_text()) if path.exists() else {}) | values))


SETTINGS = "sentence_bert_config.json"
LONG = [*TEXTS, "that old chef likes the new meal . " * 9]  # beyond the 24 positions


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: None,  # no length anywhere: the positions
        lambda folder: changed(folder, SETTINGS, max_seq_length=24),
        lambda folder: changed(folder, "config_sentence_transformers.json", truncate_dim=5),
        lambda folder: (
            changed(folder, "tokenizer_config.json", truncation_side="left"),
            changed(folder, SETTINGS, max_seq_length=6),
        ),
        lambda folder: (
            changed(folder, SETTINGS, max_seq_length=6),
            (folder / SETTINGS).rename(folder / "sentence_roberta_config.json"),
        ),
    ],
    ids=["positions", "all positions", "truncate_dim", "left", "roberta"],
)
def test_settings_decide_what_is_read_and_kept(tmp_path: Path, change: Callable[[Path], Any]) -> None:
    folder, reference = sentence_model(tmp_path, STEPS["normalize"])
    reference.save(str(folder))
    change(folder)
    expected = type(reference)(str(folder), device="cpu").encode(LONG)
    np.testing.assert_allclose(embed(load(folder, "encoder"), LONG), expected, atol=1e-5)
