"""SCAFFOLD by pfl on a problem of twelve samples: the numbers that tests/methods/test_scaffold_pfl.py holds fedcell to.

    python benchmarks/peers/scaffold_reference.py     # in an environment with pfl 0.6.0

Three users, all in every round, two full-batch steps, option II and option I of the paper.
"""

import json
from typing import Any

import torch
from torch.nn import functional

N_USERS, N_SAMPLES, N_INPUTS, N_CLASSES, ROUNDS, STEPS, RATE = 3, 4, 3, 2, 3, 2, 0.5


def data() -> tuple[torch.Tensor, torch.Tensor]:
    """`x [n_users, n_samples, n_inputs]`, `y [n_users, n_samples]`: no draws."""
    shape = (N_USERS, N_SAMPLES, N_INPUTS)
    x = torch.sin(torch.arange(36, dtype=torch.float64) ** 2).reshape(shape).float()
    return x, (torch.arange(12) * 5 % 7 % 2).reshape(shape[:2])


def network() -> Any:
    """A linear classifier with weights of no meaning."""
    net = torch.nn.Linear(N_INPUTS, N_CLASSES)
    with torch.no_grad():
        net.weight.copy_(torch.cos(torch.arange(6.0)).reshape(2, 3))
        net.bias.copy_(torch.tensor([0.1, -0.2]))
    return net


def train(option_one: bool) -> list[list[float]]:
    """The model after every round."""
    from pfl.aggregate.simulate import SimulatedBackend  # type: ignore[import-not-found]
    from pfl.algorithm.scaffold import SCAFFOLD, SCAFFOLDParams  # type: ignore[import-not-found]
    from pfl.callback.base import TrainingProcessCallback  # type: ignore[import-not-found]
    from pfl.data.dataset import Dataset  # type: ignore[import-not-found]
    from pfl.data.federated_dataset import FederatedDataset  # type: ignore[import-not-found]
    from pfl.data.user_state import InMemoryUserStateStorage  # type: ignore[import-not-found]
    from pfl.hyperparam.base import NNTrainHyperParams  # type: ignore[import-not-found]
    from pfl.metrics import Metrics  # type: ignore[import-not-found]
    from pfl.model.pytorch import PyTorchModel  # type: ignore[import-not-found]

    x, y = data()
    module, found = network(), []
    module.loss = lambda inputs, labels: functional.cross_entropy(module(inputs), labels)
    module.metrics = lambda *values: {}

    class Note(TrainingProcessCallback):  # type: ignore[misc]
        def after_central_iteration(self, aggregate_metrics: Any, model: Any, *, central_iteration: int) -> Any:
            found.append(torch.cat([part.detach().flatten() for part in module.parameters()]).tolist())
            return False, Metrics()

    turns = iter([user for _ in range(ROUNDS) for user in range(N_USERS)])
    users = FederatedDataset(lambda user: Dataset((x[user], y[user]), user_id=str(user)), lambda: next(turns))
    model = PyTorchModel(module, torch.optim.SGD, torch.optim.SGD(module.parameters(), lr=1.0))
    rules = SCAFFOLDParams(
        central_num_iterations=ROUNDS,
        evaluation_frequency=10**9,
        train_cohort_size=N_USERS,
        val_cohort_size=0,
        population=N_USERS,
        use_gradient_as_control_variate=option_one,
        user_state_storage=InMemoryUserStateStorage(),
    )
    local = NNTrainHyperParams(local_num_epochs=STEPS, local_learning_rate=RATE, local_batch_size=None)
    backend = SimulatedBackend(users, users)
    SCAFFOLD().run(rules, backend, model, local, callbacks=[Note()], send_metrics_to_platform=False)
    return found


if __name__ == "__main__":
    print(json.dumps({"option II": train(False), "option I": train(True)}, indent=1))
