"""The linear answer of the head `compare` without training, by kind and scale of the terms: linear.py PARTS TASK..."""

import sys
import zlib
from pathlib import Path

import numpy as np
import torch
from scipy.sparse import csr_array, hstack
from scipy.stats import spearmanr

from electra.finetuning.compare_head import STRENGTHS, CompareHead
from electra.finetuning.runner.dataset import choose_task, read_dataset
from electra.finetuning.windows.features import Tokens, batch_of
from electra.finetuning.linear_fit import fit_by_folds
from electra.finetuning.overlap import words
from electra.finetuning.term_answer import TermAnswer
from electra.finetuning.runner.tuned_model import build_head
from electra.exchange.load import load
from electra.model.passes import read
from electra.testing import toy_task

FOLDERS = {"stsb": "sts-b"}
model = load("tiny-en", "encoder")
specials = model.tokenizer.specials


def word_terms(windows, neighbours):
    for texts in windows.texts:
        codes = [[zlib.crc32(word.encode()) for word in words(text)] for text in texts]
        if neighbours:
            codes = [a + [(x * 31 + y * 17) % 2**50 for x, y in zip(a, a[1:])] for a in codes]
        yield CompareHead._differing(*(np.array(a or [0], np.int64) for a in codes))


for name in sys.argv[2:]:
    data = Path(sys.argv[1]) / FOLDERS.get(name, name)
    settings = toy_task.settings(Path("unused"), data, name, head="compare")
    dataset = read_dataset(settings, choose_task(settings))
    task = dataset.task
    windows = [task.featurize(part, Tokens(model.tokenizer), 128) for part in map(dataset.splits.get, ("train", "dev"))]
    head = build_head("classifier", "compare", model.config, task.num_outputs, 1, "mean").eval()
    head.know(windows[0].input_ids, (specials.cls, specials.sep))

    def counted(part):
        def network(rows):
            batch = batch_of(part, rows)
            hidden = model.encoder(batch.input_ids, piece_ids=batch.piece_ids, token_type_ids=batch.token_type_ids)
            return list(zip(head.compare(hidden, batch, model.encoder.token_table()), head.terms(batch)))

        features, terms = zip(*read(part.input_ids, network, "cpu", pad=specials.pad))
        return torch.stack(features).double().numpy(), terms

    (train, train_terms), (dev, dev_terms) = map(counted, windows)
    train, dev = ((x - train.mean(0)) / train.std(0).clip(1e-6) for x in (train, dev))
    targets, gold = (torch.from_numpy(np.stack(part.targets)) for part in windows)

    def score(what, x, y):
        answer, _ = fit_by_folds(x, targets, task.loss, task.num_outputs, STRENGTHS, groups=windows[0].example)
        out = y @ answer[:, :-1].T + answer[:, -1]
        value = spearmanr(out[:, 0], gold).statistic if out.shape[1] == 1 else (out.argmax(1) == gold.numpy()).mean()
        print(name, what, round(100 * float(value), 2), flush=True)

    score("dense", train, dev)
    kinds = {"tokens": (train_terms, dev_terms)}
    kinds |= {
        what: tuple(list(word_terms(part, neighbours)) for part in windows)
        for what, neighbours in (("words", False), ("words and neighbours", True))
    }
    for what, (one, other) in kinds.items():
        terms = TermAnswer(task.num_outputs)
        x = terms.learn(one)
        row, column, value = terms._found(other)
        y = csr_array((value, (row, column)), shape=(len(other), x.shape[1]))
        for scale in (1.0, 2.0, 4.0):
            both = (hstack([csr_array(a), scale * b]).tocsr() for a, b in ((train, x), (dev, y)))
            score(f"{what} *{scale:g}", *both)
