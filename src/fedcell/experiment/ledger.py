"""The ledger: every claim of every paper, with what was measured for it.

For the claims page (`docs/generate.py`), `fedcell reproduce` and reports: call `ledger(root)` with the folder
`experiments` of a clone (`catalogue.find()` finds it), group its rows by `paper` and `experiment`, and count verdicts
with `totals`. Rows come in the order in which they are to be shown. Results of `--quick` never enter.

A row comes from one of two places. Claims of an experiment are those of its file; what was measured is in
`results/<name>.json`. Claims that no experiment decides yet are listed in `experiments/<paper>/paper.toml`, under the
name that the experiment is to have; as soon as its file has a claim with the same key, the file counts. Its table
`[why]` says in one sentence per claim, `"fig2/key" = "..."`, why it fails; pages show it as long as it does.
"""

import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from ..errors import BadInput
from ..record.files import natural, read_json
from .catalogue import PAPER, ExperimentFile, entries, load, opened, papers
from .verdicts import RULES, UNDECIDED, Claim, Part

NO_RESULT = "its experiment is not run yet"
FAILING = ("not reproduced", "partly", "cannot decide", "far larger")  # verdicts that a sentence explains
OLDER = "not run again under the present rules; older, laxer ones said {verdict} on {n} seeds"


class Listed(NamedTuple):
    """Claims of a figure or table that no experiment decides yet."""

    experiment: str
    title: str
    reason: str
    claims: tuple[Claim, ...]


class Paper(NamedTuple):
    """What `paper.toml` says about a paper."""

    name: str
    title: str
    reference: str = ""
    summary: str = ""  # what it claims, in five sentences
    found: str = ""  # what of it shows here, the answer first, in about as many
    readings: tuple[str, ...] = ()  # what was read into it, or chosen because it is silent
    changed: tuple[str, ...] = ()  # thresholds that changed, with the reason
    beyond: tuple[str, ...] = ()  # patterns of experiment or experiment/claim
    why: Mapping[str, str] = MappingProxyType({})  # experiment/claim -> why it fails, in one sentence
    listed: tuple[Listed, ...] = ()

    def kind_of(self, experiment: str, claim: Claim) -> str:
        """claim; check; or beyond: a question of ours, or a second reading of a claim that is counted already."""
        names = (experiment, f"{experiment}/{claim.key}")
        return "beyond" if any(fnmatchcase(name, one) for one in self.beyond for name in names) else claim.kind


class LedgerRow(NamedTuple):
    """One claim."""

    paper: str
    experiment: str  # the file that decides it, or is to
    title: str  # of the figure or table
    key: str
    claim: str
    printed: str  # the numbers of the paper
    ours: str  # what was measured, with its spread over seeds; empty if nothing was
    seeds: tuple[int, ...]  # of the runs behind the result; empty if none were needed or made
    verdict: str  # one of VERDICTS
    reason: str  # what was asked, and what of it holds
    kind: str  # claim; check: of our own settings or code; beyond: a question of ours or a second reading
    n: int | None  # seeds behind this claim; None if nothing random is, or nothing was run
    parts: tuple[Part, ...]  # its comparisons
    made_by: tuple[str, ...]  # versions and device behind the result
    result: Path | None  # the stored result; the figure lies beside it as .png
    why: str = ""  # why it fails, in one sentence

    @property
    def name(self) -> str:
        """What `fedcell reproduce` calls the experiment."""
        return f"{self.paper}/{self.experiment}"

    @property
    def counted(self) -> bool:
        """Whether it is a claim of the paper, and not a check or a question of ours."""
        return self.kind == "claim"


def ledger(root: Path, out: Path | None = None) -> list[LedgerRow]:
    """Every claim of the papers in `root`, paper by paper, figure by figure.

    Args:
        root: the folder `experiments` of a clone.
        out: read the results from `out/<paper>`, as `fedcell reproduce --out` writes them, not from the clone.
    """
    every = entries(root)
    rows: list[LedgerRow] = []
    for folder in papers(root):
        own = [one for one in every if one.paper == folder.name]
        results = out / folder.name if out else folder / "results"
        paper = read_paper(folder)
        with opened(folder):
            found = [row for entry in own for row in _measured(paper, entry, results)]
        found += _listed(paper, found)
        rows += sorted(found, key=lambda row: natural(row.experiment))
    return rows


