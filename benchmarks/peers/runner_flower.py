"""Flower: a ServerApp with the FedAvg strategy and a ClientApp on the simulation engine (Ray, one CPU per actor).

The server says to every node of a round which client of the stored cohort it is. Actors keep the samples in memory.
"""

import json
import os
from typing import Any

os.environ |= {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0"}

import flower_client
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MessageType, RecordDict
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from work import Meter, Stored, as_vector, network, options

server = ServerApp()


class Timed(FedAvg):
    """FedAvg of as many nodes as the stored cohort has, without evaluation, with a clock."""

    def __init__(self, n_selected: int, n_clients: int) -> None:
        super().__init__(
            fraction_train=n_selected / n_clients,
            fraction_evaluate=0.0,
            min_train_nodes=n_selected,
            min_available_nodes=n_clients,
        )
        self.meter = Meter()

    def configure_train(self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid) -> Any:
        if server_round == 1:
            self.meter.begin()
        messages = super().configure_train(server_round, arrays, config, grid)
        return [self._placed(message, place) for place, message in enumerate(messages)]

    def _placed(self, message: Message, place: int) -> Message:
        given: Any = message.content
        placed = ConfigRecord({**given["config"], "place": place})
        content = RecordDict({"arrays": given["arrays"], "config": placed})
        return Message(content=content, message_type=MessageType.TRAIN, dst_node_id=message.metadata.dst_node_id)

    def aggregate_train(self, server_round: int, replies: Any) -> Any:
        found = super().aggregate_train(server_round, replies)
        self.meter.end()
        self.meter.begin()
        return found


def main() -> None:
    asked = options(__doc__)
    os.environ[flower_client.ASKED] = json.dumps([str(asked.task.resolve()), asked.channels_last])
    stored = Stored.read(asked.task, samples=False)
    about, module = stored.about, network(stored.about["model"], stored.start)

    @server.main()
    def serve(grid: Grid, context: Context) -> None:
        strategy = Timed(stored.cohort.shape[1], about["n_clients"])
        result = strategy.start(grid, ArrayRecord(module.state_dict()), num_rounds=asked.rounds)
        module.load_state_dict(result.arrays.to_torch_state_dict())
        strategy.meter.finish(asked.out, as_vector(module))

    resources: Any = {"client_resources": {"num_cpus": 1, "num_gpus": 0}, "init_args": {"num_cpus": asked.threads}}
    run_simulation(server, flower_client.app, about["n_clients"], backend_config=resources)


if __name__ == "__main__":
    main()
