"""What a run achieved and what it cost, in the few numbers that `status.json` keeps."""

from collections.abc import Mapping
from math import nan
from typing import Any, NamedTuple


class Totals(NamedTuple):
    """Costs are sums over all rounds and devices; what was never measured is NaN."""

    accuracy_best: float = nan
    accuracy_final: float = nan
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
    def joule(self) -> float:
        """Energy of all devices."""
        return self.compute_joule + self.radio_joule + self.receive_joule + self.idle_joule

    def of(self, clock: str) -> "Totals":
        """The same without energy where the clock is measured: nobody measures the joules of real devices."""
        return self._replace(compute_joule=nan, radio_joule=nan) if clock == "measured" else self


LATER = ("downlink_bit", "receive_joule", "idle_joule")  # totals, and metrics of a row, that older runs have not
COLUMNS = (*LATER, "clock_s", "compute_joule", "radio_joule", "uplink_bit", "n_delivered", "n_selected", "accuracy")


def total(columns: Mapping[str, Any]) -> Totals:
    """The totals of a run from its columns, `COLUMNS` or more."""
    import numpy as np  # totals on file are read without it

    if not len(columns["clock_s"]):
        return Totals()
    accuracy = columns.get("accuracy", np.empty(0))
    accuracy = accuracy[np.isfinite(accuracy)]
    return Totals(
        accuracy_best=float(accuracy.max()) if len(accuracy) else nan,
        accuracy_final=float(accuracy[-1]) if len(accuracy) else nan,
        simulated_s=float(columns["clock_s"][-1]),
        compute_joule=float(columns["compute_joule"].sum()),
        radio_joule=float(columns["radio_joule"].sum()),
        uplink_bit=float(columns["uplink_bit"].sum()),
        delivered_per_round=float(np.mean(columns["n_delivered"])),
        selected_per_round=float(np.mean(columns["n_selected"])),
        **{name: float(np.nansum(columns[name])) for name in LATER if name in columns},
    )
