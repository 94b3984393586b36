"""A network as one of its cells sees it, and the way back: what cells decide and train, put together again.

In a view the devices of the cell are numbered from 0, there is one base station, and everything that has a device
axis holds the cell's rows alone, so that a method written for one server runs in it unchanged. Mini-batches keep the
device's real number, and a model is evaluated once for all cells.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..errors import ContractError
from ..learn.learner import Learner
from ..learn.work import Work
from ..radio.contract import DTYPES
from ..tables import File
from ..types import Decision, Floats, Ints, Observation, Problem, Round, Start, Store, Topology, Updates, World

Evaluations = list[tuple[tuple[Any, ...], dict[str, float]]]  # what was asked, what was found


class Cell(NamedTuple):
    """One cell that has devices."""

    number: int
    device: Ints  # [n], the real numbers of its devices, ascending
    problem: Problem  # as the cell sees it


class CellLearner(Learner):
    """The network's learner with devices numbered as in a cell; cells share the evaluation of one model."""

    def __init__(self, whole: Learner, device: Ints, evaluations: Evaluations) -> None:
        self.__dict__.update(whole.__dict__)
        self._real, self._evaluations, self._others = device, evaluations, {}
        self._whole_test = whole.test_samples
        if (owner := whole.test_samples.owner) is not None:  # own models: the owners in other cells are nobody
            self.test_samples = copy(whole.test_samples)
            self.test_samples.owner = np.where(np.isin(owner, device), np.searchsorted(device, owner), -1)

    def train(self, start: Start, work: Work) -> Updates:
        updates = super().train(start, work._replace(device=self._real[work.device]))
        return updates._replace(device=work.device)

    def kinds(self, device: Ints) -> Ints:
        return super().kinds(self._real[device])

    def _numbered(self, device: Ints) -> Ints:
        return np.searchsorted(self._real, device)

    def evaluate(self, params: Tensor, *which: Any, **named: Any) -> dict[str, float]:
        if self.judged is None and not which and not named:
            which = (self._whole_test,)  # with the owners of all cells, since all share the result
        asked = (self.judged, params, *which, *named.values())
        for before, found in self._evaluations:
            if len(before) == len(asked) and all(map(_same, before, asked)):
                return dict(found)
        self._evaluations[:] = [(asked, super().evaluate(params, *which, **named))]  # the last alone: models are large
        return dict(self._evaluations[0][1])


def _same(one: Any, other: Any) -> bool:
    """Whether two values are one object, or tensors in the same memory, which holds as long as one of them is kept."""
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        return one.data_ptr() == other.data_ptr() and one.shape == other.shape
    return one is other


# ---------------------------------------------------------------- from the network to a cell


def cells_of(problem: Problem) -> list[Cell]:
    """The cells that have devices, in order."""
    found, evaluations = [], Evaluations()
    for number in range(problem.world.n_cells):
        device = np.flatnonzero(problem.world.topology.cell == number)
        if len(device):
            view = problem._replace(
                world=_world(problem.world, number, device, problem.seed),
                learner=CellLearner(problem.learner, device, evaluations),
                seed=cell_seed(problem.seed, number),
            )
            found.append(Cell(number, device, view))
    return found


def cell_seed(seed: int, number: int) -> int:
    """The seed of a cell's own draws: that of the run in the first cell, another in every other."""
    return seed if number == 0 else int(np.random.SeedSequence([seed, number]).generate_state(1, np.uint64)[0])


def observed(cell: Cell, observation: Observation) -> Observation:
    """What a cell sees of a round."""
    at, seconds = cell.device, observation.response_s
    return observation._replace(
        gain=observation.gain[at],
        mean_gain=observation.mean_gain[at],
        available=observation.available[at],
        response_s=None if seconds is None else seconds[at],
        devices=observation.devices.some(at),
        topology=_topology(observation.topology, cell.number, at),
        store=_part(observation.store, at),
        battery_joule=observation.battery_joule[at],
        interference_watt=observation.interference_watt
        if observation.interference_watt.ndim == 1
        else observation.interference_watt[at],
        gains=None,  # a cell knows what is foreseen, and not what others decide
    )


