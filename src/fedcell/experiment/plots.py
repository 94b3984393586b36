"""How the figures of experiments look."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure


def panels(n: int = 1, columns: int = 2, height: float = 4.0) -> tuple[Figure, list[Axes]]:
    """A figure with `n` panels, one where there is nothing to show, in lines of `columns`."""
    columns = min(max(n, 1), columns)
    lines = -(-max(n, 1) // columns)
    figure = Figure(figsize=(5.4 * columns if columns > 1 else 7.0, height * lines), layout="constrained")
    return figure, list(np.ravel(figure.subplots(lines, columns, squeeze=False)))


def dress(axes: Axes, x: str, y: str, title: str = "", legend: bool = True) -> None:
    """Names of the axes, a grid, and a legend where curves have labels."""
    axes.set(xlabel=x, ylabel=y, title=title)
    axes.grid(color="#dddddd", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    if legend and axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, fontsize="small")
