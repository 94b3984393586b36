"""One process that imports everything once and forks the processes of a federation: real ones, started quickly.

Reads JSON lines `[log file, command, arguments...]` from stdin and answers each with the id of the process. It stays
until it is ended, and so do they: whoever started it finds them all in its session.
"""

import json
import os
import signal
import sys
from importlib import import_module

COMMANDS = {
    "flower-superlink": "flwr.superlink.cli:flower_superlink",
    "node": "fedcell.deploy.node:main",
    "flwr": "flwr.cli.app:app",
    "prefork": "fedcell.deploy.prefork:main",
}
MORE = ("flwr.supernode.cli", "fedcell.deploy.client", "fedcell.deploy.flower", "sklearn.datasets")
for place in (*COMMANDS.values(), *MORE):
    import_module(place.partition(":")[0])


def start(log, command, arguments):
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    child = os.fork()
    if child:
        os.close(out)
        return child
    code = 1
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        os.dup2(out, 1)
        os.dup2(out, 2)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        sys.argv = [command, *arguments]
        module, _, name = COMMANDS[command].partition(":")
        getattr(import_module(module), name)()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def main():
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    print("ready", flush=True)
    for line in sys.stdin:
        log, command, *arguments = json.loads(line)
        print(start(log, command, arguments), flush=True)
    signal.pause()


main()
