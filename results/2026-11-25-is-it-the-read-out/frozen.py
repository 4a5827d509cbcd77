"""Pairs read from a frozen encoder: python frozen.py GLUE OUT.tsv RUN ...

u and v are the mean states of the two texts, each read alone or both in one pass; a linear answer on [u; v; |u - v|; u * v]
is fitted to them, with its penalty chosen by five folds of training.
"""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from scipy.stats import spearmanr
from sklearn.linear_model import LogisticRegressionCV, RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from electra.finetuning.runner import all_seeds

from electra.finetuning.runner import one_seed
from electra.finetuning.runner.dataset import choose_task, read_dataset
from electra.finetuning.windows.features import batch_of
from electra.finetuning.settings import Settings
from electra.exchange.load import load
from electra.model.passes import read

torch.set_num_threads(1)
TASKS = {"sts-b": ("stsb", 1500), "mrpc": ("mrpc", 3000), "rte": ("rte", 2000)}


@torch.no_grad()
def halves(tuning, windows, model, apart):
    """[N, 2, D]: the mean states of the first and the second text."""
    specials = tuning.start.tokenizer.specials
    around = torch.tensor([specials.cls, specials.sep])

    def network(rows):
        batch = batch_of(windows, rows)
        special_BT = torch.isin(batch.input_ids, around)
        real_BT = torch.ones_like(special_BT) if batch.piece_ids is None else batch.piece_ids >= 0
        second_BT = special_BT.cumsum(1) > 1
        first_BT, second_BT = real_BT & ~second_BT & ~special_BT, real_BT & second_BT & ~special_BT
        pieces = batch.piece_ids
        if apart:  # tokens of different pieces do not see each other
            pieces = torch.where(real_BT, second_BT.long(), -1)
        hidden_BTD = model.encoder(batch.input_ids, piece_ids=pieces, token_type_ids=batch.token_type_ids).float()
        means = [
            (hidden_BTD * of.unsqueeze(-1)).sum(1) / of.sum(1, keepdim=True).clamp(min=1)
            for of in (first_BT, second_BT)
        ]
        return list(torch.stack(means, 1).numpy())

    return np.stack(list(read(windows.input_ids, network, "cpu", pad=tuning.pad))).astype(float)


def columns(halves_N2D):
    u, v = halves_N2D[:, 0], halves_N2D[:, 1]
    return np.column_stack([u, v, np.abs(u - v), u * v])


def cosine(halves_N2D):
    u, v = halves_N2D[:, 0], halves_N2D[:, 1]
    return (u * v).sum(1) / np.linalg.norm(u, axis=1) / np.linalg.norm(v, axis=1)


def score(train, dev, gold, gold_dev, number):
    if number:
        found = make_pipeline(StandardScaler(), RidgeCV(np.logspace(0, 5, 11))).fit(train, gold)
        return 100 * spearmanr(found.predict(dev), gold_dev).statistic
    logistic = LogisticRegressionCV(Cs=np.logspace(-5, 0, 8), cv=5, max_iter=500, l1_ratios=(0.0,), use_legacy_attributes=True)
    found = make_pipeline(StandardScaler(), logistic).fit(train, gold)
    return 100 * (found.predict(dev) == gold_dev).mean()


def main():
    glue, out, *runs = sys.argv[1:]
    with open(out, "w") as file:
        print("run\ttask\tuntrained\tread\treadout\tscore", file=file)
        for run in runs:
            for name, (task, count) in TASKS.items():
                settings = Settings(
                    task=task, data=Path(glue) / name, out=Path("unused"), limit_train=count, limit_eval=2000, both_orders=False
                )
                dataset, loaded = read_dataset(settings, choose_task(settings)), load(run, "encoder")
                resolved = all_seeds.resolve(settings, dataset.task, loaded.config, loaded.pooling)
                tuning, _ = all_seeds.prepare(resolved, dataset, loaded)
                for init in ("pretrained", "random"):
                    model = one_seed.build_model(replace(tuning, settings=replace(resolved, init=init)), 0).eval()
                    for apart in (True, False):
                        windows = tuning.train, tuning.splits["dev"].windows
                        gold, gold_dev = (np.stack(of.targets) for of in windows)
                        train, dev = (halves(tuning, of, model, apart) for of in windows)
                        number = gold.dtype.kind == "f"
                        cells = {"[u; v; |u - v|; u * v]": score(columns(train), columns(dev), gold, gold_dev, number)}
                        if number and apart:
                            cells["cosine"] = 100 * spearmanr(cosine(dev), gold_dev).statistic
                        for readout, value in cells.items():
                            row = (Path(run).name, name, init == "random", "apart" if apart else "together", readout)
                            print(*row, f"{value:.1f}", sep="\t", file=file, flush=True)


main()
