"""CAFe against its equations, its invariants and the averages that theory predicts."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import binom
from torch.nn import functional

from fedcell import methods, radio, world
from fedcell.errors import BadInput
from fedcell.foretelling import foretold_by
from fedcell.learn.settings import ModelConfig
from fedcell.methods.cafe import theory
from fedcell.record import checkpoint
from fedcell.simulate import SIMULATED, begin, play_round, simulate
from fedcell.types import Round, Updates

WAIT = {"world.response": "exponential", "world.deadline_s": "0.5", "world.clock": "deadline", "train.steps": "1"}
HALF = {**WAIT, "world.n_devices": "10"}
FOREVER = {**WAIT, "world.deadline_s": "1e9"}
EQUAL = {"data.partition": "counts", "data.counts": "30,30,30,30,30,30"}
FULL_BATCH = {"train.batch_size": "0", "data.partition": "counts", "data.counts": "10,20,30,40,50,60"}


def build(text):
    return methods.parse(text).build()


def play(problem, text):
    return list(simulate(problem, build(text)))


def heard(row):
    return np.array([letter == "D" for letter in row.outcome])


def play_without_training(problem, text, rounds, delta):
    """Rounds with `delta[k]` in place of the update of device `k`: (columns of every round, states, model changes)."""
    method, place, seed = build(text), problem.world, problem.seed
    params = torch.zeros(1)
    state, world_state = method.init(problem, params), world.start(place, seed)
    out = []
    for round in range(rounds):
        seen, world_state = world.observe(place, world_state, seed, round)
        decision = method.decide(problem, state, seen)
        device = np.flatnonzero(decision.selected)
        uplink = radio.transmit(place, seen, decision, seed)
        updates = Updates(device, torch.tensor(delta[device], dtype=torch.float32)[:, None])
        moved, state = method.aggregate(problem, params, state, Round(seen, decision, updates, uplink))
        out.append((decision.info, state, float(moved - params)))
    return out


# ---------------------------------------------------------------- rounds that count and rounds that fail


@pytest.mark.parametrize("scheme", ["mcu", "awu", "agu"])
def test_failed_round_keeps_the_model_and_ages_everyone(small, scheme):
    problem = small(HALF, rounds=15)
    before = begin(problem, build("cafe"))
    kinds = set()
    for row, after in play(problem, f"cafe:scheme={scheme},quorum=4"):
        ok, here = heard(row).sum() >= 4, heard(row)
        kinds.add(ok)
        assert (row.metrics["success"], row.metrics["responders"]) == (ok, here.sum())
        assert torch.equal(before.params, after.params) != ok
        age, old = after.method.age_s, before.method.age_s
        np.testing.assert_allclose(age, np.where(here & ok, 0.5, old + 0.5))
        np.testing.assert_allclose(age / 0.5, np.rint(age / 0.5))
        np.testing.assert_array_equal(after.method.age_rounds, np.rint(age / 0.5) - 1)
        assert row.metrics["waste_s"] == 0.5 * (10 - here.sum() if ok else 10) or scheme == "agu"
        assert row.metrics["mean_age_s"] == pytest.approx(old.mean() + 0.25)
        before = after
    assert kinds == {True, False}


def test_a_deadline_of_the_server_is_that_of_the_world(small):
    """A shorter one than the world's; a longer one is refused."""
    ours = small({**HALF, "world.deadline_s": "inf", "world.clock": "slowest"})
    wanted = play(small(HALF), "cafe:quorum=2")
    found = play(ours, "cafe:quorum=2,deadline_s=0.5")
    assert [row for row, _ in found] == [row for row, _ in wanted]
    assert torch.equal(found[-1][1].params, wanted[-1][1].params)
    for text in ("7", "inf"):
        with pytest.raises(BadInput, match=f"cafe.deadline_s = {text} is longer than world.deadline_s = 0.5"):
            play(small(HALF), f"cafe:quorum=2,deadline_s={text}")


