"""q-FedAvg against its formula, device by device, and what fairness and losses cost."""

import pytest
import torch
from torch import nn

from fedcell import methods
from fedcell.simulate import simulate

LOSSY = {"data.partition": "shards", "world.availability": "0.7"}


def run(problem, text):
    return list(simulate(problem, methods.parse(text).build()))


def loss_of(problem, w, items):
    net = problem.learner.architectures[0].replica(torch.device("cpu"))
    nn.utils.vector_to_parameters(w, net.parameters())
    x, y = problem.learner.train_samples.take(items)
    return nn.functional.cross_entropy(net(x), y).item()


@pytest.mark.parametrize("q", [0.5, 2.0])
def test_rounds_are_the_formula(small, q):
    problem, seen = small(LOSSY, rounds=4), []
    method = methods.parse(f"qfedavg:q={q}").build()

    def spy(problem, params, state, played):
        seen.append((params, *played.received(), played.observation.store))
        return method.aggregate(problem, params, state, played)

    history = list(simulate(problem, method._replace(aggregate=spy)))
    for (w, device, rows, store), (_, after) in zip(seen, history, strict=True):
        above, below = torch.zeros_like(w, dtype=torch.float64), 0.0
        for k, row in zip(device, rows.double(), strict=True):
            loss, moved = loss_of(problem, w, store.items[k, : store.size[k]]), -row / problem.train.lr
            above += loss**q * moved
            below += q * loss ** (q - 1) * float(moved.square().sum()) + loss**q / problem.train.lr
        expected = w - (above / below).float() if len(device) else w
        torch.testing.assert_close(after.params, expected, rtol=1e-4, atol=1e-6)


def test_without_fairness_it_is_fedavg_with_equal_weights(small):
    problem = small(LOSSY, rounds=4)
    fair, plain = run(problem, "qfedavg:q=0"), run(problem, "fedavg:weights=equal")
    torch.testing.assert_close(fair[-1][1].params, plain[-1][1].params, rtol=1e-4, atol=1e-6)


def test_a_loss_costs_a_number_and_a_forward_pass(small):
    problem = small({"world.step_cycles": "0"}, rounds=1)
    held = problem.world.stream.start(problem.seed)[0].size
    trained = problem.train.steps * problem.train.batch_size
    (plain, _), (fair, _), (free, _) = (run(problem, text)[0] for text in ("fedavg", "qfedavg", "qfedavg:loss_cost=0"))
    assert fair.uplink_bit == plain.uplink_bit + 32 * plain.n_selected
    assert free.compute_joule == pytest.approx(plain.compute_joule)
    devices = problem.world.devices
    per_sample = devices.capacitance * devices.cycles_per_sample * devices.cpu_hz**2
    assert fair.compute_joule == pytest.approx((per_sample * (trained + held / 3)).sum())


def test_behind_a_coding_the_loss_is_sent_as_it_is(small):
    problem = small(rounds=1)
    (plain, _), (fair, _) = (run(problem, f"{name}+topk:fraction=0.1")[0] for name in ("fedavg", "qfedavg"))
    assert fair.uplink_bit == plain.uplink_bit + 32 * plain.n_selected
