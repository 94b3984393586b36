"""Kill the server of a federation at random instants, restart it by the same command, and compare what it leaves.

    python tests/deploy/server_kills.py [--n 24] [--each 6] [--seed 0]

Real processes on 127.0.0.1. A kill is SIGKILL to the process that runs the ServerApp, in the middle of a round or
wherever it is; a federation is killed `--each` times before it may end. Devices are deterministic, so what it leaves
must be that of a federation that nobody killed: every tensor of the last checkpoint and every column of the rows, byte
by byte, but for what is measured and differs between any two runs (`MEASURED`).
"""

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

from processes import Federation, children, kill, rows, until
from safetensors.numpy import load_file

from fedcell.deploy import example

METHODS = ("fedavg", "scaffold", "recycling", "osafl", "fedavg+topk:fraction=0.1", "m_fedavg")
MEASURED = ("clock_s", "round_s", "compute_s", "transfer_s", "measured_joule", "n_metered", "n_estimated")
MEASURED += ("uplink_message_bit", "downlink_message_bit", "estimated_joule")  # run numbers, and whether there is RAPL
STATE_MEASURED = ("state.world.memory.response_s",)
N_DEVICES, N_ROUNDS, PATIENCE_S = 3, 6, 600
SETTINGS = (
    f"world.n_devices={N_DEVICES} rounds={N_ROUNDS} train.lr=0.3 train.steps=20 model.hidden=16 train.device=cpu "
    "world.cycles_per_sample=1e5 world.deadline_s=120"
)


def left(out):
    """What a run leaves behind, by name, without what is measured."""
    newest = max(Path(out).glob("checkpoint-*.safetensors"))
    state = {name: value.tobytes() for name, value in load_file(newest).items() if name not in STATE_MEASURED}
    lines = [json.loads(line) for line in (Path(out) / "rounds.jsonl").read_text().splitlines()]
    flat = [{**line.pop("metrics"), **line} for line in lines]
    told = [{name: value for name, value in line.items() if name not in MEASURED} for line in flat]
    return {"checkpoint": newest.name, "rows": json.dumps(told).encode(), **state}


def ended(out):
    found = rows(out)
    return found is not None and found.status.state in ("finished", "failed", "diverged")


def begin(made, method, out):
    """Start the run, and return the process of its server."""
    made.run(method=method, out=str(out), settings=SETTINGS)
    return until(lambda: children(made.processes["link-exec"]), PATIENCE_S)[0]


def play(made, method, out):
    """A run that nobody kills; returns its seconds from the start of the server to its end."""
    begin(made, method, out)
    begun_s = time.monotonic()
    until(lambda: ended(out), PATIENCE_S)
    took_s = time.monotonic() - begun_s
    until(lambda: not children(made.processes["link-exec"]), PATIENCE_S)
    return took_s


def killed(made, method, out, longest_s, n, rng):
    """A run whose server is killed `n` times; returns how many rounds were finished at each kill."""
    found = []
    while True:
        server = begin(made, method, out)
        if len(found) < n:
            time.sleep(rng.uniform(0.3, 1.0) * longest_s / 2)
            if not ended(out):
                kill(server)
                found.append(rows(out).status.rounds if rows(out) else 0)
        else:
            until(lambda: ended(out), PATIENCE_S)
        until(lambda: not children(made.processes["link-exec"]), PATIENCE_S)
        if ended(out):
            return found


def main():
    parser = argparse.ArgumentParser(description="Kill servers of federations, restart them, compare bytes.")
    parser.add_argument("--n", type=int, default=24, help="kills at least")
    parser.add_argument("--each", type=int, default=6, help="kills of one federation")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    rng, top = random.Random(args.seed), Path(tempfile.mkdtemp(prefix="server-kills"))
    example.write(top / "app", "fedavg", N_DEVICES, 8000)
    made, count, differing, turns, whole = Federation(top / "here", top / "app"), 0, 0, 0, {}
    try:
        made.start_link()
        for device in range(N_DEVICES):
            made.start_node(device)
        while count < args.n:
            method = METHODS[turns % len(METHODS)]
            if method not in whole:
                took_s = play(made, method, top / f"{turns}-whole")
                whole[method] = left(top / f"{turns}-whole"), took_s
            expected, took_s = whole[method]
            out = top / f"{turns}-killed"
            at = killed(made, method, out, took_s, args.each, rng)
            now = left(out)
            wrong = sorted(name for name in expected | now if expected.get(name) != now.get(name))
            count, turns, differing = count + len(at), turns + 1, differing + bool(wrong)
            words = f"OTHER BYTES in {', '.join(wrong)}, see {out}" if wrong else f"{len(expected)} parts equal"
            print(f"{method}: {len(at)} kills after {at} rounds of {N_ROUNDS}: {words}", flush=True)
    finally:
        made.stop()
    print(f"{count} kills of the server in {turns} federations: {differing} with other bytes")
    if not differing:
        shutil.rmtree(top)
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
