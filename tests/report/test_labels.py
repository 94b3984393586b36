"""Labels of groups name what differs, stand in numeric order, and can be changed."""

import pytest
from comparison_runs import a_run
from hypothesis import given
from hypothesis import strategies as st

from fedcell import report
from fedcell.errors import BadInput

pytestmark = pytest.mark.rendered

LONG = "fedavg:scheduler=best-channel,n_selected=10"


def labels(runs, **more):
    return [group.label for group in report.compare(runs, **more).groups]


def test_settings_that_all_share_are_said_once_and_not_in_labels():
    runs = [a_run(f"{LONG},lr={lr}") for lr in (0.1, 0.2)]
    found = report.compare(runs)
    assert [group.label for group in found.groups] == ["fedavg:lr=0.1", "fedavg:lr=0.2"]
    assert [group.name for group in found.groups] == [f"{LONG},lr=0.1", f"{LONG},lr=0.2"]
    assert found.notes[0] == "all groups have scheduler=best-channel, n_selected=10"


def test_a_setting_that_one_group_lacks_is_in_the_labels_of_the_others():
    assert labels([a_run("fedavg"), a_run("fedprox:mu=1,lr=2"), a_run("fedprox:mu=3,lr=2")]) == [
        "fedavg",
        "fedprox:mu=1,lr=2",
        "fedprox:mu=3,lr=2",
    ]
    assert labels([a_run(LONG)]) == [LONG]  # nothing differs from anything


def test_the_figure_of_a_run_names_what_differs_too():
    drawn = report.draw([a_run(f"{LONG},lr={lr}") for lr in (0.1, 0.2)])
    assert [text.get_text() for text in drawn.legends[0].get_texts()] == ["fedavg:lr=0.1", "fedavg:lr=0.2"]


def test_files_are_named_without_their_folders_unless_that_is_what_differs():
    assert labels([a_run("./some/folder/mine.py:b=1"), a_run("fedavg")]) == ["mine.py:b=1", "fedavg"]
    both = ["one/mine.py", "two/mine.py"]
    assert labels([a_run(text) for text in both]) == both


@given(st.permutations([0.001, 0.05, 0.1, 1.0, 9.0, 10.0, 2e6]), st.permutations([200.0, 400.0, 1000.0]))
def test_grids_stand_in_numeric_order(values, radii):
    runs = [a_run(f"fedprox:mu={mu:g}", world={"radius_m": radius}) for mu in values for radius in radii]
    expected = [f"fedprox:mu={mu:g} world.radius_m={r:g}" for r in sorted(radii) for mu in sorted(values)]
    assert labels(runs) == expected


def test_methods_stand_as_they_came_and_a_grid_keeps_together():
    texts = ["fedprox:mu=10", "central", "fedprox:mu=9", "fedavg"]
    assert labels([a_run(text) for text in texts]) == ["fedprox:mu=9", "fedprox:mu=10", "central", "fedavg"]


def test_the_full_name_and_a_new_label_are_good_references():
    runs = [a_run(f"{LONG},lr={lr}") for lr in (0.1, 0.2)]
    for against in ("fedavg:lr=0.2", f"{LONG},lr=0.2"):
        assert report.compare(runs, against=against).reference == "fedavg:lr=0.2"
    assert report.compare(runs, labels={"fedavg:lr=0.2": "fast"}, against="fast").reference == "fast"
    assert labels(runs, only=["lr=0.2"]) == ["fedavg:lr=0.2"]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (["fedavg=FedAvg"], ["FedAvg", "fedprox:mu=0.1", "fedprox:mu=1"]),
        (["fedprox=FedProx"], ["fedavg", "FedProx:mu=0.1", "FedProx:mu=1"]),
        (["fedprox:mu=0.1=$\\mu=0.1$"], ["fedavg", "$\\mu=0.1$", "fedprox:mu=1"]),
        ({"fedprox:mu=1": "strong"}, ["fedavg", "fedprox:mu=0.1", "strong"]),
    ],
)
def test_new_labels(wanted, expected):
    assert labels([a_run("fedavg"), a_run("fedprox:mu=0.1"), a_run("fedprox:mu=1")], labels=wanted) == expected


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (["fedawg=x"], "there is no group 'fedawg' to label 'x'"),
        (["fedavg"], "--label 'fedavg' has no new label: write OLD=NEW"),
        ({"fedavg": "fedprox"}, "two groups would have the label 'fedprox'"),
    ],
)
def test_labels_that_do_not_fit(wanted, words):
    with pytest.raises(BadInput, match=words):
        labels([a_run("fedavg"), a_run("fedprox")], labels=wanted)


# ---------------------------------------------------------------- LaTeX


def test_tables_for_latex_are_whole():
    runs = [a_run(label, seed, [0.2, 0.5 + 0.01 * seed]) for label in ("fedavg", "my_net #1") for seed in (1, 2, 3)]
    text = report.comparison_latex(report.compare(runs, targets=[0.5]))
    tables = text.split(r"\begin{table}")[1:]
    assert len(tables) == 4  # both sections, and the differences of both
    for table in tables:
        body = table.split(r"\begin{tabular}{")[1]
        columns = body.index("}")
        lines = [line for line in body.splitlines() if line.endswith(r"\\")]
        assert {line.count(" & ") for line in lines} == {columns - 1}
        for rule in (r"\toprule", r"\midrule", r"\bottomrule", r"\end{tabular}", r"\end{table}"):
            assert table.count(rule) == 1
        assert table.count("{") == table.count("}")
    assert r"my\_net \#1 & $52.0 \pm 2.5$" in tables[0]
    assert r"best (\%)" in tables[0]
    assert r"To reach 50 \% accuracy (seeds 1-3, with 95 \% intervals)." in text
    unescaped = [line for line in text.splitlines() if not line.startswith("%")]
    assert "±" not in "".join(unescaped)


@given(st.text(st.characters(codec="ascii", exclude_categories=["Cc"])))
def test_no_special_character_is_left(text):
    bare = report.latex.escaped(text)
    for word in (r"\textbackslash{}", r"\textasciitilde{}", r"\textasciicircum{}"):
        bare = bare.replace(word, "")
    for letter in "&%$#_{}":
        bare = bare.replace(f"\\{letter}", "")
    assert not set(bare) & set("&%$#_{}~^\\")