def totals(rows: Sequence[LedgerRow]) -> Counter[str]:
    """How many of the papers' own claims have each verdict."""
    return Counter(row.verdict for row in rows if row.counted)


def read_paper(folder: Path) -> Paper:
    """What is known about the paper of a folder; its name if there is no `paper.toml`."""
    path = folder / PAPER
    if not path.is_file():
        return Paper(folder.name, folder.name)
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
        listed = tuple(_listed_claims(**one) for one in values.pop("listed", ()))
        lists = {name: tuple(values.pop(name, ())) for name in ("readings", "changed", "beyond")}
        return Paper(folder.name, listed=listed, **(lists | values))
    except (tomllib.TOMLDecodeError, TypeError) as error:
        raise BadInput(f"{path} is not a list of claims: {error}") from None


def read_result(path: Path) -> dict[str, Any] | None:
    """A stored result of a full run, or None."""
    result = dict(read_json(path)) if path.is_file() else None
    return None if result is None or result["quick"] else result


def _listed_claims(experiment: str, title: str, reason: str, claims: Sequence[Sequence[str]]) -> Listed:
    """An entry `[[listed]]` of `paper.toml`."""
    return Listed(experiment, title, reason, tuple(Claim(*claim) for claim in claims))


def _measured(paper: Paper, entry: ExperimentFile, results: Path) -> Iterator[LedgerRow]:
    """The claims of an experiment's file, with the findings on file."""
    experiment = load(entry)
    path = results / f"{entry.name}.json"
    result = read_result(path)
    found = {claim["key"]: present(claim, result) for claim in result["claims"]} if result else {}
    nothing = {"ours": "", "verdict": "not run", "reason": UNDECIDED if result else NO_RESULT}
    for claim in experiment.claims:
        finding = found.get(claim.key, nothing)
        yield LedgerRow(
            *(paper.name, entry.name, experiment.title, *claim[:3]),
            ours=finding["ours"],
            seeds=tuple(result["seeds"]) if result else (),
            verdict=finding["verdict"],
            reason=finding["reason"],
            kind=paper.kind_of(entry.name, claim),
            n=finding.get("n"),
            parts=tuple(Part(**part) for part in finding.get("parts", ())),
            made_by=tuple(_maker(one) for one in result["made_by"]) if result else (),
            result=path if result else None,
            why=paper.why.get(f"{entry.name}/{claim.key}", "") if finding["verdict"] in FAILING else "",
        )


def present(claim: dict[str, Any], result: Mapping[str, Any]) -> dict[str, Any]:
    """A stored finding; a verdict by older rules is none."""
    if result.get("rules") == RULES or claim["verdict"] == "not run":
        return claim
    reason = OLDER.format(verdict=claim["verdict"], n=len(result["seeds"]))
    return {**claim, "verdict": "not run", "reason": reason}


def _maker(values: Mapping[str, str]) -> str:
    return f"torch {values['torch']} on {values['device']}"


def _listed(paper: Paper, measured: Sequence[LedgerRow]) -> list[LedgerRow]:
    """The claims of `paper.toml` that no experiment has."""
    known = {(row.experiment, row.key) for row in measured}
    titles = {row.experiment: row.title for row in measured}
    return [
        LedgerRow(
            *(paper.name, figure.experiment, titles.get(figure.experiment, figure.title), *claim[:3]),
            ours="",
            seeds=(),
            verdict="not run",
            reason=figure.reason,
            kind=paper.kind_of(figure.experiment, claim),
            n=None,
            parts=(),
            made_by=(),
            result=None,
        )
        for figure in paper.listed
        for claim in figure.claims
        if (figure.experiment, claim.key) not in known
    ]
