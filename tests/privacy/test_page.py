"""The table of the page is that of the results."""

import importlib.util
import json
from pathlib import Path

TOOL = Path(__file__).parents[2] / "tools" / "inversion_study.py"


def test_the_page_has_the_results_of_the_study():
    spec = importlib.util.spec_from_file_location("inversion_study", TOOL)
    study = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(study)
    text = study.PAGE.read_text()
    assert study.page(text, json.loads(study.RESULTS.read_text())) == text
