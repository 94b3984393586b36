"""Processes of Flower that fedcell starts: in the clear on this machine alone, and with a pause of one's own."""

import os
import sys
import time
from pathlib import Path

import pytest

from fedcell.deploy import node, prefork
from fedcell.deploy.loopback import refuse_open
from fedcell.errors import BadInput

OPEN = [
    ["--insecure", "--superlink", "10.0.0.7:9092"],
    ["--superlink=fl.example.org:9092", "--insecure"],
    ["--insecure", "--host", "0.0.0.0", "--superlink", "127.0.0.1:9092"],
    ["--runtime-api-address", "192.168.1.4:9094", "--insecure"],
    ["--insecure", "--superlink"],
    ["--insecure", "--appio-api-address", "10.0.0.7:9091"],
    ["--insecure", "--superl", "10.0.0.7:9092"],
]


@pytest.mark.parametrize("flags", OPEN)
def test_nothing_is_sent_in_the_clear_beyond_this_machine(flags):
    with pytest.raises(BadInput, match=r"with --insecure: without TLS only 127\.0\.0\.1 is allowed"):
        refuse_open(flags)
    refuse_open([flag for flag in flags if flag != "--insecure"])


def test_insecure_may_be_abbreviated():
    with pytest.raises(BadInput, match="with --insecure"):
        refuse_open(["--insec", "--superlink", "10.0.0.7:9092"])


def test_this_machine_is_allowed():
    refuse_open(["--insecure", "--superlink", "127.0.0.1:8000", "--host", "localhost", "--port", "9094"])


@pytest.mark.parametrize("command", [node, prefork])
def test_commands_of_ours_end_with_a_sentence(command, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["command", "--insecure", "--superlink", "10.0.0.7:1"])
    with pytest.raises(SystemExit, match=r"^fedcell: --superlink 10\.0\.0\.7:1 with --insecure"):
        command.main()


def test_pauses_are_no_longer_than_asked_for(monkeypatch):
    slept = []
    monkeypatch.setattr(time, "sleep", slept.append)
    clock = node.ShortSleeps(0.2)
    clock.sleep(3)
    clock.sleep(0.1)
    assert slept == [0.2, 0.1]
    assert clock.monotonic is time.monotonic
    assert node.own_flag(["--insecure"]) == (0.2, ["--insecure"])
    assert node.own_flag(["--poll-s=0.5", "--insecure"]) == (0.5, ["--insecure"])
    for wrong in ("0", "fast", "nan", "1e9"):
        with pytest.raises(BadInput, match="--poll-s"):
            node.own_flag(["--poll-s", wrong])
    for wrong in (["--poll-s"], ["--poll-s="]):
        with pytest.raises(BadInput, match="--poll-s"):
            node.own_flag(wrong)


def fails():
    raise ValueError("no such network")


@pytest.mark.parametrize(
    ("command", "code", "told"),
    [
        (fails, 1, "ValueError: no such network"),
        (lambda: sys.exit("fedcell: no folder"), 1, "fedcell: no folder"),
        (lambda: sys.exit(3), 3, ""),
        (sys.exit, 0, ""),
    ],
)
def test_a_forked_command_says_why_it_failed(command, code, told, monkeypatch, capfd):
    monkeypatch.setattr(prefork, "commands", lambda: {"flwr-clientapp": command})
    child = prefork.forked(["flwr-clientapp"])
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == code
    assert told in capfd.readouterr().err


def test_flowers_loop_still_sleeps_by_the_module_that_is_replaced():
    """If this fails, Flower has changed: see whether it has a setting by now."""
    from importlib import import_module

    loop = import_module("flwr.supernode.start_client_internal")
    assert loop.time is time
    assert "time.sleep(3)" in Path(loop.__file__).read_text(encoding="utf-8")
