"""What the networks of a training are called: in weights, records, folders and options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

# what a network ends in: one judges tokens, the other names them; an encoder alone ends in its states
Head = Literal["discriminator", "generator", "encoder"]

# The main network and the auxiliary one, by what the main one is.
NAMES: dict[Head, tuple[str, str]] = {
    "discriminator": ("discriminator", "generator"),
    "generator": ("generator", "sampler"),
}
ORDER = (
    "generator",
    "discriminator",
    "sampler",
)  # of all weights, and of their sums; further networks follow
EXPORTED: tuple[Head, Head] = ("discriminator", "generator")  # as model folders, the one to use first


def shapes_in(record: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The tables of a run's record that describe a network, by its name."""
    wanted = {"num_layers", "hidden_size", "vocab_size"}
    return {
        name: table for name, table in record.items() if isinstance(table, Mapping) and wanted <= set(table)
    }
