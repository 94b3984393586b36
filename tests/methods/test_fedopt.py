"""FedAdam, FedYogi and FedAdagrad against NumPy by hand, and a round of each against Flower's own strategies."""

from pathlib import Path

import numpy as np
import pytest
import torch
from flwr.common import Code, FitRes, Status, ndarrays_to_parameters, parameters_to_ndarrays
from flwr.server.strategy import FedAdagrad, FedAdam, FedYogi

from fedcell import methods
from fedcell.simulate import simulate

FLOWER = {"adam": FedAdam, "yogi": FedYogi, "adagrad": FedAdagrad}
EXAMPLE = str(Path(__file__).parents[2] / "examples" / "fed_adam.py")
LOSSY = {"world.availability": "0.7", "data.partition": "dirichlet"}


def spied(method, seen):
    """The method, with what each round of it was given."""

    def aggregate(problem, params, state, played):
        seen.append((*played.received(), played.observation.store.size))
        return method.aggregate(problem, params, state, played)

    return method._replace(aggregate=aggregate)


def played(problem, text):
    seen = []
    history = list(simulate(problem, spied(methods.parse(text).build(), seen)))
    return [(*given, after.params.numpy()) for given, (_, after) in zip(seen, history, strict=True)]


def by_hand(rule, w, moments, update, lr, beta1, beta2, tau):
    """One step of the server, entry by entry."""
    m, v = (moment.copy() for moment in moments)
    for i, d in enumerate(update):
        m[i] = beta1 * m[i] + (1 - beta1) * d
        if rule == "adagrad":
            v[i] += d * d
        elif rule == "adam":
            v[i] = beta2 * v[i] + (1 - beta2) * d * d
        elif v[i] > d * d:
            v[i] -= (1 - beta2) * d * d
        elif v[i] < d * d:
            v[i] += (1 - beta2) * d * d
    return w + lr * m / (np.sqrt(v) + tau), (m, v)


@pytest.mark.parametrize("start", [0.0, 1e-4])
@pytest.mark.parametrize("rule", FLOWER)
def test_rounds_are_those_of_numpy_by_hand(small, rule, start):
    problem = small(LOSSY, rounds=5)
    text = f"fedopt:rule={rule},server_lr=0.02,beta1=0.8,beta2=0.95,tau=0.01,second_start={start}"
    w = problem.learner.initial().double().numpy()
    moments = (np.zeros_like(w), np.full_like(w, start))
    for device, rows, size, after in played(problem, text):
        if len(device):
            update = size[device] @ rows.double().numpy() / size[device].sum()
            w, moments = by_hand(rule, w, moments, update, 0.02, 0.8, 0.95, 0.01)
        np.testing.assert_allclose(after, w, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("rule", FLOWER)
def test_a_round_is_that_of_flower(small, rule):
    """Flower's FedAdam multiplies the step by a bias correction that neither the paper nor its other two have."""
    problem, start = small(LOSSY, rounds=1), small(LOSSY, rounds=1).learner.initial().numpy()
    beta1 = 0.0 if rule == "adagrad" else 0.8  # Flower's FedAdagrad has none
    settings = {} if rule == "adagrad" else {"beta_1": beta1, "beta_2": 0.95}
    flower = FLOWER[rule](initial_parameters=ndarrays_to_parameters([start]), eta=0.02, tau=0.01, **settings)
    correction = np.sqrt(1 - 0.95**2) / (1 - 0.8**2) if rule == "adam" else 1.0  # of its round 1
    text = f"fedopt:rule={rule},server_lr={0.02 * correction},beta1={beta1},beta2=0.95,tau=0.01"
    ((device, rows, size, after),) = played(problem, text)
    answers = [
        (None, FitRes(Status(Code.OK, ""), ndarrays_to_parameters([start + row.numpy()]), int(size[k]), {}))
        for k, row in zip(device, rows, strict=True)
    ]
    found, _ = flower.aggregate_fit(1, answers, [])
    np.testing.assert_allclose(after, parameters_to_ndarrays(found)[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("rule", FLOWER)
def test_every_rule_learns_and_differs(small, rule):
    problem = small(rounds=15)
    history = list(simulate(problem, methods.parse(f"fedopt:rule={rule}").build()))
    assert history[-1][0].metrics["accuracy"] > 0.6
    other = list(simulate(problem, methods.parse(f"fedopt:rule={'adam' if rule != 'adam' else 'yogi'}").build()))
    assert not torch.allclose(history[-1][1].params, other[-1][1].params, atol=1e-4)


def test_it_is_the_example(small):
    problem = small(LOSSY, rounds=4)
    mine, example = (list(simulate(problem, methods.parse(name).build())) for name in ("fedopt", EXAMPLE))
    assert torch.equal(mine[-1][1].params, example[-1][1].params)
