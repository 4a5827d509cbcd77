"""One contract for published encoders: the states of transformers, and everything else as with our own."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from published import ADAPTED, FURTHER, SHAPES, TOLERANCE, TWELVE, edit, published, rows

import electra
from electra.commands.framework.main import main
from electra.data.corpus.tokenizer import Tokenizer
from electra.exchange.huggingface import export
from electra.exchange.layers import keep_layers
from electra.exchange.load import load
from electra.finetuning.predict import open_predictor
from electra.foundation.errors import ConfigError, ModelError
from electra.inference.filling import fill
from electra.model.adapted import AdaptedEncoder, settings_of
from electra.model.hidden import hidden_states
from electra.pages import figures

Given = Callable[[str], tuple[Path, Any]]
TEXT = "the chef cooked the meal. the chef ate the meal and the cafe.\n"
TEXTS = ["the chef cooked the meal", "a cafe", "ate", "The Chef ate, (meals) cooked! " * 3]
TINY = {
    "training.length": 24,
    "training.batch_size": 4,
    "training.checkpoint_every": 2,
    "evaluation.rows": 4,
    "training.threads": 1,
    "model.dropout": 0.1,
    "model.attention_dropout": 0.1,
}


def slow_but(*fast: str) -> Any:
    marks = [pytest.param(name, marks=[pytest.mark.slow] * (name not in fast)) for name in TWELVE]
    return pytest.mark.parametrize("name", marks)


@pytest.fixture(scope="module")
def given(uncased: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Given:
    """Writes an architecture's folder, a masked language model, once; returns it and the model."""

    @cache
    def make(name: str) -> tuple[Path, Any]:
        folder = tmp_path_factory.mktemp("architectures") / "given"
        return folder, published(name, folder, uncased, "ForMaskedLM")

    return make


