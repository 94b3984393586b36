"""Every coding inside methods that sum updates: learning, error feedback, bits, and large cohorts."""

import numpy as np
import pytest
import torch
from kept_rows import matrix

from fedcell import coding, methods
from fedcell.rng import stream
from fedcell.simulate import simulate

LOSSY = {  # uploads are lost
    "world.access": "block",
    "world.n_blocks": "3",
    "world.interference_over_noise": "1e2..1e5",
    "world.outage_threshold_db": "10",
    "world.pathloss": "power_law",
}
SETTINGS = {  # that the networks of these tests learn with
    "topk": "fraction=0.3",
    "randk": "fraction=0.3",
    "stc": "fraction=0.3",
    "qsgd": "levels=4",
    "sign": "",
    "cast": "to=int8",
    "powersgd": "rank=2",
}
CODINGS = [name for name in coding.names() if name != "private"]  # which codes a sum: test_summed.py has it
FED_BACK = [name for name in CODINGS if "feedback" in coding.load(name).Config.__dataclass_fields__]


def text_of(method, name, *more):
    return ":".join(filter(None, [f"{method}+{name}", ",".join(filter(None, [SETTINGS[name], *more]))]))


def memory_of(problem, name):
    """Numbers that a device remembers beside what it did not send."""
    code = methods.load(f"fedavg+{name}").coding.build(methods.parse(text_of("fedavg", name)).config)
    return code.for_network(problem.learner.architectures[0].shapes).n_memory


def test_every_coding_is_tested_here():
    assert sorted(SETTINGS) == CODINGS
    assert sorted({*FED_BACK, "qsgd"}) == CODINGS


@pytest.mark.parametrize("method", ["fedavg", "osafl"])
@pytest.mark.parametrize("name", CODINGS)
def test_rows_have_fewer_bits_than_plain_ones_and_learn(small, name, method):
    problem = small(rounds=15)
    rows = [row for row, _ in simulate(problem, methods.parse(text_of(method, name)).build())]
    plain = [row for row, _ in simulate(problem, methods.parse(method).build())]
    assert all(row.uplink_bit < other.uplink_bit for row, other in zip(rows, plain, strict=True))
    assert rows[-1].metrics["accuracy"] > 0.6


@pytest.mark.parametrize("lost", ["dropped", "kept"])
@pytest.mark.parametrize("name", FED_BACK)
def test_what_is_sent_and_what_devices_keep_are_all_updates(small, name, lost):
    """Over rounds in which uploads are lost; with `kept`, what is delivered and what they keep."""
    problem = small(LOSSY, rounds=5)
    method = methods.parse(text_of("fedavg", name, f"lost={lost}")).build()
    n, played, n_lost = problem.learner.n_params, [], 0
    width = n + memory_of(problem, name)
    updates, sent = torch.zeros(6, n, dtype=torch.float64), torch.zeros(6, n, dtype=torch.float64)

    def encode(problem, state, given, *rest):
        updates[given.device] += given.delta.double()
        found = method.encode(problem, state, given, *rest)
        played.append((found.device, found.delta.clone()))
        return found

    for row, after in simulate(problem, method._replace(encode=encode)):
        device, rows = played.pop()
        arrived = np.array([row.outcome[k] == "D" for k in device])
        n_lost += int((~arrived).sum())
        counts = arrived if lost == "kept" else np.ones_like(arrived)
        sent[device[counts]] += rows[torch.from_numpy(counts)].double()
        rest = matrix(after.method.rest, torch.zeros(width)).double()[:, :n]
        torch.testing.assert_close(sent + rest, updates, rtol=0, atol=1e-5)
    assert n_lost > 0


@pytest.mark.parametrize("name", ["qsgd", "stc"])
def test_seconds_and_joules_follow_the_bits_of_each_payload(small, name):
    """Lengths differ from device to device; decisions are planned with the longest."""
    problem = small({"world.access": "own_band"})
    method = methods.parse(text_of("fedavg", name)).build()
    bits, planned = [], []

    def encode(problem, state, updates, observation, decision):
        found = method.encode(problem, state, updates, observation, decision)
        bits.append(found.bit)
        planned.append(decision.payload_bit)
        return found

    rows = [row for row, _ in simulate(problem, method._replace(encode=encode))]
    assert [row.uplink_bit for row in rows] == [one.sum() for one in bits]
    assert len(set(np.concatenate(bits))) > 1
    assert all((one <= most).all() for one, most in zip(bits, planned, strict=True))


@pytest.mark.parametrize("name", ["qsgd", "randk"])
def test_devices_and_rounds_draw_apart(small, name):
    """Of equal updates the server gets different rows."""
    method, seen = methods.parse(text_of("fedavg", name)).build(), []

    def encode(problem, state, updates, *rest):
        found = method.encode(problem, state, updates._replace(rows=torch.ones_like(updates.delta)), *rest)
        seen.extend(found.delta.unbind())
        return found

    list(simulate(small(rounds=2), method._replace(encode=encode)))
    assert len({row.numpy().tobytes() for row in seen}) == len(seen) == 12


def test_large_cohorts_draw_as_small_ones_do(small, in_blocks):
    problem = small({"world.n_devices": "9", "train.workers": "2"})
    method = methods.parse("fedavg+randk:fraction=0.3").build()
    whole = list(simulate(problem, method))
    in_blocks(2)
    for (row, after), (other, again) in zip(whole, simulate(problem, method), strict=True):
        assert row.outcome == other.outcome
        torch.testing.assert_close(after.params, again.params, rtol=1e-5, atol=1e-6)


def test_warm_starts_of_a_run_are_those_of_a_plain_loop(small):
    """PowerSGD on six devices, three of them a round: each begins with its own last factor."""
    problem, n = small(rounds=6), small().learner.n_params
    choice = methods.parse("fedavg+powersgd:rank=1,scheduler=random,n_selected=3")
    code = choice.module.coding.build(choice.config).for_network(problem.learner.architectures[0].shapes)
    method, kept, seen = choice.build(), {}, []

    def encode(problem, state, given, observation, decision):
        found = method.encode(problem, state, given, observation, decision)
        for device, update, got in zip(given.device.tolist(), given.delta, found.delta, strict=True):
            u, payload = code.send(update, kept.get(device), stream(11, observation.round, f"coding {device}"))
            torch.testing.assert_close(got, code.decode(payload, n), rtol=1e-5, atol=1e-6)
            seen.append(device in kept)
            kept[device] = torch.cat([u - code.decode(payload, n), payload["right"]])
        return found

    *_, (_, after) = simulate(problem, method._replace(encode=encode))
    rows = matrix(after.method.rest, torch.zeros(code.n_kept(n)))
    for device, row in kept.items():
        torch.testing.assert_close(rows[device], row, rtol=1e-5, atol=1e-6)
    assert code.n_memory == 64
    assert 0 < sum(seen) < len(seen)
