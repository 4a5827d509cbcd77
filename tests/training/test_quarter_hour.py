"""The quarter of an hour on a GPU is rehearsed, so that nothing is prepared there."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "quarter_hour.py"


@pytest.mark.slow
def test_every_stage_runs_and_what_failed_is_run_again(tmp_path: Path) -> None:
    data, out = tmp_path / "data", tmp_path / "out"
    cola = data / "glue" / "cola"
    command = [sys.executable, str(SCRIPT), str(data), "--rehearse", "--out", str(out)]
    first = subprocess.run(command, capture_output=True, text=True, check=False)
    assert first.returncode == 1 and not (out / "keep" / "glue.json").exists(), first.stdout  # no GLUE yet
    done = {path.name: path.stat().st_mtime_ns for path in (out / "keep").iterdir() if path.suffix == ".json"}
    assert done.keys() >= {"test.json", "speed.json", "train.json"}
    cola.mkdir(parents=True)
    for name, count in (("train", 60), ("dev", 20)):
        rows = (f"x\t{i % 2}\t\tthe number {i} is {'odd' if i % 2 else 'even'}\n" for i in range(count))
        (cola / f"{name}.tsv").write_text("".join(rows))
    subprocess.run(command, check=True, capture_output=True)
    assert "eval_accuracy" in json.loads((out / "keep" / "glue.json").read_text())["cola"]
    assert all((out / "keep" / name).stat().st_mtime_ns == when for name, when in done.items() if "glue" not in name)
    pieces = sorted((out / "keep").glob("discriminator-16.tar.gz.*"))
    assert pieces and max(path.stat().st_size for path in (out / "keep").iterdir()) < 16 << 20
