"""What the Flower path costs: seconds per round of one method, simulated and deployed, and bytes on the wire.

    python benchmarks/flower.py [--devices 3 10 50] [--rounds 5] [--hidden 64] [--method fedavg] [--cold]

The same method, model, data and mini-batches: in this process; on real Flower processes of this machine whose
executors have everything imported (`fedcell.deploy.prefork`), with Flower's pause of 3 s between two questions of a
node for work, and with the shorter one of `fedcell.deploy.node`; and, with --cold, on those that Flower starts by
itself, one new Python for every message. A relay between the nodes and the server counts bytes. All listen on 127.0.0.1
alone. Warm processes are forked from one that has imported everything, so that 50 nodes fit into memory. The first
round, in which nodes join, is left out of the means. `load` is that of the machine at the end: beside other work,
seconds are too long.
"""

import argparse
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from importlib import import_module
from math import nan
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedcell import record
from fedcell.deploy import example, settings
from fedcell.resolve import choose
from fedcell.scenarios import build_problem
from fedcell.simulate import simulate

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "deploy"))
processes: Any = import_module("processes")  # real ones, as the tests start them
BINARIES = Path(sys.executable).parent
PATIENCE_S = 1200.0


class Relay:
    """Passes connections on to a port and counts what goes through."""

    def __init__(self, target: int) -> None:
        self.target, self.up_byte, self.down_byte = target, 0, 0
        self.server = socket.create_server(("127.0.0.1", 0))
        self.port = int(self.server.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self.server.accept()
                far = socket.create_connection(("127.0.0.1", self.target))
                threading.Thread(target=self._pass, args=(near, far, "up_byte"), daemon=True).start()
                threading.Thread(target=self._pass, args=(far, near, "down_byte"), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket, name: str) -> None:
        with suppress(OSError), source, sink:
            while part := source.recv(65536):
                setattr(self, name, getattr(self, name) + len(part))
                sink.sendall(part)


class Processes:
    """Commands in a folder, ended by their ids; what they start watches them and ends with them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.started = folder, list[subprocess.Popen[bytes]]()
        self.environment = {
            **os.environ,
            "FLWR_HOME": str(example.home_of(folder)),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.1",
            "FEDCELL_PRELOAD": "sklearn.datasets",
            "OMP_NUM_THREADS": "1",
            "PATH": f"{BINARIES}:{os.environ['PATH']}",
        }

    def run(self, *command: str) -> int:
        """Start one; returns its id."""
        with (self.folder / f"{len(self.started)}.log").open("wb") as log:
            one = subprocess.Popen(command, cwd=self.folder, env=self.environment, stdout=log, stderr=log)
        self.started.append(one)
        return one.pid

    def stop(self) -> None:
        """End all of them."""
        for one in self.started:
            one.kill()
            one.wait()


class Deployed(NamedTuple):
    """What a run on real processes came to."""

    run: record.Record
    relay: Relay
    megabyte: float  # of all processes, shared pages once


def app_in(folder: Path, asked: dict[str, str], n_devices: int, port: int) -> Path:
    """The folder of a Flower app that runs what is asked for."""
    example.write(folder, asked["method"], n_devices, port)
    project = folder / "pyproject.toml"
    lines = [
        f'settings = "{asked["settings"]}"' if line.startswith("settings") else line
        for line in project.read_text().splitlines()
    ]
    project.write_text("\n".join(lines) + "\n")
    return folder


def warm(folder: Path, asked: dict[str, str], n_devices: int, poll_s: float) -> Deployed:
    """On processes that have everything imported."""
    made = processes.Federation(folder / "here", app_in(folder / "app", asked, n_devices, 8000), ports=n_devices + 1)
    out = folder / "app" / "runs" / "digits"
    try:
        made.start_link()
        relay = Relay(made.port)
        made.way, made.poll_s = relay.port, poll_s
        for device in range(n_devices):
            made.start_node(device)
        made.run()
        wait(lambda: ended(out))
        return Deployed(record.read(out), relay, used_megabyte(made.nest.pid))
    finally:
        made.stop()


def cold(folder: Path, asked: dict[str, str], n_devices: int) -> Deployed:
    """On processes as Flower starts them."""
    port, *own = free_ports(1 + n_devices)
    app_in(folder, asked, n_devices, port)
    relay, started = Relay(port), Processes(folder)
    out = folder / "runs" / "digits"
    try:
        flags = ["--insecure", "--disable-runtime-dependency-installation", "--port", str(port)]
        started.run("flower-superlink", *flags)
        wait(lambda: listens(port))
        for device, mine in enumerate(own):
            about = ["--node-config", f'partition-id={device} state-dir="{folder}/device{device}"']
            way = ["--superlink", f"127.0.0.1:{relay.port}", "--port", str(mine)]
            started.run("flower-supernode", "--insecure", *way, *about)
        wait(lambda: all(listens(mine) for mine in own))
        started.run("flwr", "run", ".", "here")
        wait(lambda: ended(out))
        return Deployed(record.read(out), relay, nan)
    finally:
        started.stop()
        relay.server.close()


def ended(out: Path) -> bool:
    """Whether a run has finished or failed."""
    return (out / "status.json").exists() and record.read(out).status.state in ("finished", "failed")


def used_megabyte(session: int) -> float:
    """Memory of a session's processes, each page divided among those that share it."""
    total = 0
    for process in processes.members(session):
        with suppress(OSError):
            lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
            total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total / 1e3


def free_ports(n: int) -> list[int]:
    """Ports that nobody listens on."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(n)]
    ports = [int(one.getsockname()[1]) for one in held]
    for one in held:
        one.close()
    return ports


def listens(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


def wait(done: object) -> None:
    """Until a function says yes."""
    assert callable(done)
    end_s = time.monotonic() + PATIENCE_S
    while not done():
        if time.monotonic() > end_s:
            raise SystemExit(f"nothing happened within {PATIENCE_S:g} s")
        time.sleep(0.1)


def told(name: str, found: Deployed, n_rounds: int) -> str:
    """One line of the table."""
    columns, later = found.run.columns, slice(1, None) if n_rounds > 1 else slice(None)
    means = [float(np.mean(columns[key][later])) for key in ("round_s", "compute_s", "transfer_s")]
    bytes_ = [found.relay.up_byte / n_rounds, found.relay.down_byte / n_rounds]
    bytes_ += [float(np.mean(columns[key])) / 8 for key in ("uplink_message_bit", "uplink_bit")]
    return (
        f"{name:24}"
        + "".join(f"{one:10.3f}" for one in means)
        + "".join(f"{one:12.0f}" for one in bytes_)
        + f"{found.megabyte:10.0f}{columns['accuracy'][-1]:10.4f}{os.getloadavg()[0]:6.1f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="The Flower path against the simulation.")
    parser.add_argument("--devices", type=int, nargs="+", default=[3])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--method", default="fedavg")
    parser.add_argument("--poll-s", type=float, nargs="+", default=[3.0, 0.2], help="pauses of nodes to try")
    parser.add_argument("--cold", action="store_true", help="also without executors of our own")
    args = parser.parse_args()
    for n_devices in args.devices:
        measure(args, n_devices)


def measure(args: argparse.Namespace, n_devices: int) -> None:
    """All ways of one number of devices."""
    own = {"rounds": args.rounds, "world.n_devices": n_devices, "model.hidden": args.hidden}
    text = " ".join(f"{key}={value}" for key, value in {**example.SETTINGS, **own}.items())
    asked = {"method": args.method, "scenario": "cell", "settings": text}
    found = settings.read(asked)
    problem = build_problem(found.config)
    begun_s = time.perf_counter()
    rows = [row for row, _ in simulate(problem, choose(args.method, found.preset, {}).build())]
    simulated_s = (time.perf_counter() - begun_s) / args.rounds
    n_params = problem.learner.n_params
    print(f"{args.method}, {n_devices} devices, {args.rounds} rounds, {n_params} parameters ({4 * n_params} bytes)")
    print(
        f"{'':24}{'s/round':>10}{'compute s':>10}{'transf. s':>10}{'up B':>12}{'down B':>12}{'messages B':>12}"
        f"{'updates B':>12}{'MB':>10}{'accuracy':>10}{'load':>6}"
    )
    print(f"{'simulated':24}{simulated_s:10.3f}{'':78}{rows[-1].metrics['accuracy']:10.4f}", flush=True)
    for poll_s in args.poll_s:
        with tempfile.TemporaryDirectory() as folder:
            run = warm(Path(folder), asked, n_devices, poll_s)
        print(told(f"warm, pause {poll_s:g} s", run, args.rounds), flush=True)
    if args.cold:
        with tempfile.TemporaryDirectory() as folder:
            print(told("cold", cold(Path(folder) / "app", asked, n_devices), args.rounds), flush=True)


if __name__ == "__main__":
    main()
