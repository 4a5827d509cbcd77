"""The names of a training's networks in weights, records, folders and options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

# replaced token detection, masked language modelling; an encoder alone ends in its hidden states
Head = Literal["discriminator", "generator", "encoder"]

# Head of the main network -> names of the main and the auxiliary network.
NAMES: dict[Head, tuple[str, str]] = {
    "discriminator": ("discriminator", "generator"),
    "generator": ("generator", "sampler"),
}
ORDER = ("generator", "discriminator", "sampler")  # order in files; further networks follow
EXPORTED: tuple[Head, Head] = ("discriminator", "generator")  # as model folders, the preferred one first


def network_tables(record: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Returns the tables of a run's record that describe a network, by the network's name."""
    required = {"num_layers", "hidden_size", "vocab_size"}
    return {
        name: table for name, table in record.items() if isinstance(table, Mapping) and required <= set(table)
    }
