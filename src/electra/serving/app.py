"""The application: routes, error responses, security headers."""

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
from electra.serving.limits import DEFAULT, Limits, RequestError
from electra.serving.metrics import CONTENT_TYPE, Metrics
from electra.serving.models import ServedModel
from electra.serving.operations import OPERATIONS, Request
from electra.serving.web import AllowedHosts, SecurityHeaders

T = TypeVar("T")
PAGE = Path(str(files("electra.serving") / "page"))
MAX_DISCARDED_BYTES = (
    1 << 28
)  # bytes of an oversized body to read and drop, so that the client reads the response


def make_app(
    models: Sequence[ServedModel], limits: Limits = DEFAULT, hosts: Sequence[str] = ("*",)
) -> Starlette:
    """Returns the application that serves `models`.

    Args:
        models: the models to serve. If a request names none, the first that supports the operation answers.
        limits: the size limits of requests.
        hosts: accepted Host headers ("*": any). On a loopback address, a list of names prevents DNS
            rebinding: requests from another site's page carry that site's host name.
    """
    metrics = Metrics()
    batcher = Batcher(limits, metrics.batches.observe)
    metrics.watch(lambda: batcher.size)
    document = openapi.describe(limits)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        batcher.start()
        yield
        await batcher.stop()

    def endpoint(operation: type[Request]) -> Any:
        async def respond(http: HttpRequest) -> Response:
            request = operation.model_validate_json(await _body(http, limits))
            served = _choose(models, request)
            load = await asyncio.to_thread(request.check, served, limits)

            def work(items: Sequence[Any]) -> Sequence[Any]:
                return request.work(served, items)

            results: Sequence[Any] = []
            if request.items:
                answer = batcher(request.key(served), work, request.items, load)
                results = await cancel_on_disconnect(http, answer)
            metrics.texts.labels(operation.path()).inc(len(request.items))
            [field] = operation.RESPONSE.model_fields.keys() - {"model"}
            return JSONResponse({"model": served.name, field: request.finish(results)})

        return respond

    async def health(http: HttpRequest) -> Response:
        return JSONResponse({"status": "ok", "models": [served.name for served in models]})

    async def list_models(http: HttpRequest) -> Response:
        return JSONResponse({"models": [served.describe() for served in models]})

    async def show_metrics(http: HttpRequest) -> Response:
        return Response(metrics.render(), headers={"content-type": CONTENT_TYPE})

    async def schema(http: HttpRequest) -> Response:
        return JSONResponse(document)

    async def documentation(http: HttpRequest) -> Response:
        return HTMLResponse(openapi.page(document, str(http.base_url).rstrip("/")))

    async def page(http: HttpRequest) -> Response:
        return FileResponse(PAGE / "index.html")

    pages = {
        "/": page, "/healthz": health, "/models": list_models, "/metrics": show_metrics,
        "/openapi.json": schema, "/docs": documentation,
    }  # fmt: skip
    routes = [
        *(Route(operation.path(), endpoint(operation), methods=["POST"]) for operation in OPERATIONS),
        *(Route(path, handler) for path, handler in pages.items()),
        Mount("/page", StaticFiles(directory=PAGE)),
    ]
    known_paths = {operation.path() for operation in OPERATIONS} | set(pages)
    middleware = [
        Middleware(_RequestMetrics, metrics=metrics, known=known_paths),
        Middleware(SecurityHeaders),
        Middleware(AllowedHosts, hosts=hosts),
    ]
    handlers: Any = {
        RequestError: _request_error,
        ElectraError: _electra_error,
        ValidationError: _validation_error,
        ClientDisconnect: _disconnected,
        404: _not_found,
        405: _not_found,
    }
    app = Starlette(routes=routes, middleware=middleware, exception_handlers=handlers, lifespan=lifespan)
    app.state.batcher = batcher
    return app


class _RequestMetrics:
    """Middleware that counts and times every request."""

    def __init__(self, app: ASGIApp, metrics: Metrics, known: set[str]) -> None:
        self.app, self.metrics, self.known = app, metrics, known

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        start, status = time.perf_counter(), 500

        async def send_and_note_status(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, send_and_note_status)
        finally:
            path = scope["path"] if scope["path"] in self.known else "other"  # clients cannot create series
            self.metrics.requests.labels(path, status).inc()
            self.metrics.seconds.labels(path).observe(time.perf_counter() - start)


