"""Runs that travel: the packed file of a paper, what it keeps, merging, and how long runs take."""

import gzip
import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_config import SMALL
from test_reproduce import clone, whole

from fedcell.cli import main
from fedcell.errors import BadInput
from fedcell.experiment import packing, reproduce, runs, stores, times
from fedcell.experiment.catalogue import ExperimentFile
from fedcell.experiment.ledger import ledger
from fedcell.options import override

clone = clone  # the fixture


def packed(clone, paper="first"):
    return clone / paper / "results" / stores.PACKED


def wipe(clone):
    """Leave what git keeps: results and packed files."""
    for path in clone.glob("*/results/*.runs.jsonl"):
        path.unlink()


def rows_of(clone):
    return [(row.name, row.key, row.verdict, row.ours, row.reason) for row in ledger(clone)]


def test_a_clone_judges_what_was_packed(clone, capsys, monkeypatch):
    """Same verdicts, numbers and figures without the stores; runs are not repeated."""
    whole(clone)
    assert main(["reproduce", "--all", "--seeds", "2"]) == 0
    assert main(["reproduce", "--all", "--pack"]) == 0
    err = capsys.readouterr().err
    assert "first/results/runs.jsonl.gz: 6 runs, " in err
    assert "second/results/runs.jsonl.gz: 2 runs, " in err
    before = rows_of(clone)
    written = {path: path.read_bytes() for path in clone.glob("*/results/*.json")}
    wipe(clone)
    assert main(["reproduce", "--all", "--stored"]) == 0
    assert rows_of(clone) == before
    assert {path: path.read_bytes() for path in clone.glob("*/results/*.json")} == written
    monkeypatch.setattr(runs, "run_case", lambda *_: pytest.fail("it is in the packed file"))
    assert main(["reproduce", "first/fig1", "--seeds", "2"]) == 0


def test_the_same_runs_make_the_same_bytes(clone, capsys):
    whole(clone)
    assert main(["reproduce", "first", "--seeds", "2"]) == 0
    assert main(["reproduce", "first", "--pack"]) == 0
    once = packed(clone).read_bytes()
    assert main(["reproduce", "first", "--pack"]) == 0, "from stores and packed file together"
    assert packed(clone).read_bytes() == once
    wipe(clone)
    assert main(["reproduce", "first", "--pack"]) == 0, "from the packed file alone"
    assert packed(clone).read_bytes() == once
    head, *lines = gzip.decompress(once).decode().splitlines()
    assert json.loads(head) == {"format": "fedcell runs", "version": 1, "runs": len(lines)}
    row = json.loads(lines[0])
    assert set(row) == {"store", "key", "row", "machine_s"}
    assert row["key"][2]["config"]["rounds"] == 2, "all settings are in it"


def test_columns_nobody_reads_are_left_out(clone, capsys):
    whole(clone)
    assert main(["reproduce", "first/fig1", "--seeds", "1"]) == 0
    full = stores.lines_of(clone / "first" / "results" / "fig1.runs.jsonl")[0]["row"]
    assert main(["reproduce", "first", "--pack"]) == 0
    thin = stores.read_packed(packed(clone))[0]["row"]
    assert set(thin) < set(full)
    assert set(thin) <= set(packing.ALWAYS)
    setting = clone / "first" / "setting.py"
    text = setting.read_text().replace("seeds = len(", "loss = [row['loss'] for row in rows]\n    seeds = len(")
    setting.write_text(text)
    packed(clone).unlink()
    assert main(["reproduce", "first", "--pack"]) == 0
    assert set(stores.read_packed(packed(clone))[0]["row"]) - set(thin) == {"loss"}


