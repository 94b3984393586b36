"""The search: trials in batches, each a sweep over seeds that stops at the target or when it costs too much.

The sampler is seeded and gets the cost of every trial in order, so that the same request asks for the same trials. A
search that was interrupted is therefore resumed by asking again: runs that ended are read, the others are done.
"""

from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .. import scenarios
from ..arguments import FOLDER, SCENARIO, TEXT, WHOLE, WHOLES, expect
from ..errors import BadInput, FedcellError
from ..options import mapping, written
from ..record import RunInfo, Watch, read, silent
from ..record.files import explained, locked, occupied, plain, present, read_json, write_json
from ..record.totals import joules
from ..sweeps import carry_out, plan
from ..until import LIMITS, Goal, falls, reached, read_goals, written_goals
from .space import Knob, read_space

if TYPE_CHECKING:  # an extra
    from optuna import Study

TUNE, RUNS, FORMAT = "tune.json", "runs", 1
COSTS = ("seconds", "joules", "bits", "rounds")
PATIENCE = 1.5  # a run that has spent so many times the least cost found is stopped
MISSED = 1e30  # stands for the cost of a trial that misses the target: the sampler looks at ranks alone
NAMED = ("method", "scenario", "until", "cost", "search", "settings", "seeds", "batch", "seed")


class Tried(NamedTuple):
    """One trial."""

    settings: Mapping[str, str]  # what was searched
    cost: float  # mean over seeds; inf if a run did not reach the target
    reached: int  # seeds that did
    best: float  # best value of the metric, mean over seeds


class Tuning(NamedTuple):
    """What a search found."""

    folder: Path
    goal: Goal
    cost: str  # of COSTS
    preset: Tried  # the scenario's own settings
    trials: tuple[Tried, ...]  # in their order, without the preset

    @property
    def best(self) -> Tried:
        """The cheapest of all, the preset included."""
        return min((self.preset, *self.trials), key=lambda one: one.cost)


class TuneRequest(NamedTuple):
    """What a search was asked for; all but the number of trials is fixed by its folder."""

    method: str
    scenario: str
    until: str
    cost: str
    search: Mapping[str, Any]
    settings: Mapping[str, Any]
    seeds: tuple[int, ...]
    batch: int
    seed: int
    trials: int


def tune(
    method: str,
    scenario: str = "cell",
    *,
    until: str | Mapping[str, Any],
    search: Mapping[str, Any],
    cost: str = "seconds",
    settings: Mapping[str, Any] | None = None,
    seeds: Sequence[int] = (1,),
    trials: int = 20,
    batch: int = 4,
    seed: int = 1,
    out: str | Path,
    workers: int = 0,
    engine: str = "local",
    address: str | None = None,
    watch: Watch = silent,
    say: Callable[[str], None] = lambda line: None,
) -> Tuning:
    """Search settings for the least mean cost to a target over seeds. Needs the extra `tune` (Optuna).

    Args:
        method: text `NAME[:key=value,...]` or the path of a method file.
        scenario: the preset to start from.
        until: one target, such as `{"accuracy": 0.9}`.
        search: ranges by dotted key, such as `{"train.lr": "0.01~1", "train.steps": "1..20"}`, or lists of values.
        cost: what to minimise: seconds, joules, bits or rounds.
        settings: keys with one value.
        seeds: worlds that every trial is run on.
        trials: settings to try beside the preset's own.
        batch: trials that are asked for at once and run side by side.
        seed: of the sampler.
        out: folder of the search, new or to resume; asked again with more trials it adds them.
        workers: processes side by side, as of `fedcell.sweep`.
        engine: `local` or `ray`.
        address: of the Ray cluster.
        watch: called with the progress of every run.
        say: called with a message after every batch.
    """
    require_optuna()
    expect(TEXT, method=method)
    expect(SCENARIO, scenario=scenario)
    expect(WHOLES, seeds=seeds)
    expect(WHOLE, trials=trials, batch=batch, seed=seed)
    expect(FOLDER, out=out)
    goal, ranges = _goal(until), mapping(search, "search", "{'train.lr': '0.01~1'}")
    fixed = mapping(settings, "settings", "{'rounds': 30}")
    request = TuneRequest(
        method,
        scenario,
        str(goal),
        cost,
        {key: _kept(value) for key, value in ranges.items()},
        {key: _kept(value) for key, value in fixed.items()},
        tuple(map(int, seeds)),
        int(batch),
        int(seed),
        int(trials),
    )
    _check(request)
    knobs = read_space(request.search, method, scenarios.get(scenario), request.settings)
    folder = Path(out)
    with explained(folder, "or choose another folder (nothing was written)"):
        folder.mkdir(parents=True, exist_ok=True)
    with locked(folder):
        _remember(folder, request)

        def run(points: Sequence[Mapping[str, str]], limit: float) -> list[Tried]:
            return _run(request, goal, folder / RUNS, points, limit, workers, engine, address, watch)

        return _search(request, goal, knobs, folder, run, say)