@pytest.fixture(scope="module")
def store(given: Given, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Text in the vocabulary that all of them have."""
    folder = tmp_path_factory.mktemp("corpus")
    (folder / "text.txt").write_text("".join(TEXT[number % 20 :] for number in range(60)))
    electra.prepare(folder / "text.txt", out=folder / "store", tokenizer=given("MPNet")[0], progress="quiet")
    return folder / "store"


@pytest.fixture(autouse=True)
def no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "missing", lambda: "without figures")  # figures take seconds


@pytest.mark.parametrize("name", [*SHAPES, *ADAPTED, *(pytest.param(name, marks=pytest.mark.slow) for name in FURTHER)])
@torch.inference_mode()
def test_states_and_logits_are_those_of_transformers(name: str, given: Given, tmp_path: Path) -> None:
    """Padded, full, short and packed rows, every layer, the head, and the folders that we write."""
    folder, reference = given(name)
    ids, real, document_ids = rows(reference.config.pad_token_id)
    outputs = reference(input_ids=ids, attention_mask=real.long(), output_hidden_states=True)
    loaded = load(folder, "generator")
    adapted = isinstance(loaded.encoder, AdaptedEncoder)
    assert adapted == (name not in SHAPES) == any("transformers" in note for note in loaded.notes)
    states = hidden_states(loaded.encoder, ids, document_ids)
    if not name.startswith(("ModernBERT", "mmBERT")):  # whose last norm transformers counts otherwise
        for ours, theirs in zip(states, outputs.hidden_states[-len(states) :], strict=True):
            assert (ours - theirs)[real].abs().max() <= TOLERANCE
    assert (loaded.logits(ids, document_ids) - outputs.logits)[real].abs().max() <= TOLERANCE
    last = reference.base_model(input_ids=ids, attention_mask=real.long()).last_hidden_state
    assert (states[-1] - last)[real].abs().max() <= TOLERANCE
    for length in (75, 9):
        short = reference.base_model(input_ids=ids[:1, :length]).last_hidden_state
        assert (loaded.encoder(ids[:1, :length]) - short).abs().max() <= TOLERANCE, "needs no mask"
    first, second = ids[:1, :13], ids[:1, 9:70]
    positions = torch.cat([torch.arange(13), torch.arange(61)])[None]
    packed = loaded.encoder(torch.cat([first, second], 1), positions, torch.tensor([[0] * 13 + [1] * 61]))
    apart = torch.cat([loaded.encoder(first), loaded.encoder(second)], 1)
    assert (packed - apart).abs().max() <= TOLERANCE
    for network, auto in (("generator", "ModelForMaskedLM"), ("encoder", "Model")):
        export(load(folder, network), tmp_path / network, "x")  # type: ignore[arg-type]
        model, report = getattr(transformers, f"Auto{auto}").from_pretrained(
            tmp_path / network, output_loading_info=True
        )
        assert not [key for key in report["missing_keys"] if "pooler" not in key]
        assert network == "encoder" or not report["unexpected_keys"]
        answer = model.eval()(input_ids=ids, attention_mask=real.long())[0]
        expected = outputs.logits if network == "generator" else last
        assert (answer - expected)[real].abs().max() <= TOLERANCE
        ours = load(tmp_path / network, "encoder")
        assert (ours.encoder(ids, document_ids=document_ids) - last)[real].abs().max() <= TOLERANCE
        assert adapted or ours.config == loaded.config


@pytest.mark.parametrize("name", TWELVE)
def test_a_text_is_filled_and_scored(name: str, given: Given, uncased: Tokenizer) -> None:
    folder, reference = given(name)
    model = electra.load(folder)
    ids = torch.tensor([uncased.encode("the chef ate").ids])
    with torch.no_grad():
        [[[slot]]] = fill(model.language_model, ["the chef [MASK]"], top=1)
        masked = torch.tensor([[*uncased.encode("the chef").ids[:-1], uncased.specials.mask, ids[0, -1]]])
        top = reference(input_ids=masked).logits[0, -2].softmax(-1).max(0)
    assert slot.p == pytest.approx(float(top.values), abs=TOLERANCE)
    assert len(model.detect("the chef")[0].words) == 2  # by the masked language model
    if "Modern" not in name:
        fewer = keep_layers(model.encoder, (0, 2))
        assert fewer.config.num_layers == 2 and len(hidden_states(fewer.encoder, ids)) == 3


@pytest.mark.parametrize("name", TWELVE)
def test_vectors_are_those_of_sentence_transformers(name: str, given: Given, tmp_path: Path) -> None:
    """With a pooling, a normalisation and a prompt, also of the folder that we write; else the mean."""
    library = pytest.importorskip("sentence_transformers", reason="needs the extra `sentences`")
    folder, reference = given(name)
    parts = pytest.importorskip("sentence_transformers.sentence_transformer.modules")
    transformer = parts.Transformer(str(folder), max_seq_length=20)
    steps = [transformer, parts.Pooling(24, pooling_mode="cls"), parts.Normalize()]
    model = library.SentenceTransformer(modules=steps, device="cpu", prompts={"query": "the chef "})
    model.default_prompt_name = "query"
    model.save(str(tmp_path / "saved"))
    expected = model.encode(TEXTS)
    electra.export(tmp_path / "saved", out=tmp_path / "again", progress="quiet")
    for each in ("saved", "again"):
        vectors = electra.load(tmp_path / each).embed(TEXTS)
        np.testing.assert_allclose(vectors, expected, atol=TOLERANCE)
    ids = torch.tensor([load(folder, "encoder").tokenizer.encode(TEXTS[0]).ids])
    with torch.inference_mode():
        mean = reference.base_model(input_ids=ids).last_hidden_state[0].mean(0)
    np.testing.assert_allclose(electra.load(folder).embed(TEXTS[0])[0], mean, atol=TOLERANCE)


@slow_but("DeBERTa")
def test_a_run_resumes_with_the_same_bits(name: str, given: Given, store: Path, tmp_path: Path) -> None:
    folder, _ = given(name)
    options = TINY | {"model.sharing": "disentangled" if name == "DeBERTa" else "embeddings"}
    for out, budgets in (("whole", (4,)), ("parts", (2, 4))):
        for steps in budgets:
            run = electra.pretrain(
                store, out=tmp_path / out, recipe="continue", init_discriminator=folder, progress="quiet",
                overrides=options | {"training.schedule": "wsd"}, budget="4steps",
            )  # fmt: skip
            if steps < 4:  # as if it had been killed after its first checkpoint
                for last in sorted((tmp_path / out / "checkpoints").iterdir())[1:]:
                    shutil.rmtree(last)
                shutil.rmtree(tmp_path / out / "discriminator")
                (tmp_path / out / "examples.json").unlink()
    first, second = (load(tmp_path / out, "discriminator") for out in ("whole", "parts"))
    assert isinstance(first.encoder, AdaptedEncoder) == (name in ADAPTED) and run.status == "finished"
    for (key, one), other in zip(first.encoder.state_dict().items(), second.encoder.state_dict().values(), strict=True):
        assert torch.equal(one, other), key
    started = load(folder, "encoder").encoder.state_dict()
    assert any(not torch.equal(value, started[key]) for key, value in first.encoder.state_dict().items())
    exported = electra.load(electra.export(run, out=tmp_path / "exported", dtype="int8"))
    [before], [after] = electra.load(run).detect(["the chef ate"]), exported.detect(["the chef ate"])
    assert [word.p_replaced for word in before.words] == pytest.approx(
        [word.p_replaced for word in after.words], abs=0.02
    )


ROWS = [(f"the chef {'the ' * number}", "ate" if number % 2 else "a meal") for number in range(40)]
LABELLED: dict[str, tuple[str, str, Any]] = {
    "text": ("classification", "text,label\n" + "".join(f"{a}{b},{b}\n" for a, b in ROWS), "the chef"),
    "pair": (
        "pair",
        "text_a,text_b,label\n" + "".join(f"{a},{b},{b}\n" for a, b in ROWS),
        ("the chef", "ate"),
    ),
    "tags": ("ner", "the O\nchef B-x\n\nmeal B-y\nate O\n\n" * 20, ["the", "chef"]),
}


@slow_but("MPNet")
@pytest.mark.parametrize("kind", LABELLED)
def test_it_is_fine_tuned(kind: str, name: str, given: Given, tmp_path: Path) -> None:
    task, content, text = LABELLED[kind]
    table = tmp_path / ("table.conll" if kind == "tags" else "table.csv")
    table.write_text(content.replace(" ", "\t") if kind == "tags" else content)
    tuned = electra.finetune(
        given(name)[0], task=task, data=table, out=tmp_path / "tuned", epochs=1, seeds=1, baselines=False,
        progress="quiet", max_length=16,
    )  # fmt: skip
    before = [*tuned.predict([text])]
    assert before and before == open_predictor(str(tmp_path / "tuned" / "model")).texts([text]).records()


@slow_but("ALBERT")
def test_it_teaches(name: str, given: Given, store: Path, tmp_path: Path) -> None:
    run = electra.distil(
        given(name)[0], store, out=tmp_path / "student", budget="2steps", progress="quiet",
        overrides=TINY | {"model.layers": 1, "model.hidden_size": 32},
    )  # fmt: skip
    assert run.status == "finished"


def test_our_own_folders_need_no_transformers() -> None:
    code = "import sys, electra; electra.load('tiny-en').detect('a cat'); print('transformers' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith("False")


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a decoder": ({"model_type": "gpt2"}, "decoder"),
    "a decoder of its own kind": ({"is_decoder": True}, "is_decoder"),
    "pictures": ({"model_type": "vit"}, "texts"),
    "an encoder and a decoder": ({"model_type": "t5"}, "texts"),
    "code": ({"model_type": "mine", "auto_map": {"AutoModel": "mine.Model"}}, "code"),
    "a size": ({"vocab_size": 1 << 40}, "range"),
    "a word for a size": ({"dim": "x"}, "transformers cannot build"),
    "quantized": ({"quantization_config": {"quant_method": "mine"}}, "quantized"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_encoder_is_refused_in_one_line(
    case: str, given: Given, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """From the shell too, with exit code 2 and nothing written."""
    change, named = REFUSED[case]
    shutil.copytree(given("DistilBERT")[0], folder := tmp_path / "x")
    edit(folder, **change)
    with pytest.raises(ModelError, match=named) as refused:
        load(folder, "encoder")
    assert "\n" not in str(refused.value)
    for words in (["embed", folder, "a"], ["export", folder, "--out", tmp_path / "out"]):
        assert main([*map(str, words)]) == 2
        assert named in capsys.readouterr().err and not (tmp_path / "out").exists()


def test_a_model_that_needs_more_than_texts_is_refused(uncased: Tokenizer, tmp_path: Path) -> None:
    published("boxes", tmp_path, uncased)
    with pytest.raises(ModelError, match=r"does not read texts \(.*bbox"):
        load(tmp_path, "encoder")


def test_rows_longer_than_the_positions_are_refused(given: Given, store: Path, tmp_path: Path) -> None:
    for name in ("MPNet", "BERT"):
        with pytest.raises(ConfigError, match="positions"):
            electra.pretrain(
                store, out=tmp_path / "run", recipe="continue", init_discriminator=given(name)[0],
                overrides=TINY | {"training.length": 100}, budget="1steps", progress="quiet",
            )  # fmt: skip
        assert not (tmp_path / "run").exists()


def test_code_that_a_config_names_is_left_out(given: Given, tmp_path: Path) -> None:
    shutil.copytree(given("DistilBERT")[0], tmp_path / "x")
    config = json.loads((tmp_path / "x" / "config.json").read_text())
    (tmp_path / "x" / "config.json").write_text(json.dumps(config | {"attn_implementation": "eager"}))
    encoder = load(tmp_path / "x", "encoder").encoder
    assert "implementation" not in encoder.config.settings
    sneaked = replace(encoder.config, settings=json.dumps(config | {"attn_implementation": "owner/kernel"}))
    assert settings_of(sneaked)._attn_implementation != "owner/kernel"


def test_what_the_adapter_lacks_is_refused(given: Given, store: Path, tmp_path: Path) -> None:
    folder, _ = given("DistilBERT")
    with pytest.raises(ModelError, match="optimum"):
        electra.export(folder, out=tmp_path / "graph", format="onnx")
    with pytest.raises(ConfigError, match="share"):
        electra.pretrain(
            store, out=tmp_path / "run", recipe="continue", init_discriminator=folder, progress="quiet",
            overrides=TINY | {"model.sharing": "all"}, budget="1steps",
        )  # fmt: skip
    with pytest.raises(ModelError, match="head of a masked language model"):
        electra.pretrain(
            store, out=tmp_path / "two", recipe="continue", init=folder, progress="quiet",
            overrides=TINY | {"objective.name": "mlm"}, budget="1steps",
        )  # fmt: skip
