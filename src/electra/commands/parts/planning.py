"""Plans a run without training: what it would be, how long it takes and what it needs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from electra.commands.framework.display import Display
from electra.commands.parts.stores import (
    character_progress,
    existing_tokenizer,
    refuse_preparing,
    tokenizer_config,
)
from electra.commands.parts.train import Inputs, with_store_settings
from electra.commands.parts.warm_start import SHARE_OF_RATE, split_layers, warm_start, with_shape
from electra.foundation.signals import interrupt_on_signal
from electra.training.recipe import Recipe

if TYPE_CHECKING:
    from electra.data.sources import Argument
    from electra.training.estimate import Estimate


def plan(recipe: Recipe, inputs: Inputs, display: Display) -> Estimate:
    """Measures for a few seconds what a run with these inputs would cost. Writes nothing.

    Raises:
        ElectraError: the recipe cannot be trained here, or there is no text.
        Interrupted: a stop was requested.
    """
    from electra.data.store import TokenStore
    from electra.training.estimate import estimate

    store = None if inputs.store is None else TokenStore.open(inputs.store)
    if store is not None:
        refuse_preparing(inputs.settings, recipe, store)
        recipe = with_store_settings(recipe, store)
    tokenizer = None if store is None else store.tokenizer
    warm = warm_start(inputs.init_discriminator, inputs.init_generator, recipe, tokenizer)
    if warm is not None:
        source = split_layers(inputs.init_discriminator or "")[0] or inputs.init_generator
        recipe = with_shape(recipe, warm, inputs.settings)
        rate = recipe.training.learning_rate * (1.0 if inputs.learning_rate_is_set else SHARE_OF_RATE)
        recipe = replace(
            recipe,
            tokenizer=replace(recipe.tokenizer, source=recipe.tokenizer.source or source),
            training=replace(recipe.training, learning_rate=rate),
        )
    with interrupt_on_signal("the plan"):
        if store is not None:
            tokens, vocab_size = store.train.num_tokens, store.vocab_size
        else:
            tokens, vocab_size = corpus_size(inputs.corpus, recipe, display)
        display.progress("timing a few updates")
        if warm is not None:
            shapes = {
                name: replace(shape, vocab_size=vocab_size if recipe.tokenizer.cut_to else shape.vocab_size)
                for name, shape in warm.shapes.items()
            }
            warm = replace(warm, shapes=shapes)
        return estimate(recipe, vocab_size, tokens, warm)


def corpus_size(corpus: tuple[Argument, ...], recipe: Recipe, display: Display) -> tuple[int, int]:
    """Returns an estimate of the training tokens and the vocabulary size of text.

    Raises CorpusError if there is no text, or it cannot be read.
    """
    from electra.data.survey import survey

    section = recipe.tokenizer
    tokenizer = existing_tokenizer(section.source) if section.source else tokenizer_config(section)
    found = survey(corpus, tokenizer, recipe.data, character_progress(display))
    vocab_size = min(found.vocab_size, section.cut_to or found.vocab_size)
    display.say(
        f"{found.documents:,} documents, {found.characters:,} characters, about {found.tokens:,} tokens with"
        f" a vocabulary of {vocab_size:,}"
    )
    return found.tokens, vocab_size
