"""Tests of a file stay in one process: whatever the others start is started once."""

import pytest

SEEN = []


@pytest.mark.parametrize("place", range(9))
def test_one_process_has_all_tests_of_a_file(place, request):
    """If processes took turns, none would have seen all that come before."""
    name = request.node.originalname
    mine = [item for item in request.session.items if getattr(item, "originalname", "") == name]
    SEEN.append(place)
    assert [item.callspec.params["place"] for item in mine[: len(SEEN)]] == SEEN
