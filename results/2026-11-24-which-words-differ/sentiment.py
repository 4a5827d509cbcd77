"""What a table of tokens knows of sentiment, trained or counted: sentiment.py SST-2/train.tsv STORE"""

import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.utils.extmath import randomized_svd

from electra.inference.detection import split
from electra.exchange.load import load

WINDOW, HELD_OUT, TRAINED_ON = 5, 1500, 3000
rows = [line.split("\t") for line in Path(sys.argv[1]).read_text(encoding="utf-8").split("\n")[1:] if line.strip()]
texts, labels = [text.strip() for text, _ in rows], np.array([int(label) for _, label in rows])


class Inside:
    """Finds the phrases that a text is part of."""

    def __init__(self):
        self.texts, self.by_word = [], defaultdict(set)

    def add(self, text):
        for word in set(text.split()):
            self.by_word[word].add(len(self.texts))
        self.texts.append(text)

    def has(self, text):
        among = set.intersection(*(self.by_word.get(word, set()) for word in set(text.split())))
        return any(f" {text} " in f" {self.texts[i]} " for i in among)


whole = Inside()
for text in sorted(set(texts), key=lambda text: -len(text)):
    if not whole.has(text):
        whole.add(text)
sentences = [text for text in whole.texts if len(text.split()) >= 8]
places = np.random.default_rng(5).permutation(len(sentences))[:HELD_OUT]
held_out = Inside()
for place in sorted(places):
    held_out.add(sentences[place])
chosen = set(held_out.texts)
dev = np.array([i for i, text in enumerate(texts) if text in chosen])
train = np.array([i for i, text in enumerate(texts) if not held_out.has(text)])

model = load("tiny-en", "discriminator")
vocabulary = model.config.vocab_size
ids = [np.array(split(model.tokenizer, text).ids) for text in texts]
tokens = np.fromfile(Path(sys.argv[2]) / "train.ds", np.uint16).astype(np.int32)
near = sparse.csr_matrix((vocabulary, vocabulary), dtype=np.float32)
for start in range(0, len(tokens), 4_000_000):
    part = tokens[start : start + 4_000_000]
    for apart in range(1, WINDOW + 1):
        weight = np.full(len(part) - apart, 1 / apart, np.float32)
        near += sparse.coo_matrix((weight, (part[:-apart], part[apart:])), shape=near.shape).tocsr()
near = (near + near.T).tocoo()
count = np.asarray(near.tocsr().sum(1)).ravel() + 1e-9
context = count**0.75 / (count**0.75).sum()
information = np.log(near.data / count[near.row] / context[near.col])
kept = information > 0
positive = sparse.csr_matrix((information[kept], (near.row[kept], near.col[kept])), shape=near.shape)
u, s, _ = randomized_svd(positive, 512, n_iter=3, random_state=0)
tables = {"tiny-en, token table": model.encoder.token_table().detach().numpy()[:vocabulary]}
tables |= {f"pieces, {size} dimensions": u[:, :size] * s[:size] ** 0.5 for size in (64, 128, 256, 512)}
draw = np.random.default_rng(1)
draws = [draw.permutation(train)[:TRAINED_ON] for _ in range(2)]
for name, table in tables.items():
    table = table - table.mean(0)
    means = np.stack([table[row].mean(0) if len(row) else np.zeros(table.shape[1]) for row in ids])
    scores = []
    for some in draws:
        mean, deviation = means[some].mean(0), means[some].std(0) + 1e-9
        x, y = ((means[part] - mean) / deviation for part in (some, dev))
        fits = (LogisticRegression(C=c, max_iter=300).fit(x, labels[some]) for c in (0.001, 0.003, 0.01, 0.03, 0.1))
        scores.append(round(100 * max(fit.score(y, labels[dev]) for fit in fits), 1))
    print(name, *scores, flush=True)
