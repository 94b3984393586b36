"""Both pages in a real browser: they draw, they answer, they ask nobody else, they run no text of a run."""

import json
import os
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest

import fedcell
from fedcell.cli import main
from fedcell.record import read
from fedcell.web.follow import Follower
from fedcell.web.report import write

pytestmark = pytest.mark.browser

REQUIRED = "FEDCELL_REQUIRE_BROWSER" in os.environ
NAMES = ("chromium", "chromium-browser", "google-chrome")
PATIENCE_MS = 60_000  # a busy machine is not a bug
SMALL = ["--set", "world.n_devices=5", "--set", "model.name=logistic", "--set", "train.steps=1"]
EVIL = '</script><script>window.hit=1</script><img src=x onerror="window.hit=1">'

# ---------------------------------------------------------------- the browser


def installed():
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def chromium():
    """The path of a browser, installed where that is possible; why not, otherwise."""
    if installed() or not shutil.which("apt-get") or os.geteuid() != 0:
        return installed(), "no Chromium here, and it takes root and apt-get to install it: apt-get install chromium"
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    quiet = {"capture_output": True, "text": True, "timeout": 600, "env": environment}
    patient = ["-o", "DPkg::Lock::Timeout=500"]  # another process of the suite may be at it
    install = ["apt-get", *patient, "install", "-y", "--no-install-recommends", "chromium"]
    done = subprocess.run(install, **quiet)
    if done.returncode:
        subprocess.run(["apt-get", "update"], **quiet)
        done = subprocess.run(install, **quiet)
    return installed(), f"apt-get could not install Chromium: {done.stderr.strip()[-300:]}"


@pytest.fixture(scope="session")
def browser():
    """A headless Chromium."""
    playwright = pytest.importorskip("playwright.sync_api")
    path, why = chromium()
    if not path:
        (pytest.fail if REQUIRED else pytest.skip)(why)
    with playwright.sync_playwright() as driver:
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
        opened = driver.chromium.launch(executable_path=path, args=sandbox)
        yield opened
        opened.close()


