"""Refuse in one sentence what cannot be deployed, before anything is written or sent. Needs no Flower."""

from torch import nn

from ..data import Dataset
from ..errors import BadInput
from ..learn.tasks import refuse_without_labels
from ..methods import Choice
from ..resolve import choose
from ..scenarios import Config
from ..types import Method, Problem
from .coded import told as coding_in
from .remote import federated_problem, reported_stream
from .rounds import rehearse, remote
from .settings import FederationRequest


def deployable(
    asked: FederationRequest, dataset: Dataset | None = None, model: nn.Module | None = None
) -> tuple[Problem, Choice]:
    """The problem of a server and its method; raises BadInput if they cannot be deployed.

    Args:
        asked: settings and method.
        dataset: as of `federated_problem`.
        model: as of `federated_problem`.
    """
    refuse_what_is_simulated(asked.config)
    problem = federated_problem(asked.config, dataset, model)
    choice = choose(asked.method, asked.preset, asked.settings)
    remote(problem).coding, method = coding_in(choice, problem.learner.architectures[0].shapes), choice.build()
    if method.needs_labels:
        refuse_without_labels(remote(problem).task.name, f"method {asked.method!r}", "choose another method or task")
    refuse_what_needs_data(problem, method, asked.method)
    return problem, choice


def refuse_what_is_simulated(config: Config) -> None:
    """Refuse worlds that only a simulation can have."""
    world = config.world
    if world.attack != "none":
        raise BadInput(
            f"world.attack = {world.attack!r} cannot be deployed: attackers are simulated devices, so set it to none"
        )
    if world.outage_threshold_db is not None:
        raise BadInput(
            f"world.outage_threshold_db = {world.outage_threshold_db:g} cannot be deployed: real channels lose uploads "
            "by themselves, so set it to none"
        )


def refuse_what_needs_data(problem: Problem, method: Method, name: str) -> None:
    """Rehearse a round with one sample of every label per device; raises BadInput if the method needs more."""
    learner = remote(problem)
    world = problem.world._replace(stream=reported_stream(problem.world.n_devices, learner.n_counted, each=1))
    try:
        rehearse(problem._replace(world=world), method)
    except BadInput as error:
        raise BadInput(f"{name} cannot be deployed: {error}") from None
