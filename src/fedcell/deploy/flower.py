"""A fedcell method in a Flower federation: the server's side.

`server_app()` is a Flower ServerApp that reads everything from its run configuration. `run(grid, ...)` is the same for
a ServerApp of one's own. The record is that of a simulated run, so `fedcell show`, `compare`, `report` and `dashboard`
read it; killed at any instant, the same command goes on from the last round.
"""

from functools import partial
from pathlib import Path

import numpy as np
from flwr.app import Context
from flwr.serverapp import Grid, ServerApp
from torch import nn

from .. import methods
from ..data import Dataset
from ..errors import BadInput
from ..methods import Choice, knowledge
from ..methods.knowledge_means import knowledge_width
from ..record.drive import Progress, Watch, run_real
from ..simulate import begin
from ..types import Method, Outcome, Problem, Round
from ..world import observe
from . import settings as asked_for
from .exchange import Answer, Exchange
from .remote import Remote, federated_problem, measured, reported_stream
from .roster import Roster
from .rounds import Federation, play
from .settings import Asked, longest_s, read

NOTICES = "federation.log"  # in the run folder: who came, went, was late or was turned away


def server_app(dataset: Dataset | None = None, model: nn.Module | None = None) -> ServerApp:
    """A ServerApp that runs the method of its run configuration (see `settings.read`)."""
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        run(grid, read(context.run_config), dataset=dataset, model=model)

    return app


def run(
    grid: Grid,
    asked: Asked,
    *,
    dataset: Dataset | None = None,
    model: nn.Module | None = None,
    watch: Watch | None = None,
) -> None:
    """Run or go on with a method on the devices behind a grid, and record every round.

    Args:
        grid: Flower's way to the nodes.
        asked: settings, method and folder.
        dataset: to test on instead of `data.name`; its training samples are not looked at.
        model: network instead of `model.name`; its present weights are the start.
        watch: told after every round; None: prints a line.
    """
    if not asked.out:
        raise BadInput("out names no folder for the record: set it in the run configuration, as an absolute path")
    asked_for.refuse(asked.config, asked.method)
    problem = federated_problem(asked.config, dataset, model)
    choice = methods.parse(asked.method, asked.defaults)
    keep_own_models(problem, choice)
    refuse_what_needs_data(problem, choice.build(), asked.method)
    notices = Notices(Path(asked.out))
    learner = problem.learner
    assert isinstance(learner, Remote)
    roster = Roster(problem.world.n_devices, learner.n_classes, notices.say)
    federation = Federation(
        exchange=Exchange(grid, roster, asked.federation.poll_s, notices.say),
        settings=asked.federation,
        longest_s=longest_s(asked.config, asked.federation),
        quorum=getattr(choice.config, "quorum", None) if asked.federation.wait == "quorum" else None,
    )
    run_real(
        asked.config,
        asked.method,
        asked.out,
        problem,
        partial(play, federation),
        defaults=asked.defaults,
        watch=partial(_watch, notices, watch or printed),
    )


def keep_own_models(problem: Problem, choice: Choice) -> None:
    """In knowledge-aided learning models stay on the devices, which send class means."""
    learner = problem.learner
    assert isinstance(learner, Remote)
    if choice.module is knowledge:
        learner.keep_models(knowledge_width(problem))


class Notices:
    """What happens in a federation beside its rows: printed, and kept in the run folder once there is one."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._early = folder, list[str]()

    def say(self, text: str) -> None:
        """Print and keep a sentence."""
        print(f"fedcell: {text}", flush=True)
        self._early.append(text)
        if self.folder.is_dir():
            with (self.folder / NOTICES).open("a", encoding="utf-8") as file:
                file.writelines(f"{line}\n" for line in self._early)
            self._early.clear()


def _watch(notices: Notices, watch: Watch, progress: Progress) -> None:
    if progress.note:
        notices.say(progress.note)
    watch(progress)


def printed(progress: Progress) -> None:
    """One line per round, which `flwr log` shows."""
    if progress.row is None:
        return
    row = progress.row
    scores = "".join(f", {name} {row.metrics[name]:.4f}" for name in ("accuracy", "loss") if name in row.metrics)
    heard = f"{row.n_delivered} of {row.n_selected} heard ({row.outcome})"
    print(f"fedcell: round {progress.done} of {progress.total}: {heard} in {row.round_s:.1f} s{scores}", flush=True)


def refuse_what_needs_data(problem: Problem, method: Method, name: str) -> None:
    """Play a round with made-up answers; raises BadInput where a method needs more than devices send."""
    learner = problem.learner
    assert isinstance(learner, Remote)
    world = problem.world._replace(stream=reported_stream(problem.world.n_devices, learner.n_classes, each=1))
    try:
        with learner.blind():
            _rehearse(problem._replace(world=world), learner, method)
    except BadInput as error:
        raise BadInput(f"{name} cannot be deployed: {error}") from None


def _rehearse(problem: Problem, learner: Remote, method: Method) -> None:
    n_devices, first = problem.world.n_devices, begin(problem, method)
    nothing = np.zeros(learner.n_classes * learner.n_features or learner.n_params, np.float32)
    seen, _ = observe(problem.world, first.world, problem.seed, 0)
    here, unknown_s = np.ones(n_devices, np.bool_), None if seen.response_s is None else np.zeros(n_devices)
    seen = seen._replace(available=here, response_s=unknown_s)
    decision = method.decide(problem, first.method, seen)
    if method.scope == "server" and not decision.selected.any():
        raise BadInput("this method has no device train anything: choose another one")
    start = method.broadcast(problem, first.params, first.method, seen, decision)
    with learner.asking(lambda tasks: [Answer(t.device, Outcome.DELIVERED, nothing, 0, 0, 0, 0) for t in tasks]):
        updates = method.local(problem, first.method, start, seen, decision)
    uplink = measured(n_devices, learner.answers, 0.0)
    method.aggregate(problem, first.params, first.method, Round(seen, decision, updates, uplink))
