"""Recorded runs side by side: groups of repeats, and what differs between them seed by seed."""

import os
from collections.abc import Iterable, Mapping, Sequence
from math import ceil, floor, isfinite, log10
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..arguments import NUMBER, NUMBERS, TEXT, TEXTS, expect, kind_of
from ..errors import BadInput, FedcellError, did_you_mean
from ..metrics import SCORES, Metric
from ..record import Record, find, read, served
from ..record.totals import LATER
from ..types import Floats
from .groups import Repeats, cautions, common_seeds, few, repeats
from .paired import Difference, Estimate, difference, estimate
from .quantities import Quantity, Value, measure, quantities
from .side_by_side import comparison_html

COLUMNS = (
    *("round", "clock_s", "n_selected", "n_delivered", "compute_joule", "radio_joule", "uplink_bit"),
    *LATER,
    *SCORES,
    *served.COLUMNS,
)
EASY = 0.95  # of the smallest best score, or by which the largest is divided: a target that every run reaches


class Measure(NamedTuple):
    """One quantity of one group."""

    values: Floats  # [n_seeds], NaN if a run has none
    least: Floats  # [n_seeds], the value, or what it is at least; NaN if nothing is known
    estimate: Estimate  # NaN if a value is known by its least alone
    difference: Difference | None  # to the reference; None for the reference itself

    @property
    def censored(self) -> int:
        """Runs that never reached the target: their value is known to be at least `least`."""
        return int(np.sum(np.isnan(self.values) & ~np.isnan(self.least)))

    @property
    def bound(self) -> float:
        """A lower bound of the mean if runs are `censored`, over the seeds of which anything is known."""
        return float(np.nanmean(self.least))


class Group(NamedTuple):
    """Runs with equal settings, one per seed of the comparison."""

    label: str
    varied: Mapping[str, Any]  # settings in which groups differ, by dotted key
    records: tuple[Record, ...]  # in the order of the seeds
    measures: Mapping[str, Measure]  # by the key of a quantity
    name: str = ""  # in full, if the label leaves out what all groups share


class Comparison(NamedTuple):
    """Groups of recorded runs on common seeds, each compared with a reference."""

    groups: tuple[Group, ...]
    reference: str  # label
    seeds: tuple[int, ...]
    targets: tuple[float, ...]
    confidence: float
    quantities: tuple[Quantity, ...]
    metric: Metric  # that leads all runs
    notes: tuple[str, ...]  # what was left out, and what makes numbers less comparable

    def _repr_html_(self) -> str:
        """What Jupyter shows."""
        return comparison_html(self)


def compare(
    runs: str | Path | Record | Sequence[str | Path | Record],
    *,
    against: str | None = None,
    targets: Sequence[float] = (),
    only: Sequence[str] = (),
    confidence: float = 0.95,
    labels: Mapping[str, str] | Sequence[str] = (),
) -> Comparison:
    """Group recorded runs by what differs, with seeds as repeats, and compare every group with a reference.

    Args:
        runs: folders of runs, comparisons or sweeps, or records that were read already.
        against: label of the reference; None: the first group.
        targets: values of the leading metric, such as accuracies in (0, 1], whose cost is wanted; none: 95 % of the
            smallest best accuracy, or a value of another metric that is as easy.
        only: keep groups whose label holds any of these texts; none: all.
        confidence: of the intervals.
        labels: new labels by old ones, or texts `OLD=NEW`.

    Raises BadInput for runs that cannot be compared; `notes` warns of what is merely less comparable.
    """
    expect(TEXT.or_none, against=against)
    expect(NUMBER, confidence=confidence)
    expect(NUMBERS, targets=targets)
    expect(TEXTS, only=only)
    if not 0 < confidence < 1:
        raise BadInput(f"confidence {confidence:g} is not between 0 and 1: give a share such as 0.95")
    notes: list[str] = []
    asked = [runs] if isinstance(runs, str | Path | Record) else runs
    if not isinstance(asked, Iterable):
        raise BadInput(f"runs is {kind_of(asked)}: give a folder, a record, or a list of them")
    if not asked:
        raise BadInput("no run was given to compare: name folders that `fedcell run` made, or records")
    records = gather(asked, notes)
    found = _chosen(repeats(records, notes, labels), only, notes)
    reference = _reference(found, against)
    seeds = common_seeds(found, notes)
    metric = _metric(found, seeds)
    _check(targets, metric)
    goals = tuple(dict.fromkeys(targets)) or _easy_target(found, seeds, metric)
    _refuse_unlike(found, seeds, goals, metric)
    notes += [*cautions(found, reference), *_endings(found, seeds)]
    brought = any(served.MARK in one.by_seed[seed].columns for one in found for seed in seeds)
    columns = quantities(metric, goals, brought)
    tables = {one.label: [measure(one.by_seed[seed], goals) for seed in seeds] for one in found}
    base = tables[reference.label]
    groups = [
        Group(
            label=one.label,
            name=one.name,
            varied=one.varied,
            records=tuple(one.by_seed[seed] for seed in seeds),
            measures={
                column.key: _measure(column.key, tables[one.label], None if one is reference else base, confidence)
                for column in columns
            },
        )
        for one in found
    ]
    return Comparison(tuple(groups), reference.label, seeds, goals, confidence, columns, metric, tuple(notes))


