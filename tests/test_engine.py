"""The engine as a whole: bytes, rounds, failures, safety words and ignore comments."""

from __future__ import annotations

import ast
import io
import tokenize

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mlu_migrate import engine, project
from mlu_migrate.model import FileStatus, Safety
from mlu_migrate.settings import Settings


def run(source: bytes | str, **fields: object):  # type: ignore[no-untyped-def]
    data = source.encode() if isinstance(source, str) else source
    collector = project.Collector()
    collector.add("case.py", data)
    return engine.migrate(data, "case.py", Settings(**fields), collector.facts())  # type: ignore[arg-type]


def test_a_file_without_trigger_words_is_not_even_parsed() -> None:
    result = run(b"def broken(:\n")
    assert result.status is FileStatus.UNCHANGED and not result.findings


def test_a_byte_order_mark_is_kept() -> None:
    assert run(b"\xef\xbb\xbfimport torch\nt.cuda()\n").output == (
        b"\xef\xbb\xbfimport torch\nimport torch_mlu  # noqa: F401\nt.mlu()\n"
    )


@pytest.mark.parametrize("encoding", ["gbk", "latin-1", "cp1252"])
def test_a_coding_line_is_followed_and_kept(encoding: str) -> None:
    word = "注释" if encoding == "gbk" else "é"
    text = f"# -*- coding: {encoding} -*-\nimport torch\nname = '{word}'; x = y.cuda()  # {word}\n"
    result = run(text.encode(encoding))
    assert result.output is not None
    wanted = text.replace("y.cuda()", "y.mlu()").replace(
        "import torch\n", "import torch\nimport torch_mlu  # noqa: F401\n"
    )
    assert result.output.decode(encoding) == wanted


def test_columns_count_code_points_and_lines_start_at_one() -> None:
    finding = next(f for f in run("import torch\n名 = '字'; x = y.cuda()\n").findings if f.code == "MLU201")
    assert (finding.line, finding.column, finding.end_column) == (2, 16, 22)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (b"import torch\nx = torch.cuda.\n", "line 2"),
        (b"print 'cuda'\n", "Python 2"),
        (b"import torch\n\0cuda\n", "null byte"),
        (b"# coding: nothing\nx = 'cuda'\n", "nothing"),
        (b"x = 'cuda \xff'\n", "UTF-8"),
        (b"x = " + b"(" * 10_000 + b"'cuda'" + b")" * 10_000 + b"\n", ""),
    ],
)
def test_what_cannot_be_read_fails_with_a_reason_and_no_output(source: bytes, words: str) -> None:
    result = run(source)
    assert result.status is FileStatus.FAILED
    assert result.output is None and words in (result.reason or "")


@pytest.mark.parametrize(
    "source",
    [
        b"x = (" + b"torch.cuda.is_available() + " * 20_000 + b"1)\n",
        b"import torch\nx = y" + b".cuda()" * 5_000 + b"\n",
        b"import torch\nx = " + b"[" * 150 + b"torch.cuda.device_count()" + b"]" * 150 + b"\n",
    ],
)
def test_extreme_expressions_end_in_a_result_or_a_reason(source: bytes) -> None:
    result = run(source)
    assert result.status in (FileStatus.FAILED, FileStatus.CHANGED, FileStatus.UNCHANGED)
    assert result.status is not FileStatus.FAILED or result.reason


def test_syntax_newer_than_the_running_python_is_read_through_libcst() -> None:
    source = "import torch\n\ndef f[T](x: T):\n    return x.cuda()\n\ntype Device = str\n"
    result = run(source)
    assert result.output is not None
    assert b"def f[T](x: T):\n    return x.mlu()" in result.output and b"type Device = str" in result.output


def test_expressions_inside_f_strings_are_edited_where_they_stand() -> None:
    source = 'import torch\nprint(f"{a!r:>{w}} {torch.cuda.device_count()} cuda")\n'
    assert b'{torch.mlu.device_count()} cuda")' in (run(source).output or b"")
    multi = 'import torch\ntext = f"""\n  {torch.cuda.memory_allocated(\n      0)} é {x.cuda()}\n"""\n'
    output = (run(multi).output or b"").decode()
    assert "{torch.mlu.memory_allocated(\n      0)} é {x.mlu()}" in output


