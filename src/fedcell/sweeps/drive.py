"""Sweeps: plan them, do what is left of them, and resume them after any interruption.

`DIR/sweep.json` lists every run that was ever asked for in a folder; each run is an ordinary run folder.
"""

import shlex
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any
from warnings import warn

from .. import methods as library
from .. import options
from ..arguments import FOLDER, FUNCTION, LOGGERS, WHOLE, expect, kind_of
from ..data import Dataset
from ..data.files import file_name, save
from ..errors import BadInput, FedcellError
from ..learn.model_files import placeless
from ..loggers import LogWatcher
from ..machine import check_answers, connected, cores, require_ray
from ..metrics import CLASSIFICATION
from ..notebook import watcher
from ..record import Progress, RunInfo, Watch, silent
from ..record.drive import claim
from ..record.files import explained, locked, present
from ..record.folder import ENDED, RUN, SWEEP
from ..record.index import look
from ..resolve import with_names, with_until
from ..scenarios import Config, check_dataset
from . import local, on_file, on_ray
from .grid import SweepPlan, expand
from .task import Orders, RunEnd, SweepRun

ENGINES = ("local", "ray")
Engine = Callable[[Sequence[SweepRun], Orders, int, local.Tell], Generator[RunEnd]]  # outcomes as they come


def sweep(
    methods: str | Sequence[str] = (),
    scenarios: str | Sequence[str] = "cell",
    seeds: Sequence[int] | None = None,
    settings: Mapping[str, Any] | None = None,
    grid: Mapping[str, Sequence[Any]] | None = None,
    *,
    model: str | None = None,
    dataset: Dataset | str | None = None,
    until: str | Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    workers: int = 0,
    engine: str = "local",
    address: str | None = None,
    log: str | Sequence[str] = (),
    watch: Watch = silent,
) -> list[RunInfo]:
    """Run every method in every scenario on every seed with every combination of settings; skip what is done.

    Called again with the same folder it resumes where it stopped; called with more methods, seeds or values it adds
    them. Every run is that of `fedcell run` with the same settings, row for row, whatever the number of workers.

    Args:
        methods: texts `NAME[:key=value,...]` or paths of method files; none: those that each scenario compares.
        scenarios: presets to start from.
        seeds: seeds of every run; None: the scenario's own.
        settings: keys with one value, such as `{"rounds": 30, "fedprox.steps": 5}`.
        grid: keys with several, such as `{"world.radius_m": [200, 400], "fedprox.mu": [0.1, 1]}`: all combinations.
        model: `net.py:function`, a function in a file that builds your own network, or a built-in name.
        dataset: your own samples, which are stored in the folder of the sweep; or a text, as `data.name` has it.
        until: stop each run after the round that meets one of these, such as `{"accuracy": 0.9, "joules": 50}`. Called
            again with a higher target, runs that stopped resume to it.
        out: folder of the sweep; None: the next free one in `runs/`.
        workers: processes side by side; 0: as many as there are cores or runs. Cores are shared out among them.
        engine: who does the runs: `local`, processes on this machine, or `ray`, workers of a Ray cluster.
        address: of the Ray cluster, `host:port` or `auto`; None: `RAY_ADDRESS` if it is set, else one of its own.
        log: `tensorboard=DIR` or `mlflow=URI`.
        watch: called with a `fedcell.record.Progress` whose label is the run's folder; of fast runs not every round.

    Returns: one `fedcell.record.RunInfo` per run of the grid; `fedcell.read(info.folder)` reads its rows. A run that
    failed or diverged stops no other, see `state` and `message`.

    Raises BadInput, before anything is written, for methods and settings that do not fit.
    """
    fixed = with_until(options.mapping(settings, "settings", "{'rounds': 30}"), until)
    planned = plan(methods, scenarios, seeds, fixed, grid, out, model, dataset)
    for line in planned.notices:
        warn(line, stacklevel=2)
    told = watcher(watch)
    return carry_out(planned, workers=workers, engine=engine, address=address, log=log, watch=told)[0]