def gather(runs: Sequence[str | Path | Record], notes: list[str]) -> list[Record]:
    """Read every run that began, each folder once, with the columns that a comparison needs."""
    seen: set[str] = set()
    out, left = [], []
    for one in runs:
        if isinstance(one, Record):
            out.append(one)
            continue
        found = find(one)
        if not found:
            raise BadInput(f"there is no recorded run in {one}: name a folder that `fedcell run` or `sweep` made")
        for info in found:
            real = os.path.realpath(info.folder)
            if real not in seen and info.state in ("waiting", "damaged"):
                left.append(info.message or f"{info.folder} is {info.state}")
            elif real not in seen:
                out += _sound(info.folder, left)
            seen.add(real)
    left += [one.status.message for one in out if one.status.state == "damaged"]
    notes += [f"left out: {few(left)}"] if left else []
    return [one for one in out if one.status.state != "damaged"]


def _sound(folder: Path, left: list[str]) -> list[Record]:
    """Read the run in a folder; if its rows turn out to be damaged, add the reason to `left` and return no run."""
    try:
        return [read(folder, COLUMNS)]
    except FedcellError as error:
        left.append(str(error))
        return []


def _check(targets: Sequence[float], metric: Metric) -> None:
    for target in targets:
        if metric.share and not 0 < target <= 1:
            raise BadInput(f"target {target:g} is no {metric.title}: give a share above 0 and up to 1, such as 0.9")
        if not isfinite(target):
            raise BadInput(f"target {target:g} is no {metric.title}: give a number")


def _metric(groups: Sequence[Repeats], seeds: Sequence[int]) -> Metric:
    """The metric that leads all runs; refuses runs of different tasks."""
    first, *others = [(one.label, one.by_seed[seed]) for one in groups for seed in seeds]
    for label, run in others:
        if run.task != first[1].task:
            raise BadInput(f"{first[0]!r} learns {first[1].task} and {label!r} {run.task}: compare runs of one task")
    return first[1].metric


def _chosen(groups: list[Repeats], only: Sequence[str], notes: Sequence[str]) -> list[Repeats]:
    kept = [one for one in groups if not only or any(text in one.label or text in one.name for text in only)]
    if not kept:
        known = [one.label for one in groups]
        ended = f"no group holds {' or '.join(map(repr, only))} in its label"
        why = ended if groups else "; ".join(notes)
        raise BadInput(f"there is nothing to compare: {why}" + _named(known))
    return kept


def _reference(groups: Sequence[Repeats], against: str | None) -> Repeats:
    """The group of that label or full name, or the only one whose label or name begins with it."""
    if against is None:
        return groups[0]
    exact = [one for one in groups if against in (one.label, one.name)]
    near = exact or [one for one in groups if one.label.startswith(against) or one.name.startswith(against)]
    if len(near) != 1:
        known = [one.label for one in groups]
        why = "several groups begin so" if near else "there is no such group"
        raise BadInput(f"cannot compare against {against!r}: {why}{did_you_mean(against, known)}{_named(known)}")
    return near[0]


