"""The description of the API: OpenAPI 3.1 for programs, a page made of it for people."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

from pydantic.json_schema import models_json_schema

from electra.foundation.machine import versions
from electra.serving.answers import ANSWERS, Failed
from electra.serving.limits import Limits
from electra.serving.operations import OPERATIONS, Request

REFUSALS = {
    400: "Not readable as JSON, or not what this model can answer",
    404: "No such model, or none that can do this",
    413: "A body, a text or a list beyond the limits",
    415: "Another content type than application/json",
    422: "JSON of another shape than described",
    503: "Too many requests are waiting",
    504: "No answer in time",
}
_REF = "#/components/schemas/{model}"
LOOKS = {
    "/healthz": "Whether the server answers",
    "/models": "The served models and what each can do",
    "/metrics": "Counts and times, for Prometheus",
    "/openapi.json": "This description",
}


def describe(limits: Limits) -> dict[str, Any]:
    """The OpenAPI document."""
    models: list[Any] = [*OPERATIONS, *ANSWERS.values(), Failed]
    _, made = models_json_schema([(one, "validation") for one in models], ref_template=_REF)
    schemas = made["$defs"]
    for operation in OPERATIONS:
        _limit(schemas[operation.__name__]["properties"], limits)
    paths: dict[str, Any] = {operation.PATH: {"post": _operation(operation)} for operation in OPERATIONS}
    for path, what in LOOKS.items():
        paths[path] = {"get": {"summary": what, "responses": {"200": {"description": what}}}}
    size = f"{limits.max_texts} texts of {limits.max_characters:,} characters in {limits.max_body:,} bytes"
    told = f"At most {size} a request. Answers to errors have the shape `Failed`."
    info = {"title": "electra serve", "version": versions("electra")["electra"], "description": told}
    return {"openapi": "3.1.0", "info": info, "paths": paths, "components": {"schemas": schemas}}


def _operation(operation: type[Request]) -> dict[str, Any]:
    def content(model: type[Any]) -> dict[str, Any]:
        return {"application/json": {"schema": {"$ref": _REF.format(model=model.__name__)}}}

    asked = content(operation)
    asked["application/json"]["example"] = operation.EXAMPLE
    refused = {
        str(status): {"description": what, "content": content(Failed)} for status, what in REFUSALS.items()
    }
    answered = {
        "200": {
            "description": "The answers, in the order of the texts",
            "content": content(ANSWERS[operation]),
        }
    }
    return {
        "summary": (operation.__doc__ or "").strip(),
        "operationId": operation.ABILITY,
        "requestBody": {"required": True, "content": asked},
        "responses": answered | refused,
    }


def _limit(properties: dict[str, Any], limits: Limits) -> None:
    """Put the server's limits into the schema of a request."""
    for name in ("texts", "inputs"):
        if name in properties:
            properties[name]["maxItems"] = limits.max_texts
    if "texts" in properties:
        properties["texts"]["items"]["maxLength"] = limits.max_characters


def page(document: dict[str, Any]) -> str:
    """The document as HTML, without scripts; everything is escaped."""
    from jinja2 import Environment

    template = (files("electra.serving") / "page" / "api.html.j2").read_text(encoding="utf-8")
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters["pretty"] = lambda value: json.dumps(value, indent=2, ensure_ascii=False)
    return environment.from_string(template).render(api=document)
