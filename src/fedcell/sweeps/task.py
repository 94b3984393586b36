"""One run of a sweep in plain values, so that any process on any machine can do it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from .. import methods, options
from ..errors import FedcellError
from ..loggers import LogWatcher
from ..record import Period, Watch, run_one
from ..record.folder import RUN, TRACEBACK
from ..record.playing import write_traceback
from ..record.stop import Stopped
from ..scenarios import Config


class SweepRun(NamedTuple):
    """What one run is asked to do."""

    name: str  # folder of the run inside the folder of the sweep, such as `cell-seed1/fedavg`
    label: str
    method: str  # text `NAME[:key=value,...]`, a path in it absolute
    settings: Mapping[str, Any]  # every option of the method, by dotted key
    config: Mapping[str, Any]  # every option of world, data, model and training

    @property
    def source(self) -> str:
        """The name or file of the method."""
        return self.method.partition(":")[0]

    @property
    def rounds(self) -> int:
        return int(self.config["rounds"])


class Orders(NamedTuple):
    """What all runs of a sweep have in common, in plain values, too."""

    folder: str  # of the sweep
    checkpoint_s: float = 10.0  # wall time between checkpoints
    log: tuple[str, ...] = ()  # `tensorboard=DIR`, `mlflow=URI`


class RunEnd(NamedTuple):
    """How the work on a task ended."""

    task: SweepRun
    code: int = 0  # exit code of the error that stopped it; 0 for a run that ended, diverged or not
    message: str = ""


def play(task: SweepRun, orders: Orders, watch: Watch) -> RunEnd:
    """Do one run, or what is left of it; an error ends only this run."""
    folder = Path(orders.folder) / task.name
    try:
        if not (folder / RUN).exists():  # left by a try that did not even begin
            (folder / TRACEBACK).unlink(missing_ok=True)
        config: Config = options.from_dict(Config(), task.config)
        before = options.earlier(methods.load(task.source).Config())  # a task on file may be from before an option
        with LogWatcher(orders.log, watch, base=Path(orders.folder)) as told:
            run_one(
                config,
                task.method,
                folder,
                label=task.label,
                defaults={task.source: {**before, **task.settings}},
                watch=told,
                period=Period(seconds=orders.checkpoint_s),
            )
    except Stopped:
        return RunEnd(task, 1, "stopped on request")
    except FedcellError as error:
        return RunEnd(task, error.exit_code, str(error))
    except Exception as error:
        if not (folder / TRACEBACK).exists():
            write_traceback(folder, error)
        return RunEnd(task, 1, f"{type(error).__name__}: {error}")
    return RunEnd(task)
