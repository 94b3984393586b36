"""Figure 4: how far cached label shares are from the long-term ones, per round and accumulated. No training."""

from dataclasses import replace
from functools import lru_cache

import numpy as np
import streaming_setting as setting
from matplotlib.figure import Figure

from fedcell.experiment import Case, Claim, Experiment, Finding, Row, main
from fedcell.experiment.judging import verdict
from fedcell.scenarios import get
from fedcell.theory.streaming import label_trace
from fedcell.world.labels import draw_law

RULES = ("fifo", "srsr", "drsr")
SEEDS = range(1, 11)
N_CLASSES = 10
SETTLED = 10  # rounds after which an ordering must hold without a break

CLAIMS = (
    Claim("calmer", "DRSR and SRSR have lower discrepancy and fewer fluctuations than FIFO", "no numbers in the text"),
    Claim("falling", "the discrepancy of DRSR decreases over time", "no numbers in the text"),
    Claim("accumulated", "DRSR has the lowest accumulated discrepancy throughout, before SRSR and FIFO", "no numbers"),
)


def cases(quick: bool) -> list[Case]:
    return []


@lru_cache(maxsize=1)
def traces() -> dict[str, np.ndarray]:
    """The per-slot discrepancy of every rule, `[n_seeds, n_rounds]`, in the setting of Figure 3."""
    config = get("streaming").config
    out: dict[str, list[np.ndarray]] = {rule: [] for rule in RULES}
    for seed in SEEDS:
        law = draw_law(config.stream, np.arange(N_CLASSES), N_CLASSES, config.world.n_devices, seed)
        for rule in RULES:
            settings = replace(config.stream, cache=rule)
            out[rule].append(label_trace(settings, law, config.rounds, seed).sum(axis=1))
    return {rule: np.array(rows) for rule, rows in out.items()}


def check(rows: list[Row]) -> list[Finding]:
    psi = traces()
    level = {rule: values.mean(axis=1) for rule, values in psi.items()}
    swing = {rule: values[:, SETTLED:].std(axis=1) for rule, values in psi.items()}
    calmer = [setting.beats(part["fifo"], part[rule]) for part in (level, swing) for rule in ("srsr", "drsr")]
    words = ", ".join(f"{rule} {setting.spread(level[rule])} (swing {swing[rule].mean():.3f})" for rule in RULES)
    thirds = np.stack([part.mean(axis=1) for part in np.array_split(psi["drsr"], 3, axis=1)])
    falls = [setting.beats(thirds[0], thirds[1]), setting.beats(thirds[1], thirds[2])]
    return [
        Finding("calmer", f"mean psi_t: {words}", verdict(calmer), f"{sum(calmer)} of 4 comparisons with FIFO hold"),
        Finding(
            "falling",
            "DRSR in the thirds of the run: " + ", ".join(setting.spread(part, 4) for part in thirds),
            verdict(falls),
            "each third below the one before",
        ),
        _accumulated(psi),
    ]


def _accumulated(psi: dict[str, np.ndarray]) -> Finding:
    total = {rule: np.cumsum(values, axis=1).mean(axis=0) for rule, values in psi.items()}
    ordered = (total["drsr"] < total["srsr"]) & (total["srsr"] < total["fifo"])
    since = int(np.flatnonzero(~ordered)[-1]) + 2 if not ordered.all() else 1
    held = [bool(ordered[-1]), bool(ordered[SETTLED:].all())]
    final = ", ".join(f"{rule} {setting.spread(np.cumsum(psi[rule], axis=1)[:, -1], 1)}" for rule in RULES)
    reason = f"DRSR < SRSR < FIFO without a break from round {since} on; asked from round {SETTLED + 1} on"
    return Finding("accumulated", f"psi after {len(ordered)} rounds: {final}", verdict(held), reason)


def plot(rows: list[Row]) -> Figure:
    psi = traces()
    figure = Figure(figsize=(11, 4), layout="constrained")
    per_slot, accumulated = figure.subplots(1, 2)
    for rule in RULES:
        at = np.arange(1, psi[rule].shape[1] + 1)
        per_slot.plot(at, psi[rule][0], label=rule)
        accumulated.plot(at, np.cumsum(psi[rule], axis=1).mean(axis=0), label=rule)
    per_slot.set(title="per slot, one seed", xlabel="round", ylabel="discrepancy", yscale="log")
    accumulated.set(title="accumulated, mean of seeds", xlabel="round", ylabel="discrepancy")
    for axes in (per_slot, accumulated):
        axes.grid(alpha=0.3)
        axes.legend()
    return figure


EXPERIMENT = Experiment(
    title="Streaming caches, Figure 4: label discrepancy", claims=CLAIMS, cases=cases, plot=plot, check=check
)

if __name__ == "__main__":
    main(EXPERIMENT)
