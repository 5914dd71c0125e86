"""Reports of a verdict: terminal, Markdown, JSON, JUnit, HTML."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import pytest

from mlu_backend.parity import formats, html, plots, report
from mlu_backend.parity.editmap import EditMap
from mlu_backend.parity.findings import Category, Difference, LossRow, Status, Verdict, not_judged
from mlu_backend.parity.locate import edits_of
from mlu_backend.parity.metrics import Error
from mlu_backend.parity.tolerance import find

NASTY = '</pre><script>alert("x")</script>|\x00 & ünïcode'


def mismatch() -> Verdict:
    first = Difference(
        Category.NUMBERS,
        f"Net.attn {NASTY}",
        "norm 3.1",
        "norm 3.2",
        path="Net.attn",
        step=2,
        site=("model.py", 31, "forward"),
        source=("model.py", 20, 40),
        inputs=Error(0.0, 0.0),
        outputs=Error(1e-2, 3e-2),
        limit=find("exact", "composite", "float32"),
        kind="call",
        type="model.Attention",
        edits=[
            {
                "code": "MLU401",
                "name": "x",
                "path": "model.py",
                "line": 31,
                "where": "on this line",
                "before": "a",
                "after": "b",
            }
        ],
    )
    first.operator = {
        "name": "aten::bmm",
        "site": ("model.py", 33, "forward"),
        "inputs": {"mean": 0.0, "single": 0.0},
        "outputs": {"mean": 1e-2, "single": 2e-2},
        "truth": {"reference": {"mean": 1e-8, "single": 1e-8}, "candidate": {"mean": 1e-2, "single": 2e-2}},
    }
    more = [
        Difference(Category.NUMBERS, f"thing {i}", "1", "2", step=3, outputs=Error(0.1, float("inf")))
        for i in range(30)
    ]
    rows = [
        {
            "path": "a.py",
            "line": i,
            "code": "MLU201",
            "name": "n",
            "function": "f",
            "traceable": True,
            "exercised": i > 1,
        }
        for i in range(5)
    ]
    return Verdict(
        Status.MISMATCH,
        differences=[first, *more],
        total_differences=31,
        first=first,
        notes=["a note"],
        compared=100,
        equal=60,
        within=9,
        losses=[LossRow(i, 1.0 / (i + 1), 1.01 / (i + 1), 0.01) for i in range(4)],
        calls=50,
        steps=4,
        ranks=1,
        layers={"Net.attn": {0: 0.0, 1: 1e-8, 2: 1e-2}, NASTY: {0: 0.5}},
        first_step="first-step loss differs by 1.0e-02 (beyond 2e-05)",
        worst=[
            {
                "what": NASTY,
                "path": "p",
                "step": 1,
                "rank": 0,
                "mean": 0.1,
                "single": float("inf"),
                "inputs": 0.0,
                "limit": 0.0,
                "over": 1e9,
            }
        ],
        coverage={
            "edits": 5,
            "exercised": 3,
            "not_traceable": 1,
            "list": rows,
            "proven": [{"path": "c.py", "line": 3, "code": "MLU203"}],
        },
        runs=[{"name": "reference", "seconds": 1.5, "status": 0}],
    )


def test_the_verdict_is_the_first_line_and_lines_fit_eighty_columns() -> None:
    text = report.terminal(mismatch(), 80)
    lines = text.splitlines()
    assert lines[0] == "PARITY: mismatch"
    assert max(map(len, lines)) <= 80


def test_the_terminal_names_place_operator_errors_and_the_last_edit() -> None:
    text = " ".join(report.terminal(mismatch()).split())
    for words in (
        "model.py:31 in forward",
        "aten::bmm",
        "inputs 0.0e+00 mean",
        "outputs 1.0e-02 mean",
        "the last edit on this line was MLU401 (a -> b)",
        "3 of 5 edits ran; 2 were not reached",
        "Not reached (lines of the original): a.py: f: line 0 MLU201, line 1 MLU201",
        "30 more differences",
        "--evidence",
        "float64 reference is 1.0e-08 from it, candidate 1.0e-02",
    ):
        assert words in text, words


def test_a_match_says_so_and_that_edits_matched() -> None:
    v = Verdict(
        Status.MATCH, compared=7, equal=7, coverage={"edits": 3, "exercised": 2, "not_traceable": 0, "list": []}
    )
    assert report.terminal(v).splitlines()[0] == "PARITY: match, bit for bit"
    assert "2 of 3 edits ran and matched; 1 was not reached" in report.terminal(v)


def reported(v: Verdict) -> list[str]:
    return [" ".join(text.split()) for text in (report.terminal(v), report.markdown(v), html.fragment(v))]


def test_every_report_names_what_the_migration_left_and_this_run_went_through() -> None:
    v = mismatch()
    assert v.coverage is not None
    v.coverage["left"] = [{"code": "MLU903", "path": "gpu.py", "source": 38, "message": "the capability decides"}]
    for text in reported(v):
        assert "MLU903 gpu.py:38 the capability decides" in text and "decide first on what the migration left" in text
    assert "1 finding left for you by the migration, which this run went through:" in reported(v)[0]
    v.status = Status.MATCH
    assert "which this run went through without a difference:" in reported(v)[0]
    assert not any("decide first" in text for text in reported(v))


def test_figures_do_not_contradict_each_other() -> None:
    v = mismatch()
    assert report.differences_line(v) == "31 differences: 31 of numbers"
    v.total_differences, v.totals = 900, {Category.NUMBERS: 890, Category.STRUCTURE: 10}
    assert report.differences_line(v) == (
        "900 differences: 10 of structure, 890 of numbers, where the structure does not differ"
    )
    assert report.figures(Verdict(Status.MISMATCH)) == "no tensor was compared"
    v = Verdict(Status.MATCH, compared=2, equal=2)
    assert report.figures(v).startswith("2 tensors compared, all equal bit for bit (")
    v = mismatch()
    v.differences, v.total_differences = v.differences[:2], 2
    assert "\n1 more difference:\n" in report.terminal(v)


def test_lines_of_edits_that_were_not_reached_are_those_of_the_original() -> None:
    v = mismatch()
    assert v.coverage is not None
    v.coverage["list"] = [{**row, "source": row["line"] + 100} for row in v.coverage["list"]]
    assert all("a.py: f: line 100 MLU201, line 101 MLU201" in text for text in reported(v))


def test_a_match_that_left_edits_out_says_what_to_do_next() -> None:
    v = Verdict(Status.MATCH, compared=1, equal=1, coverage=mismatch().coverage)
    assert all("compare commands that call these places too" in text for text in reported(v))
    assert all("1 guess of the migration was seen reaching a device" in text for text in reported(v))


def test_output_of_a_program_keeps_its_indent_and_no_line_ends_in_a_space() -> None:
    v = not_judged("x")
    v.notes = ["it ended with:", "    Traceback:", "      File 'a.py'", "and a long note " * 12]
    text = report.terminal(v)
    assert "\n      Traceback:\n        File 'a.py'\n" in text and not any(t.endswith(" ") for t in text.splitlines())
    assert "\n````\nTraceback:\n  File 'a.py'\n````\n" in report.markdown(v)


def test_not_judged_gives_the_reason_and_no_figures() -> None:
    text = report.terminal(not_judged("nothing was recorded"))
    assert text == "PARITY NOT JUDGED\n  nothing was recorded\n"


def test_exit_statuses() -> None:
    assert [s.exit_code for s in (Status.MATCH, Status.MISMATCH, Status.NOT_JUDGED)] == [0, 1, 2]


def test_markdown_escapes_what_would_break_its_tables() -> None:
    text = report.markdown(mismatch())
    rows = [line for line in text.splitlines() if line.startswith("| ") and "thing 3" in line]
    assert rows and "<script>" not in text.split("## Differences")[1]
    assert text.splitlines()[0] == "# PARITY: mismatch" and "## Worst ten" in text and "## Loss" in text


@pytest.mark.parametrize(
    ("text", "markdown"),
    [
        ("Net.__init__: line 3", "Net.\\_\\_init\\_\\_: line 3"),
        ("gpu_info.py: `torch.cuda.is_available` is a <b>", "gpu_info.py: `torch.cuda.is_available` is a &lt;b>"),
        ("a*b | c\nd", "a\\*b \\| c d"),
        ("one ` alone", "one \\` alone"),
    ],
)
def test_markdown_shows_text_as_it_is_written(text: str, markdown: str) -> None:
    assert report._md(text) == markdown


def test_json_is_strict_and_feeds_evidence() -> None:
    data = json.loads(formats.to_json([mismatch()]), parse_constant=lambda name: pytest.fail(name))
    assert data["version"] == 1 and data["status"] == "mismatch" and data["first_divergence"]["line"] == 31
    assert data["device_strings"] == [{"path": "c.py", "line": 3, "code": "MLU203"}]
    both = json.loads(formats.to_json([mismatch(), mismatch()]))
    assert len(both["entries"]) == 2 and len(both["device_strings"]) == 2


def test_junit_is_well_formed_and_has_the_right_kind_of_case() -> None:
    root = ET.fromstring(formats.junit([mismatch(), not_judged("why"), Verdict(Status.MATCH, title="train")]))
    suite = root.find("testsuite")
    assert suite is not None and suite.attrib == {
        "name": "mlu-migrate parity",
        "tests": "3",
        "failures": "1",
        "errors": "1",
        "time": "1.50",
        "skipped": "0",
    }
    assert [case[0].tag for case in suite] == ["failure", "error", "system-out"]
    assert suite[2].attrib["name"] == "train" and suite[1][0].attrib["message"] == "not judged: why"


class Tags(HTMLParser):
    """Open tags, to see that every one is closed and none came from a name."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.all: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.all.append(tag)
        assert not any(name.startswith("on") for name, _ in attrs)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.all.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_html_section_is_balanced_and_escapes_names() -> None:
    tags = Tags()
    text = html.fragment(mismatch())
    tags.feed(text)
    assert tags.open == [] and "script" not in tags.all
    assert tags.all.count("svg") == 2 and "Edit coverage" in text and "Worst ten" in text


