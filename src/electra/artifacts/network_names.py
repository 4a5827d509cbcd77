"""The names of a run's networks in weights, records, folders and options."""

from collections.abc import Mapping
from typing import Any, Literal

# A discriminator detects replaced tokens, a generator is a masked language model, an encoder has no head.
Head = Literal["discriminator", "generator", "encoder"]

# Head of the main network -> names of the main and the auxiliary network.
NAMES: dict[Head, tuple[str, str]] = {
    "discriminator": ("discriminator", "generator"),
    "generator": ("generator", "sampler"),
}
ORDER = ("generator", "discriminator", "sampler")  # order in files; further networks follow
# Networks that are written as model folders; the preferred one first.
EXPORTED: tuple[Head, Head] = ("discriminator", "generator")


def network_tables(record: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Returns the tables that describe networks in a run's record, by the name of the network."""
    required = {"num_layers", "hidden_size", "vocab_size"}
    tables = {name: table for name, table in record.items() if isinstance(table, Mapping)}
    return {name: table for name, table in tables.items() if required <= set(table)}
