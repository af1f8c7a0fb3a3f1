"""Make the pictures of the documents again: `python tools/make_pictures.py`, with fedloom, selenium and Chromium installed.

Every picture of docs/pictures that shows a result comes from here: those of the gallery are drawn by their scripts in examples/,
four are figures of the demo's runs, two are parts of its report as a browser shows them, one is the map of the city's plan.
The drawings of machines and messages (SVG) are drawn by hand.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
PICTURES = ROOT / "docs" / "pictures"
FIGURES = ("map-hhfl", "labels-hhfl", "timeline-hhfl", "cost-energy_j")  # of `fedloom report --figures`
PARTS = {"report-answers": "#answers", "report-timeline": "#timeline .card"}  # of the report's page
CHOOSE = """const list = document.getElementById(arguments[0]);
list.value = [...list.options].find((option) => option.text === arguments[1]).value;
list.dispatchEvent(new Event("change"));"""
WIDTH = 1040


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for script in sorted((ROOT / "examples").glob("*.py")):
            if (PICTURES / f"{script.stem}.png").exists():
                call(sys.executable, str(script), str(PICTURES / f"{script.stem}.png"), folder=folder)
        fedloom("demo", "--quiet", "--out", "demo", folder=folder)
        fedloom("report", "demo", "--out", "report.html", "--figures", "figures", folder=folder)
        for figure in FIGURES:
            shutil.copy(folder / "figures" / f"{figure}.png", PICTURES)
        photograph(folder / "demo" / "report.html")
        city = str(ROOT / "examples" / "city-fleet.csv")
        fedloom("plan", city, "--model", "lenet5", "--out", "plan", folder=folder)
        shutil.copy(folder / "plan" / "map.png", PICTURES / "plan-map.png")


def fedloom(*arguments: str, folder: Path) -> None:
    call(sys.executable, "-m", "fedloom", *arguments, folder=folder)


def call(*command: str, folder: Path) -> None:
    print(" ".join(command), flush=True)
    subprocess.run(command, check=True, cwd=folder)


def photograph(report: Path) -> None:
    """The parts of a report's page, in light colours."""
    from selenium import webdriver
    from selenium.webdriver.support.ui import WebDriverWait

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or "chromium"
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--hide-scrollbars"):
        options.add_argument(argument)
    service = webdriver.ChromeService(shutil.which("chromedriver"))
    driver = webdriver.Chrome(options=options, service=service)
    try:
        size = {"width": WIDTH, "height": 1400, "deviceScaleFactor": 1, "mobile": False}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        light = {"features": [{"name": "prefers-color-scheme", "value": "light"}]}
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", light)
        driver.get(report.resolve().as_uri())
        drawn = (
            "return document.documentElement.dataset.ready === 'yes' && document.querySelector('#timeline .main-svg')"
        )
        WebDriverWait(driver, 120).until(lambda d: d.execute_script(drawn))
        driver.execute_script(CHOOSE, "timeline-method", "hhfl")
        for name, selector in PARTS.items():
            driver.find_element("css selector", selector).screenshot(str(PICTURES / f"{name}.png"))
    finally:
        driver.quit()


if __name__ == "__main__":
    main()
