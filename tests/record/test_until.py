"""Runs that stop at a target or a limit: the rows are a prefix, and a higher target resumes them."""

import json
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_config import SMALL

from fedcell import record, report, run
from fedcell.errors import BadInput
from fedcell.methods import parse
from fedcell.options import override, to_dict, written
from fedcell.record import execute, find, read, resume
from fedcell.record.drive import run_real
from fedcell.record.folder import specs
from fedcell.scenarios import build_problem
from fedcell.simulate import simulate
from fedcell.sweeps import sweep
from fedcell.types import Row
from fedcell.until import LIMITS, Goal, Until, falls, read_goals, written_goals

ROUNDS = 8
CONFIG = override(
    SMALL,
    {
        "rounds": ROUNDS,
        "train.lr": 0.05,
        "world.downlink": "broadcast",
        "world.idle_watt": 0.1,
        "world.receive_watt": 0.1,
    },
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run of all rounds."""
    return execute(CONFIG, ["fedavg"], tmp_path_factory.mktemp("whole") / "run")[0]


def stopped(path, until, rounds=ROUNDS):
    return execute(override(CONFIG, {"until": until, "rounds": rounds}), ["fedavg"], path)[0]


def lines(one):
    return (one.folder / "rounds.jsonl").read_text().splitlines()


def spent(whole, name):
    columns = whole.columns
    if name == "joules":  # listening and standing by as well, as in every table
        parts = [columns[f"{part}_joule"] for part in ("compute", "radio", "receive", "idle")]
        assert all(part.any() for part in parts)
        return np.cumsum(sum(parts))
    return columns["clock_s"] if name == "seconds" else np.cumsum(columns["uplink_bit"])


@pytest.mark.parametrize("name", LIMITS)
def test_a_limit_stops_after_the_round_that_reaches_it(whole, tmp_path, name):
    total = spent(whole, name)
    one = stopped(tmp_path / "run", f"{name}={(total[2] + total[3]) / 2}")
    assert (one.status.state, one.status.rounds, one.status.total) == ("finished", 4, ROUNDS)
    assert f"reached {name}=" in one.status.message
    assert lines(one) == lines(whole)[:4]


def test_a_metric_stops_at_its_first_round_and_resumes_to_a_higher_one(whole, tmp_path):
    accuracy = whole.columns["accuracy"]
    low, high = accuracy[0] + 1e-6, accuracy[:6].max()
    one = stopped(tmp_path / "run", f"accuracy={low}")
    first = int(np.argmax(accuracy >= low))
    assert one.status.rounds == first + 1
    assert 0 < first < int(np.argmax(accuracy >= high))
    again = resume(tmp_path / "run")[0]
    assert again.status == one.status  # nothing is left of it
    later = resume(tmp_path / "run", until={"accuracy": high})[0]
    assert later.status.rounds == int(np.argmax(accuracy >= high)) + 1
    assert lines(later) == lines(whole)[: later.status.rounds]
    assert later.config["until"] == f"accuracy={written(float(high))}"
    end = resume(tmp_path / "run", until="none")[0]
    assert lines(end) == lines(whole)
    assert end.status.message == ""


def test_a_single_run_of_a_comparison_resumes_to_a_target_of_its_own(whole, tmp_path):
    config = override(CONFIG, {"until": f"seconds={whole.columns['clock_s'][1]}"})
    one, other = execute(config, ["fedavg", "fedprox"], tmp_path / "two")
    assert (one.status.rounds, other.status.rounds) == (2, 2)
    resume(one.folder, until=f"seconds={whole.columns['clock_s'][4]}")
    one, other = record.read_all(tmp_path / "two")
    assert (one.status.rounds, other.status.rounds) == (5, 2)
    assert [info.state for info in find(tmp_path / "two")] == ["finished"] * 2


def test_a_run_killed_after_its_last_checkpoint_plays_no_round_more(whole, tmp_path):
    one = stopped(tmp_path / "run", f"seconds={whole.columns['clock_s'][3]}")
    (one.folder / "status.json").unlink()
    again = resume(tmp_path / "run")[0]
    assert again.status == one.status
    assert lines(again) == lines(one)


def test_a_falling_metric_is_reached_from_above(whole, tmp_path):
    loss = whole.columns["loss"]
    one = stopped(tmp_path / "run", f"loss={loss[2]}")
    assert one.status.rounds == 3
    assert falls("loss")
    assert not falls("accuracy")


def test_a_metric_that_only_rounds_have_is_a_condition_and_changes_no_row(tmp_path):
    config = override(CONFIG, {"rounds": 3})
    whole = execute(config, ["streaming"], tmp_path / "whole")[0]
    column = next(name for name in json.loads(lines(whole)[0])["metrics"] if name not in ("accuracy", "loss"))
    config = override(config, {"until": f"{column}={whole.columns[column].max()}"})
    one = execute(config, ["streaming"], tmp_path / "one")[0]
    assert f"reached {column}=" in one.status.message
    assert lines(one) == lines(whole)[: one.status.rounds]


def test_resuming_to_a_metric_that_the_rounds_on_file_lack_changes_nothing(whole, tmp_path):
    one = stopped(tmp_path / "run", f"seconds={whole.columns['clock_s'][1]}")
    before = (one.folder / "run.json").read_bytes(), (one.folder / "status.json").read_bytes()
    with pytest.raises(BadInput, match="did you mean 'loss'"):
        resume(tmp_path / "run", until="los=0.1")
    assert before == ((one.folder / "run.json").read_bytes(), (one.folder / "status.json").read_bytes())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("accuracy", "is no condition"),
        ("accuracy=much", "is no condition"),
        ("accuracy=nan", "is no condition"),
        ("seconds=0", "before the first round"),
        ("joule=3", "did you mean 'joules'"),
        ("acc=0.9", "did you mean 'accuracy'"),
        ("acuracy=0.9", "did you mean 'accuracy'"),
        ("secnds=9", "did you mean 'seconds'"),
        ("accuracy=90", "write accuracy=0.9"),
        ("accuracy=90%", "write accuracy=0.9"),
        ("loss=1%", "has a unit"),
        ("accuracy=0.5,accuracy=0.6", "twice"),
        ("los=0.9", "did you mean 'loss'"),
        ("seconds=1e-9,wastage=0.9", "measures no 'wastage': choose one of .*accuracy, loss"),
    ],
)
def test_what_is_no_condition_is_refused_before_anything_is_written(tmp_path, text, words):
    with pytest.raises(BadInput, match=words):
        stopped(tmp_path / "run", text)
    assert not (tmp_path / "run").exists()


def test_the_table_and_the_comparison_say_which_condition_was_met(whole, tmp_path):
    one = stopped(tmp_path / "run", f"seconds={whole.columns['clock_s'][3]}")
    assert "reached seconds=" in report.text([one])
    assert "reached seconds=" not in report.text([whole])
    found = report.compare([whole, one])
    assert any("stopped at different points" in note for note in found.notes)
    assert any("a condition of --until was met" in note for note in found.notes)
    assert not any("--until" in note for note in report.compare([whole]).notes)


def test_python_takes_a_dict(tmp_path):
    settings = {"rounds": 3, "model.name": "logistic", "world.n_devices": 3}
    one = run("fedavg", settings=settings, until={"seconds": 1e-9}, out=tmp_path / "run")[0]
    assert one.status.rounds == 1
    with pytest.raises(BadInput, match="drop one"):
        run("fedavg", settings=settings | {"until": "bits=1"}, until={"bits": 1}, out=tmp_path / "other")


def test_a_sweep_stops_each_run_and_resumes_to_a_higher_target(tmp_path):
    settings = {"rounds": ROUNDS, "model.name": "logistic", "world.n_devices": 3, "train.lr": 0.05}
    go = partial(sweep, ["fedavg", "fedprox"], "cell", [1, 2], settings, out=tmp_path / "study", workers=1)
    whole = sweep(["fedavg", "fedprox"], "cell", [1, 2], settings, out=tmp_path / "whole", workers=1)
    clocks = [read(info.folder).columns["clock_s"] for info in whole]
    limit = min(clock[2] for clock in clocks)
    short = go(until={"seconds": limit})
    assert [info.rounds for info in short] == [int(np.argmax(clock >= limit)) + 1 for clock in clocks]
    assert {info.state for info in short} == {"finished"}
    longer = go(until={"seconds": 2 * limit})
    assert [info.folder for info in longer] == [info.folder for info in short]
    for info, before, entire, clock in zip(longer, short, whole, clocks, strict=True):
        assert before.rounds < info.rounds == int(np.argmax(clock >= 2 * limit)) + 1
        assert lines(info) == lines(entire)[: info.rounds]
        assert "reached seconds" in info.message
    assert [info.rounds for info in go(until={"seconds": limit})] == [info.rounds for info in longer]
    assert [info.rounds for info in go()] == [ROUNDS] * 4


def test_rounds_of_real_devices_stop_and_continue_alike(whole, tmp_path):
    choice, clock = parse("fedavg"), whole.columns["clock_s"]
    for rounds in (3, 6):
        config = override(CONFIG, {"until": f"seconds={clock[rounds - 1]}"})
        run_real(config, choice, tmp_path / "real", build_problem(config), simulate)
        assert read(tmp_path / "real").status.rounds == rounds
        assert read(tmp_path / "real").config["until"] == config.until


def test_a_grid_of_conditions_is_refused(tmp_path):
    with pytest.raises(BadInput, match="a run stops once"):
        sweep("fedavg", grid={"until": ["accuracy=0.5", "accuracy=0.9"]}, out=tmp_path / "study")


def test_records_from_before_the_setting_are_read(whole):
    values = json.loads((whole.folder / "run.json").read_text())
    del values["config"]["until"]
    (whole.folder / "run.json").write_text(json.dumps(values))
    assert resume(whole.folder)[0].status.state == "finished"
    assert "until" not in read(whole.folder).config
    assert to_dict(CONFIG)["until"] == ""


names = st.sampled_from(["perplexity", "loss", *LIMITS])  # shares end at 1


@given(st.dictionaries(names, st.floats(1e-6, 1e6), max_size=5))
def test_conditions_are_read_back_as_written(goals):
    text = written_goals(goals)
    assert written_goals(text) == text
    assert {goal.name for goal in read_goals(text)} == set(goals)


@given(st.lists(st.tuples(*[st.floats(0, 10)] * 5), min_size=1, max_size=20), st.sampled_from(["seconds", "joules"]))
def test_the_first_row_that_meets_a_condition_is_named(values, name):
    rows, clock_s, joules = [], 0.0, 0.0
    totals = []
    for n, (seconds, compute, radio, bits, more) in enumerate(values):
        listening_and_idle = {"receive_joule": 0.25 * more, "idle_joule": 0.75 * more} if n % 2 else {}
        clock_s, joules = clock_s + seconds, joules + (compute + radio + sum(listening_and_idle.values()))
        totals.append({"seconds": clock_s, "joules": joules}[name])
        rows.append(Row(n, clock_s, seconds, 1, 1, compute, radio, bits, "D", listening_and_idle))
    found = Until([Goal(name, 15.0)]).after_all(rows)
    first = next((n for n, total in enumerate(totals) if total >= 15.0), None)
    assert (f"after {first + 1} rounds" in found) if first is not None else not found


def test_a_comparison_resumes_a_run_to_the_conditions_that_it_got_on_its_own(whole, tmp_path):
    accuracy = whole.columns["accuracy"]
    low, high = accuracy[0] + 1e-6, accuracy[:6].max()
    folder = stopped(tmp_path / "run", f"accuracy={low}").folder

    def stop(progress):
        if progress.row:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        resume(folder, until={"accuracy": high}, watch=stop)
    assert specs(folder.parent)[0][1].config["until"] == specs(folder)[0][1].config["until"]
    (one,) = resume(folder.parent)
    assert f"reached accuracy={high}" in one.status.message
    assert lines(one) == lines(whole)[: int(np.argmax(accuracy >= high)) + 1]
