"""An evaluation on a Ray cluster of two nodes, one of which is killed in the middle."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest
from test_evaluate import SUITE, arguments, read, without_times

from electra.artifacts.evaluation import EvaluationFolder
from electra.commands.framework.main import main

pytestmark = [pytest.mark.slow]
ray = pytest.importorskip("ray", reason="Ray is not installed (pip install -r tests/ray.txt)")


def test_a_node_is_killed_and_the_result_is_that_of_one_process(
    model: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ray.cluster_utils import Cluster

    suite, out = tmp_path / "toys.toml", tmp_path / "out"
    suite.write_text(SUITE)
    words = arguments(model, data, suite, tmp_path / "alone", "--seeds", "2", "--untrained-baseline")
    assert main(words) == 0
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    try:
        second = cluster.add_node(num_cpus=1)
        cluster.wait_for_nodes()
        monkeypatch.setenv("RAY_ADDRESS", cluster.address)

        def kill_when_begun() -> None:
            deadline = time.monotonic() + 120
            while time.monotonic() < deadline and not list(EvaluationFolder(out).leases.glob("*")):
                time.sleep(0.1)
            cluster.remove_node(second, allow_graceful=False)

        killer = threading.Thread(target=kill_when_begun)
        killer.start()
        words[words.index(str(tmp_path / "alone"))] = str(out)
        options = ["--engine", "ray", "--copies", "2", "--engine-options", "num_cpus=1"]
        assert main([*words, *options]) == 0
        killer.join()
        assert without_times(read(out)) == without_times(read(tmp_path / "alone"))
    finally:
        cluster.shutdown()
        os.environ.pop("RAY_ADDRESS", None)


def test_without_a_cluster_it_is_one_line(
    model: Path,
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    (tmp_path / "toys.toml").write_text(SUITE)
    words = arguments(model, data, tmp_path / "toys.toml", tmp_path / "out")
    assert main([*words, "--engine", "ray"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1 and not (tmp_path / "out").exists()