def resume(folder: str | Path, **given: Any) -> Tuning:
    """Continue the search of a folder; `trials`, if given, is the new number of them."""
    request = on_file(Path(folder))
    return tune(
        **{**request._asdict(), **{key: value for key, value in given.items() if value is not None}}, out=folder
    )


def require_optuna() -> None:
    """Refuse to search if Optuna is not installed."""
    if find_spec("optuna") is None:
        raise BadInput("fedcell tune needs Optuna: pip install 'fedcell[tune]'")


def _goal(until: str | Mapping[str, Any]) -> Goal:
    goals = [goal for goal in read_goals(written_goals(until)) if goal.name not in LIMITS]
    if len(goals) != 1 or len(read_goals(written_goals(until))) != 1:
        raise BadInput(f"until = {until!r} is not one target: give one metric, such as accuracy=0.9")
    return goals[0]


def _check(request: TuneRequest) -> None:
    if request.cost not in COSTS:
        raise BadInput(f"cost = {request.cost!r} is unknown: choose one of {', '.join(COSTS)}")
    for name in ("trials", "batch"):
        if getattr(request, name) < 1:
            raise BadInput(f"{name} = {getattr(request, name)} is too few: give 1 or more")
    if not request.seeds:
        raise BadInput("seeds is empty: give one or more")
    if "until" in request.settings:
        raise BadInput("until is the target of the search: give it once, not among the settings")


# ---------------------------------------------------------------- trials


Run = Callable[[Sequence[Mapping[str, str]], float], list[Tried]]


def _search(
    request: TuneRequest, goal: Goal, knobs: Sequence[Knob], folder: Path, run: Run, say: Callable[[str], None]
) -> Tuning:
    """Ask, run and tell, batch by batch."""
    study = _study(request.seed)
    (preset,) = run([{}], inf)
    _tell_preset(study, knobs, preset)
    found = Tuning(folder, goal, request.cost, preset, ())
    while len(found.trials) < request.trials:
        asked = [study.ask() for _ in range(request.batch)]  # whole batches, so that more trials change none before
        points = [{knob.key: knob.draw(trial) for knob in knobs} for trial in asked]
        tried = run(points, PATIENCE * found.best.cost)
        for trial, one in zip(asked, tried, strict=True):
            study.tell(trial, _value(goal, one))
        found = found._replace(trials=(*found.trials, *tried)[: request.trials])
        say(f"{len(found.trials)} of {request.trials} trials: the least is {found.best.cost:.6g} {request.cost}")
    return found


def _study(seed: int) -> "Study":
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed, n_startup_trials=6))


def _tell_preset(study: "Study", knobs: Sequence[Knob], preset: Tried) -> None:
    """Let the sampler know the preset's own settings if it could draw them."""
    from optuna.trial import create_trial

    if preset.cost < inf and all(knob.holds(knob.preset) for knob in knobs):
        values = {knob.key: written(knob.preset) if knob.kind == "choice" else knob.preset for knob in knobs}
        laws = {knob.key: knob.distribution() for knob in knobs}
        study.add_trial(create_trial(params=values, distributions=laws, value=preset.cost))


def _value(goal: Goal, one: Tried) -> float:
    """What the sampler minimises: the cost, or how far a trial stayed below the target."""
    if one.cost < inf:
        return one.cost
    gap = one.best - goal.value if falls(goal.name) else goal.value - one.best
    return MISSED * (1.0 + max(gap, 0.0)) if np.isfinite(gap) else 2 * MISSED


