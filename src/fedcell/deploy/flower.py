"""A fedcell method in a Flower federation: the server's side.

`server_app()` is a Flower ServerApp that reads everything from its run configuration. `run(grid, ...)` does the same
inside a ServerApp of your own. The record is that of a simulated run, so `fedcell show`, `compare`, `report` and
`dashboard` read it. If the server is killed, the same command resumes from the last round.
"""

import json
import secrets
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp
from torch import nn

from .. import options
from ..data import Dataset
from ..errors import BadInput, Diverged
from ..methods.parts.robust import robust
from ..metrics import TASKS
from ..record import read as read_record
from ..record.drive import run_real
from ..record.files import plain, write_atomic
from ..record.playing import Progress, Watch
from ..types import Method, Problem, Row, Snapshot
from .accepting import Accepting
from .exchange import Exchange
from .refusals import deployable
from .roster import Roster, read_known
from .rounds import Federation, play, remote
from .sealed import read_key
from .settings import SECTION, FederationConfig, FederationRequest, longest_s, read, robust_rule, with_model
from .tasks import Refusal

NOTICES = "federation.log"  # in the run folder: who came, went, was late or was turned away
REFUSED = "refused.jsonl"  # beside it: round, device, kind and value of every answer that was refused
NAME = "federation.name"  # beside it: a random name, by which devices know what they kept for this run


def server_app(dataset: Dataset | None = None, model: nn.Module | str | None = None) -> ServerApp:
    """A ServerApp that runs the method of its run configuration (see `settings.read`).

    `dataset` and `model` are those of `run`.
    """
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        asked = read(context.run_config)
        run(grid, asked, dataset=dataset, model=model)
        status = read_record(asked.out).status
        if status.state == "diverged":  # for Flower, a run fails by raising
            raise Diverged(status.message)

    return app


def run(
    grid: Grid,
    asked: FederationRequest,
    *,
    dataset: Dataset | None = None,
    model: nn.Module | str | None = None,
    watch: Watch | None = None,
) -> None:
    """Run or resume a method on the devices behind a grid, and record every round.

    Args:
        grid: Flower's connection to the nodes.
        asked: settings, method and folder.
        dataset: to test on instead of `data.name`; its training samples give the statistics of
            `data.scaling=standard` alone.
        model: network instead of `model.name`, whose present weights are the start; or `net.py:function`, a function in
            a file that devices have, too (`client_app`).
        watch: called after every round; None: prints a line.
    """
    if not asked.out:
        raise BadInput("out names no folder for the record: set it in the run configuration, as an absolute path")
    if isinstance(model, str):
        asked, model = with_model(asked, model), None
    key, known = read_key(asked.federation.seal_key), read_known(asked.federation.known_nodes)
    problem, choice = deployable(asked, dataset, model)
    if rule := robust_rule(asked.federation.robust):
        robust(choice.build(), rule, asked.method)
    notices = Notices(Path(asked.out))
    told = options.differences(FederationConfig(), asked.federation, SECTION)
    notices.say(f"settings: {', '.join(f'{key} = {options.written(now)}' for key, _, now in told) or 'as by default'}")
    learner = remote(problem)
    roster = Roster(problem.world.n_devices, learner.n_counted, notices.say, known)
    exchange = Exchange(grid, roster, asked.federation, notices.say, key=key, note=notices.note)
    exchange.learned = learner.task.name
    federation = Federation(
        exchange=exchange,
        settings=asked.federation,
        longest_s=longest_s(asked.config, asked.federation),
        quorum=getattr(choice.config, "quorum", None) if asked.federation.wait == "quorum" else None,
        accepting=Accepting(),
    )
    run_real(
        asked.config,
        choice,
        asked.out,
        problem,
        partial(_play, notices, federation),
        watch=partial(_watch, notices, watch or printed),
    )


class Notices:
    """Notices of a federation: printed, and written to a file in the run folder once that is known to be this run's."""

    def __init__(self, folder: Path | None) -> None:
        self.folder, self._early = folder, list[str]()
        self._claimed: Path | None = None  # the folder, once it is known to be this run's

    def claimed(self) -> None:
        """Write to the folder from now on, beginning with what was said before the run had it."""
        self._claimed = self.folder
        self._write()

    def say(self, text: str) -> None:
        """Print a sentence and append it to the file."""
        print(f"fedcell: {text}", flush=True)
        self._early.append(text)
        self._write()

    def note(self, refusal: Refusal) -> None:
        """Record an answer that was refused: one JSON line each."""
        if self._claimed is not None:
            with (self._claimed / REFUSED).open("a", encoding="utf-8") as file:
                file.write(json.dumps(plain(refusal._asdict())) + "\n")

    def _write(self) -> None:
        if self._claimed is not None and self._early:
            with (self._claimed / NOTICES).open("a", encoding="utf-8") as file:
                file.writelines(f"{line}\n" for line in self._early)
            self._early.clear()


def _play(
    notices: Notices, federation: Federation, problem: Problem, method: Method, snapshot: Snapshot
) -> Iterator[tuple[Row, Snapshot]]:
    """Play the rounds of a run whose folder is locked by now."""
    if notices.folder is not None:
        federation.exchange.run = remote(problem).run = _name_of(notices.folder, new=snapshot.round == 0)
    return play(federation, problem, method, snapshot)


def _name_of(folder: Path, new: bool) -> str:
    """The name of a run, made up when it begins; empty for one that an earlier fedcell began."""
    path = folder / NAME
    if new and not path.exists():
        write_atomic(path, secrets.token_hex(16).encode())
    return path.read_text(encoding="utf-8") if path.exists() else ""


def _watch(notices: Notices, watch: Watch, progress: Progress) -> None:
    notices.claimed()
    if progress.note:
        notices.say(progress.note)
    watch(progress)


def printed(progress: Progress) -> None:
    """One line per round, which `flwr log` shows."""
    if progress.row is None:
        return
    row = progress.row
    names = [metric.name for metric in TASKS[progress.task]]
    scores = "".join(f", {name} {row.metrics[name]:.4f}" for name in names if name in row.metrics)
    heard = f"{row.n_delivered} of {row.n_selected} heard ({row.outcome})"
    print(f"fedcell: round {progress.done} of {progress.total}: {heard} in {row.round_s:.1f} s{scores}", flush=True)
