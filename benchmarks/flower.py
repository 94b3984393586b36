"""What the Flower path costs: seconds per round of one method, simulated and deployed, and bytes on the wire.

    python benchmarks/flower.py [--devices 3] [--rounds 5] [--hidden 64] [--method fedavg] [--cold]

The same method, model, data and mini-batches: in this process; on real Flower processes of this machine whose
executors have everything imported (`fedcell.deploy.prefork`); and, with --cold, on those that Flower starts by itself,
one new Python for every message. A relay between the nodes and the server counts bytes. All listen on 127.0.0.1 alone.
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
from pathlib import Path

import numpy as np

from fedcell import record
from fedcell.deploy import example, settings
from fedcell.resolve import choose
from fedcell.scenarios import build_problem
from fedcell.simulate import simulate

BINARIES = Path(sys.executable).parent
PATIENCE_S = 170.0


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


def deployed(folder: Path, asked: dict[str, str], n_devices: int, warm: bool) -> tuple[record.Record, Relay]:
    """The record of a run on real processes, and the bytes that passed."""
    port, *own = free_ports(1 + n_devices)
    example.write(folder, asked["method"], n_devices, port)
    project = folder / "pyproject.toml"
    lines = [
        f'settings = "{asked["settings"]}"' if line.startswith("settings") else line
        for line in project.read_text().splitlines()
    ]
    project.write_text("\n".join(lines) + "\n")
    relay, processes = Relay(port), Processes(folder)
    apart = ["--isolation", "process"] if warm else []
    out = folder / "runs" / "digits"
    try:
        link = ["flower-superlink", "--insecure", "--disable-runtime-dependency-installation", *apart]
        start(processes, warm, port, *link)
        wait(lambda: listens(port))
        for device, mine in enumerate(own):
            about = ["--node-config", f'partition-id={device} state-dir="{folder}/device{device}"']
            node = ["flower-supernode", "--insecure", "--superlink", f"127.0.0.1:{relay.port}", *apart, *about]
            start(processes, warm, mine, *node)
        wait(lambda: all(listens(mine) for mine in own))
        processes.run("flwr", "run", ".", "here")
        wait(lambda: (out / "status.json").exists() and record.read(out).status.state in ("finished", "failed"))
        return record.read(out), relay
    finally:
        processes.stop()
        relay.server.close()


def start(processes: Processes, warm: bool, port: int, *command: str) -> None:
    """One of Flower's processes, with an executor beside it that has everything imported."""
    owner = processes.run(*command, "--port", str(port))
    if warm:
        address = f"127.0.0.1:{port}"
        runner = [sys.executable, "-m", "fedcell.deploy.prefork", "--insecure", "--runtime-api-address", address]
        processes.run(*runner, "--parent-pid", str(owner))


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


def main() -> None:
    parser = argparse.ArgumentParser(description="The Flower path against the simulation.")
    parser.add_argument("--devices", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--method", default="fedavg")
    parser.add_argument("--cold", action="store_true", help="also without executors of our own")
    args = parser.parse_args()
    own = {"rounds": args.rounds, "world.n_devices": args.devices, "model.hidden": args.hidden}
    text = " ".join(f"{key}={value}" for key, value in {**example.SETTINGS, **own}.items())
    asked = {"method": args.method, "scenario": "cell", "settings": text}
    found = settings.read(asked)
    problem = build_problem(found.config)
    begun_s = time.perf_counter()
    rows = [row for row, _ in simulate(problem, choose(args.method, found.preset, {}).build())]
    simulated_s = (time.perf_counter() - begun_s) / args.rounds
    n_params = problem.learner.n_params
    print(f"{args.method}, {args.devices} devices, {args.rounds} rounds, {n_params} parameters ({4 * n_params} bytes)")
    print("                 s/round  compute s  transfer s  up B/round  down B/round  update B/round  accuracy")
    print(f"simulated       {simulated_s:8.3f}{'':56}  {rows[-1].metrics['accuracy']:8.4f}")
    for name in ("warm", "cold") if args.cold else ("warm",):
        with tempfile.TemporaryDirectory() as folder:
            run, relay = deployed(Path(folder) / "app", asked, args.devices, name == "warm")
        told = run.columns
        print(
            f"deployed, {name}  {np.mean(told['round_s']):8.3f}   {np.mean(told['compute_s']):8.3f}"
            f"  {np.mean(told['transfer_s']):10.3f}  {relay.up_byte / args.rounds:10.0f}"
            f"  {relay.down_byte / args.rounds:12.0f}  {np.mean(told['uplink_bit']) / 8:14.0f}"
            f"  {told['accuracy'][-1]:8.4f}"
        )


if __name__ == "__main__":
    main()
