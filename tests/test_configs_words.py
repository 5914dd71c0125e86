"""Splitting command lines, reading formats, and holding on to bytes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from mlu_migrate import nonpython, tomlfile
from mlu_migrate.configs import catalogue, jsonfile, tomlconfig, vocabulary, yamlfile
from mlu_migrate.configs.shellwords import Command, HereDocument, commands
from mlu_migrate.messages import catalogue as message_catalogue
from mlu_migrate.messages import render as render_message
from mlu_migrate.model import FileStatus, RunResult
from mlu_migrate.report import render
from mlu_migrate.rule import all_rules
from mlu_migrate.settings import Settings


def _words(text: str) -> list[list[str]]:
    return [[w.raw for w in item.words] for item in commands(text, 0, len(text)) if isinstance(item, Command)]


def test_words_end_at_blanks_outside_of_quotes() -> None:
    assert _words("A=1 python 'a b' \"c d\"e \\\n  f # rest") == [["A=1", "python", "'a b'", '"c d"e', "f"]]


def test_separators_start_a_new_command() -> None:
    assert _words("a b; c && d | e") == [["a", "b"], ["c"], ["d"], ["e"]]


def test_the_inside_of_a_substitution_is_read_as_commands() -> None:
    assert _words('n=$(nvidia-smi -L | wc -l) x="`date`"') == [
        ["n=$(nvidia-smi -L | wc -l)", 'x="`date`"'],
        ["nvidia-smi", "-L"],
        ["wc", "-l"],
        ["date"],
    ]


def test_a_here_document_belongs_to_its_command() -> None:
    text = "cat <<'EOF' > a\nx $y\nEOF\nnext\n"
    found = list(commands(text, 0, len(text)))
    assert isinstance(found[1], HereDocument)
    assert text[found[1].start : found[1].end] == "x $y\n" and not found[1].expands
    assert [w.raw for w in found[2].words] == ["next"]  # type: ignore[union-attr]


@pytest.mark.parametrize("text", ["'", '"a', "$(", "`x", "${a", "a <<EOF", "\\", "<<<", "$((1+2))"])
def test_broken_shell_gives_words_all_the_same(text: str) -> None:
    assert list(commands(text, 0, len(text))) is not None


@given(st.text(alphabet="ab '\"\\$(){}`#\n;|<>=-", max_size=60))
def test_words_lie_where_they_say(text: str) -> None:
    for item in commands(text, 0, len(text)):
        if isinstance(item, Command):
            assert all(text[w.start : w.end] == w.raw and w.raw for w in item.words)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=12,
)


def _scalars(value: object, path: tuple[object, ...] = ()) -> list[tuple[tuple[object, ...], object]]:
    if isinstance(value, dict):
        return [item for k, v in value.items() for item in _scalars(v, (*path, k))]
    if isinstance(value, list):
        return [item for n, v in enumerate(value) for item in _scalars(v, (*path, n))]
    return [(path, value)]


@given(JSON_VALUES)
def test_json_leaves_are_the_values_in_order(value: object) -> None:
    text = json.dumps(value, ensure_ascii=True)
    found = []
    for leaf in jsonfile.leaves(text):
        if not leaf.is_key:
            raw = text[leaf.start : leaf.end]
            quoted = text[leaf.start - 1 : leaf.start] == '"' and text[leaf.end : leaf.end + 1] == '"'
            found.append(json.loads(f'"{raw}"' if quoted else raw))
    assert found == [v for _, v in _scalars(value)]


@given(st.dictionaries(st.sampled_from("abcde"), st.text(max_size=8) | st.lists(st.text(max_size=4), max_size=3)))
def test_yaml_leaves_are_the_values_of_the_file(value: dict[str, object]) -> None:
    text = yaml.safe_dump(value, allow_unicode=True, sort_keys=False)
    values = [leaf for leaf in yamlfile.leaves(text) if not leaf.is_key]
    assert [leaf.path for leaf in values] == [p for p, _ in _scalars(value)]


def test_toml_leaves_have_paths_and_places() -> None:
    text = '[a."b c"]\nx = "1" # "no"\ny.z = [1, \'two\', {k = """q"q"""}]\n[[t]]\nn = 2024-01-01\n'
    found = [(leaf.path, text[leaf.start : leaf.end]) for leaf in tomlconfig.leaves(text) if not leaf.is_key]
    assert found == [
        (("a", "b c", "x"), "1"),
        (("a", "b c", "y", "z", 0), "1"),
        (("a", "b c", "y", "z", 1), "two"),
        (("a", "b c", "y", "z", 2, "k"), 'q"q'),
        (("t", "n"), "2024-01-01"),
    ]


def test_our_own_pyproject_is_read_to_the_end() -> None:
    path = Path(__file__).parent.parent / "pyproject.toml"
    text = path.read_text("utf-8")
    tables = tomlfile.loads(text)
    found = {leaf.path for leaf in tomlconfig.leaves(text)}
    assert ("project", "dependencies", len(tables["project"]["dependencies"]) - 1) in found


