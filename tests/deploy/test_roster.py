"""Which node is which device."""

import numpy as np
import pytest

from fedcell.deploy.roster import Roster, read_known
from fedcell.deploy.tasks import MessageError
from fedcell.deploy.wire import Facts
from fedcell.errors import BadInput


@pytest.fixture
def told():
    return []


@pytest.fixture
def roster(told):
    return Roster(3, 2, told.append)


def facts(device, identity="", samples=4):
    return Facts(device, 0, np.array([samples, 0]), 0.0, identity)


def test_new_nodes_are_asked_once(roster):
    assert roster.refresh([7, 5]) == [5, 7]
    assert roster.refresh([5, 7, 9]) == [9]
    roster.forget(7)
    assert roster.refresh([5, 7, 9]) == [7]


def test_members_come_and_go(roster, told):
    roster.refresh([5, 7])
    roster.admit(5, facts(2))
    assert roster.present.tolist() == [False, False, True]
    assert roster.counts[2].tolist() == [4, 0]
    roster.refresh([7])
    assert not roster.present.any()
    assert roster.node_of(2) == 0
    assert roster.counts[2].tolist() == [4, 0], "what it held is not forgotten"
    assert "gone" in told[-1]


def test_the_second_of_two_is_refused_and_takes_over_when_the_first_is_gone(roster, told):
    roster.refresh([5, 7])
    roster.admit(5, facts(1, "a"))
    roster.admit(7, facts(1, "b", samples=9))
    assert roster.node_of(1) == 5
    assert "node 7 is refused" in told[-1]
    assert "device 1" in told[-1]
    assert roster.refresh([5, 7]) == []
    roster.refresh([7])
    assert roster.node_of(1) == 7
    assert roster.counts[1].tolist() == [9, 0]


def test_nodes_without_identity_are_never_taken_for_each_other(roster):
    roster.admit(5, facts(1))
    roster.admit(7, facts(1))
    assert roster.node_of(1) == 5


def test_a_restarted_node_takes_its_place_at_once(roster, told):
    roster.refresh([5])
    roster.admit(5, facts(1, "same"))
    roster.refresh([5, 7])
    roster.admit(7, facts(1, "same"))
    assert roster.node_of(1) == 7
    assert "back" in told[-1]


@pytest.mark.parametrize("device", [-1, 3])
def test_a_device_that_does_not_exist(roster, device):
    with pytest.raises(MessageError, match="partition-id from 0 to 2"):
        roster.admit(5, facts(device))


# ---------------------------------------------------------------- keys


def test_a_node_is_the_device_that_its_key_was_registered_for(tmp_path, told):
    (tmp_path / "nodes").write_text("0 5\n\n1   7\n")
    known = read_known(str(tmp_path / "nodes"))
    assert known == {5: 0, 7: 1}
    roster = Roster(3, 2, told.append, known)
    roster.admit(5, facts(0))
    with pytest.raises(MessageError, match="node 7 says it is device 0 and known-nodes has it as device 1"):
        roster.admit(7, facts(0))
    roster.refresh([7])  # node 5 is gone, and its place stays its own
    with pytest.raises(MessageError, match="device 1"):
        roster.admit(7, facts(0))
    with pytest.raises(MessageError, match="known-nodes has it as no device"):
        roster.admit(9, facts(2))
    roster.admit(7, facts(1))
    assert roster.present.tolist() == [False, True, False]


@pytest.mark.parametrize("text", ["0 5\n0 7", "", "zero five", "0 5 6"])
def test_a_list_of_nodes_that_makes_no_sense(text, tmp_path):
    (tmp_path / "nodes").write_text(text)
    with pytest.raises(BadInput, match="known-nodes"):
        read_known(str(tmp_path / "nodes"))
    assert read_known("") is None