def test_columns_that_only_a_table_reads_are_kept_and_the_table_is_written(clone, capsys):
    """A paper's table is made in the clone from what was packed."""
    whole(clone)
    setting = clone / "first" / "setting.py"
    table = "lambda rows: beside('run', {'bits': {row['case']: ('', f\"{row['uplink_bit']:g}\") for row in rows}})"
    text = setting.read_text().replace("        check,\n    )", f"        check,\n        table={table},\n    )")
    setting.write_text(text.replace("import Case, Claim", "import beside, Case, Claim"))
    assert main(["reproduce", "first/fig1", "--seeds", "1"]) == 0
    assert main(["reproduce", "first", "--pack"]) == 0
    wipe(clone)
    assert main(["reproduce", "first/fig1", "--stored"]) == 0
    rows = json.loads((clone / "first" / "results" / "fig1.json").read_text())["table"]["rows"]
    assert [name for name, _, _ in rows] == ["first fedavg", "first fedprox"]
    assert all(float(bits) > 0 for _, _, bits in rows)


def test_stores_of_other_machines_are_merged(clone, capsys, tmp_path):
    whole(clone)
    away = tmp_path / "away"
    assert main(["reproduce", "first/fig1", "--seeds", "2", "--out", str(away), "--only", "fedavg"]) == 0
    other = tmp_path / "other"
    assert main(["reproduce", "first/fig1", "--seeds", "2", "--out", str(other), "--only", "fedprox"]) == 0
    moved = other / "first" / "fig1.gpu.runs.jsonl"
    (other / "first" / "fig1.runs.jsonl").rename(moved)
    assert main(["reproduce", "first", "--pack", "--from", str(away / "first"), "--from", str(moved)]) == 0
    assert len(stores.read_packed(packed(clone))) == 4
    assert {line["store"] for line in stores.read_packed(packed(clone))} == {"fig1"}
    assert "4 runs in first" in capsys.readouterr().out


def test_runs_with_other_settings_are_left_out(clone, capsys):
    whole(clone)
    assert main(["reproduce", "second/fig1", "--seeds", "2"]) == 0
    setting = clone / "second" / "setting.py"
    setting.write_text(setting.read_text().replace('"rounds": 2', '"rounds": 10'))  # longer: compiled files are stale
    assert main(["reproduce", "second", "--pack"]) == 1
    assert "no runs of second to pack: 2 on file, none that an experiment asks for" in capsys.readouterr().err
    assert main(["reproduce", "second/fig1", "--seeds", "1"]) == 0
    assert main(["reproduce", "second", "--pack"]) == 0
    assert "1 runs, 0.00 MB; left out 2 that no experiment asks for" in capsys.readouterr().err


def test_wrong_uses_of_pack_are_one_sentence(clone, capsys, tmp_path):
    whole(clone)

    def said(*arguments):
        assert main(["reproduce", *arguments]) == 2
        return capsys.readouterr().err

    assert "add --pack" in said("first", "--from", "x")
    assert "--pack takes papers" in said("--pack")
    assert "without --quick" in said("first", "--pack", "--quick")
    assert "pack them one by one" in said("--all", "--pack", "--from", "x")
    assert "holds no runs" in said("first", "--pack", "--from", str(tmp_path / "nowhere"))
    (tmp_path / "notes.txt").write_text("")
    assert "notes.txt holds no runs" in said("first", "--pack", "--from", str(tmp_path / "notes.txt"))


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda raw: raw[: len(raw) // 2], "is damaged"),
        (lambda raw: gzip.compress(b'{"format": "fedcell runs", "version": 99}\n'), "pack again"),
        (lambda raw: gzip.compress(b"[1]\n"), "is not a packed file"),
        (lambda raw: gzip.compress(b""), "is not a packed file"),
        (lambda raw: gzip.compress(b'{"format": "fedcell runs", "version": 1}\n{"store": "x"}\n'), "is damaged"),
    ],
)
def test_a_damaged_file_is_one_sentence(clone, damage, words):
    whole(clone)
    assert main(["reproduce", "second/fig1", "--seeds", "1"]) == 0
    assert main(["reproduce", "second", "--pack"]) == 0
    path = packed(clone, "second")
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(BadInput, match=words):
        stores.read_packed(path)


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**6), 10**6) | st.floats(-1e300, 1e300) | st.just(math.nan),
    lambda inner: st.lists(inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(["case", "accuracy", "final_accuracy", "own"]), values))