def test_a_round_lasts_until_the_deadline_and_costs_energy_either_way(small):
    history = play(small(HALF, rounds=6), "cafe:quorum=4")
    assert [row.round_s for row, _ in history] == [0.5] * 6
    assert history[-1][0].clock_s == pytest.approx(3.0)
    assert all(row.n_selected == 10 and row.compute_joule > 0 for row, _ in history)


@pytest.mark.parametrize("scheme", ["mcu", "agu"])
def test_only_gradients_that_are_used_are_computed(small, scheme):
    problem, method = small(HALF, rounds=12), build(f"cafe:scheme={scheme},quorum=5")
    trained = []

    def local(*arguments):
        updates = method.local(*arguments)
        trained.append(updates.device.tolist())
        return updates

    rows = [row for row, _ in simulate(problem, method._replace(local=local))]
    for row, device in zip(rows, trained, strict=True):
        wanted = scheme == "agu" or row.n_delivered >= 5
        assert device == (np.flatnonzero(heard(row)).tolist() if wanted else [])
    assert min(row.n_delivered for row in rows) < 5 <= max(row.n_delivered for row in rows)


def test_the_record_says_that_devices_answered_at_once(small):
    history = play(small({**HALF, "world.n_fast": "3"}, rounds=6), "cafe:quorum=3")
    assert all(row.outcome.startswith("DDD") and row.metrics["success"] == 1 for row, _ in history)
    assert any("T" in row.outcome for row, _ in history)


def test_a_quorum_of_nobody_is_a_failure(small):
    problem = small({**WAIT, "world.deadline_s": "1e-6"})
    assert all(torch.equal(after.params, problem.learner.initial()) for _, after in play(problem, "cafe"))


# ---------------------------------------------------------------- steps


def gradient(problem, params, store, device):
    """Full-batch gradient of the mean loss of one device, by hand: logistic regression on flat samples."""
    x, y = problem.learner.train_samples.take(store.items[device, : store.size[device]])
    params = params.clone().requires_grad_()
    weight, bias = params[:640].view(10, 64), params[640:]
    functional.cross_entropy(x.flatten(1) @ weight.T + bias, y).backward()
    return params.grad


def by_hand(problem, rounds, quorum, scheme, agu="literal", lr=0.1):
    """The pseudo-code of the specification, one device after the other."""
    w, n = problem.learner.initial(), problem.world.n_devices
    state = world.start(problem.world, problem.seed)
    age, buffer, own = np.full(n, 0.5), {}, {}
    scale = n * state.store.size / state.store.size.sum()
    for round in range(rounds):
        seen, state = world.observe(problem.world, state, problem.seed, round)
        here = np.flatnonzero(seen.response_s <= 0.5)
        age += 0.5
        step = {}
        for k in here:
            point = own.get(k, w) if scheme == "agu" else w
            step[k] = -lr * scale[k] * gradient(problem, point, state.store, k)
        if scheme == "agu":
            for k in here:
                own[k] = own.get(k, w) + step[k]
                buffer[k] = buffer.get(k, 0) + step[k]
            step = buffer if agu == "union" else {k: buffer[k] for k in here}
        if len(here) >= quorum:
            q = {k: min(age[k], 10) ** 2 if scheme == "awu" else 1 for k in step}
            w = w + sum(q[k] * step[k] for k in step) / sum(q.values())
            age[here], buffer, own = 0.5, {}, {}
    return w


@pytest.mark.parametrize(
    ("scheme", "agu", "quorum"),
    [("mcu", "literal", 2), ("awu", "literal", 1), ("agu", "literal", 4), ("agu", "union", 4)],
)
def test_steps_follow_the_pseudo_code(small, scheme, agu, quorum):
    problem = small({**WAIT, **FULL_BATCH}, rounds=12)
    history = play(problem, f"cafe:scheme={scheme},quorum={quorum},agu={agu},decay=fixed")
    successes = sum(row.metrics["success"] for row, _ in history)
    assert 0 < successes < 12 or quorum == 1
    expected = by_hand(problem, 12, quorum, scheme, agu)
    assert float((expected - problem.learner.initial()).abs().max()) > 1e-3
    torch.testing.assert_close(history[-1][1].params, expected, rtol=1e-4, atol=1e-6)


