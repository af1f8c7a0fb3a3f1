"""Figures as plain data: what plotly's own classes would have written, without importing them."""

import copy
import json
import math
import subprocess
import sys

import plotly.graph_objects as go
import pytest
from plotly.offline import get_plotlyjs
from test_report import BOOKED, MOVING, WORK, data_of, write_run

from fedloom.record import report
from fedloom.record.figure import Figure, plotly_js, trace
from fedloom.record.runs import find_runs

KINDS = {
    "classes": {"booked": BOOKED, "work": WORK},
    "regression": {"measure": "rmse", "labels": [[], [], [], []], "booked": BOOKED},
    "moving": {"places": MOVING},
    "many": {"places": [(1, k, k % 70, "edge", k % 70, float(k), 0.0) for k in range(210)]},
}
NONE = {"data": {"scatter": [{"type": "scatter"}]}}  # plotly's template "none"


def pages(folder, kind):
    write_run(folder / "runs" / "a0", **KINDS[kind])
    if kind == "many":  # devices that the run's own list does not know
        content = json.loads((folder / "runs" / "a0" / "run.json").read_text())
        content["clients"] = {"n_samples": [10] * 210, "label_counts": [[1] * 10] * 210}
        (folder / "runs" / "a0" / "run.json").write_text(json.dumps(content))
    return report.write_report(find_runs([folder / "runs"]), folder / "r.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", KINDS)
def test_every_figure_of_a_report_goes_through_plotly_unchanged(kind, tmp_path):
    """plotly refuses names and values that it does not know, and fills in what it would have written itself."""
    drawn = data_of(pages(tmp_path, kind))["figures"]
    assert len(drawn) >= 5
    for name, figure in drawn.items():
        for axis in ("xaxis", "yaxis"):  # an empty title is none: plotly writes it, and leaves it out when it reads it
            if figure["layout"][axis].get("title") == {}:
                del figure["layout"][axis]["title"]
        assert json.loads(go.Figure(figure).to_json()) == figure, name


def test_a_figure_is_what_plotly_makes_of_the_same_words():
    def made(figure):
        figure.update_xaxes(title="x (m)", zeroline=False)
        figure.update_xaxes(range=[0, 1], title=None)
        figure.update_yaxes(title="y (m)")
        figure.add_bar(x=[1.0, math.nan], y=["a", "b"], name="bars", text=None)
        return json.loads(figure.to_json())

    entries = {"x": [0.5, None], "y": (1, 2), "marker": {"color": ["#000000"], "line": {"width": 2}}, "text": None}
    layout = {
        "height": 100,
        "template": NONE,
        "shapes": [{"type": "line", "x0": 1}],
        "xaxis": {"ticks": ""},
        "yaxis": {},
    }
    ours = made(Figure([trace("scatter", **entries)], layout))
    wanted = made(go.Figure([go.Scatter(**entries)], layout))
    assert ours == wanted


def test_pieces_are_attributes_too():
    figure = Figure([trace("bar", x=[1], marker={"line": {"width": 2}})], {"height": 50, "shapes": [{"x0": 3}]})
    assert figure.data[0].type == "bar" and figure.data[0].marker.line.width == 2 and figure.layout.shapes[0].x0 == 3
    assert figure.data[0].visible is None and copy.deepcopy(figure.data[0]) == figure.data[0]


def test_the_layout_given_is_not_changed():
    axis = {"ticks": ""}
    Figure(layout={"xaxis": axis, "yaxis": axis}).update_xaxes(title="x")
    assert axis == {"ticks": ""}


def test_the_javascript_is_that_of_the_package():
    assert plotly_js() == get_plotlyjs()


def test_a_report_is_written_without_plotly_and_scipy(tmp_path):
    write_run(tmp_path / "a0", booked=BOOKED, work=WORK)
    code = (
        "import sys; from fedloom.record.report import write_report; from fedloom.record.runs import read_run; "
        f"write_report([read_run({str(tmp_path / 'a0')!r})], {str(tmp_path / 'r.html')!r}); "
        "sys.exit(', '.join({'torch', 'plotly', 'scipy', 'matplotlib'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.stderr.strip() == ""
