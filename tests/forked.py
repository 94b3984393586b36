"""`fedcell` commands in real processes, forked from one that has imported everything, so that they begin quickly."""

import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    ["forked", "fedcell.cli.run", "fedcell.sweeps.drive", "fedcell.report", "fedcell.experiment", "sklearn.datasets"]
)


def _work(arguments, folder, out, err, most_bytes):
    """What the process does: as `python -m fedcell` would, listening to Ctrl-C wherever the suite itself runs."""
    os.chdir(folder)
    for number, path in ((1, out), (2, err)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if most_bytes:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))
    sys.argv = ["fedcell", *arguments]
    from fedcell.cli import entry

    entry()


class Forked:
    """A command that runs; the part of `subprocess.Popen` that tests need.

    Args:
        arguments: of `fedcell`.
        most_bytes: of any file that it writes; 0: no limit.
    """

    def __init__(self, *arguments, most_bytes=0):
        self.folder = Path(tempfile.mkdtemp())
        self.files = [str(self.folder / name) for name in ("out", "err")]
        self.process = CONTEXT.Process(target=_work, args=(arguments, os.getcwd(), *self.files, most_bytes))
        self.process.start()
        self.pid = self.process.pid

    @property
    def returncode(self):
        return self.process.exitcode

    poll = returncode.fget

    def send_signal(self, number):
        os.kill(self.pid, number)

    def kill(self):
        self.process.kill()

    def wait(self, timeout=None):
        self.process.join(timeout)
        if self.process.exitcode is None:
            raise subprocess.TimeoutExpired("fedcell", timeout)
        return self.process.exitcode

    def communicate(self, timeout=None):
        """(stdout, stderr) once it has ended."""
        self.wait(timeout)
        out, err = (Path(path).read_text() if Path(path).exists() else "" for path in self.files)
        return out, err
