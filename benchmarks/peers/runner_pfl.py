"""pfl: `FederatedAveraging` on a `SimulatedBackend`, in one process or several (`--setting processes=2`).

A user's data set lists its samples in the order of the stored mini-batches, which pfl walks through without shuffling.
Several processes are those of `torch.distributed`, as torchrun would start them, each with one thread per kernel.
"""

import dataclasses
import os
import socket
import subprocess
import sys
from typing import Any

from work import Meter, Options, Stored, as_vector, full_precision, network, options, tensors


def main() -> None:
    asked = options(__doc__)
    n_processes = int(asked.setting.get("processes", 1))
    others = start_others(n_processes) if n_processes > 1 and "RANK" not in os.environ else []
    train(asked, n_processes)
    for other in others:
        other.wait()


def start_others(n_processes: int) -> list[subprocess.Popen[bytes]]:
    """Make this process rank 0 of several, and start the rest."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": str(n_processes)}
    common |= {"LOCAL_WORLD_SIZE": str(n_processes), "TORCHELASTIC_RUN_ID": "peers"}
    os.environ |= common | {"RANK": "0", "LOCAL_RANK": "0"}
    return [
        subprocess.Popen([sys.executable, *sys.argv], env={**os.environ, "RANK": str(rank), "LOCAL_RANK": str(rank)})
        for rank in range(1, n_processes)
    ]


def train(asked: Options, n_processes: int) -> None:
    import torch
    from pfl.aggregate.simulate import SimulatedBackend  # type: ignore[import-not-found]
    from pfl.algorithm.base import NNAlgorithmParams  # type: ignore[import-not-found]
    from pfl.algorithm.federated_averaging import FederatedAveraging  # type: ignore[import-not-found]
    from pfl.callback.base import TrainingProcessCallback  # type: ignore[import-not-found]
    from pfl.data.dataset import Dataset  # type: ignore[import-not-found]
    from pfl.data.federated_dataset import FederatedDataset  # type: ignore[import-not-found]
    from pfl.hyperparam.base import NNTrainHyperParams  # type: ignore[import-not-found]
    from pfl.metrics import Metrics  # type: ignore[import-not-found]
    from pfl.model.pytorch import PyTorchModel  # type: ignore[import-not-found]
    from torch.nn import functional

    full_precision()
    torch.set_num_threads(max(1, asked.threads // n_processes))
    stored = Stored.read(asked.task)
    x, y = tensors(stored, asked.channels_last, asked.device)
    module: Any = network(stored.about["model"], stored.start, asked.channels_last).to(asked.device)
    module.loss = lambda inputs, labels: functional.cross_entropy(module(inputs), labels)
    module.metrics = lambda *values: {}  # asked for, never called: nothing is evaluated
    meter = Meter(asked.device) if os.environ.get("RANK", "0") == "0" else None
    n_rounds, n_selected = stored.cohort.shape

    class Silent(FederatedAveraging):  # type: ignore[misc]
        """FedAvg that does not evaluate users in the first round either."""

        def simulate_one_user(self, model: Any, user_dataset: Any, central_context: Any) -> Any:
            quiet = dataclasses.replace(central_context, do_evaluation=False)
            return super().simulate_one_user(model, user_dataset, quiet)

    class Clock(TrainingProcessCallback):  # type: ignore[misc]
        def on_train_begin(self, *, model: Any) -> Any:
            if meter:
                meter.begin()
            return Metrics()

        def after_central_iteration(self, aggregate_metrics: Any, model: Any, *, central_iteration: int) -> Any:
            if meter:
                meter.end()
                if central_iteration + 1 < asked.rounds:
                    meter.begin()
            return False, Metrics()

    def user(turn: tuple[int, int]) -> Any:
        index = torch.from_numpy(stored.batches[turn].reshape(-1)).to(asked.device)
        return Dataset((x[index], y[index]))

    turns = iter([(number, place) for number in range(n_rounds) for place in range(n_selected)])
    data = FederatedDataset(user, lambda: next(turns))
    model = PyTorchModel(module, torch.optim.SGD, torch.optim.SGD(module.parameters(), lr=1.0))
    rules = NNAlgorithmParams(
        central_num_iterations=asked.rounds,
        evaluation_frequency=10**9,
        train_cohort_size=n_selected,
        val_cohort_size=0,
    )
    local = NNTrainHyperParams(
        local_num_epochs=1, local_learning_rate=stored.about["lr"], local_batch_size=stored.about["batch_size"]
    )
    Silent().run(rules, SimulatedBackend(data, data), model, local, callbacks=[Clock()], send_metrics_to_platform=False)
    if meter:
        meter.finish(asked.out, as_vector(module))


if __name__ == "__main__":
    main()
