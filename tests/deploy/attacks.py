"""What one wrong device does to a federation, one attack after the other: a table.

    python tests/deploy/attacks.py [--devices 4]

Real processes on 127.0.0.1: a SuperLink, SuperNodes and their executors, and one run in which the last device attacks
in another way in every round. Then ten devices in one process, with real messages and no network, of which one attacks
in the same way in all rounds but the first: what is left of the accuracy. Prints Markdown.
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
    "train.lr=0.3 train.steps=20 model.hidden=16 world.cycles_per_sample=1e5 train.device=cpu world.deadline_s=30"
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
    "bounds alone": {},
    "with `max-pull=0.15`": {"max-pull": 0.15},
    "`robust=median`": {"robust": "median"},
    "`robust=krum`": {"robust": "krum"},
}
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


def accuracy(kind, bounds, n_rounds):
    """Accuracy with one attacker of ten, from round 1 on."""
    folder = tempfile.mkdtemp(prefix="attacks")
    own = {"world.n_devices": "10", "rounds": str(n_rounds), "data.alpha": "1.0"}
    config = run_config("fedavg", f"{folder}/run", **own) | {"max-share": 0.2, **bounds}
    first = {}

    def spoil(node, message, reply):
        if node != 109 or message.metadata.message_type != "train":
            return reply
        first.setdefault("update", reply.content.array_records["arrays"]["update"].numpy().copy())
        return wrong(kind, reply, first["update"]) if int(message.metadata.group_id) else reply

    nodes = {100 + device: {"partition-id": device} for device in range(10)}
    found = play(config, federation(config, spoil, nodes=nodes))
    shutil.rmtree(folder)
    return found.columns["accuracy"][-1]


def main():
    parser = argparse.ArgumentParser(description="Attacks on a federation.")
    parser.add_argument("--devices", type=int, default=4)
    parser.add_argument("--inside", action="store_true", help="the second table alone")
    parser.add_argument("--rounds", type=int, default=12, help="of the second table")
    args = parser.parse_args()
    lines = [] if args.inside else list(real(args.devices))
    print("\n| attack | outcomes | refused | accuracy after it | seconds |\n|---|---|---|---|---|")
    print("\n".join(lines), flush=True)
    kinds = [kind for kind in KINDS if kind not in ("slow loris", "killed", "flood of 100 MB")]  # of the network
    table = {kind: [accuracy(kind, bounds, args.rounds) for bounds in BOUNDS.values()] for kind in kinds}
    print(f"\n| attack | {' | '.join(BOUNDS)} |\n{'|---' * (len(BOUNDS) + 1)}|")
    for kind, found in table.items():
        cells = [f"{100 * one:.1f} ({100 * (one - none):+.1f})" for one, none in zip(found, table["none"], strict=True)]
        print(f"| {kind} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
