"""What an answer fitted by logistic regression gets in a part of SST-2: python linear.py PARTS STORE

Terms are those of the head `bag`; beside them stand states of tiny-en, or word vectors made of all of the text that
tiny-en was trained on (STORE), with no network.
"""

import sys
from pathlib import Path

import numpy as np
import torch
from scipy.sparse import csr_array, hstack
from scipy.sparse.linalg import svds
from sklearn.feature_extraction.text import TfidfVectorizer

from electra.data import cooccurrence
from electra.data.store import TokenStore
from electra.finetuning.runner import all_seeds
from electra.finetuning.runner import one_seed
from electra.finetuning.runner.dataset import choose_task, read_dataset
from electra.finetuning.windows.features import batch_of
from electra.finetuning.linear_fit import Beside, fit_linear
from electra.finetuning.settings import Settings
from electra.finetuning.term_answer import TermAnswer
from electra.exchange.load import load
from electra.model.passes import read

torch.set_num_threads(1)
parts, store = Path(sys.argv[1]), TokenStore.open(sys.argv[2])
settings = Settings(task="sst2", data=parts, out=Path("unused"), head="bag", floors=False)
dataset, loaded = read_dataset(settings, choose_task(settings)), load("tiny-en", "encoder")
resolved = all_seeds.resolve(settings, dataset.task, loaded.config, loaded.pooling)
tuning, _ = all_seeds.prepare(resolved, dataset, loaded)
model = one_seed.build_model(tuning, 0).eval()
states = []
for part in (model.encoder.embedding_norm, *model.encoder.layers, model.encoder.final_norm):
    part.register_forward_hook(lambda _module, _given, made: states.append(made))


@torch.no_grad()
def means_and_terms(windows):
    def network(rows):
        batch = batch_of(windows, rows)
        states.clear()
        model.encoder(batch.input_ids, piece_ids=batch.piece_ids, token_type_ids=batch.token_type_ids)
        means = torch.stack([model.head.numbers(state, batch, None) for state in states], 1)
        return list(zip(means.numpy(), model.head.terms(batch), strict=True))

    means, terms = zip(*read(windows.input_ids, network, "cpu", pad=tuning.pad), strict=True)
    return np.stack(means).astype(float), terms


def loss(logits, gold):
    return torch.nn.functional.cross_entropy(logits, gold, reduction="sum"), len(gold)


def told(name, train, dev, strengths):
    """Accuracy and loss on what is held out, at each strength of the fit."""
    start = np.zeros((2, train.shape[1] + 1))
    for strength in strengths:
        start = fit_linear(train, gold, loss, 1 / (2 * strength * len(gold)), start)
        logits = dev @ start[:, :-1].T + start[:, -1]
        right = 100 * (logits.argmax(1) == gold_dev.numpy()).mean()
        nats = float(loss(torch.from_numpy(logits), gold_dev)[0]) / len(gold_dev)
        print(f"{name}\t{strength}\t{right:.1f}\t{nats:.3f}", flush=True)


def scaled(train, dev, length):
    """Columns of deviation 1, then as long as `length` where a text's terms have length 1."""
    centre, scale = train.mean(0), train.std(0) + 1e-6
    scale = scale * (train.shape[1] ** 0.5 / length)
    return (train - centre) / scale, (dev - centre) / scale


def word_vectors(dimensions, window=8):
    """Of the positive mutual information over the whole text, contexts smoothed by the power of .75."""
    cooccurrence.MOST_TOKENS = store.train.num_tokens
    counts = cooccurrence.cooccurrence_counts(store.train, store.vocab_size, window)
    (row, column), values = counts.tocoo().coords, counts.tocoo().data
    often = counts.sum(axis=1).astype(float)
    context = often**0.75 / (often**0.75).sum()
    values = np.log(values / (often[row] * context[column]))
    kept = values > 0
    matrix = csr_array((values[kept], (row[kept], column[kept])), shape=counts.shape)
    left, size, _ = svds(matrix, k=max(dimensions), random_state=0)
    left, size = left[:, ::-1], size[::-1]
    for width in dimensions:
        vectors = left[:, :width] * np.sqrt(size[:width])
        yield width, vectors / np.linalg.norm(vectors, axis=1, keepdims=True).clip(1e-6)


def mean_vectors(texts, vectors):
    tokens = [terms[(terms > 4) & (terms < store.vocab_size)] for terms in texts]
    return np.stack([vectors[ids].mean(0) if len(ids) else np.zeros(vectors.shape[1]) for ids in tokens])


(means, terms), (means_dev, terms_dev) = (
    means_and_terms(windows) for windows in (tuning.train, tuning.splits["dev"].windows)
)
gold, gold_dev = (
    torch.from_numpy(np.stack(windows.targets)) for windows in (tuning.train, tuning.splits["dev"].windows)
)
answer = TermAnswer(2)
counted = answer.learn(terms)
row, column, value = answer._found(terms_dev)
counted_dev = csr_array((value, (row, column)), shape=(len(terms_dev), counted.shape[1]))

print("what is read\tstrength\taccuracy\tloss")
told("tokens and pairs", counted, counted_dev, (1, 3, 10))
texts, texts_dev = ([example.texts[0] for example in dataset.splits[split]] for split in ("train", "dev"))
words = TfidfVectorizer(token_pattern=r"\S+", ngram_range=(1, 2), min_df=2, binary=True)
told("words and pairs", csr_array(words.fit_transform(texts)), csr_array(words.transform(texts_dev)), (1, 3))
both = hstack([counted, words.transform(texts)]).tocsr(), hstack([counted_dev, words.transform(texts_dev)]).tocsr()
told("tokens, words, and pairs of both", *both, (1, 3))
last, last_dev = means[:, -1], means_dev[:, -1]
every, every_dev = means.reshape(len(means), -1), means_dev.reshape(len(means_dev), -1)
told("mean of the last states", *scaled(last, last_dev, 3), (1, 10, 100))
told("means of all layers' states", *scaled(every, every_dev, 3), (1, 10, 100))
for width, vectors in word_vectors((128, 400)):
    found, found_dev = mean_vectors(terms, vectors), mean_vectors(terms_dev, vectors)
    told(f"word vectors of {width}", *scaled(found, found_dev, 3), (1, 10, 100))
    for length in (0.5, 1, 2):
        near, near_dev = scaled(found, found_dev, length)
        told(f"tokens and pairs, word vectors of {width} at length {length}", Beside(near, counted), Beside(near_dev, counted_dev), (1, 3))
for length in (0.3, 1, 3):
    near, near_dev = scaled(last, last_dev, length)
    told(f"tokens and pairs, last states at length {length}", Beside(near, counted), Beside(near_dev, counted_dev), (1, 3, 10))
near, near_dev = scaled(every, every_dev, 1)
told("tokens and pairs, all layers' states at length 1", Beside(near, counted), Beside(near_dev, counted_dev), (1, 3))
