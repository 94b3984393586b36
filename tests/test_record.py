"""The parts of a record: trees, checkpoints, rows, files and locks."""

import json
import math
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from fedcell.errors import BadInput, ContractError, FedcellError
from fedcell.record import checkpoint, files, rows, tree
from fedcell.record.checkpoint import Template
from fedcell.record.folder import ROWS
from fedcell.types import Row, Snapshot, Store, WorldState

CPU = torch.device("cpu")


class Memory(NamedTuple):
    gradients: torch.Tensor
    ages: np.ndarray
    extra: dict
    nothing: None = None


def a_tree() -> tuple:
    shared = torch.randn(3, 4)
    extra = {"a.b": 1, 7: (-0.0, math.nan, math.inf), "scalar": np.float64(0.1), "a": {"b": np.int64(2**62)}}
    odd = [shared, shared[1:], shared.T, torch.zeros(0, 5), torch.tensor(True), torch.randn(2).bfloat16()]
    arrays = (np.arange(6).reshape(2, 3)[:, ::-1], np.array(3.5), np.array([True, False]), np.zeros((0, 2)))
    return Memory(shared, np.arange(3), extra), odd, arrays, "text", 10**30, True


def bits(value: object) -> object:
    """A value in a form that is equal only for equal types and bits."""
    if isinstance(value, torch.Tensor):
        return "tensor", value.dtype, value.shape, value.contiguous().reshape(-1).view(torch.uint8).tolist()
    if isinstance(value, np.ndarray | np.generic):
        return type(value), value.dtype, value.shape, value.tobytes()
    if isinstance(value, dict):
        return [(key, bits(part)) for key, part in value.items()]
    if isinstance(value, tuple | list):
        return type(value), [bits(part) for part in value]
    return type(value), repr(value)


def a_snapshot(round: int = 3) -> Snapshot:
    world = WorldState(Store(np.arange(4).reshape(2, 2), np.array([2, 1])), None, np.array([np.inf, 0.1]), 12.5)
    generator = torch.Generator().manual_seed(round)
    return Snapshot(round, torch.randn(5, generator=generator), Memory(torch.ones(2), np.arange(2), {}), world)


def a_row(round: int, **changes: object) -> Row:
    values = Row(round, 0.1 * 3, 1e-300, 2, 1, 1 / 3, 0.0, 1e9, ".D", {"accuracy": 2 / 3, "loss": math.nan})
    return values._replace(**changes)


# ---------------------------------------------------------------- trees


def test_a_tree_comes_back_with_equal_bits():
    before = a_tree()
    node, tensors = tree.pack(before, tree.classes(before), CPU)
    json_round_trip = json.loads(json.dumps(node))
    after = tree.unpack(json_round_trip, tensors, tree.classes(before), CPU)
    assert bits(after) == bits(before)


@pytest.mark.parametrize("empty", [torch.zeros(0), torch.zeros(0, 5), np.zeros(0), np.zeros((3, 0)), np.zeros(0, bool)])
def test_an_empty_array_has_a_checksum_also_when_it_came_back(empty):
    first = tree.pack((empty, 1), {}, CPU)
    again = tree.pack(tree.unpack(*first, {}, CPU), {}, CPU)
    assert tree.digest(*first) == tree.digest(*again) != tree.digest(*tree.pack((empty, 2), {}, CPU))
    torch_made = tree.pack((torch.zeros(0).numpy(), 1), {}, CPU)  # an array with stride 0
    assert tree.digest(*torch_made)


def test_packing_copies_no_tensor_even_where_memory_is_shared():
    x = torch.randn(4, 3)
    _, tensors = tree.pack((x, x, x[1:]), {}, CPU)
    assert [part.data_ptr() for part in tensors.values()] == [x.data_ptr(), x.data_ptr(), x[1:].data_ptr()]


def test_what_cannot_be_saved_is_refused_by_name():
    known = tree.classes(a_tree())
    with pytest.raises(ContractError, match=r"state\.0\.x is a set"):
        tree.pack(({"x": {1, 2}},), known, CPU)
    with pytest.raises(ContractError, match=r"Store.*init"):
        tree.pack(Store(np.zeros(1), np.zeros(1)), known, CPU)
    with pytest.raises(ContractError, match="array of object"):
        tree.pack(np.array([None]), known, CPU)
    with pytest.raises(ContractError, match="is a dict"):
        tree.pack({(1, 2): 3}, known, CPU)