def plan(
    methods: str | Sequence[str] = (),
    scenarios: str | Sequence[str] = "cell",
    seeds: Sequence[int] | None = None,
    settings: Mapping[str, Any] | None = None,
    grid: Mapping[str, Sequence[Any]] | None = None,
    out: str | Path | None = None,
    model: str | None = None,
    dataset: Dataset | str | None = None,
) -> SweepPlan:
    """The runs of a sweep, checked; arguments as of `sweep`."""
    asked = _listed(methods, "methods")
    for method in asked:
        if not isinstance(method, str):
            raise BadInput(f"a sweep runs methods by name or file, not {kind_of(method)}: put it into a .py file")
    expect(FOLDER.or_none, out=out)
    numbers = None if seeds is None else _listed(seeds, "seeds")
    if numbers == []:
        raise BadInput("seeds is empty: give one or more, or leave it out for the scenario's own")
    if not isinstance(model, str | None):
        raise BadInput(
            f"a sweep runs models by name or file, not {kind_of(model)}: write a function that builds it into "
            "a .py file and give model='net.py:function'"
        )
    presets = _listed(scenarios, "scenarios")
    if not presets:
        raise BadInput("scenarios is empty: give one or more, or leave it out for cell")
    values = options.mapping(grid, "grid", "{'world.radius_m': [200, 400]}")
    folder, own = None if out is None else Path(out), None if isinstance(dataset, str) else dataset
    if own is not None:
        check_dataset(own)
        folder = folder or next_free()
        dataset = str(folder.resolve() / file_name(own))
    fixed = with_names(options.mapping(settings, "settings", "{'rounds': 30}"), model, dataset)
    if own is not None and own.task != CLASSIFICATION and "data.task" not in values:
        fixed.setdefault("data.task", own.task)  # which numbers alone do not tell
    return SweepPlan(folder, *expand(asked, presets, numbers, fixed, values), own)


def _listed(value: Any, name: str) -> list[Any]:
    """A list of what a caller gave, one or several."""
    found = [value] if isinstance(value, str) or not isinstance(value, Iterable) else list(value)
    if None in found:
        raise BadInput(f"{name} is {value!r}: give one or more, or leave it out")
    return found


def going_on(folder: str | Path, until: str | None = None) -> SweepPlan:
    """A plan of every run that was ever asked for in the folder of a sweep; `until` replaces their stop conditions."""
    folder = Path(folder)
    if not present(folder / SWEEP):
        raise BadInput(f"{folder} is no folder of a sweep (it has no {SWEEP}): name one that `fedcell sweep` printed")
    tasks = tuple(on_file.read(folder).values())
    if not tasks:
        raise on_file.damaged(folder / SWEEP, "it names no runs")
    if until is not None:
        tasks = tuple(task._replace(config={**task.config, "until": until}) for task in tasks)
    return SweepPlan(folder, tasks)


def carry_out(
    plan: SweepPlan,
    *,
    workers: int = 0,
    engine: str = "local",
    address: str | None = None,
    log: str | Sequence[str] = (),
    watch: Watch = silent,
    checkpoint_s: float = 10.0,
) -> tuple[list[RunInfo], int]:
    """Do what is left of a plan.

    Returns: the runs of the plan, and the exit code: 1 or 2 when runs failed, 3 when some diverged, else 0.
    """
    expect(FUNCTION, watch=watch)
    expect(LOGGERS, log=log)
    expect(WHOLE, workers=workers)
    chosen = _engine(engine, address)
    cores()  # refuses a FEDCELL_CORES that is no number
    if workers < 0:
        raise BadInput(f"{workers} workers are too few: give 1 or more, or 0 for as many as there are cores")
    texts = (log,) if isinstance(log, str) else tuple(log)
    LogWatcher.check(texts)
    on_file.refuse_foreign(plan.folder)
    _compare(plan, states(plan))
    folder = plan.folder or claim(None, "sweep")
    plan = plan._replace(folder=folder)
    with explained(folder, "or choose another folder with --out (nothing was written)"):
        folder.mkdir(parents=True, exist_ok=True)
    with locked(folder):
        with explained(folder, "then start again (nothing was simulated yet)"):
            known = on_file.read(folder) if present(folder / SWEEP) else {}
            every = known | {task.name: task for task in plan.tasks}  # runs that wait are done as asked for last
            if plan.dataset is not None:
                save(plan.dataset, folder / file_name(plan.dataset))
            if every != known:
                on_file.write(folder, list(every.values()))
        before = states(plan)
        left = [task for task, info in zip(plan.tasks, before, strict=True) if not _done(task, info)]
        orders = Orders(str(folder), checkpoint_s, texts)
        _skip(plan, before, orders, watch)
        outcomes = _play(left, orders, workers, chosen, watch)
    infos = [_final(info, outcomes.get(task.name)) for task, info in zip(plan.tasks, states(plan), strict=True)]
    return infos, _exit_code(infos, outcomes)


def _done(task: SweepRun, info: RunInfo) -> bool:
    """Whether a run needs no more work; False for one that stopped early at other conditions."""
    early = info.state == "finished" and info.rounds < info.total_rounds
    return info.state in ENDED and not (early and info.config.get("until", "") != task.config.get("until", ""))


def states(plan: SweepPlan) -> list[RunInfo]:
    """How far every run of a plan is."""
    place, found = place_of(plan), []
    for task in plan.tasks:
        path = place / task.name
        asked = {"label": task.label, "method": task.method, "settings": task.settings, "config": task.config}
        found.append(look(path, None if present(path / RUN) else asked))
    return found


