"""A grid of fine-tunings of one run, on parts of the training sets: python grid.py RUN PARTS OUT.tsv usual|matched TASK ...

PARTS is what parts.py makes, and ../2026-11-25-what-holds-sst-2-back/parts.py for SST-2. Settings that are in OUT.tsv are
not trained again.
"""

import itertools
import sys
import time
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import nn
from torch.nn import functional as F

from electra.finetuning.runner import all_seeds

from electra.finetuning.runner import one_seed
from electra.finetuning.runner.dataset import choose_task, read_dataset
from electra.finetuning.heads import Head
from electra.finetuning.settings import Settings
from electra.finetuning.runner.tuning import evaluate
from electra.exchange.load import load
from electra.model.pair import initialise
from electra.foundation.seeds import key

torch.set_num_threads(1)
RATES, DECAYS, EPOCHS = (3e-4, 1e-3, 2e-3), (0.8, 1.0), (3.0, 10.0)
if "matched" in sys.argv:  # dearer, and hardly moved by the decay
    RATES, DECAYS = RATES[:2], DECAYS[:1]
LONG = 30.0  # epochs, tried where 10 were best
TASKS = {"sts-b": ("stsb", 1500), "mrpc": ("mrpc", 1500), "sst-2": ("sst2", 3000), "cola": ("cola", 3000)}


class Matched(Head):
    """dense -> gelu -> dropout -> output on [u; v; |u - v|; u * v], the means of the two texts' states in a common pass."""

    def __init__(self, config, num_outputs, specials):
        super().__init__(config, num_outputs, "mean")
        self.dense = nn.Linear(4 * config.hidden_size, config.hidden_size)
        self.specials = torch.tensor(specials)

    def forward(self, hidden_BTD, batch):
        special_BT = torch.isin(batch.input_ids, self.specials)
        real_BT = ~special_BT if batch.piece_ids is None else ~special_BT & (batch.piece_ids >= 0)
        second_BT = special_BT.cumsum(1) > 1
        u, v = (
            (hidden_BTD.float() * of.unsqueeze(-1)).sum(1) / of.sum(1, keepdim=True).clamp(min=1)
            for of in (real_BT & ~second_BT, real_BT & second_BT)
        )
        x = torch.cat([u, v, (u - v).abs(), u * v], 1)
        return self.output(self.drop(F.gelu(self.dense(self.drop(x)))))


def matched(build):
    def built(tuning, seed):
        model = build(tuning, seed)
        specials = tuning.start.tokenizer.specials
        model.head = Matched(model.encoder.config, tuning.task.num_outputs, [specials.cls, specials.sep])
        initialise(nn.ModuleDict({"finetune": model.head}), key(seed, "init/head"), "paper")
        return model

    return built


def prepared(run, data, name, limit):
    task, count = TASKS[name]
    settings = Settings(task=task, data=data / name, out=Path("unused"), limit_train=count if limit else None, floors=False)
    dataset = read_dataset(settings, choose_task(settings))
    loaded = load(str(run), "encoder")
    return all_seeds.prepare(all_seeds.resolve(settings, dataset.task, loaded.config, loaded.pooling), dataset, loaded)[0]


def one(tuning, seed, **values):
    with TemporaryDirectory() as folder:
        began = time.monotonic()
        try:
            model, _ = one_seed.train_seed(tuning.with_settings(checkpoint_every=10**9, **values), seed, Path(folder))
            scored = evaluate(tuning, model, tuning.splits["dev"])
            score = 100 * (scored.scores[tuning.task.metrics[0]].value or 0.0)
        except Exception as error:
            print(error, flush=True)
            score = float("nan")
        return score, time.monotonic() - began


def main():
    run, data, out, readout, *names = sys.argv[1:]
    out, data = Path(out), Path(data)
    if readout == "matched":
        one_seed.build_model = matched(one_seed.build_model)
    if not out.exists():
        out.write_text("run\treadout\ttask\trate\tdecay\tepochs\tscore\tseconds\n")

    def known(name):
        rows = [line.split("\t") for line in out.read_text().split("\n")[1:] if line]
        return {tuple(map(float, row[3:6])): float(row[6]) for row in rows if row[:3] == [Path(run).name, readout, name]}

    def score(tuning, name, rate, decay, epochs):
        if (rate, decay, epochs) in known(name):
            return
        value, seconds = one(tuning, 0, learning_rate=rate, layer_decay=decay, epochs=epochs)
        cells = f"{rate:g}\t{decay:g}\t{epochs:g}\t{value:.2f}\t{seconds:.0f}"
        with out.open("a") as file:
            file.write("\t".join([Path(run).name, readout, name, cells]) + "\n")

    for name in names:
        tuning = prepared(run, data, name, True)
        for cell in itertools.product(RATES, DECAYS, EPOCHS):
            score(tuning, name, *cell)
        rate, decay, epochs = max(known(name), key=lambda cell: known(name)[cell])
        if epochs == EPOCHS[-1]:
            score(tuning, name, rate, decay, LONG)


if __name__ == "__main__":
    main()
