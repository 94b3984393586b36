"""A study is a file: what to run, on which seeds and settings, and what to draw of it, in TOML.

    methods = ["fedavg", "fedprox"]
    scenario = "cell"
    seeds = "1..5"
    settings.rounds = 30
    grid.fedprox.mu = [0.01, 0.1, 1]
    labels.fedavg = "FedAvg"

Files that a study names lie beside it: their paths start at its folder. Keys of settings and grids are those of
`--set` and `--grid`.
"""

from .file import FIGURE, KEYS, FigureRequest, Study, read, write

__all__ = ["FIGURE", "KEYS", "FigureRequest", "Study", "read", "write"]
