"""What a run achieved and what it cost, in the few numbers that `status.json` keeps."""

from collections.abc import Mapping
from math import nan
from typing import Any, NamedTuple

from ..metrics import Metric


class Totals(NamedTuple):
    """Costs are sums over all rounds and devices; what was never measured is NaN."""

    best: float = nan  # of the metric that leads the run's task
    final: float = nan
    simulated_s: float = 0.0
    compute_joule: float = 0.0
    radio_joule: float = 0.0
    uplink_bit: float = 0.0
    delivered_per_round: float = 0.0  # devices, mean over rounds
    selected_per_round: float = 0.0
    downlink_bit: float = 0.0
    receive_joule: float = 0.0
    idle_joule: float = 0.0

    @property
    def accuracy_best(self) -> float:
        """`best`, by its name in classification."""
        return self.best

    @property
    def accuracy_final(self) -> float:
        """`final`, by its name in classification."""
        return self.final

    @property
    def joule(self) -> float:
        """Energy of all devices."""
        return self.compute_joule + self.radio_joule + self.receive_joule + self.idle_joule

    def of(self, clock: str) -> "Totals":
        """The totals, with NaN for computing and sending if the clock is measured: real devices report no energy."""
        return self._replace(compute_joule=nan, radio_joule=nan) if clock == "measured" else self

    def by_name(self, metric: Metric) -> dict[str, float]:
        """The totals as they stand in files: scores by the name of their metric, as in `accuracy_best`."""
        values = self._asdict()
        scores = {f"{metric.name}_best": values.pop("best"), f"{metric.name}_final": values.pop("final")}
        return scores | values

    @staticmethod
    def read(values: Mapping[str, Any], metric: Metric) -> "Totals":
        """Read totals from the values of a file; those of `LATER` are 0 if an older file lacks them."""
        names = Totals().by_name(metric)
        return Totals(*(float(values.get(name, 0.0) if name in LATER else values[name]) for name in names))


LATER = ("downlink_bit", "receive_joule", "idle_joule")  # totals, and metrics of a row, that older runs lack
COLUMNS = (*LATER, "clock_s", "compute_joule", "radio_joule", "uplink_bit", "n_delivered", "n_selected")


def joules(columns: Mapping[str, Any]) -> Any:
    """Energy of all devices after each round, `[n_rounds]`: as `Row.joule`, added up."""
    import numpy as np

    spent = columns["compute_joule"] + columns["radio_joule"]
    for name in ("receive_joule", "idle_joule"):
        if name in columns:
            spent = spent + np.nan_to_num(columns[name])
    return np.cumsum(spent)


def total(columns: Mapping[str, Any], metric: Metric) -> Totals:
    """Compute the totals of a run from its columns; the leading metric and those of `LATER` may be missing."""
    import numpy as np  # totals on file are read without it

    if not len(columns["clock_s"]):
        return Totals()
    scores = columns.get(metric.name, np.empty(0))
    scores = scores[np.isfinite(scores)].tolist()
    return Totals(
        best=metric.best(scores),
        final=scores[-1] if scores else nan,
        simulated_s=float(columns["clock_s"][-1]),
        compute_joule=float(columns["compute_joule"].sum()),
        radio_joule=float(columns["radio_joule"].sum()),
        uplink_bit=float(columns["uplink_bit"].sum()),
        delivered_per_round=float(np.mean(columns["n_delivered"])),
        selected_per_round=float(np.mean(columns["n_selected"])),
        **{name: float(np.nansum(columns[name])) for name in LATER if name in columns},
    )
