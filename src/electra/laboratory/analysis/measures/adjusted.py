"""Rates of groups, raw and adjusted for other differences between the groups (covariates).

Method: logistic regression of the event on group dummies and the covariates with their squares, then
standardisation (Lane and Nelder 1982): a group's adjusted rate is the mean predicted probability when every
item is put into that group and keeps its own covariates.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from electra.foundation.arrays import Floats, Ints
from electra.laboratory.analysis.measures.reliability import sigmoid

INVERSE_PENALTY = 1e4  # scikit-learn's C, the inverse of the penalty, which keeps all coefficients finite


def rates(event: Floats, group: Ints, num_groups: int, weights: Floats) -> Floats:
    """Returns each group's weighted rate [groups] of the events (0 or 1); NaN for a group of weight 0."""
    group_weight = np.bincount(group, weights, num_groups)
    events = np.bincount(group, weights * event, num_groups)
    return np.where(group_weight > 0, events / np.where(group_weight > 0, group_weight, 1.0), np.nan)


def scaled_with_squares(columns: Floats) -> Floats:
    """Returns the z-scores of the columns [N, C], followed by their squares: [N, 2C]."""
    spread = columns.std(0)
    scaled = (columns - columns.mean(0)) / np.where(spread > 0, spread, 1.0)
    return np.concatenate([scaled, scaled**2], axis=1)


@dataclass(frozen=True)
class RateModel:
    """Events [N] (0 or 1) explained by groups [N] and covariates [N, 2C] as returned by `standardise`.

    The `weights` [N] of its methods say how often each item was drawn (by the bootstrap; 1 for all items).
    """

    event: Floats
    group: Ints
    num_groups: int
    covariates: Floats

    def adjusted(self, weights: Floats) -> Floats:
        """Returns each group's rate [groups] if every item belonged to it; NaN for a group of weight 0.

        If all drawn events are equal, every group gets their value, even an empty one.
        """
        drawn = self.event[weights > 0]
        if not self._varies(weights):
            return np.full(self.num_groups, drawn.mean() if len(drawn) else np.nan)
        coefficients = self._fit(np.concatenate([self._dummies(), self.covariates], axis=1), weights)
        from_covariates = self.covariates @ coefficients[self.num_groups :]
        has_items = np.bincount(self.group, weights, self.num_groups) > 0
        adjusted_rates = np.full(self.num_groups, np.nan)
        for i in np.flatnonzero(has_items):
            adjusted_rates[i] = np.average(sigmoid(from_covariates + coefficients[i]), weights=weights)
        return adjusted_rates

    def remaining_share(self, weights: Floats) -> float:
        """Returns how much of the groups' effect remains once the covariates are in the model.

        It is the deviance that the groups explain in addition to the covariates, divided by what they explain
        alone; NaN if there is no deviance, or the groups explain none.
        """
        if not self._varies(weights):
            return float("nan")
        ones, dummies = np.ones((len(self.event), 1)), self._dummies()
        with_ones, with_dummies = (np.concatenate([x, self.covariates], axis=1) for x in (ones, dummies))
        explained = self._deviance(ones, weights) - self._deviance(dummies, weights)
        still_explained = self._deviance(with_ones, weights) - self._deviance(with_dummies, weights)
        return still_explained / explained if explained > 0 else float("nan")

    def _varies(self, weights: Floats) -> bool:
        drawn = self.event[weights > 0]
        return bool(drawn.min(initial=1.0) != drawn.max(initial=0.0))

    def _dummies(self) -> Floats:
        return np.eye(self.num_groups)[self.group]

    def _deviance(self, features: Floats, weights: Floats) -> float:
        z = features @ self._fit(features, weights)
        return float(2 * (weights * (np.logaddexp(0.0, z) - self.event * z)).sum())

    def _fit(self, features: Floats, weights: Floats) -> Floats:
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.linear_model import LogisticRegression

        has_weight = weights > 0
        fitter = LogisticRegression(C=INVERSE_PENALTY, fit_intercept=False, solver="newton-cholesky")
        # A perfectly separated group may not converge, but the penalty keeps its coefficient finite.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            fitter.fit(features[has_weight], self.event[has_weight], sample_weight=weights[has_weight])
        return np.asarray(fitter.coef_[0], np.float64)