def _run(
    request: TuneRequest,
    goal: Goal,
    folder: Path,
    points: Sequence[Mapping[str, str]],
    limit: float,
    workers: int,
    engine: str,
    address: str | None,
    watch: Watch,
) -> list[Tried]:
    """Run every point on every seed, side by side."""
    until = str(goal)
    if limit < inf and request.cost in LIMITS:
        until += f",{Goal(request.cost, limit)}"
    plans = [
        plan(
            [request.method], request.scenario, request.seeds, {**request.settings, **point, "until": until}, {}, folder
        )
        for point in points
    ]
    together = {task.name: task for one in plans for task in one.tasks}
    joined = plans[0]._replace(tasks=tuple(together.values()))
    infos, _ = carry_out(joined, workers=workers, engine=engine, address=address, watch=watch)
    by_name = {task.name: info for task, info in zip(joined.tasks, infos, strict=True)}
    return [
        _tried(point, [by_name[task.name] for task in one.tasks], goal, request.cost)
        for point, one in zip(points, plans, strict=True)
    ]


def _tried(point: Mapping[str, str], infos: Sequence[RunInfo], goal: Goal, cost: str) -> Tried:
    for info in infos:
        if info.state not in ("finished", "diverged"):
            raise FedcellError(f"{info.folder} {info.state}: {info.message or 'see its folder'}")
    costs, best = zip(*(cost_to(info.folder, goal, cost) for info in infos), strict=True)
    return Tried(dict(point), float(np.mean(costs)), sum(one < inf for one in costs), float(np.mean(best)))


def cost_to(folder: Path, goal: Goal, cost: str) -> tuple[float, float]:
    """What a recorded run spent until it reached a target (inf: it did not), and the best value of the metric."""
    columns = read(folder).columns
    values = columns.get(goal.name, np.empty(0))
    there = np.flatnonzero(np.isfinite(values))
    if not len(there):
        return inf, float("nan")
    best = values[there].min() if falls(goal.name) else values[there].max()
    spent = {
        "seconds": columns["clock_s"],
        "joules": joules(columns),
        "bits": np.cumsum(columns["uplink_bit"]),
        "rounds": columns["round"] + 1.0,
    }[cost]
    first = next((at for at in there if reached(goal, float(values[at]))), None)
    return (inf if first is None else float(spent[first])), float(best)


# ---------------------------------------------------------------- on file


def on_file(folder: Path) -> TuneRequest:
    """Read what the search of a folder was asked for."""
    if not present(folder / TUNE):
        raise BadInput(f"{folder} is no folder of a search (it has no {TUNE}): name one that `fedcell tune` made")
    values = read_json(folder / TUNE)
    if not isinstance(values, dict) or values.get("format") != FORMAT:
        raise FedcellError(f"{folder / TUNE} has another format: use the fedcell that wrote it")
    try:
        request = {name: values["request"][name] for name in TuneRequest._fields}
    except (KeyError, TypeError):
        raise FedcellError(f"{folder / TUNE} is damaged: restore it, or start a new search") from None
    return TuneRequest(**{**request, "seeds": tuple(request["seeds"])})


def _kept(value: Any) -> Any:
    """A value as JSON gives it back, so that the same search asked again is equal to that of its folder.

    >>> _kept((0.01, np.float64(1.0), inf)), _kept(np.int64(3)), _kept(Path("a.csv"))
    ([0.01, 1.0, 'inf'], 3, 'a.csv')
    """
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_kept(one) for one in value]
    return plain(value) if value is None or isinstance(value, bool | int | float | Mapping) else written(value)


def _remember(folder: Path, request: TuneRequest) -> None:
    """Write what is searched; refuse a folder of another search."""
    if present(folder / TUNE):
        before = on_file(folder)
        for name in NAMED:
            was, now = getattr(before, name), getattr(request, name)
            if was != now:
                raise BadInput(f"{folder} searches with {name} = {was!r} and not {now!r}: choose another folder")
    elif occupied(folder):
        raise BadInput(f"{folder} is not empty and no folder of a search: choose another folder")
    with explained(folder, "then start again (nothing was simulated yet)"):
        write_json(folder / TUNE, {"format": FORMAT, "request": request._asdict()})
