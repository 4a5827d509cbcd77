"""MLflow: the database OUT/mlflow.db, or the server in MLFLOW_TRACKING_URI."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping

from mlflow import MlflowClient
from mlflow.entities import Metric, Param
from typing_extensions import override

from electra.exchange.trackers.interface import Target, Tracker

BATCH = 100  # maximum values per request
MAX_PARAM_LENGTH = 500  # maximum characters of a parameter's value


class MLflow(Tracker):
    """One run in MLflow; values are sent in batches."""

    def __init__(self, target: Target) -> None:
        logging.getLogger("mlflow").setLevel(logging.WARNING)
        uri = os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{target.out.absolute()}/mlflow.db"
        self._client, self._started = MlflowClient(uri), target.started
        self._pending: list[Metric] = []
        self.id = target.id or self._create_run(target)

    def _create_run(self, target: Target) -> str:
        existing = self._client.get_experiment_by_name(target.project)
        experiment = existing.experiment_id if existing else self._client.create_experiment(target.project)
        run = self._client.create_run(experiment, int(1000 * target.started), run_name=target.run)
        run_id: str = run.info.run_id
        settings = [Param(key, str(value)[:MAX_PARAM_LENGTH]) for key, value in target.settings.items()]
        for start in range(0, len(settings), BATCH):
            self._client.log_batch(run_id, params=settings[start : start + BATCH])
        return run_id

    @override
    def log(self, step: int, seconds: float, values: Mapping[str, float]) -> None:
        milliseconds = int(1000 * (self._started + seconds))
        self._pending += [Metric(name, value, milliseconds, step) for name, value in values.items()]

    @override
    def flush(self) -> None:
        for start in range(0, len(self._pending), BATCH):
            self._client.log_batch(self.id, metrics=self._pending[start : start + BATCH])
        self._pending = []

    @override
    def close(self, finished: bool) -> None:
        self.flush()
        if finished:
            self._client.set_terminated(self.id)


open = MLflow
