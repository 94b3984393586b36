"""Attackers of the world: who they are, what they send, that all methods meet the same, and who refuses them."""

import numpy as np
import pytest
import torch
from small_config import SMALL

from fedcell import attacking, methods
from fedcell.deploy.refusals import refuse_what_is_simulated
from fedcell.errors import BadInput
from fedcell.learn import deferred
from fedcell.methods.parts.robust import cleaned
from fedcell.options import override
from fedcell.plan.untrained import play
from fedcell.scenarios import Config, build_problem, get
from fedcell.simulate import SIMULATED, begin, play_round, simulate
from fedcell.world.attack import AttackConfig, attackers

SENT = ("sign_flip", "scale", "noise")


def world(attack, share=0.34, scale=3.0):
    return {"world.attack": attack, "world.attackers": str(share), "world.attack_scale": str(scale)}


def sent_by(problem, text="fedavg", rounds=1):
    """What devices trained and what went to `encode`, round by round."""
    method, seen = methods.parse(text).build(), []

    def local(*given):
        updates = method.local(*given)
        seen.append([updates.delta.clone(), None])
        return updates

    def encode(problem, state, updates, *given):
        seen[-1][1] = updates.delta.clone()
        return method.encode(problem, state, updates, *given)

    played = list(simulate(problem._replace(n_rounds=rounds), method._replace(local=local, encode=encode)))
    return seen, played


def test_attackers_are_a_share_drawn_once_and_shares_are_nested():
    few, many = (attackers(AttackConfig("scale", share), 50, 3) for share in (0.1, 0.4))
    assert (few.sum(), many.sum()) == (5, 20)
    assert (many[few]).all()
    assert (attackers(AttackConfig("scale", 0.4), 50, 4) != many).any(), "another seed draws others"
    assert not attackers(AttackConfig("none", 0.4), 50, 3).any()
    counts = sum(attackers(AttackConfig("noise", 0.1), 50, seed).astype(int) for seed in range(400))
    assert 20 < counts.min() <= counts.max() < 65, "everyone is one about as often"


@pytest.mark.parametrize("attack", SENT)
def test_what_attackers_send_is_what_the_page_says(small, attack):
    problem = small(world(attack))
    wrong = attackers(problem.world.settings, 6, problem.seed)
    assert wrong.sum() == 2
    (trained, sent), *_ = sent_by(problem)[0]
    assert torch.equal(trained[~wrong], sent[~wrong])
    if attack == "noise":
        length = sent[wrong].norm(dim=1) / trained[wrong].norm(dim=1)
        assert ((length > 2.5) & (length < 3.5)).all()
        cosine = torch.cosine_similarity(sent[wrong], trained[wrong])
        assert cosine.abs().max() < 0.2
        assert torch.cosine_similarity(sent[wrong][:1], sent[wrong][1:]).abs() < 0.2, "each has draws of its own"
    else:
        factor = -3.0 if attack == "sign_flip" else 3.0
        assert torch.equal(sent[wrong], factor * trained[wrong])


def test_label_flip_changes_the_labels_of_attackers_alone_and_not_the_split(small):
    plain, poisoned = small(), small(world("label_flip"))
    wrong = attackers(poisoned.world.settings, 6, poisoned.seed)
    before, after = (one.world.stream.start(one.seed)[0] for one in (plain, poisoned))
    assert np.array_equal(before.items, after.items)
    for device in range(6):
        held = before.items[device, : before.size[device]]
        labels = plain.learner.train_samples.y[held]
        expected = 9 - labels if wrong[device] else labels
        assert torch.equal(poisoned.learner.train_samples.y[held], expected)
    assert torch.equal(plain.learner.test_samples.y, poisoned.learner.test_samples.y)


def test_every_method_meets_the_same_attackers_and_the_same_noise(small):
    problem = small(world("noise"))
    one, other = (sent_by(problem, text)[0][0][1] for text in ("fedavg", "robust:rule=median"))
    assert torch.equal(one, other)


