"""The command line: `fedcell list | run | sweep | show | compare | report | dashboard | plan | reproduce | ...`.

Results go to stdout, progress and notices to stderr. Heavy libraries are imported by the command
that needs them.
"""

import gc
import os
import sys
import warnings
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ..errors import FedcellError, Notice
from ..version import __version__
from . import check, compare, completion, deploy, export, forecast, pages, plan, reproduce, show, sweep, tune
from .parser import Parser, run_flags

EXIT_CODES = """exit codes:
  0    done
  1    failed: the disk, a download or a record; the message says how to resume
  2    bad input or a method that breaks its contract; bad input writes nothing
  3    a run diverged; its record is kept
  130  interrupted with Ctrl-C; the message says how to resume
"""


OUT_OF_MEMORY = ("can't allocate memory", "out of memory")  # in what PyTorch raises
SMALLER = "lower world.n_devices, the sizes of data and model, train.steps or train.batch_size"


def entry() -> None:
    """The console script."""
    sys.exit(main())


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    try:
        args = parser().parse_args(plan.with_planner(sys.argv[1:] if argv is None else argv))
        with warnings.catch_warnings():
            warnings.simplefilter("always", Notice)
            warnings.showwarning = partial(_show, warnings.showwarning)
            code: int = args.command(args)
        sys.stdout.flush()
        return code
    except FedcellError as error:
        print(f"fedcell: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("fedcell: interrupted", file=sys.stderr)
        return 130
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and not any(words in str(error) for words in OUT_OF_MEMORY):
            raise
        print(f"fedcell: not enough memory: {SMALLER}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # the reader has seen enough, as in `fedcell list | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _show(usual: Callable[..., None], message: Warning | str, category: type[Warning], *where: Any) -> None:
    """Print a notice of fedcell as one sentence, and any other warning as Python does."""
    if issubclass(category, Notice):
        print(f"fedcell: {message}", file=sys.stderr)
    else:
        usual(message, category, *where)


def parser() -> ArgumentParser:
    """Every command and flag."""
    top = Parser(
        prog="fedcell",
        description="Federated learning on battery devices behind radio channels: accuracy, seconds and joules.",
        epilog=EXIT_CODES,
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    top.add_argument("--version", action="version", version=f"fedcell {__version__}")
    commands = top.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, help, build in (
        ("run", "compare methods in one world and record every round", _run_flags),
        ("sweep", "run a grid of methods, scenarios, seeds and settings side by side", sweep.flags),
        ("show", "the table of a recorded run, or a list of many", show.flags),
        ("compare", "recorded runs side by side: means over seeds, paired differences, figures", compare.flags),
        ("report", "one web page about recorded runs, in one file", pages.report_flags),
        ("export", "the model of a recorded run as a file for other tools", export.flags),
        ("dashboard", "follow running and finished runs in a browser", pages.dashboard_flags),
        ("check", "verify the files of recorded runs, and repair what can be", check.flags),
        ("list", "methods, scenarios, models, data sets and settings", _list_flags),
        ("plan", "who takes part and what rounds cost, trained only if it must be", plan.flags),
        ("forecast", "what a target will cost a run that has begun", forecast.flags),
        ("tune", "search settings for the least cost to a target", tune.flags),
        ("reproduce", "run the experiments of the papers, and see which claims hold", reproduce.flags),
        ("deploy", "methods on real devices, in a Flower federation", deploy.flags),
        ("data", "fetch data sets, and see how they are split over devices", _data_flags),
        ("schema", "the JSON schema of studies, for editors", _schema_flags),
        ("completion", "a script that completes words in bash, zsh or fish", completion.flags),
    ):
        sub = commands.add_parser(
            name,
            help=help,
            description=help[0].upper() + help[1:] + ".",
            epilog=EXIT_CODES,
            formatter_class=RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        build(sub)
    return top


def _run_flags(sub: ArgumentParser) -> None:
    run_flags(sub)
    sub.add_argument("--scenario", metavar="NAME", help="the preset to start from (default: cell)")
    sub.add_argument("--seed", metavar="N", help="every random draw follows from it")
    sub.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="a setting such as world.radius_m=300 or fedprox.mu=0.1; repeatable (`fedcell list keys` shows all)",
    )
    sub.add_argument("--out", metavar="DIR", help="folder of the record (default: the next free one in runs/)")
    sub.add_argument("--resume", metavar="DIR", help="resume an interrupted record, with its own settings")
    sub.add_argument(
        "--explain-engine",
        action="store_true",
        help="print which engine trains the network and what made it fall back, after one round that is not recorded",
    )
    sub.set_defaults(command=_run)


def _list_flags(sub: ArgumentParser) -> None:
    topics = ("methods", "codings", "scenarios", "models", "data", "devices", "keys")
    sub.add_argument(
        "topic", nargs="?", choices=topics, metavar="TOPIC", help=", ".join(topics) + " (default: all but keys)"
    )
    sub.add_argument("methods", nargs="*", metavar="METHOD", help="with keys: show the settings of these methods alone")
    sub.add_argument("--scenario", metavar="NAME", default="cell", help="with keys: show this scenario's values")
    sub.set_defaults(command=_list)


def _schema_flags(sub: ArgumentParser) -> None:
    sub.set_defaults(command=_schema)


def _data_flags(sub: ArgumentParser) -> None:
    actions = sub.add_subparsers(title="actions", metavar="ACTION", required=True)
    get = actions.add_parser("get", help="fetch data sets, verify them and keep them")
    get.add_argument("names", metavar="NAME", nargs="+", help="see `fedcell data list`")
    get.set_defaults(command=_data_get)
    actions.add_parser("list", help="data sets known by name, and where they are").set_defaults(command=_data_list)
    split = actions.add_parser("split", help="which labels each device of a scenario holds")
    split.add_argument("--scenario", metavar="NAME", default="cell", help="the preset to start from (default: cell)")
    split.add_argument("--seed", metavar="N", help="every random draw follows from it")
    split.add_argument("--set", metavar="KEY=VALUE", action="append", default=[], help="such as data.alpha=0.1")
    split.add_argument("--json", action="store_true", help="the counts as JSON on stdout")
    split.set_defaults(command=_data_split)


# ---------------------------------------------------------------- the commands, imported when they are called


def _run(args: Namespace) -> int:
    fresh = "torch" not in sys.modules
    if fresh:  # importing PyTorch makes objects that stay: looking for garbage among them takes 0.2 s
        gc.disable()
    from .run import run

    if fresh:
        gc.freeze()
        gc.enable()
    return run(args)


def _list(args: Namespace) -> int:
    from .listing import show

    print(show(args.topic, args.methods, args.scenario))
    return 0


def _schema(args: Namespace) -> int:
    from ..study.schema import FILE

    print(FILE.read_text(encoding="utf-8"), end="")
    return 0


def _data_get(args: Namespace) -> int:
    from ..data import get

    for name in args.names:
        get(name, lambda line: print(line, file=sys.stderr))
    return 0


def _data_list(args: Namespace) -> int:
    from .listing import show

    print(show("data"))
    return 0


def _data_split(args: Namespace) -> int:
    from .split import show

    return show(args)
