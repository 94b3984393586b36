"""`fedcell run` from Python, also with your own model, data and methods."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from warnings import warn

from torch import nn

from .arguments import FOLDER, FUNCTION, LOGGERS, SCENARIO, SECONDS, expect, kind_of
from .data import Dataset
from .errors import BadInput
from .loggers import LogWatcher
from .notebook import watcher
from .options import mapping
from .record import Failed, Period, Record, Watch, execute, silent
from .record.prepare import prepare
from .resolve import Resolved, resolve, with_names, with_until
from .scenarios import get
from .simulate import simulate
from .types import Method


def run(
    methods: str | Sequence[str | tuple[str, Method]] = (),
    scenario: str = "cell",
    settings: Mapping[str, Any] | None = None,
    *,
    dataset: Dataset | str | None = None,
    model: nn.Module | str | None = None,
    out: str | Path | None = None,
    until: str | Mapping[str, Any] | None = None,
    log: str | Sequence[str] = (),
    watch: Watch = silent,
    say: Callable[[str], None] | None = None,
    checkpoint_s: float = 10.0,
    failed: Failed | None = None,
) -> list[Record]:
    """Compare methods in one world on one seed, and record every round.

    Args:
        methods: texts `NAME[:key=value,...]`, paths of method files, or pairs of a label and a `Method`; or one text;
            empty: the methods that the scenario compares.
        scenario: the preset to start from (`fedcell list scenarios`).
        settings: dotted keys to change, such as `{"rounds": 30, "world.n_devices": 50, "fedprox.mu": 0.5}`
            (`fedcell list keys`).
        dataset: your own samples, see `fedcell.from_arrays`; or a text for `data.name`.
        model: your own network, whose present weights are the start; or `net.py:function`, a function in a file that
            builds one, which resumes, sweeps and deploys without Python.
        out: folder to make; None: the next free one in `runs/`.
        until: stop each run after the round that meets one of these conditions: a metric, or what may be spent, such as
            `{"accuracy": 0.9, "joules": 50}`; the same as `settings["until"]`.
        log: `tensorboard=DIR` or `mlflow=URI_OR_DIR`, or several of them.
        watch: called after every round with a `fedcell.record.Progress`; without one, Jupyter shows bars.
        say: called with a message for every setting that changes nothing; None: warns.
        checkpoint_s: wall time between checkpoints.
        failed: called with the label and the exception of every run that failed; None: the first such exception is
            raised, once the other methods have run. Either way its traceback is in the folder of the run.

    Returns:
        One record per method; `fedcell.report.text(records)` is the table, `fedcell.report.save(records, path)`
        the figure.

    Raises BadInput, before anything is written, for settings, data, models or methods that do not fit.
    """
    expect(FOLDER.or_none, out=out)
    expect(FUNCTION, watch=watch)
    expect(FUNCTION.or_none, say=say, failed=failed)
    expect(SECONDS, checkpoint_s=checkpoint_s)
    expect(LOGGERS, log=log)
    network = None if isinstance(model, str) else model
    samples = None if isinstance(dataset, str) else dataset
    found = _resolved(methods, scenario, with_until(_settings(settings), until), dataset, model)
    for line in found.notices:
        (say or partial(warn, stacklevel=2))(line)
    with LogWatcher([log] if isinstance(log, str) else log, watcher(watch)) as told:
        period = Period(seconds=checkpoint_s)
        more: dict[str, Any] = {"dataset": samples, "model": network, "watch": told, "period": period, "failed": failed}
        return execute(found.config, found.methods, out, **more)


def explain_engine(
    methods: str | Sequence[str | tuple[str, Method]] = (),
    scenario: str = "cell",
    settings: Mapping[str, Any] | None = None,
    *,
    dataset: Dataset | str | None = None,
    model: nn.Module | str | None = None,
) -> dict[str, list[str]]:
    """Tell which engine trains the network, and why it fell back to autograd if it did.

    Play one round of each method and record nothing. Arguments are those of `run`.

    Returns:
        By the label of each method, one sentence for every way in which its devices were trained.
    """
    network = None if isinstance(model, str) else model
    samples = None if isinstance(dataset, str) else dataset
    found = _resolved(methods, scenario, _settings(settings), dataset, model)
    problem, runs = prepare(found.config, found.methods, samples, network)
    told: dict[str, list[str]] = {}
    for one in runs:
        problem.learner.trained_by.clear()
        next(simulate(problem, one.method))
        told[one.spec.label] = [*problem.learner.trained_by] or ["no device was trained in the first round"]
    return told


def _settings(settings: Mapping[str, Any] | None) -> Mapping[str, Any]:
    return mapping(settings, "settings", "{'rounds': 30}")


def _resolved(methods: Any, scenario: str, changes: Mapping[str, Any], dataset: Any, model: Any) -> Resolved:
    expect(SCENARIO, scenario=scenario)
    if isinstance(methods, Mapping | bytes):
        raise BadInput(f"methods is {kind_of(methods)}: give a text such as 'fedavg', or a list of them")
    preset = get(scenario)
    one = isinstance(methods, str | Method) or not isinstance(methods, Iterable)  # a Method is a tuple of functions
    asked: list[Any] = [methods] if one else list(methods)
    samples = None if isinstance(dataset, str) else dataset
    return resolve(preset, asked or preset.compare, with_names(changes, model, dataset), samples)