def test_constant_weights_are_mcu_bit_for_bit(small):
    problem = small(HALF, rounds=8)
    for (_, left), (_, right) in zip(play(problem, "cafe:scheme=awu,age_power=0"), play(problem, "cafe"), strict=True):
        assert torch.equal(left.params, right.params)


def test_equal_ages_are_mcu_bit_for_bit(small):
    problem = small(HALF, rounds=2)
    weighted, plain = play(problem, "cafe:scheme=awu"), play(problem, "cafe")
    assert torch.equal(weighted[0][1].params, plain[0][1].params), "all are equally old in the first round"
    assert not torch.equal(weighted[1][1].params, plain[1][1].params)


@pytest.mark.parametrize(("quorum", "changes"), [(1, {**WAIT, "world.deadline_s": "0.9"}), (6, FOREVER)])
def test_accumulation_without_failures_is_mcu(small, quorum, changes):
    problem = small({**changes, **EQUAL}, rounds=8)
    pairs = zip(
        play(problem, f"cafe:scheme=agu,quorum={quorum}"),
        play(problem, f"cafe:quorum={quorum},decay=fixed"),
        strict=True,
    )
    for (row, left), (_, right) in pairs:
        assert row.metrics["success"] == 1
        assert left.method.rows is None
        assert torch.equal(left.params, right.params)


def test_everyone_in_time_is_full_participation_on_the_pooled_data(small):
    problem = small({**FOREVER, **FULL_BATCH}, rounds=1)
    central, cafe, unscaled = (
        play(problem, text)[0][1].params for text in ("central", "cafe", "cafe:data_scale=false")
    )
    torch.testing.assert_close(cafe, central, rtol=1e-3, atol=1e-6)
    assert not torch.allclose(unscaled, central, rtol=1e-3, atol=1e-6), "unequal data need the scale"


def test_step_sizes(small):
    problem = small({**FOREVER, "data.partition": "iid"})

    def steps(text):
        return np.array([moved for _, _, moved in play_without_training(problem, text, 30, np.ones(6))])

    t = np.arange(30)
    plain = "cafe:data_scale=false"
    np.testing.assert_allclose(steps(f"{plain},decay=fixed"), 1.0, rtol=1e-6)
    np.testing.assert_allclose(steps(f"{plain},decay_rounds=10"), 1 / (1 + t / 10), rtol=1e-6)
    np.testing.assert_allclose(steps(f"{plain},scheme=agu"), 1.0, rtol=1e-6)
    law = 2 / (2 * 3 + 0.5 * (t + 2)) / problem.train.lr  # everyone answers: 1 - q = 1
    np.testing.assert_allclose(steps(f"{plain},decay=theory,smoothness=3,convexity=0.5"), law, rtol=1e-6)


def test_theory_step_knows_the_success_probability(small, tmp_path):
    chance = theory.success(10, 4, theory.answer_probability(0.5, 1.0))
    method = build("cafe:decay=theory,quorum=4")
    assert method.init(small(HALF), torch.zeros(3)).success == pytest.approx(chance)
    trace = tmp_path / "seconds.csv"
    trace.write_text("0.1\n0.2\n0.9\n1.5\n")
    measured = small({**HALF, "world.response": "trace", "world.response_trace": str(trace)})
    assert method.init(measured, torch.zeros(3)).success == pytest.approx(theory.success(10, 4, 0.5))
    for config in (HALF, {**HALF, "world.response": "trace", "world.response_trace": str(trace)}):
        fast = small({**config, "world.n_fast": "4"})
        assert method.init(fast, torch.zeros(3)).success == pytest.approx(1)


# ---------------------------------------------------------------- averages, without training


