"""judge.py RUN DATA [TASK ...]: frozen tags, fine-tunings, matching."""

import json, sys, time
from pathlib import Path
import torch

torch.set_num_threads(1)
from electra.laboratory.ablation import panel

run = Path(sys.argv[1])
DATA = Path(sys.argv[2])
names = sys.argv[3:] or ["pos", "chunking", "stsb", "sst2", "mrpc", "cola", "qnli"]
T = panel.Tuned
TASKS = dict(panel.TASKS) | {
    "sst2": T("", "glue/sst-2", "sst2", "accuracy", 3000),
    "cola": T("", "glue/cola", "cola", "matthews_correlation", 3000),
    "mrpc": T("", "glue/mrpc", "mrpc", "accuracy", 3000),
    "rte": T("", "glue/rte", "rte", "accuracy", 400),
    "qnli": T("", "glue/qnli", "qnli", "accuracy", 2000),
    "mnli": T("", "glue/mnli", "mnli", "accuracy", 2000),
    "qqp": T("", "glue/qqp", "qqp", "accuracy", 2000),
}
out = run / "judge.json"
scores = json.loads(out.read_text()) if out.exists() else {}
from electra.exchange.load import load

found = load(str(run), "encoder") if run.exists() else None
subject = panel.Subject(found.encoder, found.tokenizer, run, DATA, 0, lambda s: None, lambda: False)
for name in names:
    if name in scores:
        continue
    t = time.time()
    scores[name] = round(100 * TASKS[name].score(subject)["value"], 2)
    print(run.name, name, scores[name], f"{time.time() - t:.0f}s", flush=True)
    out.write_text(json.dumps(scores))
print(run.name, json.dumps(scores))
