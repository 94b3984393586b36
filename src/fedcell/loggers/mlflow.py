"""MLflow: one MLflow run per recorded run, found again by the folder of its record. Timestamps are simulated time.

Steps that the server has already are not sent again.
"""

import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..errors import BadInput
from ..options import flat
from . import LogPoint

EXPERIMENT = "fedcell"
TAG = "fedcell.folder"
SEND_S = 2.0  # wall time between two messages
MOST_METRICS, MOST_PARAMS, LONGEST = 1000, 100, 500  # of one message; of a parameter, in characters


class Sink:
    """The metrics of one run on an MLflow server, or in a folder."""

    def __init__(self, target: str, name: str, folder: Path, run: Mapping[str, Any]) -> None:
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        from mlflow.entities import RunStatus
        from mlflow.tracking import MlflowClient

        uri = target if "://" in target or target == "databricks" else Path(target).resolve().as_uri()
        if uri.startswith("file:"):  # newer versions ask for consent to keep runs in plain files
            os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
        self.client = MlflowClient(tracking_uri=uri)
        self.status = RunStatus
        self.waiting: list[Any] = []
        self.due_s = time.monotonic() + SEND_S
        self.id, self.last = self._find(str(folder.resolve()), name, run)

    def put(self, point: LogPoint) -> None:
        from mlflow.entities import Metric

        for key, value in point.values.items():
            key = re.sub(r"[^\w\-. /]", "_", key)
            if point.step > self.last.get(key, 0):
                self.waiting.append(Metric(key, value, int(1000 * point.clock_s), point.step))
                self.last[key] = point.step
        if time.monotonic() >= self.due_s or len(self.waiting) >= MOST_METRICS:
            self._send()

    def close(self, ended: bool) -> None:
        self._send()
        state = self.status.FINISHED if ended else self.status.KILLED
        self.client.set_terminated(self.id, self.status.to_string(state))

    def _send(self) -> None:
        while self.waiting:
            part, self.waiting = self.waiting[:MOST_METRICS], self.waiting[MOST_METRICS:]
            self.client.log_batch(self.id, metrics=part)
        self.due_s = time.monotonic() + SEND_S

    def _experiment(self, name: str) -> str:
        """The experiment of a name, new or known; several workers may begin it at once."""
        from mlflow.exceptions import MlflowException

        if not (known := self.client.get_experiment_by_name(name)):
            with suppress(MlflowException):  # another worker was first
                return str(self.client.create_experiment(name))
            known = self.client.get_experiment_by_name(name)
        if known is None:
            raise BadInput(f"MLflow has no experiment {name!r} and makes none: choose another MLFLOW_EXPERIMENT_NAME")
        return str(known.experiment_id)

    def _find(self, folder: str, name: str, run: Mapping[str, Any]) -> tuple[str, dict[str, int]]:
        """The run that logs this record, new or known, and the newest step of each of its metrics."""
        client = self.client
        experiment = self._experiment(os.environ.get("MLFLOW_EXPERIMENT_NAME", EXPERIMENT))
        quoted = folder.replace("'", "\\'")
        found = client.search_runs([experiment], f"tags.`{TAG}` = '{quoted}'", max_results=1)
        if found:
            id = found[0].info.run_id
            client.update_run(id, status=self.status.to_string(self.status.RUNNING))
            return id, {key: newest(client.get_metric_history(id, key)) for key in found[0].data.metrics}
        made = client.create_run(experiment, tags={TAG: folder, "mlflow.runName": name}, start_time=0)
        id = made.info.run_id
        params = list(parameters(run))
        from mlflow.entities import Param

        for first in range(0, len(params), MOST_PARAMS):
            client.log_batch(id, params=[Param(key, value) for key, value in params[first : first + MOST_PARAMS]])
        return id, {}


def newest(history: list[Any]) -> int:
    """The last step of a metric."""
    return max((metric.step for metric in history), default=0)


def parameters(run: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Label, method settings and the settings of world, data, model and training, as flat texts."""
    yield "label", str(run["label"])
    yield "task", str(run.get("task", "classification"))
    for key, value in (flat(run["settings"], "method.") | flat(run["config"])).items():
        yield key, str(value)[:LONGEST]
