"""A Flower grid inside one process: real messages and ClientApps, no network."""

from functools import lru_cache
from pathlib import Path
from typing import Any

from flwr.app import Context, Error, Message, RecordDict
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity

from fedcell import record
from fedcell.deploy import flower, settings
from fedcell.deploy.client import client_app, share_of


class InsideGrid(Grid):
    """Answers every message at once with the ClientApp of its node, or as `spoil` says.

    Args:
        app: of all nodes.
        nodes: node configuration by node id.
        run_config: of the run.
        spoil: (node, message, reply) -> reply; None where it never comes; (reply, function that says when it comes).
    """

    def __init__(self, app, nodes, run_config, spoil=lambda node, message, reply: reply):
        self.app, self.nodes, self.run_config, self.spoil = app, dict(nodes), run_config, spoil
        self.waiting, self.sent = {}, []
        self._number = 0
        TaskIdentity.task_id = TaskIdentity.run_id = TaskIdentity.node_id = (
            1  # what a process of Flower knows of itself
        )

    def set_run(self, run: Any) -> None:
        raise NotImplementedError

    @property
    def run(self) -> Any:
        raise NotImplementedError

    def create_message(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    def send_and_receive(self, messages, *, timeout=None):
        return self.pull_messages(self.push_messages(list(messages)))

    def get_node_ids(self):
        return list(self.nodes)

    def push_messages(self, messages):
        names = []
        for message in messages:
            self._number += 1
            name = f"message {self._number}"
            message.metadata.__dict__["_message_id"] = name
            node = message.metadata.dst_node_id
            self.sent.append((node, message))
            found = self.spoil(node, message, self._reply(node, message))
            reply, ready = found if isinstance(found, tuple) else (found, bool)
            if reply is not None:
                self.waiting[name] = (reply, ready)
            names.append(name)
        return names

    def pull_messages(self, message_ids):
        held = {name: self.waiting[name] for name in message_ids if name in self.waiting}
        due = [name for name, (_, ready) in held.items() if ready is bool or ready()]
        return [self.waiting.pop(name)[0] for name in due]

    def _reply(self, node, message):
        context = Context(0, node, self.nodes[node], RecordDict(), self.run_config, 0)
        try:
            return self.app(message, context)
        except Exception as error:  # as Flower's own runtime does
            return Message(Error(2, str(error)), reply_to=message)


def run_config(method="fedavg", out="", **changes):
    """A small federation."""
    own = {
        "world.n_devices": "4",
        "rounds": "3",
        "seed": "11",
        "data.partition": "dirichlet",
        "data.alpha": "0.5",
        "model.name": "mlp",
        "model.hidden": "16",
        "train.steps": "15",
        "train.lr": "0.3",
        "train.batch_size": "16",
        "train.device": "cpu",
        "world.deadline_s": "30",
        "world.cycles_per_sample": "1e5",
        "world.bandwidth_hz": "1e7",
    } | changes
    return {
        "method": method,
        "scenario": "cell",
        "settings": " ".join(f"{key}={value}" for key, value in own.items()),
        "out": str(out),
        "poll-s": 0.002,
        "join-s": 5.0,
    }


@lru_cache
def _share(device, settings_text):
    config = {"scenario": "cell", "settings": settings_text}
    return share_of(Context(0, 0, {"partition-id": device}, RecordDict(), config, 0))


def share(context, round):
    """`share_of`, computed once."""
    return _share(context.node_config["partition-id"], context.run_config["settings"])


def federation(config, spoil=lambda node, message, reply: reply, app=None, nodes=None):
    """A grid of four devices with the digits split among them."""
    nodes = nodes or {100 + device: {"partition-id": device} for device in range(4)}
    return InsideGrid(app or client_app(share), nodes, config, spoil)


def play(config, grid=None):
    """Run it to its end; returns the record."""
    flower.run(grid or federation(config), settings.read(config))
    return record.read(config["out"])


def notices(config):
    """What was told beside the rows."""
    return (Path(config["out"]) / flower.NOTICES).read_text()
