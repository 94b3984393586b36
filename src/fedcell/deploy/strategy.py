"""A fedcell method as a Flower strategy, for ClientApps that know nothing of fedcell.

A stock ClientApp gets `arrays` and `config`, trains, and answers with `arrays` and `metrics` (`num-examples`). The
method decides who trains and what becomes of the answers. What it needs beyond models of one shape, such as masks or
losses of its own, only devices of `fedcell.deploy.client_app` have.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.common import MessageType
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg, Result

from .. import options, radio, scenarios
from ..errors import BadInput, Diverged
from ..methods.parts.robust import robust
from ..resolve import choose, configure, sort_keys
from ..screening import aggregate
from ..simulate import SIMULATED, begin
from ..types import Decision, Observation, Outcome, Round, Snapshot, WorldState
from . import wire
from .accepting import PATIENCE, Accepting, judge
from .bounds import (
    Watched,
    after,
    capped,
    held_back,
    left_out,
    nothing_seen,
    refuse_growth,
    refuse_outliers,
    refuse_rise,
    shortened,
    told_left_out,
)
from .flat import arrays_of, flat_problem, vector_of
from .flower import Notices
from .remote import reported_stream, tally
from .rounds import asked_of, unforeseen
from .settings import SECTION, FederationConfig, robust_rule, split_own
from .strategy_record import StrategyRecord, recording, row_of
from .strategy_refusals import refuse_unused, refuse_what_nodes_lack
from .tasks import Answer, MessageError, Refusal, Task

UNFORESEEN = {"world.response": "exponential"}  # nobody knows how long nodes take
Evaluate = Callable[[int, ArrayRecord], MetricRecord | None]  # round, model -> metrics
PLAIN = ("mask", "shift", "objective", "report")  # parts of a task that a stock ClientApp cannot handle


class Pending(NamedTuple):
    """A round between its messages and its answers."""

    observation: Observation
    world: WorldState
    decision: Decision
    tasks: dict[int, Task]  # by device


class AskedTasks(Exception):  # noqa: N818 - no error: how tasks leave a method's local()
    """Raised to get the tasks of a round out of a method's local()."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        super().__init__()
        self.tasks = tasks


