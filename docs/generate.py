"""Write what must agree with the code and with stored results: settings, papers, the ledger, the rooms of the code.

    python docs/generate.py

A test compares the pages on file with `PAGES` and fails when one is stale.
"""

import json
import re
import runpy
from collections.abc import Callable
from functools import cache, partial
from itertools import groupby
from pathlib import Path
from typing import Any

from fedcell import coding, methods, options, scenarios
from fedcell.experiment import catalogue, front, pages
from fedcell.experiment.ledger import LedgerRow, Paper, read_paper
from fedcell.experiment.ledger import ledger as read_ledger
from fedcell.study import schema

HERE = Path(__file__).parent
CONTRIBUTING, ROOMS = HERE.parent / "CONTRIBUTING.md", ("<!-- rooms -->", "<!-- end of rooms -->")
EXPERIMENTS = HERE.parent / "experiments"
MOST_INTERVALS = 8  # of a claim in the ledger's page; the lists for programs have all

INTRODUCTION = """\
# Settings

This page is written by `docs/generate.py` from the code. Do not edit it; run the script.

A key is a dotted path. Change it on the command line with `--set world.radius_m=300`, or in Python with
`fedcell.run(..., settings={"world.radius_m": 300})`. `fedcell list keys --scenario NAME` prints the same keys with the
values of a scenario. A setting that changes nothing as things stand, such as `world.n_blocks` without resource blocks,
is named in a notice.

How values are written:

| type | written as |
|---|---|
| a number, a whole number | `300`, `1e6`, `inf` |
| a number or range, per device | `1e9` all alike; `1e9..2e9` uniform; `1e2~1e5` uniform in the log; `1\\|2\\|4` any |
| a list | `64,32` |
| true or false | `true`, `yes`, `on`, `false`, `no`, `off` |
| or none | `none` |

Units end a name: `_hz`, `_s`, `_m`, `_watt`, `_joule`, `_bit`, `_dbm`, `_db`. A key without such an ending is a count,
a ratio or a word.
"""

METHODS = """\
## Settings of the methods

Write them after the name, `fedprox:mu=0.5,scheduler=random`, or as `--set fedprox.mu=0.5` (in Python
`settings={"fedprox.mu": 0.5}`) for every `fedprox` of the run. A setting after the name wins. `none` for `lr`,
`steps`, `batch_size` and `momentum` takes the value of the `train` section.
"""

CODINGS = """\
## Settings of the codings

A coding stands between training and sending, behind any method whose devices send updates:
`fedavg+topk:fraction=0.01,scheduler=random` has the settings of both. `--set topk.fraction=0.01` counts for every
method of the run with that coding, `--set fedavg.lr=0.1` for FedAvg with and without one, `--set fedavg+topk.lr=0.1`
for the pair alone. [method-api.md](method-api.md#encode-what-goes-on-the-air) has a table of them with their bits, and
says how to write one.
"""

SCENARIOS = """\
## Scenarios

What each preset changes, and which methods a bare `fedcell run --scenario NAME` compares.
"""


CLAIMS = """\
# What the papers claim, and what was measured here

This page is written by `docs/generate.py` from the claims and the stored results in `experiments/`. Do not edit it; run
the experiment ([reproduce.md](reproduce.md)), then the script. Every figure and table of the papers has its claims
here, whether or not it was run. `experiments/<paper>/<experiment>.py` says what is compared for a claim, and
[the rules](reproduce.md#the-rules), the same for all, make the verdict.

- **here**: what was measured; a spread is the standard deviation over seeds. Accuracies are in percent or fractions,
  their differences in points of a percent.
- **seeds**: how many are behind this claim, those of its thinnest comparison; a dash if nothing random is behind it, or
  nothing was run.
- **interval**: the mean of every comparison with its 95 % interval over those seeds, if not already under **here**.
- **what is asked** of the comparisons, how many of them hold, and which do not.
- **check**: of our own settings or code. **beyond the paper**: a question of ours, or a second reading of a claim that
  is counted already. Sums leave both out, and quick runs never count.
"""


ledger = cache(read_ledger)  # every page is made of the same rows
KINDS = {"check": "check", "beyond": "beyond the paper"}