def _named(labels: Sequence[str]) -> str:
    return f" (groups: {few(labels)})" if labels else ""


def _refuse_unlike(groups: Sequence[Repeats], seeds: Sequence[int], goals: Sequence[float], metric: Metric) -> None:
    """Refuse runs that were not judged by the same metric."""
    scored = {one.label: any(metric.name in one.by_seed[seed].columns for seed in seeds) for one in groups}
    without = next((label for label, has in scored.items() if not has), None)
    having = next((label for label, has in scored.items() if has), None)
    if without and having:
        by = metric.title
        raise BadInput(f"{having!r} was evaluated by {by} and {without!r} was not: compare runs of one metric")
    if without and goals:
        raise BadInput(f"{without!r} was not evaluated by {metric.title}: drop the target")


def _easy_target(groups: Sequence[Repeats], seeds: Sequence[int], metric: Metric) -> tuple[float, ...]:
    """A score that every run which did not diverge reaches, to three digits."""
    records = [one.by_seed[seed] for one in groups for seed in seeds]
    best = [measure(one, ())[f"{metric.name}_best"].value for one in records if one.status.state == "finished"]
    if not best or np.isnan(best).any():
        return ()
    if metric.rises:
        target = floor(1000 * EASY * min(best)) / 1000
    else:
        step = 10.0 ** (floor(log10(max(best))) - 2) if max(best) > 0 else 1.0
        target = float(f"{ceil(max(best) / EASY / step) * step:.6g}")
    return (target,) if target > 0 else ()


def _endings(groups: Sequence[Repeats], seeds: Sequence[int]) -> list[str]:
    """Notes on runs that diverged or stopped early, real devices, different versions, and a single seed."""
    runs = [(one.label, seed, one.by_seed[seed]) for one in groups for seed in seeds]
    diverged = [
        f"{label} on seed {seed} after {run.status.rounds} of {run.status.total} rounds"
        for label, seed, run in runs
        if run.status.state == "diverged"
    ]
    notes = [f"diverged, so without final values and totals: {few(diverged)}"] if diverged else []
    early = [label for label, _, run in runs if run.status.state == "finished" and run.status.rounds < run.status.total]
    if early:
        what = "stopped when a condition of --until was met, so final values and totals are those up to there"
        notes.append(f"{what}: {few(list(dict.fromkeys(early)))}")
    real = list(dict.fromkeys(label for label, _, run in runs if run.clock == "measured"))
    if real:
        notes.append(f"real devices, so time is measured and energy is not known: {few(real)}")
    versions = sorted({run.made_by["fedcell"] for *_, run in runs if "fedcell" in run.made_by})
    if len(versions) > 1:
        notes.append(f"the runs were made by different versions of fedcell ({', '.join(versions)})")
    if len(seeds) == 1:
        notes.append("one seed: there are no intervals and no tests; repeat the runs with other seeds (--seed)")
    return notes


def _measure(
    key: str, table: Sequence[Mapping[str, Value]], base: Sequence[Mapping[str, Value]] | None, confidence: float
) -> Measure:
    values, least = np.array([row[key] for row in table], np.float64).T
    censored = bool((np.isnan(values) & ~np.isnan(least)).any())
    found = estimate(values, confidence)
    if censored:  # the mean of those that reached it would flatter the group
        found = Estimate(float("nan"), float("nan"), float("nan"), found.n)
    if base is None:
        return Measure(values, least, found, None)
    theirs, bound = np.array([row[key] for row in base], np.float64).T
    gap = difference(values, theirs, confidence)
    if censored or bool((np.isnan(theirs) & ~np.isnan(bound)).any()):
        gap = gap._replace(p=float("nan"))  # the pairs that are left are no random ones
    return Measure(values, least, found, gap)
