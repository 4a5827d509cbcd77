"""The threshold from which a model's language model marks words, on four draws of held-out text: python threshold.py MODEL STORE"""

import sys
from pathlib import Path

import numpy as np

from electra.data.store import TokenStore
from electra.exchange.load import load_language_model
from electra.inference.mlm_detection import detect_by_naming, plant
from electra.exchange.source import locate
from electra.training.evaluation import best_threshold

judge = load_language_model(locate(sys.argv[1]))
ids = TokenStore.open(Path(sys.argv[2])).heldout.tokens.astype(int)
for seed in range(4):
    starts = np.random.default_rng(seed).integers(0, len(ids) - 130, 256)
    texts = [judge.tokenizer.decode(part) for at in starts for part in np.array_split(ids[at : at + 126], 4)]
    planted = plant(judge.tokenizer, [text for text in texts if text.strip()])
    p, replaced = [], []
    for (_, begins), found in zip(planted, detect_by_naming(judge, [text for text, _ in planted])):
        p += [word.p_replaced for word in found.words]
        replaced += [word.start in begins for word in found.words]
    p, replaced = np.clip(np.array(p), 1e-12, 1 - 1e-12), np.array(replaced)
    best = best_threshold(np.log(p / (1 - p)), replaced)
    f1 = [2 * (replaced & (p >= at)).sum() / (replaced.sum() + (p >= at).sum()) for at in (best, 0.5)]
    print(f"{len(p)} words, {replaced.mean():.3f} planted: {best:.3f}, F1 {f1[0]:.3f}; at 0.5 {f1[1]:.3f}", flush=True)