NAMES = ["a.sh", "b.yaml", "c.json", "d.toml", "e.ini", "Dockerfile", "Makefile", "requirements.txt", ".env", "f.md"]
PIECES = st.sampled_from(
    [
        "CUDA_VISIBLE_DEVICES",
        "=0",
        "cuda",
        "cuda:1",
        "--device ",
        "nccl",
        "nvidia-smi",
        "device: ",
        '"',
        "'",
        "\n",
        "\r\n",
    ]
    + [
        "{",
        "}",
        "[",
        "]",
        ":",
        "- ",
        "$",
        "`",
        "\\",
        "#",
        "é",
        "日本",
        " ",
        "\t",
        "env:\n  ",
        "x",
        "```bash\n",
        "RUN ",
        "\x00",
    ]
)


@settings(max_examples=300, deadline=None)
@given(st.lists(PIECES, max_size=25), st.sampled_from(NAMES), st.booleans())
def test_only_edited_spans_differ_whatever_the_file_holds(pieces: list[str], name: str, bom: bool) -> None:
    source = (b"\xef\xbb\xbf" if bom else b"") + "".join(pieces).encode()
    result = nonpython.migrate(source, name, Settings(configs="write", unsafe=True))
    out, position = [], 0
    for edit in sorted({edit for f in result.findings if f.applied for edit in f.edits}):
        out += [source[position : edit.start], edit.text]
        position = edit.end
    assert b"".join([*out, source[position:]]) == result.result
    if not any(f.edits for f in result.findings):
        assert result.output is None


def test_our_own_reports_are_not_looked_at() -> None:
    result = nonpython.migrate(b"python a.py --device cuda\n", "a.sh", Settings())
    run = RunResult((result,))
    for kind in ("json", "sarif"):
        text = render(kind, run, Settings())
        assert "cuda" in text
        assert nonpython.migrate(text.encode(), "out.json", Settings()).findings == ()


def test_bytes_that_are_no_utf8_survive() -> None:
    source = b"# caf\xe9\npython t.py --device cuda # \xff\n"
    assert nonpython.migrate(source, "a.sh", Settings()).output == source.replace(b"--device cuda", b"--device mlu")


def test_an_output_that_its_format_cannot_read_is_dropped(tmp_path: Path) -> None:
    source = b"env:\n  CUDA_VISIBLE_DEVICES: 0\n"
    doc = nonpython.Document(source, "a.yaml", Settings())
    yamlfile.check(doc)
    result = nonpython.apply.finish(doc, lambda text: "MLU" not in text)
    assert result.status is FileStatus.UNCHANGED and not any(f.applied for f in result.findings)


def test_findings_that_a_baseline_holds_are_not_applied() -> None:
    source = b"python a.py --device cuda\npython b.py --device cuda\n"
    result = nonpython.migrate(source, "a.sh", Settings(kept=(("MLU602", 1, 22),)))
    assert result.output == b"python a.py --device cuda\npython b.py --device mlu\n"


def test_rules_that_are_not_selected_neither_speak_nor_write() -> None:
    source = b"CUDA_VISIBLE_DEVICES=0 python a.py --device cuda\n"
    result = nonpython.migrate(source, "a.sh", Settings(select=("MLU602",)))
    assert result.output == b"CUDA_VISIBLE_DEVICES=0 python a.py --device mlu\n"
    assert {f.code for f in result.findings} == {"MLU602"}


def test_an_older_release_that_lacks_a_variable_says_so() -> None:
    source = b"export TORCH_NCCL_ENABLE_MONITORING=0\n"
    assert nonpython.migrate(source, "a.sh", Settings(torch_mlu="2.4")).output is not None
    old = nonpython.migrate(source, "a.sh", Settings(torch_mlu="2.1"))
    assert old.output is None and [f.message_id for f in old.findings] == ["release"]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("run.sh", "shell"),
        ("docker/Dockerfile.gpu", "dockerfile"),
        ("prod.Dockerfile", "dockerfile"),
        ("requirements/dev.txt", "requirements"),
        ("my-requirements.in", "requirements"),
        (".env.local", "dotenv"),
        ("CMakeLists.txt", "cmake"),
        ("poetry.lock", None),
        ("package-lock.json", None),
        ("out/mlu-migrate-report.json", None),
        ("data.txt", None),
        ("notes.rst", None),
        ("a.ipynb", "notebook"),
    ],
)
def test_the_kind_of_a_file_is_in_its_name(name: str, kind: str | None) -> None:
    assert nonpython.kind_of(name, b"") == kind


def test_a_script_without_suffix_is_known_by_its_first_line(tmp_path: Path) -> None:
    script, data = tmp_path / "launch", tmp_path / "DATA"
    script.write_bytes(b"#!/usr/bin/env bash\ntrue\n")
    data.write_bytes(b"\x00\x01")
    assert nonpython.handles(script) and not nonpython.handles(data) and not nonpython.handles(tmp_path / "absent")


