"""The command `electra serve`; the server is in `electra.serving`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from typing_extensions import override

from electra.commands.framework.command import Command, function
from electra.foundation.display import Display, display_for
from electra.foundation.machine import OnDevice, not_installed
from electra.foundation.options import Sources, as_names
from electra.serving.limits import Limits


@dataclass(frozen=True)
class Serve(
    Limits,
    OnDevice,
    Command[int],
    examples=("electra serve tiny-en", "electra serve runs/mine runs/reviews --host 0.0.0.0 --port 80"),
):
    """Serve models over HTTP: a web page to try them, and a JSON API.

    The API detects, embeds, predicts and fills masks. The server runs until it is stopped (Ctrl-C). In
    Python, `electra.serve` returns the exit code when the server stops.
    """

    models: Sources
    """Run folders, model folders (ONNX included), fine-tuned models, names on the hub, or models that come
    with the package (tiny-en, small-en). The web page offers what the models can do.
    """
    _: KW_ONLY
    host: str = "127.0.0.1"
    """The address to listen on. With 0.0.0.0 other machines can connect. There is no login."""
    port: int = 8000
    """The port to listen on (0: any free port)."""

    def __post_init__(self) -> None:
        Command.__post_init__(self)
        self.part(Limits)

    @override
    def run(self) -> int:
        try:
            from electra.foundation.signals import StopRequest, stops_after
            from electra.serving.models import open_models
            from electra.serving.server import listen
            from electra.serving.server import serve as run_server
        except ImportError as missing:
            raise not_installed(missing.name, "serve") from None
        with listen(self.host, self.port) as socket, display_for(self.progress) as display:
            opened_models = open_models(as_names(self.models, "models"), self.device)
            with Display(), stops_after("the open requests"):
                limits, stop = self.part(Limits), StopRequest()
                return run_server(opened_models, socket, limits, say=display.say, stop=stop)


serve = function(Serve)
