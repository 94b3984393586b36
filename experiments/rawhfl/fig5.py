"""Figure 5: in how many of 400 edge rounds each client could train, and in how many it is chosen. No training."""

import numpy as np
import rawhfl_ledger as ledger
import rawhfl_setting as setting
from matplotlib.figure import Figure
from rawhfl_plots import look

from fedcell.experiment import Case, Claim, Experiment, Finding, Row, finding, main
from fedcell.experiment.judging import exact, inside, missing, spread
from fedcell.experiment.plots import dress, panels
from fedcell.types import Floats

RAREST, FEW = 28, 100  # of 400 edge rounds
MOSTLY = 0.95  # of the clients
FREE = 0.98  # of clients and rounds
SHOWN = ledger.SEEDS[0]

CLAIMS = (
    Claim(
        "few", "some clients are eligible only in a few of the 400 edge rounds", "client 11: 28, in one of 10 trials"
    ),
    Claim("keeps", "whoever is chosen meets deadline and energy budget, for every Z", "Fig. 5b; no numbers", "check"),
    Claim("more", "the larger Z, the more often a client is chosen", "Fig. 5b; no numbers"),
    Claim("seldom", "clients that are seldom eligible are seldom chosen", "Fig. 5b; no numbers"),
    Claim(
        "fixed",
        "eligibility must be meant at full clock and power: with planned ones nearly everyone always is",
        "not in the paper",
    ),
)


def cases(quick: bool) -> list[Case]:
    return ledger.cases(["eligible", *ledger.RAWHFL])


def eligible(rows: list[Row]) -> Floats:
    """Edge rounds in which a client could do a step at full clock and power, `[n_seeds, n_devices]`."""
    return ledger.column(rows, "eligible", "eligible")


def chosen(rows: list[Row], z: int) -> Floats:
    """Edge rounds in which a client is chosen, `[n_seeds, n_devices]`."""
    return ledger.column(rows, f"rawhfl Z={z}", "chosen")


def check(rows: list[Row]) -> list[Finding]:
    if missing(rows, [case.key for case in cases(quick=False)]):
        return []
    return [_few(rows), _keeps(rows), _more(rows), _seldom(rows), _fixed(rows)]


def _few(rows: list[Row]) -> Finding:
    rarest, every = eligible(rows).min(axis=1), (eligible(rows) == ledger.ROUNDS).sum(axis=1)
    parts = [
        inside(f"fewest below {FEW}", rarest, high=FEW),
        exact(f"{RAREST} among the drops", bool(rarest.min() <= RAREST <= rarest.max())),
    ]
    ours = (
        f"client with the fewest: {spread(rarest, 0)}, {rarest.min():.0f} to {rarest.max():.0f}; always "
        f"eligible: {spread(every.astype(float), 1)} of {ledger.N_DEVICES}"
    )
    return finding("few", parts, ours, f"below {FEW} of 400; the printed {RAREST} lies within the range of the drops")


def _keeps(rows: list[Row]) -> Finding:
    parts = [exact(f"Z={z}", bool(ledger.column(rows, f"rawhfl Z={z}", "meets_limits").all())) for z in ledger.SIZES]
    slots = {z: z * ledger.N_CELLS * ledger.ROUNDS for z in ledger.SIZES}
    idle = {z: 1 - chosen(rows, z).sum(axis=1).mean() / slots[z] for z in ledger.SIZES}
    ours = "slots without an eligible client: " + ", ".join(f"Z={z} {share:.2%}" for z, share in idle.items())
    return finding("keeps", parts, ours, "not one upload of a chosen client is late or over its budget")


def _more(rows: list[Row]) -> Finding:
    parts = [
        inside(f"Z={low} to {high}", (chosen(rows, high) >= chosen(rows, low)).mean(axis=1), low=MOSTLY)
        for low, high in ((2, 4), (4, 6))
    ]
    counts = ", ".join(f"Z={z} {np.median(chosen(rows, z)):.0f}" for z in ledger.SIZES)
    most = ", ".join(f"Z={z} {chosen(rows, z).max():.0f}" for z in ledger.SIZES)
    ours = f"chosen as often or more: {'; '.join(map(str, parts))}; median {counts}; most {most}"
    return finding("more", parts, ours, f"at least {MOSTLY:.0%} of the clients")


def _seldom(rows: list[Row]) -> Finding:
    parts, words = [], []
    quarter = ledger.N_DEVICES // 4
    order = np.argsort(eligible(rows), axis=1)
    for z in ledger.SIZES:
        ordered = np.take_along_axis(chosen(rows, z), order, axis=1)
        seldom, others = ordered[:, :quarter].mean(axis=1), ordered[:, quarter:].mean(axis=1)
        parts.append(inside(f"Z={z}", seldom / others, high=0.5))
        words.append(f"Z={z} {spread(seldom, 0)} against {spread(others, 0)}")
    ours = f"times chosen, quarter of the clients that is eligible least against the others: {', '.join(words)}"
    return finding("seldom", parts, ours, "less than half as often")


def _fixed(rows: list[Row]) -> Finding:
    full, planned = (ledger.column(rows, "eligible", f"{how}_share") for how in ("full", "planned"))
    parts = [inside("planned", planned, low=FREE), inside("full", full, high=FREE)]
    ours = f"eligible share with planned clock and power {spread(planned)}, at full ones {spread(full)}"
    return finding("fixed", parts, ours, f"planned at least {FREE}, full below it; {ledger.PLANNED} edge rounds")


def plot(rows: list[Row]) -> Figure:
    figure, (left, right) = panels(2)
    client = np.arange(1, ledger.N_DEVICES + 1)
    if len(eligible(rows)):
        left.bar(client, eligible(rows)[0], color=look(0)["color"])
    left.set_ylim(0, 1.15 * ledger.ROUNDS)
    left.axhline(RAREST, color="#888888", linestyle=":", label="printed example, 28")
    dress(left, "client", "edge rounds of 400", f"eligible at full clock and power, drop {SHOWN}")
    for index, z in enumerate(ledger.SIZES):
        if len(chosen(rows, z)):
            right.plot(client, chosen(rows, z)[0], "o", markersize=3, color=look(index)["color"], label=f"Z = {z}")
    dress(right, "client", "edge rounds of 400", f"chosen, drop {SHOWN}")
    return figure


EXPERIMENT = Experiment(
    title="RawHFL Figure 5: eligible and chosen clients",
    claims=CLAIMS,
    cases=cases,
    plot=plot,
    check=check,
    store=setting.STORE,
)

if __name__ == "__main__":
    main(EXPERIMENT)
