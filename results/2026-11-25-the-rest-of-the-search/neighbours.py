"""Replaced token detection without a generator network: replacements drawn from counts, P(w) F(w | left) F(w | right)."""
from __future__ import annotations
from dataclasses import dataclass
from typing import Any
import numpy as np, torch
from torch.nn import functional as F
from electra.objectives import rtd
from electra.objectives.parts import replacing, vocabulary
from electra.objectives.parts.interface import Outcome

@dataclass(frozen=True)
class Config(rtd.Config):
    smoothing: float = 1.0

class Objective(rtd.Objective):
    source = "pilot"
    def __init__(self, config, **world):
        super().__init__(config, **world)
        self.auxiliary = False
        self.noise = True
        self.tables = None
    @property
    def weights(self): return {"rtd": self.config.discriminator_weight}
    def build(self):
        V = self.vocab_size; tokens = self.statistics.store.train.tokens
        c = torch.zeros(V * V, dtype=torch.int32)
        for s in range(0, len(tokens) - 1, 1 << 24):
            t = torch.from_numpy(np.asarray(tokens[s : s + (1 << 24) + 1]).astype(np.int64))
            c += torch.bincount(t[:-1] * V + t[1:], minlength=V * V).int()
        c = c.view(V, V).float()
        sp = list(self.specials.values())
        c[sp] = 0; c[:, sp] = 0
        n = c.sum(0) + 0.5; n[sp] = 0; p = n / n.sum()
        def ratio(c):  # c[context, w]
            total, kinds = c.sum(1), (c > 0).sum(1).float() * self.config.smoothing
            lam = torch.where(total > 0, total / (total + kinds).clamp(min=1), 0.0)
            out = torch.empty(V, V, dtype=torch.bfloat16)
            for i in range(0, V, 512):
                part = c[i : i + 512]
                out[i : i + 512] = ((1 - lam[i : i + 512, None]) + lam[i : i + 512, None] * part / total[i : i + 512, None].clamp(min=1) / p.clamp(min=1e-12)).bfloat16()
            return out
        self.tables = (p, ratio(c), ratio(c.T.contiguous()))
    def draw(self, corrupted):
        if self.tables is None: self.build()
        p, left, right = self.tables
        ids = corrupted.input_ids.flatten(); at = corrupted.masked_positions
        l, r = ids[(at - 1).clamp(min=0)], ids[(at + 1).clamp(max=len(ids) - 1)]
        out = torch.empty_like(corrupted.targets)
        for s in range(0, len(at), 256):
            q = p * left[l[s : s + 256]].float() * right[r[s : s + 256]].float()
            if self.config.temperature != 1: q = q ** (1 / self.config.temperature)
            out[s : s + 256] = vocabulary.sample(q, corrupted.uniforms[s : s + 256])
        return out
    def forward(self, pair, corrupted):
        with torch.no_grad(): sampled = self.draw(corrupted)
        ids = replacing.put(corrupted, sampled)
        observed = {"sample_correct": sampled == corrupted.targets, "sampled": sampled}
        judged = self.judged(corrupted)
        is_replaced = (ids != corrupted.input_ids).flatten()[judged]
        hidden = pair.main.encoder(ids, corrupted.position_ids, corrupted.piece_ids).flatten(0, 1)
        logits = pair.main.logits(hidden).float()[judged]
        losses = {"rtd": F.binary_cross_entropy_with_logits(logits, is_replaced.float(), reduction="sum")}
        return Outcome(losses, observed | {"replaced_logits": logits.detach(), "replaced": is_replaced})
