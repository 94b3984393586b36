"""Plans without training against runs with it: seconds, joules, bits and fates of every round."""

import json
import shlex

import byte_equal
import numpy as np
import pytest
import torch
from torch import nn

import fedcell
from fedcell import from_arrays, options, radio, scenarios, world
from fedcell.cli import main
from fedcell.cli.progress import TimeLeft
from fedcell.errors import BadInput
from fedcell.methods.parts.resources import plan as full_speed
from fedcell.plan import reach
from fedcell.plan.cell import LEARNT, TrainingProgress, plan
from fedcell.plan.drawing import LINK, LOOKS, draw, who_can
from fedcell.plan.looking import looks_at_updates
from fedcell.plan.show import as_json, save, text
from fedcell.plan.untrained import MadeUp
from fedcell.record import read, read_all
from fedcell.resolve import resolve
from fedcell.scenarios import build_problem
from fedcell.simulate import simulate

ROUNDS = 4
DENSE = {"model.name": "mlp", "model.hidden": "16"}
NARROW = {"model.channels": "4,4", "model.hidden": "16,16"}
DEEP = {"model.hidden": "16,16,16"}
NETWORKS = {  # smaller ones where the scenario's take long; what rounds cost follows from the world alike
    "cafe": DEEP,
    "characters": {"model.width": "16", "model.layers": "1"},
    "osafl": {"model.hidden": "16"},
    "osafl_cnn": {"model.channels": "4,4", "model.hidden": "16"},
    "osafl_lstm": {"model.width": "16", "model.layers": "1"},
    "osafl_squeezenet": DENSE,
    "rawhfl": {"model.hidden": "16,16"},
    "recycling": NARROW,
    "recycling_mnist": {"model.hidden": "16"},
    "recycling_printed": NARROW,
    "recycling_tight": NARROW,
    "recycling_vgg": DENSE | {"model.norm": "none"},
    "recycling_vgg_printed": DENSE | {"model.norm": "none"},
    "representativity": NARROW,
    "representativity_mnist": DEEP,
    "pruning": {"model.hidden": "16"},
    "pruning_vgg": DENSE | {"model.norm": "none"},
    "knowledge": DEEP | {"model.widths": "8,16,24"},
    "knowledge_cifar": DENSE | DEEP | {"model.widths": "8,16,24"},
    "knowledge_equal": DEEP,
    "knowledge_equal_cifar": DENSE | DEEP,
    "streaming": NARROW,
    "streaming_traffic": NARROW,
    "video": {"model.hidden": "16"},
}


def costs(rows):
    return np.array([[row.round_s, row.compute_joule, row.radio_joule, row.joule, row.uplink_bit] for row in rows])


def built(scenario, **changes):
    """A scenario in small, as a problem and its methods by label."""
    preset = scenarios.get(scenario)
    smaller = byte_equal.shrunk(scenario) | {"rounds": ROUNDS, "eval_every": ROUNDS} | NETWORKS.get(scenario, {})
    asked = preset.compare[:1] if byte_equal.heavy(scenario) else preset.compare
    found = resolve(preset, asked, smaller | changes)
    problem = build_problem(found.config, byte_equal.dataset_of(scenario))
    return problem, {choice.label: choice.build() for choice in found.methods}


@pytest.mark.parametrize("scenario", scenarios.names())
def test_the_plan_of_every_scenario_is_its_simulation(scenario):
    """Row for row, and so within any share: a method that looks at updates is one that says so, and none else."""
    problem, choices = built(scenario)
    compared = 0
    for label, method in choices.items():
        if looks_at_updates(problem, method):
            continue
        real = [row for row, _ in simulate(problem, method._replace(evaluate=lambda *given: {}))]
        planned = draw(problem, method)
        np.testing.assert_array_equal(costs(planned.rows), costs(real), err_msg=label)
        assert [row.outcome for row in planned.rows] == [row.outcome for row in real], label
        compared += 1
    assert compared >= min(len(choices), 2) - (len(choices) == 1 and "representativity" in scenario)


