"""The application: routes, error responses, limits of the body."""

import re
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import Any

from fastapi import FastAPI
from fastapi import Request as HttpRequest
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from typing_extensions import override

from electra.data.corpus import unknown
from electra.foundation.errors import ElectraError, RunFailed
from electra.foundation.machine import versions
from electra.serving.limits import Limits, RequestError
from electra.serving.models import ServedModel
from electra.serving.operations import OPERATIONS, Operation
from electra.serving.worker import Worker

HEADERS = {  # of every response
    b"content-security-policy": b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self';"
    b" connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    b"x-content-type-options": b"nosniff",
    b"cross-origin-resource-policy": b"same-origin",
    b"cache-control": b"no-store",
}


def make_app(models: Sequence[ServedModel], limits: Limits | None = None, hosts: Sequence[str] = ("*",)) -> FastAPI:
    """Returns the application that serves `models`.

    If a request names no model, the first that supports the operation answers. `hosts` are the accepted Host
    headers ("*": any): a list of names on a loopback address prevents DNS rebinding, as requests from another
    site's page carry that site's host name.
    """
    limits = limits or Limits()
    worker = Worker(limits)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        worker.stop()

    version = versions("electra")["electra"]
    app = FastAPI(title="electra serve", version=version, lifespan=lifespan, docs_url=None, redoc_url=None)
    app.add_middleware(_Guard, max_body=limits.max_body, hosts=hosts)

    def endpoint(operation: type[Operation]) -> Callable[..., Coroutine[Any, Any, Response]]:
        async def respond(request: Operation) -> Response:
            served = _choose(models, request)
            request.check(served)
            counts: list[unknown.Count] = []

            def work(part: slice) -> Sequence[Any]:
                for tokenizer in served.tokenizers:
                    tokenizer.counted = unknown.Count()
                found = request.work(served, part)
                counts.extend(tokenizer.counted for tokenizer in served.tokenizers)
                return found

            answer = {"model": served.name, "results": await worker(work, len(request.items))}
            note = unknown.note(served.encoder.tokenizer, True, unknown.Count.sum(counts))
            notes = [each for each in (note, *request.notes) if each]
            return JSONResponse(answer | ({"warning": "; ".join(notes)} if notes else {}))

        respond.__annotations__["request"] = operation  # the schema of the body
        return respond

    for operation in OPERATIONS:
        route = app.post(f"/{operation.ABILITY}", name=operation.ABILITY, summary=operation.__doc__)
        route(endpoint(operation))

    @app.get("/healthz", summary="Whether the server answers")
    async def health() -> dict[str, Any]:
        return {"status": "ok", "models": [served.name for served in models]}

    @app.get("/models", summary="The served models, and what each supports")
    async def list_models() -> dict[str, Any]:
        return {"models": [served.describe() for served in models]}

    for kind in (RequestError, ElectraError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, _answer)
    page = _Page(directory=str(files("electra.serving") / "page"), html=True)
    page.methods = {r.path[1:]: ", ".join(r.methods or ()) for r in app.routes if isinstance(r, Route)}
    app.mount("/", page)
    return app


class _Page(StaticFiles):
    """The page's files; `methods` are those of all other paths."""

    methods: Mapping[str, str] = {}

    @override
    async def get_response(self, path: str, scope: Scope) -> Response:
        if path in self.methods:
            raise HTTPException(405, headers={"allow": self.methods[path]})
        if scope["method"] not in ("GET", "HEAD") and not self.lookup_path(path)[0]:
            raise HTTPException(404)
        return await super().get_response(path, scope)


class _Guard:
    """Rejects other hosts than its own, and bodies above a limit before they are parsed; adds HEADERS."""

    def __init__(self, app: ASGIApp, max_body: int, hosts: Sequence[str]) -> None:
        self.app, self.max_body, self.hosts = app, max_body, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        size = 0

        async def receive_limited() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > self.max_body:
                raise HTTPException(413, f"the body is larger than {self.max_body:,} bytes")
            return message

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *HEADERS.items()]
            await send(message)

        app = self.app
        if scope["type"] == "http" and "*" not in self.hosts:
            host = re.sub(r":\d*\Z", "", Headers(scope=scope).get("host", "")).lower()
            if host not in self.hosts:
                fix = f"Use one of {', '.join(self.hosts)}"
                app = _error(400, "this host is not served here", host, fix)
        await app(scope, receive_limited, send_with_headers)


def _choose(models: Sequence[ServedModel], request: Operation) -> ServedModel:
    supporting = {served.name: served for served in models if request.ABILITY in served.abilities}
    name = next(iter(supporting), "") if request.model is None else request.model
    if name not in supporting:
        problem = f"no such model with the operation {request.ABILITY}"
        raise RequestError(404, problem, f"Models with it: {', '.join(supporting) or 'none'}", name)
    return supporting[name]


async def _answer(http: HttpRequest, error: Any) -> Response:
    """Returns the response to an error, without the paths of this machine that it may name."""
    status, what, fix, where = 400, "", "See /openapi.json", ""
    if isinstance(error, RequestError):
        status, what, fix, where = error.status, error.what, error.fix, error.where
    elif isinstance(error, ElectraError):
        status, what = 500 if isinstance(error, RunFailed) else 400, error.what
    elif isinstance(error, HTTPException):
        status, what, where = error.status_code, str(error.detail).lower(), http.url.path
    else:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"] if part != "body")
        status, what = 422, first["msg"]
        if first["type"] == "json_invalid":
            status, what = 400, f"invalid JSON: {first['ctx']['error']}"
        elif not where:
            status, what = 415, "the body must be a JSON object, with content-type: application/json"
    headers = {"retry-after": "1"} if status == 503 else dict(getattr(error, "headers", None) or {})
    return _error(status, what, where, fix, headers)


def _error(status: int, what: str, where: str, fix: str, headers: Mapping[str, str] = {}) -> Response:
    return JSONResponse({"error": {"what": what, "where": where, "fix": fix}}, status, headers)