def test_large_cohorts_are_attacked_as_they_are_trained(small, in_blocks, monkeypatch):
    problem = small(world("noise") | {"world.n_devices": "9", "train.workers": "2"})
    whole = [after.params for _, after in simulate(problem, methods.parse("fedavg").build())]
    in_blocks(1)
    monkeypatch.setattr(deferred.Deferred, "matrix", lambda self: pytest.fail("all updates in memory"))
    for left, (_, right) in zip(whole, simulate(problem, methods.parse("fedavg").build()), strict=True):
        torch.testing.assert_close(left, right.params, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("attack", ["none", *SENT, "label_flip"])
def test_nobody_attacks_without_attackers_and_rows_tell_how_many_do(small, attack):
    plain = [(row, after.params) for row, after in simulate(small(), methods.parse("fedavg").build())]
    problem = small(world(attack, share=0.0))
    for (row, params), (other, after) in zip(plain, simulate(problem, methods.parse("fedavg").build()), strict=True):
        told = dict(other.metrics)
        assert told.pop("n_attackers", None) == (None if attack == "none" else 0)
        assert row == other._replace(metrics=told)
        assert torch.equal(params, after.params)
    attackers_told = [row.metrics.get("n_attackers") for row, _ in sent_by(small(world(attack)))[1]]
    assert attackers_told == [None if attack == "none" else 2]


@pytest.mark.parametrize("attack", ["sign_flip", "noise"])
def test_attacks_hurt_the_mean_and_a_robust_rule_pays(small, attack):
    problem = small(world(attack, share=0.34, scale=10.0), rounds=25)
    final = {
        text: list(simulate(problem, methods.parse(text).build()))[-1][0].metrics["accuracy"]
        for text in ("fedavg", "robust:rule=median")
    }
    clean = list(simulate(small(rounds=25), methods.parse("fedavg").build()))[-1][0].metrics["accuracy"]
    assert final["fedavg"] < clean - 0.02
    assert final["robust:rule=median"] > final["fedavg"]


@pytest.mark.parametrize("text", ["fedavg+topk:fraction=0.3", "fedavg+private:noise_multiplier=0.01", "knowledge"])
def test_attackers_keep_to_the_coding(small, text):
    """They lie before they encode, so nothing of the protocol breaks."""
    problem = small(world("scale", scale=100.0))
    rows = [row for row, _ in simulate(problem, methods.parse(text).build())]
    assert all(np.isfinite([*row.metrics.values()]).all() for row in rows)
    assert [row.uplink_bit for row in rows] == [
        row.uplink_bit for row, _ in simulate(small(), methods.parse(text).build())
    ]


def test_an_update_beyond_all_numbers_is_turned_away(small):
    problem = small(world("scale", scale=1e6))

    method = methods.parse("fedavg").build()
    wrong = attackers(problem.world.settings, 6, problem.seed)

    def local(*given):
        updates = method.local(*given)
        updates.delta[torch.from_numpy(wrong)] *= 1e35
        return updates

    row, _ = play_round(SIMULATED, problem, method._replace(local=local), begin(problem, method))
    assert [letter == "X" for letter in row.outcome] == wrong.tolist()


def test_plans_have_attackers(small):
    assert [row.metrics["n_attackers"] for row, _ in play(small(world("sign_flip")), methods.parse("fedavg").build())]


def test_worlds_that_cannot_be_attacked_so_are_refused():
    for config, words in (
        (override(get("video").config, {"rounds": 2}), "does not go with data.name = 'video'"),
        (override(Config(), {"stream.kind": "markov"}), "stream.kind = 'markov'"),
    ):
        with pytest.raises(BadInput, match=words):
            build_problem(override(config, {"world.attack": "label_flip"}))
    with pytest.raises(BadInput, match=r"world.attack = 'label_flip'"):
        build_problem(override(get("diabetes").config, {"world.attack": "label_flip"}))
    with pytest.raises(BadInput, match=r"world.attack = 'noise' cannot be deployed"):
        refuse_what_is_simulated(override(Config(), {"world.attack": "noise"}))


def test_a_row_of_zeros_stays_so():
    for attack in SENT:
        assert not attacking.worse(AttackConfig(attack), torch.zeros(4), np.random.default_rng(0)).any()


def test_krum_leaves_attackers_out(small):
    config = methods.parse("robust:rule=krum,n_wrong=2").config
    problem = build_problem(override(SMALL, world("sign_flip", scale=5.0)))
    wrong = attackers(problem.world.settings, 6, problem.seed)
    (_, sent), *_ = sent_by(problem)[0]
    assert not cleaned(config, sent)[1][wrong].any()
