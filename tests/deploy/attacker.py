"""The client of the attacks: the last device does what `attack.json` beside its state folder says for a round."""

import json
import os
from pathlib import Path

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord
from flwr.clientapp import ClientApp

from fedcell.deploy.client import client_app, share_of

CHANGES = {
    "huge (3e38)": lambda values: np.full_like(values, 3e38),
    "scaled x1000": lambda values: 1000 * values,
    "scaled x8, flipped": lambda values: -8 * values,
    "sign-flipped": lambda values: -values,
    "noise": lambda values: np.random.default_rng(0).normal(0, values.std(), len(values)),
    "NaN": lambda values: np.where(np.arange(len(values)) == 3, np.nan, values),
    "wrong shape": lambda values: values[:-1],
    "flood of 100 MB": lambda values: np.zeros(25_000_000, dtype=np.float32),
}
FACTS = {"wrong round": {"round": 0}, "false id": {"device": 0}, "inflated counts": {"counts": [4_400_000] * 10}}
app = ClientApp()
well = client_app(share_of)


def wrong(kind, reply, first):
    """The answer of a device that attacks; `first` is its update of the first round."""
    update = reply.content.array_records["arrays"]["update"].numpy()
    if kind in CHANGES:
        update = CHANGES[kind](update)
    if kind == "replay":
        update = first
    if kind == "inflated counts":
        update = -update
    reply.content["arrays"] = ArrayRecord({"update": Array(np.asarray(update, dtype=np.float32))})
    facts = reply.content.config_records["facts"]
    reply.content["facts"] = ConfigRecord({**facts, **FACTS.get(kind, {})})
    return reply


@app.query()
def query(message, context):
    return well(message, context)


@app.train()
def train(message, context):
    folder, round = Path(context.node_config["state-dir"]), int(message.metadata.group_id)
    asked = json.loads((folder.parent / "attack.json").read_text())
    reply = well(message, context)
    if context.node_config["partition-id"] != asked["device"]:
        return reply
    (folder / f"asked{round}").touch()
    first = folder / "first.npy"
    if not first.exists():
        np.save(first, reply.content.array_records["arrays"]["update"].numpy())
    kind = asked["kinds"][round]
    if kind == "killed":
        os.kill(os.getpid(), 9)  # in the middle of its answer
    return wrong(kind, reply, np.load(first))