DIGITS = {"data.name": "digits", "data.scaling": "unit", "model.name": "logistic", "train.batch_size": 8}


def rows_of(method, scenario, settings):
    found = resolve(scenarios.get(scenario), [method], settings)
    return [row for row, _ in simulate(build_problem(found.config), found.methods[0].build())]


@pytest.mark.parametrize(
    ("method", "scenario"),
    [
        ("recycling:scheduler=gradient", "recycling"),
        ("representativity:policy=gradient_norm", "representativity"),
        ("representativity:policy=both", "representativity"),
        ("power_of_choice", "cell"),
        ("oort", "cell"),
        ("fedavg+qsgd", "cell"),
    ],
)
def test_a_method_that_looks_at_updates_is_trained_or_says_that_it_guesses(method, scenario):
    settings = DIGITS | {"world.n_devices": 30}
    (exact,) = plan(method, scenario, settings, rounds=12)
    real = rows_of(method, scenario, settings | {"rounds": 12})
    assert exact.round_s.mean == np.mean([row.round_s for row in real])
    assert exact.round_joule.mean == np.mean([row.joule for row in real])
    assert exact.round_bit.mean == np.mean([row.uplink_bit for row in real])
    assert exact.trained
    assert exact.notes == (LEARNT,)
    assert "--no-train" in text([exact])
    (guess,) = plan(method, scenario, settings, rounds=12, train=False)
    assert guess.notes == (LOOKS,)
    assert "--train" in text([guess])
    assert not guess.trained
    assert (guess.round_joule, guess.round_bit) != (exact.round_joule, exact.round_bit)


@pytest.mark.parametrize(("method", "scenario"), [("recycling", "recycling"), ("qfedavg", "cell")])
def test_others_are_not_trained(method, scenario):
    (one,) = plan(method, scenario, DIGITS, rounds=4)
    assert not one.notes
    assert not one.trained
    (asked,) = plan(method, scenario, DIGITS, rounds=4, train=True)
    assert asked.trained
    assert not asked.notes
    assert asked.round_joule == one.round_joule


@pytest.mark.parametrize("method", ["oort", "power_of_choice"])
def test_ranks_that_made_up_losses_leave_alone_are_found(method):
    """In the scenario as it is, no made-up update changes whom Oort asks on seed 1, but training does."""
    found = resolve(scenarios.get("cell"), [method], {})
    assert looks_at_updates(build_problem(found.config), found.methods[0].build())


def test_only_what_has_to_is_trained_and_all_of_it_is_counted():
    told, asked = [], ["fedavg", "oort:n_selected=2"]
    few = {"world.n_devices": 6, "model.name": "logistic", "train.steps": 1}
    both = plan(asked, "cell", few, {"world.deadline_s": [1, 2]}, seeds=[1, 2], rounds=6, watch=told.append)
    assert [one.trained for one in both] == [False, True, False, True]
    assert f"only {asked[1]} trained" in text(both)
    assert {one.label for one in told} == {asked[1]}
    assert {one.total for one in told} == {2 * 2 * 6}  # of both worlds, as soon as the first is known
    assert told[0].done == 0
    assert told[-1].done == told[-1].total


def test_rounds_that_nobody_asked_for_are_the_first_of_the_scenario():
    """A method may look at how many rounds a run has, so that the first ones are not those of a shorter run."""
    method = "knowledge:scheduler=rotation,n_selected=2,pattern=ascend,hard_budget=no"
    few = DIGITS | {"world.n_devices": 6, "model.name": "mlp", "model.hidden": "8", "model.widths": ""}
    (first,) = plan(method, "knowledge", few, {"rounds": [150]})
    (whole,), (short,) = (plan(method, "knowledge", few, rounds=rounds) for rounds in (150, 100))
    assert (first.rounds, whole.rounds, short.rounds) == (100, 150, 100)
    assert first.selected < short.selected == whole.selected