def claims() -> str:
    """The ledger as a page: sums per paper, then one row per claim."""
    rows = ledger(EXPERIMENTS)
    papers = _read_papers()
    parts = [CLAIMS, front.counts_table(papers, rows, "#{}")]
    for paper in papers:
        own = [row for row in rows if row.paper == paper.name]
        page = f"[figures, and why claims fail](papers/{paper.name}.md)"
        parts.append(f"## {paper.name}\n\n{paper.title}; {page}. Source: {paper.reference}.\n")
        parts += [_experiment(list(group)) for _, group in groupby(own, lambda row: row.experiment)]
    return "\n".join(parts)


def _experiment(rows: list[LedgerRow]) -> str:
    """The claims of a figure or table."""
    first = rows[0]
    if not (EXPERIMENTS / first.paper / f"{first.experiment}.py").is_file():
        how = "No experiment yet."
    elif first.result is None:
        how = f"`{first.name}`, not run yet."
    else:
        seeds = f"{len(first.seeds)} seeds, {', '.join(first.made_by)}" if first.seeds else "no training"
        how = f"`{first.name}`: {seeds}."
    lines = [
        f"### {first.title}\n",
        f"{how}\n",
        "| claim | paper | here | seeds | interval | verdict | what is asked |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        claim = row.claim if row.counted else f"{KINDS[row.kind]}: {row.claim}"
        seeds = "-" if row.n is None else str(row.n)
        measured = [part for part in row.parts if part.n and str(part) not in row.ours]
        intervals = "; ".join(map(str, measured[:MOST_INTERVALS])) + (" ..." if len(measured) > MOST_INTERVALS else "")
        cells = (claim, row.printed, row.ours, seeds, intervals, f"**{row.verdict}**", row.reason)
        lines.append("| " + " | ".join(map(_cell, cells)) + " |")
    return "\n".join(lines) + "\n"


def configuration() -> str:
    """Every setting: key, type, default, meaning."""
    parts = [INTRODUCTION, "## The run\n"]
    default = scenarios.Config()
    for section, rows in _by_section(default).items():
        doc = _first_line(getattr(default, section)) if section else "What defines a run besides its sections."
        parts.append(f"### {'section ' + section if section else 'top level'}\n\n{doc}\n\n{_table(rows)}\n")
    parts.append(METHODS)
    for name in methods.names():
        module = methods.load(name)
        rows = _described(module.Config())
        parts.append(f"### method {name}\n\n{methods.summary(module)}\n\n{_table(rows)}\n")
    parts.append(CODINGS)
    for name in coding.names():
        module = coding.load(name)
        parts.append(f"### coding {name}\n\n{methods.summary(module)}\n\n{_table(_described(module.Config()))}\n")
    parts.append(SCENARIOS)
    for name in scenarios.names():
        preset = scenarios.get(name)
        compared = "\n".join(f"- `{text}`" for text in preset.compare)
        parts.append(
            f"### scenario {name}\n\n{preset.summary}\n\n{_changes(preset, default)}\nCompared:\n\n{compared}\n"
        )
    return "\n".join(parts)


def _by_section(config: Any) -> dict[str, list[tuple[str, str, str, str]]]:
    sections: dict[str, list[tuple[str, str, str, str]]] = {}
    for row in _described(config):
        sections.setdefault(row[0].rpartition(".")[0], []).append(row)
    return sections


def _described(settings: Any) -> list[tuple[str, str, str, str]]:
    """Rows of `options.describe` with the limits of each number behind its type."""
    rules = [entry.metadata for _, entry, _ in options.keys(settings)]
    return [
        (key, kind + _limits(rule), _short(default), help)
        for rule, (key, kind, default, help) in zip(rules, options.describe(settings), strict=True)
    ]


def _short(text: str) -> str:
    """Large round numbers as people write them: `1e9..1.8e9`.

    >>> _short("1000000000..1800000000"), _short("0.25"), _short("400")
    ('1e9..1.8e9', '0.25', '400')
    """
    return re.sub(r"\b[1-9]\d{0,4}0{5,}\b", lambda found: f"{float(found[0]):g}".replace("e+0", "e"), text)


def _limits(rule: Any) -> str:
    words = {"above": ">", "least": ">=", "most": "<="}
    parts = [f"{word} {rule[name]:g}" for name, word in words.items() if rule.get(name) is not None]
    return ", " + ", ".join(parts) if parts else ""


def _table(rows: list[tuple[str, str, str, str]]) -> str:
    lines = ["| key | type | default | meaning |", "|---|---|---|---|"]
    for key, kind, default, help in rows:
        cells = (f"`{key}`", kind.replace("|", ", "), f"`{default}`" if default else "empty", help)
        lines.append("| " + " | ".join(map(_cell, cells)) + " |")
    return "\n".join(lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _changes(preset: scenarios.Scenario, default: scenarios.Config) -> str:
    """The keys in which a preset differs from the defaults."""
    before = {key: value for key, _, value, _ in _described(default)}
    now = {key: value for key, _, value, _ in _described(preset.config)}
    changed = {key: value for key, value in now.items() if value != before[key] and key != "scenario"}
    lines = [f"| `{key}` | `{_cell(value)}` |" for key, value in changed.items()]
    text = "\n".join(["| key | value |", "|---|---|", *lines]) + "\n"
    for name, settings in preset.methods.items():
        text += f"\nMethod `{name}`: " + ", ".join(f"`{key}={value}`" for key, value in settings.items()) + "\n"
    return text


def _first_line(settings: Any) -> str:
    return (type(settings).__doc__ or "").strip().split("\n")[0]


def study_schema() -> str:
    """The JSON schema of studies, from the options of runs, methods and codings."""
    pieces = {name: methods.load(name).Config() for name in methods.names()}
    pieces |= {name: coding.load(name).Config() for name in coding.names()}
    return json.dumps(schema.made(scenarios.Config(), pieces), indent=1) + "\n"


def contributing() -> str:
    """CONTRIBUTING.md with the rooms as they are."""
    drawing = runpy.run_path(str(HERE / "rooms.py"))["drawing"]
    text, (begin, end) = CONTRIBUTING.read_text(encoding="utf-8"), ROOMS
    before, _, rest = text.partition(begin)
    return f"{before}{begin}\n```\n{drawing()}```\n{end}{rest.partition(end)[2]}"


def _papers() -> dict[str, Callable[[], str]]:
    """The front page, its figure, what changed, the page of every paper, and the ledger for programs."""

    def changes() -> str:
        return front.changes_page(_read_papers(), ledger(EXPERIMENTS), front.read_earlier(EXPERIMENTS))

    def of(name: str) -> str:
        own = [row for row in ledger(EXPERIMENTS) if row.paper == name]
        return pages.paper_page(read_paper(EXPERIMENTS / name), own, "../../experiments")

    return {
        "claims.csv": lambda: pages.as_csv(ledger(EXPERIMENTS)),
        "claims.json": lambda: pages.as_json(ledger(EXPERIMENTS)),
        "papers/index.md": lambda: front.front_page(_read_papers(), ledger(EXPERIMENTS)),
        f"papers/{front.CHANGES}": changes,
        "papers/verdicts.svg": lambda: front.bars(_read_papers(), ledger(EXPERIMENTS)),
        **{f"papers/{folder.name}.md": partial(of, folder.name) for folder in catalogue.papers(EXPERIMENTS)},
    }


def _read_papers() -> list[Paper]:
    return [read_paper(folder) for folder in catalogue.papers(EXPERIMENTS)]


def api() -> str:
    """The Python API."""
    text: str = runpy.run_path(str(HERE / "api_page.py"))["page"]()
    return text


PAGES: dict[str, Callable[[], str]] = {
    "api.md": api,
    "configuration.md": configuration,
    "claims.md": claims,
    **_papers(),
    "../CONTRIBUTING.md": contributing,
    "../src/fedcell/study/study.schema.json": study_schema,
}

if __name__ == "__main__":
    for name, write in PAGES.items():
        (HERE / name).parent.mkdir(exist_ok=True)
        (HERE / name).write_text(write(), encoding="utf-8")
