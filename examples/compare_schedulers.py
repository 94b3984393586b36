"""Who should train? FedAvg with every scheduler, six of twenty devices a round, on one seed.

    python examples/compare_schedulers.py [ROUNDS]

All runs meet the same channels, hardware and mini-batches, so the rows differ by the scheduler alone.
"""

import sys

import fedcell
from fedcell.methods.parts.schedulers import SCHEDULERS


def main(rounds: int) -> None:
    methods = [f"fedavg:scheduler={name}" + ",n_selected=6" * (name != "all") for name in SCHEDULERS]
    records = fedcell.run(methods, "cell", {"rounds": rounds})
    print(fedcell.report.text(records))
    for one in records:
        heard = {device for row in one.columns["outcome"] for device, letter in enumerate(row) if letter == "D"}
        print(f"{one.label}: {len(heard)} of {one.config['world']['n_devices']} devices were heard at least once")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 40)
