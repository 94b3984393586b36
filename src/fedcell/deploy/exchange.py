"""Sending work to devices and waiting for their answers: deadline, quorum, and answers that come too late."""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

from ..errors import FedcellError
from ..metrics import CLASSIFICATION
from ..sealing import KeyPair
from ..types import Bools, Outcome
from . import sealed, wire
from .bounds import Watched, left_out, nothing_seen, refuse_growth, refuse_outliers, refuse_rise
from .roster import Roster, Say
from .settings import FederationConfig
from .tasks import Answer, MessageError, Refusal, Task
from .wire import Facts

GONE = 5  # Flower's code for a node that is no longer connected
SPARE_S = 60.0  # how long after the end of its round a late answer is still reported


class OpenMessage(NamedTuple):
    """A message that has not been answered."""

    node: int
    round: int
    sent_s: float
    down_bit: float
    message_bit: float
    task: Task | None  # None: it asks who the node is


class Exchange:
    """The messages of one run.

    Args:
        grid: Flower's connection to the nodes.
        roster: which node is which device.
        settings: time between two looks for answers, and bounds on them.
        say: called with a sentence when something goes wrong.
        clock: seconds that never go back.
        key: opens sealed answers; None: answers are not sealed.
        note: called for every answer that is refused.
    """

    def __init__(
        self,
        grid: Grid,
        roster: Roster,
        settings: FederationConfig,
        say: Say,
        clock: Callable[[], float] = time.monotonic,
        key: KeyPair | None = None,
        note: Callable[[Refusal], None] = lambda refusal: None,
    ) -> None:
        self.grid, self.roster, self.settings, self.say, self.clock = grid, roster, settings, say, clock
        self.key, self.note, self.poll_s = key, note, settings.poll_s
        self.watched: Watched = nothing_seen(roster.n_devices)
        self.learned = CLASSIFICATION  # the task
        self.run = ""  # the name of the run, by which devices know what they kept for it
        self.begun_s = clock()  # of the present round
        self._open: dict[str, OpenMessage] = {}
        self._not_taken: set[tuple[int, int]] = set()  # rounds and nodes that are reported

    @property
    def free(self) -> Bools:
        """Devices that are there, not left out and not busy with an earlier round, `[n_devices]`."""
        here = self.roster.present & ~left_out(self.settings, self.watched)
        for sent in self._open.values():
            if sent.task is not None and self.roster.node_of(sent.task.device) == sent.node:
                here[sent.task.device] = False
        return here

    def gather(self, round: int, wanted: int, longest_s: float) -> None:
        """Wait until that many devices are connected, free and hold samples; raises FedcellError after `longest_s`."""
        end_s = self.clock() + longest_s
        while True:
            self._meet(round)
            self._look()
            here = int((self.free & (self.roster.counts.sum(axis=1) > 0)).sum())
            if here >= wanted:
                self.begun_s = self.clock()
                return
            if self.clock() >= end_s:
                raise FedcellError(
                    f"{here} of {wanted} devices with samples came within {longest_s:g} s: start their nodes, lower "
                    "min-devices or raise join-s, and start the app again"
                )
            time.sleep(self.poll_s)

    def ask(self, tasks: Sequence[Task], deadline_s: float, enough: int | None) -> list[Answer]:
        """Send every device its task; wait until all answered, `enough` updates arrived, or the deadline is over."""
        begun_s = self.clock()
        not_taken = self._send([(self.roster.node_of(task.device), task) for task in tasks], deadline_s)
        of_device = {task.device: task for task in tasks}
        answers = {one.device: Answer(one.device, Outcome.OUTAGE, None, 0.0, 0.0, 0.0, 0.0) for one in not_taken}
        while len(answers) < len(tasks):
            for sent, reply, seen_s in self._replies():
                if sent.task is not None and sent.task is of_device.get(sent.task.device):
                    answers[sent.task.device] = self._judge(sent, reply, seen_s)
                else:
                    self._late(sent, reply, seen_s)
            delivered = sum(one.outcome == Outcome.DELIVERED for one in answers.values())
            waited_s = self.clock() - begun_s
            done = len(answers) == len(tasks) or (enough is not None and delivered >= enough)
            if done or waited_s >= deadline_s:
                break
            time.sleep(min(self.poll_s, max(deadline_s - waited_s, 0.0)))
        waited_s = self.clock() - begun_s
        for one, error in refuse_outliers(self.settings, tasks, list(answers.values())):
            answers[one.device] = self.turn_away(of_device[one.device].round, one, error)
        return [answers.get(task.device) or self._unheard(task, waited_s) for task in tasks]

    def turn_away(self, round: int, answer: Answer, error: MessageError) -> Answer:
        """Refuse an answer for what it holds: drop its update, report and record it."""
        self.say(f"round {round}: device {answer.device} was turned away: {error}")
        self.note(Refusal(round, answer.device, error.kind, error.value, str(error)))
        return answer._replace(outcome=Outcome.INVALID, update=None, strike=True)

    # ---------------------------------------------------------------- sending

    def _meet(self, round: int) -> None:
        for node in self.roster.refresh(self.grid.get_node_ids()):
            content = wire.pack_hello(round, self.roster.n_classes, self.learned, self.run)
            message = Message(content, node, wire.HELLO, ttl=10 * SPARE_S, group_id=str(round))
            self._push([message], [OpenMessage(node, round, self.clock(), 0.0, 0.0, None)])

    def _send(self, tasks: Iterable[tuple[int, Task]], deadline_s: float) -> list[Task]:
        """Send tasks to nodes; return those that Flower did not take."""
        messages, sent = [], []
        for node, task in tasks:
            content = wire.pack_task(task)
            ttl_s = deadline_s + SPARE_S
            message = Message(content, node, wire.TRAIN, ttl=ttl_s, group_id=str(task.round))
            messages.append(message)
            bits = wire.bits(content), wire.message_bits(message)
            sent.append(OpenMessage(node, task.round, self.clock(), *bits, task))
        return [about.task for about in self._push(messages, sent) if about.task is not None]

    def _push(self, messages: list[Message], sent: list[OpenMessage]) -> list[OpenMessage]:
        """Hand messages to Flower; return those that it did not take, and have their nodes asked who they are again.

        Raises FedcellError if it takes none, as it does if the payload is too large.
        """
        names = list(self.grid.push_messages(messages))
        if messages and not names:
            raise FedcellError(
                f"round {sent[0].round}: Flower took none of {len(messages)} messages, the largest of "
                f"{max(one.message_bit for one in sent) / 8:.3g} bytes: raise its payload limit or choose a smaller "
                "model"
            )
        not_taken = []
        for name, about in zip(names, sent, strict=True):
            if name:
                self._open[name] = about
            else:
                if (about.round, about.node) not in self._not_taken:
                    self.say(f"round {about.round}: Flower took no message for node {about.node}: it is asked again")
                self._not_taken.add((about.round, about.node))
                self.roster.forget(about.node)
                not_taken.append(about)
        return not_taken

    # ---------------------------------------------------------------- receiving

    def _replies(self) -> Iterable[tuple[OpenMessage, Message, float]]:
        if not self._open:
            return
        for reply in self.grid.pull_messages(list(self._open)):
            sent = self._open.pop(reply.metadata.reply_to_message_id, None)
            if sent is not None:
                yield sent, reply, self.clock()

    def _look(self) -> None:
        """Handle replies that came while nobody waited for answers."""
        for sent, reply, seen_s in self._replies():
            self._late(sent, reply, seen_s)

    def _late(self, sent: OpenMessage, reply: Message, seen_s: float) -> None:
        """Handle a reply to a hello message, or a late one to a task that is no longer waited for."""
        if sent.task is None:
            self._greet(sent, reply)
        elif not reply.has_error():
            after = seen_s - sent.sent_s
            self.say(f"round {sent.round}: device {sent.task.device} answered late, after {after:.1f} s")

    def _greet(self, sent: OpenMessage, reply: Message) -> None:
        try:
            facts = self._facts(self._content(sent, reply))
            if 0 <= facts.device < self.roster.n_devices:
                refuse_growth(self.settings, self.roster.counts, facts.device, facts.counts)
            self.roster.admit(sent.node, facts)
        except MessageError as error:
            self.say(f"node {sent.node} is refused: {error}")
            if reply.has_error():
                self.roster.forget(sent.node)

    def _judge(self, sent: OpenMessage, reply: Message, seen_s: float) -> Answer:
        """Check the answer to a task that is waited for; report and refuse a bad one."""
        task = sent.task
        assert task is not None
        took_s = seen_s - sent.sent_s
        up_bit = 0.0 if reply.has_error() else wire.bits(reply.content)
        answer = Answer(task.device, Outcome.DELIVERED, None, 0.0, took_s, sent.down_bit, up_bit)
        answer = answer._replace(down_message_bit=sent.message_bit, up_message_bit=wire.message_bits(reply))
        try:
            content = self._content(sent, reply)
            facts = self._facts(content)
            if (facts.device, facts.round) != (task.device, task.round):
                raise MessageError(f"the answer is of device {facts.device} in round {facts.round}")
            update, tail = wire.unpack_update(content, task), wire.unpack_tail(content, task)
            refuse_growth(self.settings, self.roster.counts, task.device, facts.counts)
            refuse_rise(self.settings, self.watched, task, update)
        except MessageError as error:
            lost = reply.has_error() and reply.error.code == GONE
            outcome = Outcome.OUTAGE if lost else Outcome.INVALID
            bad = answer._replace(outcome=outcome)
            if not reply.has_error():
                return self.turn_away(sent.round, bad, error)
            self.say(f"round {sent.round}: device {task.device} was turned away: {error}")
            return bad
        self.roster.learn(facts)
        compute_s = min(facts.compute_s, took_s)
        return answer._replace(update=update, compute_s=compute_s, joule=facts.joule, meter=facts.meter, tail=tail)

    def _content(self, sent: OpenMessage, reply: Message) -> RecordDict:
        """The content of an answer, opened if it is sealed; raises MessageError if the device failed."""
        if reply.has_error():
            raise MessageError(f"it failed ({(reply.error.reason or f'code {reply.error.code}')[:200]})")
        task = sent.task
        about = sealed.about_hello(sent.round) if task is None else sealed.about_task(task.round, task.device)
        return sealed.opened(reply.content, self.key, about)

    def _facts(self, content: RecordDict) -> Facts:
        return wire.unpack_facts(content, self.roster.n_classes)

    def _unheard(self, task: Task, waited_s: float) -> Answer:
        bits = ((sent.down_bit, sent.message_bit) for sent in self._open.values() if sent.task is task)
        down_bit, message_bit = next(bits, (0.0, 0.0))
        self.say(f"round {task.round}: device {task.device} was not heard within {waited_s:.1f} s")
        late = Answer(task.device, Outcome.LATE, None, 0.0, waited_s, down_bit, 0.0)
        return late._replace(down_message_bit=message_bit)