class Strategy(FedAvg):
    """A Flower strategy that a method of fedcell decides for.

    Args:
        method: text `NAME[:key=value,...]`, or the path of a method file.
        n_devices: most nodes that take part; later ones are ignored.
        scenario: the preset that settings start from.
        settings: values by dotted key, as after `--set`, of the config and of the method; `deploy.max_share` and the
            like bound what nodes send.
        out: new folder for a record, which `fedcell show`, `compare` and `report` read; None: there is none. Its rows
            have the numbers that `evaluate_fn` and the evaluation of nodes return, by their names: `accuracy` and
            `loss` are those that readers look for.
        flower: further arguments of Flower's FedAvg, which does the evaluation.
    """

    def __init__(
        self,
        method: str = "fedavg",
        n_devices: int = 100,
        *,
        scenario: str = "cell",
        settings: Mapping[str, Any] | None = None,
        out: str | Path | None = None,
        **flower: Any,
    ) -> None:
        super().__init__(**{"min_train_nodes": 1, "min_available_nodes": 1, "min_evaluate_nodes": 1, **flower})
        own, given = split_own(settings or {})
        preset = scenarios.get(scenario)
        self.bounds: FederationConfig = options.override(FederationConfig(), own, SECTION)
        keys = sort_keys(given, [method], preset)
        self.config = configure(preset, {"world.n_devices": n_devices, **UNFORESEEN, **keys.config})
        refuse_unused(self.config, n_devices, own)
        self.choice = choose(method, preset, keys.methods.get(method.partition(":")[0], {}))
        if getattr(self.choice.module, "coding", None):
            raise BadInput(f"{method} codes updates, which a stock ClientApp does not: name the method alone")
        self.method = self.choice.build()
        refuse_what_nodes_lack(self.config, self.method, method)
        if rule := robust_rule(self.bounds.robust):
            self.method = robust(self.method, rule, method)
        self.device_of: dict[int, int] = {}  # by node
        self.watched: Watched = nothing_seen(n_devices)
        self.accepting = Accepting()
        self.before: Snapshot | None = None
        self.pending: Pending | None = None
        self.out = None if out is None else Path(out)
        self.notices = Notices(self.out)
        self.record: StrategyRecord | None = None
        self.clock_s = self.begun_s = 0.0

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int = 3,
        timeout: float = 3600,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: Evaluate | None = None,
    ) -> Result:
        """Run Flower's loop; record it if there is an `out` folder."""
        run = partial(super().start, grid, initial_arrays, num_rounds, timeout, train_config, evaluate_config)
        if self.out is None:
            return run(evaluate_fn)
        first = self._begin(initial_arrays)
        config = options.override(self.config, {"rounds": num_rounds})
        with recording(self.out, config, self.choice, self.problem, first) as self.record:
            self.notices.claimed()
            found = run(evaluate_fn and partial(self._evaluated, evaluate_fn))
        self.record = None
        return found

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """Evaluate as Flower's FedAvg does, and add the metrics to the row of the round."""
        found = super().aggregate_evaluate(server_round, replies)
        if self.record and found:
            self.record.add(dict(found))
        return found

    def _evaluated(self, evaluate: Evaluate, round: int, arrays: ArrayRecord) -> MetricRecord | None:
        found = evaluate(round, arrays)
        if self.record and found:
            self.record.add(dict(found))
        return found

    # ---------------------------------------------------------------- a round

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """The messages of a round: the model, and in `config` what the method decided."""
        before = self.before or self._begin(arrays)
        self._meet(grid)
        self.begun_s = time.monotonic()
        observation, world = SIMULATED.observe(self.problem, before)
        observation = unforeseen(observation, self._here(grid))
        decision = radio.as_decision(self.method.decide(self.problem, before.method, observation))
        radio.check_decision(self.problem.world, observation, decision)
        tasks = self._tasks(before, observation, decision)
        self.pending = Pending(observation, world, decision, {task.device: task for task in tasks})
        node_of, messages = {device: node for node, device in self.device_of.items()}, []
        self.sent_bit: dict[int, tuple[float, float]] = {}
        for task in tasks:
            said: dict[str, Any] = {"lr": task.lr, "steps": task.steps, "batch-size": task.batch_size}
            said |= {"momentum": task.momentum, "proximal-mu": task.prox, **config, "server-round": server_round}
            content = RecordDict(
                {self.arrayrecord_key: arrays_of(task.start, self.template), self.configrecord_key: ConfigRecord(said)}
            )
            message = Message(content, node_of[task.device], MessageType.TRAIN)
            self.sent_bit[task.device] = wire.bits(content), wire.message_bits(message)
            messages.append(message)
        return messages

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Let the method aggregate the answers that are not refused; return the model and counts."""
        before, pending = self.before, self.pending
        assert before is not None
        assert pending is not None
        tasks = pending.tasks
        found = {device: self._silence(device) for device in tasks}
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
        sent = sent._replace(observation=sent.observation._replace(store=store))
        sent = shortened(held_back(sent, list(tasks.values()), self.bounds.max_stretch), self.bounds.max_pull)
        sent = self._sound(before, sent, answers)
        params, state, uplink = aggregate(self.problem, self.method, before.params, before.method, sent)
        seen, self.watched = self.watched, after(self.watched, list(tasks.values()), answers)
        for text in told_left_out(self.bounds, seen, self.watched):
            self.notices.say(text)
        world = SIMULATED.settle(self.problem, pending.world, uplink)._replace(store=tally(self.counts))
        lasted_s = time.monotonic() - self.begun_s
        self.clock_s += lasted_s
        self.before = Snapshot(before.round + 1, params, state, world._replace(clock_s=self.clock_s))
        if self.record:
            there = {"n_connected": self.n_connected, "n_left_out": int(left_out(self.bounds, self.watched).sum())}
            self.record.put(row_of(self.before, lasted_s, uplink, answers, there), self.before)
        said: dict[str, Any] = {"heard": int(uplink.delivered.sum()), "refused": sum(one.strike for one in answers)}
        return arrays_of(params.cpu().numpy(), self.template), MetricRecord(said)

    def summary(self) -> None:
        """The line that is logged when a run begins."""
        print(f"fedcell: {self.choice.label} for up to {self.config.world.n_devices} nodes", flush=True)

    # ---------------------------------------------------------------- parts of it

    def _begin(self, arrays: ArrayRecord) -> Snapshot:
        """Set up the problem and the state before the first round, for a model with these arrays."""
        self.template = {name: array.numpy() for name, array in arrays.items()}
        problem = flat_problem(self.config, vector_of(arrays, self.template))
        n_devices = problem.world.n_devices
        self.counts = np.zeros((n_devices, 2), dtype=np.int64)
        self.counts[:, 0] = 1  # until they say how many
        self.claimed = np.zeros_like(self.counts)
        self.problem = problem._replace(world=problem.world._replace(stream=reported_stream(n_devices, 2, each=1)))
        self.before = begin(self.problem, self.method)
        return self.before

    def _meet(self, grid: Grid) -> None:
        """Number new nodes; wait until as many are there as Flower's FedAvg would wait for."""
        while len(list(grid.get_node_ids())) < self.min_available_nodes:
            time.sleep(1)
        connected = set(grid.get_node_ids())
        for node in sorted(connected - set(self.device_of)):
            gone = self._gone(connected)
            if len(self.device_of) < self.config.world.n_devices:
                self.device_of[node] = len(self.device_of)
            elif gone:
                self._replace(gone[0], node)
        self.n_connected = len(connected & set(self.device_of))

    def _gone(self, connected: set[int]) -> list[int]:
        """Nodes that are gone, by their numbers; one that is left out keeps its own, so that no new id excuses it."""
        refused = left_out(self.bounds, self.watched)
        return sorted(
            (one for one, device in self.device_of.items() if one not in connected and not refused[device]),
            key=lambda one: self.device_of[one],
        )

    def _replace(self, gone: int, node: int) -> None:
        """Give a new node the place of one that is gone, with its strikes; what that one said is forgotten."""
        device = self.device_of[node] = self.device_of.pop(gone)
        self.counts[device], self.claimed[device] = (1, 0), 0
        self.notices.say(f"device {device} is node {node} from now on (node {gone} is gone)")

    def _here(self, grid: Grid) -> Any:
        here = np.zeros(self.config.world.n_devices, dtype=np.bool_)
        here[[self.device_of[node] for node in grid.get_node_ids() if node in self.device_of]] = True
        return here & ~left_out(self.bounds, self.watched)

    def _tasks(self, before: Snapshot, observation: Observation, decision: Decision) -> list[Task]:
        """The tasks that the method hands to its learner; raises BadInput if a stock ClientApp cannot do them."""

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
        answer = self._silence(task.device)._replace(
            outcome=Outcome.DELIVERED,
            up_bit=0.0 if reply.has_error() else wire.bits(reply.content),
            up_message_bit=wire.message_bits(reply),
        )
        if reply.has_error():
            self.notices.say(f"round {task.round}: device {task.device} failed ({reply.error.reason})")
            return answer._replace(outcome=Outcome.INVALID)
        try:
            content = reply.content
            metrics = next(iter(content.metric_records.values()), MetricRecord())
            update = vector_of(content.array_records[self.arrayrecord_key], self.template) - task.start
            if not np.isfinite(update).all():
                raise MessageError("the model holds numbers that are not finite", "not finite")
            refuse_rise(self.bounds, self.watched, task, update)
            size = metrics.get(self.weighted_by_key, 1)
            if not isinstance(size, int | float) or not 0 <= size <= 2**32:
                raise MessageError(f"the answer says {size!r} samples", "samples")
            claimed = np.array([max(int(size), 1), 0])
            refuse_growth(self.bounds, self.claimed, task.device, claimed)
        except (MessageError, KeyError, ValueError, TypeError) as error:
            bad = error if isinstance(error, MessageError) else MessageError(f"the answer cannot be read ({error})")
            return self._refused(answer, bad)
        self.counts[task.device] = self.claimed[task.device] = claimed
        return answer._replace(update=update)

    def _silence(self, device: int) -> Answer:
        """What is known of a device that has not answered."""
        down_bit, message_bit = self.sent_bit[device]
        late = Answer(device, Outcome.LATE, None, 0.0, 0.0, down_bit, 0.0)
        return late._replace(down_message_bit=message_bit)

    def _refused(self, answer: Answer, error: MessageError) -> Answer:
        round = self.before.round if self.before else 0
        self.notices.say(f"round {round}: device {answer.device} was turned away: {error}")
        self.notices.note(Refusal(round, answer.device, error.kind, error.value, str(error)))
        return answer._replace(outcome=Outcome.INVALID, update=None, strike=True)

    def _sound(self, before: Snapshot, sent: Round, answers: list[Answer]) -> Round:
        """The round without those that make the model anything but finite; raises Diverged if all do."""
        made = self.accepting.trial(self.problem, self.method, before, inf, 0.0)
        found = judge(made, sent)
        for row, one in enumerate(answers):
            if one.device in found.named:
                answers[row] = self._refused(one, MessageError("it breaks the model", "breaks the model"))
            elif found.whole and one.outcome == Outcome.DELIVERED:
                answers[row] = one._replace(outcome=Outcome.INVALID)
        if found.whole:
            self.notices.say(f"round {before.round} is not accepted: any half of its updates breaks the model")
        if self.accepting.settle(found) >= PATIENCE or not made.accepts(found.loss):
            raise Diverged(f"round {before.round}: every update breaks the model: lower the learning rate")
        return found.sent