def test_the_command_says_why_it_trains_and_how_long_it_takes(capsys):
    words = ["plan", "oort", "fedavg", *SHORT]
    assert main(words) == 0
    shown = capsys.readouterr()
    assert "oort: what its rounds cost depends on what devices learn: training 3 rounds" in shown.err
    assert "oort: 1 of 3 rounds trained, about " in shown.err
    assert "only oort trained" in shown.out
    assert main([*words, "--no-train"]) == 0
    shown = capsys.readouterr()
    assert not shown.err
    assert "nothing trained" in shown.out
    assert main([*words, "--train"]) == 0
    shown = capsys.readouterr()
    assert "training 6 rounds" in shown.err
    assert "all trained" in shown.out


def test_time_left_is_that_of_rounds_like_those_before(capsys):
    seconds = iter([100.0, 110.0, 112.0, 120.0, 130.0])
    tell = TimeLeft(asked=False, clock=lambda: next(seconds))
    for done in range(5):
        tell(TrainingProgress("oort", done, 4))
    lines = capsys.readouterr().err.splitlines()[1:]
    assert lines == ["oort: 1 of 4 rounds trained, about 30.0 s left", "oort: 3 of 4 rounds trained, about 6.67 s left"]


@pytest.mark.parametrize("buffers", ["average", "local", "frozen"])
def test_networks_with_running_statistics_are_planned_alike(buffers):
    network = nn.Sequential(nn.Flatten(), nn.Linear(64, 12), nn.BatchNorm1d(12), nn.ReLU(), nn.Linear(12, 10))
    changes = byte_equal.SMALL | {"rounds": ROUNDS, "model.buffers": buffers}
    found = resolve(scenarios.get("cell"), ["fedavg", "osafl", "recycling"], changes)
    problem = build_problem(found.config, model=network)
    for choice in found.methods:
        method = choice.build()
        real = [row for row, _ in simulate(problem, method._replace(evaluate=lambda *given: {}))]
        np.testing.assert_array_equal(costs(draw(problem, method).rows), costs(real), err_msg=choice.label)


def test_made_up_updates_add_up_as_their_rows_do():
    rows = MadeUp(torch.randn(4, 10), np.ones(7, dtype=np.int64))
    chosen, weights = np.arange(7) % 2 == 0, np.array([[1.0, 2.0, 3.0, 4.0], [0.5, 0.0, 1.0, 1.0]])
    matrix = rows.matrix()[chosen].numpy()
    np.testing.assert_allclose(rows.add_up(chosen, weights), weights @ matrix, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(rows.add_up(chosen, weights[0]), weights[0] @ matrix, rtol=1e-5, atol=1e-6)
    assert rows.finite().all()


# ---------------------------------------------------------------- who can take part


def brute_force(problem, observation, slack):
    """Who meets deadline and budget for some clock and power of a fine grid, alone on the whole band."""
    found = np.zeros(problem.world.n_devices, dtype=bool)
    devices, settings = observation.devices, problem.world.settings
    everyone = np.ones(problem.world.n_devices, dtype=bool)
    trial = full_speed(problem, observation, everyone, 1, float(problem.train.batch_size))
    trial = trial._replace(bandwidth_hz=np.full(problem.world.n_devices, settings.bandwidth_hz))
    for cpu in np.geomspace(0.01, 1.0, 120):
        for power in np.geomspace(1e-5, 1.0, 120):
            asked = trial._replace(cpu_hz=cpu * devices.cpu_hz, power_watt=power * devices.power_watt)
            compute_s, upload_s = radio.times(problem.world, observation, asked)
            joule = radio.forecast.compute_joule(observation, asked) + asked.power_watt * upload_s
            in_time = compute_s + upload_s <= settings.deadline_s * slack
            found |= in_time & (joule <= devices.energy_per_round_joule * slack)
    return found


@pytest.mark.parametrize("budget", ["1e-3~1e-1", "1e-5~1e-3"])
def test_who_can_take_part_against_brute_force(small, budget):
    problem = small(
        {
            "world.n_devices": 40,
            "world.energy_per_round_joule": budget,
            "world.deadline_s": 0.3,
            "world.cycles_per_sample": "1e6~1e8",
            "world.radius_m": 3000,
            "data.partition": "iid",
        }
    )
    observation, _ = world.observe(problem.world, world.start(problem.world, problem.seed), problem.seed, 0)
    feasible = reach.look(problem.world, observation, problem.train.batch_size)[3].astype(bool)
    assert not (brute_force(problem, observation, 1.0) & ~feasible).any()
    assert not (feasible & ~brute_force(problem, observation, 1.15)).any()
    assert 0 < feasible.sum() < 40


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"world.deadline_s": 1e-9}, "deadline"),
        ({"world.energy_per_round_joule": 1e-15}, "energy"),
        ({"world.outage_threshold_db": 250}, "outage"),
        ({"world.availability": 0}, "absent"),
    ],
)
def test_why_devices_cannot_take_part(small, changes, reason):
    found = who_can(small(changes))
    assert found.why_not() == {name: 6 if name == reason else 0 for name in reach.REASONS}
    assert not found.able.any()
    assert who_can(small()).able.all()