def test_two_classes_of_one_name_are_refused():
    class Other(NamedTuple):
        x: int

    Other.__qualname__ = "Memory"
    with pytest.raises(ContractError, match="'Memory'"):
        tree.classes((a_tree(), Other(1)))


# ---------------------------------------------------------------- checkpoints


def test_checkpoint_round_trip_and_equal_files(tmp_path):
    template = Template.of(a_snapshot(0))
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        checkpoint.save(tmp_path / name, a_snapshot(), template)
    first, second = ((tmp_path / name / "checkpoint-000003.safetensors") for name in ("a", "b"))
    assert first.read_bytes() == second.read_bytes()
    assert bits(checkpoint.load(first, template)) == bits(a_snapshot())
    assert b"pickle" not in first.read_bytes()


def test_a_checkpoint_holds_any_state_and_the_library_reads_it(tmp_path):
    snapshot = a_snapshot()._replace(method=a_tree())
    template = Template.of(snapshot)
    checkpoint.save(tmp_path, snapshot, template)
    (path,) = tmp_path.iterdir()
    assert bits(checkpoint.load(path, template)) == bits(snapshot)
    _, packed = tree.pack(snapshot, *template)
    found = load_file(path)
    assert found.keys() == packed.keys()
    assert all(bits(found[name]) == bits(packed[name]) for name in packed)


def test_a_checkpoint_may_hold_every_dtype_of_the_format(tmp_path):
    tensors = tuple(torch.ones(3).to(dtype) for dtype in checkpoint.DTYPES)
    snapshot = a_snapshot()._replace(method=tensors)
    template = Template.of(snapshot)
    checkpoint.save(tmp_path, snapshot, template)
    assert bits(checkpoint.load(next(tmp_path.iterdir()), template)) == bits(snapshot)
    with pytest.raises(ContractError, match=r"state\.method is a tensor of torch\.complex128"):
        checkpoint.save(tmp_path, a_snapshot()._replace(method=torch.ones(1, dtype=torch.complex128)), template)


def test_writing_a_checkpoint_copies_no_state(tmp_path):
    snapshot = a_snapshot()._replace(params=torch.ones(2_000_000))
    template = Template.of(snapshot)
    tracemalloc.start()
    checkpoint.save(tmp_path, snapshot, template)
    _, peak_byte = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_byte < 1_000_000 < snapshot.params.nbytes


