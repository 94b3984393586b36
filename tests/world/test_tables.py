"""Numbers of devices from CSV files: laws that name a column, the device table, device classes."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_config import SMALL

import fedcell
from fedcell.errors import BadInput
from fedcell.options import Law, from_dict, override, to_dict
from fedcell.radio import most_steps, times
from fedcell.scenarios import Config, build_problem
from fedcell.simulate import begin
from fedcell.tables import File
from fedcell.types import Decision, Store, World
from fedcell.unused_settings import unused_settings
from fedcell.world import build_world, observe, start, static_stream
from fedcell.world.catalogue import BACKWARD, classes
from fedcell.world.devices import draw_devices
from fedcell.world.settings import WorldConfig
from fedcell.world.topology import place

TABLE = "cpu_hz,power_dbm,x_m,y_m\n1e9,20,100,0\n2e9,23,0,-50\n3e9,26,3,4\n"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "devices.csv"
    path.write_text(TABLE)
    return path


def test_a_law_can_be_a_column(table: Path) -> None:
    config = override(SMALL, {"world.cpu_hz": f"@{table}:cpu_hz", "world.n_devices": 3})
    devices = draw_devices(config.world, 1e6, seed=1)
    assert devices.cpu_hz.tolist() == [1e9, 2e9, 3e9]
    drawn = draw_devices(replace(config.world, cpu_hz=Law((1.0,))), 1e6, seed=1)
    assert (devices.power_watt == drawn.power_watt).all()  # other laws draw as ever


def test_a_table_reads_back_from_a_record_by_its_checksum(table: Path) -> None:
    config = override(SMALL, {"world.cpu_hz": f"@{table}:cpu_hz", "world.device_table": str(table)})
    written = json.loads(json.dumps(to_dict(config)))
    assert from_dict(Config(), written) == config
    assert len(written["world"]["cpu_hz"].partition("#")[2]) == 16
    table.write_text(TABLE.replace("3e9", "4e9"))
    changed = from_dict(Config(), written)  # a record stays readable
    with pytest.raises(BadInput, match="changed since it was recorded"):
        changed.world.cpu_hz.draw(np.random.default_rng(0), 3)
    with pytest.raises(BadInput, match="changed since it was recorded"):
        draw_devices(replace(changed.world, cpu_hz=Law((1e9,)), n_devices=3), 1e6, seed=1)
    table.unlink()
    with pytest.raises(BadInput, match="cannot be read"):
        from_dict(Config(), written).world.cpu_hz.draw(np.random.default_rng(0), 3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cpu_hz\n1e9\nfast\n", "line 3: cpu_hz = 'fast' is no number"),
        ("cpu_hz\n1e9\n10\n", "line 3 has 10, which is out of range: it must be at least 1000"),
        ("clock\n1e9\n", "has no column 'cpu_hz'"),
        ("cpu_hz,cpu_hz\n1,2\n", "double name"),
        ("cpu_hz,x\n1\n", "line 2 has 1 cells, not 2"),
        ("cpu_hz\n", "no lines below a header"),
    ],
)
def test_a_bad_column_is_refused_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with pytest.raises(BadInput, match=message):
        override(SMALL, {"world.cpu_hz": f"@{path}:cpu_hz"})


def test_a_column_of_another_length_is_refused(table: Path) -> None:
    config = override(SMALL, {"world.cpu_hz": f"@{table}:cpu_hz"})
    with pytest.raises(BadInput, match="has 3 lines, not 6"):
        draw_devices(config.world, 1e6, seed=1)


def test_one_file_holds_all_columns(table: Path) -> None:
    settings = override(SMALL, {"world.device_table": str(table), "world.n_devices": 3}).world
    devices, places = draw_devices(settings, 1e6, seed=1), place_of(settings)
    assert devices.cpu_hz.tolist() == [1e9, 2e9, 3e9]
    assert devices.power_watt == pytest.approx([0.1, 10**-0.7, 10**-0.4])
    assert places.position_m.tolist() == [[100, 0], [0, -50], [3, 4]]
    assert places.distance_m.tolist() == [100, 50, settings.min_distance_m]
    law = draw_devices(replace(settings, device_table=File("")), 1e6, seed=1)
    assert (devices.battery_joule == law.battery_joule).all()


def place_of(settings: WorldConfig):
    return world_of(settings).topology


def world_of(settings: WorldConfig) -> World:
    store = Store(np.zeros((settings.n_devices, 1), dtype=np.int64), np.ones(settings.n_devices, dtype=np.int64))
    return build_world(settings, static_stream(store), 10, 1e6, seed=1)


def test_a_table_names_cells_or_takes_the_nearest(tmp_path: Path) -> None:
    path = tmp_path / "cells.csv"
    settings = WorldConfig(n_devices=2, topology="cells", n_cells=2, radius_m=100)
    path.write_text("x_m,y_m,cell\n190,0,0\n10,0,1\n")
    assert place_of(replace(settings, device_table=File.of(str(path)))).cell.tolist() == [0, 1]
    path.write_text("x_m,y_m\n190,0\n10,0\n")
    assert place_of(replace(settings, device_table=File.of(str(path)))).cell.tolist() == [1, 0]
    path.write_text("cell\n1\n0\n")
    found = place_of(replace(settings, device_table=File.of(str(path))))
    drawn = place(settings, np.random.default_rng(0))
    assert found.cell.tolist() == [1, 0]
    assert found.position_m.shape == drawn.position_m.shape


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cpu_herz\n1\n1\n1\n", "column 'cpu_herz' of .* is unknown: did you mean 'cpu_hz'"),
        ("cpu_hz\n1e9\n", "has 1 lines but world.n_devices = 3"),
        ("power_dbm\n1\n2\n999\n", "line 4: power_dbm = 999 is out of range"),
        ("x_m\n1\n2\n3\n", "one of the columns x_m and y_m"),
        ("class\nphone_mid\nphone\nphone_mid\n", "line 3 names the device class 'phone'"),
        ("cell\n0\n0\n1\n", "line 4: cell = 1: write a finite number from 0 to 0"),
    ],
)
def test_a_bad_device_table_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with pytest.raises(BadInput, match=message):
        world_of(WorldConfig(n_devices=3, device_table=File.of(str(path))))


def test_a_table_of_places_does_not_move(table: Path) -> None:
    settings = WorldConfig(n_devices=3, device_table=File.of(str(table)), geometry="waypoints")
    with pytest.raises(BadInput, match=r"column 'x_m' and world\.geometry = 'waypoints' moves devices"):
        world_of(settings)


@pytest.mark.parametrize(
    ("text", "changes", "message"),
    [
        ("x_m,y_m\n1,2\n3,4\n", {"geometry": "redraw"}, r"'x_m' and world\.geometry = 'redraw' draws places anew"),
        ("x_m,y_m\n1,2\n3,4\n", {"topology": "square"}, r"'x_m' and world\.topology = 'square' draws places in a"),
        ("x_m,y_m\n1,2\n3,4\n", {"devices_per_cell": (2,)}, r"'x_m' and world\.devices_per_cell = 2 deals devices"),
        ("cell\n0\n0\n", {"devices_per_cell": (2,)}, r"'cell' and .* drop the column, or set devices_per_cell="),
    ],
)
def test_a_table_overrules_no_setting_in_silence(tmp_path: Path, text: str, changes: dict, message: str) -> None:
    path = tmp_path / "places.csv"
    path.write_text(text)
    with pytest.raises(BadInput, match=message):
        world_of(WorldConfig(n_devices=2, device_table=File.of(str(path)), **changes))


def test_a_table_of_cells_leaves_places_to_be_redrawn(tmp_path: Path) -> None:
    path = tmp_path / "cells.csv"
    path.write_text("cell\n0\n0\n")
    world = world_of(WorldConfig(n_devices=2, device_table=File.of(str(path)), geometry="redraw"))
    state = start(world, 1)
    first, second = (observe(world, state, 1, round)[0].topology.position_m for round in (0, 1))
    assert (first != second).any()


def test_a_record_whose_tables_are_gone_can_be_read() -> None:
    lost = "@gone.csv:capacity#0011223344556677"
    assert not from_dict(Config(), {"video": {"capacity": lost}}).video.capacity.values
    for kind in ("markov", "binomial"):
        laws = {"capacity": lost, "batch": lost}
        stream = from_dict(Config(), {"stream": {"kind": kind, "cache": "fifo", **laws}}).stream
        assert str(stream.capacity) == str(stream.batch) == lost
        with pytest.raises(BadInput, match=r"gone\.csv"):
            stream.capacity.draw(np.random.default_rng(1), 3)


def test_cells_are_whole_numbers(tmp_path: Path) -> None:
    path = tmp_path / "cells.csv"
    path.write_text("cell\n1\n0.5\n")
    with pytest.raises(BadInput, match=r"line 3: cell = 0\.5: write a whole number from 0 to 1"):
        world_of(WorldConfig(n_devices=2, topology="cells", n_cells=2, device_table=File.of(str(path))))


def test_a_law_that_a_class_replaces_is_named() -> None:
    config = override(SMALL, {"world.device_class": "phone_low", "world.cpu_hz": 1e9, "world.receive_watt": 1}).world
    told = unused_settings(config, ["cpu_hz", "receive_watt", "availability"], "world.")
    assert told["world.cpu_hz"].endswith("nothing while world.device_class = phone_low: leave world.device_class empty")
    assert "while world.downlink = none" in told["world.receive_watt"]
    assert not told["world.availability"]
    assert not unused_settings(replace(config, device_class=()), ["cpu_hz"])["cpu_hz"]


def test_a_step_of_a_class_takes_a_plus_b_times_the_batch() -> None:
    one = classes()["raspberry_pi_4"]
    world = world_of(WorldConfig(n_devices=4, device_class=(one.name,), bandwidth_hz=1e6))
    observation, _ = observe(world, _state(world), 1, 0)
    for batch in (1.0, 8.0, 64.0):
        compute_s, _ = times(world, observation, decision(world, batch))
        each = 1e6 * (1 + BACKWARD) / (0.25 * one.peak_flops_per_s)
        assert compute_s == pytest.approx(3 * (one.step_s + batch * each), rel=1e-12)
    watt = world.devices.capacitance * world.devices.cpu_hz**3
    assert watt == pytest.approx(one.load_watt)


@given(st.integers(1, 40), st.floats(0, 1e9).map(lambda cycles: round(cycles, 3)), st.floats(0.05, 30))
def test_most_steps_counts_the_cycles_of_a_step_itself(batch: int, step_cycles: float, deadline: float) -> None:
    world = world_of(WorldConfig(n_devices=3, step_cycles=Law((step_cycles,)), cycles_per_sample=Law((1e6,))))
    observation, _ = observe(world, _state(world), 1, 0)
    plan = decision(world, float(batch))._replace(deadline_s=deadline)
    most = most_steps(world, observation, plan)
    for extra, fits in ((0, True), (1, False)):
        steps = np.maximum(most + extra, 1)
        compute_s, upload_s = times(world, observation, plan._replace(steps=steps))
        on_time = compute_s + upload_s <= deadline * (1 + 1e-9)
        assert (on_time[most > 0] if fits else ~on_time[most < 10**9]).all()


def _state(world: World):
    return start(world, 1)


def decision(world: World, batch: float):
    n = world.n_devices
    return Decision(
        selected=np.ones(n, dtype=bool),
        steps=np.full(n, 3),
        samples_per_step=np.full(n, batch),
        cpu_hz=world.devices.cpu_hz,
        power_watt=world.devices.power_watt,
        bandwidth_hz=np.full(n, world.settings.bandwidth_hz / n),
        block=np.full(n, -1),
        payload_bit=np.full(n, world.payload_bit),
        deadline_s=np.inf,
    )


def test_classes_have_sources_and_can_be_run() -> None:
    assert {name.partition("_")[0] for name in classes()} == {"phone", "jetson", "raspberry", "mcu"}
    assert all(len(one.source) > 40 and one.flops_per_cycle > 0 for one in classes().values())
    config = override(SMALL, {"world.device_class": "phone_low,mcu_nrf52840"})
    devices = begin_world(config).devices
    assert set(devices.cpu_hz) == {1.9e9, 64e6}
    with pytest.raises(BadInput, match="'phone_lwo', which is unknown: did you mean 'phone_low'"):
        begin_world(override(SMALL, {"world.device_class": "phone_lwo"}))


def begin_world(config: Config) -> World:
    problem = build_problem(config)
    begin(problem, fedcell.methods.load("fedavg").build(fedcell.methods.load("fedavg").Config()))
    return problem.world


def test_a_run_with_a_table_refuses_to_resume_with_another_one(table: Path, tmp_path: Path) -> None:
    settings = {"world.device_table": str(table), "world.n_devices": 3, "rounds": 3, "train.steps": 1}
    (record,) = fedcell.run("fedavg", "cell", settings, out=str(tmp_path / "run"))
    assert "devices.csv#" in record.config["world"]["device_table"]
    table.write_text(TABLE.replace("3e9", "4e9"))
    folder = next((tmp_path / "run").rglob("run.json")).parent
    assert fedcell.read(folder).config == record.config
    for path in (tmp_path / "run").rglob("status.json"):
        path.unlink()  # as if it had been killed
    with pytest.raises(BadInput, match="changed since it was recorded"):
        fedcell.resume(folder)
