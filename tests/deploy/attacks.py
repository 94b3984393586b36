"""What one wrong device does to a federation, one attack after the other: a table.

    python tests/deploy/attacks.py [--devices 4] [--inside | --skews]

Real processes on 127.0.0.1: a SuperLink, SuperNodes and their executors, and one run in which the last device attacks
in another way in every round. Then ten devices in one process, with real messages and no network, of which one attacks
in the same way in all rounds but the first: what is left of the accuracy, also with label skew. Prints Markdown.
"""

import argparse
import json
import shutil
import socket
import tempfile
import threading
import time
from pathlib import Path

from attacker import wrong
from inside import federation, play, run_config
from processes import HERE, Federation, rows, until

from fedcell.deploy import example, flower

SETTINGS = (
    "train.lr=0.3 train.steps=20 model.hidden=16 world.cycles_per_sample=1e5 train.device=cpu world.deadline_s=90"
)
KINDS = (
    "none",
    "huge (3e38)",
    "scaled x1000",
    "scaled x8, flipped",
    "sign-flipped",
    "noise",
    "NaN",
    "wrong shape",
    "wrong round",
    "false id",
    "inflated counts",
    "replay",
    "flood of 100 MB",
    "slow loris",
    "killed",
)
BOUNDS = {
    "bounds by default": {},
    "`robust=krum`": {"robust": "krum"},
    "`robust=median`": {"robust": "median"},
}
SKEWS, ATTACKERS = (1.0, 0.3, 0.1), (1, 4, 9)  # Dirichlet's parameter, and who attacks
PATIENCE_S = 900


class SlowLoris:
    """Connections that never finish their request."""

    def __init__(self, port, n=100):
        self.sockets = [socket.create_connection(("127.0.0.1", port)) for _ in range(n)]
        self.on = True
        threading.Thread(target=self._trickle, daemon=True).start()

    def _trickle(self):
        while self.on:
            for one in self.sockets:
                try:
                    one.send(b"P")
                except OSError:
                    continue
            time.sleep(1)

    def stop(self):
        self.on = False
        for one in self.sockets:
            one.close()


def real(n_devices):
    """Lines of the table of real processes."""
    folder = Path(tempfile.mkdtemp(prefix="attacks"))
    example.write(folder / "app", "fedavg", n_devices, 8000)
    shutil.copy(HERE / "attacker.py", folder / "app" / "digits" / "client.py")
    made = Federation(folder / "here", folder / "app")
    try:
        made.start_link()
        for device in range(n_devices):
            made.start_node(device)
        (made.folder / "attack.json").write_text(json.dumps({"device": n_devices - 1, "kinds": KINDS}))
        out = folder / "run"
        own = f"world.n_devices={n_devices} rounds={len(KINDS)} deploy.strikes=0"
        made.run(method="fedavg", out=str(out), settings=f"{SETTINGS} {own}")
        until((made.folder / f"device{n_devices - 1}" / f"asked{KINDS.index('slow loris') - 1}").exists, PATIENCE_S)
        loris = SlowLoris(made.port)
        found = until(
            lambda: (one := rows(out)) and one.status.state in ("finished", "failed", "diverged") and one, PATIENCE_S
        )
        loris.stop()
        refused = [json.loads(text) for text in (out / flower.REFUSED).read_text().splitlines()]
        yield f"run: {found.status.state}, {found.status.rounds} of {len(KINDS)} rounds"
        for round, (kind, letters) in enumerate(zip(KINDS, found.columns["outcome"], strict=False)):
            why = "; ".join(f"{one['kind']}: {one['text']}" for one in refused if one["round"] == round) or "-"
            cells = (
                kind,
                letters,
                why,
                f"{100 * found.columns['accuracy'][round]:.1f} %",
                f"{found.columns['round_s'][round]:.0f}",
            )
            yield f"| {' | '.join(cells)} |"
    finally:
        made.stop()
        shutil.rmtree(folder, ignore_errors=True)


def accuracy(kind, bounds, n_rounds, alpha=1.0, attacker=9):
    """Accuracy with one attacker of ten, from round 1 on: after half of the rounds, and after all."""
    folder = tempfile.mkdtemp(prefix="attacks")
    own = {"world.n_devices": "10", "rounds": str(n_rounds), "data.alpha": str(alpha)}
    config = run_config("fedavg", f"{folder}/run", **own) | bounds
    first = {}

    def spoil(node, message, reply):
        if node != 100 + attacker or message.metadata.message_type != "train":
            return reply
        first.setdefault("update", reply.content.array_records["arrays"]["update"].numpy().copy())
        return wrong(kind, reply, first["update"]) if int(message.metadata.group_id) else reply

    nodes = {100 + device: {"partition-id": device} for device in range(10)}
    found = play(config, federation(config, spoil, nodes=nodes))
    shutil.rmtree(folder)
    return found.columns["accuracy"][n_rounds // 2 - 1], found.columns["accuracy"][-1]


def main():
    parser = argparse.ArgumentParser(description="Attacks on a federation.")
    parser.add_argument("--devices", type=int, default=4)
    parser.add_argument("--inside", action="store_true", help="the second table alone")
    parser.add_argument("--skews", action="store_true", help="the third table alone: label skews, and who attacks")
    parser.add_argument("--rounds", type=int, default=24, help="of the second table and the third")
    args = parser.parse_args()
    if args.skews:
        print("| alpha | bounds | none | left out (NaN) | x8, flipped | sign-flipped |\n|---|---|---|---|---|---|")
        for line in skewed(args.rounds):
            print(line, flush=True)
        return
    lines = [] if args.inside else list(real(args.devices))
    print("\n| attack | outcomes | refused | accuracy after it | seconds |\n|---|---|---|---|---|")
    print("\n".join(lines), flush=True)
    kinds = [kind for kind in KINDS if kind not in ("slow loris", "killed", "flood of 100 MB")]  # of the network
    table = {kind: [accuracy(kind, bounds, args.rounds) for bounds in BOUNDS.values()] for kind in kinds}
    print(f"\n| attack | {' | '.join(BOUNDS)} |\n{'|---' * (len(BOUNDS) + 1)}|")
    for kind, found in table.items():
        cells = [against(one, none) for one, none in zip(found, table["none"], strict=True)]
        print(f"| {kind} | {' | '.join(cells)} |")


def skewed(n_rounds):
    """Lines of the table of label skews: accuracy without an attack, and what attacks cost on average and at worst."""
    for alpha in SKEWS:
        for name, bounds in BOUNDS.items():
            none = accuracy("none", bounds, n_rounds, alpha)[1]
            cells = [f"{alpha:g}", name, f"{100 * none:.1f}"]
            for kind in ("NaN", "scaled x8, flipped", "sign-flipped"):
                cost = [100 * (accuracy(kind, bounds, n_rounds, alpha, who)[1] - none) for who in ATTACKERS]
                cells.append(f"{sum(cost) / len(cost):+.1f} ({min(cost):+.1f})")
            yield f"| {' | '.join(cells)} |"


def against(found, none):
    """Accuracies in %, and how far they are from those without an attack."""
    return ", ".join(f"{100 * one:.1f} ({100 * (one - best):+.1f})" for one, best in zip(found, none, strict=True))


if __name__ == "__main__":
    main()
