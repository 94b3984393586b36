"""FedDyn against a plain loop of the paper's algorithm with `torch.optim`, and what holds of what it remembers."""

import pytest
import torch
from kept_rows import matrix
from plain_training import ENGINES, LOSSY, MLP, cross_entropy, flat, run, trained, who

ALPHA = 0.5


def corrected(w, gradient):
    """The objective as the paper writes it."""

    def loss(net, x, y):
        now = flat(net)
        return cross_entropy(net, x, y) - gradient @ now + ALPHA / 2 * (now - w).square().sum()

    return loss


@pytest.mark.parametrize(("engine", "momentum"), ENGINES)
def test_rounds_are_those_of_a_plain_loop(small, engine, momentum):
    problem = small(LOSSY | {"train.engine": engine}, model=MLP, rounds=5)
    history, n = run(problem, f"feddyn:alpha={ALPHA},momentum={momentum}"), problem.world.n_devices
    w = problem.learner.initial()
    h, own = torch.zeros_like(w), torch.zeros(n, len(w))
    lost = 0
    for round, (row, after) in enumerate(history):
        asked, heard = who(row)
        lost += len(asked) - len(heard)
        ends = {k: trained(problem, w, k, round, momentum, corrected(w, own[k])) for k in heard}
        for k, end in ends.items():
            own[k] -= ALPHA * (end - w)
            h = h - ALPHA / n * (end - w)
        w = sum(ends.values()) / len(heard) - h / ALPHA if heard else w
        torch.testing.assert_close(after.params, w, rtol=1e-3, atol=1e-5)
        torch.testing.assert_close(after.method.common, h, rtol=1e-3, atol=1e-5)
        torch.testing.assert_close(matrix(after.method.own, w), own, rtol=1e-3, atol=1e-5)
        torch.testing.assert_close(after.method.common, own.mean(dim=0), rtol=1e-3, atol=1e-5)
    assert lost, "an upload must be lost, or nothing is seen of it"


def test_devices_with_other_data_drift_less(small):
    """Two labels per device and many full-batch steps: the average of local optima is not the optimum of all."""
    changes = {"data.partition": "shards", "train.batch_size": "0", "train.steps": "50", "train.lr": "0.3"}
    problem = small(changes, rounds=15)
    losses = {text: run(problem, text)[-1][0].metrics["loss"] for text in ("feddyn", "fedavg:weights=equal")}
    assert losses["feddyn"] < 0.9 * losses["fedavg:weights=equal"]
