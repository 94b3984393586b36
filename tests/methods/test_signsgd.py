"""signSGD: votes against a plain loop, one bit per entry, and large cohorts."""

import pytest
import torch

from fedcell import methods
from fedcell.deploy.coded import told
from fedcell.errors import BadInput
from fedcell.simulate import simulate


def run(problem, text):
    return list(simulate(problem, methods.parse(text).build()))


@pytest.mark.parametrize("weights", ["equal", "samples"])
def test_rounds_are_those_of_a_plain_loop(small, weights):
    problem = small({"data.partition": "dirichlet", "world.availability": "0.8"}, rounds=6)
    method, seen = methods.parse(f"signsgd:weights={weights},server_lr=0.02").build(), []

    def encode(problem, state, updates, observation, decision):
        size = observation.store.size[updates.device].tolist()
        seen.append((updates.delta.clone(), size if weights == "samples" else [1] * len(size)))
        return method.encode(problem, state, updates, observation, decision)

    w, draws = problem.learner.initial(), 0
    for row, after in simulate(problem, method._replace(encode=encode)):
        delta, sizes = seen[-1]
        votes = torch.zeros_like(w)
        for update, size in zip(delta, sizes, strict=True):
            votes += size * torch.where(update >= 0, 1.0, -1.0)
        draws += int((votes == 0).sum())
        w = w + 0.02 * votes.sign()
        torch.testing.assert_close(after.params, w, rtol=0, atol=1e-6)
        assert row.uplink_bit == row.n_selected * len(w), "one bit per entry"
    assert draws or weights == "samples", "of an even number of devices"


def test_it_learns_and_costs_a_thirty_second(small):
    problem = small(rounds=20)
    mine, plain = run(problem, "signsgd:server_lr=0.02"), run(problem, "fedavg")
    assert mine[-1][0].metrics["accuracy"] > 0.7
    assert mine[0][0].uplink_bit * 32 == plain[0][0].uplink_bit
    assert mine[0][0].radio_joule == pytest.approx(plain[0][0].radio_joule / 32)


def test_votes_of_large_cohorts_are_counted_as_they_are_trained(small, in_blocks):
    problem = small({"world.n_devices": "9", "train.workers": "2"}, rounds=1)
    ((_, whole),) = run(problem, "signsgd")
    in_blocks(2)
    ((_, parts),) = run(problem, "signsgd")
    other = (whole.params - parts.params).abs() > 1e-5
    assert other.float().mean() < 0.02, "but for updates that are zero up to rounding"


def test_an_update_that_is_not_finite_has_no_vote(small):
    problem, method = small(rounds=1), methods.parse("signsgd").build()

    def poisoned(*given):
        updates = method.local(*given)
        updates.delta[2, 5] = float("nan")
        return updates

    ((row, after),) = simulate(problem, method._replace(local=poisoned))
    assert row.outcome == "DDXDDD"
    assert after.params.isfinite().all()


def test_it_has_its_coding_on_devices_and_takes_no_other():
    assert told(methods.parse("signsgd"))["settings"]["scale"] == "one"
    with pytest.raises(BadInput, match="topk does not go with signsgd: it has a coding already"):
        methods.parse("signsgd+topk").build()
