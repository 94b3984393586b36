"""Sweeps on Ray: the rows of the local engine, whoever is killed; clusters that are joined stay, others go."""

import gc
import os
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import fedcell
from fedcell import machine, options, record, scenarios
from fedcell.cli import main
from fedcell.errors import BadInput
from fedcell.sweeps import drive, on_ray
from fedcell.sweeps.host import Host, Node

SMALL = {"world.n_devices": 4, "model.name": "logistic", "train.workers": 1, "eval_every": 5, "rounds": 20}
SLOW = """import os, time
from pathlib import Path
from fedcell.methods.fedavg import Config
from fedcell.methods.fedavg import build as plain

def build(config):
    method = plain(config)
    def decide(problem, state, observation):
        while observation.round > 4 and Path("wait").exists():
            time.sleep(0.05)
        written = Path(f"{os.getpid()}.pids")
        written.write_text(f"{os.getpid()} {os.getppid()}")
        written.replace(f"pids-{problem.seed}")
        time.sleep(0.05)
        return method.decide(problem, state, observation)
    return method._replace(decide=decide)
"""
CRASH = """import os, signal
from fedcell.methods.fedavg import Config
from fedcell.methods.fedavg import build as plain

def build(config):
    method = plain(config)
    def decide(problem, state, observation):
        if problem.seed == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return method.decide(problem, state, observation)
    return method._replace(decide=decide)
"""
SLOW_NAME = "seed{}/slow-"
OWN = """
import os, sys
import fedcell

seen = []

def watch(progress):
    if progress.row and not seen:
        ray = sys.modules["ray"]
        seen.append((ray.nodes()[0]["NodeManagerAddress"], ray.get_runtime_context().gcs_address))

(info,) = fedcell.sweep("fedavg", settings=SETTINGS, out="own", engine="ray", watch=watch)
print(info.state, sys.modules["ray"].is_initialized(), seen.pop()[0], os.environ["RAY_USAGE_STATS_ENABLED"])
(info,) = fedcell.sweep("fedavg", settings=SETTINGS, out="joined", engine="ray", address=ADDRESS, watch=watch)
print(info.state, sys.modules["ray"].is_initialized(), seen.pop()[1])
"""


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)


def same_as_alone(info: record.RunInfo, method: str = "fedavg") -> bool:
    """Whether rows and last state are those of `fedcell run`, byte for byte."""
    config = options.override(scenarios.get("cell").config, {**SMALL, "seed": info.seed})
    (made,) = record.execute(config, [method], Path("alone", *info.folder.parts))
    last = [max(path.glob("checkpoint-*.safetensors")).read_bytes() for path in (info.folder, made.folder)]
    rows = [(path / "rounds.jsonl").read_bytes() for path in (info.folder, made.folder)]
    return rows[0] == rows[1] and last[0] == last[1]


