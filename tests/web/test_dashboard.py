"""The dashboard's server: fresh, confined to its folder, and deaf to strangers."""

import http.client
import json
import os
import shutil
import signal
import subprocess
import sys

import pytest

from fedcell.cli import main
from fedcell.errors import FedcellError
from fedcell.record.files import locked
from fedcell.record.stop import NAME as STOP
from fedcell.sweeps import sweep
from fedcell.web import server
from fedcell.web.board import Board

RUN = "seed1/fedavg"
TOKEN = "a-token-of-the-tests"


@pytest.fixture(autouse=True)
def _at_once(monkeypatch):
    """Look at every call, not now and then."""
    monkeypatch.setattr("fedcell.web.board.SCAN_EVERY_S", 0.0)
    monkeypatch.setattr("fedcell.web.board.LOOK_EVERY_S", 0.0)


def set_state(folder, state):
    path = folder / "status.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"state": state}))


def add_row(folder, number):
    path = folder / "rounds.jsonl"
    row = json.loads(path.read_text().splitlines()[-1]) | {"round": number}
    with path.open("a") as file:
        file.write(json.dumps(row, separators=(",", ":")) + "\n")


# ---------------------------------------------------------------- what it shows


def test_list_and_detail(site, runs):
    shown = site(runs)
    listed = shown.json("/api/runs")["runs"]
    assert {run["id"] for run in listed} == {f"seed{n}/{m}" for n in (1, 2) for m in ("fedavg", "fedprox-mu-0.5")}
    assert {run["state"] for run in listed} == {"finished"}
    detail = shown.json(f"/api/run?run={RUN}")
    assert detail["rows"]["done"] == [1, 2, 3, 4, 5, 6]
    assert detail["totals"]["rounds"] == 6
    assert len(detail["map"]["positions"]) == 5
    assert detail["settings"]["world.n_devices"] == "5"
    assert "seed" not in detail["settings"]


def test_a_running_run_is_followed_row_by_row(runs):
    board, folder = Board(runs), runs / "seed1" / "fedavg"
    version = board.listing()["version"]
    assert board.news(version, {})[0]["runs"] == []
    with locked(folder):
        set_state(folder, "running")
        listed, _ = board.news(version, {})
        assert [(run["id"], run["state"]) for run in listed["runs"]] == [(RUN, "running")]
        epoch = board.detail(RUN)["epoch"]
        add_row(folder, 6)
        listed, (fresh,) = board.news(listed["version"], {RUN: (epoch, 6)})
        assert [run["rounds"] for run in listed["runs"]] == [7]
        assert (fresh["rows"]["done"], fresh["done"], fresh["anew"]) == ([7], 7, False)
        assert board.news(listed["version"], {RUN: (epoch, 7)})[1] == []
    listed, _ = board.news(listed["version"], {})
    assert [run["state"] for run in listed["runs"]] == ["interrupted"]  # nobody holds it any more


def test_a_finished_run_that_lost_rows_is_damaged_until_it_is_resumed(runs):
    rows = runs / "seed1" / "fedavg" / "rounds.jsonl"
    whole = rows.read_bytes()
    rows.write_bytes(whole[: whole.index(b"\n") + 1])
    board = Board(runs)
    shown = {run["id"]: run for run in board.listing()["runs"]}[RUN]
    assert shown["state"] == "damaged"
    assert "(finished, but with 1 of 6 rows)" in shown["message"]
    assert board.detail(RUN) is None
    assert main(["run", "--quiet", "--resume", str(runs / "seed1")]) == 0
    assert rows.read_bytes() == whole
    shown = {run["id"]: run for run in board.listing()["runs"]}[RUN]
    assert (shown["state"], shown["rounds"], shown["message"]) == ("finished", 6, "")
    assert board.detail(RUN)["totals"]["rounds"] == 6


