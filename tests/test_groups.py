"""Tests of a file stay in one process: whatever the others start is started once. Each process has one thread."""

import os

import pytest
from threadpoolctl import threadpool_info

SEEN = []


@pytest.mark.parametrize("place", range(9))
def test_one_process_has_all_tests_of_a_file(place, request):
    """If processes took turns, none would have seen all that come before."""
    name = request.node.originalname
    mine = [item for item in request.session.items if getattr(item, "originalname", "") == name]
    SEEN.append(place)
    assert [item.callspec.params["place"] for item in mine[: len(SEEN)]] == SEEN


@pytest.mark.skipif("PYTEST_XDIST_WORKER" not in os.environ, reason="one process may use all cores")
def test_processes_side_by_side_have_one_thread_each():
    """Two threads of linear algebra in each of three processes wait for one another, busily."""
    libraries = threadpool_info()
    assert {one["user_api"] for one in libraries} >= {"blas", "openmp"}
    assert [one for one in libraries if one["num_threads"] > 1] == []
