"""The networks of a training, in one table: what builds them, groups their weights, counts their FLOPs,
saves, exports and replays them walks it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from electra.artifacts.networks import EXPORTED, NAMES, ORDER, Head
from electra.model.sizes import EncoderConfig

Role = Literal["main", "auxiliary", "frozen"]


@dataclass(frozen=True)
class Network:
    """One row: a network that is trained, or one that is only read from.

    main       what the training is for
    auxiliary  trained beside it
    frozen     never trained, in no checkpoint and never exported: a teacher from a model folder
    """

    name: str
    role: Role
    shape: EncoderConfig | None = None
    """Of its encoder; None: that of its `source`, until it is opened."""
    head: Head = "generator"
    rate: float | None = None
    """Peak learning rate of the weights that it shares with no other (None: the training's)."""
    exported: bool = False
    source: str = ""
    """The model that it begins from: a folder, a run or a name on the hub; empty: fresh weights."""

    @property
    def config(self) -> EncoderConfig:
        assert self.shape is not None, f"{self.name} has not been opened"
        return self.shape


@dataclass(frozen=True)
class Networks:
    rows: tuple[Network, ...]

    @classmethod
    def of(cls, rows: Iterable[Network]) -> Networks:
        """In the order in which their weights are saved and summed."""
        known = {name: place for place, name in enumerate(ORDER)}
        return cls(tuple(sorted(rows, key=lambda row: known.get(row.name, len(ORDER)))))

    @classmethod
    def pair(
        cls, main: EncoderConfig, auxiliary: EncoderConfig | None = None, head: Head = "discriminator"
    ) -> Networks:
        """Main and auxiliary network alone."""
        names = NAMES[head]
        rows = [Network(names[0], "main", main, head, exported=True)]
        if auxiliary is not None:
            rows.append(Network(names[1], "auxiliary", auxiliary, exported=names[1] in EXPORTED))
        return cls.of(rows)

    @property
    def main(self) -> EncoderConfig:
        return next(row.config for row in self.rows if row.role == "main")

    @property
    def auxiliary(self) -> EncoderConfig | None:
        return next((row.config for row in self.rows if row.role == "auxiliary"), None)

    @property
    def trained(self) -> list[Network]:
        return [row for row in self.rows if row.role != "frozen"]

    @property
    def frozen(self) -> list[Network]:
        return [row for row in self.rows if row.role == "frozen"]

    @property
    def rates(self) -> dict[str, float]:
        """Peak learning rates of those that have one of their own."""
        return {row.name: row.rate for row in self.rows if row.rate is not None}