def test_nobody_is_heard_who_cannot_take_part():
    for scenario in ("blocks", "cells", "video", "recycling_printed", "city"):
        problem, choices = built(scenario)
        able = None
        for label, method in choices.items():
            if "pruning" in label:  # parts of a model are smaller than an update
                continue
            drawn = draw(problem, method)
            able = (
                who_can(problem, begun_s=drawn.begun_s).able if able is None else able
            )  # rounds of a city last equally long
            heard = (drawn.fate == ord("D")).any(axis=0)
            assert not (heard & ~able).any(), (scenario, label)


@pytest.mark.parametrize("downlink", ["none", "broadcast", "unicast"])
@pytest.mark.parametrize("link", ["shannon", "nr"])
def test_times_and_listening_are_those_of_a_device_that_is_asked_alone(small, link, downlink):
    """With the attempts of the link, the cycles of a step itself and the way down, at full clock and power."""
    changes = {
        "world.n_devices": 30,
        "world.link": link,
        "world.downlink": downlink,
        "world.downlink_bandwidth_hz": 2e5,
        "world.receive_watt": 0.5,
        "world.step_cycles": "1e6~1e9",
        "world.radius_m": 4000,
        "world.deadline_s": 0.15,
        "world.bandwidth_hz": 1e5,
        "world.energy_per_round_joule": 0.02,
        "data.partition": "iid",
    }
    problem = small(changes)
    observation, _ = world.observe(problem.world, world.start(problem.world, problem.seed), problem.seed, 0)
    found = reach.look(problem.world, observation, problem.train.batch_size).astype(bool)
    in_time, listens = np.zeros(30, dtype=bool), np.zeros(30)
    for k in range(30):
        alone = full_speed(problem, observation, np.arange(30) == k, 1, float(problem.train.batch_size))
        down = radio.downlink.download(problem.world, observation, alone)
        compute_s, upload_s = radio.times(problem.world, observation, alone)
        heard_s, listens[k] = (0.0, 0.0) if down is None else (down.seconds[k], down.joule[k])
        in_time[k] = heard_s + compute_s[k] + upload_s[k] <= 0.15
    assert (found[1] == in_time).all()
    assert 0 < in_time.sum() < 30
    assert not found[2][listens > 0.02].any()
    assert (listens > 0.02).any() == (downlink != "none")


def test_who_can_is_asked_at_the_hours_of_the_rounds(small, tmp_path):
    """A device that is off when a run begins, and on later, is able; one that is off all day is absent."""
    path = tmp_path / "states.csv"
    rows = ["0,0,0,0", "0,3600,1,0", *(f"{k},0,1,0" for k in range(1, 5)), "5,0,0,0"]
    path.write_text("\n".join(["device,clock_s,on,plugged", *rows]))
    settings = {"world.traces": str(path), "world.n_devices": 6, "world.deadline_s": 1800, "world.clock": "deadline"}
    (one,) = plan("fedavg", "cell", settings, rounds=4)
    assert (one.able, one.unable) == (5.0, {"absent": 1.0})
    assert (one.heard, one.unheard) == (5.0, {"never asked": 1.0})


