"""What cannot be deployed: found before anything is written or sent, and told in one sentence. Needs no Flower."""

from contextlib import suppress

import numpy as np
from torch import nn

from .. import methods
from ..data import Dataset
from ..errors import BadInput
from ..methods import Choice, knowledge
from ..methods.knowledge_means import knowledge_width
from ..scenarios import Config
from ..simulate import begin
from ..types import Method, Outcome, Problem, Round
from ..world import observe
from .remote import Remote, federated_problem, measured, reported_stream
from .settings import Asked
from .tasks import Answer


def deployable(asked: Asked, dataset: Dataset | None = None, model: nn.Module | None = None) -> tuple[Problem, Choice]:
    """The problem of a server and its method; raises BadInput where they cannot be deployed.

    Args:
        asked: settings and method.
        dataset: as of `federated_problem`.
        model: as of `federated_problem`.
    """
    refuse_what_is_simulated(asked.config)
    problem = federated_problem(asked.config, dataset, model)
    if asked.method.partition(":")[0].endswith(".py"):
        known = ", ".join(names(asked, dataset, model))
        raise BadInput(f"method {asked.method!r} is a file, which devices may not have: name one of {known}")
    choice = methods.parse(asked.method, asked.defaults)
    keep_own_models(problem, choice)
    refuse_what_needs_data(problem, choice.build(), asked.method)
    return problem, choice


def names(asked: Asked, dataset: Dataset | None = None, model: nn.Module | None = None) -> list[str]:
    """Methods that can be deployed in this world, each with its own settings as they are by default."""
    found = []
    for name in methods.names():
        with suppress(BadInput):
            deployable(asked._replace(method=name), dataset, model)
            found.append(name)
    return found


def refuse_what_is_simulated(config: Config) -> None:
    """Refuse worlds that only a simulation can have."""
    world = config.world
    if world.edge_rounds:
        raise BadInput(
            f"world.edge_rounds = {world.edge_rounds} cannot be deployed: a Flower federation has one server and no "
            "base stations, so set it to 0"
        )
    if world.outage_threshold_db is not None:
        raise BadInput(
            f"world.outage_threshold_db = {world.outage_threshold_db:g} cannot be deployed: real channels lose uploads "
            "by themselves, so set it to none"
        )


def keep_own_models(problem: Problem, choice: Choice) -> None:
    """In knowledge-aided learning models stay on the devices, which send class means."""
    learner = problem.learner
    assert isinstance(learner, Remote)
    if choice.module is knowledge:
        learner.keep_models(knowledge_width(problem))


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