def test_plots_are_well_formed_and_described() -> None:
    v = mismatch()
    v.layers = {f"Net.layer{i}": {s: 10.0**-s for s in range(100)} for i in range(80)}
    for svg in (plots.layer_plot(v.layers), plots.loss_plot(v.losses)):
        root = ET.fromstring(svg)
        assert root.find("title") is not None and root.find("desc") is not None
    assert plots.layer_plot({}) == "" and plots.loss_plot(v.losses[:1]) == ""


def words_of(svg: str) -> list[str]:
    return [e.text or "" for e in ET.fromstring(svg).iter("text")]


def test_words_of_the_layer_plot_fit_its_width() -> None:
    for layers in (
        {"A": {0: 0.1}},
        {f"Net.layers.{i}.{'long' * 30}": dict.fromkeys(range(200), 0.1) for i in range(80)},
    ):
        svg = ET.fromstring(plots.layer_plot(layers))
        for text in svg.iter("text"):
            x, length = float(text.attrib["x"]), len(text.text or "") * 6.02
            start = {"start": x, "end": x - length, "middle": x - length / 2}[text.attrib["text-anchor"]]
            assert start >= 0 and start + length <= float(svg.attrib["width"]), text.text


def test_long_names_of_layers_stay_apart() -> None:
    layers = {f"Model.encoder.layers.{i}.attention.{'projection' * 6}": {0: 0.1} for i in range(20)}
    names = [w for w in words_of(plots.layer_plot(layers)) if w.startswith("Model")]
    assert len(set(names)) == 20


