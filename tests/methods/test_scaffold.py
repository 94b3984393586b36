"""SCAFFOLD against a plain loop with `torch.optim`, and what holds of control variates."""

import pytest
import torch
from kept_rows import matrix
from plain_training import ENGINES, LOSSY, MLP, cross_entropy, flat, run, trained, who

from fedcell.learn.settings import ModelConfig

NETS = {"mlp": MLP, "cnn": ModelConfig(name="cnn", channels=(3,), kernel=3, padding=1, hidden=())}


def shifted(shift):
    """The loss with a linear term."""
    return lambda net, x, y: cross_entropy(net, x, y) + shift @ flat(net)


@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize(("engine", "momentum"), ENGINES)
def test_rounds_are_those_of_a_plain_loop(small, net, engine, momentum):
    problem = small(LOSSY | {"train.engine": engine}, model=NETS[net], rounds=5)
    history, n = run(problem, f"scaffold:server_lr=0.8,momentum={momentum}"), problem.world.n_devices
    x = problem.learner.initial()
    c, own = torch.zeros_like(x), torch.zeros(n, len(x))
    lost = 0
    for round, (row, after) in enumerate(history):
        asked, heard = who(row)
        lost += len(asked) - len(heard)
        ends = [trained(problem, x, k, round, momentum, shifted(c - own[k])) for k in heard]
        # a gradient of step j is in K - j velocities, with falling weight
        weight = sum(sum(momentum**i for i in range(j + 1)) for j in range(problem.train.steps))
        new = {k: own[k] - c + (x - y) / (weight * problem.train.lr) for k, y in zip(heard, ends, strict=True)}
        c = c + sum(new[k] - own[k] for k in heard) / n if heard else c
        x = x + 0.8 * sum(y - x for y in ends) / len(ends) if heard else x
        for k in heard:
            own[k] = new[k]
        torch.testing.assert_close(after.params, x, rtol=1e-3, atol=1e-5)
        torch.testing.assert_close(after.method.common, c, rtol=1e-3, atol=1e-4)
        torch.testing.assert_close(matrix(after.method.own, x), own, rtol=1e-3, atol=1e-4)
        torch.testing.assert_close(after.method.common, own.mean(dim=0), rtol=1e-3, atol=1e-4)
    assert lost, "an upload must be lost, or nothing is seen of it"


def test_the_first_round_is_fedavg(small):
    problem = small()
    mine, plain = run(problem, "scaffold"), run(problem, "fedavg:weights=equal")
    torch.testing.assert_close(mine[0][1].params, plain[0][1].params, rtol=1e-6, atol=1e-7)
    assert not torch.allclose(mine[1][1].params, plain[1][1].params, atol=1e-5)
    assert [row.uplink_bit for row, _ in mine] == [row.uplink_bit for row, _ in plain], "one vector is sent"


def test_devices_with_other_data_drift_less(small):
    """Two labels per device and many full-batch steps: the average of local optima is not the optimum of all."""
    changes = {"data.partition": "shards", "train.batch_size": "0", "train.steps": "50", "train.lr": "0.3"}
    problem = small(changes, rounds=15)
    losses = {name: run(problem, f"{name}:weights=equal")[-1][0].metrics["loss"] for name in ("scaffold", "fedavg")}
    assert losses["scaffold"] < 0.9 * losses["fedavg"]
