"""The part of the hub's HTTP API that a push uses, on this machine, which keeps what it receives.

The token "good" may write to me/...; any other name is forbidden, and any other token unknown.
"""

from __future__ import annotations

import base64
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Hub:
    def __init__(self) -> None:
        self.branches: dict[str, dict[str, bytes]] = {"main": {}}
        self.private: bool | None = None
        self.stored: dict[str, bytes] = {}  # large files by their SHA-256
        self.address = ""

    def answer(self, method: str, path: str, body: bytes, token: str) -> tuple[int, Any]:
        if method == "PUT":
            self.stored[path.rpartition("/")[2]] = body
            return 200, {}
        if token != "Bearer good":
            return 401, {"error": "Invalid username or password."}
        if path == "/api/validate-yaml":
            return 200, {"errors": [], "warnings": []}
        if path == "/api/repos/create":
            asked = json.loads(body)
            if asked.get("organization") not in (None, "me"):
                return 403, {"error": "You don't have the rights to create a model under this namespace"}
            self.private = asked.get("private") or asked.get("visibility") == "private"
            return 200, {"url": f"{self.address}/me/{asked['name']}"}
        if match := re.fullmatch(r"/api/models/me/toy/branch/(.+)", path):
            self.branches.setdefault(match[1], {})
            return 200, {}
        if re.fullmatch(r"/api/models/me/toy/preupload/.+", path):
            files = [one["path"] for one in json.loads(body)["files"]]
            mode = {True: "lfs", False: "regular"}
            told = [
                {"path": one, "uploadMode": mode[one.endswith(".safetensors")], "shouldIgnore": False}
                for one in files
            ]
            return 200, {"files": told}
        if path == "/me/toy.git/info/lfs/objects/batch":
            found = json.loads(body)["objects"]
            href = {one["oid"]: f"{self.address}/store/{one['oid']}" for one in found}
            objects = [{**one, "actions": {"upload": {"href": href[one["oid"]]}}} for one in found]
            return 200, {"transfer": "basic", "objects": objects}
        if match := re.fullmatch(r"/api/models/me/toy/commit/(.+)", path):
            for line in map(json.loads, body.splitlines()):
                value = line["value"]
                if line["key"] == "file":
                    self.branches[match[1]][value["path"]] = base64.b64decode(value["content"])
                elif line["key"] == "lfsFile":
                    self.branches[match[1]][value["path"]] = self.stored[value["oid"]]
            return 200, {"commitUrl": f"{self.address}/me/toy/commit/1", "commitOid": "1" * 40}
        if path.startswith("/api/models/me/toy"):
            return 200, {"id": "me/toy", "sha": "1" * 40, "siblings": []}
        return 404, {"error": f"not part of this hub: {method} {path}"}


@contextmanager
def fake_hub() -> Iterator[Hub]:
    hub = Hub()

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            path = self.path.partition("?")[0]
            code, message = hub.answer(self.command, path, body, self.headers.get("authorization", ""))
            content = json.dumps(message).encode()
            self.send_response(code)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = _answer

        def log_message(self, format: str, *arguments: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hub.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
