"""Flower's SuperExec with everything imported beforehand: a message costs a fork instead of seconds of imports.

Flower starts a new Python process for every message, which imports PyTorch anew. This one imports it once and forks:

    flower-supernode --isolation process --port 9094 ...
    python -m fedcell.deploy.prefork --insecure --runtime-api-address 127.0.0.1:9094

Flags are those of `flower-superexec`. `FEDCELL_PRELOAD` names further modules to import, separated by commas.
"""

import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Sequence
from importlib import import_module
from types import SimpleNamespace
from typing import Any

from ..errors import FedcellError
from .loopback import refuse_open

PRELOAD = "FEDCELL_PRELOAD"
INTERVAL = "FLWR_SUPEREXEC_TASK_POLL_INTERVAL"  # seconds between two looks for work; Flower's own default is 1


def main() -> None:
    """Import everything, then run a SuperExec, which looks for work every 0.2 s unless the environment sets a time."""
    try:
        refuse_open(sys.argv[1:])
    except FedcellError as error:
        sys.exit(f"fedcell: {error}")
    os.environ.setdefault(INTERVAL, "0.2")
    for name in (
        "fedcell.deploy.client",
        "fedcell.deploy.flower",
        *filter(None, os.environ.get(PRELOAD, "").split(",")),
    ):
        import_module(name)
    from flwr.supercore.cli import flower_superexec
    from flwr.supercore.superexec.executor import subprocess_executor

    # The executor starts processes by the name of their command, as seen with flwr 1.41.
    forking: Any = SimpleNamespace(Popen=forked, DEVNULL=subprocess.DEVNULL)
    subprocess_executor.subprocess = forking  # type: ignore[attr-defined,unused-ignore]
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the children
    flower_superexec()


def forked(args: Sequence[str], **streams: Any) -> object:
    """Run one of Flower's commands in a child of this process."""
    command = commands().get(args[0])
    if command is None:
        return subprocess.Popen(args, **streams)
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            sys.argv = list(args)
            command()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
            if isinstance(end.code, str):
                print(end.code, file=sys.stderr)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    return child


def commands() -> dict[str, Callable[[], None]]:
    """Flower's commands that can run in a fork, by name."""
    from flwr.superlink.cli import flwr_serverapp
    from flwr.supernode.cli import flwr_clientapp

    return {"flwr-clientapp": flwr_clientapp, "flwr-serverapp": flwr_serverapp}


if __name__ == "__main__":
    main()
