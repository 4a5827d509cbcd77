"""The application: routes to operations, errors to one line, headers that keep a page to itself."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from electra.foundation.errors import ElectraError
from electra.serving import openapi
from electra.serving.batching import Batcher
from electra.serving.limits import DEFAULT, Limits, Refused
from electra.serving.metrics import CONTENT_TYPE, Metrics
from electra.serving.models import Served
from electra.serving.operations import OPERATIONS, Request
from electra.serving.web import ForHosts, WithHeaders

T = TypeVar("T")
PAGE = Path(str(files("electra.serving") / "page"))
DRAINED = 1 << 28  # bytes of a refused body that are read and dropped, so that its sender reads the answer


def make_app(models: Sequence[Served], limits: Limits = DEFAULT, hosts: Sequence[str] = ("*",)) -> Starlette:
    """The application that serves `models`.

    hosts: names by which clients may reach it ("*": any). On a loopback address this keeps a page of
        elsewhere, whose name was made to point here, from asking.
    """
    metrics = Metrics()
    batcher = Batcher(limits, metrics.batches.observe)
    metrics.watch(lambda: batcher.size)
    document = openapi.describe(limits)
    described = openapi.page(document)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        batcher.start()
        yield
        await batcher.stop()

    def endpoint(operation: type[Request]) -> Any:
        async def answer(http: HttpRequest) -> Response:
            asked = operation.model_validate_json(await _body(http, limits))
            served = _choose(models, asked)
            load = await asyncio.to_thread(asked.check, served, limits)

            def work(items: Sequence[Any]) -> Sequence[Any]:
                return asked.work(served, items)

            found: Sequence[Any] = []
            if asked.items:
                found = await while_there(http, batcher(asked.key(served), work, asked.items, load))
            metrics.texts.labels(operation.PATH).inc(len(asked.items))
            return JSONResponse({"model": served.name, operation.ANSWERS: asked.own(found)})

        return answer

    async def health(http: HttpRequest) -> Response:
        return JSONResponse({"status": "ok", "models": [served.name for served in models]})

    async def listed(http: HttpRequest) -> Response:
        return JSONResponse({"models": [served.describe() for served in models]})

    async def measured(http: HttpRequest) -> Response:
        return Response(metrics.show(), headers={"content-type": CONTENT_TYPE})

    async def schema(http: HttpRequest) -> Response:
        return JSONResponse(document)

    async def documentation(http: HttpRequest) -> Response:
        return HTMLResponse(described)

    async def page(http: HttpRequest) -> Response:
        return FileResponse(PAGE / "index.html")

    looks = {
        "/": page, "/healthz": health, "/models": listed, "/metrics": measured, "/openapi.json": schema,
        "/docs": documentation,
    }  # fmt: skip
    routes = [
        *(Route(operation.PATH, endpoint(operation), methods=["POST"]) for operation in OPERATIONS),
        *(Route(path, shown) for path, shown in looks.items()),
        Mount("/page", StaticFiles(directory=PAGE)),
    ]
    known = {operation.PATH for operation in OPERATIONS} | set(looks)
    middleware = [
        Middleware(_Watched, metrics=metrics, known=known),
        Middleware(WithHeaders),
        Middleware(ForHosts, hosts=hosts),
    ]
    handlers: Any = {
        Refused: _refused,
        ElectraError: _wrong,
        ValidationError: _invalid,
        ClientDisconnect: _gone,
        404: _absent,
        405: _absent,
    }
    app = Starlette(routes=routes, middleware=middleware, exception_handlers=handlers, lifespan=lifespan)
    app.state.batcher = batcher
    return app


class _Watched:
    """Counts and times every request."""

    def __init__(self, app: ASGIApp, metrics: Metrics, known: set[str]) -> None:
        self.app, self.metrics, self.known = app, metrics, known

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        began, status = time.perf_counter(), 500

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, watched)
        finally:
            path = scope["path"] if scope["path"] in self.known else "other"  # no client makes new series
            self.metrics.requests.labels(path, status).inc()
            self.metrics.seconds.labels(path).observe(time.perf_counter() - began)


async def _body(http: HttpRequest, limits: Limits) -> bytes:
    """The whole body, or Refused: never more of it in memory than the limit."""
    if http.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise Refused(415, "the body must be JSON", "Send it with content-type: application/json")
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(limits.timeout):
            async for part in http.stream():
                size += len(part)
                if size <= limits.max_body:
                    parts.append(part)
                elif size > DRAINED:
                    break
    except TimeoutError:
        raise Refused(408, f"the body did not arrive within {limits.timeout:g} s") from None
    if size > limits.max_body:
        fix = "Send fewer or shorter texts"
        raise Refused(413, f"a body of more than {limits.max_body:,} bytes", fix)
    return b"".join(parts)


async def while_there(http: HttpRequest, answer: Coroutine[Any, Any, T]) -> T:
    """The answer, which nobody computes once the client has gone."""

    async def gone() -> None:
        while (await http.receive())["type"] != "http.disconnect":
            pass

    asked, left = asyncio.ensure_future(answer), asyncio.ensure_future(gone())
    try:
        await asyncio.wait([asked, left], return_when=asyncio.FIRST_COMPLETED)
        if not asked.done():
            raise ClientDisconnect
        return asked.result()
    finally:
        asked.cancel()
        left.cancel()


def _choose(models: Sequence[Served], asked: Request) -> Served:
    able = [served for served in models if asked.ABILITY in served.abilities]
    named = [served for served in models if served.name == asked.model]
    names = ", ".join(served.name for served in able) or "none"
    if asked.model is not None and not named:
        known = ", ".join(served.name for served in models)
        raise Refused(404, "no such model", f"Served here: {known}", asked.model)
    if asked.model is not None and named[0] not in able:
        raise Refused(404, f"this model cannot {asked.ABILITY}", f"Models that can: {names}", asked.model)
    if not able:
        raise Refused(404, f"no served model can {asked.ABILITY}", "Serve one that can")
    return named[0] if named else able[0]


def _problem(status: int, what: str, fix: str = "", where: str = "") -> Response:
    headers = {"retry-after": "1"} if status == 503 else {}
    told = {"what": what, "where": where, "fix": fix}
    return JSONResponse({"error": told}, status, headers)


async def _refused(http: HttpRequest, refused: Refused) -> Response:
    return _problem(refused.status, refused.what, refused.fix, refused.where)


async def _wrong(http: HttpRequest, error: ElectraError) -> Response:
    """Without `where`, which may be a path of this machine, and without advice that only fits the command
    line or Python: options, and names of settings in backquotes.
    """
    here = [part for part in re.split(r"(?<=[.;])\s+", error.fix) if "--" not in part and "`" not in part]
    return _problem(400, error.what, " ".join(here) or "See /docs")


async def _invalid(http: HttpRequest, error: ValidationError) -> Response:
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    where = ".".join(map(str, first["loc"]))
    status = 400 if first["type"] == "json_invalid" else 422
    return _problem(status, first["msg"], "See /docs", where)


async def _gone(http: HttpRequest, error: ClientDisconnect) -> Response:
    return Response(status_code=499)


async def _absent(http: HttpRequest, error: Any) -> Response:
    return _problem(error.status_code, str(error.detail).lower(), "See /docs", http.url.path)
