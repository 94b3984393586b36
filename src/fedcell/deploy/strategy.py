"""A fedcell method as a Flower strategy, for ClientApps that know nothing of fedcell.

A stock ClientApp gets `arrays` and `config`, trains, and answers with `arrays` and `metrics` (`num-examples`). The
method decides who trains and what becomes of the answers. What it needs beyond models of one shape, such as masks or
losses of its own, only devices of `fedcell.deploy.client_app` have.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import Any, NamedTuple

import numpy as np
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.common import MessageType
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg
from torch import Tensor, nn

from .. import options, radio, scenarios
from ..data import Dataset
from ..errors import BadInput
from ..methods.parts.robust import robust
from ..resolve import choose
from ..screening import aggregate
from ..simulate import SIMULATED, begin
from ..types import Decision, Observation, Outcome, Round, Snapshot, WorldState
from .accepting import Accepting, judge
from .bounds import Watched, after, capped, left_out, nothing_seen, refuse_outliers, refuse_rise
from .remote import federated_problem, reported_stream, tally
from .rounds import asked_of, unforeseen
from .settings import FederationConfig, robust_rule
from .tasks import Answer, MessageError, Task, Vector

UNFORESEEN = {"world.response": "exponential"}  # nobody knows how long nodes take
PLAIN = ("mask", "shift", "objective", "report")  # parts of a task that a stock ClientApp has no idea of


class Flat(nn.Module):
    """A network that is its parameters: what it computes, only devices know."""

    def __init__(self, n_params: int) -> None:
        super().__init__()
        self.values = nn.Parameter(torch.zeros(n_params))

    def forward(self, x: Tensor) -> Tensor:
        """Nothing, in the shape of two classes."""
        return x.new_zeros(len(x), 2) + 0 * self.values[0]


class Pending(NamedTuple):
    """A round between its messages and its answers."""

    observation: Observation
    world: WorldState
    decision: Decision
    tasks: dict[int, Task]  # by device


class AskedTasks(Exception):  # noqa: N818 - no error: how tasks leave a method's local()
    """The tasks of a round."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        super().__init__()
        self.tasks = tasks


