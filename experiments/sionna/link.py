"""The 5G link against Sionna's abstraction: thresholds of every scheme, and the one that is taken. Trains nothing."""

import json
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from fedcell.experiment import Case, Claim, Experiment, Finding, Row, finding, main
from fedcell.experiment.judging import exact, missing
from fedcell.experiment.plots import dress, panels
from fedcell.radio import nr
from fedcell.radio.cost import open_loop_watt
from fedcell.scenarios import Config
from fedcell.units import db_to_ratio

SAMPLE = Path(__file__).parents[2] / "tests" / "radio" / "sionna_sample.json"  # by benchmarks/nr_tables.py
CASE = "link"
NEAR_DB = 0.1
FINE_DB = np.arange(nr.tables().snr_db[0], 25, 0.005)
BAND_HZ = 5e6  # of the figure
MOST_WATT = 10**-0.7  # 23 dBm

CLAIMS = (
    Claim(
        "thresholds",
        f"code blocks of every MCS need the SINR that Sionna says, to {NEAR_DB:g} dB, for errors of 50, 10 and 1 %",
        "Sionna 2.2",
    ),
    Claim("schemes", f"the link takes the scheme that Sionna takes, up to {NEAR_DB:g} dB of SINR", "Sionna 2.2"),
    Claim("powers", "open-loop powers are Sionna's to 1e-5 of them", "Sionna 2.2"),
)


def cases(quick: bool) -> list[Case]:
    return [Case(CASE, Config(), "fedavg", seeds=(1,), measure=compared)]


def compared(config: Config) -> dict[str, object]:
    """By MCS the largest distance of a threshold, how often the scheme agrees, and the rates of the figure."""
    sample, known = json.loads(SAMPLE.read_text()), nr.tables().mcs.tolist()
    worst = dict.fromkeys(map(str, known), 0.0)
    for mcs, size, level, theirs_db in sample["thresholds"]:
        error = nr.code_block_error(np.array(known.index(mcs)), np.array(float(size)), db_to_ratio(FINE_DB))
        ours_db = float(FINE_DB[np.argmax(error <= level)])
        worst[str(mcs)] = max(worst[str(mcs)], abs(ours_db - theirs_db))
    quality = np.arange(-10.0, 31.0, 0.5)
    found = nr.blocks(np.full(len(quality), BAND_HZ), db_to_ratio(quality), 0.1, 4)
    return {
        "mcs": known,
        "worst": list(worst.values()),
        "asked": [sum(one[0] == mcs for one in sample["thresholds"]) for mcs in known],
        "agrees": float(np.mean([agrees(*one[:3]) for one in sample["choices"]])),
        "power": float(max(abs(power(*one[:2]) / one[2] - 1) for one in sample["powers"])),
        "quality": quality.tolist(),
        "rate": (nr.rate_bps(found, db_to_ratio(quality)) / BAND_HZ).tolist(),
    }


def agrees(sinr_db: float, elements: float, mcs: int) -> bool:
    """Whether Sionna's scheme is among those that the link takes within a tenth of a decibel.

    Below MCS 3, which it lacks, Sionna stays at 3.
    """
    band = np.full(3, elements / nr.ELEMENTS * 180e3)
    near = nr.blocks(band, db_to_ratio(sinr_db + np.array([-NEAR_DB, 0.0, NEAR_DB])), 0.1, 4)
    low, middle, high = nr.tables().mcs[near.scheme]
    return bool(low <= mcs <= high or (mcs == 3 and middle <= 3))


def power(loss_db: float, carriers: int) -> float:
    return min(float(open_loop_watt(10 ** (-loss_db / 10), carriers * 15e3, -80.0, 0.8)), MOST_WATT)


def check(rows: list[Row]) -> list[Finding]:
    if missing(rows, [CASE]):
        return []
    row = rows[0]
    parts = [exact(f"MCS {mcs}", gap <= NEAR_DB) for mcs, gap in zip(row["mcs"], row["worst"], strict=True)]
    parts += [exact(f"MCS {mcs} was asked for", n > 0) for mcs, n in zip(row["mcs"], row["asked"], strict=True)]
    return [
        finding("thresholds", parts, f"at most {max(row['worst']):.3f} dB over {sum(row['asked'])} thresholds"),
        finding("schemes", exact("all", row["agrees"] == 1), f"{100 * row['agrees']:.1f} % of the questions"),
        finding("powers", exact("all", row["power"] <= 1e-5), f"at most {row['power']:.1e}"),
    ]


def plot(rows: list[Row]) -> Figure:
    figure, (gaps, rates) = panels(2)
    for row in rows:
        gaps.bar(row["mcs"], row["worst"])
        rates.plot(row["quality"], row["rate"], label="5G link")
        rates.plot(row["quality"], np.log2(1 + db_to_ratio(np.array(row["quality"]))), ":", label="Shannon's bound")
    gaps.axhline(NEAR_DB, color="#888888", linestyle=":")
    dress(gaps, "MCS", "farthest from Sionna (dB)", "thresholds")
    dress(rates, "SINR (dB)", "bit/s/Hz", "with retransmissions")
    return figure


EXPERIMENT = Experiment("The 5G link against Sionna", CLAIMS, cases, plot, check)

if __name__ == "__main__":
    main(EXPERIMENT)