@pytest.mark.parametrize(("name", "text"), [("run.json", "{"), ("status.json", "null"), ("run.json", None)])
def test_a_damaged_file_is_shown_as_such(runs, name, text):
    path = runs / "seed1" / "fedavg" / name
    path.write_text(text) if text else path.unlink()
    board = Board(runs)
    for _ in range(2):
        states = {run["id"]: run["state"] for run in board.listing()["runs"]}
        assert states.pop(RUN) == "damaged"
        assert set(states.values()) == {"finished"}
        assert board.detail(RUN) is None


def test_waiting_runs_of_a_sweep_are_listed(tmp_path):
    small = {"rounds": 2, "world.n_devices": 4, "model.name": "logistic", "train.steps": 1}

    def stop(progress):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweep("fedavg", seeds=[1, 2], settings=small, out=tmp_path / "s", workers=1, watch=stop)
    board = Board(tmp_path)
    for _ in range(2):
        assert [run["state"] for run in board.listing()["runs"]] == ["waiting"] * 2
    infos = sweep("fedavg", seeds=[1, 2], settings=small, out=tmp_path / "s", workers=1)
    listed = board.listing()["runs"]
    assert {run["id"] for run in listed} == {info.folder.relative_to(tmp_path).as_posix() for info in infos}
    assert [(run["state"], run["rounds"]) for run in listed] == [("finished", 2)] * 2
    with pytest.raises(KeyboardInterrupt):
        sweep("fedavg", seeds=[1, 2, 3], settings=small, out=tmp_path / "s", workers=1, watch=stop)
    board._scan_due_s = 0.0
    assert [run["state"] for run in board.listing()["runs"]] == ["finished", "finished", "waiting"], "the sweep grew"
    shutil.rmtree(tmp_path / "s")
    assert board.listing()["ids"] == []


def test_folders_come_and_go(runs):
    board = Board(runs)
    board.listing()
    shutil.copytree(runs / "seed1", runs / "deep" / "below" / "seed3")
    assert "deep/below/seed3/fedavg" in board.listing()["ids"]
    shutil.rmtree(runs / "seed2")
    assert not [identity for identity in board.listing()["ids"] if identity.startswith("seed2")]


def test_events(site, runs):
    shown = site(runs)
    connection = http.client.HTTPConnection("127.0.0.1", shown.port, timeout=20)
    connection.request("GET", f"/api/events?run={RUN}&at=0.0&run=../x&at=1.0&run=seed1/fedprox&at=bad")
    answer = connection.getresponse()
    assert answer.headers["content-type"].startswith("text/event-stream")
    lines = [answer.readline().decode() for _ in range(2)]
    assert lines[0] == "event: list\n"
    assert len(json.loads(lines[1].removeprefix("data: "))["runs"]) == 4
    connection.close()


# ---------------------------------------------------------------- who may ask, and for what


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example", ""])
def test_other_names_are_refused(site, runs, host):
    assert site(runs).ask("/api/runs", host=host)[0] in (400, 403)


def test_other_origins_are_refused(site, runs):
    shown = site(runs)
    assert shown.ask("/api/runs", origin="http://evil.example")[0] == 403
    assert shown.ask("/api/runs", origin="null")[0] == 403
    assert shown.ask("/api/runs", origin=f"http://localhost:{shown.port}")[0] == 200
    assert shown.ask("/api/runs", host=f"localhost:{shown.port}")[0] == 200


@pytest.mark.parametrize(
    "path",
    [
        "/assets/../server.py",
        "/assets/..%2fserver.py",
        "/assets/%2e%2e/%2e%2e/version.py",
        "/assets/echarts.LICENSE",
        "/assets/",
        "/runs/",
        "/api/run?run=../../etc",
        "/api/run?run=/etc",
        "/api/run?run=seed1",
        "/api/run?run=seed1/../seed1/fedavg",
        "/api/run?run=seed1/fedavg%00",
        "/api/run",
    ],
)
def test_nothing_else_is_served(site, runs, path):
    assert site(runs).ask(path)[0] == 404


