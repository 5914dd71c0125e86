"""Launch scripts of programs that work for another framework than torch."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlu_migrate import frameworks, nonpython, project
from mlu_migrate.model import FileResult
from mlu_migrate.settings import Settings

TENSORFLOW = "import tensorflow as tf\n"
SOURCES = {
    "tf_train.py": TENSORFLOW + "from common import log\n",
    "common.py": "log = print\n",
    "train.py": "import torch\nimport tensorflow as tf\n",
    "logs_only.py": TENSORFLOW + "from net import Net\n",
    "through.py": TENSORFLOW + "from tools import logs_only, other\n",
    "net.py": "import torch\n",
    "tools/serve.py": TENSORFLOW,
    "tools/logs_only.py": TENSORFLOW + "from .. import net\n",
    "plain.py": "print(1)\n",
}


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> project.ProjectFacts:
    root: Path = tmp_path_factory.mktemp("p")
    (root / "tools").mkdir()
    for name, text in SOURCES.items():
        (root / name).write_text(text)
    return project.join(project.look_at(root, list(SOURCES)))


def run(facts: project.ProjectFacts, path: str, text: str) -> tuple[str, list[tuple[str, str]]]:
    result: FileResult = nonpython.migrate(text.encode(), path, Settings(), facts)
    return result.result.decode(), [(f.code, f.message_id) for f in result.findings]


def test_a_program_is_of_another_framework_when_nothing_it_imports_speaks_of_torch(
    facts: project.ProjectFacts,
) -> None:
    assert facts.frameworks == {"tf_train.py": "tensorflow", "tools/serve.py": "tensorflow"}


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.sh", "CUDA_VISIBLE_DEVICES=0 python tf_train.py --device cuda\n"),
        ("a.sh", "export CUDA_VISIBLE_DEVICES=0\npython ./tools/serve.py \\\n  --device cuda\n"),
        ("a.sh", "export CUDA_VISIBLE_DEVICES=0\npython $ROOT/tf_train.py\n"),
        ("Makefile", "run:\n\tCUDA_VISIBLE_DEVICES=0 python -m tools.serve\n"),
        ("c.yml", "command: python tf_train.py\nenvironment:\n  - CUDA_VISIBLE_DEVICES=0\n"),
        ("Dockerfile", 'FROM x\nENV CUDA_VISIBLE_DEVICES=0\nCMD ["python", "tf_train.py"]\n'),
    ],
)
def test_what_is_set_for_such_a_program_stays_and_is_told(facts: project.ProjectFacts, path: str, text: str) -> None:
    output, found = run(facts, path, text)
    assert output == text
    assert found and set(found) <= {("MLU601", "framework"), ("MLU602", "other-library")}


@pytest.mark.parametrize("program", ["train.py", "logs_only.py", "through.py", "net.py", "plain.py", "unknown.py"])
def test_what_is_set_for_any_other_program_is_rewritten(facts: project.ProjectFacts, program: str) -> None:
    text = f"CUDA_VISIBLE_DEVICES=0 python {program} --device cuda\n"
    assert run(facts, "a.sh", text)[0] == f"MLU_VISIBLE_DEVICES=0 python {program} --device mlu\n"


def test_each_command_of_a_script_is_judged_by_its_own_program(facts: project.ProjectFacts) -> None:
    text = "CUDA_VISIBLE_DEVICES=0 python tf_train.py\nCUDA_VISIBLE_DEVICES=1 python train.py\n"
    assert run(facts, "a.sh", text)[0].splitlines() == [
        "CUDA_VISIBLE_DEVICES=0 python tf_train.py",
        "MLU_VISIBLE_DEVICES=1 python train.py",
    ]


def test_what_is_exported_for_programs_of_both_kinds_is_rewritten(facts: project.ProjectFacts) -> None:
    text = "export CUDA_VISIBLE_DEVICES=0\npython tf_train.py\npython train.py\n"
    assert run(facts, "a.sh", text)[0].startswith("export MLU_VISIBLE_DEVICES=0\n")


@pytest.mark.parametrize("text", ["jax_like = 1\n", "# import tensorflow\n", "import tensorflow_like\n", ""])
def test_a_word_that_is_no_import_makes_no_framework(text: str) -> None:
    assert frameworks.look(text.encode()) == ("", ())
