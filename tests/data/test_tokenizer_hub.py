"""A tokenizer is loaded by its name on the hub, from a local server or from the cache."""

from __future__ import annotations

import hashlib
import http.server
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from electra.data.tokenizer import Tokenizer
from electra.foundation.errors import TokenizerError

LOADING = """
import sys
from electra.data.tokenizer import Tokenizer
from electra.foundation.errors import TokenizerError
try:
    print(Tokenizer.load(sys.argv[1]).digest)
except TokenizerError as error:
    print(error)
"""


@pytest.fixture
def hub(tmp_path: Path, tokenizer: Tokenizer) -> Iterator[Callable[..., str]]:
    """Load a tokenizer by name in another process, from a hub that is a server on this machine."""
    files, commit = tokenizer.files(), "0" * 40
    served = {f"/me/mine/resolve/{commit}/{name}": content for name, content in files.items()}
    served["/api/models/me/mine/revision/main"] = json.dumps(
        {"id": "me/mine", "sha": commit, "siblings": [{"rfilename": f} for f in files]}
    ).encode()
    tree = [
        {"type": "file", "path": name, "size": len(content), "oid": commit} for name, content in files.items()
    ]
    served[f"/api/models/me/mine/tree/{commit}"] = json.dumps(tree).encode()

    class Hub(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content = served.get(self.path.partition("?")[0])
            self.send_response(200 if content is not None else 404)
            if content is None:
                self.send_header(
                    "X-Error-Code", "EntryNotFound" if "/me/mine/" in self.path else "RepoNotFound"
                )
                content = b"{}"
            self.send_header("ETag", f'"{hashlib.sha256(content).hexdigest()}"')
            self.send_header("X-Repo-Commit", commit)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(content)

        do_HEAD = do_GET

        def log_message(self, *args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()

        def load(name: str, **variables: str) -> str:
            environment = (
                os.environ
                | {"HF_HOME": str(tmp_path / "hub"), "HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}"}
                | variables
            )
            environment.pop("HF_HUB_OFFLINE", None) if "HF_HUB_OFFLINE" not in variables else None
            command = [sys.executable, "-c", LOADING, name]
            return subprocess.run(
                command, check=True, capture_output=True, text=True, env=environment, cwd=tmp_path
            ).stdout.strip()

        yield load
        server.shutdown()


@pytest.mark.slow
def test_a_tokenizer_is_downloaded_from_the_hub(
    hub: Callable[..., str], tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for unseen in (hub("me/mine", HF_HUB_OFFLINE="1"), hub("me/mine", HF_ENDPOINT="http://127.0.0.1:9")):
        assert unseen.startswith("me/mine: ") and "HF_HUB_OFFLINE" in unseen and "\n" not in unseen
    assert hub("me/mine") == tokenizer.digest
    assert hub("me/mine", HF_HUB_OFFLINE="1") == tokenizer.digest, "from the cache"
    missing = hub("me/nobody")
    assert missing.startswith("me/nobody: ") and "\n" not in missing
    (tmp_path / "texts").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TokenizerError, match="texts/typo"):
        Tokenizer.load("texts/typo")