def test_links_and_names_that_lead_out_are_not_followed(site, runs, recorded):
    (runs / "link").symlink_to(recorded / "seed1")
    shutil.rmtree(runs / "seed2" / "fedavg")
    (runs / "seed2" / "fedavg").symlink_to(recorded / "seed2" / "fedavg")
    comparison = json.loads((runs / "seed1" / "comparison.json").read_text())
    comparison["runs"].append(comparison["runs"][0] | {"folder": "../../../outside"})
    (runs / "seed1" / "comparison.json").write_text(json.dumps(comparison))
    listed = {run["id"]: run["state"] for run in site(runs).json("/api/runs")["runs"]}
    assert listed.pop("seed1") == "damaged"  # the comparison that names a folder elsewhere
    assert listed.keys() == {RUN, "seed1/fedprox-mu-0.5", "seed2/fedprox-mu-0.5"}


def test_headers(site, runs):
    shown = site(runs)
    for path in ("/", "/assets/common.js", "/api/runs", "/nothing"):
        headers = shown.ask(path)[1]
        assert "script-src 'self';" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
    assert "<script>" not in shown.ask("/")[2]


def test_stop_needs_the_token_and_a_running_run(site, runs):
    shown, folder = site(runs), runs / "seed1" / "fedavg"
    with locked(folder):
        set_state(folder, "running")
        shown.json("/api/runs")
        assert shown.stop(RUN)[0] == 403
        assert shown.stop(RUN, x_fedcell_token="wrong")[0] == 403
        assert shown.stop(RUN, x_fedcell_token=TOKEN, origin="http://evil.example")[0] == 403
        assert not (folder / STOP).exists()
        assert shown.stop("../../etc", x_fedcell_token=TOKEN)[0] == 409
        assert shown.ask("/api/stop", "POST", "no json", x_fedcell_token=TOKEN)[0] == 400
        assert shown.ask("/api/stop", "GET", x_fedcell_token=TOKEN)[0] == 405
        status, text = shown.stop(RUN, x_fedcell_token=TOKEN)
        assert (status, json.loads(text)["again"]) == (200, f"fedcell run --resume {runs / 'seed1'}")
        assert (folder / STOP).exists()
    status, text = shown.stop("seed2/fedavg", x_fedcell_token=TOKEN)
    assert (status, "is not running" in text) == (409, True)


# ---------------------------------------------------------------- the command


def test_the_command_serves_until_it_is_interrupted(runs):
    command = [sys.executable, "-m", "fedcell", "dashboard", str(runs), "--port", "0", "--no-browser"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        address = process.stdout.readline().split()[1]
        assert address.startswith("http://127.0.0.1:")
        assert "/#token=" in address
        port = int(address.split(":")[2].partition("/")[0])
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        connection.request("GET", "/api/runs")
        assert len(json.load(connection.getresponse())["runs"]) == 4
        connection.close()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=20)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, err) == (0, "fedcell: the dashboard has ended\n")


def test_what_the_command_refuses(tmp_path, capsys, monkeypatch):
    assert main(["dashboard", str(tmp_path / "gone"), "--no-browser"]) == 2
    assert "gone is no folder" in capsys.readouterr().err
    assert main(["dashboard", str(tmp_path), "--port", "70000"]) == 2
    assert "--port 70000 is no port" in capsys.readouterr().err
    monkeypatch.delattr("fedcell.web.server")
    monkeypatch.delitem(sys.modules, "fedcell.web.server")
    monkeypatch.setitem(sys.modules, "starlette.applications", None)  # as if it were not installed
    assert main(["dashboard", str(tmp_path), "--no-browser"]) == 2
    assert "python3 -m pip install 'fedcell[dashboard]'" in capsys.readouterr().err


def test_a_port_that_is_taken():
    with server.bind(0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(FedcellError, match=f"port {port} cannot be used"):
            server.bind(port)
        with server.bind_near(port) as other:
            assert other.getsockname()[1] != port
        assert taken.getsockname()[0] == "127.0.0.1"


def test_starting_the_server_needs_no_pytorch():
    code = "import sys, fedcell.web.server; print('torch' in sys.modules)"
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout == "False\n"