def place_of(plan: SweepPlan) -> Path:
    """The folder of a plan, or the one that it would get now."""
    return plan.folder or next_free()


def next_free() -> Path:
    """The next folder of a sweep in `runs/` that is not there yet."""
    names = (Path("runs") / f"sweep-{number}" for number in count(1))
    return next(path for path in names if not path.exists())


def how_to_go_on(folder: Path) -> str:
    """The command that resumes a sweep."""
    return f"fedcell sweep --resume {shlex.quote(str(folder))}"


def _engine(name: str, address: str | None) -> Engine:
    """The engine of that name; raise BadInput if it is unknown or cannot work here."""
    if name not in ENGINES:
        raise BadInput(f"unknown engine {name!r}: choose one of {', '.join(ENGINES)}")
    if name == "ray":
        require_ray("--engine ray")
        if not connected():
            check_answers(address)
        return partial(on_ray.run, address=address)
    if address:
        raise BadInput(f"--address {address} is that of a Ray cluster: add --engine ray, or drop it")
    return local.run


def _play(tasks: Sequence[SweepRun], orders: Orders, workers: int, engine: Engine, watch: Watch) -> dict[str, RunEnd]:
    again = how_to_go_on(Path(orders.folder))
    if not tasks:
        return {}

    def tell(task: SweepRun, progress: Progress) -> None:
        watch(progress._replace(label=task.name, again=again))

    watch(Progress("sweep", 0, 0, again=again))
    found: dict[str, RunEnd] = {}
    with closing(engine(tasks, orders, workers, tell)) as outcomes:
        for outcome in outcomes:
            found[outcome.task.name] = outcome
            if outcome.code:
                rounds = outcome.task.rounds
                watch(Progress(outcome.task.name, 0, rounds, "failed", note=outcome.message, again=again))
    return found


def _skip(plan: SweepPlan, before: Sequence[RunInfo], orders: Orders, watch: Watch) -> None:
    """Report how many runs are done already, and pass their rows to the loggers."""
    done = [_done(task, info) for task, info in zip(plan.tasks, before, strict=True)]
    counts = Counter(info.state for info, over in zip(before, done, strict=True) if over)
    if not counts:
        return
    words = " and ".join(f"{counts[state]} {state}" for state in ENDED if counts[state])
    watch(Progress("sweep", 0, 0, note=f"{counts.total()} of {len(before)} runs are skipped: {words} before"))
    with LogWatcher(orders.log, watch, base=Path(orders.folder)) as told:
        for task, info, over in zip(plan.tasks, before, done, strict=True):
            if over:
                told(Progress(task.name, info.rounds, info.total_rounds, info.state, folder=info.folder))


def _final(info: RunInfo, outcome: RunEnd | None) -> RunInfo:
    """Mark a run as failed, with the engine's message, if it failed before it had a record."""
    failed = outcome is not None and outcome.code and info.state == "waiting"
    return info._replace(state="failed", message=outcome.message) if outcome and failed else info


def _exit_code(infos: Sequence[RunInfo], outcomes: Mapping[str, RunEnd]) -> int:
    codes = {outcome.code for outcome in outcomes.values()} - {0}
    if codes:
        return 2 if codes == {2} else 1
    return 3 if any(info.state == "diverged" for info in infos) else 0


def _compare(plan: SweepPlan, infos: Sequence[RunInfo]) -> None:
    """Refuse a folder whose runs were asked for something else under the same name.

    A setting that a run does not have on file came later: it counts as its default.
    """
    for task, info in zip(plan.tasks, infos, strict=True):
        if info.state in ("damaged", "waiting"):
            continue
        try:
            was, now = (options.from_dict(Config(), one.config) for one in (info, task))
            was, now = (replace(one, model=placeless(one.model)) for one in (was, now))
            changed = [one for one in options.differences(was, now) if one[0] != "until"]
            if own := _own_settings(task):
                was = options.from_dict(type(own)(), info.settings)
                changed += options.differences(was, own, f"{Path(task.source).stem}.")
        except BadInput as error:
            raise FedcellError(f"{info.folder} was made by another fedcell ({error}): choose another folder") from None
        if changed:
            key, before, after = changed[0]
            raise BadInput(
                f"{info.folder} holds a run with {key} = {before} and not {after}, because a preset changed since: "
                "choose another folder"
            )


def _own_settings(task: SweepRun) -> Any:
    """The settings of a task's method; None if its file is gone or refuses them, which the run itself will report."""
    try:
        return options.from_dict(library.load(task.source).Config(), task.settings)
    except BadInput:
        return None