@pytest.mark.parametrize(
    ("scheme", "agu", "quorum"),
    [("mcu", "literal", 5), ("agu", "literal", 5), ("agu", "union", 5)],
)
def test_averages_converge_to_the_formulas(small, scheme, agu, quorum):
    rounds, p = 1500, theory.answer_probability(0.5, 1.0)
    history = play_without_training(small(HALF), f"cafe:scheme={scheme},agu={agu},quorum={quorum}", rounds, np.ones(10))
    total = {name: sum(info[name] for info, _, _ in history) for name in history[0][0]}
    expected = theory.metrics(10, quorum, 0.5, p)
    assert rounds / total["success"] == pytest.approx(float(expected.communication), rel=0.08)
    assert total["mean_age_s"] / rounds == pytest.approx(float(expected.age_s), rel=0.08)
    waste_s = float(expected.wastage_s)
    if scheme == "agu":
        ok, share = float(expected.success), float(theory.participation(10, quorum, p))
        summed = 1 + p * binom.cdf(quorum - 2, 9, p) / ok  # gradients of a client that takes part in a success
        waste_s = 10 * 0.5 * float(1 - (p if agu == "union" else share * summed)) / ok
    assert total["waste_s"] / total["success"] == pytest.approx(waste_s, rel=0.1)


@pytest.mark.parametrize(
    ("settings", "fast", "share"),
    [
        ("scheme=mcu", 5, 0.119),
        ("scheme=awu", 5, 0.034),
        ("scheme=awu", 30, 0.222),
        ("scheme=awu,age_unit=rounds", 30, 0.109),
    ],
)
def test_weight_of_devices_that_answer_at_once(small, settings, fast, share):
    problem = small({**WAIT, "world.n_devices": "100", "world.n_fast": str(fast)})
    text = f"cafe:{settings},decay=fixed,data_scale=false"
    history = play_without_training(problem, text, 270, (np.arange(100) < fast) * 1.0)[20:]
    assert np.mean([moved for _, _, moved in history]) == pytest.approx(share, rel=0.07, abs=0.002)
    assert all((state.age_rounds[:fast] == 0).all() for _, state, _ in history)
    assert np.mean([info["responders"] for info, _, _ in history]) == pytest.approx(
        fast + 0.3935 * (100 - fast), rel=0.02
    )


# ---------------------------------------------------------------- what can go wrong


@pytest.mark.parametrize(("text", "fast"), [("cafe:scheme=agu,quorum=3", 6), ("cafe", 6), ("cafe:scheme=awu", 0)])
def test_bad_gradients_are_left_out(small, text, fast):
    problem, method = small({**WAIT, "world.n_fast": str(fast)}), build(text)

    def poisoned(*arguments):
        updates = method.local(*arguments)
        updates.delta[updates.device % 2 == 0] = float("nan")
        return updates

    before = begin(problem, method)
    for _ in range(4):
        row, after = play_round(SIMULATED, problem, method._replace(local=poisoned), before)
        assert torch.isfinite(after.params).all()
        if row.metrics["success"] and "awu" not in text:
            assert (after.method.age_rounds[::2] > 0).all(), "a refused gradient is no contribution"
        before = after


def test_local_models_survive_a_checkpoint(small, tmp_path):
    problem, method = small(HALF, rounds=9), build("cafe:scheme=agu,quorum=6")
    straight = list(simulate(problem, method))
    middle = next(i for i, (_, after) in enumerate(straight) if after.method.rows is not None)
    template = checkpoint.Template.of(begin(problem, method))
    checkpoint.save(tmp_path, straight[middle][1], template)
    resumed = list(simulate(problem, method, checkpoint.load(next(tmp_path.iterdir()), template)))
    assert len(resumed) == 8 - middle
    for (left, one), (right, other) in zip(straight[middle + 1 :], resumed, strict=True):
        assert left == right
        assert torch.equal(one.params, other.params)


def test_impossible_settings_are_explained(small):
    for text, words in {
        "cafe:quorum=7": "cafe.quorum = 7 but there are 6 devices",
        "cafe:decay=theory": "needs drawn answers",
    }.items():
        with pytest.raises(BadInput, match=words):
            begin(small(), build(text))
    for text in ("cafe:quorum=0", "cafe:age_cap=0", "cafe:scheme=mpu", "cafe:agu=all"):
        with pytest.raises(BadInput):
            build(text)


