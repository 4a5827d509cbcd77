"""Distillation: a student learns from a frozen teacher of another depth, width or vocabulary."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from contracts import small
from safetensors.torch import load_file, save_file

import electra
from electra.artifacts.run_files import RunFolder
from electra.commands.distil import Distil, layer_numbers
from electra.commands.framework.main import main
from electra.data.corpus.store import TokenStore
from electra.exchange.card import Card
from electra.exchange.huggingface import export_network
from electra.exchange.layers import keep_layers
from electra.exchange.load import load
from electra.exchange.pooling import pooled as vector_of
from electra.exchange.pooling import reduced
from electra.foundation.errors import ConfigError, ElectraError, ModelError
from electra.foundation.signals import StopRequest
from electra.model.flops import forward_flops, training_flops
from electra.model.networks import Network, Networks
from electra.model.pair import EncoderAlone, build_encoder, build_networks
from electra.testing import toy
from electra.training.assemble import start
from electra.training.distributed import World
from electra.training.loop import train
from electra.training.run import RunState

WORDS = ("run", "runs", "running", "quick", "zebra")
TEXT = "the old chef ate a new meal. that cat like the meal. the chef cook.\n"


def make_teacher(
    folder: Path,
    name: str = "teacher",
    architecture: str = "electra",
    seed: int = 5,
    words: Sequence[str] = WORDS,
    **shape: Any,
) -> Path:
    folder.mkdir(exist_ok=True)
    tokenizer = small.tokenizer(
        folder, *"abcdefghijklmnopqrstuvwxyz", *(f"##{c}" for c in "abcdefghijklmnopqrstuvwxyz"), *words
    )
    config = toy.config(architecture, vocab_size=tokenizer.vocab_size, **{"hidden_size": 64, "num_layers": 4} | shape)
    network = build_networks(Networks.pair(config, head="generator"), seed=seed, initialisation="fan_in").main
    export_network(folder / name, network, tokenizer, Card(name=name, kind="generator"))
    return folder / name


def text_store(folder: Path, teacher: Path, **settings: Any) -> TokenStore:
    (folder / "text.txt").write_text(TEXT * 150)
    return electra.prepare(
        folder / "text.txt",
        out=folder / "store",
        tokenizer=teacher,
        unit="line",
        progress="quiet",
        **settings,
    ).tokens


def cut_to_text(folder: Path, teacher: Path) -> Path:
    """The teacher with the pieces that the text needs; some words leave."""
    (folder / "text.txt").write_text(TEXT * 150)
    electra.export(teacher, out=folder / "cut", cut_to=folder / "text.txt", progress="quiet")
    return folder / "cut"


def recipe(teacher: Path, **sections: Any) -> Any:
    objective = {"name": "distil", "teacher": str(teacher)} | sections.pop("objective", {})
    return toy.recipe(objective=objective, **sections)


def weights(run: RunState) -> dict[str, torch.Tensor]:
    tensors = {**dict(run.pair.named_parameters()), **run.optimizer.tensors()}
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}


def made_with(**options: Any) -> tuple[Any, Any, Any]:
    """An objective, a pair whose teacher is wider and deeper than its student, and a corrupted batch."""
    made = toy.objective("distil", **options)
    full = toy.config(hidden_size=32, num_layers=2)
    teacher = toy.config(hidden_size=48, num_layers=4, num_heads=3)
    others = [replace(row, shape=teacher) for row in made.extra_networks(full)]
    shapes = Networks.in_order([*Networks.pair(full, None).rows, *others])
    frozen = {"teacher": EncoderAlone(build_encoder(teacher))}
    torch.manual_seed(1)
    for parameter in frozen["teacher"].parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    pair = build_networks(shapes, heads=made.heads(shapes), frozen=frozen, seed=3, initialisation="fan_in")
    return made, pair.eval(), made.corrupt(toy.batches().batch(0, 4), 3, 0.0)


def states_of(encoder: Any, part: Any) -> list[torch.Tensor]:
    recorded: list[torch.Tensor] = []
    hooks = [layer.register_forward_hook(lambda _, __, out: recorded.append(out)) for layer in encoder.layers]
    encoder(part.input_ids, part.position_ids, part.document_ids)
    for hook in hooks:
        hook.remove()
    return recorded


@pytest.mark.parametrize("pooling", ["cls", "last", "max", "mean"])
def test_the_vectors_are_those_that_embed_gives(pooling: Any) -> None:
    """Pooled as inference pools the states of one text, then through the steps after the pooling."""
    made, pair, part = made_with(discriminator_weight=0, states_weight=0)
    torch.manual_seed(2)
    dense = torch.nn.Linear(48, 5)
    made.pooling, made.after_pooling = pooling, dense
    total, states = 0.0, [torch.zeros(0)] * 2
    with torch.no_grad():
        states[0] = pair.heads["depth_2"](states_of(pair.main.encoder, part)[-1])
        states[1] = states_of(pair.frozen["teacher"].encoder, part)[-1]
        for row, ids in enumerate(part.document_ids):
            for document in range(int(ids.max()) + 1):
                texts = [each[row][ids == document].numpy() for each in states]
                pooled = [vector_of(pooling, [reduced(pooling, text)]) for text in texts]
                total += 1 - float(torch.cosine_similarity(*map(dense, map(torch.tensor, pooled)), dim=0))
        assert float(made.forward(pair, part).losses["vectors"]) == pytest.approx(total, abs=1e-4)


def test_the_losses_are_distances_between_states_and_between_means() -> None:
    made, pair, part = made_with(discriminator_weight=0)
    losses = made.forward(pair, part).losses
    actual, theirs = states_of(pair.main.encoder, part), states_of(pair.frozen["teacher"].encoder, part)
    assert set(losses) == {"states", "vectors"} and pair.auxiliary is None
    states = vectors = texts = 0.0
    for row in range(4):
        document_ids = part.document_ids[row]
        for document in range(int(document_ids.max()) + 1):
            at = (document_ids == document).nonzero().flatten()
            texts += 1
            for depth, other in ((1, 2), (2, 4)):
                recorded = pair.heads[f"depth_{depth}"](actual[depth - 1])[row, at].detach().double().numpy()
                want = theirs[other - 1][row, at].double().numpy()
                norms = np.linalg.norm(recorded, axis=-1) * np.linalg.norm(want, axis=-1)
                states += (1 - (recorded * want).sum(-1) / norms).sum() / 2
            a, b = recorded.mean(0), want.mean(0)
            vectors += 1 - a @ b / np.linalg.norm(a) / np.linalg.norm(b)
    assert float(losses["states"].detach()) == pytest.approx(states, rel=1e-5)
    assert float(losses["vectors"].detach()) == pytest.approx(vectors, rel=1e-5)
    assert part.counts == {"states": int((part.document_ids >= 0).sum()), "vectors": texts}


def test_budgets_count_the_projections() -> None:
    """By hand, for a student of 2 layers of 32, a teacher of width 48, and 16 tokens."""
    projection = 2 * (2 * 32 * 48 * 16)  # forward and backward
    for width, weights, expected in ((48, {}, 3), (48, {"vectors_weight": 0}, 2), (32, {}, 0)):
        made = toy.objective("distil", discriminator_weight=0, **weights)
        student, teacher = (toy.config(hidden_size=each, num_layers=2, num_heads=4) for each in (32, width))
        others = [replace(row, shape=teacher) for row in made.extra_networks(student)]
        shapes = Networks.in_order([*Networks.pair(student, None).rows, *others])
        more = made.sequence_flops(shapes, 16) - training_flops(shapes, 16, masked_fraction=0.15)
        assert more == pytest.approx(expected * projection)


def test_a_cut_student_resumes_with_the_same_bits_and_its_teacher_is_counted(tmp_path: Path) -> None:
    teacher = make_teacher(tmp_path)
    store = text_store(tmp_path, cut_to_text(tmp_path, teacher))
    assert (size := store.vocab_size) < load(teacher, "encoder").tokenizer.vocab_size
    asked = recipe(
        teacher, training={"steps": 6, "checkpoint_every": 3, "log_every": 1}, objective={"noise_share": 0.4}
    )
    from electra.training.starts import open_starts

    def begin(name: str) -> Any:
        starts = open_starts(f"{teacher}[0,3]", None, asked.model, str(teacher)).fitted(store.tokenizer)
        return start(asked, tmp_path / name, store, World(), starts=starts)

    with begin("whole") as run, StopRequest() as stop:
        first = load(teacher, "encoder").encoder.layers[3].output.weight
        assert torch.equal(run.pair.main.encoder.layers[1].output.weight, first)
        teacher_shape, alone = run.networks.frozen[0].config, Networks.in_order(run.networks.trained)
        assert (teacher_shape.num_layers, teacher_shape.vocab_size) == (4, size)
        one_pass = forward_flops([Network("", "frozen", teacher_shape, "encoder")], 16, masked_fraction=0.15)
        both = training_flops(alone, 16, masked_fraction=0.15) + one_pass
        assert run.flops_per_step == pytest.approx(8 * both)
        assert train(run, stop)
        expected = weights(run)
    with begin("run") as run:
        assert not train(run, lambda: run.step == 3)
    with begin("run") as run, StopRequest() as stop:
        assert run.step == 3 and train(run, stop)
        now = weights(run)
    assert expected.keys() == now.keys()
    assert all(torch.equal(value, now[name]) for name, value in expected.items())
    rows = list(RunFolder(tmp_path / "run").ledger().rows_of_kind("train"))
    assert rows[-1]["losses"]["states"] < rows[0]["losses"]["states"]
    with pytest.raises(ElectraError, match="initial_discriminator"):
        starts = open_starts(f"{teacher}[0,2]", None, asked.model, str(teacher)).fitted(store.tokenizer)
        with start(asked, tmp_path / "run", store, World(), starts=starts):
            pass


@pytest.mark.parametrize("architecture", ["electra", "modern"])
def test_kept_layers_run_in_their_order(tmp_path: Path, architecture: str) -> None:
    whole = small.network(tmp_path, architecture=architecture, layers=3)
    ids = torch.tensor([[2, 7, 9, 3]])
    kept = keep_layers(whole, (0, 2))
    layers = whole.encoder.layers
    whole.encoder.layers = torch.nn.ModuleList([layers[0], layers[2]])
    with torch.no_grad():
        assert torch.equal(kept.encoder(ids), whole.encoder(ids))
    whole.encoder.layers = layers
    for wrong in ((), (2, 0), (0, 0), (0, 3)):
        with pytest.raises(ConfigError, match="0 to 2"):
            keep_layers(whole, wrong)


def test_the_command_trains_and_exports_a_student(tmp_path: Path) -> None:
    teacher, text = cut_to_text(tmp_path, make_teacher(tmp_path)), tmp_path / "text.txt"
    size = electra.load(teacher).config.vocab_size
    settings = {"data.unit": "line", "training.length": 16, "training.batch_size": 4, "evaluation.rows": 4}
    settings |= {"training.threads": 1}
    short: dict[str, Any] = {"overrides": settings, "progress": "quiet", "budget": "3steps"}

    def exported(run: electra.Run) -> dict[str, torch.Tensor]:
        return load_file(run.path / "discriminator" / "model.safetensors")

    def equal(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
        return all(torch.equal(value, b[name]) for name, value in a.items())

    run = electra.distil(teacher, text, out=tmp_path / "run", keep_layers=(0, 1), **short)
    for loss in ("states_loss", "vectors_loss"):
        held_out = {row["step"]: row[loss] for row in run.metrics if row["kind"] == "eval"}
        assert all(0 < value < 2 for value in held_out.values()) and max(held_out) == 3, loss
    student, before = electra.load(run), exported(run)
    shape = student.config
    assert (shape.num_layers, shape.hidden_size, shape.vocab_size) == (2, 64, size)
    assert len(student.embed(["the chef", "a cat"])) == 2
    again = electra.distil(teacher, text, out=tmp_path / "run", keep_layers="0,1", **short)
    assert again.step == 3 and equal(before, exported(again))
    more: dict[str, Any] = {"overrides": settings | {"training.learning_rate": 1e-30}, "progress": "quiet"}
    further = electra.distil(teacher, text, out=tmp_path / "more", init=tmp_path / "run", budget="1steps", **more)
    assert equal(before, exported(further)) and electra.load(further).config.vocab_size == size
    with pytest.raises(ConfigError) as refused:
        electra.distil(teacher, "text", out=tmp_path / "x", init=tmp_path / "run", keep_layers="0", **short)
    assert refused.value.key == "init"


def test_what_does_not_fit_the_teacher_is_refused_before_the_text_is_encoded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    teacher = make_teacher(tmp_path)
    other = make_teacher(tmp_path / "other", words=("gnu", *WORDS[:-1]))
    (tmp_path / "text.txt").write_text(TEXT * 150)
    (tmp_path / "tuned").mkdir()
    (tmp_path / "tuned" / "finetune.json").write_text("{}")
    for source, words, told in (
        (teacher, ["--init", str(other)], f"{other} has another tokenizer than {teacher}"),
        (teacher, ["--tokenizer.source", str(other)], f"{other} has another tokenizer than {teacher}"),
        (teacher, ["--tokenizer.kind", "bpe"], "--tokenizer.kind: has no effect"),
        (tmp_path / "tuned", [], "subfolder model/"),
    ):
        flags = ["--corpus", str(tmp_path / "text.txt"), "--out", str(tmp_path / "run"), "--budget", "1steps"]
        assert main(["distil", str(source), *words, *flags]) == 2
        *_, line = capsys.readouterr().err.splitlines()
        assert line.startswith("error: ") and told in line and not (tmp_path / "run" / "store").exists()


@pytest.mark.slow
def test_a_dry_run_knows_the_cut_vocabulary(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    teacher = make_teacher(tmp_path)
    smaller = cut_to_text(tmp_path, teacher)
    store, size = text_store(tmp_path, smaller).path, electra.load(smaller).config.vocab_size
    flags = ["--training.length", "16", "--training.batch-size", "4", "--budget", "2steps", "--dry-run"]
    flags += ["--out", str(tmp_path / "none")]
    for words in (
        ["distil", str(teacher), str(store), "--keep-layers", "0,1"],
        ["distil", str(smaller), str(tmp_path / "text.txt"), "--keep-layers", "0,1"],
        ["pretrain", str(store), "--init-discriminator", str(teacher)],
    ):
        assert main([*words, *flags]) == 0
        assert f"vocabulary     {size}\n" in capsys.readouterr().out, words
    assert not (tmp_path / "none").exists()


def test_an_unsuitable_teacher_is_refused(tmp_path: Path) -> None:
    teacher = make_teacher(tmp_path)
    store = text_store(tmp_path, teacher)
    wrong = make_teacher(tmp_path / "broken")
    tensors = load_file(wrong / "model.safetensors")
    next(iter(tensors.values())).view(-1)[0] = float("nan")
    save_file(tensors, wrong / "model.safetensors")
    other = make_teacher(tmp_path / "other", words=("gnu", *WORDS[:-1]))
    for source, options, told in (
        (other, {}, "teacher"),
        (wrong, {}, "finite"),
        (teacher, {"teacher": ""}, r"objective\.teacher"),
        (teacher, {"states_weight": 0, "vectors_weight": 0}, r"objective\.states_weight"),
    ):
        with (
            pytest.raises((ConfigError, ModelError), match=told),
            start(recipe(source, objective=options), tmp_path / "run", store, World()),
        ):
            pass


@pytest.mark.parametrize(
    "layers", [0, True, 1.5, -1, "-1", "", "0;1", "two", [], [-1], "2,0", (1, 1), [0, 1.5], [True], {}]
)
def test_layers_to_keep_are_checked_before_the_teacher_is_opened(layers: Any) -> None:
    with pytest.raises(ConfigError) as refused:
        layer_numbers(layers)
    assert refused.value.key == "keep_layers" and "\n" not in str(refused.value)
    assert layer_numbers("0, 2") == layer_numbers([0, 2]) == layer_numbers(np.array([0, 2])) == (0, 2)


def test_the_folder_of_a_fine_tuning_is_opened_at_its_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "tuned" / "model").mkdir(parents=True)
    for name in ("finetune.json", "model/config.json"):
        (tmp_path / "tuned" / name).write_text("{}")
    for name, expected in (("tuned", "tuned/model"), ("other", "other")):
        request = Distil(tmp_path / name, "text.txt", out=tmp_path / "run", keep_layers="0").request()
        assert request.recipe.objective["teacher"] == str(tmp_path / expected)
        assert f"{tmp_path / expected}[0]" in vars(request).values()
    for option in ("--store", "--data"):
        assert main(["distil", "tiny-en", option, "x", "--out", str(tmp_path / "run")]) == 2
        assert "--corpus" in capsys.readouterr().err
