"""The API: answers that are the library's own, of the described shape; refusals in one line each."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from electra.inference.detection import detect
from electra.inference.embedding import embed
from electra.serving.answers import ErrorResponse
from electra.serving.app import make_app
from electra.serving.limits import Limits
from electra.serving.models import ServedModel, open_models
from electra.serving.operations import OPERATIONS, Request

TEXTS = ["the chef cooked the meal .", "", "<b>cats</b> \x1b[31m \u202e ate"]
LIMITS = Limits(max_texts=4, max_characters=100, max_body=2000, max_read=400)


@pytest.fixture(scope="module")
def client(served: list[ServedModel]) -> Iterator[Any]:
    from starlette.testclient import TestClient

    from electra.serving import operations

    hosts = ("localhost",)
    with (
        pytest.MonkeyPatch.context() as patch,
        TestClient(make_app(served, LIMITS, hosts), base_url="http://localhost") as made,
    ):
        patch.setattr(operations, "MAX_CANDIDATES", 200)
        yield made


def test_responses_equal_the_results_of_the_python_library(client: Any, served: list[ServedModel]) -> None:
    judge = served[0].discriminator
    assert judge is not None
    found = client.post("/detect", json={"texts": TEXTS}).json()["results"]
    [own] = [model["threshold"] for model in client.get("/models").json()["models"]]
    assert {one["threshold"] for one in found} == {own} == {judge.threshold}
    answer = client.post("/detect", json={"texts": TEXTS, "threshold": 0.3}).json()
    assert answer["results"] == [found.to_json() for found in detect(judge, TEXTS, threshold=0.3)]
    vectors = client.post("/embed", json={"texts": TEXTS, "model": "toy", "pooling": "cls"}).json()["vectors"]
    np.testing.assert_allclose(vectors, embed(judge, TEXTS, "cls"), rtol=1e-6)
    assert client.post("/embed", json={"texts": []}).json()["vectors"] == []


def test_each_mask_gets_its_own_candidates(client: Any) -> None:
    asked = {"texts": ["the [MASK] ate a [MASK] .", "[MASK]"], "top": 3}
    found = client.post("/fill", json=asked).json()["results"]
    assert [[len(slot) for slot in slots] for slots in found] == [[3, 3], [3]]
    assert all(slot[0]["p"] >= slot[1]["p"] > 0 for slots in found for slot in slots)
    refused = client.post("/fill", json={"texts": ["the cat"]})
    assert refused.status_code == 400 and "no [MASK]" in refused.json()["error"]["what"]


def test_the_same_seed_gives_the_same_draw(client: Any) -> None:
    def draw(seed: int) -> Any:
        return client.post("/draw", json={"texts": TEXTS[:1], "seed": seed}).json()["results"]

    assert draw(1) == draw(1) and len({json.dumps(draw(seed)) for seed in range(6)}) > 1


@pytest.mark.parametrize("operation", OPERATIONS)
def test_responses_match_their_schemas(client: Any, operation: type[Request]) -> None:
    answer = client.post(operation.path(), json=operation.EXAMPLE)
    if operation.ABILITY == "predict":
        assert answer.status_code == 404 and ErrorResponse.model_validate(answer.json())
    else:
        assert operation.RESPONSE.model_validate(answer.json()).model == "toy"


@pytest.mark.parametrize(
    ("path", "body", "status", "said"),
    [
        ("/embed", {"texts": ["a"], "pooling": "median"}, 422, "'cls', 'mean'"),
        ("/embed", {"texts": "a"}, 422, "valid array"),
        ("/embed", {}, 422, "equired"),
        ("/embed", {"texts": [1]}, 422, "valid string"),
        ("/embed", {"texts": ["a"], "txets": []}, 422, "not permitted"),
        ("/detect", {"texts": ["a"], "threshold": 2}, 422, "less than or equal to 1"),
        ("/detect", {"texts": ["a"] * 5}, 413, "limit is 4"),
        ("/detect", {"texts": ["a" * 101]}, 413, "limit is 100"),
        (
            "/detect",
            {"texts": ["a " * 20, "a"], "scorer": "language-model"},
            413,
            "400 tokens",
        ),
        ("/fill", {"texts": ["[MASK]" * 9] * 3, "top": 8}, 413, "limit is 200"),
        ("/detect", {"texts": ["a"], "model": "other"}, 404, ""),
        ("/predict", {"inputs": ["a"], "model": "toy"}, 404, "predict"),
        ("/predict", {"inputs": ["a", ["b"]]}, 404, "predict"),
        ("/draw", {"texts": [""]}, 400, "no tokens"),
        ("/detect", b'{"texts": ["a"', 400, "Invalid JSON"),
        ("/detect", b'{"texts": ["\xff"]}', 400, "Invalid JSON"),
        ("/detect", b"[" * 1999, 400, "Invalid JSON"),
        ("/detect", b" " * 3000, 413, "2,000 bytes"),
        ("/nothing", {}, 404, "not found"),
    ],
)
def test_invalid_requests_get_a_status_and_a_reason(
    client: Any, path: str, body: Any, status: int, said: str
) -> None:
    sent = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = client.post(path, content=sent, headers={"content-type": "application/json"})
    assert (answer.status_code, said in answer.json()["error"]["what"]) == (status, True), answer.text
    assert ErrorResponse.model_validate(answer.json()) and "\n" not in answer.text


def test_requests_under_another_host_name_are_rejected(client: Any) -> None:
    """Neither with a form, which can only send plain text, nor by a name that was made to point here."""
    assert client.post("/detect", content=b'{"texts": []}').status_code == 415
    for host in ("elsewhere.example", "localhost.example", "[::1].example:80", ""):
        refused = client.post("/detect", json={"texts": []}, headers={"host": host})
        assert refused.status_code == 400, host
        assert ErrorResponse.model_validate(refused.json()).error.where == re.sub(r":[0-9]+$", "", host)
    for host in ("localhost", "LOCALHOST:8000"):
        assert client.post("/detect", json={"texts": []}, headers={"host": host}).status_code == 200


def test_every_response_has_the_security_headers(client: Any) -> None:
    for path in ("/", "/page/page.js", "/healthz", "/nothing"):
        headers = client.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy
        assert headers["x-content-type-options"] == "nosniff"


def test_the_page_loads_nothing_from_other_hosts(client: Any) -> None:
    for name in ("index.html", "page.css", "page.js", "common.js", "live.js", "game.js"):
        content = client.get(f"/page/{name}").text
        assert "//cdn" not in content and "https://" not in content and "innerHTML" not in content


def test_the_openapi_document_states_the_limits(client: Any) -> None:
    document = client.get("/openapi.json").json()
    texts = document["components"]["schemas"]["Detect"]["properties"]["texts"]
    assert (texts["maxItems"], texts["items"]["maxLength"]) == (4, 100)
    assert {operation.path() for operation in OPERATIONS} <= set(document["paths"])
    page = client.get("/docs").text
    assert "POST /detect" in page and "<script" not in page
    body = page.split("<body")[1]
    assert "`" not in body and "localhost:8000" not in body and "curl -s http://localhost/detect" in body


def test_metrics_count_requests_and_texts(client: Any) -> None:
    def count() -> float:
        lines = client.get("/metrics").text.splitlines()
        told = [line for line in lines if line.startswith('electra_texts_total{path="/detect"}')]
        return float(told[0].split()[-1]) if told else 0.0

    before = count()
    client.post("/detect", json={"texts": TEXTS})
    assert count() == before + len(TEXTS)
    client.get("/made-up-by-a-client")
    assert "made-up" not in client.get("/metrics").text


@pytest.mark.slow
def test_a_thousand_texts_of_a_million_characters(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read and dropped as it comes, never held, and not for ever."""
    monkeypatch.setattr("electra.serving.app.MAX_DISCARDED_BYTES", 1 << 24)
    texts = (b'"' + b"a" * 1_000_000 + b'",' for _ in range(1000))
    answer = client.post("/detect", content=texts, headers={"content-type": "application/json"})
    assert answer.status_code == 413


@pytest.mark.parametrize("name", ["tiny-en", "small-en"])
def test_the_threshold_of_a_model_is_the_one_that_detection_uses(name: str) -> None:
    [model] = open_models([name], "cpu")
    assert model.describe()["threshold"] == model.detect(["a cat"], None, "auto")[0]["threshold"]