# ---------------------------------------------------------------- the experiments: splits, and verdicts that can fail


@pytest.fixture
def experiment(monkeypatch):
    """Load a file of `experiments/cafe` by name, without leaving it among the modules."""
    folder = Path(__file__).parents[2] / "experiments" / "cafe"
    monkeypatch.syspath_prepend(folder)

    def load(name):
        spec = importlib.util.spec_from_file_location(f"cafe_{name}", folder / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    yield load
    for name in ("cafe_setting", "cafe_plots"):
        sys.modules.pop(name, None)


def test_splits_of_the_paper(experiment):
    setting = experiment("cafe_setting")
    labels, rng = np.arange(50_000) % 10, np.random.default_rng(4)
    held = {
        name: getattr(setting, name)(labels, rng) for name in ("triples", "balanced", "single_class", "random_classes")
    }
    assert {len(part) for part in held["triples"] + held["balanced"]} == {500}
    assert len({tuple(np.unique(labels[part])) for part in held["triples"]}) == 100
    assert {len(np.unique(labels[part])) for part in held["triples"]} == {3}
    assert all((np.bincount(labels[part]) == 50).all() for part in held["balanced"])
    assert all((labels[part] == k % 10).all() for k, part in enumerate(held["single_class"]))
    assert {len(np.unique(labels[part])) for part in held["random_classes"]} == set(range(1, 11))
    biased = setting.biased(30, labels, rng)
    assert {(len(part), len(np.unique(part)), labels[part].max()) for part in biased[:30]} == {(500, 10, 0)}
    assert all((labels[part] == k % 9 + 1).all() for k, part in enumerate(biased) if k >= 30)
    store = setting.store_of(held["single_class"])
    assert (store.items[7, : store.size[7]] == held["single_class"][7]).all()


def rows_of(accuracies):
    """Three seeds of every case around a given accuracy."""
    return [
        {"case": key, "seed": seed, "accuracy": [value + 0.001 * seed], "rounds": [1000]}
        for key, value in accuracies.items()
        for seed in (1, 2, 3)
    ]


@pytest.mark.parametrize("name", ["fig3", "fig6"])
def test_figures_without_training_are_reproduced(experiment, name):
    module = experiment(name)
    assert {finding.verdict for finding in module.check([])} == {"reproduced"}
    assert module.plot([]).axes


def test_best_quorum_verdict_can_fail(experiment):
    module = experiment("fig4")
    grid = [(t, m) for t in module.DEADLINES for m in module.quorums(t)]
    for sign, verdict in ((1, "reproduced"), (-1, "not reproduced")):
        levels = {module.name(t, m): 0.5 - sign * t * m / 1000 for t, m in grid}
        levels |= {module.unequal(t, m): 0.5 + sign * (m > 1) / 10 for t in module.LONG for m in (1, module.peak(t))}
        rows = rows_of(levels)
        assert {finding.verdict for finding in module.check(rows)} == {verdict}


def test_devices_foretell_with_the_models_that_they_would_start_from(small):
    """Those that answered in failed rounds have local models."""
    problem = small(HALF, model=ModelConfig(name="logistic"))
    (_, after), *_ = list(play(problem, f"cafe:scheme=agu,quorum={problem.world.n_devices}"))[::-1]
    state, n = after.method, problem.world.n_devices
    assert 0 < (state.gathered > 0).sum() < n
    x = problem.learner.test_samples.take(np.arange(n))[0]
    method = methods.parse("cafe:scheme=agu").build()
    observation, _ = world.observe(problem.world, world.start(problem.world, problem.seed), problem.seed, 0)
    found = foretold_by(problem, method, after.params, state, observation)(x)
    rows = iter(state.rows)
    for device in range(n):
        own = after.params + next(rows) if state.gathered[device] else after.params
        weight, bias = own[:640].view(10, 64), own[640:]
        expected = (x[device].flatten() @ weight.T + bias).softmax(0).numpy()
        np.testing.assert_allclose(found[device], expected, atol=1e-6)
