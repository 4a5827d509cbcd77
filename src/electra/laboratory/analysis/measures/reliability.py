"""Calibration of probabilities: calibration error, the Brier score and its parts, and recalibration.

p [N] are probabilities of the positive class, z [N] their log-odds, y [N] outcomes (0 or 1) and w [N]
weights. In a bin b, p_b is the mean probability, y_b the share of positives, and n_b the bin's share of the
weight.

    ECE   = sum over bins of n_b |y_b - p_b|                                  (Naeini et al. 2015)
    Brier = mean (p - y)^2 = reliability - resolution + uncertainty + within  (Murphy 1973,
                                                                              Stephenson et al. 2008)
        reliability = sum n_b (p_b - y_b)^2      resolution = sum n_b (y_b - y_mean)^2
        uncertainty = y_mean (1 - y_mean)        within = the variance of p inside the bins, less twice its
                                                          covariance with y
"""

from collections.abc import Callable
from typing import Literal

import numpy as np
from scipy.special import expit

from electra.foundation.arrays import Floats

Recalibration = Callable[[Floats], Floats]
"""Maps log-odds to probabilities."""
UNCALIBRATED = "uncalibrated"  # name of the map without recalibration: the sigmoid

TINY = 1e-12


def bins_of(p: Floats, count: int, kind: Literal["width", "mass"]) -> Floats:
    """Returns the inner edges of bins of equal width over [0, 1], or of equal mass (fewer if many are equal).

    They are fixed, so that resampled data falls into the same bins.
    """
    edges = np.linspace(0, 1, count + 1)[1:-1]
    if kind == "mass":
        edges = np.unique(np.quantile(p, edges)) if len(p) else np.zeros(0)
    return edges


def bin_sums(p: Floats, y: Floats, w: Floats, bins: Floats) -> tuple[Floats, Floats, Floats]:
    """Returns each bin's weight, mean probability and share of positives (0 in empty bins)."""
    index, size = np.searchsorted(bins, p, side="right"), len(bins) + 1
    weight, of_p, of_y = (np.bincount(index, each, size).astype(np.float64) for each in (w, w * p, w * y))
    divisor = np.where(weight > 0, weight, 1.0)
    return weight, of_p / divisor, of_y / divisor


def ece(p: Floats, y: Floats, w: Floats, bins: Floats) -> float:
    """Returns the expected calibration error; NaN if all weights are 0."""
    weight, mean_p, mean_y = bin_sums(p, y, w, bins)
    return float((weight * np.abs(mean_y - mean_p)).sum() / w.sum()) if w.sum() > 0 else float("nan")


def brier(p: Floats, y: Floats, w: Floats, bins: Floats) -> dict[str, float]:
    """Returns the Brier score and its parts, as defined above; NaN if all weights are 0."""
    total = w.sum()
    if total <= 0:
        parts = ("Brier", "reliability", "resolution", "uncertainty", "within bins")
        return dict.fromkeys(parts, float("nan"))
    weight, mean_p, mean_y = bin_sums(p, y, w, bins)
    base_rate, index = float((w * y).sum() / total), np.searchsorted(bins, p, side="right")
    inner_p, inner_y = p - mean_p[index], y - mean_y[index]
    return {
        "Brier": float((w * (p - y) ** 2).sum() / total),
        "reliability": float((weight * (mean_p - mean_y) ** 2).sum() / total),
        "resolution": float((weight * (mean_y - base_rate) ** 2).sum() / total),
        "uncertainty": base_rate * (1 - base_rate),
        "within bins": float((w * inner_p * (inner_p - 2 * inner_y)).sum() / total),
    }


def log_loss(p: Floats, y: Floats, w: Floats) -> float:
    """Returns the mean negative log-likelihood in nats; NaN if all weights are 0."""
    if w.sum() <= 0:
        return float("nan")
    clipped = np.clip(p, TINY, 1 - TINY)
    return float(-(w * (y * np.log(clipped) + (1 - y) * np.log1p(-clipped))).sum() / w.sum())


def temperature(z: Floats, y: Floats) -> float:
    """Returns the T that maximises the likelihood of sigmoid(z / T) (Guo et al. 2017)."""
    from scipy.optimize import minimize_scalar

    def loss(log_t: float) -> float:
        scaled = z / np.exp(log_t)
        return float((np.logaddexp(0.0, scaled) - y * scaled).mean())

    return float(np.exp(minimize_scalar(loss, bounds=(-5.0, 5.0), method="bounded").x))


def recalibrations(z: Floats, y: Floats) -> dict[str, Recalibration]:
    """Returns, by name, maps from log-odds to probabilities fitted on (z, y).

    Only `UNCALIBRATED` and "temperature" if all outcomes are equal.
    """
    from sklearn.isotonic import IsotonicRegression
    from sklearn.linear_model import LogisticRegression

    t = temperature(z, y)
    maps: dict[str, Recalibration] = {
        UNCALIBRATED: expit,
        "temperature": lambda log_odds: expit(log_odds / t),
    }
    if 0 < y.sum() < len(y):  # the other maps need both outcomes
        platt = LogisticRegression(C=1e6).fit(z[:, None], y)
        scale, offset = float(platt.coef_[0, 0]), float(platt.intercept_[0])
        isotonic = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip").fit(z, y)
        maps["scale and offset"] = lambda log_odds: expit(scale * log_odds + offset)
        maps["isotonic"] = lambda log_odds: np.asarray(isotonic.predict(log_odds))
    return maps
