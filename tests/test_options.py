"""Settings: texts to values, limits, suggestions, and the way to JSON and back."""

import json
import re
from dataclasses import dataclass, field, replace
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcell import methods, scenarios
from fedcell.coding import topk
from fedcell.errors import BadInput
from fedcell.methods import fedavg, power_of_choice
from fedcell.options import Law, check, describe, from_dict, keys, option, override, to_dict
from fedcell.scenarios import Config
from fedcell.unused_settings import notices, unused_settings
from fedcell.world.settings import WorldConfig


@dataclass(frozen=True)
class Inner:
    share: float = option(0.5, "a share", least=0, most=1)
    law: Law = option(Law((1.0,)), "a law", above=0, infinite=True)
    few: Law = option(Law((1.0,)), "a law of finite numbers", least=0)


@dataclass(frozen=True)
class Outer:
    count: int = option(3, "a count", least=1)
    limit_s: float = option(inf, "a limit", above=0, infinite=True)
    name: str = option("a", "a name", choices=("a", "bee"))
    on: bool = option(False, "a switch")
    widths: tuple[int, ...] = option((64,), "some widths", least=1)
    times: tuple[float, ...] = option((), "some times", infinite=True)
    maybe: float | None = option(None, "perhaps", infinite=True)
    level: float = option(0.0, "a level")
    inner: Inner = field(default_factory=Inner)


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("count", "7", 7),
        ("count", "1e3", 1000),
        ("count", 1000.0, 1000),
        ("count", "9007199254740993", 2**53 + 1),
        ("count", 2**53 + 1, 2**53 + 1),
        ("count", np.int64(2**53 + 1), 2**53 + 1),
        ("count", 10**400, 10**400),
        ("limit_s", "2.5", 2.5),
        ("limit_s", "inf", inf),
        ("name", "bee", "bee"),
        ("on", "Yes", True),
        ("on", "off", False),
        ("on", "False", False),
        ("widths", "32,16", (32, 16)),
        ("widths", "", ()),
        ("times", "0.5,inf", (0.5, inf)),
        ("maybe", "none", None),
        ("maybe", "3", 3.0),
        ("inner.share", "0.25", 0.25),
        ("inner.law", "1..2", Law((1.0, 2.0), "uniform")),
        ("inner.law", 4, Law((4.0,))),
    ],
)
def test_texts_are_read_by_type(key: str, text: object, value: object) -> None:
    assert {k: v for k, _, v in keys(override(Outer(), {key: text}))}[key] == value


@pytest.mark.parametrize(
    ("key", "text", "said"),
    [
        ("count", "1.5", "not a whole number"),
        ("count", "inf", "not a whole number"),
        ("count", True, "not a whole number"),
        ("count", "0", "at least 1"),
        ("limit_s", "0", "above 0"),
        ("limit_s", "nan", "out of range"),
        ("limit_s", "soon", "not a number"),
        ("level", "inf", "must be finite"),
        ("level", -inf, "must be finite"),
        ("level", "nan", "out of range"),
        ("widths", "32,0", "32,0 is out of range: each must be at least 1"),
        ("times", "1,nan", "out of range"),
        ("inner.few", "inf", "must be finite"),
        ("inner.few", "1|inf", "must be finite"),
        ("inner.few", "1|nan", "out of range"),
        ("inner.law", "1|nan", "out of range"),
        ("name", "be", "did you mean 'bee'? (one of a, bee)"),
        ("name", "qqq", "choose one of a, bee"),
        ("count", "abc", "write a whole number such as 3 (a count)"),
        ("maybe", "abc", "write a number or none (perhaps)"),
        ("on", "maybe", "true or false"),
        ("maybe", "nan", "out of range"),
        ("inner.share", "1.5", "at least 0 and at most 1"),
        ("inner.law", "2..1", "low then high"),
        ("inner.law", "1..inf", "finite"),
        ("inner.law", "0~1", "above 0"),
        ("inner.law", "1..2..3", "low then high"),
        ("inner.law", "1|-2", "out of range"),
        ("inner.law", "few", "a number or range"),
    ],
)
def test_bad_values_name_the_key_and_the_fix(key: str, text: object, said: str) -> None:
    with pytest.raises(BadInput, match=re.escape(key)) as caught:
        override(Outer(), {key: text})
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_unknown_keys_are_errors_with_a_suggestion() -> None:
    with pytest.raises(BadInput, match=r"unknown key 'world\.inner\.shear': did you mean 'world\.inner\.share'\?"):
        override(Outer(), {"inner.shear": "1"}, "world.")
    with pytest.raises(BadInput, match="known are count, limit_s"):
        override(Outer(), {"qqqqqq": "1"})
    with pytest.raises(BadInput, match="unknown key 'inner'"):
        override(Outer(), {"inner": "1"})


