"""A device that does what `trouble.json` beside its state folder says: `{"device:round": "nan" | "shape" | seconds}`.

The client of the app that the tests of a real federation run; a number of seconds is slept before the answer.
"""

import json
import time
from pathlib import Path

from flwr.app import Array, ArrayRecord
from flwr.clientapp import ClientApp

from fedcell.deploy.client import client_app, share_of

well = client_app(share_of)
app = ClientApp()


@app.query()
def query(message, context):
    return well(message, context)


@app.train()
def train(message, context):
    folder = Path(context.node_config["state-dir"])
    key = f"{context.node_config['partition-id']}:{message.metadata.group_id}"
    (folder / f"asked{key.partition(':')[2]}").touch()
    kind = json.loads((folder.parent / "trouble.json").read_text()).get(key)
    if isinstance(kind, int | float):
        time.sleep(kind)
    reply = well(message, context)
    values = reply.content.array_records["arrays"]["update"].numpy().copy()
    if kind == "nan":
        values[7] = float("nan")
    elif kind == "shape":
        values = values[:-1]
    reply.content["arrays"] = ArrayRecord({"update": Array(values)})
    return reply