def test_a_checkpoint_on_a_full_disk_leaves_no_trace(tmp_path, monkeypatch):
    template = Template.of(a_snapshot())
    monkeypatch.setattr(files.os, "fsync", lambda handle: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(FedcellError, match="the disk is full"), files.explained(tmp_path, "then resume"):
        checkpoint.save(tmp_path, a_snapshot(), template)
    assert not list(tmp_path.iterdir())


def test_a_killed_checkpoint_leaves_a_tmp_file_alone(tmp_path):
    code = (
        "import os, pathlib, sys; sys.path.insert(0, sys.argv[2])\n"
        "from test_record import Template, a_snapshot, checkpoint, files\n"
        "files.os.fsync = lambda handle: os._exit(9)\n"
        "checkpoint.save(pathlib.Path(sys.argv[1]), a_snapshot(1), Template.of(a_snapshot()))"
    )
    here = str(Path(__file__).parent)
    assert subprocess.run([sys.executable, "-c", code, str(tmp_path), here], check=False).returncode == 9
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint-000001.safetensors.tmp"]


def test_the_newest_two_checkpoints_are_kept(tmp_path):
    template = Template.of(a_snapshot())
    for round in (1, 2, 30, 400):
        checkpoint.save(tmp_path, a_snapshot(round), template)
    assert [path.name[11:17] for path in sorted(tmp_path.iterdir())] == ["000030", "000400"]


def test_checkpoints_of_a_million_rounds_are_newer_than_those_before(tmp_path):
    template = Template.of(a_snapshot())
    for round in (999_998, 999_999, 1_000_000):
        checkpoint.save(tmp_path, a_snapshot(round), template)
    kept = sorted(path.name for path in tmp_path.iterdir())
    assert kept == ["checkpoint-1000000.safetensors", "checkpoint-999999.safetensors"]
    found = checkpoint.newest(tmp_path, template, 2_000_000, pytest.fail)
    assert found is not None
    assert found.round == 1_000_000


def test_damage_anywhere_in_a_checkpoint_is_found(tmp_path):
    template, said = Template.of(a_snapshot()), []
    checkpoint.save(tmp_path, a_snapshot(1), template)
    checkpoint.save(tmp_path, a_snapshot(2), template)
    newest = tmp_path / "checkpoint-000002.safetensors"
    whole = newest.read_bytes()
    places = [0, 4, 9, 60, len(whole) // 2, len(whole) - 5, len(whole) - 1]
    damaged = [whole[:place] + bytes([whole[place] ^ 0x11]) + whole[place + 1 :] for place in places]
    for data in [*damaged, whole[:-3], whole[:40], b""]:
        newest.write_bytes(data)
        found = checkpoint.newest(tmp_path, template, 10, said.append)
        assert found is not None
        assert found.round == 1
    assert len(said) == len(places) + 3
    assert "checkpoint-000002.safetensors is damaged" in said[0]


def test_a_checkpoint_ahead_of_the_rows_is_passed_over(tmp_path):
    template, said = Template.of(a_snapshot()), []
    checkpoint.save(tmp_path, a_snapshot(4), template)
    checkpoint.save(tmp_path, a_snapshot(9), template)
    found = checkpoint.newest(tmp_path, template, 8, said.append)
    assert found is not None
    assert found.round == 4
    assert "ahead of the 8 recorded rounds" in said[0]
    assert checkpoint.newest(tmp_path, template, 3, said.append) is None


# ---------------------------------------------------------------- rows


def test_rows_round_trip_and_are_strict_json(tmp_path):
    row = a_row(0, clock_s=math.inf, n_selected=np.int64(2), compute_joule=np.float64(0.1))
    line = rows.encode(row)
    json.loads(line, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
    assert repr(rows.decode(line)) == repr(row._replace(compute_joule=0.1, n_selected=2))


def test_columns_mark_what_was_not_measured():
    found = rows.columns([a_row(0, metrics={}), a_row(1), a_row(2, metrics={"queue": 5.0})])
    assert found["round"].tolist() == [0, 1, 2]
    assert found["outcome"] == [".D"] * 3
    assert np.isnan(found["accuracy"]).tolist() == [True, False, True]
    assert found["queue"][2] == 5.0


def test_a_metric_may_not_take_the_name_of_a_column():
    with pytest.raises(ContractError, match="'clock_s'"):
        rows.encode(a_row(0, metrics={"clock_s": 1.0}))


@pytest.mark.parametrize("rest", [b'{"round":2,"clo', b'{"round":2}\n', b"\0\0\0\n", rows.encode(a_row(2))[:-1]])
def test_a_half_written_last_row_is_cut_and_said(tmp_path, rest):
    path, said = tmp_path / ROWS, []
    whole = rows.encode(a_row(0)) + rows.encode(a_row(1))
    path.write_bytes(whole + rest)
    journal = rows.Journal(tmp_path, said.append)
    assert path.read_bytes() == whole
    assert len(said) == 1
    assert f"half-written row ({len(rest)} bytes)" in said[0]
    journal.put(a_row(2))
    journal.close()
    assert path.read_bytes() == whole + rows.encode(a_row(2))


def test_a_damaged_row_in_the_middle_is_an_error(tmp_path):
    (tmp_path / ROWS).write_bytes(b"".join([rows.encode(a_row(0)), b"{}\n", rows.encode(a_row(2))]))
    with pytest.raises(FedcellError, match=r"line 2 of .* is damaged"):
        rows.Journal(tmp_path, print)


def test_a_row_that_is_there_is_compared(tmp_path):
    journal = rows.Journal(tmp_path, print)
    for round in (0, 1):
        journal.put(a_row(round))
    journal.close()
    before = (tmp_path / ROWS).read_bytes()
    again = rows.Journal(tmp_path, print)
    again.put(a_row(0))
    with pytest.raises(FedcellError, match=r"round 1 now gives accuracy = 0\.5 but .* holds 0\.6666666666666666"):
        again.put(a_row(1, metrics={"accuracy": 0.5, "loss": math.nan}))
    with pytest.raises(FedcellError, match=r"radio_joule = -0\.0 but .* holds 0\.0"):
        again.put(a_row(1, radio_joule=-0.0))
    again.close()
    assert (tmp_path / ROWS).read_bytes() == before


def test_ctrl_c_anywhere_in_a_row_leaves_a_sum_of_what_is_there(tmp_path):
    """Interrupted before each line of `put` in turn."""
    code, lines = rows.Journal.put.__code__, []

    def watch(frame, event, argument):
        if frame.f_code is not code:
            return None
        if event == "line":
            lines.append(frame.f_lineno)
            if len(lines) == stop:
                raise KeyboardInterrupt
        return watch

    for stop in range(1, 50):
        folder = tmp_path / str(stop)
        folder.mkdir()
        journal = rows.Journal(folder, print)
        journal.put(a_row(0))
        lines.clear()
        before = sys.gettrace()
        sys.settrace(watch)
        try:
            journal.put(a_row(1))
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(before)
        journal.close()
        journal.sum.check((folder / ROWS).read_bytes(), folder / ROWS)
        assert journal.sum.byte <= sum(map(len, journal.lines))
        if len(lines) < stop:  # it came to its end
            break
    assert 5 < stop < 49


@pytest.mark.parametrize("name", ["n_selected", "clock_s", "accuracy"])
def test_a_number_that_is_far_too_large_is_a_damaged_row(tmp_path, name):
    values = json.loads(rows.encode(a_row(1)))
    (values["metrics"] if name == "accuracy" else values)[name] = 10**400
    line = json.dumps(values).encode() + b"\n"
    assert not rows.sound(line, 1)
    (tmp_path / ROWS).write_bytes(b"".join([rows.encode(a_row(0)), line, rows.encode(a_row(2))]))
    for read in (rows.load, rows.read):
        with pytest.raises(FedcellError, match=r"line 2 of .* is damaged"):
            read(tmp_path)


def test_a_row_that_does_not_fit_leaves_no_trace(tmp_path):
    journal = rows.Journal(tmp_path, print)
    journal.put(a_row(0))

    class Full:
        """A file on a disk that has room for 20 more bytes."""

        room = 20

        def __init__(self, file):
            self.file = file

        def write(self, data):
            if not self.room:
                raise OSError(28, "No space left on device")
            written, self.room = self.file.write(data[: self.room]), 0
            return written

        def __getattr__(self, name):
            return getattr(self.file, name)

    journal.file = Full(journal.file)
    with pytest.raises(OSError, match="No space"):
        journal.put(a_row(1))
    assert (tmp_path / ROWS).read_bytes() == rows.encode(a_row(0))
    journal.close()


# ---------------------------------------------------------------- files and locks


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "status.json"
    files.write_json(path, {"state": "running", "limit": math.inf})
    monkeypatch.setattr(files.os, "fsync", lambda handle: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with (
        pytest.raises(FedcellError, match=r"the disk is full .* free some space, then resume"),
        files.explained(tmp_path, "then resume"),
    ):
        files.write_json(path, {"state": "finished"})
    assert json.loads(path.read_text()) == {"state": "running", "limit": "inf"}
    assert [entry.name for entry in tmp_path.iterdir()] == ["status.json"]


def test_a_folder_is_locked_against_another_process_and_freed_by_a_kill(tmp_path):
    code = (
        "import sys, time, pathlib; from fedcell.record.files import locked\n"
        "with locked(pathlib.Path(sys.argv[1])): print('held', flush=True); time.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        assert files.in_use(tmp_path)
        with pytest.raises(BadInput, match="in use by another fedcell process"), files.locked(tmp_path):
            pass
    finally:
        process.kill()
        process.communicate()
    assert not files.in_use(tmp_path)
    with files.locked(tmp_path):
        assert files.in_use(Path(tmp_path))
