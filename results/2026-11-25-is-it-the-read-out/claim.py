"""STS-B on dev, read by [u; v; |u - v|; u * v], at the defaults: python claim.py GLUE OUT.tsv RUN ...

The usual head's are judge.py's (../2026-11-23-words-first). Of `untrained` both are taken, in the shape of the run after it.
"""

import sys
from dataclasses import replace
from pathlib import Path

import grid
from electra.finetuning.runner import one_seed

glue, out, *runs = sys.argv[1:]
builds = {"matched": grid.matched(one_seed.build_model), "usual": one_seed.build_model}
init = "pretrained"
with open(out, "a") as file:
    for run in runs:
        if run == "untrained":
            init = "random"
            continue
        for readout in builds if init == "random" else ("matched",):
            tuning = grid.prepared(run, Path(glue), "sts-b", True)
            tuning = replace(tuning, settings=replace(tuning.settings, init=init))
            one_seed.build_model = builds[readout]
            score, _ = grid.one(tuning, 1)
            print(Path(run).name, init, readout, f"{score:.1f}", sep="\t", file=file, flush=True)
        init = "pretrained"
