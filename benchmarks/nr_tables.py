"""Make the link tables of `src/fedcell/radio/nr.npz` and the sample that the tests hold them against, from Sionna.

    python -m venv /tmp/sionna && /tmp/sionna/bin/pip install -c constraints.txt sionna-no-rt
    /tmp/sionna/bin/python benchmarks/nr_tables.py

A development tool: fedcell ships the tables and never imports Sionna. Block error rates are those of Sionna's physical
abstraction (`sionna.sys.PHYAbstraction`, simulated once by its authors) for PDSCH table 1, which is also the table of
PUSCH without transform precoding; it has entries for MCS 3 to 28 and code blocks of up to 2,000 bit, beyond which the
last curve holds. Their table 2 of PUSCH gave rates above capacity and is not used.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

HOME = Path(__file__).parents[1]
TABLES = HOME / "src" / "fedcell" / "radio" / "nr.npz"
SAMPLE = HOME / "tests" / "radio" / "sionna_sample.json"
MCS = range(3, 29)
CATEGORY, TABLE = 1, 1  # PDSCH, table 1
LARGEST_CBS = 2024  # the first grid point beyond the simulated ones
STEPS = 65535  # error rates are stored in 16 bit


def main() -> None:
    import torch
    from sionna.phy.nr.utils import MCSDecoderNR  # type: ignore[import-not-found]
    from sionna.sys import PHYAbstraction  # type: ignore[import-not-found]

    phy = PHYAbstraction(device="cpu")
    index = torch.arange(MCS.start, MCS.stop, dtype=torch.int32)
    modulation, code_rate = MCSDecoderNR()(index, torch.full_like(index, TABLE), torch.full_like(index, CATEGORY))
    cbs = np.arange(*phy.cbs_interp_min_max_delta)
    snr_db = np.arange(*phy.snr_db_interp_min_max_delta)
    few = cbs <= LARGEST_CBS
    error = phy.bler_table_interp.cpu().numpy()[CATEGORY, TABLE - 1][MCS.start : MCS.stop, few]
    np.savez_compressed(
        TABLES,
        error=np.round(np.clip(error, 0, 1) * STEPS).astype(np.uint16),
        code_block_bit=cbs[few].astype(np.int64),
        snr_db=snr_db.round(6),
        modulation=modulation.numpy().astype(np.int64),
        code_rate=np.round(code_rate.numpy().astype(np.float64) * 1024).astype(np.int64),
        mcs=np.array(MCS),
    )
    SAMPLE.write_text(json.dumps(sample(phy), indent=None, separators=(",", ":")) + "\n")
    print(f"{TABLES.name}: {TABLES.stat().st_size} bytes; {SAMPLE.name}: {SAMPLE.stat().st_size} bytes")


def sample(phy: Any) -> dict[str, Any]:
    """What Sionna answers to questions that the tables were not made from: thresholds, blocks, choices, powers."""
    import sionna  # type: ignore[import-not-found]
    import torch
    from sionna.sys import InnerLoopLinkAdaptation, open_loop_uplink_power_control

    rng = np.random.default_rng(25)
    fine = np.arange(-5, 25, 0.01)
    thresholds = []
    for mcs in MCS:
        for cbs in (124, 824, 1624):
            error = phy.get_bler(mcs, TABLE, CATEGORY, cbs, torch.tensor(10 ** (fine / 10))).numpy()
            below = {level: fine[error <= level] for level in (0.5, 0.1, 0.01)}
            thresholds += [[mcs, cbs, level, round(float(some[0]), 2)] for level, some in below.items() if len(some)]
    n, elements = 200, rng.integers(1, 60, 200) * 156
    sinr_db = rng.uniform(-6, 26, n)
    sinr = torch.tensor(10 ** (sinr_db / 10), dtype=torch.float32)
    re = torch.tensor(elements, dtype=torch.int32)
    chosen = InnerLoopLinkAdaptation(phy, bler_target=0.1)(
        sinr_eff=sinr, num_allocated_re=re, mcs_table_index=TABLE, mcs_category=CATEGORY
    )
    answer: Any = phy(chosen, sinr_eff=sinr, num_allocated_re=re, mcs_table_index=TABLE, mcs_category=CATEGORY)
    tbler, bler = answer[3], answer[4]
    loss_db, carriers = rng.uniform(60, 150, 40), rng.integers(1, 100, 40) * 12
    power = open_loop_uplink_power_control(
        torch.tensor(10 ** (loss_db / 10)), torch.tensor(carriers), alpha=0.8, p0_dbm=-80.0, ut_max_power_dbm=23.0
    )
    return {
        "sionna": sionna.__version__,
        "thresholds": thresholds,
        "choices": [
            [round(float(s), 6), int(r), int(m), round(float(t), 6), round(float(b), 6)]
            for s, r, m, t, b in zip(sinr_db, elements, chosen, tbler, bler, strict=True)
        ],
        "powers": [
            [round(float(a), 6), int(b), float(np.float32(c))] for a, b, c in zip(loss_db, carriers, power, strict=True)
        ],
    }


if __name__ == "__main__":
    main()
