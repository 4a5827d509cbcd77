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

RIDGE = 1e4  # inverse strength of the penalty, which keeps the coefficients of a group without events finite


def rates(event: Floats, group: Ints, num_groups: int, weights: Floats) -> Floats:
    """Returns each group's share of events [groups]; NaN for an empty group."""
    total = np.bincount(group, weights, num_groups)
    events = np.bincount(group, weights * event, num_groups)
    return np.where(total > 0, events / np.where(total > 0, total, 1.0), np.nan)


def standardise(columns: Floats) -> Floats:
    """Returns the columns [N, C] centred and scaled, and their squares: [N, 2C]."""
    spread = columns.std(0)
    scaled = (columns - columns.mean(0)) / np.where(spread > 0, spread, 1.0)
    return np.concatenate([scaled, scaled**2], axis=1)


@dataclass(frozen=True)
class RateModel:
    """Events [N] explained by groups [N] and standardised covariates [N, C]."""

    event: Floats
    group: Ints
    num_groups: int
    covariates: Floats

    def adjusted(self, weights: Floats) -> Floats:
        """Returns each group's rate [groups] if every item belonged to it; NaN for an empty group.

        If all events are equal, every group gets their value.
        """
        drawn = weights > 0
        if self.event[drawn].min(initial=1.0) == self.event[drawn].max(initial=0.0):  # no variance
            return np.full(self.num_groups, self.event[drawn].mean() if drawn.any() else np.nan)
        coefficients = self._fit(np.concatenate([self._dummies(), self.covariates], axis=1), weights)
        from_covariates = self.covariates @ coefficients[self.num_groups :]
        present = np.bincount(self.group, weights, self.num_groups) > 0
        adjusted_rates = np.full(self.num_groups, np.nan)
        for i in np.flatnonzero(present):
            adjusted_rates[i] = np.average(sigmoid(from_covariates + coefficients[i]), weights=weights)
        return adjusted_rates

    def remaining_share(self, weights: Floats) -> float:
        """Returns the share of the groups' explained deviance that the covariates do not explain.

        NaN if there is no deviance, or the groups explain none.
        """
        drawn = weights > 0
        if self.event[drawn].min(initial=1.0) == self.event[drawn].max(initial=0.0):
            return float("nan")
        ones, dummies = np.ones((len(self.event), 1)), self._dummies()
        both = [np.concatenate([features, self.covariates], axis=1) for features in (ones, dummies)]
        alone = self._deviance(ones, weights) - self._deviance(dummies, weights)
        remaining = self._deviance(both[0], weights) - self._deviance(both[1], weights)
        return remaining / alone if alone > 0 else float("nan")

    def _dummies(self) -> Floats:
        return np.eye(self.num_groups)[self.group]

    def _deviance(self, features: Floats, weights: Floats) -> float:
        z = features @ self._fit(features, weights)
        return float(2 * (weights * (np.logaddexp(0.0, z) - self.event * z)).sum())

    def _fit(self, features: Floats, weights: Floats) -> Floats:
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.linear_model import LogisticRegression

        drawn = weights > 0
        fitter = LogisticRegression(C=RIDGE, fit_intercept=False, solver="newton-cholesky")
        with warnings.catch_warnings():  # the penalty bounds a perfectly separated group
            warnings.simplefilter("ignore", ConvergenceWarning)
            fitter.fit(features[drawn], self.event[drawn], sample_weight=weights[drawn])
        return np.asarray(fitter.coef_[0], np.float64)
