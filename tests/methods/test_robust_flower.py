"""Rounds of the robust rules against Flower's own strategies, on the same updates of a world with attackers."""

import numpy as np
import pytest
import torch
from flwr.common import Code, FitRes, Status, ndarrays_to_parameters, parameters_to_ndarrays
from flwr.server.strategy import FedMedian, FedTrimmedAvg, Krum

from fedcell import methods
from fedcell.simulate import simulate

WORLD = {
    "world.n_devices": "11",
    "world.attack": "sign_flip",
    "world.attackers": "0.2",
    "world.availability": "0.9",
    "data.partition": "dirichlet",
}
RULES = {
    "rule=median": FedMedian,
    "rule=trimmed,trim=0.2": lambda **given: FedTrimmedAvg(beta=0.2, **given),
    "rule=krum,n_wrong=2,n_kept=1": lambda **given: Krum(num_malicious_clients=2, **given),
    "rule=krum,n_wrong=2,n_kept=4": lambda **given: Krum(num_malicious_clients=2, num_clients_to_keep=4, **given),
}


def answers(before, device, rows, size):
    """What Flower's clients would send: models, and how many samples they hold."""
    for k, row in zip(device.tolist(), rows, strict=True):
        model = ndarrays_to_parameters([before + row.numpy()])
        yield None, FitRes(Status(Code.OK, ""), model, int(size[k]), {})


@pytest.mark.parametrize("rule", RULES)
def test_rounds_are_those_of_flower(small, rule):
    problem, seen = small(WORLD, rounds=4), []
    method = methods.parse(f"robust:{rule}").build()

    def aggregate(problem, params, state, played):
        seen.append((params.numpy().copy(), *played.received(), played.observation.store.size))
        return method.aggregate(problem, params, state, played)

    for _, after in simulate(problem, method._replace(aggregate=aggregate)):
        before, device, rows, size = seen.pop()
        assert len(device) > 5
        strategy = RULES[rule](initial_parameters=ndarrays_to_parameters([before]))
        found, _ = strategy.aggregate_fit(1, list(answers(before, device, rows, size)), [])
        np.testing.assert_allclose(after.params.numpy(), parameters_to_ndarrays(found)[0], rtol=1e-5, atol=1e-6)
        assert not torch.allclose(after.params, torch.from_numpy(before + rows.mean(dim=0).numpy()), atol=1e-4)
