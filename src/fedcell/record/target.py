"""The conditions at which recorded runs stop: read them from a record, check them, and change them."""

from pathlib import Path

from ..lifting import lifted
from ..metrics import TASKS
from ..simulate import simulate
from ..types import Method, Problem, Snapshot
from ..until import LIMITS, Goal, Until, read_goals
from . import rows
from .files import explained, locked, present, write_json
from .folder import COMPARISON, RUN, Spec, specs, versioned


def until_of(spec: Spec) -> Until:
    """The stop conditions of a recorded run, ready to be checked after each round."""
    return Until(read_goals(spec.config.get("until", "")), int(spec.config.get("eval_every", 1)))


def refuse_unmeasured(until: str, problem: Problem, method: Method, first: Snapshot) -> None:
    """Refuse conditions on metrics that a run does not measure, before it begins.

    Evaluating the initial model shows most metrics of a method's own. If one is still missing, a round is simulated and
    discarded, since some columns, such as those of a decision, appear only in rounds.
    """
    goals = _special(until, problem.learner.task.name)
    known = lifted(problem, method).evaluate(problem, first.params, first.method) if goals else {}
    if unseen := [goal for goal in goals if goal.name not in known]:
        Until(unseen).after(next(simulate(problem._replace(eval_every=1), method, first))[0])


def _special(until: str, task: str) -> list[Goal]:
    """Conditions on metrics that not every run of a task has."""
    usual = (*LIMITS, *(metric.name for metric in TASKS[task]))
    return [goal for goal in read_goals(until) if goal.name not in usual]


def retarget(folder: Path, until: str) -> None:
    """Replace the stop conditions of all runs in a folder; refuse metrics that their recorded rounds lack."""
    found = specs(folder)
    if all(spec.config.get("until", "") == until for _, spec in found):
        return
    for path, spec in found:  # refuses metrics that the rounds on file do not have
        for goal in _special(until, spec.task):
            Until([goal], int(spec.config.get("eval_every", 1))).after_all(map(rows.decode, rows.read(path)[0]))
    with explained(folder, "then resume again (nothing was simulated yet)"):
        for path in dict.fromkeys([folder, *(path for path, _ in found)]):
            if path.is_dir():  # a run whose turn did not come yet has no folder
                with locked(path):
                    _write(path, until)


def _write(folder: Path, until: str) -> None:
    for name in (COMPARISON, RUN):
        if present(folder / name):
            values = versioned(folder / name)
            for one in values["runs"] if name == COMPARISON else [values]:
                one["config"]["until"] = until
            write_json(folder / name, values)
