"""Plans a run without training: what it would be, how long it takes and what it needs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from electra.commands.framework.display import Display
from electra.commands.parts.stores import character_progress, existing_tokenizer, tokenizer_config
from electra.commands.parts.train import Origin, Text, with_store_settings
from electra.commands.parts.warm_start import warm_start
from electra.foundation.signals import interrupt_on_signal
from electra.training.recipe import Recipe

if TYPE_CHECKING:
    from electra.data.sources import Argument
    from electra.training.estimate import Estimate


def plan(recipe: Recipe, text: Text, origin: Origin, display: Display) -> Estimate:
    """Measures for a few seconds what a run would cost. Writes nothing."""
    from electra.training.estimate import estimate

    with interrupt_on_signal("the plan"):
        if text.store is not None:
            store = text.open(recipe, display)
            recipe = with_store_settings(recipe, store)
            tokens, vocab_size = store.train.num_tokens, store.vocab_size
        else:
            tokens, vocab_size = corpus_size(text.corpus, recipe, display)
        warm = warm_start(origin.discriminator, origin.generator, recipe)
        if warm is not None and recipe.tokenizer.cut_to:
            shapes = {name: replace(each, vocab_size=vocab_size) for name, each in warm.shapes.items()}
            warm = replace(warm, shapes=shapes)
        display.progress("timing a few updates")
        return estimate(recipe, vocab_size, tokens, warm)


def corpus_size(corpus: tuple[Argument, ...], recipe: Recipe, display: Display) -> tuple[int, int]:
    """Returns an estimate of the training tokens, and the vocabulary size of text.

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
