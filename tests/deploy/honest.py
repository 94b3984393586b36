"""How far honest devices are from the bounds on lengths and directions of updates.

    python tests/deploy/honest.py

Federations in one process, with real messages and no network, of 4, 10 and 30 devices with skewed labels, in which
nobody attacks. Prints a line for each, then one for all of them.
"""

import shutil
import tempfile

import numpy as np
from inside import federation, play, run_config

from fedcell.deploy import bounds, exchange
from fedcell.deploy.settings import FederationConfig

FEDERATIONS = (  # method, devices, rounds, settings
    ("fedavg", 10, 30, {}),
    ("fedavg", 10, 30, {"data.alpha": "0.1"}),
    ("fedavg", 10, 30, {"data.alpha": "0.05"}),
    ("fedavg", 10, 20, {"data.partition": "shards"}),
    ("fedavg", 4, 20, {"data.alpha": "0.05"}),
    ("fedavg", 30, 12, {"data.alpha": "0.1"}),
    ("fedavg", 10, 12, {"data.alpha": "0.1", "train.lr": "0.6"}),
    ("osafl", 10, 12, {"data.alpha": "0.1"}),
    ("recycling", 10, 12, {"data.alpha": "0.1"}),
    ("scaffold", 10, 12, {"data.alpha": "0.1"}),
    ("fedavg", 10, 24, {"data.alpha": "1.0"}),
    ("fedavg", 10, 16, {"data.partition": "iid", "train.steps": "1", "train.batch_size": "4"}),
    ("cafe", 10, 12, {"data.alpha": "0.3"}),
)


def played(method, n_devices, rounds, settings):
    """Lengths of updates over the median of the others, cosines where those agree, and how many were refused."""
    found, turned, refuse = [], [], exchange.refuse_outliers

    def watch(bound, tasks, answers):
        task_of = {task.device: task for task in tasks}
        heard = [answer for answer in answers if answer.update is not None]
        length = np.array([bounds.length(task_of[answer.device], answer.update) for answer in heard])
        found.extend((one / np.median(np.delete(length, row, axis=0), axis=0)).min() for row, one in enumerate(length))
        sent = [answer.update for answer in heard]
        for row, cosine in enumerate(bounds.cosines(sent)):
            if np.median(bounds.cosines([*sent[:row], *sent[row + 1 :]])) >= bounds.AGREED:
                turned.append(cosine)
        return refuse(bound, tasks, answers)

    folder = tempfile.mkdtemp()
    config = run_config(
        method, f"{folder}/run", **{"world.n_devices": str(n_devices), "rounds": str(rounds), **settings}
    )
    nodes = {100 + one: {"partition-id": one, "state-dir": f"{folder}/{one}"} for one in range(n_devices)}
    exchange.refuse_outliers = watch
    try:
        record = play(config, federation(config, nodes=nodes))
    finally:
        exchange.refuse_outliers = refuse
        shutil.rmtree(folder)
    return np.array(found), np.array(turned), int(record.columns["n_refused"].sum())


def told(name, ratio, cosine, n_refused):
    stretch = FederationConfig().max_stretch
    print(
        f"{name}: {len(ratio)} updates, {n_refused} refused, longest {ratio.max():.2f} times the median of the others, "
        f"{100 * (ratio > stretch).mean():.1f} % shortened; {len(cosine)} among others that agree, lowest cosine "
        f"{cosine.min(initial=1.0):.2f}",
        flush=True,
    )


def main():
    every = [played(*one) for one in FEDERATIONS]
    for (method, n_devices, _, settings), one in zip(FEDERATIONS, every, strict=True):
        told(f"{method}, {n_devices} devices, {settings}", *one)
    ratio, cosine, n_refused = zip(*every, strict=True)
    told("all", np.concatenate(ratio), np.concatenate(cosine), sum(n_refused))


if __name__ == "__main__":
    main()
