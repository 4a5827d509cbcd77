"""Continued pre-training: weights of a published or exported pair in the networks of a new run."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from electra.data.corpus.tokenizer import Tokenizer
from electra.foundation.errors import ModelError
from electra.model.pair import Pair
from electra.training.starts import Starts, open_starts

MakePair = Callable[..., Pair]
ExportPair = Callable[..., tuple[Pair, Path]]


def opened(discriminator: Path | None = None, generator: Path | None = None) -> Starts:
    names = (None if folder is None else str(folder) for folder in (discriminator, generator))
    return open_starts(*names)


def differing(one: Pair, other: Pair) -> list[str]:
    mine, reference = dict(one.named_parameters()), dict(other.named_parameters())
    assert mine.keys() == reference.keys()
    return [name for name in mine if not torch.equal(mine[name], reference[name])]


@pytest.mark.parametrize("sharing", ["none", "token", "embeddings"])
def test_a_pair_continues_with_the_same_weights(
    sharing: str, export_pair: ExportPair, make_pair: MakePair, uncased: Tokenizer
) -> None:
    pair, folder = export_pair(size="mini", sharing=sharing)
    fresh = make_pair("mini", vocab_size=uncased.vocab_size, seed=7, sharing=sharing)
    assert differing(pair, fresh)
    assert opened(folder, folder).fitted(uncased).load_into(fresh) == ()
    assert differing(pair, fresh) == []


@torch.inference_mode()
def test_the_projection_of_a_modern_generator_is_recovered(
    export_pair: ExportPair, make_pair: MakePair, uncased: Tokenizer
) -> None:
    """The exported generator contains table x projection; the new run has both factors."""
    pair, folder = export_pair(size="tiny", architecture="modern")
    fresh = make_pair("tiny", "modern", uncased.vocab_size, seed=7)
    opened(folder, folder).load_into(fresh)
    ids = torch.randint(5, 100, (2, 9))
    for name in ("generator", "discriminator"):
        old, new = getattr(pair, name), getattr(fresh, name)
        assert (old.logits(old.encoder(ids)) - new.logits(new.encoder(ids))).abs().max() <= 1e-4
    _, other = export_pair("other", size="tiny", architecture="modern", seed=3)
    with pytest.raises(ModelError):
        opened(folder, other).load_into(fresh)


def test_discriminator_alone_leaves_the_generator_fresh(
    export_pair: ExportPair, make_pair: MakePair, uncased: Tokenizer
) -> None:
    pair, folder = export_pair(size="mini")
    fresh, untouched = (make_pair("mini", vocab_size=uncased.vocab_size, seed=7) for _ in range(2))
    opened(folder / "discriminator").load_into(fresh)
    assert fresh.auxiliary is not None and untouched.auxiliary is not None
    changed = set(differing(untouched, fresh))
    own = {name for name, _ in fresh.auxiliary.named_parameters() if ".embeddings." not in f".{name}"}
    assert not changed & {f"generator.{name}" for name in own}
    assert "generator.encoder.embeddings.words.weight" in changed  # shared with the discriminator
    assert differing(pair, fresh)


def test_shared_weights_come_from_the_discriminator(
    export_pair: ExportPair, make_pair: MakePair, uncased: Tokenizer
) -> None:
    pair, one = export_pair("one", size="mini", seed=1)
    _, two = export_pair("two", size="mini", seed=2)
    fresh = make_pair("mini", vocab_size=uncased.vocab_size, seed=7)
    [note] = opened(one, two).load_into(fresh)
    assert "shared weights" in note
    assert fresh.main is not None and pair.main is not None
    assert torch.equal(fresh.main.encoder.token_table(), pair.main.encoder.token_table())


def test_mismatched_sizes_are_named(
    export_pair: ExportPair, make_pair: MakePair, uncased: Tokenizer, cased: Tokenizer
) -> None:
    _, folder = export_pair(size="mini")
    with pytest.raises(ModelError, match=r"tensor encoder.*\[.*\].*\[.*\]"):
        opened(folder).load_into(make_pair("tiny", vocab_size=uncased.vocab_size))
    with pytest.raises(ModelError):
        opened(folder).load_into(make_pair("mini", vocab_size=uncased.vocab_size, num_layers=1))
    fitting = make_pair("mini", vocab_size=uncased.vocab_size)
    with pytest.raises(ModelError):
        opened(folder).fitted(cased).load_into(fitting)
    with pytest.raises(ModelError):
        opened(None, folder).load_into(Pair(fitting.main))
