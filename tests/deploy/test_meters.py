"""Joules that devices measure: RAPL's counters, a meter of one's own, and what the record says of them."""

import pytest
from inside import federation, play, run_config, share
from test_wire import answer

from fedcell.deploy import settings, wire
from fedcell.deploy.client import client_app
from fedcell.deploy.meters import Metering
from fedcell.deploy.tasks import MessageError
from fedcell.errors import BadInput
from fedcell.resolve import choose
from fedcell.scenarios import build_problem
from fedcell.simulate import simulate


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
    assert found.columns["n_estimated"].tolist() == [0.0] * 3
    assert (found.columns["estimated_joule"] > 0).all(), "of sending, which no meter counts"
    assert found.columns["compute_joule"].sum() == 0, "columns of the simulation stay those of the simulation"


def test_without_a_meter_the_record_has_the_estimate_of_the_model(tmp_path, monkeypatch):
    """As the simulation of the same decisions has it, with the bits that were really sent."""
    monkeypatch.setattr("fedcell.deploy.meters.RAPL", tmp_path / "nowhere")
    config = run_config(out=tmp_path / "run")
    found = play(config, federation(config, app=client_app(share)))
    asked = settings.read(config)
    method = choose(asked.method, asked.preset, {}).build()
    for row, _ in simulate(build_problem(asked.config), method):
        longer = found.columns["uplink_bit"][row.round] / row.uplink_bit
        assert found.columns["estimated_joule"][row.round] == pytest.approx(
            row.compute_joule + longer * row.radio_joule, rel=1e-9
        )
    assert found.columns["n_estimated"].tolist() == [4.0] * 3
    assert "measured_joule" not in found.columns


def test_a_device_that_is_metered_is_not_estimated(tmp_path, monkeypatch):
    """Apart by where joules come from: two devices have a meter, two have none."""
    monkeypatch.setattr("fedcell.deploy.meters.RAPL", tmp_path / "nowhere")
    readings = iter(range(1000))

    def app(meter):
        return client_app(share, meter=meter)

    apps = {True: app(lambda: float(next(readings))), False: app(None)}
    config = run_config(out=tmp_path / "run", rounds="1")
    grid = federation(config, app=lambda message, context: apps[context.node_id % 2 == 0](message, context))
    found = play(config, grid)
    assert found.columns["measured_joule"].tolist() == [2.0]
    assert (found.columns["n_metered"][0], found.columns["n_estimated"][0]) == (2, 2)


def test_messages_weigh_what_flower_makes_of_them(tmp_path):
    """Every object of a message once, as Flower's own walk over them finds it."""
    from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects

    def weight(message):
        return 8 * sum(len(one.deflate()) for one in get_all_nested_objects(message).values())

    config, up, down = run_config(out=tmp_path / "run", rounds="1"), [], []

    def weigh(node, message, reply):
        if message.metadata.message_type == "train":
            down.append(weight(message))
            up.append(weight(reply))
        return reply

    found = play(config, federation(config, weigh))
    assert len(up) == 4
    assert found.columns["uplink_message_bit"][0] == pytest.approx(sum(up), rel=1e-3)
    assert found.columns["downlink_message_bit"][0] == pytest.approx(sum(down), rel=1e-3), "up to an id of the message"
    assert (found.columns["uplink_message_bit"] > found.columns["uplink_bit"]).all()


@pytest.mark.parametrize("values", [{"joule": -1.0}, {"joule": float("nan")}, {"joule": 1e300}, {"meter": "mine"}])
def test_joules_that_make_no_sense(values):
    assert wire.unpack_facts(answer(joule=2.0, meter="rapl"), 3).joule == 2
    with pytest.raises(MessageError, match="training used"):
        wire.unpack_facts(answer(**values), 3)