def test_values_that_need_each_other_may_come_in_any_order() -> None:
    assert override(WorldConfig(), {"n_cells": "4", "topology": "cells"}).n_cells == 4
    trace = WorldConfig(response="trace", response_trace="seconds.csv")
    assert from_dict(WorldConfig(), to_dict(trace)) == trace
    with pytest.raises(BadInput, match=r"needs world\.topology = 'cells'"):
        override(WorldConfig(), {"n_cells": "4"})


def test_check_finds_what_a_constructor_let_through() -> None:
    check(WorldConfig(), "world.")
    with pytest.raises(BadInput, match=r"world\.n_devices = 0 is out of range"):
        check(WorldConfig(n_devices=0), "world.")
    with pytest.raises(BadInput, match=r"world\.availability"):
        check(WorldConfig(availability=Law((0.5, 1.5), "uniform")), "world.")


@pytest.mark.parametrize(
    "changes",
    [
        {"world.cycles_per_sample": "inf"},
        {"world.capacitance": "inf"},
        {"world.noise_dbm_per_hz": "-inf"},
        {"world.radius_m": "inf"},
        {"world.reference_gain_db": "inf"},
        {"world.power_dbm": "-inf"},
        {"world.cpu_hz": "1e9|inf"},
        {"world.cpu_hz": "0.5"},
        {"world.power_dbm": "1e12"},
        {"world.bandwidth_hz": "1e300"},
        {"world.bits_per_parameter": "1e300"},
        {"world.noise_dbm_per_hz": "1e12"},
        {"world.n_devices": "1e12"},
        {"world.n_blocks": "1e12"},
        {"train.steps": "1e12"},
        {"video.n_genres": "1e12"},
        {"data.counts": "-1"},
        {"model.hidden": "0"},
        {"model.hidden": "64,-5"},
        {"model.widths": "0", "model.hidden": "8,8"},
        {"model.channels": "6,0"},
    ],
)
def test_numbers_that_no_run_can_have_are_refused(changes: dict[str, str]) -> None:
    key = next(iter(changes))
    with pytest.raises(BadInput, match=re.escape(f"{key} = ")) as caught:
        override(Config(), changes)
    assert "must be" in str(caught.value)


def test_limits_that_may_be_missing_take_infinity() -> None:
    free = ("world.deadline_s", "world.energy_per_round_joule", "world.battery_joule", "video.initial")
    check(override(Config(), dict.fromkeys(free, "inf")))
    check(override(Config(), {"video.capacity": "inf", "video.initial": "49"}))
    for name in scenarios.names():
        check(scenarios.get(name).config)


def test_a_setting_that_changes_nothing_says_what_to_set() -> None:
    given = ["world.n_blocks", "world.n_fast", "world.edge_weights", "world.radius_m", "rounds"]
    said = unused_settings(override(Config(), {"world.n_blocks": 3}), given)
    assert said["world.n_blocks"] == (
        "world.n_blocks = 3 changes nothing while world.access = fdma: set world.access=block"
    )
    assert said["world.n_fast"].endswith(": set world.response=exponential or trace")
    assert said["world.edge_weights"].endswith("while world.edge_rounds = 0: change world.edge_rounds")
    assert (said["world.radius_m"], said["rounds"]) == ("", "")
    counts = unused_settings(override(Config(), {"world.access": "block"}), given)
    for order in ([said, counts], [counts, said]):  # n_blocks counts in one of two runs
        assert notices(order) == [said["world.n_fast"], said["world.edge_weights"]]


def test_what_an_option_needs_can_be_had() -> None:
    for settings in (Config(), *(methods.load(name).Config() for name in methods.names())):
        found = {key: entry for key, entry, _ in keys(settings)}
        unused_settings(settings, list(found))  # every name is that of a setting
        every = [(key, entry, one) for key, entry in found.items() for one in entry.metadata["needs"].split()]
        for key, entry, needs in every:
            name, words = re.split("!?=", needs)
            choices = found[key.removesuffix(entry.name) + name].metadata["choices"]
            assert not choices or set(words.split("|")) <= set(choices), key


