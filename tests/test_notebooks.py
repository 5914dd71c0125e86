"""Notebooks: what is rewritten, what stays, and that nothing but the edited spans differs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import nbformat
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlu_migrate import magics, nonpython, notebooks
from mlu_migrate.configs.document import Document
from mlu_migrate.messages import render
from mlu_migrate.model import Confidence, Edit, FileResult, FileStatus, Finding, Safety, Severity
from mlu_migrate.notebook_source import cells
from mlu_migrate.settings import Settings

FIXTURES = Path(__file__).parent.parent / "fixtures" / "notebooks"
TRAINING = (FIXTURES / "training.ipynb").read_bytes()
HANDWRITTEN = (FIXTURES / "handwritten.ipynb").read_bytes()


def _sources(data: bytes) -> list[str]:
    book = json.loads(data)
    return ["".join(cell["source"]) for cell in book["cells"]]


def _without_sources(data: bytes) -> Any:
    book = json.loads(data)
    for cell in book["cells"]:
        cell["source"] = None
    return json.dumps(book)  # keeps the order of keys


def _notebook(*texts: str, indent: int | None = 1) -> bytes:
    book: dict[str, Any] = {
        "cells": [
            {
                "cell_type": "code",
                "execution_count": None,
                "metadata": {},
                "outputs": [],
                "source": text.splitlines(keepends=True),
            }
            for text in texts
        ],
        "metadata": {},
        "nbformat": 4,
        "nbformat_minor": 4,
    }
    return json.dumps(book, indent=indent).encode()


def _migrate(data: bytes, **changes: Any) -> FileResult:
    return nonpython.migrate(data, "a.ipynb", Settings(**changes))


def test_code_cells_share_their_imports_and_keep_their_order() -> None:
    result = _migrate(TRAINING)
    sources = _sources(result.result)
    assert sources[1] == "%matplotlib inline\nimport torch\nimport torch_mlu  # noqa: F401"
    assert "torch.mlu.is_available()" in sources[4] and "torch.mlu.device_count()" in sources[4]
    assert sources[9].startswith("d = torch.device(\n    'mlu:0' if torch.mlu.is_available()")
    assert result.result.count(b"import torch_mlu") == 2  # once for the notebook, once for the file a cell writes


def test_outputs_metadata_ids_and_key_order_stay() -> None:
    result = _migrate(TRAINING, configs="write", unsafe=True)
    assert result.status is FileStatus.CHANGED
    assert _without_sources(result.result) == _without_sources(TRAINING)


def test_only_lines_with_an_edit_differ() -> None:
    before, after = TRAINING.split(b"\n"), _migrate(TRAINING).result.split(b"\n")
    kept = [line for line in before if line in after]
    changed = [line for line in before if line not in after]
    assert len(kept) > 100 and all(b"cuda" in line.lower() or b'"import torch"' in line for line in changed)


def test_magics_stay_and_the_code_behind_them_is_rewritten() -> None:
    source = _sources(_migrate(TRAINING).result)[3]
    assert "%time y = x.mlu()\n" in source
    assert source.endswith('z = "é\\n" + "日本"; w = x.mlu()')


def test_shell_lines_and_bash_cells_go_through_the_rules_for_scripts() -> None:
    result = _migrate(TRAINING)
    sources = _sources(result.result)
    assert sources[2] == "%%bash\nnvidia-smi\nMLU_VISIBLE_DEVICES=0 python t.py --device mlu"
    assert "!python train.py --device mlu\n%env MLU_VISIBLE_DEVICES=0\n" in sources[3]
    told = {(f.code, f.cell, f.line, f.before) for f in result.findings}
    assert ("MLU606", 3, 2, "nvidia-smi") in told
    assert ("MLU605", 4, 6, "flash-attn") in told


def test_switching_configurations_off_leaves_shell_lines_and_still_migrates_python() -> None:
    result = _migrate(TRAINING, configs="off")
    assert "!python train.py --device cuda" in _sources(result.result)[3]
    assert "x.mlu()" in _sources(result.result)[3]
    assert not [f for f in result.findings if f.code.startswith("MLU60") and f.code != "MLU607"]


def test_an_audit_lists_no_word_twice() -> None:
    data = _notebook("import torch\n# on one gpu\nuse_cuda = True\nx = torch.zeros(1).cuda()\n!ls --device cuda")
    plain, audited = _migrate(data), _migrate(data, audit=True)
    added = [(f.cell, f.line, f.column) for f in audited.findings if f.code == "MLU004"]
    told = {(f.cell, f.line, f.column) for f in plain.findings}
    assert added == [(1, 2, 10), (1, 3, 5)] and not told & set(added)
    assert audited.output == plain.output


def test_prose_foreign_cells_and_comments_stay() -> None:
    sources = _sources(_migrate(TRAINING).result)
    assert sources[0] == "# Train on cuda\ncall `x.cuda()`"
    assert sources[7] == "%%html\n<b>torch.cuda</b>"
    assert sources[4].startswith("# %%capture\nif") and "    !ls\n" in sources[4] and sources[4].endswith("x.cuda?")


def test_a_cell_that_is_no_python_is_named_and_the_others_are_migrated() -> None:
    result = _migrate(TRAINING)
    (finding,) = [f for f in result.findings if f.code == "MLU607"]
    assert finding.cell == 6 and "Cell 6" in render(finding)[0]
    assert _sources(result.result)[5] == _sources(TRAINING)[5]


def test_a_file_that_a_cell_writes_is_migrated_as_a_module_of_its_own() -> None:
    source = _sources(_migrate(TRAINING).result)[6]
    assert source == "%%writefile model.py\nimport torch\nimport torch_mlu  # noqa: F401\nprint(torch.zeros(1).mlu())"


def test_a_configuration_that_a_cell_writes_goes_through_the_rules_of_its_format() -> None:
    result = _migrate(_notebook("%%writefile conf.yaml\ndevice: cuda\nname: cuda\n", "%%file '.env'\nDEVICE=cuda\n"))
    assert _sources(result.result) == [
        "%%writefile conf.yaml\ndevice: mlu\nname: cuda\n",
        "%%file '.env'\nDEVICE=mlu\n",
    ]
    assert [(f.cell, f.line, f.column) for f in result.findings] == [(1, 2, 9), (2, 2, 8)]


def test_a_cell_that_runs_in_a_python_of_its_own_gets_an_import_of_its_own() -> None:
    result = _migrate(_notebook("import torch\nx.cuda()", "%%python\nimport torch\nprint(torch.cuda.is_available())"))
    assert _sources(result.result)[1].splitlines() == [
        "%%python",
        "import torch",
        "import torch_mlu  # noqa: F401",
        "print(torch.mlu.is_available())",
    ]


def test_findings_name_cell_and_line_of_the_input() -> None:
    texts = _sources(TRAINING)
    for finding in _migrate(TRAINING).findings:
        assert finding.cell is not None
        if finding.line == finding.end_line and finding.code != "MLU607":
            line = texts[finding.cell - 1].split("\n")[finding.line - 1]
            assert line[finding.column - 1 : finding.end_column - 1] == finding.before


def test_the_edits_of_applied_findings_are_spans_of_the_file() -> None:
    result = _migrate(TRAINING)
    edits = sorted({edit for f in result.findings if f.applied for edit in f.edits})
    out, position = [], 0
    for edit in edits:
        out += [TRAINING[position : edit.start], edit.text]
        position = edit.end
    assert b"".join([*out, TRAINING[position:]]) == result.output


def test_a_second_run_changes_nothing() -> None:
    first = _migrate(TRAINING)
    assert _migrate(first.result).status is FileStatus.UNCHANGED


def test_single_string_sources_escapes_and_odd_spacing_are_kept() -> None:
    result = _migrate(HANDWRITTEN)
    assert result.result == HANDWRITTEN.replace(
        b"import torch\\n", b"import torch\\nimport torch_mlu  # noqa: F401\\n"
    ).replace(b".cuda()", b".mlu()").replace(b'to(\\"cuda\\")', b'to(\\"mlu\\")')


def test_the_result_is_a_valid_notebook() -> None:
    for data in (TRAINING, HANDWRITTEN):
        nbformat.validate(nbformat.reads(_migrate(data).result.decode(), as_version=4))


@pytest.mark.parametrize("indent", [None, 0, 1, 4])
def test_an_added_line_is_written_as_its_neighbours_are(indent: int | None) -> None:
    data = _notebook("import torch\nx = torch.zeros(1).cuda()\n", indent=indent)
    wanted = _notebook("import torch\nimport torch_mlu  # noqa: F401\nx = torch.zeros(1).mlu()\n", indent=indent)
    assert _migrate(data).result == wanted


def test_an_import_at_the_end_of_a_cell_is_followed_by_ours_in_the_same_cell() -> None:
    result = _migrate(_notebook("import torch", "x = torch.zeros(1).cuda()"))
    assert _sources(result.result) == ["import torch\nimport torch_mlu  # noqa: F401", "x = torch.zeros(1).mlu()"]


def test_a_cell_that_is_indented_as_a_whole_is_python_to_ipython() -> None:
    result = _migrate(_notebook("  import torch\n  if True:\n    torch.zeros(1).cuda()"))
    wanted = "  import torch\n  import torch_mlu  # noqa: F401\n  if True:\n    torch.zeros(1).mlu()"
    assert _sources(result.result)[0] == wanted


def test_a_notebook_of_another_language_is_left_alone() -> None:
    data = _notebook("x.cuda()").replace(
        b'"metadata": {},\n "nbformat"', b'"metadata": {"kernelspec": {"language": "R"}},\n "nbformat"'
    )
    assert json.loads(data)["metadata"]["kernelspec"]["language"] == "R"
    assert _migrate(data) == FileResult("a.ipynb", FileStatus.UNCHANGED, source=data)


@pytest.mark.parametrize("data", [b"cuda, not json", b'{"cells": [ "cuda"', b'{"cells": "cuda"}', b"[1, 'cuda']"])
def test_a_file_that_is_no_notebook_fails_or_is_left_but_never_damaged(data: bytes) -> None:
    result = _migrate(data)
    assert result.output is None
    if result.status is FileStatus.FAILED:
        assert result.reason and "not a notebook" in result.reason


def test_a_change_of_the_engine_that_belongs_to_no_cell_fails_the_notebook() -> None:
    def engine(source: bytes) -> FileResult:
        at = source.index(b"# end of cell 1")
        output = source.replace(b"# end of cell 1", b"# torn up")
        edit = Edit(at + 2, at + 10, b"torn up")
        return FileResult("a.ipynb", FileStatus.CHANGED, source=source, output=output, findings=(_finding(edit),))

    data = _notebook("import torch\nx.cuda()")
    result = notebooks.migrate(data, "a.ipynb", Settings(), engine=engine)
    assert result.status is FileStatus.FAILED and "could not be placed" in (result.reason or "")


def test_a_result_without_usable_edits_is_placed_by_comparison() -> None:
    def engine(source: bytes) -> FileResult:
        output = source.replace(b"cuda", b"mlu").replace(b"import torch\n", b"import torch\nimport torch_mlu\n", 1)
        return FileResult("a.ipynb", FileStatus.CHANGED, source=source, output=output)

    data = _notebook("import torch\n%time x.cuda()\n", "y = 'é'\nx.cuda(); x.cuda()")
    result = notebooks.migrate(data, "a.ipynb", Settings(), engine=engine)
    assert _sources(result.result) == ["import torch\nimport torch_mlu\n%time x.mlu()\n", "y = 'é'\nx.mlu(); x.mlu()"]


def test_an_engine_that_refuses_fails_the_notebook_with_its_reason() -> None:
    result = notebooks.migrate(
        _notebook("x.cuda()"), "a.ipynb", Settings(), engine=lambda s: FileResult("a", FileStatus.FAILED, "too deep", s)
    )
    assert (result.status, result.reason, result.output) == (FileStatus.FAILED, "too deep", None)


def _finding(edit: Edit) -> Finding:
    return Finding(
        "MLU999",
        "x",
        Severity.INFO,
        Safety.SAFE,
        Confidence.HIGH,
        "a.ipynb",
        1,
        1,
        1,
        2,
        "x",
        edits=(edit,),
        applied=True,
    )


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("x = 1\n%time y\n!ls", ["python", "statement", "command"]),
        ("!ls \\\n  -l\nx", ["command", "continued", "python"]),
        ("s = '''\n%d items\n!x\n'''", ["python"] * 4),
        ("y = (a\n % b)", ["python", "python"]),
        ("%env A=1\n?x\nx??\nz = !ls", ["environment", "other", "other", "command"]),
        ("%timeit -n 10 -r3 f(x)", ["statement"]),
        ("%load_ext autoreload", ["other"]),
        ("  x = 1\n  if x:\n    y\n", ["statement"] * 4),
        ("%run train.py --device cuda", ["command"]),
        ("if a:\n    !ls\nelse:\n    %pwd", ["python", "command", "python", "other"]),
    ],
)
def test_lines_that_are_no_python_are_told_apart(text: str, kinds: list[str]) -> None:
    reading = magics.read(text)
    assert reading.kind == "python" and [line.kind for line in reading.lines] == kinds


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("%%bash\nls", "shell"),
        ("%%script bash -e\nls", "shell"),
        ("%%script perl\nx", "foreign"),
        ("%%R\nx", "foreign"),
        ("%%time\nx = 1", "python"),
        ("%%writefile -a x.py\nx", "file"),
        ("def f(:", "broken"),
        ("", "python"),
    ],
)
def test_cell_magics_decide_what_a_cell_is(text: str, kind: str) -> None:
    assert magics.read(text).kind == kind


LINES = st.lists(
    st.sampled_from(
        ["import torch", "x = torch.zeros(2).cuda()", "%time y = x.cuda()", "!ls --device cuda", "s = 'é \U0001f600'"]
    )
    | st.sampled_from(["", "# cuda", "if x is not None:\n    x.cuda()", "%%bash", "f(", "d = 'a\\n\\\\\"cuda'", "x?"]),
    max_size=5,
)


@settings(max_examples=60, deadline=None)
@given(st.lists(LINES, min_size=1, max_size=4), st.booleans(), st.sampled_from([None, 1, 2]))
def test_any_notebook_keeps_all_but_its_sources(texts: list[list[str]], end: bool, indent: int | None) -> None:
    data = _notebook(*("\n".join(lines) + ("\n" if end else "") for lines in texts), indent=indent)
    result = _migrate(data)
    assert result.status is not FileStatus.FAILED
    assert _without_sources(result.result) == _without_sources(data)
    again = _migrate(result.result)
    assert again.output is None


@given(st.lists(st.text(max_size=12), max_size=4))
def test_characters_of_a_cell_lie_where_they_say(parts: list[str]) -> None:
    data = json.dumps(
        {"cells": [{"cell_type": "code", "source": parts}], "nbformat": 4, "metadata": {}, "nbformat_minor": 4}
    )
    doc = Document(data.encode(), "a.ipynb", Settings())
    (cell,) = cells(doc)
    assert cell.text == "".join(parts)
    for index, character in enumerate(cell.text):
        assert json.loads(f'"{doc.text[cell.starts[index] : cell.ends[index]]}"') == character