def decided(cell: Cell, decision: Decision) -> Decision:
    """A cell's part of a decision."""
    mask = decision.mask
    if mask is not None and mask.dim() == 2:
        mask = mask[_rows(np.flatnonzero(decision.selected), cell)]
    down = decision.download_bit
    return decision._replace(
        mask=mask,
        download_bit=None if down is None else down[cell.device],
        **{name: getattr(decision, name)[cell.device] for name in DTYPES},
    )


def played(cell: Cell, whole: Round) -> Round:
    """A cell's part of a round."""
    return Round(
        observed(cell, whole.observation),
        decided(cell, whole.decision),
        trained(cell, whole.updates),
        whole.uplink.some(cell.device),
    )


def trained(cell: Cell, updates: Updates) -> Updates:
    """A cell's part of the updates; rows are views into the network's."""
    rows = _rows(updates.device, cell)
    device = np.searchsorted(cell.device, updates.device[rows])
    beside = updates.kept, updates.bit, updates.tail
    part = (
        updates.rows.some(rows) if hasattr(updates.rows, "some") else updates.delta[rows]
    )  # sums have no rows to view
    return Updates(device, part, *each(lambda part: part[rows], beside))


def _world(world: World, number: int, device: Ints, seed: int) -> World:
    settings, law = world.settings, world.stream.law

    def start(_: int) -> tuple[Store, Any]:
        """The first stores of the cell's devices: those of the run, whatever seed the cell draws by."""
        store, memory = world.stream.start(seed)
        return _part(store, device), memory

    fast = int((device < settings.n_fast).sum())
    return world._replace(
        settings=replace(
            settings,
            n_devices=len(device),
            n_cells=1,
            devices_per_cell=(),
            n_fast=fast,
            device_table=File(""),
            interference="redraw" if settings.interference == "redraw" else "static",
        ),
        devices=world.devices.some(device),
        topology=_topology(world.topology, number, device),
        stream=world.stream._replace(start=start, law=None if law is None else _part(law, device)),
    )


def _topology(places: Topology, number: int, device: Ints) -> Topology:
    station = places.station_m[number : number + 1]
    return Topology(station, places.position_m[device], np.zeros_like(device), places.distance_m[device])


def _part(bundle: Any, device: Ints) -> Any:
    """Some devices of a NamedTuple whose arrays all lead with the device axis."""
    return type(bundle)(*(part[device] for part in bundle))


def _rows(device: Ints, cell: Cell) -> slice | Ints:
    """Where the devices of a cell stand in a list of devices; a slice, which copies nothing, if that is all of them."""
    rows = np.flatnonzero(np.isin(device, cell.device))
    together = len(rows) > 0 and rows[-1] - rows[0] + 1 == len(rows)
    return slice(int(rows[0]), int(rows[-1]) + 1) if together else rows


# ---------------------------------------------------------------- from the cells to the network


def merged_decision(cells: Sequence[Cell], decisions: Sequence[Decision]) -> Decision:
    """One decision for the network; a round lasts as long as its longest cell says, columns are means over cells."""
    order = np.argsort(np.concatenate([cell.device for cell in cells]))
    arrays = {name: np.concatenate([getattr(part, name) for part in decisions])[order] for name in DTYPES}
    fixed_s = [part.round_s for part in decisions if part.round_s is not None]
    return Decision(
        **arrays,
        deadline_s=_common("deadline_s", decisions),
        round_s=max(fixed_s, default=None),
        mask=_merged_mask(cells, decisions),
        info=averaged(part.info for part in decisions),
        budget_joule=_common("budget_joule", decisions),
        download_bit=_merged_download(decisions, order),
    )


def _merged_download(decisions: Sequence[Decision], order: Ints) -> Floats | None:
    """Bits that devices are sent if every cell names them; None, which is the whole model, if any cell names none."""
    found = [part.download_bit for part in decisions]
    if any(part is None for part in found):
        return None
    return np.concatenate([part for part in found if part is not None])[order]


