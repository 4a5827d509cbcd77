"""The API: answers that are the library's own, of the described shape; refusals in one line each."""

import json
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from contracts import small

from electra.inference.detection import detect
from electra.inference.embedding import embed
from electra.model.modern import ModernEncoder
from electra.serving import limits, operations, worker
from electra.serving.app import make_app
from electra.serving.limits import Limits
from electra.serving.models import ServedModel, open_models

TEXTS = ["the chef cooked the meal .", "", "<b>cats</b> \x1b[31m \u202e ate"]
LIMITS = Limits(max_body=2000)


@pytest.fixture(scope="module")
def client(served: list[ServedModel]) -> Iterator[Any]:
    from starlette.testclient import TestClient

    app = make_app(served, LIMITS, ("localhost", "[::1]"))
    with pytest.MonkeyPatch.context() as patch, TestClient(app, base_url="http://localhost") as made:
        for name, limit in (("MAX_TEXTS", 4), ("MAX_CHARACTERS", 100), ("MAX_CANDIDATES", 200)):
            patch.setattr(limits, name, limit)
        yield made


def test_responses_equal_the_results_of_the_python_library(client: Any, served: list[ServedModel]) -> None:
    judge = served[0].networks.network("discriminator")
    found = client.post("/detect", json={"texts": TEXTS}).json()["results"]
    [own] = [model["threshold"] for model in client.get("/models").json()["models"]]
    assert {one["threshold"] for one in found} == {own} == {judge.threshold}
    answer = client.post("/detect", json={"texts": TEXTS, "threshold": 0.3}).json()
    assert answer["results"] == [found.to_json(True) for found in detect(judge, TEXTS, threshold=0.3)]
    vectors = client.post("/embed", json={"texts": TEXTS, "model": "toy", "pooling": "cls"}).json()["results"]
    expected = embed(judge, TEXTS, "cls")
    assert vectors[1] is None and np.isnan(expected[1]).all()
    np.testing.assert_allclose(vectors[::2], expected[::2], rtol=1e-6)
    assert client.post("/embed", json={"texts": []}).json() == {"model": "toy", "results": []}


@pytest.mark.parametrize("path", ["detect", "embed", "fill"])
def test_outputs_beyond_the_numbers_are_an_error(path: str, served: list[ServedModel]) -> None:
    """Finite weights whose outputs overflow: no probability of 0, no vector of NaN."""
    from starlette.testclient import TestClient

    broken = deepcopy(served[0])
    for network in broken.networks.pair():
        assert network is not None and isinstance(network.encoder, ModernEncoder)
        network.encoder.final_norm.weight.data.fill_(3e38)
    with TestClient(make_app([broken])) as client:
        answer = client.post(f"/{path}", json={"texts": ["the [MASK] ate"]})
    assert answer.status_code == 500 and "finite" in answer.json()["error"]["what"]


@pytest.mark.parametrize(
    ("path", "body", "status", "said"),
    [
        ("/embed", {"texts": ["a"], "pooling": "median"}, 422, "pooling"),
        ("/embed", {"texts": "a"}, 422, "texts"),
        ("/embed", {}, 422, "texts"),
        ("/embed", {"texts": [1]}, 422, "texts.0"),
        ("/embed", {"texts": ["a"], "txets": []}, 422, "txets"),
        ("/detect", {"texts": ["a"], "threshold": 2}, 422, "threshold"),
        ("/detect", {"texts": ["a"] * 5}, 413, "4"),
        ("/detect", {"texts": ["a" * 101]}, 413, "100"),
        ("/fill", {"texts": ["[MASK]" * 9] * 3, "top": 8}, 413, "200"),
        ("/fill", {"texts": ["the cat"]}, 400, "[MASK]"),
        ("/detect", {"texts": ["a"], "model": "other"}, 404, "other"),
        ("/predict", {"inputs": ["a"], "model": "toy"}, 404, "toy"),
        ("/predict", {"inputs": ["a", ["b"]]}, 404, "predict"),
        ("/detect", [], 415, "object"),
        ("/detect", b'{"texts": ["a"', 400, "JSON"),
        ("/detect", b'{"texts": ["\xff"]}', 400, "body"),
        ("/detect", b"[" * 1999, 400, "body"),
        ("/detect", b" " * 3000, 413, "2,000 bytes"),
        ("/nothing", {}, 404, "/nothing"),
        ("/healthz", {}, 405, "/healthz"),
        ("/", {}, 405, "not allowed"),
    ],
)
def test_invalid_requests_get_a_status_and_a_reason(client: Any, path: str, body: Any, status: int, said: str) -> None:
    sent = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = client.post(path, content=sent, headers={"content-type": "application/json"})
    error = answer.json()["error"]
    assert answer.status_code == status and said in f"{error['where']} {error['what']}", answer.text
    assert error.keys() == {"what", "where", "fix"} and "\n" not in answer.text