def test_unsafe_findings_are_applied_only_on_demand() -> None:
    source = "import torch\nthing('cuda')\n"
    careful = run(source)
    assert careful.output is None
    assert [f.safety for f in careful.findings if f.code == "MLU203"] == [Safety.UNSAFE]
    assert b"thing('mlu')" in (run(source, unsafe=True).output or b"")


def test_an_ignored_line_keeps_its_bytes() -> None:
    source = "import torch\na = x.cuda()  # mlu: keep\nb = x.cuda()\n"
    output = (run(source).output or b"").decode()
    assert "a = x.cuda()  # mlu: keep" in output and "b = x.mlu()" in output


def test_rules_that_are_not_asked_for_stay_silent() -> None:
    result = run("import torch\ntorch.cuda.init()\nx.cuda()\n", select=("MLU201",))
    assert {f.code for f in result.findings} == {"MLU201"}


def test_fingerprints_do_not_depend_on_the_line() -> None:
    first = run("import torch\nf('cuda')\n").findings
    second = run("import torch\n\n\nf('cuda')\n").findings
    assert [f.fingerprint for f in first] == [f.fingerprint for f in second] != []


PIECES = [
    "import torch",
    "import torch as th",
    "from torch import cuda",
    "from torch.cuda.amp import autocast, GradScaler",
    "from torch.cuda import nvtx as marks, Stream",
    "try:\n    import torch.cuda.nvtx as n\nexcept ImportError:\n    n = None",
    'x = y.cuda()  # cuda: keep "me"',
    "z = (a +  # cuda\n     b).cuda(non_blocking=True)",
    'd = "cuda:%d" % i if torch.cuda.is_available() else "cpu"',
    "t = {'cuda': torch.cuda.synchronize, 'cpu': None}[dev.type]",
    'if dev.type in ("cuda", "xpu"):\n    pass',
    'def f(device="cuda", *, kind="cuda"):\n    """cuda"""\n    return torch.zeros(1, device=device)',
    "class B:\n    def cuda(self):\n        return self",
    "lambda q: q.cuda() if q.is_cuda else q",
    'print(f"cuda {torch.cuda.device_count()} {x.cuda()!r}")',
    'import os; os.environ["CUDA_VISIBLE_DEVICES"] = "0"',
    "import torch.distributed as dist\ndist.init_process_group('nccl')",
    "match dev.type:\n    case 'cuda':\n        pass",
    "with torch.cuda.amp.autocast(False), torch.cuda.stream(s):\n    pass",
    "del torch",
    "torch = None",
    "for torch in range(3):\n    torch.cuda",
    "assert 'CUDA out of memory' in str(e)",
    "\tq = 1",
    "# cuda é 注释",
]


def comments_of(source: bytes) -> list[str]:
    return [t.string for t in tokenize.tokenize(io.BytesIO(source).readline) if t.type == tokenize.COMMENT]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.sampled_from(PIECES), min_size=1, max_size=9),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
    st.sampled_from([False, True]),
)
def test_any_mixture_keeps_comments_parses_and_is_stable(
    parts: list[str], newline: str, final: bool, unsafe: bool
) -> None:
    text = "\n".join(parts) + ("\n" if final else "")
    source = text.replace("\n", newline).encode()
    try:
        ast.parse(source)
    except SyntaxError:
        assert run(source).output is None
        return
    result = run(source, unsafe=unsafe)
    assert result.status is not FileStatus.FAILED, result.reason
    ast.parse(result.result)
    kept = comments_of(source)
    assert [c for c in comments_of(result.result) if c != "# noqa: F401"] == kept
    again = run(result.result, unsafe=unsafe)
    assert again.result == result.result
    assert (b"\r\n" in result.result) == (b"\r\n" in source) or b"\n" not in source
