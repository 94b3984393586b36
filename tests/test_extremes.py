"""Every numeric option at the ends of what it allows and beyond: it runs, diverges or is refused with a sentence."""

import runpy
from pathlib import Path

import pytest

from fedcell import coding, methods, options, scenarios
from fedcell.errors import BadInput
from fedcell.methods.parts.defaults import LocalConfig
from fedcell.option_values import LARGE, TINY

FUZZ = runpy.run_path(str(Path(__file__).parents[1] / "benchmarks" / "fuzz.py"))
SMALL = FUZZ["SMALL"] | {"rounds": "1"}
PLACES = {
    "video": {"data.name": "video", "video.n_genres": "2", "video.files_per_genre": "5"},
    "stream": {"stream.kind": "markov"},
    "pruning": {"world.access": "block", "world.n_blocks": "3"},
    "recycling": {"world.access": "block", "world.n_blocks": "3"},
}
SECTIONS = sorted({key.partition(".")[0] for key, _ in FUZZ["every_option"]("central") if "." in key} - {"central"})
SHARED = {entry for entry, _, _ in options.keys(LocalConfig())}  # tried with FedAvg


def tried(method, key, texts, place):
    """Outcomes of an option's extremes; fails with the command that raises."""
    for text in texts:
        one = FUZZ["Configuration"](method, SMALL | PLACES.get(place, {}) | {key: text})
        assert FUZZ["attempt"](one) in ("ran", "diverged", "refused"), one.command()


@pytest.mark.parametrize("section", SECTIONS)
def test_settings_of_the_run(section):
    for key, texts in FUZZ["every_option"]("fedavg"):
        if key.partition(".")[0] == section:
            tried("fedavg", key, ends(texts), section)


@pytest.mark.parametrize("method", [*methods.names(), *(f"fedavg+{name}" for name in coding.names())])
def test_settings_of_methods(method):
    for key, texts in FUZZ["own_options"](method):
        if method == "fedavg" or key.partition(".")[2] not in SHARED:
            tried(method, key, ends(texts), method)


def ends(texts):
    """The texts without those in the middle, which other tests run."""
    return [text for text in texts if text not in ("1e-09", "1.0", "1000000000.0", "1e-30", "-1e+30")]


@pytest.mark.parametrize("number", range(60))
def test_drawn_configurations(number):
    one = FUZZ["drawn"](number, seed=1)
    assert FUZZ["attempt"](one) in ("ran", "diverged", "refused"), one.command()


@pytest.mark.parametrize(
    "text", ["fedprox:lr=1e39", "knowledge:deadline_s=1e200", "fedprox:mu=1e-300", "fedavg:lr=1e308"]
)
def test_what_float32_cannot_hold_is_refused(text):
    with pytest.raises(BadInput, match=r"out of range: it must be 0 or between 1e-38 and 1e\+38 in size"):
        methods.parse(text)


def test_the_ends_themselves_and_infinity_are_taken():
    assert options.override(scenarios.Config(), {"world.deadline_s": "inf"}).world.deadline_s == float("inf")
    assert methods.parse(f"fedprox:lr={LARGE}").config.lr == LARGE
    assert methods.parse(f"fedprox:lr={TINY}").config.lr == TINY
    with pytest.raises(BadInput, match=r"video.capacity = 1e\+20 is out of range: give at most 1e\+07 samples, or inf"):
        options.override(scenarios.Config(), {"video.capacity": "1e20"})


SNR = {  # 1e20 per watt and far beyond
    "world.pathloss": "power_law",
    "world.reference_gain_db": "60",
    "world.noise_dbm_per_hz": "-174",
    "world.deadline_s": "1",
    "world.energy_per_round_joule": "1e-3",
}


def test_a_channel_without_any_signal():
    """The SNR is below rounding, and so is what a share of the band changes."""
    place = {"world.noise_dbm_per_hz": "1e-30", "world.response": "exponential", "world.deadline_s": "0.8"}
    one = FUZZ["Configuration"](
        "representativity:start=round", SMALL | place | {"world.clock": "deadline", "rounds": "2"}
    )
    assert FUZZ["attempt"](one) == "ran", one.command()


@pytest.mark.parametrize("method", ["osafl:solver=exact", "osafl:solver=sca", "rawhfl:allocation=exact", "knowledge"])
@pytest.mark.parametrize("gain_db", ["60", "300", "-300"])
def test_solvers_with_channels_that_nobody_has(method, gain_db):
    place = {"world.access": "own_band"} if method.startswith("osafl") else {}
    one = FUZZ["Configuration"](method, SMALL | SNR | place | {"world.reference_gain_db": gain_db})
    assert FUZZ["attempt"](one) == "ran", one.command()
