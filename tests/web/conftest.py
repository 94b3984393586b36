"""Recorded runs for the pages: a small comparison on two seeds, made once."""

import http.client
import json
import shutil
import threading

import pytest

from fedcell.cli import main
from fedcell.web import server

SMALL = ["--set", "world.n_devices=5", "--set", "model.name=logistic", "--set", "train.steps=1"]
TOKEN = "a-token-of-the-tests"


@pytest.fixture(scope="session")
def recorded(tmp_path_factory):
    """`runs/seed1` and `runs/seed2`, each with two methods and six rounds; not to be changed."""
    runs = tmp_path_factory.mktemp("recorded") / "runs"
    for seed in ("1", "2"):
        few = ["--rounds", "6", "--seed", seed, "--out", str(runs / f"seed{seed}"), "--quiet", *SMALL]
        assert main(["run", "fedavg", "fedprox:mu=0.5", "--set", "world.deadline_s=0.17", *few]) == 0
    return runs


@pytest.fixture
def runs(recorded, tmp_path):
    """A copy of `recorded` to change."""
    return shutil.copytree(recorded, tmp_path / "runs")


class Client:
    """A dashboard that answers, and a plain way to ask it."""

    def __init__(self, root, port):
        self.root, self.port = root, port
        self.address = f"http://127.0.0.1:{port}/#token={TOKEN}"

    def ask(self, path, method="GET", body=None, **headers):
        """(status, headers, text) of one request; `host=` and the like replace headers."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, dict(answer.headers), text

    def json(self, path):
        status, _, text = self.ask(path)
        assert status == 200, text
        return json.loads(text)

    def stop(self, run, **headers):
        status, _, text = self.ask("/api/stop", "POST", json.dumps({"run": run}), **headers)
        return status, text


@pytest.fixture(scope="session")
def leaving():
    """Dashboards that were told to stop, which takes each 0.2 s: nobody waits before all tests are over."""
    told = []
    yield told
    for thread, listening in told:
        thread.join(timeout=10)
        listening.close()


@pytest.fixture
def site(leaving):
    """Start a dashboard: `site(folder)`."""
    running = []

    def start(root):
        listening = server.bind(0)
        port = listening.getsockname()[1]
        served = server.Site(root, port, TOKEN)
        thread = threading.Thread(target=served.serve, args=[listening], daemon=True)
        thread.start()
        running.append((served.server, thread, listening))
        return Client(root, port)

    yield start
    for served, thread, listening in running:
        served.should_exit = True
        leaving.append((thread, listening))
