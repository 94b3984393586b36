"""Figure 5: in how many of 400 edge rounds each client could train, and in how many it is chosen. No training."""

from functools import cache

import numpy as np
import rawhfl_ledger as ledger
import rawhfl_setting as setting
from matplotlib.figure import Figure
from rawhfl_plots import look

from fedcell.experiment import Case, Claim, Experiment, Finding, Row, main
from fedcell.experiment.judging import judged, spread
from fedcell.experiment.plots import dress, panels
from fedcell.types import Floats

RAREST = 28  # of 400 edge rounds
MOSTLY = 0.95  # of the clients
FREE = 0.98  # of clients and rounds
FREE_ROUNDS = 40  # edge rounds that the eligibility with planned power is counted in
SHOWN = ledger.SEEDS[0]

CLAIMS = (
    Claim(
        "few", "some clients are eligible only in a few of the 400 edge rounds", "client 11: 28, in one of 10 trials"
    ),
    Claim("keeps", "whoever is chosen meets deadline and energy budget, for every Z", "Fig. 5b; no numbers"),
    Claim("more", "the larger Z, the more often a client is chosen", "Fig. 5b; no numbers"),
    Claim("seldom", "clients that are seldom eligible are seldom chosen", "Fig. 5b; no numbers"),
    Claim(
        "fixed",
        "eligibility must be meant at full clock and power: with planned ones nearly everyone always is",
        "not in the paper",
    ),
)


def cases(quick: bool) -> list[Case]:
    return []


@cache
def eligible() -> Floats:
    """Edge rounds in which a client could do a step at full clock and power, `[n_seeds, n_devices]`."""
    return np.asarray(ledger.could("max").sum(axis=1), dtype=np.float64)


@cache
def chosen(z: int, suffix: str = "") -> Floats:
    """Edge rounds in which a client is chosen, `[n_seeds, n_devices]`."""
    return np.asarray(ledger.book(f"rawhfl Z={z}{suffix}").chosen.sum(axis=1), dtype=np.float64)


def check(rows: list[Row]) -> list[Finding]:
    return [_few(), _keeps(), _more(), _seldom(), _fixed()]


def _few() -> Finding:
    rarest, every = eligible().min(axis=1), (eligible() == ledger.ROUNDS).sum(axis=1)
    within = rarest.min() <= RAREST <= rarest.max()
    ours = (
        f"client with the fewest: {spread(rarest, 0)}, {rarest.min():.0f} to {rarest.max():.0f}; always "
        f"eligible: {spread(every.astype(float), 1)} of {ledger.N_DEVICES}"
    )
    rule = f"the printed {RAREST} lies within the range of {len(ledger.SEEDS)} drops; partly: mean below 100"
    return setting.graded("few", ours, bool(within), bool(rarest.mean() < 100), rule)


def _keeps() -> Finding:
    held = {}
    for z in ledger.SIZES:
        book = ledger.book(f"rawhfl Z={z}")
        held[f"Z={z}"] = not bool((book.chosen & ~(ledger.could("max") & book.delivered)).any())
    idle = {z: 1 - ledger.book(f"rawhfl Z={z}").chosen.sum(axis=2).mean() / (z * ledger.N_CELLS) for z in ledger.SIZES}
    ours = "slots without an eligible client: " + ", ".join(f"Z={z} {share:.2%}" for z, share in idle.items())
    return judged("keeps", ours, held, "not one upload of a chosen client is late or over its budget")


def _more() -> Finding:
    held, words = {}, []
    for low, high in ((2, 4), (4, 6)):
        share = (chosen(high) >= chosen(low)).mean(axis=1)
        held[f"Z={low} to {high}"] = bool(share.mean() >= MOSTLY)
        words.append(f"Z={low} to {high}: {share.mean():.1%} of the clients")
    counts = ", ".join(f"Z={z} {np.median(chosen(z)):.0f}" for z in ledger.SIZES)
    most = ", ".join(f"Z={z} {chosen(z).max():.0f}" for z in ledger.SIZES)
    most_free = ", ".join(f"Z={z} {chosen(z, ' no limit').max():.0f}" for z in ledger.SIZES)
    ours = f"chosen as often or more, {'; '.join(words)}; median {counts}; most {most} (psi=z: {most_free})"
    return judged("more", ours, held, f"at least {MOSTLY:.0%} of the clients")


def _seldom() -> Finding:
    held, words = {}, []
    quarter = ledger.N_DEVICES // 4
    order = np.argsort(eligible(), axis=1)
    for z in ledger.SIZES:
        ordered = np.take_along_axis(chosen(z), order, axis=1)
        seldom, others = ordered[:, :quarter].mean(axis=1), ordered[:, quarter:].mean(axis=1)
        held[f"Z={z}"] = bool((seldom < others / 2).all())
        words.append(f"Z={z} {spread(seldom, 0)} against {spread(others, 0)}")
    ours = f"times chosen, quarter of the clients that is eligible least against the others: {', '.join(words)}"
    return judged("seldom", ours, held, "less than half as often on every drop")


def _fixed() -> Finding:
    full, planned = (ledger.could(how, ledger.SEEDS, FREE_ROUNDS).mean(axis=(1, 2)) for how in ("max", "exact"))
    held = {"planned": bool(planned.mean() >= FREE), "full": bool(full.mean() < FREE)}
    ours = f"eligible share with planned clock and power {spread(planned)}, at full ones {spread(full)}"
    return judged("fixed", ours, held, f"planned at least {FREE}, full below it; {FREE_ROUNDS} edge rounds")


def plot(rows: list[Row]) -> Figure:
    figure, (left, right) = panels(2)
    seed = ledger.SEEDS.index(SHOWN)
    client = np.arange(1, ledger.N_DEVICES + 1)
    left.bar(client, eligible()[seed], color=look(0)["color"])
    left.set_ylim(0, 1.15 * ledger.ROUNDS)
    left.axhline(RAREST, color="#888888", linestyle=":", label="printed example, 28")
    dress(left, "client", "edge rounds of 400", f"eligible at full clock and power, drop {SHOWN}")
    for index, z in enumerate(ledger.SIZES):
        right.plot(client, chosen(z)[seed], "o", markersize=3, color=look(index)["color"], label=f"Z = {z}")
    dress(right, "client", "edge rounds of 400", f"chosen, drop {SHOWN}")
    return figure


EXPERIMENT = Experiment(
    title="RawHFL Figure 5: eligible and chosen clients", claims=CLAIMS, cases=cases, plot=plot, check=check
)

if __name__ == "__main__":
    main(EXPERIMENT)