def merged_start(cells: Sequence[Cell], parts: Sequence[Start], decision: Decision) -> Start:
    """Join the starts of all cells: all points, and which of them each selected device of the network starts from."""
    first = np.cumsum([0, *(len(part.points) for part in parts)])
    of_row = np.concatenate([part.of_row + before for part, before in zip(parts, first[:-1], strict=True)])
    order = np.argsort(np.concatenate([cell.device[decision.selected[cell.device]] for cell in cells]))
    own = None
    if parts[0].own is not None:
        own = torch.cat([part.own for part in parts if part.own is not None])[torch.from_numpy(order)]
    return Start(torch.cat([part.points for part in parts]), of_row[order], own)


def merged_updates(cells: Sequence[Cell], parts: Sequence[Updates]) -> Updates:
    """One table of updates, in the order of the real device numbers."""
    if len(parts) == 1:
        return parts[0]._replace(device=cells[0].device[parts[0].device], rows=parts[0].delta)
    device = np.concatenate([cell.device[part.device] for cell, part in zip(cells, parts, strict=True)])
    order = np.argsort(device)

    def together(*some: Any) -> Any:
        if isinstance(some[0], Tensor):
            return torch.cat(some)[torch.from_numpy(order)]
        return np.concatenate(some)[order]

    rows = together(*(part.delta for part in parts))
    return Updates(device[order], rows, *each(together, *((part.kept, part.bit, part.tail) for part in parts)))


def each(function: Callable[..., Any], *trees: Any) -> Any:
    """Apply a function to the leaves of trees of one shape: a tree of its results, in which None stays None.

    >>> each(lambda a, b: a + b, {"x": (np.array([1]), None)}, {"x": (np.array([2]), None)})
    {'x': (array([3]), None)}
    """
    first = trees[0]
    if first is None or isinstance(first, Tensor | np.ndarray):
        return None if first is None else function(*trees)
    if isinstance(first, dict):
        return {key: each(function, *(tree[key] for tree in trees)) for key in first}
    if not isinstance(first, tuple | list):
        what = f"kept holds a {type(first).__name__}"
        raise ContractError(f"{what}: keep tensors, arrays, and tuples, NamedTuples, lists or dicts of them")
    parts = [each(function, *some) for some in zip(*trees, strict=True)]
    return type(first)(*parts) if hasattr(first, "_fields") else type(first)(parts)


def averaged(columns: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """The mean of every column over the cells that have it.

    >>> averaged([{"a": 1.0, "b": 2.0}, {"a": 4.0}])
    {'a': 2.5, 'b': 2.0}
    """
    values: dict[str, list[float]] = {}
    for found in columns:
        for name, value in found.items():
            values.setdefault(name, []).append(value)
    return {name: some[0] if len(set(some)) == 1 else float(np.mean(some)) for name, some in values.items()}


def _common(name: str, decisions: Sequence[Decision]) -> Any:
    """The value that all cells decided; raises ContractError if they differ."""
    values = {getattr(part, name) for part in decisions}
    if len(values) > 1:
        one, other, *_ = sorted(map(str, values))
        raise ContractError(f"{name} is {one} in one cell and {other} in another: return the same from decide() in all")
    return values.pop()


def _merged_mask(cells: Sequence[Cell], decisions: Sequence[Decision]) -> Tensor | None:
    """One row per selected device of the network if any cell masks anything."""
    given = next((part.mask for part in decisions if part.mask is not None), None)
    if given is None:
        return None
    rows = []
    for part in decisions:
        mask = given.new_ones(given.shape[-1]) if part.mask is None else part.mask
        rows.append(mask if mask.dim() == 2 else mask.expand(int(part.selected.sum()), -1))
    device = np.concatenate([cell.device[part.selected] for cell, part in zip(cells, decisions, strict=True)])
    return torch.cat(rows)[torch.from_numpy(np.argsort(device))]
