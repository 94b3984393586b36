"""Files that run in other processes are no tests; those that need Flower are left out where it is missing."""

import os
from importlib.util import find_spec

collect_ignore = ["nest.py", "trouble.py", "stock.py", "attacker.py", "attacks.py", "server_kills.py"]
if find_spec("flwr") is None and "FEDCELL_REQUIRE_FLOWER" not in os.environ:
    parts = (
        "bounds",
        "loopback",
        "meters",
        "other_tasks",
        "own_apps",
        "client",
        "federation",
        "rounds",
        "roster",
        "scaled_devices",
        "sealed",
        "wire",
    )
    collect_ignore += ["inside.py", "processes.py", *(f"test_{part}.py" for part in parts)]