def processes() -> set[str]:
    """Command lines of everything that belongs to a local cluster of fedcell."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:  # it ended
            continue
        if "fedcell-ray-" in line:
            found.add(f"{path.parent.name} {line}")
    return found


# ---------------------------------------------------------------- equal, whatever dies


def test_rows_are_those_of_the_local_engine_whoever_is_killed(ray_cluster, monkeypatch):
    Path("crash.py").write_text(CRASH)
    Path("slow.py").write_text(SLOW)
    victims = {1: 1, 2: 0}  # seed -> which of (process of the run, its Ray worker) is killed
    notes: list[str] = []

    def kill(progress: record.Progress) -> None:
        notes.append(progress.note)
        for seed in list(victims):
            if SLOW_NAME.format(seed) in progress.label and progress.row and progress.row.round > 2:
                os.kill(int(Path(f"pids-{seed}").read_text().split()[victims.pop(seed)]), signal.SIGKILL)

    monkeypatch.setattr(on_ray, "TRIES", 2)
    shared = {"settings": SMALL, "seeds": [1, 2], "out": "s"}
    infos = fedcell.sweep(["slow.py", "crash.py", "fednova"], **shared, engine="ray", workers=2, watch=kill)
    assert not victims
    for info in infos:
        dies = (info.label, info.seed) == ("crash.py", 2)
        assert info.state == ("interrupted" if dies else "finished")
        assert dies or same_as_alone(info, info.label if info.label == "fednova" else "fedavg")
    ended = "its process ended with signal SIGKILL; perhaps memory ran out: use fewer workers"
    assert notes.count(f"{ended}; lost 2 times") == 1
    assert notes.count(f"{ended}; it resumes from its last checkpoint") == 2  # of the run that dies and of a killed one
    assert sum(note.startswith("its Ray worker was lost (The actor died") for note in notes) == 1
    assert not list(Path("s").glob("*.tmp"))


def test_what_ray_leaves_running_fails_no_test_that_comes_later(ray_nodes):
    from ray._private import services

    process = services.ConsolePopen(["sleep", "60"]).pid
    gc.collect()
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)


def test_a_network_and_data_of_ones_own_go_to_the_cluster(ray_cluster):
    Path("net.py").write_text("from torch import nn\n\ndef wide(n_classes):\n    return nn.Linear(3, n_classes)\n")
    x, y = np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) % 2
    data = fedcell.from_arrays(x[:30], y[:30], x[30:], y[30:])
    settings = {"rounds": 2, "world.n_devices": 4, "train.workers": 1}
    infos = [
        fedcell.sweep(
            "fedavg", settings=settings, model="net.py:wide", dataset=data, out=f"own-{engine}", engine=engine
        )
        for engine in ("ray", "local")
    ]
    rows = [(info.folder / "rounds.jsonl").read_bytes() for (info,) in infos]
    assert rows[0] == rows[1]


def test_ctrl_c_leaves_checkpoints_and_the_sweep_goes_on(ray_cluster, capsys):
    Path("slow.py").write_text(SLOW)
    Path("wait").touch()  # no run ends before the other one has begun
    seen: set[str] = set()

    def stop(progress: record.Progress) -> None:
        if progress.row and progress.row.round > 1:
            seen.add(progress.label)
        if len(seen) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fedcell.sweep("slow.py", settings=SMALL, seeds=[1, 2], out="s", engine="ray", workers=2, watch=stop)
    found = record.find("s")
    assert {(info.state, info.message) for info in found} == {("interrupted", "stopped by the user")}
    assert all(list(info.folder.glob("checkpoint-*")) for info in found)
    Path("wait").unlink()
    assert main(["sweep", "--resume", "s", "--engine", "ray", "--quiet"]) == 0
    assert capsys.readouterr().out.count("finished") == 2
    assert all(same_as_alone(info) for info in record.find("s"))


# ---------------------------------------------------------------- whose cluster


@pytest.fixture
def single():
    """A cluster of one node. A second process cannot tell the nodes of `ray_cluster` apart, which have one address."""
    pytest.importorskip("ray").shutdown()
    leave = machine.connect(None, cpus=2, store_bytes=200 << 20)
    yield
    leave()


@pytest.mark.alone
def test_a_cluster_of_its_own_goes_and_one_that_is_joined_stays(single):
    import ray

    address = ray.get_runtime_context().gcs_address
    before, left = processes(), set(Path("/tmp").glob("fedcell-ray-*"))
    script = OWN.replace("SETTINGS", repr(SMALL)).replace("ADDRESS", repr(address))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.splitlines() == ["finished False 127.0.0.1 0", f"finished False {address}"], done.stderr
    assert processes() == before
    assert set(Path("/tmp").glob("fedcell-ray-*")) == left
    assert [same_as_alone(info) for info in record.find(".") if "alone" not in info.folder.parts] == [True, True]
    assert ray.get(ray.remote(lambda: 7).remote()) == 7
    with pytest.raises(BadInput, match=f"uses the Ray cluster at {address}, not 127.0.0.1:1: call ray.shutdown"):
        fedcell.sweep("fedavg", settings=SMALL, out="t", engine="ray", address="127.0.0.1:1")


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("127.0.0.1:1", "no Ray cluster at 127.0.0.1:1 .*refused.*: start one with `ray start --head`"),
        ("[::1]:1", r"no Ray cluster at \[::1\]:1 .*(refused|unavailable|not supported|assign).*: start one"),
        ("127.0.0.1:99999999999999999999", "no Ray cluster at 127.0.0.1:99999999999999999999 .*: start one"),
        (f"{'a' * 70}.org:1", "no Ray cluster at a{70}.org:1 .*: start one"),
        ("ray://127.0.0.1:1", "is for Ray's remote client: run on a machine of the cluster"),
    ],
)
def test_an_address_that_nobody_answers_at_is_refused_before_anything_is_written(monkeypatch, address, words):
    monkeypatch.setattr(drive, "connected", lambda: False)
    with pytest.raises(BadInput, match=words):
        fedcell.sweep("fedavg", settings=SMALL, out="t", engine="ray", address=address)
    assert not list(Path().iterdir())


# ---------------------------------------------------------------- what is refused


def test_without_ray_one_sentence_says_how_to_get_it(monkeypatch, capsys):
    monkeypatch.setattr(machine, "find_spec", lambda name: None if name == "ray" else find_spec(name))
    assert main(["sweep", "fedavg", "--engine", "ray"]) == 2
    assert capsys.readouterr().err == "fedcell: --engine ray needs Ray: pip install 'fedcell[ray]'\n"
    assert not list(Path().iterdir())


def test_an_address_without_ray_is_refused(capsys):
    assert main(["sweep", "fedavg", "--address", "auto"]) == 2
    assert "--address auto is that of a Ray cluster: add --engine ray, or drop it" in capsys.readouterr().err
    assert not list(Path().iterdir())


def test_a_node_with_another_fedcell_ends_the_sweep(ray_cluster, monkeypatch):
    monkeypatch.setattr(on_ray, "__version__", "0")
    with pytest.raises(BadInput, match=r"has fedcell .*, not 0: install the same on all"):
        fedcell.sweep("fedavg", settings=SMALL, out="s", engine="ray")


def test_a_node_that_does_not_see_the_folder_is_refused(tmp_path):
    token = tmp_path / "seen.tmp"
    token.write_text("1234")
    hand = on_ray._Hand.__new__(on_ray._Hand)
    hand.sweep = on_ray._Sweep(on_ray.Orders("s"), token, *[None] * 6)
    seen, unseen = Host(1, str(tmp_path)).ready("seen.tmp"), Host(1, "/").ready("seen.tmp")
    hand._check(seen)
    assert isinstance(unseen, Node)
    with pytest.raises(BadInput, match=r"node .* does not see .*/s: sweep in a folder that all nodes of Ray share"):
        hand._check(unseen)
