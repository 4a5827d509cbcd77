"""Fine-tune one run on the tasks of sentences with one head for all encoders: linear, over the mean of all tokens."""
import sys
from pathlib import Path
import electra
run, data, out = Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3])
limit = int(sys.argv[4]) if len(sys.argv) > 4 else None
for task, folder, most in (("stsb", "sts-b", 1500), ("sst2", "sst-2", 6000), ("cola", "cola", None)):
    electra.finetune(str(run), task=task, data=str(data / folder), out=str(out / task), head="linear", pooling="mean", floors=False,
        limit_train=limit or most, threads=1, seed=int(run.name.split("-")[1]), progress=print)
