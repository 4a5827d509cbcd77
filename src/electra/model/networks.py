"""The table of the networks of a run.

Building, optimizer groups, FLOP counts, checkpoints, export and replay all iterate over it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, Self

from electra.artifacts.network_names import EXPORTED, NAMES, ORDER, Head
from electra.model.sizes import EncoderConfig

Role = Literal["main", "auxiliary", "frozen"]


@dataclass(frozen=True)
class Network:
    """A network of a run."""

    name: str
    role: Role
    """main: that which the run is for; auxiliary: trained together with it; frozen: never trained, saved or
    exported, such as a teacher that is read from a model folder.
    """
    shape: EncoderConfig | None = None
    """Shape of its encoder; None if it is that of a `source` that has not been opened yet."""
    head: Head = "generator"
    rate: float | None = None
    """Peak learning rate of the weights that it does not share (None: the recipe's)."""
    exported: bool = False
    """Whether it is written as a model folder at the end of the run."""
    source: str = ""
    """Of a frozen network: the folder, run or hub name of the model whose encoder it is."""

    @property
    def config(self) -> EncoderConfig:
        """The shape of its encoder, which must be known."""
        assert self.shape is not None, f"{self.name} has not been opened"
        return self.shape


@dataclass(frozen=True)
class Networks:
    """The networks of a run; exactly one is the main one."""

    rows: tuple[Network, ...]

    @classmethod
    def in_order(cls, rows: Iterable[Network]) -> Self:
        """Builds a table of the rows in the order in which weights are saved and gradients are summed."""
        order = {name: index for index, name in enumerate(ORDER)}
        return cls(tuple(sorted(rows, key=lambda row: order.get(row.name, len(ORDER)))))

    @classmethod
    def pair(cls, main: EncoderConfig, auxiliary: EncoderConfig | None = None, head: Head = "discriminator") -> Self:
        """Builds the table of a main network and, unless None, an auxiliary one, under the usual names."""
        names = NAMES[head]
        rows = [Network(names[0], "main", main, head, exported=True)]
        if auxiliary is not None:
            rows.append(Network(names[1], "auxiliary", auxiliary, exported=names[1] in EXPORTED))
        return cls.in_order(rows)

    @property
    def main(self) -> EncoderConfig:
        """Shape of the main network."""
        return next(row.config for row in self.rows if row.role == "main")

    @property
    def auxiliary(self) -> EncoderConfig | None:
        """Shape of the first auxiliary network; None if there is none."""
        return next((row.config for row in self.rows if row.role == "auxiliary"), None)

    @property
    def trained(self) -> list[Network]:
        """The main and auxiliary networks."""
        return [row for row in self.rows if row.role != "frozen"]

    @property
    def frozen(self) -> list[Network]:
        """The networks that are never trained."""
        return [row for row in self.rows if row.role == "frozen"]

    @property
    def rates(self) -> dict[str, float]:
        """Peak learning rates by name, for networks that have their own."""
        return {row.name: row.rate for row in self.rows if row.rate is not None}
