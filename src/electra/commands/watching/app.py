"""The page that watches, and the state it asks for: nothing is read but what the runs have written since."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from electra.commands.watching.watched import Watched
from electra.foundation.errors import ElectraError
from electra.pages.glossary import METRICS
from electra.serving.web import LOOPBACK, ForHosts, WithHeaders

PAGE = Path(str(files("electra.commands.watching") / "page"))
SHARED = Path(str(files("electra.serving") / "page"))
BETWEEN = 0.5  # seconds between two looks at the files, however many pages ask

LOSSES = {"mlm": "Generator loss in training", "rtd": "Discriminator loss in training"}
HELD_OUT = (
    "auc",
    "gain",
    "discriminator_loss",
    "average_precision",
    "generator_loss",
    "generator_accuracy",
    "mlm_loss",
)


def make_app(runs: Sequence[Watched], draw: Callable[[Path], list[Any]] | None = None) -> Starlette:
    """The application that shows `runs`, to this machine alone.

    draw: worked examples of the newest checkpoint of a run that has written none yet. Its networks are
        loaded for that, so it is done when somebody asks for it alone.
    """
    looked, one_at_a_time = -BETWEEN, threading.Lock()

    def state(http: Request) -> Response:
        """GET /state?seen=3,7: each run as it is now, with curves where its version is not the one seen."""
        with one_at_a_time:  # pages are answered in threads, as files may lie on a slow disk
            return JSONResponse(told(http.query_params.get("seen", "").split(",")))

    def told(seen: Sequence[str]) -> dict[str, Any]:
        nonlocal looked
        if time.monotonic() - looked > BETWEEN:
            for run in runs:
                run.look()
            looked = time.monotonic()
        told = []
        for place, run in enumerate(runs):
            new = place >= len(seen) or seen[place] != str(run.version)
            told.append(run.state() | (run.drawn() if new else {}))
        names = dict.fromkeys(name for run in runs for name in run.curves)
        return {"runs": told, "charts": charts(names)}

    def examples(http: Request) -> Response:
        """POST /examples/0: worked examples of the newest checkpoint of that run."""
        place, origin = http.path_params["place"], http.headers.get("origin")
        if origin not in (None, f"http://{http.headers.get('host')}"):  # another page in the user's browser
            return JSONResponse({"error": "asked by another site"}, 403)
        if draw is None or place >= len(runs):
            return JSONResponse({"error": "no such run"}, 404)
        try:
            with one_at_a_time:
                return JSONResponse({"examples": draw(runs[place].folder.path)})
        except ElectraError as error:
            return JSONResponse({"error": f"{error.what}. {error.fix}".strip()}, 409)

    async def page(http: Request) -> Response:
        return FileResponse(PAGE / "index.html")

    routes = [
        Route("/", page),
        Route("/state", state),
        Route("/examples/{place:int}", examples, methods=["POST"]),
        Mount("/page", StaticFiles(directory=SHARED)),
        Mount("/watch", StaticFiles(directory=PAGE)),
    ]
    middleware = [
        Middleware(WithHeaders),
        Middleware(ForHosts, hosts=LOOPBACK),
    ]
    return Starlette(routes=routes, middleware=middleware)


def charts(names: Any) -> list[dict[str, Any]]:
    """Which curves are drawn, in what order, under which words."""
    held_out = [
        _chart(f"eval.{key}", METRICS[key].title, METRICS[key].meaning, "Held-out text")
        | {"reference": {"auc": 0.5, "gain": 0.0}.get(key)}
        for key in HELD_OUT
    ]
    losses = sorted(name for name in names if name.startswith("train.losses."))
    training = [
        _chart(name, LOSSES.get(short, short), "Nats per token it is measured on.", "Training")
        for name in losses
        for short in [name.removeprefix("train.losses.")]
    ]
    training += [
        _chart("train.loss", "Total loss", "What the optimizer lowers.", "Training"),
        _chart("train.tokens_per_s", "Throughput", "Tokens per second.", "Training"),
        _chart("train.gradient_norm", "Gradient norm", "Before clipping.", "Training"),
        _chart("train.learning_rate", "Learning rate", "As it was applied.", "Training"),
    ]
    return [chart for chart in [*held_out, *training] if chart["key"] in names]


def _chart(key: str, title: str, note: str, group: str) -> dict[str, Any]:
    return {"key": key, "title": title, "note": note, "group": group}
