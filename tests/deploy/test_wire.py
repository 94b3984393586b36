"""What travels: tasks and answers come back as they went, and answers that make no sense are turned away."""

import subprocess
import sys
from functools import partial
from io import BytesIO

import numpy as np
import pytest
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict
from hypothesis import given
from hypothesis import strategies as st

from fedcell.deploy import wire
from fedcell.deploy.calls import Call, call_of, function_of
from fedcell.deploy.tasks import Task
from fedcell.deploy.wire import Facts, MessageError
from fedcell.errors import BadInput
from fedcell.learn.work import full_name
from fedcell.methods.knowledge.means import class_means, flat_class_means, pulled_loss


def task(n_params=6, mask=None, start=None):
    start = np.arange(n_params, dtype=np.float32) + 1 if start is None else start
    return Task(2, 7, 11, n_params, 3, 5, 16, 0.1, 0.9, 0.01, {"name": "mlp"}, {"lr": 0.1}, start, mask)


def facts(**changes):
    return Facts(2, 7, np.array([1, 0, 4]), 0.25, "me")._replace(**changes)


@given(
    st.lists(
        st.tuples(st.floats(width=32, allow_nan=False, allow_infinity=False), st.booleans()), min_size=1, max_size=40
    ),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
def test_tasks_and_updates_come_back_as_they_went(entries, masked, pruned, shifted):
    start = np.array([value for value, _ in entries], dtype=np.float32)
    mask = np.array([kept for _, kept in entries]) if masked else None
    if pruned and mask is not None:
        start[~mask] = 0
    sent = task(len(start), mask, start)._replace(shift=start[::-1] if shifted else None)
    got = wire.unpack_task(wire.pack_task(sent))
    assert got._replace(start=None, mask=None, shift=None) == sent._replace(start=None, mask=None, shift=None)
    assert np.array_equal(got.shift, start[::-1]) if shifted else got.shift is None
    assert np.array_equal(got.start, start)
    assert (got.mask is None) == (mask is None)
    assert mask is None or np.array_equal(got.mask, mask)
    update = start if mask is None else np.where(mask, start, 0).astype(np.float32)
    content = wire.pack_facts(facts(), update, mask)
    assert np.array_equal(wire.unpack_update(content, sent), update)
    heard = wire.unpack_facts(content, 3)
    assert heard._replace(counts=None) == facts(counts=None)
    assert heard.counts.tolist() == [1, 0, 4]


def test_a_pruned_model_costs_what_it_keeps():
    mask = np.arange(4000) % 4 == 0
    start = np.where(mask, 1, 0).astype(np.float32)
    whole, part = (wire.bits(wire.pack_task(task(4000, one, start))) for one in (None, mask))
    assert part < 0.3 * whole  # a quarter of the numbers, one bit for every entry, and headers
    assert wire.bits(wire.pack_facts(facts(), start, mask)) < 0.27 * whole
    start[~mask] = 3  # entries that do not train but matter are sent
    assert wire.bits(wire.pack_task(task(4000, mask, start))) > whole
    assert np.array_equal(wire.unpack_task(wire.pack_task(task(4000, mask, start))).start, start)


def test_reports_and_losses_travel_by_name_without_a_model():
    means, known = np.arange(6, dtype=np.float32), np.array([1, 0, 1], dtype=np.float32)
    loss = partial(pulled_loss, 0.5, torch.from_numpy(means).view(3, 2), torch.from_numpy(known))
    calls = {"objective": call_of(loss, "loss"), "report": call_of(partial(flat_class_means, 3), "report")}
    sent = task(start=np.empty(0, np.float32))._replace(n_reported=6, **calls)
    got = wire.unpack_task(wire.pack_task(sent))
    assert (got.n_reported, len(got.start)) == (6, 0)
    assert got.report == ("fedcell.methods.knowledge.means.flat_class_means", (3,))
    found = function_of(got.objective, torch.device("cpu"))
    assert found.func is pulled_loss
    for one, two in zip(found.args, loss.args, strict=True):
        assert torch.equal(torch.as_tensor(one), torch.as_tensor(two))
    assert function_of(wire.unpack_task(wire.pack_task(task())).report, torch.device("cpu")) is None
    assert np.array_equal(wire.unpack_update(wire.pack_facts(facts(), means), sent), means)
    with pytest.raises(MessageError, match=r"not float32 \[6\]"):
        wire.unpack_update(wire.pack_facts(facts(), means[:4]), sent)


def answer(update=None, **values):
    content = wire.pack_facts(facts())
    content["facts"] = ConfigRecord({**content.config_records["facts"], **values})
    if update is not None:
        content["arrays"] = ArrayRecord({"update": Array(update)})
    return content


@pytest.mark.parametrize(
    ("update", "reason"),
    [
        (None, "holds no update"),
        (np.zeros(5, np.float32), r"float32 \[5\], not float32 \[6\]"),
        (np.zeros((2, 3), np.float32), r"\[2, 3\], not"),
        (np.zeros(6), "float64"),
        (np.array([0, 1, np.nan, 3, 4, np.inf], np.float32), "2 numbers that are not finite"),
    ],
)
def test_updates_that_cannot_be_used(update, reason):
    with pytest.raises(MessageError, match=reason):
        wire.unpack_update(answer(update), task())


def npy(header, data=b""):
    """Bytes in NumPy's format with any header."""
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + data


def zipped():
    file = BytesIO()
    np.savez(file, np.zeros(6, np.float32))
    return file.getvalue()


HOSTILE = {  # bytes in place of an array, each of which NumPy answers with another exception, or with much memory
    "pickle": b"\x80\x04cos\nsystem\n",
    "nothing": b"",
    "broken zip": b"PK\x03\x04" + bytes(40),
    "zip": zipped(),
    "huge": npy(b"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,)}\n"),
    "negative": npy(b"{'descr': '<f4', 'fortran_order': False, 'shape': (-2, -3)}\n", bytes(24)),
    "no size": npy(b"{'descr': '<V0', 'fortran_order': False, 'shape': (1000000000000,)}\n"),
    "token": npy(b"{'descr': '<f4', 'fortran_order': False, 'shape': (6,)\n"),
    "deep": npy(b"(" * 9000),
    "overflow": npy(b"{'descr': '<f4', 'fortran_order': False, 'shape': (" + b"9" * 400 + b",)}\n"),
    "objects": npy(b"{'descr': '|O', 'fortran_order': False, 'shape': (6,)}\n", bytes(48)),
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
def test_bytes_that_are_no_array(data):
    array = Array("float32", (6,), "numpy.ndarray", data)
    content = answer()
    content["arrays"] = ArrayRecord({"update": array, "tail": array})
    coding = {"name": "topk", "settings": {"fraction": 0.25, "feedback": False, "lost": "dropped"}}
    for read, asked in (
        (wire.unpack_update, task()),
        (wire.unpack_update, task()._replace(coding=coding)),
        (wire.unpack_tail, task()._replace(tail=np.zeros(6, np.float32))),
    ):
        with pytest.raises(MessageError, match="cannot be read"):
            read(content, asked)


def test_all_that_numpy_writes_is_read():
    for values in (np.arange(6, dtype=np.float32).reshape(2, 3).T, np.zeros((0, 3)), np.array(2), np.array([True])):
        assert np.array_equal(wire.read_array(Array(values), "x"), values)


@pytest.mark.parametrize(
    "values",
    [{"counts": [1, 2]}, {"counts": [1, -2, 3]}, {"device": "two"}, {"compute_s": -1.0}, {"compute_s": float("nan")}],
)
def test_facts_that_make_no_sense(values):
    with pytest.raises(MessageError):
        wire.unpack_facts(answer(**values), 3)
    with pytest.raises(MessageError, match="holds no facts"):
        wire.unpack_facts(RecordDict(), 3)


@pytest.mark.parametrize("counts", [[2**32, 0, 1], [2**33, 0, 0], [2**62, 2**62, 0], [2**63 - 1, 2**63 - 1, 2]])
def test_a_device_claims_no_more_than_sums_can_hold(counts):
    """Also where the sum of whole numbers would overflow."""
    assert wire.unpack_facts(answer(counts=[2**32 - 1, 0, 1]), 3).counts.sum() == 2**32
    with pytest.raises(MessageError, match="samples, more than any device holds"):
        wire.unpack_facts(answer(counts=counts), 3)


@pytest.mark.parametrize("function", [class_means, partial(class_means, 3), partial(flat_class_means, n_classes=3)])
def test_a_function_that_devices_do_not_have_is_refused(function):
    with pytest.raises(BadInput, match="trains with a loss of its own, which devices do not have"):
        call_of(function, "trains with a loss")


def test_a_device_loads_the_method_whose_function_it_needs():
    name = full_name(pulled_loss)
    code = f"""
import sys, torch
from fedcell.deploy.calls import Call, function_of
assert "fedcell.methods.knowledge" not in sys.modules
print(function_of(Call({name!r}, ()), torch.device("cpu")).func.__name__)
"""
    assert (
        subprocess.run([sys.executable, "-c", code], check=True, text=True, capture_output=True).stdout
        == "pulled_loss\n"
    )


@pytest.mark.parametrize(
    "name", ["wave.loss", "fedcell.methods.later.loss", "fedcell.methods..loss", "fedcell.cli.main"]
)
def test_a_device_loads_nothing_but_methods(name):
    before = {*sys.modules}
    with pytest.raises(BadInput, match="knows no"):
        function_of(Call(name, ()), torch.device("cpu"))
    assert {*sys.modules} == before


def test_a_device_of_another_fedcell_says_what_it_lacks():
    with pytest.raises(BadInput, match="knows no 'later_loss': install the fedcell of the server"):
        function_of(Call("later_loss", ()), torch.device("cpu"))
