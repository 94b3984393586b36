"""A Flower federation of real processes on 127.0.0.1, all of them ended by their ids."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from fedcell import record

HERE = Path(__file__).parent
BINARIES = Path(sys.executable).parent
POLL_S = 0.25  # between two looks for work, of every node and of what runs its apps; each look costs both sides
PATIENCE_S = 300.0  # a wait that ends what hangs, on a machine that has other work
ENVIRONMENT = {
    **os.environ,
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": os.environ.get("FLWR_SUPEREXEC_TASK_POLL_INTERVAL", str(POLL_S)),
    "OMP_NUM_THREADS": "1",
    "PATH": f"{BINARIES}:{os.environ['PATH']}",
}


def free_ports(n):
    """Ports that nobody listens on."""
    held = [socket.socket() for _ in range(n)]
    for one in held:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports


def until(what, patience_s=PATIENCE_S):
    """Wait until a function gives something true; fails the test when it never does."""
    end_s = time.monotonic() + patience_s
    while time.monotonic() < end_s:
        if found := what():
            return found
        time.sleep(0.05)
    raise AssertionError(f"{what.__doc__ or what.__name__}: did not happen within {patience_s:g} s")


def children(process):
    """Ids of the processes that a process has started and that are alive."""
    try:
        found = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    except OSError:
        return []
    return [int(one) for one in found if alive(int(one))]


def alive(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def members(session):
    """Ids of the living processes of a session."""
    found = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
    return [one for one in found if alive(one) and _session(one) == session]


def _session(process):
    try:
        return os.getsid(process)
    except ProcessLookupError:
        return None


def kill(process):
    """End one process by its id."""
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)


def end_session(leader):
    """End a process and all of its session, also those that lost their parent, each by its id."""
    while mine := [one for one in members(leader.pid) if one != leader.pid]:
        for process in mine:
            kill(process)
        time.sleep(0.05)
    leader.kill()
    leader.wait()


def listens(port):
    """Whether somebody listens on a port."""
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


def consecutive_ports(n):
    """Ports in a row that nobody listens on."""
    return next(
        range(first, first + n)
        for first in range(20000 + os.getpid() % 10000, 60000, n)
        if not any(listens(port) for port in range(first, first + n))
    )


def finished(out):
    """The record of a run once it has ended."""

    def ended():
        """the run ends"""
        found = rows(out)
        return found if found and found.status.state in ("finished", "diverged", "failed") else None

    return until(ended)


class Commands:
    """Shell commands that are ended with all that they started."""

    def __init__(self, folder, home):
        self.folder, self.home, self.started = folder, home, []

    def __enter__(self):
        return self.run

    def run(self, line):
        log = (self.folder / f"command{len(self.started)}.log").open("w")
        environment = {**ENVIRONMENT, "FLWR_HOME": str(self.home)}
        with log:
            self.started.append(
                subprocess.Popen(
                    ["bash", "-c", line],
                    cwd=self.folder,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            )

    def __exit__(self, *_):
        for one in self.started:
            end_session(one)


class Federation:
    """A SuperLink, its SuperNodes, and the app that they run.

    Args:
        folder: of logs and state.
        app: folder of a Flower app.
        ports: that may be needed in all.
        tls: (flags of the link, flags of every node, connection of the command line) instead of plain HTTP.
    """

    def __init__(self, folder, app, tls=None, ports=20):
        self.folder, self.app = Path(folder), Path(app)
        self.link_flags, self.node_flags, self.connection = tls or (["--insecure"], ["--insecure"], {"insecure": True})
        self.port, *self.spare = free_ports(ports)
        self.way, self.poll_s = self.port, POLL_S  # where nodes find the link, and how often they ask for work
        self.processes = {}
        home = self.folder / "flwr"
        home.mkdir(parents=True)
        lines = [f"{key} = {json.dumps(value)}" for key, value in self.connection.items()]
        text = f'[superlink]\ndefault = "here"\n[superlink.here]\naddress = "127.0.0.1:{self.port}"\n'
        (home / "config.toml").write_text(text + "\n".join(lines) + "\n")
        self.environment = {
            **ENVIRONMENT,
            "FLWR_HOME": str(home),
        }
        self.nest = subprocess.Popen(
            [sys.executable, HERE / "nest.py"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=self.environment,
            cwd=self.folder,
            start_new_session=True,
        )
        assert self.nest.stdout.readline() == "ready\n"

    def start(self, name, command, *arguments):
        """Fork one process; returns its id."""
        log = str(self.folder / f"{name}.log")
        self.nest.stdin.write(json.dumps([log, command, *map(str, arguments)]) + "\n")
        self.nest.stdin.flush()
        self.processes[name] = int(self.nest.stdout.readline())
        return self.processes[name]

    def start_link(self):
        """The server, and what runs its app."""
        flags = ["--isolation", "process", "--disable-runtime-dependency-installation", "--port", self.port]
        link = self.start("link", "flower-superlink", *self.link_flags, *flags)
        until(lambda: listens(self.port))
        own = ["--insecure"] if "--insecure" in self.link_flags else ["--root-certificates", self.connection_file()]
        self.start(
            "link-exec", "prefork", *own, "--runtime-api-address", f"127.0.0.1:{self.port}", "--parent-pid", link
        )

    def connection_file(self):
        return self.connection["root-certificates"]

    def start_node(self, device, *flags, name=None, knows=""):
        """A device; `knows` is more of its node configuration."""
        name, port = name or f"node{device}", self.spare.pop()
        state = self.folder / f"device{device}"
        own = ["--isolation", "process", "--superlink", f"127.0.0.1:{self.way}", "--port", port]
        about = ["--node-config", f'partition-id={device} state-dir="{state}" {knows}'.strip()]
        node = self.start(name, "node", "--poll-s", self.poll_s, *(flags or self.node_flags), *own, *about)
        self.start(
            f"{name}-exec", "prefork", "--insecure", "--runtime-api-address", f"127.0.0.1:{port}", "--parent-pid", node
        )

    def run(self, app=None, **config):
        """Start the app, or another one, with a run configuration; returns at once."""
        changes = [
            part for key, value in config.items() for part in ("-c", f"{key.replace('_', '-')}={json.dumps(value)}")
        ]
        self.start("flwr", "flwr", "run", str(app or self.app), "here", *changes)

    def log(self, name):
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def stop(self):
        """End everything that was started here."""
        end_session(self.nest)
        self.nest.stdin.close()
        self.nest.stdout.close()


def rows(out):
    """The record as it stands, None where there is none yet."""
    return record.read(out) if (Path(out) / "run.json").exists() else None
