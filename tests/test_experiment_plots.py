"""What figures of experiments show of the paper's own numbers."""

import pytest

from fedcell.experiment.plots import panels, printed_lead, printed_point

ROWS = [{"case": "low", "seed": seed, "rounds": [1, 2, 3], "accuracy": [0.1, 0.3, 0.5 + seed]} for seed in (0.0, 0.2)]


def test_a_printed_lead_stands_on_the_end_of_the_other_case():
    _, (ax,) = panels(1)
    printed_lead(ax, ROWS, "low", 0.05)
    line, mark = ax.get_lines()
    assert line.get_xdata() == pytest.approx([3, 3])
    assert line.get_ydata() == pytest.approx([0.6, 0.65])
    assert mark.get_ydata() == pytest.approx([0.65])
    printed_lead(ax, ROWS, "not run", 0.05)
    assert len(ax.get_lines()) == 2


def test_printed_numbers_are_named_once_and_unused_panels_hidden():
    _, axes = panels(3)
    assert [ax.get_visible() for ax in axes] == [True, True, True, False]
    for x in (1.0, 2.0):
        printed_point(axes[0], x, 0.5)
    assert axes[0].get_legend_handles_labels()[1] == ["printed"]
