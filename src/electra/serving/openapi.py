"""The description of the API: an OpenAPI 3.1 document, and its rendering as HTML."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from typing import Any

from pydantic.json_schema import models_json_schema

from electra.foundation.machine import versions
from electra.serving.answers import ErrorResponse
from electra.serving.limits import Limits
from electra.serving.operations import OPERATIONS, Request

ERRORS = {
    400: "The body is not JSON, or the model cannot process it",
    404: "No such model, or no model that supports the operation",
    408: "The body did not arrive in time",
    413: "The body, a text or a list exceeds a limit",
    415: "The content type is not application/json",
    422: "The JSON does not match the schema",
    503: "Too many requests are waiting",
    504: "The answer took too long",
}
_REF = "#/components/schemas/{model}"
GET_ENDPOINTS = {
    "/healthz": "Health check",
    "/models": "The served models, and what each supports",
    "/metrics": "Request counts and latencies, for Prometheus",
    "/openapi.json": "This description",
}


def describe(limits: Limits) -> dict[str, Any]:
    """Returns the OpenAPI document of a server with these limits."""
    models: list[Any] = [*OPERATIONS, *(operation.RESPONSE for operation in OPERATIONS), ErrorResponse]
    _, definitions = models_json_schema([(model, "validation") for model in models], ref_template=_REF)
    schemas = definitions["$defs"]
    for operation in OPERATIONS:
        _limit(schemas[operation.__name__]["properties"], limits)
    paths: dict[str, Any] = {operation.path(): {"post": _operation(operation)} for operation in OPERATIONS}
    for path, summary in GET_ENDPOINTS.items():
        paths[path] = {"get": {"summary": summary, "responses": {"200": {"description": summary}}}}
    limits_text = (
        f"{limits.max_texts} texts of {limits.max_characters:,} characters, {limits.max_body:,} bytes"
    )
    description = f"Limit per request: {limits_text}. Errors return an ErrorResponse object."
    info = {"title": "electra serve", "version": versions("electra")["electra"], "description": description}
    return {"openapi": "3.1.0", "info": info, "paths": paths, "components": {"schemas": schemas}}


def _operation(operation: type[Request]) -> dict[str, Any]:
    def content(model: type[Any]) -> dict[str, Any]:
        return {"application/json": {"schema": {"$ref": _REF.format(model=model.__name__)}}}

    body = content(operation)
    body["application/json"]["example"] = operation.EXAMPLE
    errors = {
        str(status): {"description": description, "content": content(ErrorResponse)}
        for status, description in ERRORS.items()
    }
    success = {
        "200": {
            "description": "The results, in the order of the texts",
            "content": content(operation.RESPONSE),
        }
    }
    return {
        "summary": (operation.__doc__ or "").strip(),
        "operationId": operation.ABILITY,
        "requestBody": {"required": True, "content": body},
        "responses": success | errors,
    }


def _limit(properties: dict[str, Any], limits: Limits) -> None:
    """Adds the server's limits to the schema of a request."""
    for name in ("texts", "inputs"):
        if name in properties:
            properties[name]["maxItems"] = limits.max_texts
    if "texts" in properties:
        properties["texts"]["items"]["maxLength"] = limits.max_characters


def page(document: dict[str, Any], address: str) -> str:
    """Renders the document as HTML without scripts, with all text escaped. `address` is the server's URL."""
    from jinja2 import Environment
    from markupsafe import Markup, escape

    template = (files("electra.serving") / "page" / "api.html.j2").read_text(encoding="utf-8")
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters["pretty"] = lambda value: json.dumps(value, indent=2, ensure_ascii=False)
    environment.filters["code"] = lambda text: Markup(
        re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text or ""))
    )
    return environment.from_string(template).render(api=document, address=address)
