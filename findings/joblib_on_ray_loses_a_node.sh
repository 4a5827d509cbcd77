#!/usr/bin/env bash
# joblib 1.6.0 on ray 2.60.0 (ray.util.joblib): one of two nodes goes away in the middle of a call.
#
# Expected: Ray runs the pieces of a lost node again on the other, as it does for its tasks (max_retries is 3 by
# default), and joblib returns all results.
# Seen: joblib's pieces are calls of actors, which are not run again. The call raises an error about an unavailable
# actor, and what the other node had finished is lost with it. The same function as plain Ray tasks, with a node lost
# in the same way, gives all results. So whoever wants to survive the loss submits tasks, or keeps a record of each
# piece and calls again.
# Exit code 0: still so. 1: it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check joblib==1.6.0 ray==2.60.0
cat > try.py <<'EOF'
import pathlib
import sys
import tempfile
import threading
import time

import joblib
import ray
from ray.cluster_utils import Cluster
from ray.util.joblib import register_ray

PIECES = 12


def piece(index, folder):
    pathlib.Path(folder, str(index)).touch()
    time.sleep(1)
    return index


def lose_a_node_when(started, folder, cluster, node):
    """Removes a node as soon as some pieces have started."""

    def wait():
        while len(list(pathlib.Path(folder).iterdir())) < started:
            time.sleep(0.05)
        cluster.remove_node(node, allow_graceful=False)

    threading.Thread(target=wait, daemon=True).start()


if __name__ == "__main__":
    print("joblib", joblib.__version__, "ray", ray.__version__)
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    node = cluster.add_node(num_cpus=1)
    ray.init(address=cluster.address, log_to_driver=False)
    register_ray()
    folder = tempfile.mkdtemp(dir=".")
    path = str(pathlib.Path(folder).resolve())
    lose_a_node_when(6, folder, cluster, node)
    error = None
    try:
        with joblib.parallel_config(backend="ray", n_jobs=2):
            joblib.Parallel()(joblib.delayed(piece)(index, path) for index in range(PIECES))
    except Exception as raised:
        error = type(raised).__name__
    started = len(list(pathlib.Path(folder).iterdir()))
    print(f"joblib: {error or 'all results'}; {started} of {PIECES} pieces had started")

    node = cluster.add_node(num_cpus=1)
    folder = tempfile.mkdtemp(dir=".")
    path = str(pathlib.Path(folder).resolve())
    lose_a_node_when(6, folder, cluster, node)
    task = ray.remote(piece)
    results = ray.get([task.remote(index, path) for index in range(PIECES)])
    print("tasks of Ray:", "all results" if results == list(range(PIECES)) else results)
    ray.shutdown()
    cluster.shutdown()
    sys.exit(not (error and error.startswith("Actor") and results == list(range(PIECES))))
EOF
venv/bin/python try.py 2> log || { code=$?; cat log >&2; exit $code; }
