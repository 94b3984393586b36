"""Which runs are repeats of one another, and what tells the others apart.

Runs with equal settings of method, world, data, model and training are one group; their seeds are its repeats.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..errors import BadInput
from ..learn.model_files import shown
from ..options import flat
from ..record import Record
from .labels import full_names, in_order, renamed, short_labels

OPEN = ("waiting", "running", "interrupted", "failed")  # states of a run without a result
CAUTIONS = {  # settings that may differ between groups, at the price of a note
    "data.name": ("data set", "scores are those of different test sets"),
    "rounds": ("rounds", "totals and final values are those of runs of different lengths"),
    "until": ("conditions to stop at", "totals and final values are those of runs that stopped at different points"),
    "eval_every": ("rounds between evaluations", "the best of more evaluations tends to be higher"),
}


class Repeats(NamedTuple):
    """The runs of one group, by seed."""

    label: str
    varied: Mapping[str, Any]  # settings in which groups differ, by dotted key
    by_seed: Mapping[int, Record]
    name: str = ""  # in full, if the label leaves out what all groups share


def repeats(
    records: Sequence[Record], notes: list[str], labels: Mapping[str, str] | Sequence[str] = ()
) -> list[Repeats]:
    """Sort ended runs into groups, in the order of `labels.in_order`; `notes` collects what is left out.

    `labels` are new labels by old ones, or texts `OLD=NEW`.
    """
    found: dict[tuple[str, str], dict[int, Record]] = {}
    for record in map(_placeless, _completed(list(_ended(records, notes)))):
        config = {name: part for name, part in record.config.items() if name != "seed"}
        runs = found.setdefault((_method(record), json.dumps(config, sort_keys=True)), {})
        seed = int(record.config["seed"])
        if seed in runs:
            _refuse_other(runs[seed], record, notes)
        runs.setdefault(seed, record)
    firsts = [next(iter(runs.values())) for runs in found.values()]
    varied = differing([flat(one.config) for one in firsts])
    texts = [one.label for one in firsts]
    names = full_names(firsts, varied)
    short, shared = short_labels(names, texts) if names else ([], [])
    if shared:
        notes.append(f"all groups have {', '.join(shared)}")
    parts = list(zip(renamed(short, names, labels), varied, found.values(), names, strict=True))
    return [Repeats(*parts[index]) for index in in_order(texts, varied)]


def common_seeds(groups: Sequence[Repeats], notes: list[str]) -> tuple[int, ...]:
    """The seeds that every group has; raises BadInput when there are none."""
    seeds = set(groups[0].by_seed)
    for group in groups:
        if not seeds & set(group.by_seed):
            other = next((one for one in groups if not set(one.by_seed) & set(group.by_seed)), None)
            if other is None:  # any two have one
                raise _apart(groups, "all of them on the same")
            raise _apart([other, group], "one of them on the other's")
        seeds &= set(group.by_seed)
    more = [f"{one.label} also has {spans(set(one.by_seed) - seeds)}" for one in groups if set(one.by_seed) - seeds]
    if more:
        notes.append(f"compared on the common seeds {spans(seeds)} alone ({few(more)})")
    return tuple(sorted(seeds))


def _apart(groups: Sequence[Repeats], fix: str) -> BadInput:
    """That groups have no common seed."""
    *names, last = [f"{one.label!r} (seeds {spans(one.by_seed)})" for one in groups]
    return BadInput(f"{', '.join(names)} and {last} have no seed in common to be compared on: run {fix} seeds")


def cautions(groups: Sequence[Repeats], reference: Repeats) -> list[str]:
    """A sentence for every setting that makes numbers less comparable."""
    out = []
    for key, (words, why) in CAUTIONS.items():
        mine = reference.varied.get(key)
        other = next((one for one in groups if one.varied.get(key) != mine), None)
        if other:
            theirs = other.varied[key]
            out.append(f"{reference.label!r} has {words} {mine} and {other.label!r} has {theirs}: {why}")
    own = sorted({name for one in groups for name in next(iter(one.by_seed.values())).own} - {"method"})
    if own:
        out.append(f"runs were made with an own {' and '.join(own)}, which no record can tell from another")
    return out


def few(parts: Sequence[str], most: int = 4) -> str:
    """The first of several texts, and how many more there are.

    >>> few(["a", "b", "c"], most=2)
    'a; b; and 1 more'
    """
    return "; ".join([*parts[:most], *([f"and {len(parts) - most} more"] if len(parts) > most else [])])


def spans(seeds: Iterable[int]) -> str:
    """Numbers in a few characters.

    >>> spans([5, 1, 2, 3, 9])
    '1-3, 5, 9'
    """
    parts: list[list[int]] = []
    for seed in sorted(seeds):
        if parts and seed == parts[-1][-1] + 1:
            parts[-1] = [parts[-1][0], seed]
        else:
            parts.append([seed])
    return ", ".join("-".join(map(str, part)) for part in parts)


def _ended(records: Sequence[Record], notes: list[str]) -> Iterator[Record]:
    left = [one for one in records if one.status.state in OPEN or not one.status.rounds]
    if left:
        ends = [
            f"{one.folder} is {one.status.state} after {one.status.rounds} of {one.status.total} rounds" for one in left
        ]
        notes.append(f"left out, because without an end: {few(ends)}")
    out = {id(one) for one in left}
    yield from (one for one in records if id(one) not in out)


def _completed(records: list[Record]) -> list[Record]:
    """The records with the settings of today, if some are older than a setting; unchanged if that is not possible."""
    of_method: dict[str, set[frozenset[str]]] = {}
    for one in records:
        of_method.setdefault(one.method.partition(":")[0], set()).add(frozenset(one.settings))
    if len({frozenset(flat(one.config)) for one in records}) <= 1 and all(len(one) <= 1 for one in of_method.values()):
        return records
    from ..record.prepare import completed  # with PyTorch, which most comparisons do without

    try:
        return [completed(one) for one in records]
    except BadInput:  # of another fedcell, or of a method that is gone
        return records


def _placeless(record: Record) -> Record:
    """The record with its model file identified by its checksum, wherever the file lay."""
    model = record.config.get("model", {})
    return record._replace(config={**record.config, "model": shown(model)}) if model.get("sha256") else record


def _method(record: Record) -> str:
    """What identifies a method: its name or file with every setting, or the label of a caller's own object."""
    if not record.settings:
        return record.label
    name = record.sha256 or record.method.partition(":")[0]
    return json.dumps([name, record.settings], sort_keys=True)


def _refuse_other(one: Record, other: Record, notes: list[str]) -> None:
    """Raise BadInput if two runs of one method on one seed differ in a number; else note that one is a copy."""
    same = one.columns.keys() == other.columns.keys() and all(
        name == "outcome" or np.array_equal(one.columns[name], other.columns[name], equal_nan=True)
        for name in one.columns
    )
    if not same:
        raise BadInput(
            f"{one.folder} and {other.folder} hold the same method, settings and seed but other numbers: "
            "name one of them"
        )
    notes.append(f"{other.folder} is the same run as {one.folder}, which is used")


def differing(configs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """For every config, its values of the settings that differ between any two; the seed is left out."""
    keys = dict.fromkeys(key for config in configs for key in config if key != "seed")
    many = [key for key in keys if len({json.dumps(config.get(key)) for config in configs}) > 1]
    return [{key: config.get(key) for key in many} for config in configs]
