"""A curve of any length in a bounded number of points: neighbours are merged, and no spike is lost."""

from __future__ import annotations

from dataclasses import dataclass

MOST = 800  # points; at least half as many once there are so many


@dataclass
class Bucket:
    """Neighbouring measurements: where the last was made, and their mean, lowest and highest value."""

    step: int
    tokens: float | None
    seconds: float | None
    total: float
    low: float
    high: float
    count: int = 1

    def take(self, other: Bucket) -> None:
        self.step, self.tokens, self.seconds = other.step, other.tokens, other.seconds
        self.total, self.count = self.total + other.total, self.count + other.count
        self.low, self.high = min(self.low, other.low), max(self.high, other.high)


class Series:
    """Constant memory, constant time a measurement."""

    def __init__(self, most: int = MOST) -> None:
        self.most, self.width = most, 1  # measurements a bucket takes
        self.buckets: list[Bucket] = []

    def add(self, step: int, tokens: float | None, seconds: float | None, value: float) -> None:
        measured = Bucket(step, tokens, seconds, value, value, value)
        if self.buckets and self.buckets[-1].count < self.width:
            self.buckets[-1].take(measured)
            return
        if len(self.buckets) == self.most:
            kept = self.buckets[::2]
            for first, second in zip(kept, self.buckets[1::2], strict=True):
                first.take(second)
            self.buckets, self.width = kept, 2 * self.width
        self.buckets.append(measured)

    def columns(self) -> dict[str, list[float | None]]:
        """What the page draws; low and high are empty while every point is one measurement."""
        drawn = self.buckets
        ends = drawn if self.width > 1 else []
        return {
            "step": [one.step for one in drawn],
            "tokens": [one.tokens for one in drawn],
            "seconds": [one.seconds for one in drawn],
            "mean": [one.total / one.count for one in drawn],
            "low": [one.low for one in ends],
            "high": [one.high for one in ends],
        }