def test_every_row_of_the_tables_has_a_source_and_known_words() -> None:
    folder = Path(vocabulary.__file__).parent.parent / "tables"
    environment = tomlfile.read(folder / "environment.toml")["environment"]
    packages = tomlfile.read(folder / "packages.toml")["package"]
    assert len(environment) > 90 and len({row["name"] for row in environment}) == len(environment)
    assert all(row["source"].startswith("torch_mlu ") for row in environment)
    assert all(
        ("mlu" in row) == (row["status"] != "missing") and bool(row.get("mlu")) == bool(row.get("releases"))
        for row in environment
    )
    assert {row["kind"] for row in packages} <= {"nvidia", "kernel", "monitor", "torch", "engine"}
    assert all(row["source"] and row["instead"] for row in packages)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("nvidia-cublas-cu12", "nvidia"),
        ("Flash_Attn", "kernel"),
        ("nvidia-ml-py3", "monitor"),
        ("torch", "torch"),
        ("torchio", None),
    ],
)
def test_packages_are_known_by_their_whole_name(name: str, kind: str | None) -> None:
    row = vocabulary.package(name)
    assert (row.kind if row else None) == kind


def test_every_message_of_our_codes_has_its_words_in_both_languages() -> None:
    for page in catalogue.pages():
        english, chinese = message_catalogue("en", page.code), message_catalogue("zh", page.code)
        assert english and set(english) == set(chinese)
        for key, entry in english.items():
            assert set(entry) == {"message", "hint"} == set(chinese[key])


def test_the_pages_have_the_form_of_a_rules_page() -> None:
    for page in catalogue.pages():
        assert page.__doc__ and page.code.startswith("MLU60") and page.name
        for heading in ("## What it changes", "## Before", "## Left alone", "## Source"):
            assert heading in page.__doc__
        assert ("## After" in page.__doc__) != ("## Finding" in page.__doc__)


def _block(doc: str, heading: str) -> str:
    part = doc.split(f"## {heading}\n", 1)[1].split("\n\n", 1)[0]
    return "".join(line[8:] + "\n" for line in part.splitlines())


@pytest.mark.parametrize("page", [p for p in catalogue.pages() if p.code != "MLU607"], ids=lambda p: p.code)
def test_what_a_page_shows_is_what_happens(page: type[catalogue.Page]) -> None:
    doc = page.__doc__ or ""
    before = _block(doc, "Before")
    name = "requirements.txt" if page.code == "MLU605" else "run.sh"
    result = nonpython.migrate(before.encode(), name, Settings())
    assert page.code in {f.code for f in result.findings}
    if "## After" in doc:
        assert result.result.decode() == _block(doc, "After")


def test_no_two_rules_have_the_same_name_and_a_shared_code_has_one() -> None:
    names: dict[str, set[str]] = {}
    for entry in [*all_rules(), *catalogue.pages()]:
        names.setdefault(entry.code, set()).add(entry.name)
    assert all(len(found) == 1 for found in names.values()), names
    assert len({name for found in names.values() for name in found}) == len(names)


def test_python_in_a_command_is_left_where_a_new_line_would_break_the_file() -> None:
    command = b'run: |\n  python -c "import torch\n  print(torch.zeros(1).cuda())"\n  python t.py --device cuda\n'
    result = nonpython.migrate(command, ".github/workflows/a.yml", Settings())
    assert result.output == command.replace(b"--device cuda", b"--device mlu")
    assert "embedded-python" in {f.message_id for f in result.findings}


def test_python_in_one_line_is_rewritten_in_any_format() -> None:
    command = b"python -c 'import torch; print(torch.cuda.is_available())'"
    wanted = b"python -c 'import torch; import torch_mlu; print(torch.mlu.is_available())'"
    for name, frame in (("a.yaml", b"run: %s\n"), ("Makefile", b"a:\n\t%s\n"), ("Dockerfile", b"RUN %s\n")):
        assert nonpython.migrate(frame % command, name, Settings()).output == frame % wanted


def test_an_audit_lists_every_word_that_no_finding_speaks_of() -> None:
    source = b"# cuda notes\nCUDA_VISIBLE_DEVICES=0 ./cuda_kernels.sh --device cuda\necho nothing else\n"
    plain = nonpython.migrate(source, "a.sh", Settings())
    audited = nonpython.migrate(source, "a.sh", Settings(audit=True))
    added = [(f.line, f.column, f.before, f.message_id) for f in audited.findings if f.code == "MLU004"]
    assert added == [(1, 3, "cuda", "comment"), (2, 26, "cuda", "text")]
    assert audited.output == plain.output and len(audited.findings) == len(plain.findings) + 2
    assert all(render_message(f, lang)[0] for f in audited.findings for lang in ("en", "zh"))


def test_without_an_audit_words_are_not_listed() -> None:
    assert nonpython.migrate(b"echo gpu cuda\n", "a.sh", Settings()).findings == ()
