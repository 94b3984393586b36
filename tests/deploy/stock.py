"""A stock Flower app: a ClientApp that knows nothing of fedcell, and a ServerApp with a strategy of it.

`strategy` and `rounds` come from the run configuration; the server writes the accuracies it measured to `result`.
"""

import json
from pathlib import Path

import numpy as np
import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from sklearn.datasets import load_digits
from torch import nn

X, Y = load_digits(return_X_y=True)
X, Y = torch.from_numpy((X / 16).astype(np.float32)), torch.from_numpy(Y).long()
TEST = 400


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 10))


client = ClientApp()


@client.train()
def train(message: Message, context: Context) -> Message:
    """Adam, label smoothing, and a loop of one's own."""
    model, k = network(), int(context.node_config["partition-id"])
    model.load_state_dict(message.content.array_records["arrays"].to_torch_state_dict())
    config = message.content.config_records["config"]
    mine = slice(TEST + k * 150, TEST + (k + 1) * 150)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(int(config["steps"])):
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(X[mine]), Y[mine], label_smoothing=0.05).backward()
        optimiser.step()
    state = model.state_dict()
    if context.node_config.get("wrong"):
        state = {name: 1e6 * value for name, value in state.items()}
    content = {"arrays": ArrayRecord(state), "metrics": MetricRecord({"num-examples": 150})}
    return Message(RecordDict(content), reply_to=message)


server = ServerApp()


@server.main()
def main(grid: Grid, context: Context) -> None:
    from fedcell.deploy import Strategy

    accuracies = []

    def evaluate(round: int, arrays: ArrayRecord) -> MetricRecord:
        model = network()
        model.load_state_dict(arrays.to_torch_state_dict())
        with torch.no_grad():
            accuracies.append(float((model(X[:TEST]).argmax(1) == Y[:TEST]).float().mean()))
        return MetricRecord({"accuracy": accuracies[-1]})

    strategy = Strategy(
        str(context.run_config["strategy"]),
        int(context.run_config["n-devices"]),
        fraction_evaluate=0.0,
        min_available_nodes=min(int(context.run_config["n-devices"]), 4),
        settings={"train.steps": 20},
    )
    found = strategy.start(
        grid,
        ArrayRecord(network().state_dict()),
        num_rounds=int(context.run_config["rounds"]),
        train_config=ConfigRecord(),
        evaluate_fn=evaluate,
        timeout=60,
    )
    told = {round: dict(metrics) for round, metrics in found.train_metrics_clientapp.items()}
    Path(str(context.run_config["result"])).write_text(json.dumps({"accuracy": accuracies, "told": told}))
