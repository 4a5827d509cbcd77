"""Spearman correlation of scored pairs with cosines of a model's vectors, beside what needs no network.

python results/2026-11-23-better-vectors/measure.py PAIRS.tsv MODEL...
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr
from sklearn.feature_extraction.text import TfidfVectorizer

import electra
from electra.laboratory.analysis.probes.sentence_similarity import cosines, word_overlap
from electra.finetuning.labelled.sentence_pairs import read_scored_pairs

pairs = read_scored_pairs(Path(sys.argv[1]))
first, second, gold = map(list, zip(*pairs, strict=True))
a, b = np.vsplit(TfidfVectorizer(sublinear_tf=True).fit_transform(first + second).toarray(), 2)
told = {
    "word overlap": np.array([word_overlap(one, other) for one, other, _ in pairs]),
    "tf-idf of words, cosine": (a * b).sum(1),
    **{model: cosines(electra.load(model).embed(first + second)) for model in sys.argv[2:]},
}
for name, values in told.items():
    sys.stdout.write(f"{name:40} {spearmanr(values, gold).statistic:.4f}\n")