def test_a_column_of_several_steps_shows_its_largest_error() -> None:
    layers = {"Net": dict.fromkeys(range(200), 1e-08)}
    layers["Net"][57] = 1.0
    svg = plots.layer_plot(layers, ("Net", 57))
    assert "Net, steps 56 to 59: 1.0e+00" in svg and 'stroke="currentColor"' in svg
    assert "1 module by 200 steps; a column is 4 steps and shows the largest error" in words_of(svg)


def test_the_loss_plot_shows_how_far_curves_are_apart_that_look_the_same() -> None:
    rows = [LossRow(i, 1.0 / (i + 1), 1.0 / (i + 1), 1e-6 * i) for i in range(4)]
    words = words_of(plots.loss_plot(rows, 2e-5))
    assert "relative difference (no point: equal); dotted: limit 2e-05" in words
    equal = [LossRow(i, 1.0, 1.0, 0.0) for i in range(4)] + [LossRow(4, float("inf"), float("inf"), 0.0)]
    assert "backward pass; the losses of both are equal; 1 with inf or nan left out" in words_of(plots.loss_plot(equal))


def test_a_darker_cell_is_a_larger_error() -> None:
    shades = [plots._shade(e) for e in (0.0, 1e-12, 1e-6, 1e-3, 1.0, 10.0)]
    assert shades == sorted(shades) and shades[0] == 0.0 and shades[-1] == 1.0


EDITS = EditMap(
    {
        "model.py": [
            {"code": c, "lines": [n, n], "source": [n, n], "applied": True, "before": "a", "after": "b"}
            for c, n in (("MLU201", 12), ("MLU203", 12), ("MLU401", 30), ("MLU101", 90))
        ]
    }
)


@pytest.mark.parametrize(
    ("site", "source", "codes", "where"),
    [
        (("model.py", 12, "f"), None, ["MLU203", "MLU201"], "on this line"),
        (("model.py", 11, "f"), ("model.py", 25, 40), ["MLU401"], "in this function"),
        (("model.py", 85, "f"), None, ["MLU101"], "near this line"),
        (("model.py", 60, "f"), None, [], ""),
        (None, None, [], ""),
    ],
)
def test_the_edits_behind_a_difference(site: object, source: object, codes: list[str], where: str) -> None:
    found = edits_of(Difference(Category.NUMBERS, "x", site=site, source=source), EDITS)  # type: ignore[arg-type]
    assert [e["code"] for e in found] == codes and all(e["where"] == where for e in found)
