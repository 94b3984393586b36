"""The client of the Flower runner, in a module of its own so that Ray's actors can import it."""

import json
import os
from functools import cache
from typing import Any

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from work import Stored, local_sgd, network, tensors

app = ClientApp()
ASKED = "PEERS_FLOWER"  # environment: task and layout, for the actors


@cache
def held() -> tuple[Stored, torch.Tensor, torch.Tensor, torch.nn.Module]:
    """What an actor loads once: the work, its tensors, a module."""
    task, channels_last = json.loads(os.environ[ASKED])
    torch.set_num_threads(1)
    stored = Stored.read(task)
    return stored, *tensors(stored, channels_last), network(stored.about["model"], None, channels_last)


@app.train()
def train(message: Message, context: Context) -> Message:
    stored, x, y, module = held()
    given: Any = message.content
    module.load_state_dict(given["arrays"].to_torch_state_dict())
    batches = stored.batches[given["config"]["server-round"] - 1, given["config"]["place"]]
    local_sgd(module, x, y, batches, stored.about["lr"])
    found: Any = {"arrays": ArrayRecord(module.state_dict()), "metrics": MetricRecord({"num-examples": batches.size})}
    return Message(content=RecordDict(found), reply_to=message)