def test_rows_come_back_as_they_are_read_from_a_store(tmp_path_factory, row):
    path = tmp_path_factory.mktemp("packed") / stores.PACKED
    key = json.dumps(["a", 1, {"config": {}, "method": "fedavg"}], sort_keys=True)
    finite = {name: value for name, value in row.items() if "nan" not in repr(value) or name in stores.UNKNOWN}
    flat = {name: value for name, value in finite.items() if name not in stores.UNKNOWN or _floats(value)}
    stores.write_packed(path, [{"store": "s", "key": key, "row": flat}])
    (line,) = stores.read_packed(path)
    assert repr(line["row"]) == repr(dict(sorted(stores.rounded(flat).items())))
    assert line["key"] == key


def _floats(value):
    return isinstance(value, float) or (isinstance(value, list) and all(isinstance(one, float) for one in value))


@given(st.floats(-1e300, 1e300))
def test_five_digits_stay(number):
    once = stores.rounded({"curve": [number], "total": number})
    assert math.isclose(once["curve"][0], number, rel_tol=1e-4)
    assert once["total"] == number
    assert stores.rounded(once) == once


# ---------------------------------------------------------------- time


def key(case, rounds=100, seed=1, **network):
    """What a run of a case depends on, as in a store."""
    config = override(SMALL, {"rounds": rounds, **{f"model.{name}": value for name, value in network.items()}})
    return next(runs._keys(runs.Case(case, config, "fedavg"), [seed]))


def timed(device, case, seconds, store="tables", trained=True, **settings):
    row = {"case": case, "made_by": {"device": device}} | ({"accuracy": [0.5]} if trained else {})
    return Path(store), {"machine_s": seconds, "key": key(case, **settings), "row": row}


def to_do(case, store="tables", trained=True, seed=1, **settings):
    text = key(case, seed=seed, **settings)
    return times.Run(Path(store), stores.lasting(text), case, *times.likeness(text, trained))


def test_a_run_counts_whatever_machine_trained_it():
    def kept(**changes):
        train = {f"train.{name}": value for name, value in changes.items()}
        return stores.lasting(next(runs._keys(runs.Case("a", override(SMALL, train), "fedavg"), [1])))

    how = {"engine": "vmap", "device": "cpu", "workers": 1, "shards": 2, "gpu_gib": 4.0}
    assert kept(**how) == kept()
    assert kept(tf32=True) != kept()
    assert kept(lr=0.123) != kept()


def test_time_is_that_of_the_case_or_of_runs_like_it_or_of_the_other_device():
    clock = times.clock(
        [
            timed("cpu", "a", 10.0),
            timed("cpu", "a", 20.0),
            timed("cpu", "drop", 0.1, trained=False),
            timed("cuda", "a", 3.0),
            timed("cuda", "b", 4.0, "other"),
            timed("cuda", "large", 4.0, "other", name="mlp"),
        ]
    )
    assert clock.expected_s("cpu", to_do("a")) == 15
    assert clock.expected_s("cpu", to_do("a", rounds=300)) == 15, "a case is timed as it is"
    assert clock.expected_s("cpu", to_do("new", rounds=300)) == pytest.approx(45), (
        "as long per round as others of its store"
    )
    assert clock.expected_s("cpu", to_do("new", name="mlp")) is None, "another network"
    for device in ("cpu", "cuda"):
        assert clock.expected_s(device, to_do("new", trained=False)) == 0.1, "what is computed"
    assert clock.expected_s("cpu", to_do("b", "other")) == pytest.approx(20), "the time on a GPU, times the ratio"
    assert clock.expected_s("cpu", to_do("large", "other", name="mlp")) is None, "no such network was timed on both"
    assert clock.expected_s("cuda", to_do("c", "nowhere")) is None


