"""TensorBoard: event files in OUT/RUN; `tensorboard --logdir OUT` shows them."""

from __future__ import annotations

import json
from collections.abc import Mapping

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.summary.writer.event_file_writer import EventFileWriter
from typing_extensions import override

from electra.exchange.trackers.interface import Target, Tracker

TEXT = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="text"))


class TensorBoard(Tracker):
    """Event files of one run."""

    id = ""

    def __init__(self, target: Target) -> None:
        self._started = target.started
        is_new = not any((target.out / target.run).glob("events.*"))
        self._writer = EventFileWriter(str(target.out / target.run))
        if is_new:
            self._add(0, 0.0, Summary(value=[_text("recipe", _table(target.settings))]))

    @override
    def log(self, step: int, seconds: float, values: Mapping[str, float]) -> None:
        summaries = [Summary.Value(tag=name, simple_value=value) for name, value in values.items()]
        self._add(step, seconds, Summary(value=summaries))

    def _add(self, step: int, seconds: float, summary: Summary) -> None:
        self._writer.add_event(Event(wall_time=self._started + seconds, step=step, summary=summary))

    @override
    def flush(self) -> None:
        self._writer.flush()

    @override
    def close(self, finished: bool) -> None:
        self._writer.close()


open = TensorBoard


def _text(tag: str, text: str) -> Summary.Value:
    shape = TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)])
    tensor = TensorProto(dtype="DT_STRING", string_val=[text.encode()], tensor_shape=shape)
    return Summary.Value(tag=tag, metadata=TEXT, tensor=tensor)


def _table(settings: Mapping[str, object]) -> str:
    rows = [f"| {key} | `{json.dumps(value, default=str)}` |" for key, value in settings.items()]
    return "\n".join(["| setting | value |", "|---|---|", *rows])