async def _body(http: HttpRequest, limits: Limits) -> bytes:
    """Returns the whole body, never holding more of it in memory than the limit.

    Raises:
        RequestError: the content type is not JSON (415), or the body is too slow to arrive (408) or too large
            (413).
    """
    if http.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise RequestError(415, "the body must be JSON", "Send it with content-type: application/json")
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(limits.timeout):
            async for part in http.stream():
                size += len(part)
                if size <= limits.max_body:
                    parts.append(part)
                elif size > MAX_DISCARDED_BYTES:
                    break
    except TimeoutError:
        raise RequestError(408, f"the body did not arrive within {limits.timeout:g} s") from None
    if size > limits.max_body:
        fix = "Send fewer or shorter texts"
        raise RequestError(413, f"the body is larger than {limits.max_body:,} bytes", fix)
    return b"".join(parts)


async def cancel_on_disconnect(http: HttpRequest, answer: Coroutine[Any, Any, T]) -> T:
    """Returns the result of `answer`.

    If the client disconnects first, cancels `answer` and raises ClientDisconnect.
    """

    async def disconnect() -> None:
        while (await http.receive())["type"] != "http.disconnect":
            pass

    answer_task, disconnect_task = asyncio.ensure_future(answer), asyncio.ensure_future(disconnect())
    try:
        await asyncio.wait([answer_task, disconnect_task], return_when=asyncio.FIRST_COMPLETED)
        if not answer_task.done():
            raise ClientDisconnect
        return answer_task.result()
    finally:
        answer_task.cancel()
        disconnect_task.cancel()


def _choose(models: Sequence[ServedModel], request: Request) -> ServedModel:
    """Returns the model that the request names, or the first that supports the operation.

    Raises:
        RequestError: there is no such model, or it does not support the operation (404).
    """
    supporting = [served for served in models if request.ABILITY in served.abilities]
    matching = [served for served in models if served.name == request.model]
    supporting_names = ", ".join(served.name for served in supporting) or "none"
    if request.model is not None and not matching:
        all_names = ", ".join(served.name for served in models)
        raise RequestError(404, "no such model", f"Available models: {all_names}", request.model)
    if request.model is not None and matching[0] not in supporting:
        problem, fix = f"this model does not support {request.ABILITY}", f"Models that do: {supporting_names}"
        raise RequestError(404, problem, fix, request.model)
    if not supporting:
        problem = f"no served model supports {request.ABILITY}"
        raise RequestError(404, problem, "Start the server with a model that does")
    return matching[0] if matching else supporting[0]


def _error_response(status: int, problem: str, fix: str = "", where: str = "") -> Response:
    headers = {"retry-after": "1"} if status == 503 else {}
    return JSONResponse({"error": {"what": problem, "where": where, "fix": fix}}, status, headers)


async def _request_error(http: HttpRequest, error: RequestError) -> Response:
    return _error_response(error.status, error.what, error.fix, error.where)


async def _electra_error(http: HttpRequest, error: ElectraError) -> Response:
    """Returns a response that says what is wrong, without paths of this machine.

    The error's `where` is omitted, because it may be a path. Advice that names command-line options or Python
    settings (in backquotes) is dropped, because it does not apply to a client.
    """
    advice = [part for part in re.split(r"(?<=[.;])\s+", error.fix) if "--" not in part and "`" not in part]
    return _error_response(400, error.what, " ".join(advice) or "See /docs")


async def _validation_error(http: HttpRequest, error: ValidationError) -> Response:
    first_error = error.errors(include_url=False, include_input=False, include_context=False)[0]
    where = ".".join(map(str, first_error["loc"]))
    status = 400 if first_error["type"] == "json_invalid" else 422
    return _error_response(status, first_error["msg"], "See /docs", where)


async def _disconnected(http: HttpRequest, error: ClientDisconnect) -> Response:
    return Response(status_code=499)


async def _not_found(http: HttpRequest, error: Any) -> Response:
    return _error_response(error.status_code, str(error.detail).lower(), "See /docs", http.url.path)
