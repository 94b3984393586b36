"""Records of scaled runs: what they carry, how they resume, and what they refuse."""

import json
from dataclasses import replace

import pytest
from safetensors import safe_open
from small_config import SMALL

from fedcell import methods, record
from fedcell.data import load, scaled
from fedcell.data.scaling import SCALINGS
from fedcell.errors import FedcellError
from fedcell.options import override
from fedcell.record.prepare import fingerprint
from fedcell.scenarios import build_problem
from fedcell.simulate import begin


def under(kind):
    return override(SMALL, {"data.scaling": kind})


def play(folder, kind):
    return record.execute(replace(under(kind), rounds=6), ["fedavg"], folder, period=record.Period(rounds=2))


def bits(folder):
    newest = max((folder / "fedavg").glob("checkpoint-*.safetensors"))
    return (folder / "fedavg" / "rounds.jsonl").read_bytes(), newest.read_bytes()


def test_record_and_checkpoints_carry_setting_and_statistics(tmp_path):
    (found,) = play(tmp_path / "run", "standard")
    expected = scaled(load("digits"), "standard").scaling.record()
    assert found.config["data"]["scaling"] == "standard"
    assert found.scaling == expected
    assert set(expected) == {"kind", "shift", "scale"}
    for path in (tmp_path / "run" / "fedavg").glob("checkpoint-*.safetensors"):
        with safe_open(path, framework="pt") as file:
            assert json.loads(file.metadata()["fedcell"])["scaling"] == expected


def test_unit_leaves_no_trace_in_a_record(tmp_path):
    (found,) = play(tmp_path / "run", "unit")
    assert found.scaling == {}
    with safe_open(max((tmp_path / "run" / "fedavg").glob("checkpoint-*")), framework="pt") as file:
        assert "scaling" not in json.loads(file.metadata()["fedcell"])


def test_a_record_from_before_the_setting_is_read_and_resumed(tmp_path):
    play(tmp_path / "run", "unit")
    whole = bits(tmp_path / "run")
    for path in (tmp_path / "run" / "comparison.json", tmp_path / "run" / "fedavg" / "run.json"):
        values = json.loads(path.read_text())
        for run in values.get("runs", [values]):
            del run["scaling"], run["config"]["data"]["scaling"], run["config"]["video"]["scaling"]
        path.write_text(json.dumps(values))
    stop_after(tmp_path / "run" / "fedavg", 3)
    (found,) = record.resume(tmp_path / "run")
    assert (found.status.state, found.scaling) == ("finished", {})
    assert bits(tmp_path / "run") == whole


def stop_after(folder, rounds):
    """Leave the folder of a run as a kill after so many rounds would."""
    rows = (folder / "rounds.jsonl").read_text().splitlines(keepends=True)
    (folder / "rounds.jsonl").write_text("".join(rows[:rounds]))
    for path in folder.glob("checkpoint-*.safetensors"):
        if int(path.stem.partition("-")[2]) > rounds:
            path.unlink()
    status = json.loads((folder / "status.json").read_text())
    (folder / "status.json").write_text(json.dumps({**status, "state": "running"}))


@pytest.mark.parametrize("kind", ["half", "standard"])
def test_a_scaled_run_resumes_bit_identical(kind, tmp_path):
    play(tmp_path / "run", kind)
    whole = bits(tmp_path / "run")
    stop_after(tmp_path / "run" / "fedavg", 3)
    record.resume(tmp_path / "run")
    assert bits(tmp_path / "run") == whole


def test_a_run_does_not_resume_with_another_scaling(tmp_path):
    play(tmp_path / "run", "standard")
    stop_after(tmp_path / "run" / "fedavg", 3)
    for path in (tmp_path / "run" / "comparison.json", tmp_path / "run" / "fedavg" / "run.json"):
        path.write_text(path.read_text().replace('"scaling": "standard"', '"scaling": "half"'))
    with pytest.raises(FedcellError, match="would not begin from the state it began from"):
        record.resume(tmp_path / "run")


def test_fingerprints_differ_by_scaling_alone():
    method = methods.parse("fedavg", {}).build()
    problems = [build_problem(under(kind)) for kind in SCALINGS]
    starts = [fingerprint(problem, begin(problem, method)) for problem in problems]
    assert len(set(starts)) == len(SCALINGS)
    other = problems[2]._replace(scaling=problems[2].scaling._replace(scale=problems[2].scaling.scale * 2))
    assert fingerprint(other, begin(other, method)) != starts[2]  # a server has no samples to tell by
