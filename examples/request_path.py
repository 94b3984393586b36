"""A request for a video in twelve steps, and what everybody on the way learned. Needs the extra `privacy`.

python examples/request_path.py
"""

from collections import Counter

import numpy as np

from fedcell.data.video import RAWHFL, build_catalogue, draw_profiles, draw_requests
from fedcell.data.video.request_path import RequestNetwork, build_network
from fedcell.sealing import Refused

CELLS = (0, 0, 0, 1, 1)  # of five users
ROUNDS, PERIOD = 6, 3  # requests of every user; requests of every user between two rotations
FILE_BYTES = 2000


def play(network: RequestNetwork) -> int:
    """Requests of the law of RawHFL; the edge servers hold the files that were asked for most before."""
    catalogue, profiles = build_catalogue(RAWHFL, 1), draw_profiles(RAWHFL, len(CELLS), 1)
    log = draw_requests(catalogue, profiles, 50 + ROUNDS, 1, "example")
    for cell in range(2):
        here = [user for user, place in enumerate(CELLS) if place == cell]
        usual = Counter(log[here, :50].ravel().tolist()).most_common(4)
        network.place(cell, [file for file, _ in usual])
    for number in range(ROUNDS):
        if number and number % PERIOD == 0:
            network.rotate()
        for user in range(len(CELLS)):
            video = network.request(user, int(log[user, 50 + number]))
            assert video == network.csp.files[log[user, 50 + number]]
    return ROUNDS * len(CELLS)


def steps(network: RequestNetwork) -> None:
    """Print the messages of one request that an edge server answers."""
    file = next(iter(network.servers[0].held))
    network.wire.sent.clear()
    network.request(0, file)
    print("one request, served from the edge")
    for one in network.wire.sent:
        print(f"  step {one.step:2d}  {one.way:8s} {one.n_bytes:6d} bytes  {1e3 * one.seconds:7.3f} ms")
    print(f"  in all {sum(one.n_bytes for one in network.wire.sent)} bytes")


def learned(network: RequestNetwork) -> None:
    """Print what is in the logs."""
    print("what everybody learned")
    for station in network.stations:
        heard = Counter(entry.fields["subscriber"] for entry in station.log if "counter" in entry.fields)
        print(f"  {station.name}: subscribers {sorted(heard)} ask and get something; no content")
    print(f"  {network.isp.name}: requests to charge {network.isp.bill}; cells; no content")
    for server in network.servers:
        files = [entry.fields["file"] for entry in server.log]
        hits = sum(entry.fields["hit"] for entry in server.log)
        print(f"  {server.name}: {len(files)} orders for {len(set(files))} files, {hits} of them held; no user")
    asked = Counter(entry.fields["account"] for entry in network.csp.log if "account" in entry.fields)
    print(f"  {network.csp.name}: files of accounts {dict(sorted(asked.items()))}; no cell")


def attack(network: RequestNetwork) -> None:
    """Change one bit of a video on the air."""
    network.wire.tamper = lambda way, body: body[:-1] + bytes([body[-1] ^ 1]) if way == "bs>user" else body
    try:
        network.request(0, 1)
    except Refused as refusal:
        print(f"one changed bit: {refusal}")


if __name__ == "__main__":
    draw = np.random.default_rng(1)
    files = [draw.bytes(int(draw.integers(1, FILE_BYTES))) for _ in range(RAWHFL.n_files)]
    network = build_network(files, CELLS)
    n_requests = play(network)
    print(f"{n_requests} requests, {network.csp.period + 1} periods of tags")
    learned(network)
    steps(network)
    attack(network)