def test_requests_from_elsewhere_are_rejected(client: Any) -> None:
    """Neither with a form, which can only send plain text, nor by a name that was made to point here."""
    assert client.post("/detect", content=b'{"texts": []}').status_code == 415
    for host in ("elsewhere.example", "localhost.example", "[::1].example:80", ""):
        answer = client.post("/detect", json={"texts": []}, headers={"host": host})
        assert answer.status_code == 400 and answer.json()["error"]["where"] == host.removesuffix(":80")
    for path, methods in (("/embed", "POST"), ("/healthz", "GET")):
        answer = client.request("DELETE", path)
        assert answer.status_code == 405 and answer.headers["allow"] == methods, answer.json()
    assert client.get("/embed").status_code == 405
    for host in ("localhost", "LOCALHOST:8000", "[::1]:8000"):
        assert client.post("/detect", json={"texts": []}, headers={"host": host}).status_code == 200, host


def test_every_response_has_the_security_headers(client: Any) -> None:
    for path in ("/", "/page.js", "/healthz", "/nothing"):
        answer = client.get(path)
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "https://" not in answer.text and "innerHTML" not in answer.text


def test_the_openapi_document_has_every_operation(client: Any) -> None:
    document = client.get("/openapi.json").json()
    for name in ("detect", "embed", "predict", "fill"):
        operation = document["paths"][f"/{name}"]["post"]
        assert operation["summary"] and operation["responses"]["200"]["content"]
    assert document["components"]["schemas"]["DetectRequest"]["properties"]["texts"]["examples"]


@pytest.mark.parametrize("name", ["tiny-en", "small-en"])
def test_the_threshold_of_a_model_is_the_one_that_detection_uses(name: str) -> None:
    [model] = open_models([name], "cpu")
    [found] = operations.DetectRequest(texts=["a cat"]).work(model)
    assert model.describe()["threshold"] == found["threshold"]


def test_predictions_do_not_depend_on_the_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    from starlette.testclient import TestClient

    served = open_models([str(Path(__file__).parents[1] / "fixtures" / "old-finetuning")])
    found = []
    for slice_size in (3, 4):
        monkeypatch.setattr(worker, "SLICE", slice_size)
        with TestClient(make_app(served)) as client:
            answer = client.post("/predict", json={"inputs": ["a", "film", "", "the cat"]})
            assert answer.json()["results"][2]["predicted"] is None and "1 of 4" in answer.json()["warning"]
        found.append([(row["id"], row["predicted"]) for row in answer.json()["results"]])
    assert found[0] == found[1] and [each for each, _ in found[0]] == list("0123")


def test_models_are_named_by_their_folders(tmp_path: Path) -> None:
    paths = [str(small.write_pair(tmp_path / name)) for name in ("a/toy", "b/toy", "c")]
    assert [one.name for one in open_models(paths)] == [*paths[:2], "c"]
