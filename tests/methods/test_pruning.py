"""AMP-FL: its limits are known methods, its cache and ages follow a plain loop, its load is charged as said."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from kept_rows import matrix
from torch import nn

from fedcell import methods, world
from fedcell.errors import BadInput
from fedcell.learn.norms import BatchNorm
from fedcell.learn.settings import ModelConfig
from fedcell.methods import pruning
from fedcell.methods.pruning.units import entry_masks, kept_units, load
from fedcell.options import override
from fedcell.radio.downlink import download
from fedcell.scenarios import Config, build_problem
from fedcell.simulate import SIMULATED, begin, play_round, simulate

BLOCKS = {
    "world.access": "block",
    "world.n_blocks": "3",
    "world.pathloss": "power_law",
    "world.fading": "exponential",
    "world.interference_over_noise": "1e2..1e5",
    "world.cycles_per_sample": "1e5",
    "world.radius_m": "500",
    "world.power_dbm": "30",
}
NET = ModelConfig(name="mlp", hidden=(12, 8))
CNN = ModelConfig(name="cnn", channels=(4, 6), kernel=3, padding=1, hidden=(9,))
LIMIT = "deadline_s=0.006"  # the full model takes 0.003 to 0.03 s here


@pytest.fixture
def blocks(small):
    return small(BLOCKS, model=NET, rounds=6)


def history(problem, text):
    return list(simulate(problem, methods.parse(text).build()))


def params_of(problem, text):
    return torch.stack([after.params for _, after in history(problem, text)])


def agree(left, right, tolerance=1e-5):
    scale = float(right.abs().max())
    torch.testing.assert_close(left, right, rtol=1e-4, atol=tolerance * scale)


# ---------------------------------------------------------------- limits


def test_nothing_pruned_is_gradient_recycling(blocks):
    mine = params_of(blocks, "pruning:keep=1.0,scheduler=random")
    agree(mine, params_of(blocks, "recycling:scheduler=random"), 1e-7)


def test_nothing_pruned_and_everyone_is_fedavg(small):
    problem = small({}, model=NET)
    agree(params_of(problem, "pruning"), params_of(problem, "fedavg:weights=equal"), 1e-6)


def test_without_cache_and_pruning_is_fedavg_over_the_devices_heard(small):
    problem = small({"world.access": "own_band"}, model=NET)
    mine = params_of(problem, "pruning:keep=1.0,cache=off,scheduler=random,n_selected=3")
    agree(mine, params_of(problem, "fedavg:weights=equal,scheduler=random,n_selected=3"), 1e-6)


@pytest.mark.parametrize(("over", "n"), [("heard", 3), ("all", 6)])
def test_without_cache_the_mean_is_over_the_devices_heard_or_over_all(small, over, n):
    """By hand: what the devices moved, 0 where they were pruned, divided by 3 heard or 6 in all."""
    problem = small({"world.access": "own_band"}, model=NET)
    text = f"pruning:keep=0.5,cache=off,scheduler=random,n_selected=3,mean_over={over}"
    method, moved = methods.parse(text).build(), []

    def aggregate(problem, params, state, played):
        found = method.aggregate(problem, params, state, played)
        total = np.zeros(len(params))
        for device, row in zip(*played.received(), strict=True):
            assert played.uplink.delivered[device]
            total += row.double().numpy()
        moved.append((found[0] - params, torch.from_numpy(total / n).float()))
        return found

    list(simulate(problem, method._replace(aggregate=aggregate)))
    assert problem.world.n_devices == 6
    for mine, by_hand in moved:
        assert by_hand.abs().max() > 0
        agree(mine, by_hand)


def test_a_network_without_units_is_trained_whole(small):
    problem = small({})
    agree(params_of(problem, "pruning"), params_of(problem, "fedavg:weights=equal"), 1e-6)
    late = history(problem, "pruning:deadline_s=1e-9")
    assert all(row.n_selected == 0 for row, _ in late), "what cannot be cut is not sent late"


def test_networks_that_cannot_be_cut_are_refused():
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.Sigmoid(), nn.Linear(8, 10))
    problem = build_problem(override(Config(), {"train.device": "cpu"}), model=net)
    with pytest.raises(BadInput, match="Sigmoid"):
        begin(problem, methods.parse("pruning").build())


# ---------------------------------------------------------------- both forms, engines


@pytest.mark.parametrize(
    "net",
    [NET, CNN, replace(CNN, norm="batch")],
    ids=["mlp", "cnn", "normed cnn"],
)
def test_forms_and_engines_agree(small, net):
    limit = LIMIT if net is NET else "keep=0.4"
    texts = {"auto": "extract", "debug": "extract", "sequential": "mask"}
    runs = []
    for engine, form in texts.items():
        changes = {**BLOCKS, "train.engine": engine, "train.momentum": "0.5"}
        runs.append(params_of(small(changes, model=net, rounds=3), f"pruning:{limit},form={form}"))
    for other in runs[1:]:
        agree(runs[0], other)


# ---------------------------------------------------------------- cache and ages


@pytest.mark.parametrize(
    ("net", "limit"), [(NET, LIMIT), (replace(CNN, norm="batch"), "keep=0.4")], ids=["mlp", "normed cnn"]
)
@pytest.mark.parametrize("overwrite", ["false", "true"])
def test_cache_and_ages_follow_a_plain_loop(small, overwrite, net, limit):
    blocks = small(BLOCKS, model=net, rounds=6)
    method = methods.parse(f"pruning:{limit},row_overwrite={overwrite}").build()
    units, lr, n = pruning.network(blocks), blocks.train.lr, blocks.world.n_devices
    gradients = np.zeros((n, blocks.learner.n_params), dtype=np.float32)
    age, snapshot, pruned = np.zeros((n, units.n_units), dtype=int), begin(blocks, method), 0
    before = gradients.copy()
    for _ in range(6):
        told = {}

        def spy(*arguments, told=told):
            told["updates"] = method.local(*arguments)
            told["decision"] = arguments[-1]
            return told["updates"]

        row, after = play_round(SIMULATED, blocks, method._replace(local=spy), snapshot)
        updates, masks = told["updates"], told["decision"].mask
        assert row.n_delivered == row.n_selected == 3
        keep = np.ones((3, units.n_units), dtype=bool) if masks is None else kept_units(units, masks)
        stays = np.ones_like(gradients, dtype=bool)
        for place, device in enumerate(updates.device):
            entries = entry_masks(units, keep[[place]], torch.device("cpu"), whole_rows=overwrite == "true")[0].numpy()
            stays[device, entries] = False
            gradients[device, entries] = updates.delta[place].numpy()[entries] / -lr
            for unit in range(units.n_units):
                age[device, unit] = -1 if keep[place, unit] else age[device, unit]
        age += 1
        kept = matrix(after.method.kept, after.params).numpy()
        np.testing.assert_allclose(kept, gradients, rtol=1e-6, atol=1e-7)
        assert (kept[stays] == before[stays]).all(), "what was not trained keeps its bits"
        before = kept
        assert (after.method.age == age).all()
        step = torch.from_numpy(lr * gradients.mean(axis=0))
        agree(after.params, snapshot.params - step, 1e-6)
        pruned += int((~keep).sum())
        snapshot = after
    assert pruned
    never = gradients == 0
    assert never.any(), "entries never trained contribute nothing"


def test_scale_and_shift_are_cached_with_their_unit(small):
    problem = small(BLOCKS, model=replace(CNN, norm="batch"), rounds=3)
    units = pruning.network(problem)
    ever = np.zeros((problem.world.n_devices, units.n_units), dtype=bool)
    for _, after in history(problem, "pruning:keep=0.4"):
        ever |= after.method.age == 0
    cached = matrix(after.method.kept, after.params).numpy() != 0
    net = problem.learner.architectures[0]
    where = dict(zip(net.names, net.offsets, strict=True))
    norms = [place for place, part in enumerate(net.module) if isinstance(part, BatchNorm)]
    for place, trained in zip(norms, units.split(ever), strict=True):
        for name in ("weight", "bias"):
            found = cached[:, where[f"{place}.{name}"] :][:, : trained.shape[1]]
            assert not found[~trained].any()
            assert found[trained].mean() > 0.5, "all but those of units that are never active"
    assert (~ever).any()


def test_server_may_keep_the_mean_alone(blocks):
    server, device = (history(blocks, f"pruning:{LIMIT},memory={who}") for who in ("server", "device"))
    for (_, left), (_, right) in zip(server, device, strict=True):
        agree(left.params, right.params, 1e-6)
        mean = matrix(right.method.kept, right.params).mean(dim=0)
        agree(right.method.mean, mean, 1e-5)


def test_lost_uploads_keep_their_age(small):
    problem = small({**BLOCKS, "world.outage_threshold_db": "40"}, model=NET, rounds=6)
    method = methods.parse("pruning:keep=0.5").build()
    lost = 0
    snapshot = begin(problem, method)
    for _ in range(6):
        row, after = play_round(SIMULATED, problem, method, snapshot)
        for device, letter in enumerate(row.outcome):
            young = after.method.age[device] == 0
            assert young.any() == (letter == "D")
            lost += letter == "O"
        snapshot = after
    assert lost


# ---------------------------------------------------------------- rules, ratios, costs


def decided(problem, text, state=None):
    """The first decision of a method that a run would make."""
    method, found = methods.parse(text).build(), []

    def spy(*arguments):
        found.append(method.decide(*arguments))
        return found[-1]

    first = begin(problem, method)
    row, _ = play_round(SIMULATED, problem, method._replace(decide=spy), first)
    return found[0], row, first


def test_all_rules_train_the_same_devices(small):
    problem = small({"world.access": "own_band"}, model=NET, rounds=6)
    texts = ["", ",cache=off", ",mask_rule=importance", ",mask_rule=random"]
    who = [
        [row.outcome for row, _ in history(problem, f"pruning:keep=0.5,scheduler=random,n_selected=2{text}")]
        for text in texts
    ]
    assert all(other == who[0] for other in who)
    assert all(outcome.count("D") == 2 for outcome in who[0])


def test_importance_keeps_the_heaviest_units(small):
    problem = small({"world.access": "own_band"}, model=NET)
    for score in ("l1", "sum"):
        decision, _, first = decided(problem, f"pruning:keep=0.5,mask_rule=importance,score={score}")
        units = pruning.network(problem)
        keep = kept_units(units, decision.mask)
        assert (keep == keep[0]).all(), "one model, one mask"
        weight = problem.learner.architectures[0].views(first.params)[0]
        weigh = (weight.abs() if score == "l1" else weight).sum(dim=1)
        assert set(np.flatnonzero(keep[0, :12])) == set(torch.topk(weigh, 6).indices.tolist())


def test_random_rule_and_ties(small):
    problem = small({"world.access": "own_band"}, model=NET)
    units = pruning.network(problem)
    random, ties = (
        kept_units(units, decided(problem, f"pruning:keep=0.5,{rule}")[0].mask)
        for rule in ("mask_rule=random", "ties=random")
    )
    assert (units.counts(random) == [6, 4]).all()
    assert not (random == random[0]).all(), "every device draws its own"
    assert (random == ties).all(), "at first all units are equally old"
    first = kept_units(units, decided(problem, "pruning:keep=0.5,ties=index")[0].mask)
    assert (first == ([True] * 6 + [False] * 6 + [True] * 4 + [False] * 4)).all()


def test_work_and_payload_shrink_with_the_square(blocks):
    full, _, _ = decided(blocks, "pruning:scheduler=random")
    cut, row, _ = decided(blocks, "pruning:scheduler=random,keep=0.5")
    on = cut.selected
    np.testing.assert_allclose(cut.payload_bit[on], 0.25 * full.payload_bit[on])
    np.testing.assert_allclose(cut.samples_per_step[on], 0.25 * full.samples_per_step[on])
    n_params, flops = load(pruning.network(blocks), np.array([6, 4]))
    all_params, all_flops = load(pruning.network(blocks), np.array([12, 8]))
    assert row.metrics["keep_mean"] == 0.5
    assert row.metrics["load"] == 0.25
    assert row.metrics["load_parameters"] == pytest.approx(n_params / all_params)
    assert row.metrics["load_flops"] == pytest.approx(flops / all_flops)
    assert row.metrics["output_scale"] == pytest.approx(0.5)  # two layers, half of each
    assert row.metrics["exact_payload_bit"] == pytest.approx(3 * n_params * 32)
    assert row.uplink_bit == pytest.approx(3 * 0.25 * all_params * 32)


def test_exact_load_counts_norms_which_keep_outputs_from_fading(small):
    rows = {}
    for norm in ("none", "batch"):
        problem = small({"world.access": "own_band"}, model=replace(CNN, norm=norm))
        _, rows[norm], _ = decided(problem, "pruning:keep=0.5")
    bits = {norm: row.metrics["exact_payload_bit"] for norm, row in rows.items()}
    assert bits["batch"] - bits["none"] == pytest.approx(6 * 32 * 2 * (2 + 3 + 4))  # of 4, 6 and 9 units
    assert rows["none"].metrics["output_scale"] == pytest.approx(np.sqrt(1 / 2 * 1 / 2 * 4 / 9))
    assert rows["batch"].metrics["output_scale"] == pytest.approx(np.sqrt(4 / 9)), "the last layer adds up 4 of 9"


def test_group_norm_is_refused(small):
    problem = small({}, model=replace(CNN, norm="group"))
    with pytest.raises(BadInput, match=r"GroupNorm, whose statistics mix kept and pruned .* model\.norm=batch or none"):
        begin(problem, methods.parse("pruning").build())


def test_pruned_rounds_end_in_time_and_ages_are_recorded(blocks):
    rows = [row for row, _ in history(blocks, f"pruning:{LIMIT}")]
    assert all(0 < row.round_s <= 0.006 * (1 + 1e-9) for row in rows)
    assert all(row.n_delivered == 3 for row in rows)
    assert rows[-1].metrics["age_mean"] > 0
    assert rows[-1].metrics["age_cost"] == pytest.approx(20 * rows[-1].metrics["age_square"])
    fixed = [row for row, _ in history(blocks, f"pruning:{LIMIT},clock=deadline")]
    assert all(row.round_s == 0.006 for row in fixed)


def test_narrow_layers_may_keep_one_unit_and_be_late(blocks):
    left_out, kept = (history(blocks, f"pruning:deadline_s=1e-5,min_one_unit={on}") for on in ("false", "true"))
    assert all(row.n_selected == 0 for row, _ in left_out)
    assert all(row.n_delivered == 3 and row.round_s > 1e-5 for row, _ in kept)


def test_a_round_of_the_deadline_waits_for_narrow_layers_too(blocks):
    asked = "pruning:deadline_s=1e-5,min_one_unit=true"
    free, fixed = ([row for row, _ in history(blocks, f"{asked}{clock}")] for clock in ("", ",clock=deadline"))
    assert [row.n_delivered for row in fixed] == [3] * len(fixed)
    assert [row.round_s for row in fixed] == pytest.approx([row.round_s for row in free])


def test_a_round_cannot_last_a_deadline_that_is_not_there(blocks):
    with pytest.raises(BadInput, match=r"pruning\.clock = 'deadline' needs a finite pruning\.deadline_s"):
        begin(blocks, methods.parse("pruning:clock=deadline").build())


UNICAST = {"world.downlink": "unicast", "world.downlink_bandwidth_hz": "1e4", "world.station_power_dbm": "20"}


def test_a_way_down_of_ones_own_shrinks_with_the_sub_model(small):
    """The whole model would reach nobody before the deadline; sub-models do, and devices keep to it."""
    problem = small({**BLOCKS, **UNICAST}, model=NET)
    observation, _ = world.observe(problem.world, world.start(problem.world, problem.seed), problem.seed, 0)
    draft = pruning.full_model(pruning.Config(), problem, observation)
    down_s = float(download(problem.world, observation, draft).seconds.min())
    rows = [row for row, _ in history(problem, f"pruning:deadline_s={0.5 * down_s}")]
    assert all(row.n_delivered == row.n_selected > 0 for row in rows)
    assert all(0 < row.round_s <= 0.5 * down_s * (1 + 1e-9) for row in rows)
    assert max(row.metrics["keep_max"] for row in rows[:1]) < 1


@pytest.mark.parametrize("downlink", ["unicast", "broadcast"])
def test_narrow_layers_wait_for_the_way_down_as_well(small, downlink):
    """No way down leaves time before this deadline, which is extended by the last to end."""
    problem = small({**BLOCKS, **UNICAST, "world.downlink": downlink}, model=NET)
    asked = "pruning:deadline_s=1e-6,min_one_unit=true"
    free, fixed = ([row for row, _ in history(problem, f"{asked}{clock}")] for clock in ("", ",clock=deadline"))
    assert all(row.n_delivered == row.n_selected > 0 for row in fixed)
    assert [row.round_s for row in fixed] == pytest.approx([row.round_s for row in free])


def test_a_fixed_ratio_is_never_waited_for(blocks):
    """What is late with the ratio stays out, whether or not its layers have a unit."""
    for keep in (0.9, 0.05):
        left_out, kept = (
            history(blocks, f"pruning:keep={keep},deadline_s=1e-5,min_one_unit={on}") for on in ("false", "true")
        )
        assert all(row.n_selected == 0 and row.metrics["n_feasible"] == 0 for row, _ in left_out + kept)
    narrow = history(blocks, "pruning:keep=0.05,deadline_s=0.02,min_one_unit=true")
    assert all(row.n_delivered == row.n_selected > 0 and row.round_s <= 0.02 for row, _ in narrow)
    assert decided(blocks, "pruning:keep=0.05,deadline_s=0.02,min_one_unit=true")[0].deadline_s == 0.02


def test_waiting_does_not_go_with_edges(small):
    cells = {"world.topology": "cells", "world.n_cells": "2", "world.n_devices": "7", "world.edge_rounds": "2"}
    problem = small({**BLOCKS, **cells}, model=NET)
    with pytest.raises(
        BadInput, match=r"pruning\.min_one_unit waits .* world\.edge_rounds = 2 .* set pruning\.min_one"
    ):
        begin(problem, methods.parse("pruning:deadline_s=1e-5,min_one_unit=true").build())
    for text in ("min_one_unit=true,keep=0.05,deadline_s=0.02", LIMIT):
        assert all(row.n_delivered == row.n_selected > 0 for row, _ in history(problem, f"pruning:{text}"))


def test_every_scheduler_plays(blocks):
    runs = {name: history(blocks, f"pruning:{LIMIT},scheduler={name}") for name in ("omega", "pr", "channel", "random")}
    ages = {name: run[-1][0].metrics["age_square"] for name, run in runs.items()}
    assert min(ages, key=ages.get) == "omega"
