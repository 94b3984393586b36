"""`fedcell deploy`: methods on real devices."""

import shlex
from argparse import ArgumentParser, Namespace
from pathlib import Path


def flags(sub: ArgumentParser) -> None:
    """The flags of every action."""
    actions = sub.add_subparsers(title="actions", metavar="ACTION", required=True)
    example = actions.add_parser("example", help="write a small Flower app that is ready to run", allow_abbrev=False)
    example.add_argument(
        "folder",
        metavar="DIR",
        nargs="?",
        default="fedcell-digits",
        help="a new folder for the app (default: fedcell-digits)",
    )
    example.add_argument("--method", metavar="METHOD", default="fedavg", help="NAME[:key=value,...] (default: fedavg)")
    example.add_argument(
        "--model", metavar="NAME", help="a built-in model, or net.py:function, whose file the app gets a copy of"
    )
    example.add_argument("--devices", metavar="N", type=int, default=3, help="devices of the federation (default: 3)")
    example.add_argument("--port", metavar="N", type=int, default=8000, help="of the server (default: 8000)")
    example.set_defaults(command=run)
    key = actions.add_parser("key", help="make the key that devices seal their answers for", allow_abbrev=False)
    key.add_argument("file", metavar="FILE", help="a new file for the private key, which stays on the server")
    key.set_defaults(command=make_key)
    ended = actions.add_parser("ended", help="how a federation ended, as an exit code", allow_abbrev=False)
    ended.add_argument("folder", metavar="DIR", help="of its record")
    ended.set_defaults(command=how_it_ended)
    back = actions.add_parser("back", help="take back the last round of a federation", allow_abbrev=False)
    back.add_argument("folder", metavar="DIR", help="of its record; nothing may run in it")
    back.set_defaults(command=go_back)


def make_key(args: Namespace) -> int:
    """Write the private key and print where both go."""
    from ..deploy.sealed import write_key

    public = write_key(Path(args.file))
    print(f"run configuration of the server:    seal-key = {str(Path(args.file).resolve())!r}")
    print(f'node configuration of every device: server-key="{public}"')
    return 0


def how_it_ended(args: Namespace) -> int:
    """0 if the run finished, 3 if it diverged, 1 otherwise: `flwr run` itself returns 0 whatever became of a run."""
    from ..errors import Diverged, FedcellError
    from ..record import read

    status = read(args.folder).status
    if status.state == "finished":
        return 0
    error = Diverged if status.state == "diverged" else FedcellError
    raise error(f"{args.folder} is {status.state} after {status.rounds} of {status.total} rounds: {status.message}")


def go_back(args: Namespace) -> int:
    """Drop the newest checkpoint and its round."""
    from ..record.drive import go_back

    left = go_back(args.folder)
    print(f"{args.folder} stands after round {left}; `flwr run` of the same app resumes from there")
    return 0


def run(args: Namespace) -> int:
    """Write the app and print the commands."""
    from ..deploy.example import commands, home_of, write

    folder = Path(args.folder)
    write(folder, args.method, args.devices, args.port, args.model)
    link, *nodes, start, look = commands(folder, args.devices, args.port)
    print(f"wrote {folder}; in that folder, each in a terminal of its own (pip install 'fedcell[flower]' first):\n")
    print(f"  export FLWR_HOME={shlex.quote(str(home_of(folder)))} FLWR_TELEMETRY_ENABLED=0   # in all of them")
    for line in (link, *nodes, start):
        print(f"  {line}")
    print(f"\nthen look at what it came to:\n\n  {look}")
    return 0