# ---------------------------------------------------------------- plans


def test_spreads_seeds_and_batteries():
    settings = {"world.battery_joule": 1.0, "model.name": "logistic", "world.n_devices": 5}
    (one,) = plan("fedavg", "cell", settings, seeds=[1, 2], rounds=30)
    assert one.round_joule.low <= one.round_joule.mean <= one.round_joule.high
    assert one.seeds == (1, 2)
    assert 1 <= one.first_empty_round <= one.half_empty_round < 30
    (long,) = plan("fedavg", "cell", settings | {"world.battery_joule": 100.0}, seeds=[1, 2], rounds=30)
    assert long.first_empty_round > 30  # at the mean pace
    (ever,) = plan("fedavg", "cell", settings | {"world.battery_joule": "inf"}, rounds=3)
    assert ever.first_empty_round == np.inf


def test_the_way_down_and_standing_by_are_in_the_plan(tmp_path):
    """Energies and bits of all kinds, as a run counts them, in text and JSON; and what the link lets methods assume."""
    settings = {
        "world.downlink": "unicast",
        "world.receive_watt": 1,
        "world.idle_watt": 0.1,
        "world.harvest_watt": 1e-3,
        "world.battery_joule": 1e4,
        "world.link": "nr",
        "model.name": "logistic",
    }
    (one,) = plan("fedavg", "cell", settings, rounds=3)
    (run,) = fedcell.run("fedavg", "cell", settings | {"rounds": 3}, out=str(tmp_path / "run"))
    for name in ("downlink_bit", "receive_joule", "idle_joule"):
        assert getattr(one, name) == pytest.approx(run.columns[name].mean(), rel=1e-12)
        assert getattr(one, name) > 0
    parts = [run.columns[name].mean() for name in ("compute_joule", "radio_joule", "receive_joule", "idle_joule")]
    assert one.round_joule.mean == pytest.approx(sum(parts), rel=1e-12)
    assert one.first_empty_round == np.inf  # a battery that is charged has no pace that lasts
    assert one.notes == (LINK,)
    shown = text([one])
    assert all(word in shown for word in ("downlink", "receive", "idle", "closed forms assume"))
    assert as_json([one])[0]["idle_joule"] == one.idle_joule
    (plain,) = plan("fedavg", "cell", {"model.name": "logistic"}, rounds=3)
    assert "idle" not in text([plain])


def test_more_devices_than_samples():
    (one,) = plan("fedavg:scheduler=random", "cell", {"world.n_devices": 3000}, rounds=2, samples=20)
    assert one.n_devices == 3000
    with pytest.raises(BadInput, match="drop --samples"):
        plan("osafl", "video", rounds=2, samples=20)


def test_devices_that_share_samples_own_none():
    """A plan with `samples` splits nothing: neither feature skew nor the owners of test samples ask for a split."""
    settings = {"world.n_devices": 3000, "data.noise": 0.1}
    problem = build_problem(options.override(scenarios.get("cell").config, settings), samples_each=20)
    assert problem.world.stream.start(1)[0].size.tolist() == [20] * 3000
    x, y = np.zeros((6, 3)), np.arange(6) % 2
    owned = from_arrays(x, y, x[:2], y[:2], owners=[0, 0, 0, 1, 1, 1], test_owners=[0, 1])
    settings = {"world.n_devices": 9, "data.partition": "given", "train.batch_size": 2}
    problem = build_problem(options.override(scenarios.get("cell").config, settings), owned, samples_each=4)
    assert problem.world.n_devices == 9


def test_rounds_are_no_setting_of_a_plan():
    with pytest.raises(BadInput, match="--rounds"):
        plan("fedavg", settings={"rounds": 3})


SHORT = ["--set", "model.name=logistic", "--set", "world.idle_watt=0.1", "--rounds", "3"]


