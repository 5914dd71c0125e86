"""Words of a command line that choose a file of the project's configuration (hydra config groups)."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlu_migrate import command, gathering, nonpython, pipeline, project
from mlu_migrate.configs import groups
from mlu_migrate.model import FileResult
from mlu_migrate.settings import Options, Settings

PROGRAM = "import hydra\nimport torch\n\n@hydra.main(config_path='conf', config_name='config')\ndef main(cfg):\n    "
PROGRAM += "torch.ones(1).cuda()\n\n\nif __name__ == '__main__':\n    main()\n"


def _project(root: Path, files: dict[str, str]) -> Path:
    for name, text in {"pyproject.toml": "", "train.py": PROGRAM, **files}.items():
        place = root / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, "utf-8")
    return root


def _results(path: Path) -> dict[str, FileResult]:
    run = pipeline.run(gathering.targets_of([path]), Settings(), Options(cache=False))
    return {file.path: file for file in run.result.files}


def _codes(result: FileResult) -> list[tuple[str, str]]:
    return [(f.code, f.message_id) for f in result.findings]


GROUP = {"conf/device/cuda.yaml": "name: cuda\n", "conf/config.yaml": "defaults:\n  - device: cuda\n"}


@pytest.mark.parametrize(
    "line",
    [
        "python train.py device=cuda",
        "python train.py +device=cuda 'device@a.b=cuda'",
        "python train.py -m device=cpu,cuda seed=1,2",
    ],
)
def test_a_word_that_chooses_a_file_stays_and_is_told(tmp_path: Path, line: str) -> None:
    result = _results(_project(tmp_path, {**GROUP, "run.sh": f"{line}\n"}))["run.sh"]
    assert result.output is None
    assert set(_codes(result)) == {("MLU602", "config-group")}


def test_a_group_below_another_is_found_by_its_whole_name(tmp_path: Path) -> None:
    files = {"conf/trainer/device/cuda.yaml": "name: cuda\n"}
    files["run.sh"] = "python train.py trainer/device=cuda\npython train.py run.device=cuda\n"
    result = _results(_project(tmp_path, files))["run.sh"]
    assert result.result == b"python train.py trainer/device=cuda\npython train.py run.device=mlu\n"


def test_the_word_becomes_mlu_where_no_such_file_exists(tmp_path: Path) -> None:
    files = {"conf/device/cpu.yaml": "name: cpu\n", "run.sh": "python train.py device=cuda\n"}
    assert _results(_project(tmp_path, files))["run.sh"].result == b"python train.py device=mlu\n"


def test_a_variable_that_is_put_into_such_a_word_stays(tmp_path: Path) -> None:
    text = "device=cuda\nfor name in cuda cpu; do\n  python train.py device=$device group=$name\ndone\n"
    result = _results(_project(tmp_path, {**GROUP, "run.sh": text}))["run.sh"]
    assert b"device=cuda\n" in result.result


def test_a_variable_of_that_name_for_an_option_is_a_device(tmp_path: Path) -> None:
    text = "device=cuda\npython train.py --device $device\n"
    assert b"device=mlu\n" in _results(_project(tmp_path, {**GROUP, "run.sh": text}))["run.sh"].result


def test_workflows_documents_and_python_are_alike(tmp_path: Path) -> None:
    files = {
        ".github/workflows/t.yml": "jobs:\n  a:\n    steps:\n      - run: python train.py device=cuda\n",
        "README.md": "```bash\npython train.py device=cuda\n```\n",
        "sweep.py": "import subprocess\nimport torch\nsubprocess.run(['python', 'train.py', 'device=cuda'])\n"
        "subprocess.run('python train.py device=cuda', shell=True)\n",
        "Makefile": "all:\n\tpython train.py device=cuda\n",
    }
    results = _results(_project(tmp_path, {**GROUP, **files}))
    assert [name for name in files if results[name].output is not None] == []
    assert ("MLU602", "config-group") in _codes(results["README.md"])
    assert ("MLU203", "kept") in _codes(results["sweep.py"])


def test_a_back_end_may_be_a_file_too(tmp_path: Path) -> None:
    files = {"conf/backend/nccl.yaml": "backend: nccl\n", "run.sh": "python train.py backend=nccl\n"}
    result = _results(_project(tmp_path, files))["run.sh"]
    assert result.output is None
    assert _codes(result) == [("MLU603", "config-group")]


def test_a_run_on_one_script_knows_the_files_of_the_project(tmp_path: Path) -> None:
    root = _project(tmp_path, {**GROUP, "run.sh": "python train.py device=cuda\n"})
    (result,) = _results(root / "run.sh").values()
    assert result.output is None


def test_only_files_in_a_folder_are_groups() -> None:
    assert groups.of(["cuda.yaml", "conf/device/cuda.yaml", "conf/device/cuda_big.yaml", "a/nccl.yml"]) == {
        "conf/device/cuda",
        "a/nccl",
    }


def test_without_facts_nothing_is_chosen() -> None:
    result = nonpython.migrate(b"python train.py device=cuda\n", "run.sh", Settings(), project.ProjectFacts())
    assert result.result == b"python train.py device=mlu\n"


def test_the_command_of_a_parity_run_keeps_such_a_word() -> None:
    given = ["python", "train.py", "device=cuda", "--dist-backend", "nccl"]
    wanted = ("python", "train.py", "device=cuda", "--dist-backend", "cncl")
    assert command.migrated(given, Settings(), ["train.py", "conf/device/cuda.yaml"]) == wanted