def test_no_scenario_compares_methods_with_settings_that_change_nothing() -> None:
    for name in scenarios.names():
        preset = scenarios.get(name)
        for text in preset.compare:
            choice = methods.parse(text, preset.methods)
            assert not notices([methods.without_effect(choice)]), text


def test_large_whole_numbers_keep_their_digits() -> None:
    config = Config(seed=2**53 + 1)
    assert from_dict(Config(), json.loads(json.dumps(to_dict(config)))) == config


numbers = st.floats(1e-12, 1e12)
laws = st.one_of(
    st.builds(lambda v: Law((v,)), st.one_of(numbers, st.just(inf))),
    st.builds(lambda a, b: Law((min(a, b), max(a, b)), "uniform"), numbers, numbers),
    st.builds(lambda a, b: Law((min(a, b), max(a, b)), "log"), numbers, numbers),
    st.builds(lambda vs: Law(tuple(vs), "choice"), st.lists(numbers, min_size=2, max_size=4)),
)


@given(laws)
def test_a_law_reads_back_as_written(law: Law) -> None:
    assert Law.parse(str(law)) == law


@given(
    st.builds(
        Outer,
        count=st.integers(1, 10**9),
        limit_s=st.one_of(numbers, st.just(inf)),
        name=st.sampled_from(["a", "bee"]),
        on=st.booleans(),
        widths=st.lists(st.integers(1, 999), max_size=3).map(tuple),
        times=st.lists(st.one_of(numbers, st.just(inf)), max_size=3).map(tuple),
        maybe=st.one_of(st.none(), numbers, st.just(-inf)),
        inner=st.builds(
            Inner, share=st.one_of(st.just(0.0), st.floats(1e-38, 1)), law=laws, few=st.builds(Law, st.tuples(numbers))
        ),
    )
)
def test_settings_survive_standard_json(settings: Outer) -> None:
    text = json.dumps(to_dict(settings), allow_nan=False)
    assert from_dict(Outer(), json.loads(text)) == settings


def test_laws_draw_what_they_say() -> None:
    rng = np.random.default_rng(0)
    assert (Law((5.0,)).draw(rng, 3) == 5.0).all()
    uniform = Law((2.0, 4.0), "uniform").draw(rng, 50_000)
    assert uniform.min() >= 2.0
    assert uniform.max() <= 4.0
    assert uniform.mean() == pytest.approx(3.0, abs=0.02)
    log = Law((1e2, 1e6), "log").draw(rng, 50_000)
    assert np.log10(log).mean() == pytest.approx(4.0, abs=0.03)
    assert np.log10(log).std() == pytest.approx(4 / np.sqrt(12), abs=0.02)
    choice = Law((1.0, 2.0, 4.0), "choice").draw(rng, 30_000)
    assert [np.mean(choice == v) for v in (1.0, 2.0, 4.0)] == pytest.approx([1 / 3] * 3, abs=0.015)


def test_describe_lists_every_option_with_its_help() -> None:
    rows = {key: (kind, default, text) for key, kind, default, text in describe(Outer())}
    assert rows["name"] == ("a|bee", "a", "a name")
    assert rows["maybe"] == ("a number or none or inf", "none", "perhaps")
    assert rows["limit_s"][:2] == ("a number or inf", "inf")
    assert rows["on"][1] == "false"
    assert rows["widths"][:2] == ("a list", "64")
    assert rows["inner.few"] == ("a number or range", "1", "a law of finite numbers")
    assert all(text for _, _, _, text in describe(WorldConfig()))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: fedavg.Config(weights="sample"), "fedavg.weights = 'sample' is unknown: did you mean 'samples'?"),
        (lambda: fedavg.Config(lr=-1), "fedavg.lr = -1 is out of range: it must be above 0"),
        (lambda: power_of_choice.Config(n_candidates=0.5), "power_of_choice.n_candidates = 0.5 is not a whole number"),
        (lambda: topk.Config(fraction=2), "topk.fraction = 2 is out of range"),
        (lambda: replace(fedavg.Config(), steps=0), "fedavg.steps = 0 is out of range"),
    ],
)
def test_settings_of_a_piece_are_checked_in_python_too(make, said: str) -> None:
    with pytest.raises(BadInput) as error:
        make()
    assert str(error.value).startswith(said)
    assert fedavg.Config(server_lr=1) == fedavg.Config(server_lr="1.0"), "read as from the command line"
