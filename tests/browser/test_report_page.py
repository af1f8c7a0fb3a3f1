"""The report in a real browser: nothing fails, nothing is fetched, and what can be pressed does what it says."""

import base64
import csv
import io
import json
import shutil
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
INSTALL = "apt-get install -y --no-install-recommends chromium chromium-driver"


class Page:
    """A page in the browser, what it asked the network for, and what it complained about."""

    def __init__(self, driver, downloads: Path) -> None:
        self.driver, self.downloads = driver, downloads

    def open(self, path: Path, width: int = 1200, height: int = 900, scheme: str = "light") -> None:
        """Load a file and wait until its figures can be drawn."""
        self.resize(width, height)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        self.driver.get_log("performance"), self.driver.get_log("browser")  # what was before
        self.driver.get(path.resolve().as_uri())
        self.wait("return document.documentElement.dataset.ready === 'yes'")

    def resize(self, width: int, height: int) -> None:
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

    def run(self, script: str, *arguments):
        return self.driver.execute_script(script, *arguments)

    def wait(self, script: str, seconds: float = 90.0):
        """Wait until the script gives something true; returns it."""
        from selenium.webdriver.support.ui import WebDriverWait

        return WebDriverWait(self.driver, seconds).until(lambda driver: driver.execute_script(script))

    def show(self, name: str) -> None:
        """Scroll to a figure and wait until it is drawn."""
        self.run("document.getElementById(arguments[0]).scrollIntoView({block: 'center'})", name)
        self.wait(
            f"const f = document.getElementById('{name}'); return f.data && f.querySelector('.main-svg') !== null"
        )

    def click(self, selector: str) -> None:
        self.run("document.querySelector(arguments[0]).click()", selector)

    def requests(self) -> list[str]:
        """Addresses outside the file itself."""
        found = []
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] in ("Network.requestWillBeSent", "Network.webSocketCreated"):
                found.append(message["params"].get("request", message["params"])["url"])
        return [url for url in found if not url.startswith(("file:", "data:", "blob:"))]

    def complaints(self) -> list[str]:
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def downloaded(self, name: str) -> bytes:
        """The content of a file that is being downloaded."""
        from selenium.webdriver.support.ui import WebDriverWait

        path = self.downloads / name
        WebDriverWait(self.driver, 60).until(lambda _: path.exists() and path.stat().st_size > 0)
        content = path.read_bytes()
        path.unlink()
        return content


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """One browser for all tests."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    chromium, driver_path = shutil.which("chromium"), shutil.which("chromedriver")
    if not chromium or not driver_path:
        pytest.skip(f"there is no Chromium with its driver, and make could not install it: {INSTALL}")
    downloads = tmp_path_factory.mktemp("downloads")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--hide-scrollbars"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(driver_path))
    driver.set_page_load_timeout(120)
    driver.execute_cdp_cmd("Network.enable", {})
    driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(downloads)})
    yield Page(driver, downloads)
    driver.quit()


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """The report of two methods and three seeds on a small fleet that moves."""
    from fedloom.record.folder import record
    from fedloom.record.report import write_report
    from fedloom.record.runs import find_runs
    from fedloom.simulator import Simulation, make_method, scenario

    folder = tmp_path_factory.mktemp("runs")
    settings = {
        "name": "moving",
        "fleet": {
            "n_devices": 6,
            "cells": {"kind": "grid", "shape": "line", "n": 2, "spacing_m": 100, "radius_m": 80},
            "placement": {"kind": "cells"},
            "compute": {"law": {"kind": "uniform", "low": 0.1, "high": 0.4}, "power_w": 1.0},
            "mobility": {"p_stay": 0.5, "neighbours": "complete"},
        },
        "task": {
            "dataset": "gaussian",
            "gaussian": {"n_classes": 4, "n_features": 8, "n_train": 240, "n_test": 80},
            "partition": {"kind": "classes", "classes_per_client": 2},
            "model": {"kind": "mlp", "hidden": [8]},
        },
        "training": {"batch_size": 8, "local_steps": 2, "edge_rounds": 2, "cloud_rounds": 4, "lr": 0.1},
    }
    for method in ("hierfedavg", "hhfl"):
        for seed in range(3):
            simulation = Simulation(scenario(settings), make_method(method), seed, n_workers=1)
            record(simulation, method, folder / f"{method}-{seed}")
    return write_report(find_runs([folder]), folder / "report.html")


@pytest.fixture
def opened(page, report):
    page.open(report)
    return page


def title(page, figure: str, axis: str) -> str:
    return page.run(f"return document.getElementById('{figure}').layout.{axis}.title.text")


def test_it_loads_without_complaints_and_without_the_network(opened):
    for name in opened.run("return [...document.querySelectorAll('.figure')].map((f) => f.id)"):
        opened.show(name)
    assert opened.complaints() == []
    assert opened.requests() == []


NOT_DRAWN = """return [...document.querySelectorAll('.figure')].filter((f) =>
    !f.querySelector('.main-svg .trace, .main-svg .barlayer path, .main-svg .heatmaplayer image, .main-svg .scatterlayer path'))
    .map((f) => f.id)"""


def test_every_figure_is_drawn_without_scrolling(opened):
    opened.wait("return document.documentElement.dataset.drawn === 'all'")
    assert opened.run("return scrollY") == 0 and opened.run(NOT_DRAWN) == []


def test_a_picture_of_the_whole_page_shows_every_figure(opened):
    from PIL import Image

    opened.wait("return document.documentElement.dataset.drawn === 'all'")
    width, height = opened.run("return [document.documentElement.scrollWidth, document.documentElement.scrollHeight]")
    clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
    options = {"captureBeyondViewport": True, "clip": clip}
    shot = base64.b64decode(opened.driver.execute_cdp_cmd("Page.captureScreenshot", options)["data"])
    picture = Image.open(io.BytesIO(shot)).convert("RGB")
    boxes = opened.run(
        "return [...document.querySelectorAll('.figure')].map((f) => [f.id, f.getBoundingClientRect().toJSON()])"
    )
    assert len(boxes) >= 10
    for name, box in boxes:
        part = picture.crop((int(box["left"]), int(box["top"]), int(box["right"]), int(box["bottom"])))
        colours = part.getcolors(1_000_000)
        assert max(n for n, _ in colours) < 0.98 * part.width * part.height, f"{name} is blank"


PRINTED = """addEventListener('beforeprint', () => {
    const all = (selector) => [...document.querySelectorAll(selector)];
    window.printed = {
      blank: (() => { NOT_DRAWN })(),
      figures: all('.figure').map((f) => [f.id, f.clientWidth, f._fullLayout.width]),
      cut: all('table').filter((t) => t.checkVisibility() && t.scrollWidth > t.parentElement.clientWidth + 1).length,
      tables: all('table').filter((t) => t.checkVisibility()).length,
      width: document.body.clientWidth, ink: getComputedStyle(document.body).color,
      font: document.getElementById('curve').layout.font.color,
    };
  })""".replace("NOT_DRAWN", NOT_DRAWN)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_paper_every_figure_is_drawn_in_the_width_of_the_page_and_no_table_is_cut(page, report, scheme):
    page.open(report, scheme=scheme)
    page.run(PRINTED)
    paper = base64.b64decode(page.driver.execute_cdp_cmd("Page.printToPDF", {"printBackground": False})["data"])
    assert paper.startswith(b"%PDF") and paper.count(b"/Type /Page\n") >= 4
    found = page.run("return window.printed")
    assert found["blank"] == [] and found["cut"] == 0
    assert found["tables"] >= 4  # those that are folded up on the screen too
    assert found["width"] < 720 and all(abs(place - figure) <= 1 for _, place, figure in found["figures"])
    assert (found["ink"], found["font"]) == ("rgb(29, 36, 48)", "#1d2430")
    # the screen is as it was
    page.wait("return document.documentElement.dataset.paper === undefined")
    assert page.run("return document.getElementById('curve')._fullLayout.width") > 1000
    assert page.run("return document.querySelectorAll('details.print:not(.words)[open]').length") == 0
    assert page.run("return document.documentElement.dataset.theme") is None
    assert page.complaints() == []


def test_the_start_of_the_curves_can_be_shown(opened):
    opened.show("curve")
    low = "return document.getElementById('curve')._fullLayout.yaxis.range[0]"
    first = opened.run("return Math.min(...document.getElementById('curve').data.at(-1).y)")
    opened.click("#curves-whole")
    assert opened.run(low) <= first


def test_a_measure_is_explained_where_it_is_chosen(opened):
    opened.show("curve")
    opened.run(
        "const s = document.getElementById('curves-measure'); s.value = 'local_by_cluster';"
        "s.dispatchEvent(new Event('change'))"
    )
    words = opened.run("return document.getElementById('curves-words').textContent")
    assert words.startswith(
        "Own labels, cluster model: share of the test samples with a label that a client has itself"
    )


def test_switches_change_the_curves(opened):
    opened.show("curve")
    assert title(opened, "curve", "xaxis") == "local steps"
    first = opened.run("return document.getElementById('curve').data.at(-1).x")
    opened.click("#curves-x button[data-value='joules']")
    opened.wait("return document.getElementById('curve').layout.xaxis.title.text.startsWith('energy')")
    assert opened.run("return document.getElementById('curve').data.at(-1).x") != first
    assert title(opened, "curve", "yaxis") == "accuracy"
    opened.run(
        "const s = document.getElementById('curves-measure'); s.value = 'loss'; s.dispatchEvent(new Event('change'))"
    )
    assert title(opened, "curve", "yaxis") == "test loss"
    opened.click("button.chip[data-method='0']")
    hidden = opened.run("return document.getElementById('curve').data.filter((t) => t.visible === false).length")
    assert hidden == 2  # the line and the band


def test_hovering_shows_the_values(opened):
    opened.show("curve")
    text = opened.run("return document.getElementById('curve').data.at(-1).hovertext[1]")
    assert "<b>hierfedavg</b>" in text and "(3 seeds)" in text and " J · " in text and "±" in text


def test_the_slider_moves_the_map(opened):
    name = opened.run("return document.querySelector('input[data-for^=map]').dataset.for")
    opened.show(name)
    places = f"return document.getElementById('{name}').data.filter((t) => t.visible && t.name === 'device')[0].x"
    first = opened.run(places)
    opened.run(
        "const s = document.querySelector(`input[data-for='${arguments[0]}']`);"
        "s.value = s.max; s.dispatchEvent(new Event('input'))",
        name,
    )
    last = opened.run(places)
    assert first != last
    words = opened.run("return document.querySelector(`output[data-for='${arguments[0]}']`).textContent", name)
    assert words.startswith("from cloud round ") and words != "from cloud round 1"
    opened.click(f"button.play[data-for='{name}']")  # from the end: it starts again
    opened.wait(f"return document.querySelector(`output[data-for='{name}']`).textContent === 'from cloud round 1'")


def test_the_timeline_turns_to_another_round_and_method(opened):
    opened.show("timeline-plot")
    bars = "return document.getElementById('timeline-plot').data[1].base"
    first = opened.run(bars)
    heading = title(opened, "timeline-plot", "xaxis")
    opened.run(
        "const s = document.getElementById('timeline-round'); s.value = s.max; s.dispatchEvent(new Event('input'))"
    )
    assert title(opened, "timeline-plot", "xaxis") != heading and len(first) > 0
    opened.run(
        "const s = document.getElementById('timeline-method'); s.value = '1'; s.dispatchEvent(new Event('change'))"
    )
    assert opened.run("return document.getElementById('timeline-output').textContent") == "4"
    opened.show("utilisation")
    shares = opened.run("return document.getElementById('utilisation').data.map((t) => t.x[0])")
    assert 0 < sum(shares) <= 1 + 1e-9


def test_figures_and_their_data_can_be_saved(opened):
    opened.show("curve")
    opened.click("button[data-save='csv'][data-for='curve']")
    rows = list(csv.DictReader(io.StringIO(opened.downloaded("curve.csv").decode())))
    assert {row["method"] for row in rows} == {"hierfedavg", "hhfl"} and len(rows) >= 2 * 5
    assert {"local_steps", "time_s", "energy_j", "bytes", "accuracy_mean", "accuracy_half_95", "loss_mean"} <= set(
        rows[0]
    )
    assert all(0 <= float(row["accuracy_mean"]) <= 1 for row in rows)
    opened.click("button[data-save='csv'][data-for='map-0']")
    rows = list(csv.DictReader(io.StringIO(opened.downloaded("map-0.csv").decode())))
    assert {"device", "edge server"} <= {row["series"] for row in rows} and "<" not in rows[-1]["text"]
    opened.click("button[data-save='svg'][data-for='curve']")
    assert opened.downloaded("curve.svg").startswith(b"<svg")
    opened.click("button[data-save='png'][data-for='map-0']")
    assert opened.downloaded("map-0.png").startswith(b"\x89PNG")
    opened.click("button[data-scenario]")
    assert b"n_devices: 6" in opened.downloaded("scenario.yaml")


def test_a_phone_need_not_scroll_sideways(page, report):
    page.open(report, width=375, height=700)
    for name in page.run("return [...document.querySelectorAll('.figure')].map((f) => f.id)"):
        page.show(name)
    assert page.run("return document.documentElement.scrollWidth") <= 375
    assert page.run("return document.getElementById('curve').clientWidth") > 300


def test_dark_is_dark_and_can_be_switched(page, report):
    page.open(report, scheme="dark")
    page.show("curve")
    background = "return getComputedStyle(document.body).backgroundColor"
    assert page.run(background) == "rgb(18, 21, 27)"
    assert page.run("return document.getElementById('curve').layout.font.color") == "#e6e9ef"
    page.click("#theme")
    assert page.run(background) == "rgb(247, 248, 250)"
    page.wait("return document.getElementById('curve').layout.font.color === '#1d2430'")
