"""Verdicts of the experiments on edge servers and tags on made-up runs, and small runs of both."""

from dataclasses import replace
from importlib import import_module as module

import numpy as np
import pytest
from judged import opened

from fedcell.experiment import judge, run_case
from fedcell.options import Law

SEEDS = (31, 32, 33, 34, 35)
N = 200

_opened = opened("video")


def made_up(case, seed, levels, accuracy=None, spared=None):
    """A run whose servers hit as often as `levels` says by (rule, room), after `accuracy` has been learned."""
    setting = module("edge_setting")
    rise = np.ones(N) if accuracy is None else accuracy
    row = {
        "case": case,
        "seed": seed,
        "requests": [20.0] * N,
        "request_bit": [20.0] * N,
        "rounds": list(range(8, N + 1, 8)),
    }
    row["accuracy"] = (np.asarray(rise)[7::8] + np.zeros(N // 8)).tolist()
    for (rule, room), level in levels.items():
        for way in setting.WAYS:
            values = level(np.asarray(rise)) if callable(level) else np.full(N, level)
            name = setting.name(rule, room, way)
            net = values - (0.1 if way == "eager" and rule == "predicted" else 0.0) if spared is None else spared
            row[f"{name}hit_ratio"] = [None, *values[1:].tolist()]
            row[f"{name}video_backhaul_bit"] = (20.0 * (1 - net) + np.zeros(N)).tolist()
    return row


def rawhfl_rows(shape, popular=0.3, genie=0.8, ceiling=0.6):
    """Runs of all cases; `shape` makes hits of accuracy."""
    one, setting = module("edge_rawhfl"), module("edge_setting")
    rise, rows = 0.5 * (1 - np.exp(-np.arange(1, N + 1) / 30)), []
    for seed in SEEDS:
        wobble = 0.002 * (seed - 33)
        for stay in one.STAYS:
            lift = {"0.3": 0.0, "0.7": 0.05, "mixed": 0.02}[stay]
            plain = {("popular", room): popular + wobble for room in setting.ROOMS}
            plain |= {("genie", room): genie for room in setting.ROOMS}
            plain |= {(rule, room): 0.2 for rule in ("lru", "lfu") for room in setting.ROOMS}
            rows.append(made_up(one.key(stay, "placements"), seed, plain))
            best = {f"{what} {room}": ceiling for what in ("ceiling", "static") for room in setting.ROOMS}
            rows.append({"case": one.key(stay, "ceiling"), "seed": seed, **best})
            for entry, share in (("RawHFL", 1.0), ("H-FedAvg-UB", 1.0), ("H-FedAvg-M2", 0.5)):
                levels = {("predicted", room): lambda x, up=lift + wobble: shape(x) + up for room in setting.ROOMS}
                rows.append(made_up(one.key(stay, entry), seed, levels, share * rise))
    return rows


def verdicts(name, rows):
    return {one.claim: one.verdict for one in judge(module(name).EXPERIMENT, rows)}


def test_hits_that_begin_at_zero_are_proportional():
    found = verdicts("edge_rawhfl", rawhfl_rows(lambda x: 0.9 * x - 0.02))
    assert found["proportional"] == "reproduced"
    assert found["order"] == "reproduced"
    assert found["spared"] == "reproduced"
    assert found["thrift"] == "reproduced"
    assert found["stays"] == "reproduced"
    assert found["constrained"] == "reproduced"
    assert found["ceiling"] == "reproduced"


def test_hits_that_rise_from_a_level_are_not():
    found = verdicts("edge_rawhfl", rawhfl_rows(lambda x: 0.25 + 0.4 * x))
    assert found["proportional"] == "partly"
    assert found["order"] == "reproduced"


def test_hits_without_accuracy_say_so():
    found = verdicts("edge_rawhfl", rawhfl_rows(lambda x: 0.25 - 0.1 * x))
    assert found["proportional"] == "not reproduced"
    assert found["order"] == "partly"  # the genie is still ahead
    assert found["spared"] == "not reproduced"


def test_servers_above_the_ceiling_are_found():
    assert verdicts("edge_rawhfl", rawhfl_rows(lambda x: 0.9 * x, ceiling=0.3))["ceiling"] == "not reproduced"


def test_without_runs_nothing_is_decided():
    for name in ("edge_rawhfl", "edge_osafl", "tags"):
        assert set(verdicts(name, []).values()) == {"not run"}
        module(name).EXPERIMENT.plot([])


def test_figures_are_drawn_of_all_rows():
    rows = rawhfl_rows(lambda x: 0.9 * x)
    hits, spared, by_room, net, stays, accuracy = module("edge_rawhfl").EXPERIMENT.plot(rows).axes
    for ax in (hits, spared, net):
        assert len(ax.lines) == 7
    assert hits.lines[0].get_ydata()[-1] > hits.lines[0].get_ydata()[0]
    assert spared.lines[4].get_ydata() == pytest.approx(0.3, abs=0.01)  # popularity
    assert len(by_room.lines) == 9
    assert len(stays.containers) == 5
    assert len(accuracy.lines) == 15


def test_seeds_that_are_still_missing_are_left_out():
    rows = [row for row in rawhfl_rows(lambda x: 0.9 * x) if row["seed"] < 34 or not row["case"].endswith("RawHFL")]
    assert set(verdicts("edge_rawhfl", rows).values()) <= {"reproduced", "partly"}
    assert {one.n for one in judge(module("edge_rawhfl").EXPERIMENT, rows)} == {3}
    module("edge_rawhfl").EXPERIMENT.plot(rows)


def osafl_rows(ours, popular):
    one, setting, rows = module("edge_osafl"), module("edge_setting"), []
    for seed in one.SEEDS:
        plain = {("popular", room): popular for room in setting.ROOMS}
        plain |= {("genie", room): 0.9 for room in setting.ROOMS}
        plain |= {(rule, room): 0.2 for rule in ("lru", "lfu") for room in setting.ROOMS}
        rows.append(made_up("placements", seed, plain))
        for place, method in enumerate(one.METHODS):
            own = {("predicted", room): ours - 0.02 * place + 0.001 * seed for room in setting.ROOMS}
            rows.append(made_up(method, seed, own))
    return rows


def test_osafl_verdicts():
    assert set(verdicts("edge_osafl", osafl_rows(0.5, 0.4)).values()) == {"reproduced"}
    worse = verdicts("edge_osafl", osafl_rows(0.3, 0.4))
    assert worse["order"] == "partly"
    assert worse["spared"] == "not reproduced"
    assert [len(ax.lines) for ax in module("edge_osafl").EXPERIMENT.plot(osafl_rows(0.5, 0.4)).axes] == [10] * 4


def test_tag_verdicts():
    one = module("tags")

    def rows(curve):
        return [
            {"case": world, "seed": seed, "chance": 0.1, **{str(p): curve(p) + 1e-4 * seed for p in one.PERIODS}}
            for world in one.WORLDS
            for seed in one.SEEDS
        ]

    found = verdicts("tags", rows(lambda p: 0.1 + 0.3 * max(np.log10(p / 30), 0)))
    assert found == {"short": "reproduced", "long": "reproduced", "grows": "reproduced"}
    flat = verdicts("tags", rows(lambda p: 0.1))
    assert flat == {"short": "reproduced", "long": "not reproduced", "grows": "not reproduced"}
    assert module("tags").EXPERIMENT.plot(rows(lambda p: 0.1)).axes


def small(case, **video):
    config = replace(case.config, rounds=4, eval_every=4, world=replace(case.config.world, n_devices=6))
    config = replace(config, world=replace(config.world, devices_per_cell=()))
    law = replace(config.video, n_genres=3, files_per_genre=8, test_samples=5, **video)
    return case._replace(config=replace(config, video=law, model=replace(config.model, hidden=(4,))))


@pytest.mark.parametrize("name", ["edge_rawhfl", "edge_osafl"])
def test_small_runs_have_every_column(name):
    one, setting = module(name), module("edge_setting")
    cases = {case.key.rpartition(" ")[2]: case for case in one.EXPERIMENT.cases(True)}
    capacity = {} if name == "edge_rawhfl" else {"capacity": Law((40.0,))}
    plain = run_case(small(cases["placements"], **capacity), 1)
    trained = run_case(small(cases["RawHFL" if name == "edge_rawhfl" else "osafl"], **capacity), 1)
    assert plain["requests"] == trained["requests"]
    for room in setting.ROOMS:
        for way in setting.WAYS:
            assert 0 <= setting.hits(setting.name("predicted", room, way), 0.0)(trained) <= 1
        genie, popular = (setting.hits(setting.name(rule, room), 0.0)(plain) for rule in ("genie", "popular"))
        assert genie >= popular
    if name == "edge_rawhfl":
        found = setting.ceilings(replace(small(cases["placements"]).config, seed=1))
        assert all(found[f"ceiling {room}"] >= found[f"static {room}"] - 0.02 for room in setting.ROOMS)


def test_tags_are_counted_in_the_world_of_the_case(monkeypatch):
    one = module("tags")
    monkeypatch.setattr(one, "N_REQUESTS", 2000)
    monkeypatch.setattr(one, "PERIODS", (30, 1000))
    row = run_case(one.EXPERIMENT.cases(True)[0], 1)
    assert row["1000"] > row["30"]
    assert 0 < row["chance"] < 0.2