def test_the_command_plans_a_grid_and_draws_it(capsys, tmp_path):
    words = ["plan", "fedavg", "fedprox", "--grid", "world.bandwidth_hz=1e5", "1e6", *SHORT]
    assert main([*words, "--figure", str(tmp_path / "knob.svg")]) == 0
    out = capsys.readouterr().out
    assert "world.bandwidth_hz" in out
    assert "time of a round" in (tmp_path / "knob.svg").read_text()
    command = shlex.split(out.partition("run it: ")[2])
    assert command[0] == "fedcell"
    assert main([*command[1:], "--out", str(tmp_path / "sweep"), "--quiet"]) == 0
    capsys.readouterr()
    assert main([*words, "--json"]) == 0
    plans = json.loads(capsys.readouterr().out)
    found = {(one["label"], one["varied"]["world.bandwidth_hz"]): one for one in plans}
    runs = read_all(tmp_path / "sweep")
    assert len(runs) == len(found) == 4
    for run in runs:
        one = found[run.label, run.config["world"]["bandwidth_hz"]]
        assert one["round_s"]["mean"] == pytest.approx(run.columns["round_s"].mean(), rel=1e-12)
        joule = sum(run.columns[f"{part}_joule"] for part in ("compute", "radio", "idle")).mean()
        assert one["round_joule"]["mean"] == pytest.approx(joule, rel=1e-12)


def test_a_setting_of_a_method_is_a_knob(tmp_path):
    found = plan(["fedprox", "fedavg+topk"], grid={"fedprox.mu": [0.1, 1], "topk.fraction": [0.1]}, rounds=2)
    assert [dict(one.varied) for one in found] == [{"fedprox.mu": 0.1}, {"topk.fraction": 0.1}, {"fedprox.mu": 1.0}]
    drawn = save(found, tmp_path / "knob.svg").read_text()
    assert "fedprox.mu" in drawn
    assert "topk" not in drawn
    assert "fedprox:mu" not in drawn  # the knob is on the axis


def test_a_knob_leaves_its_label_whole(tmp_path):
    grid = {"fedprox.mu": [0.1, 1], "fedprox.steps": [2, 3]}
    drawn = save(plan(["fedprox"], grid=grid, rounds=2), tmp_path / "knob.svg").read_text()
    assert "fedprox:steps=2" in drawn
    assert "fedprox:," not in drawn


def test_a_figure_needs_a_knob(capsys, tmp_path):
    assert main(["plan", "cell", *SHORT, "--figure", str(tmp_path / "a.png")]) == 2
    assert "--grid" in capsys.readouterr().err


@pytest.mark.parametrize(
    "flags",
    [
        "--rate 1 --clients 40 --quorum 4 --waste-weight 0.1 --comm-weight 0.1",
        "--rate 0.5 --clients 40 --waste-weight 0.1 --comm-weight 0.2",
        "--response-times times.csv --clients 30 --quorum 20 --waste-weight 0 --comm-weight 0.1",
    ],
)
def test_the_command_of_a_cafe_plan_runs_what_was_planned(flags, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "times.csv").write_text("\n".join(f"{x:.3f}" for x in np.random.default_rng(3).gamma(2.0, 0.4, 300)))
    assert main(["plan", "cafe", *flags.split(), "--json"]) == 0
    best = json.loads(capsys.readouterr().out)
    assert main(["plan", "cafe", *flags.split()]) == 0
    command = shlex.split(capsys.readouterr().out.partition("run it: ")[2])
    command += ["--set", "model.name=logistic", "--set", "eval_every=200", "--out", "run", "--quiet"]
    assert main(command[1:]) == 0
    columns = read(next((tmp_path / "run").glob("cafe*"))).columns
    success, n = columns["success"], len(columns["success"])
    assert n == 200
    assert 0.3 < best["success"] < 0.98  # so that the rates tell plans apart
    assert success.mean() == pytest.approx(
        best["success"], abs=4 * (best["success"] * (1 - best["success"]) / n) ** 0.5
    )
    assert columns["round_s"].mean() == pytest.approx(best["deadline_s"], rel=1e-9)
    assert n / success.sum() == pytest.approx(best["communication"], rel=0.15)
    assert columns["waste_s"].sum() / success.sum() == pytest.approx(best["wastage_s"], rel=0.15)
