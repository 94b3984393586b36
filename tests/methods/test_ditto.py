"""Ditto against a plain loop with `torch.optim`, and between training alone and the global model."""

import numpy as np
import pytest
import torch
from plain_training import ENGINES, LOSSY, MLP, cross_entropy, flat, run, trained, who

from fedcell.methods.parts.personal import own_models

MU = 0.7


def pulled(anchor):
    """The loss with a proximal term."""
    return lambda net, x, y: cross_entropy(net, x, y) + MU / 2 * (flat(net) - anchor).square().sum()


@pytest.mark.parametrize(("engine", "momentum"), ENGINES)
def test_rounds_are_those_of_a_plain_loop(small, engine, momentum):
    problem = small(LOSSY | {"train.engine": engine}, model=MLP, rounds=5)
    history = run(problem, f"ditto:mu={MU},weights=equal,momentum={momentum}")
    w = problem.learner.initial()
    own, lost = [w] * problem.world.n_devices, 0
    for round, (row, after) in enumerate(history):
        asked, heard = who(row)
        lost += len(asked) - len(heard)
        for k in asked:  # also if the upload is lost
            own[k] = trained(problem, own[k], k, round, momentum, pulled(w))
        ends = [trained(problem, w, k, round, momentum, cross_entropy) for k in heard]
        w = sum(ends) / len(ends) if heard else w
        torch.testing.assert_close(after.params, w, rtol=1e-3, atol=1e-5)
        found = own_models(problem, after.params, after.method, np.arange(len(own)))
        torch.testing.assert_close(found, torch.stack(own), rtol=1e-3, atol=1e-5)
    assert lost, "an upload must be lost, or nothing is seen of it"


def test_the_global_model_is_that_of_fedavg_at_twice_the_computing(small):
    problem = small({"data.partition": "shards"}, rounds=3)
    mine, plain = run(problem, "ditto"), run(problem, "fedavg")
    assert torch.equal(mine[-1][1].params, plain[-1][1].params)
    assert mine[0][0].compute_joule == pytest.approx(2 * plain[0][0].compute_joule)
    assert mine[0][0].uplink_bit == plain[0][0].uplink_bit, "own models are never sent"
    own = run(problem, "ditto:judged=own")[-1][0].metrics
    whole, accuracy = mine[-1][0].metrics, plain[-1][0].metrics["accuracy"]
    assert own["global_accuracy"] == whole["accuracy"] == accuracy
    assert own["accuracy"] == whole["personal_accuracy"] != accuracy


def test_a_stronger_pull_ends_nearer_to_the_global_model(small):
    problem, away = small({"data.partition": "shards", "train.steps": "10"}, rounds=5), []
    for mu in (0.0, 0.5, 5.0):
        _, after = run(problem, f"ditto:mu={mu}")[-1]
        own = own_models(problem, after.params, after.method, np.arange(6))
        away.append(float((own - after.params).norm()))
    assert away[0] > 1.1 * away[1] > 1.1**2 * away[2]
    last = run(problem, "ditto")[-1][0].metrics
    assert last["personal_accuracy"] > last["accuracy"] + 0.1, "with two labels per device own models know better"