@pytest.fixture
def visit(browser, site):  # a page closes before the dashboard that it follows
    """Open an address; at the end, nothing may have gone wrong and no other place may have been asked."""
    context = browser.new_context(viewport={"width": 1300, "height": 900})
    context.set_default_timeout(PATIENCE_MS)
    wrong, asked = [], []

    def start(address):
        page = context.new_page()
        page.on("console", lambda message: wrong.append(message.text) if message.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(address)
        return page

    yield start
    context.close()
    assert wrong == []
    own = ("file:///", "data:", "blob:", "http://127.0.0.1:")
    assert [url for url in asked if not url.startswith(own)] == []


def series(page, part="scores"):
    """The names of the lines in a chart."""
    lines = f"fedcell.parts.{part}.chart()?.getOption().series.filter((one) => one.type === 'line')"
    return page.evaluate(f"{lines}.map((one) => one.name)")


def wait_until(page, condition):
    """Wait for a JavaScript expression to be true. The driver's own way needs `eval`, which the pages forbid."""
    deadline = time.monotonic() + PATIENCE_MS / 1000
    while not page.evaluate(condition):
        assert time.monotonic() < deadline, condition
        page.wait_for_timeout(50)


def colours(page, selector):
    """How many different colours a canvas shows."""
    code = """(canvas) => {
        const pen = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", { willReadFrequently: true });
        pen.drawImage(canvas, 0, 0);
        const { data } = pen.getImageData(0, 0, canvas.width, canvas.height);
        return new Set(new Uint32Array(data.buffer)).size;
    }"""
    return page.locator(selector).first.evaluate(code)


# ---------------------------------------------------------------- the report


def test_the_report_draws_and_answers(visit, recorded, tmp_path):
    page = visit(write(recorded, tmp_path / "report.html").as_uri())
    assert series(page) == ["fedavg"] * 2 + ["fedprox:mu=0.5"] * 2  # too few seeds for a band
    assert colours(page, ".chart canvas") > 5
    assert colours(page, "canvas.schedule") > 2
    assert page.locator("svg.cells circle.device").count() == 5
    text = page.locator("main").inner_text()
    assert "Fewer than 3 seeds: a line for every run." in text
    assert "% accuracy: difference to fedavg" in text
    assert "To reach" in text

    card = page.locator("section.card", has=page.get_by_role("heading", name="Curves"))
    card.get_by_role("button", name="fedavg").click()
    assert series(page) == ["fedprox:mu=0.5"] * 2
    card.get_by_label("seeds").select_option("each")
    assert series(page) == ["fedprox:mu=0.5"] * 2
    for value, words in (
        ("clock_s", "time"),
        ("joule", "energy"),
        ("uplink_bit", "uplink"),
        ("done", "round"),
    ):
        card.get_by_label("over").select_option(value)
        assert page.evaluate("fedcell.parts.scores.chart().getOption().xAxis[0].name").startswith(words)
    card.get_by_label("show").select_option("loss")
    assert page.evaluate("fedcell.parts.scores.chart().getOption().yAxis[0].name") == "test loss"

    page.locator("canvas.schedule").hover(position={"x": 60, "y": 4})
    assert page.get_by_text("device 0, round 1:").count() == 1
    page.get_by_label("sorted by").select_option("delivered")
    page.get_by_label("shade").select_option("delivered")
    page.get_by_role("button", name="dark").click()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert colours(page, ".chart canvas") > 5


def test_pages_show_the_metric_of_a_task(visit, site, tmp_path):
    settings = {"rounds": 3, "world.n_devices": 3, "train.steps": 2}
    (run,) = fedcell.run("fedavg", "diabetes", settings, out=tmp_path / "runs" / "one")
    page = visit(write(tmp_path / "runs", tmp_path / "report.html").as_uri())
    assert page.evaluate("fedcell.parts.scores.chart().getOption().yAxis[0].name") == "test RMSE"
    text = page.locator("main").inner_text()
    assert "best, final: test RMSE (less is better)." in text
    assert "achieve, in RMSE, seconds and joules?" in text
    assert f"{run.columns['rmse'].min():.3g}" in text
    board = visit(site(tmp_path / "runs").address)
    assert "3 of 3, RMSE " in board.locator("li.run .where").first.inner_text()


def test_the_report_of_hostile_texts_runs_none_of_them(visit, runs):
    for name in ("run.json", "status.json"):
        path = runs / "seed1" / "fedavg" / name
        values = json.loads(path.read_text()) | {"label": EVIL, "message": EVIL}
        path.write_text(json.dumps(values))
    page = visit(write(runs, title=EVIL).as_uri())
    assert page.locator("h1").inner_text() == EVIL
    assert EVIL in series(page)
    page.locator(".chart canvas").first.hover(position={"x": 300, "y": 150})
    assert page.locator("#page img").count() == 0
    assert page.evaluate("window.hit") is None


@pytest.fixture
def failed(runs, monkeypatch):
    """`runs` and a comparison in which one method failed."""
    monkeypatch.chdir(runs)
    (runs / "broken.py").write_text(
        "from fedcell.methods.fedavg import Config, build as plain\n"
        "def misplan(*_):\n    return 1 / 0\n"
        "def build(config):\n    return plain(config)._replace(decide=misplan)\n"
    )
    assert main(["run", "broken.py", "fedavg", "--rounds", "3", "--quiet", "--out", "tried", *SMALL]) == 1
    return runs


def test_the_report_says_why_a_run_failed_and_where(visit, failed):
    page = visit(write(failed).as_uri())
    ending = page.locator(".ending")
    assert ending.count() == 1
    assert "failed broken.py, seed 1, tried/" in ending.inner_text().replace("\n", " ")
    assert "after 0 of 3 rounds: ZeroDivisionError: division by zero" in ending.inner_text()
    ending.locator("summary").click()
    assert "in misplan" in ending.locator("pre").inner_text()


def test_the_report_fits_a_telephone(visit, failed):
    page = visit(write(failed).as_uri())
    page.set_viewport_size({"width": 375, "height": 700})
    for details in page.locator("details").all():
        details.evaluate("(node) => { node.open = true; }")
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert page.evaluate("document.documentElement.scrollWidth") == 375
    wide = "[...document.querySelectorAll('.card, .chart, canvas, h1, .notice, select')]"
    assert page.evaluate(f"{wide}.filter((one) => one.getBoundingClientRect().right > 375.5).length") == 0


@pytest.mark.parametrize(
    ("names", "short"),
    [
        (["fedavg", "fedprox:mu=1"], ["fedavg", "fedprox, mu=1"]),
        (["fedavg:scheduler=random,n=5,lr=0.1", "fedavg:scheduler=random,n=5,lr=0.2"], ["lr=0.1", "lr=0.2"]),
        (["fedavg, world.radius_m=200", "fedavg, world.radius_m=400"], ["world.radius_m=200", "world.radius_m=400"]),
        (["fedavg:lr=1", "fedprox:lr=1"], ["fedavg", "fedprox"]),
        (["fedavg", "fedavg:lr=1"], ["fedavg", "fedavg, lr=1"]),
        (["fedavg:lr=1"], ["fedavg, lr=1"]),
        (["a: b", "a: c"], ["b", "c"]),
    ],
)
def test_bars_name_what_differs(visit, recorded, tmp_path, names, short):
    page = visit(write(recorded, tmp_path / "report.html").as_uri())
    found = page.evaluate("(names) => fedcell.shortNames(names.map((name) => ({ name })))", names)
    assert found == short


# ---------------------------------------------------------------- the dashboard


def test_an_empty_dashboard_says_what_to_type_until_there_is_a_run(visit, site, recorded, tmp_path):
    place = tmp_path / "new"
    place.mkdir()
    page = visit(site(place).address)
    page.get_by_text("There is no run in this folder yet.").wait_for()
    assert page.get_by_text("fedcell run fedavg fedprox --rounds 30").is_visible()
    shutil.copytree(recorded / "seed1", place / "seed1")
    page.locator("li.run").first.wait_for()
    wait_until(page, "fedcell.view.runs.length === 2")
    assert not page.get_by_text("There is no run in this folder yet.").is_visible()


def test_the_dashboard_says_why_a_run_failed(visit, site, failed):
    page = visit(site(failed).address)
    page.get_by_role("button", name="pick all shown").wait_for()
    page.locator("li.run .where", has_text="ZeroDivisionError: division by zero").wait_for()
    page.get_by_role("button", name="pick all shown").click()
    page.get_by_text("after 0 of 3 rounds: ZeroDivisionError").wait_for()


@contextmanager
def process(*arguments):
    """A fedcell command in the background."""
    command = [sys.executable, "-m", "fedcell", *arguments]
    started = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield started
    finally:
        started.kill()
        started.communicate()


def test_a_live_run_is_followed_and_stopped(visit, site, runs):
    small = ["--set", "world.n_devices=5", "--set", "model.name=logistic", "--set", "train.steps=1"]
    with process("run", "fedavg", "--rounds", "1000000", "--quiet", "--out", str(runs / "live"), *small) as running:
        page = visit(site(runs).address)
        assert "token" not in page.url
        row = page.locator('li.run[data-run="live/fedavg"]')
        row.locator(".state", has_text="running").wait_for()
        row.locator("input").set_checked(True)
        length = "fedcell.view.runs.find((run) => run.id === 'live/fedavg')?.totals.rounds ?? 0"
        wait_until(page, f"{length} > 0")
        before = page.evaluate(length)
        wait_until(page, f"{length} > {before}")
        wait_until(page, "fedcell.parts.scores.chart()?.getOption().series.length > 0")
        assert colours(page, "canvas.schedule") > 1

        page.get_by_label("state").select_option("running")
        assert page.locator("li.run").count() == 1
        stop = row.get_by_role("button")
        stop.click()
        assert stop.inner_text() == "really stop?"
        stop.click()
        page.get_by_text("was asked to stop").wait_for()
        _, err = running.communicate(timeout=60)
        assert running.returncode == 130
        assert "fedcell run --resume" in err
        page.get_by_label("state").select_option("interrupted")
        row.locator(".state", has_text="interrupted").wait_for()
    assert read(runs / "live" / "fedavg").status.message == "stopped by the user"


def test_fifty_runs_are_shown_and_picked(visit, site, recorded, tmp_path, record_property):
    runs = tmp_path / "many"
    for number in range(13):  # of four runs each
        shutil.copytree(recorded, runs / f"copy{number}")
    lengthen(runs)
    page = visit(site(runs).address)
    page.locator("li.run").nth(51).wait_for()
    page.get_by_role("button", name="pick all shown").click()
    wait_until(page, "fedcell.view.runs.length === 52")
    wait_until(page, "fedcell.parts.scores.chart()?.getOption().series.length > 0")
    curves = page.locator("section.card", has=page.get_by_role("heading", name="Curves"))
    took = {
        "every run": timed(page, lambda: curves.get_by_label("seeds").select_option("each")),
        "axis": timed(page, lambda: curves.get_by_label("over").select_option("joule")),
        "method": timed(page, lambda: curves.get_by_role("button", name="fedavg").click()),
        "filter": timed(page, lambda: page.get_by_label("filter").fill("copy7 fedprox")),
    }
    assert page.locator("li.run").count() == 2
    page.get_by_role("button", name="pick none").click()
    page.get_by_text("Pick runs on the left.").wait_for()
    record_property("seconds", took)


def lengthen(runs):
    """Give every run 1000 rounds."""
    for path in runs.rglob("rounds.jsonl"):
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        lines = [
            json.dumps(rows[n % len(rows)] | {"round": n, "clock_s": n + 1.0}, separators=(",", ":"))
            for n in range(1000)
        ]
        path.write_text("\n".join(lines) + "\n")
        status = json.loads((path.parent / "status.json").read_text())
        del status["rows"]  # the checksum of those before
        (path.parent / "status.json").write_text(json.dumps(status))


def timed(page, act):
    """Seconds until an action is done and the browser has painted twice."""
    begun = time.monotonic()
    act()
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    return time.monotonic() - begun


def test_without_the_token_nothing_can_be_stopped(visit, site, recorded):
    page = visit(site(recorded).address.partition("#")[0])
    page.get_by_text("To stop runs from here").wait_for()
    page.locator("li.run").first.wait_for()
    assert page.locator("li.run button:visible").count() == 0


def test_rows_added_bit_by_bit_are_those_read_at_once(visit, site, recorded, tmp_path):
    page = visit(site(recorded).address)
    (line,) = (recorded / "seed1" / "fedavg" / "rounds.jsonl").read_text().splitlines()[:1]
    row, journal = json.loads(line), tmp_path / "rounds.jsonl"
    reader = Follower(tmp_path, total=300, eval_every=4, n_devices=5, points=20, letters=60)
    page.evaluate("run = { total: 300, rows: null }; 0")
    done = 0
    for until in (1, 2, 30, 33, 100, 260, 300):
        with journal.open("a") as file:
            for n in range(done, until):
                metrics = {"accuracy": n / 300} if (n + 1) % 4 == 0 else {}
                file.write(json.dumps(row | {"round": n, "metrics": metrics}) + "\n")
        reader.read()
        page.evaluate(
            "(rows) => { if (run.rows) fedcell.append(run, rows); else run.rows = rows; }", reader.columns(done)
        )
        done = until
        assert page.evaluate("run.rows.done") == reader.columns()["done"]
        assert page.evaluate("run.rows.letters") == reader.columns()["letters"]
        assert page.evaluate("run.rows.compute_joule") == reader.columns()["compute_joule"]
    assert page.evaluate("run.rows.metrics.accuracy") == reader.columns()["metrics"]["accuracy"]
