"""The HTML report: what it holds, that nothing of the project becomes markup, and how it behaves in a real browser."""

from __future__ import annotations

import html.parser
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from sample_run import HOSTILE_PATH, sample_run

from mlu_migrate.messages import catalogue
from mlu_migrate.model import FileResult, FileStatus, RunResult, Safety
from mlu_migrate.report import flags
from mlu_migrate.report import html as report
from mlu_migrate.report.effort import estimate
from mlu_migrate.report.sidebyside import changes, hunks
from mlu_migrate.settings import Settings

RUN = sample_run()
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


class _Elements(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def _page(run: RunResult = RUN, lang: str = "en", **more: object) -> str:
    return report.render(run, Settings(), lang, **more)  # type: ignore[arg-type]


def _data(page: str) -> dict[str, list[list[object]]]:
    match = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert match
    return json.loads(match[1])  # type: ignore[no-any-return]


def test_nothing_of_the_project_becomes_markup() -> None:
    elements = _Elements()
    elements.feed(_page(support=[{"<b>": "<img src=x>"}]))
    tags = [tag for tag, _ in elements.tags]
    assert tags.count("script") == 2 and "img" not in tags and tags.count("b") == 0
    assert not [a for _, attributes in elements.tags for a in attributes if a.startswith("on")]


def test_the_page_asks_for_nothing_from_outside() -> None:
    elements = _Elements()
    page = _page()
    elements.feed(page)
    assert not [a for _, attributes in elements.tags for a in ("src", "srcset", "data", "action") if a in attributes]
    links = [a["href"] for tag, a in elements.tags if tag == "a"]
    assert links and all(str(link).startswith("#") for link in links)
    assert "url(" not in page and "@import" not in page
    policy = next(a["content"] for tag, a in elements.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy and policy.startswith("default-src 'none'")


def test_the_work_list_has_all_that_was_left_gravest_first() -> None:
    items = _data(_page())["items"]
    left = [f for f in RUN.findings if not f.applied]
    assert len(items) == len(left)
    order = ["error", "warning", "info"]
    ranks = [order.index(str(item[1])) for item in items]
    assert ranks == sorted(ranks)
    assert any("flash-attn" in str(item[5]) for item in items)


def test_a_change_stands_beside_its_reason() -> None:
    data = _data(_page())
    files = {str(file[0]): file[1] for file in data["files"]}
    assert len(files) == sum(f.status is FileStatus.CHANGED for f in RUN.files)
    rows = [row for hunk in files["pkg/train.py"] for row in hunk]  # type: ignore[attr-defined]
    (row,) = [row for row in rows if row[0] == 3]
    assert row[2:4] == ["x = torch.zeros(3).cuda()", "x = torch.zeros(3).mlu()"]
    assert str(data["reasons"][row[4][0]][0]).startswith("MLU201")
    (added,) = [row for row in rows if row[0] == 0]
    assert "import torch_mlu" in added[3] and str(data["reasons"][added[4][0]][0]).startswith("MLU001")


def test_directions_and_control_characters_are_shown_as_what_they_are() -> None:
    page = _page()
    assert "\u202e" not in page and HOSTILE_PATH not in page
    assert "\\\\u202e" in page or "\\u202e" in page


def test_failed_and_skipped_files_are_listed_with_their_reason() -> None:
    page = _page()
    assert "line 3: invalid syntax &amp; &lt;more&gt;" in page and "a link" in page


def test_support_table_and_parity_are_there_when_given() -> None:
    assert 'id="support"' not in _page() and 'id="parity"' not in _page()
    page = _page(support=[{"operator": "aten::add", "state": "ok"}], parity="<p>equal</p>")
    assert "<td>aten::add</td>" in page and "<p>equal</p>" in page


def test_the_page_speaks_chinese() -> None:
    page = _page(lang="zh")
    assert '<html lang="zh-CN">' in page and "迁移报告" in page and "Work list" not in page


def test_both_languages_have_the_same_words() -> None:
    for name in ("html", "review"):
        english, chinese = catalogue("en", name), catalogue("zh", name)
        assert set(english) == set(chinese) and all(english.values()) and all(chinese.values())
        for key, text in english.items():
            assert set(re.findall(r"{(\w+)}", text)) == set(re.findall(r"{(\w+)}", chinese[key])), key


def test_the_effort_grows_less_for_more_of_the_same() -> None:
    one = replace(RUN, files=(replace(RUN.files[3], findings=RUN.files[3].findings[:3]),))
    more = replace(RUN, files=(RUN.files[3],))
    assert 0 < estimate(one).total < estimate(more).total < 2 * estimate(one).total


def test_a_project_of_three_thousand_files_stays_small() -> None:
    files = [file for file in RUN.files if file.findings]
    copies = [
        replace(f, path=f"copy{n}/{f.path}", findings=tuple(x.with_(path=f"copy{n}/{f.path}") for x in f.findings))
        for n in range(3000 // len(files))
        for f in files
    ]
    page = _page(RunResult(tuple(copies)))
    assert len(_data(page)["files"]) + sum(f.status is not FileStatus.CHANGED for f in copies) == 3000
    assert len(page.encode()) < 20_000_000


def test_endless_lines_are_cut() -> None:
    source = b"x = '" + b"a" * 100_000 + b"'; y.cuda()\n"
    file = FileResult("a.py", FileStatus.CHANGED, source=source, output=source.replace(b"cuda", b"mlu"))
    assert len(_page(RunResult((file,)))) < 60_000


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("a b c d e", "a b x c d e"),
        ("a b c d e", "a x c y e"),
        ("a b", "a b c"),
        ("a b c", "c"),
        ("", "a"),
        ("a a a b a a", "a a a c b a a"),
        ("a", "a"),
    ],
)
def test_the_stretches_that_differ_lead_from_old_to_new(old: str, new: str) -> None:
    one, other = old.split(), new.split()
    out: list[str] = []
    position = 0
    for i1, i2, j1, j2 in changes(one, other):
        assert one[i1:i2] != other[j1:j2]
        out += [*one[position:i1], *other[j1:j2]]
        position = i2
    assert [*out, *one[position:]] == other


def test_hunks_number_both_sides() -> None:
    source = b"".join(b"line %d\n" % n for n in range(1, 21)).replace(b"line 10", b"cuda 10")
    output = source.replace(b"cuda 10", b"mlu 10\nadded")
    file = FileResult("a", FileStatus.CHANGED, source=source, output=output)
    (hunk,) = hunks(file)
    assert [(r.old_number, r.new_number) for r in hunk] == [(8, 8), (9, 9), (10, 10), (None, 11), (11, 12), (12, 13)]


SCRIPT = """
const lines = [];
const say = (text) => lines.push(text);
const box = document.getElementById("f-text");
const type = (node, value) => { node.value = value; node.dispatchEvent(new Event("input")); };
const texts = () => [...document.querySelectorAll("#items li")].map((li) => li.textContent).join(" ");
say("items " + document.querySelectorAll("#items li").length);
type(box, "flash-attn");
say("found " + document.querySelectorAll("#items li").length + " " + texts().includes("flash-attn"));
type(box, "");
type(document.getElementById("f-severity"), "error");
say("errors " + [...document.querySelectorAll("#items li")].every((li) => li.className === "error"));
document.getElementById("filters").reset();
const file = document.querySelector("#files details");
file.draw();
say("rows " + (file.querySelectorAll(".diff tr").length > 2));
document.dispatchEvent(new KeyboardEvent("keydown", { key: "/", bubbles: true }));
document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "/", bubbles: true }));
say("focus " + (document.activeElement === box));
say("broken " + document.querySelectorAll("img, b").length);
const out = document.createElement("pre");
out.id = "told";
out.textContent = lines.join("|");
document.body.append(out);
"""


@pytest.fixture
def browser() -> str:
    found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if found is None:
        if os.environ.get("CI"):
            pytest.fail("no Chromium on this machine: CI has to install one")
        pytest.skip("no Chromium on this machine")
    return found


def _chromium(browser: str, tmp_path: Path, *arguments: str) -> str:
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    command += [f"--user-data-dir={tmp_path / 'profile'}", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout


def test_a_browser_filters_opens_and_focuses(browser: str, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    page.write_text(_page().replace("</body>", f"<script>{SCRIPT}</script></body>"), encoding="utf-8")
    dom = _chromium(browser, tmp_path, "--dump-dom", page.as_uri())
    told = re.search(r'id="told">([^<]*)', dom)
    left = sum(not f.applied for f in RUN.findings)
    assert told and told[1].split("|") == [
        f"items {left}",
        "found 1 true",
        "errors true",
        "rows true",
        "focus true",
        "broken 0",
    ]


def test_a_browser_prints_the_work_list_and_the_changes(browser: str, tmp_path: Path) -> None:
    page, paper = tmp_path / "report.html", tmp_path / "report.pdf"
    page.write_text(_page(), encoding="utf-8")
    _chromium(browser, tmp_path, f"--print-to-pdf={paper}", "--no-pdf-header-footer", page.as_uri())
    assert paper.read_bytes().startswith(b"%PDF") and paper.stat().st_size > 20_000


SUPPORT = {
    "version": 1,
    "operators": [
        {
            "operator": "aten::<b>",
            "dtypes": ["float32"],
            "calls": 2,
            "answer": "cpu",
            "reason": "no kernel",
            "evidence": "a.cpp:1",
            "limit": None,
        },
        {
            "operator": "aten::relu",
            "dtypes": [],
            "calls": 9,
            "answer": "composite",
            "reason": "",
            "evidence": "",
            "limit": None,
        },
    ],
}
VERDICT = {
    "version": 1,
    "title": "train",
    "status": "mismatch",
    "reasons": ["<script>alert(1)</script>"],
    "first_step": "",
    "loss_curve": "",
    "summary": {"compared": 4, "equal": 3, "within": 0, "calls": 2, "steps": 1, "ranks": 1},
    "first_divergence": {"file": "net.py", "line": 7, "module": "fc", "what": "output of fc"},
    "device_strings": [],
}


def test_tables_of_runs_go_into_the_page_by_flags(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "a.py").write_text("import torch\ntorch.cuda.synchronize()\n")
    (tmp_path / "support.json").write_text(json.dumps(SUPPORT))
    (tmp_path / "parity.json").write_text(json.dumps(VERDICT))
    page = tmp_path / "page.html"
    flags = ("--support", "support.json", "--evidence", "parity.json", "--report", "page.html")
    cli = [sys.executable, "-m", "mlu_migrate", "check", "p", "--isolated", "--no-cache", "-q", *flags]
    done = subprocess.run(cli, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    text = page.read_text("utf-8")
    assert "aten::&lt;b&gt;" in text and "aten::relu" not in text
    assert "train: PARITY: mismatch" in text and "<code>net.py:7</code> output of fc" in text
    assert "<script>alert" not in text and "4 tensors compared, 3 equal bit for bit" in text


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--support", "s.json"), "--support needs --report FILE.html"),
        (("--support", "none.json", "--report", "x.html"), "none.json: No such file"),
        (("--support", "s.json", "--report", "x.html"), "s.json: not a table of mlu-migrate run --support-json"),
    ],
)
def test_a_support_table_that_cannot_be_used_is_refused_before_anything_is_written(
    tmp_path: Path, flags: tuple[str, ...], said: str
) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / "s.json").write_text('{"operators": [1]}')
    cli = [sys.executable, "-m", "mlu_migrate", "p", "--isolated", *flags]
    done = subprocess.run(cli, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2 and said in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p", "s.json"]


def test_a_guess_in_a_configuration_names_all_the_flags_it_needs() -> None:
    finding = RUN.findings[0].with_(code="MLU605", path="requirements.txt", safety=Safety.UNSAFE, applied=False)
    assert flags([finding]) == "--configs write --unsafe"
    assert flags([finding.with_(code="MLU203", path="a.py")]) == "--unsafe"
    assert flags([finding.with_(code="MLU201", path="README.md", safety=Safety.SAFE)]) == "--configs write"
