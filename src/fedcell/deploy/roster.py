"""The roster: which of Flower's nodes is which device. A node gets a new number after every restart."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..errors import BadInput
from ..types import Bools, Ints
from .tasks import MessageError
from .wire import Facts

Say = Callable[[str], None]


class Member(NamedTuple):
    """A node that has said which device it is."""

    node: int
    identity: str


class Roster:
    """The node of each device, and what the device last reported.

    Args:
        n_devices: devices are numbered from 0.
        n_classes: labels that are counted; 1 for tasks without labels.
        say: called with a sentence when a node comes, goes or is refused.
        known: device by node, for nodes with registered keys; None: nodes are trusted.
    """

    def __init__(self, n_devices: int, n_classes: int, say: Say, known: Mapping[int, int] | None = None) -> None:
        self.n_devices, self.n_classes, self.say, self.known = n_devices, n_classes, say, known
        self.members: dict[int, Member] = {}  # by device
        self.counts: Ints = np.zeros((n_devices, n_classes), dtype=np.int64)
        self.scores: Ints = np.zeros((n_devices, 2), dtype=np.int64)  # how many own models got right, of how many
        self._refused: dict[int, tuple[int, Facts]] = {}  # by node: the node that has its place, what it said
        self._met: set[int] = set()  # nodes that were asked, or have answered

    @property
    def present(self) -> Bools:
        """Devices that have a node, `[n_devices]`."""
        here = np.zeros(self.n_devices, dtype=np.bool_)
        here[list(self.members)] = True
        return here

    def node_of(self, device: int) -> int:
        """The node of a device, 0 if it has none."""
        member = self.members.get(device)
        return member.node if member else 0

    def refresh(self, nodes: Iterable[int]) -> list[int]:
        """Forget nodes that are gone; return those that must be asked who they are."""
        connected = set(nodes)
        for device, member in list(self.members.items()):
            if member.node not in connected:
                del self.members[device]
                self.say(f"device {device} is gone (node {member.node})")
        self._refused = {node: about for node, about in self._refused.items() if node in connected}
        for node, (holder, facts) in list(self._refused.items()):
            if holder not in connected:  # its place is free now
                del self._refused[node]
                self.admit(node, facts)
        self._met &= connected
        new = sorted(connected - self._met)
        self._met |= connected
        return new

    def forget(self, node: int) -> None:
        """Have a node asked again, because its answer was lost."""
        self._met.discard(node)

    def admit(self, node: int, facts: Facts) -> None:
        """Take a node as the device that it says it is, unless another one has that place."""
        device = facts.device
        if not 0 <= device < self.n_devices:
            raise MessageError(
                f"node {node} says it is device {device}: give it a partition-id from 0 to {self.n_devices - 1}"
            )
        if self.known is not None and self.known.get(node) != device:
            listed = f"device {self.known[node]}" if node in self.known else "no device"
            raise MessageError(f"node {node} says it is device {device} and known-nodes has it as {listed}", "identity")
        holder = self.members.get(device)
        if holder is not None and holder.node != node and not _same(holder.identity, facts.identity):
            self._refused[node] = (holder.node, facts)
            self.say(
                f"node {node} is refused: it says it is device {device}, as node {holder.node} does, so give every "
                "node a partition-id of its own"
            )
            return
        again = holder is not None and holder.node != node
        self.members[device] = Member(node, facts.identity)
        self.learn(facts)
        self.say(f"device {device} is {'back' if again else 'here'} (node {node}, {facts.counts.sum()} samples)")

    def learn(self, facts: Facts) -> None:
        """Note what a device holds now, and how good its own model is if it has one."""
        self.counts[facts.device] = facts.counts
        if facts.tested:
            self.scores[facts.device] = facts.right, facts.tested


def read_known(path: str) -> dict[int, int] | None:
    """Devices by node from the file that `known-nodes` names; None without one."""
    if not path:
        return None
    try:
        lines = [line.split() for line in Path(path).expanduser().read_text(encoding="utf-8").splitlines()]
        found = {int(node): int(device) for device, node in (parts for parts in lines if parts)}
    except (OSError, ValueError) as error:
        raise BadInput(f"known-nodes = {path!r} cannot be read ({error}): write a line `DEVICE NODE` each") from None
    if len(set(found.values())) != len(found) or not found:
        raise BadInput(f"known-nodes = {path!r} names no device, or one twice: write a line `DEVICE NODE` for each")
    return found


def _same(left: str, right: str) -> bool:
    """Whether two identities are the same and not empty."""
    return bool(left) and left == right