class Strategy(FedAvg):
    """A Flower strategy that a method of fedcell decides for.

    Args:
        method: text `NAME[:key=value,...]`, or the path of a method file.
        n_devices: most nodes that take part; later ones are left aside.
        scenario: the preset that settings start from.
        settings: values by dotted key, as after `--set`; `deploy.max_share` and the like bound what nodes send.
        flower: further arguments of Flower's FedAvg, which evaluation is left to.
    """

    def __init__(
        self,
        method: str = "fedavg",
        n_devices: int = 100,
        *,
        scenario: str = "cell",
        settings: Mapping[str, Any] | None = None,
        **flower: Any,
    ) -> None:
        super().__init__(**{"min_train_nodes": 1, "min_available_nodes": 1, "min_evaluate_nodes": 1, **flower})
        given = dict(settings or {})
        own = {key.removeprefix("deploy."): given.pop(key) for key in list(given) if key.startswith("deploy.")}
        preset = scenarios.get(scenario)
        self.bounds: FederationConfig = options.override(FederationConfig(), own, "deploy.")
        self.config = options.override(preset.config, {"world.n_devices": n_devices, **UNFORESEEN, **given})
        self.choice = choose(method, preset, {})
        if getattr(self.choice.module, "coding", None):
            raise BadInput(f"{method} codes updates, which a stock ClientApp does not: name the method alone")
        self.method = self.choice.build()
        if rule := robust_rule(self.bounds.robust):
            self.method = robust(self.method, rule, method)
        self.device_of: dict[int, int] = {}  # by node
        self.watched: Watched = nothing_seen(n_devices)
        self.accepting = Accepting()
        self.before: Snapshot | None = None
        self.pending: Pending | None = None

    # ---------------------------------------------------------------- a round

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """The messages of a round: the model and, in `config`, what the method decided."""
        before = self.before or self._begin(arrays)
        self._meet(grid)
        observation, world = SIMULATED.observe(self.problem, before)
        observation = unforeseen(observation, self._here(grid))
        decision = radio.as_decision(self.method.decide(self.problem, before.method, observation))
        radio.check_decision(self.problem.world, observation, decision)
        tasks = self._tasks(before, observation, decision)
        self.pending = Pending(observation, world, decision, {task.device: task for task in tasks})
        node_of, messages = {device: node for node, device in self.device_of.items()}, []
        for task in tasks:
            said: dict[str, Any] = {"lr": task.lr, "steps": task.steps, "batch-size": task.batch_size}
            said |= {"momentum": task.momentum, "proximal-mu": task.prox, **config, "server-round": server_round}
            content = RecordDict(
                {self.arrayrecord_key: self._arrays(task.start), self.configrecord_key: ConfigRecord(said)}
            )
            messages.append(Message(content, node_of[task.device], MessageType.TRAIN))
        return messages

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """The model that the method makes of the answers, without those that are refused."""
        before, pending = self.before, self.pending
        assert before is not None
        assert pending is not None
        tasks = pending.tasks
        found = {task.device: Answer(task.device, Outcome.LATE, None, 0.0, 0.0, 0.0, 0.0) for task in tasks.values()}
        for reply in replies:
            device = self.device_of.get(reply.metadata.src_node_id, -1)
            if device in tasks:
                found[device] = self._judged(reply, tasks[device])
        for one, error in refuse_outliers(self.bounds, list(tasks.values()), list(found.values())):
            found[one.device] = self._refused(one, error)
        answers = [found[device] for device in tasks]
        sent = asked_of(
            lambda _: answers,
            self.problem,
            self.method,
            before.method,
            self._start,
            pending.observation,
            pending.decision,
        )
        store = capped(tally(self.counts), sent.heard(), self.bounds.max_share)
        sent = self._sound(before, sent._replace(observation=sent.observation._replace(store=store)), answers)
        params, state, uplink = aggregate(self.problem, self.method, before.params, before.method, sent)
        self.watched = after(self.watched, list(tasks.values()), answers)
        world = SIMULATED.settle(self.problem, pending.world, uplink)._replace(store=tally(self.counts))
        self.before = Snapshot(before.round + 1, params, state, world)
        said: dict[str, Any] = {"heard": int(uplink.delivered.sum()), "refused": sum(one.strike for one in answers)}
        return self._arrays(params.cpu().numpy()), MetricRecord(said)

    def summary(self) -> None:
        """What is said when a run begins."""
        print(f"fedcell: {self.choice.label} for up to {self.config.world.n_devices} nodes", flush=True)

    # ---------------------------------------------------------------- parts of it

    def _begin(self, arrays: ArrayRecord) -> Snapshot:
        """The state before the first round, of a model that is these arrays."""
        self.template = {name: array.numpy() for name, array in arrays.items()}
        first = self._vector(arrays, self.template)
        model = Flat(len(first))
        with torch.no_grad():
            model.values.copy_(torch.from_numpy(first))
        x = np.zeros((2, 1), dtype=np.float32)
        nothing = Dataset("nothing", x, np.arange(2), x, np.arange(2), 2)
        problem = federated_problem(self.config, nothing, model)
        n_devices = problem.world.n_devices
        self.counts = np.zeros((n_devices, 2), dtype=np.int64)
        self.counts[:, 0] = 1  # until they say how many
        self.problem = problem._replace(world=problem.world._replace(stream=reported_stream(n_devices, 2, each=1)))
        self.before = begin(self.problem, self.method)
        return self.before

    def _meet(self, grid: Grid) -> None:
        """Number new nodes; wait until as many are there as Flower's FedAvg would wait for."""
        while len(list(grid.get_node_ids())) < self.min_available_nodes:
            time.sleep(1)
        for node in sorted(set(grid.get_node_ids()) - set(self.device_of)):
            if len(self.device_of) < self.config.world.n_devices:
                self.device_of[node] = len(self.device_of)

    def _here(self, grid: Grid) -> Any:
        here = np.zeros(self.config.world.n_devices, dtype=np.bool_)
        here[[self.device_of[node] for node in grid.get_node_ids() if node in self.device_of]] = True
        return here & ~left_out(self.bounds, self.watched)

    def _tasks(self, before: Snapshot, observation: Observation, decision: Decision) -> list[Task]:
        """What the method hands to its learner."""

        def leave(tasks: Sequence[Task]) -> list[Answer]:
            raise AskedTasks(tasks)

        self._start = self.method.broadcast(self.problem, before.params, before.method, observation, decision)
        try:
            asked_of(leave, self.problem, self.method, before.method, self._start, observation, decision)
        except AskedTasks as asked:
            for name in PLAIN:
                if any(getattr(task, name) is not None for task in asked.tasks):
                    raise BadInput(
                        f"{self.choice.label} sends devices a {name}, which a stock ClientApp has no idea of: choose "
                        "another method, or devices of fedcell.deploy.client_app"
                    ) from None
            return list(asked.tasks)
        return []

    def _judged(self, reply: Message, task: Task) -> Answer:
        answer = Answer(task.device, Outcome.DELIVERED, None, 0.0, 0.0, 0.0, 0.0)
        if reply.has_error():
            print(f"fedcell: round {task.round}: device {task.device} failed ({reply.error.reason})", flush=True)
            return answer._replace(outcome=Outcome.INVALID)
        try:
            content = reply.content
            metrics = next(iter(content.metric_records.values()), MetricRecord())
            update = self._vector(content.array_records[self.arrayrecord_key], self.template) - task.start
            if not np.isfinite(update).all():
                raise MessageError("the model holds numbers that are not finite", "not finite")
            refuse_rise(self.bounds, self.watched, task, update)
            size = metrics.get(self.weighted_by_key, 1)
            if not isinstance(size, int | float) or not 0 <= size <= 2**32:
                raise MessageError(f"the answer says {size!r} samples", "samples")
        except (MessageError, KeyError, ValueError, TypeError) as error:
            bad = error if isinstance(error, MessageError) else MessageError(f"the answer cannot be read ({error})")
            return self._refused(answer, bad)
        self.counts[task.device, 0] = max(int(size), 1)
        return answer._replace(update=update)

    def _refused(self, answer: Answer, error: MessageError) -> Answer:
        round = self.before.round if self.before else 0
        print(f"fedcell: round {round}: device {answer.device} was turned away: {error}", flush=True)
        return answer._replace(outcome=Outcome.INVALID, update=None, strike=True)

    def _sound(self, before: Snapshot, sent: Round, answers: list[Answer]) -> Round:
        """The round without those that make the model anything but finite."""
        found = judge(self.accepting.trial(self.problem, self.method, before, inf, 0.0), sent)
        for row, one in enumerate(answers):
            if one.device in found.named:
                answers[row] = self._refused(one, MessageError("it breaks the model", "breaks the model"))
        return found.sent

    def _vector(self, arrays: ArrayRecord, template: Mapping[str, Any]) -> Vector:
        """All numbers of a model, in the order of the first one; raises MessageError if the shapes are others."""
        parts = []
        for name, like in template.items():
            part = arrays[name].numpy()
            if part.shape != like.shape:
                raise MessageError(f"{name} has shape {list(part.shape)}, not {list(like.shape)}")
            parts.append(part.astype(np.float32).reshape(-1))
        return np.concatenate(parts)

    def _arrays(self, vector: Vector) -> ArrayRecord:
        made, start = {}, 0
        for name, like in self.template.items():
            part = vector[start : start + like.size].reshape(like.shape)
            made[name] = Array(np.ascontiguousarray(part.astype(like.dtype)))
            start += like.size
        return ArrayRecord(made)