def test_times_of_what_was_computed_foretell_nothing_of_training(monkeypatch):
    """Runs of half an hour must not be called a matter of seconds because some others need no training."""
    entry = ExperimentFile("first", "fig1", Path("/clone/first/fig1.py"))
    quick, slow = to_do("drop", trained=False), [to_do("trained", seed=seed) for seed in (1, 2, 3)]
    todo = dict.fromkeys([quick, *slow], entry)
    clock, said = times.clock([timed("cpu", "drop", 0.1, trained=False)]), []
    now = iter([0.0, 0.2, 1800.2, 3600.2, 5400.2])
    monkeypatch.setattr(reproduce.time, "monotonic", lambda: next(now))
    monkeypatch.setattr(reproduce.torch.cuda, "is_available", lambda: False)
    counted = reproduce._Counted(times.Workload(todo, todo, clock), said.append)
    assert said.pop() == "4 runs to do, about 100 ms one by one on this kind of device and 3 runs of unknown length"
    counted.run(entry, "[1/4] drop, seed 1: computed")
    assert "(run 1 of 4, 3 of unknown length left)" in said[-1]
    counted.run(entry, "[2/4] trained, seed 2: accuracy 0.500")
    assert "(run 2 of 4, about 1.00 h left)" in said[-1]
    counted.run(entry, "[3/4] trained, seed 1: accuracy 0.500")
    assert "(run 3 of 4, about 30.0 min left)" in said[-1]
    counted.run(entry, "[4/4] trained, seed 3: accuracy 0.500")
    assert said[-1].endswith("(run 4 of 4)")


def test_the_list_says_what_all_runs_take(clone, capsys):
    whole(clone)
    assert main(["reproduce"]) == 0
    assert "not on file; none of them was timed yet." in capsys.readouterr().out
    assert main(["reproduce", "second/fig1", "--seeds", "2"]) == 0
    capsys.readouterr()
    assert main(["reproduce"]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert "20 runs in all full grids, 18 not on file" in last
    assert "on a CPU and 15 runs of unknown length" in last


def test_missing_runs_are_listed_with_their_time_and_the_claims_that_wait(clone, capsys):
    whole(clone)
    assert main(["reproduce", "first/fig1", "--seeds", "2"]) == 0
    capsys.readouterr()
    assert main(["reproduce", "first", "--missing", "--seeds", "3"]) == 0
    lines = {
        line.split()[0]: line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("first/")
    }
    assert lines["first/fig1"][1] == "2", "of two cases one seed each"
    assert lines["first/fig1"][-4:] == ["first", "fedavg;", "first", "fedprox"]
    assert lines["first/fig1"][2] != "2", "the time that the first two seeds took"
    assert lines["first/fig10"][1] == "3"
    assert lines["first/fig10"][2:6] == ["3", "?", "3", "?"], "nothing of its store was timed"
    assert main(["reproduce", "first/fig1", "--missing", "--seeds", "2"]) == 0
    assert capsys.readouterr().out == "No run is missing.\n"
    assert main(["reproduce", "--missing", "--stored"]) == 2
    assert "drop --pack, --stored and --json" in capsys.readouterr().err


def test_runs_to_do_are_announced_when_times_are_known(clone, capsys):
    whole(clone)
    assert main(["reproduce", "second/fig1", "--seeds", "1"]) == 0
    assert "runs to do" not in capsys.readouterr().err
    assert main(["reproduce", "second/fig1", "--seeds", "3"]) == 0
    err = capsys.readouterr().err
    assert err.startswith("2 runs to do, about ")
    assert "(run 1 of 2, about " in err


def test_what_needs_no_training_runs_on_all_its_seeds(tmp_path):
    case = runs.Case("drop", SMALL, "fedavg", seeds=(4, 5, 6), measure=lambda config: {"square": config.seed**2})
    rows = runs.run_cases([case], [1, 2], tmp_path / "x.runs.jsonl", lambda text: None)
    assert [(row["seed"], row["square"]) for row in rows] == [(4, 16), (5, 25), (6, 36)]
    assert "accuracy" not in rows[0]
