"""Joules that devices measure: RAPL's counters, a meter of one's own, and what the record says of them."""

import pytest
from inside import federation, play, run_config, share
from test_wire import answer

from fedcell.deploy import wire
from fedcell.deploy.client import client_app
from fedcell.deploy.meters import Metering
from fedcell.deploy.tasks import MessageError
from fedcell.errors import BadInput


def counters(folder, *microjoules, most=10_000_000):
    for number, one in enumerate(microjoules):
        place = folder / f"intel-rapl:{number}"
        place.mkdir(exist_ok=True)
        (place / "energy_uj").write_text(f"{one}\n")
        (place / "max_energy_range_uj").write_text(f"{most}\n")
    (folder / "intel-rapl:0:0").mkdir(exist_ok=True)  # a part of a package, which is counted already


def test_rapl_adds_packages_and_begins_anew(tmp_path):
    counters(tmp_path, 1_000_000, 9_000_000)
    metering = Metering(rapl=tmp_path)
    counters(tmp_path, 3_500_000, 1_000_000)
    assert metering.used() == (pytest.approx(2.5 + 2.0), "rapl")


def test_without_a_meter_nothing_is_said(tmp_path):
    assert Metering(rapl=tmp_path / "nowhere").used() == (0.0, "")


def test_a_meter_of_ones_own():
    readings = iter([5.0, 7.5, 9.0, 1.0])
    assert Metering(lambda: next(readings)).used() == (2.5, "own")
    with pytest.raises(BadInput, match="went back by 8 J"):
        Metering(lambda: next(readings)).used()


def test_the_record_has_what_devices_measured(tmp_path):
    readings = iter(range(1000))
    config = run_config(out=tmp_path / "run")
    found = play(config, federation(config, app=client_app(share, meter=lambda: float(next(readings)))))
    assert found.columns["measured_joule"].tolist() == [4.0] * 3
    assert found.columns["n_metered"].tolist() == [4.0] * 3
    assert found.columns["compute_joule"].sum() == 0, "columns of the simulation stay those of the simulation"


@pytest.mark.parametrize("values", [{"joule": -1.0}, {"joule": float("nan")}, {"joule": 1e300}, {"meter": "mine"}])
def test_joules_that_make_no_sense(values):
    assert wire.unpack_facts(answer(joule=2.0, meter="rapl"), 3).joule == 2
    with pytest.raises(MessageError, match="training used"):
        wire.unpack_facts(answer(**values), 3)
