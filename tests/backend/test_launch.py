"""Programs on the emulated device: started as plain Python starts them, with the device in all their children."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from _programs import clean

from mlu_backend import SITE, doctor, launch


def start(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """``python -m mlu_backend`` as a user types it, in an environment that knows nothing of the device."""
    env = clean(**variables)
    env["PYTHONPATH"] = os.pathsep.join(p for p in env["PYTHONPATH"].split(os.pathsep) if p != str(SITE))
    return subprocess.run(
        [sys.executable, "-m", "mlu_backend", *arguments],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=240,
    )


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text))
    return path


def test_a_script_sees_what_plain_python_would_show_it(tmp_path: Path) -> None:
    write(tmp_path, "helper.py", "WHERE = __name__")
    write(
        tmp_path,
        "sub/show.py",
        """
        import json, sys, __main__
        seen = [sys.argv, __name__, __main__.__file__, sys.path[0], __builtins__.__name__, sys.flags.interactive]
        print(json.dumps(seen))
        """,
    )
    plain = subprocess.run(
        [sys.executable, "sub/show.py", "--cards", "x"], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    ours = start(tmp_path, "--cards", "2", "sub/show.py", "--cards", "x")
    assert (ours.stdout, ours.stderr, ours.returncode) == (plain.stdout, plain.stderr, 0)


def test_a_module_runs_as_with_dash_m(tmp_path: Path) -> None:
    write(tmp_path, "pkg/__init__.py", "")
    write(
        tmp_path,
        "pkg/__main__.py",
        "import sys, torch, torch_mlu\nprint(sys.argv[1:], __package__, torch.mlu.device_count())",
    )
    done = start(tmp_path, "--cards=3", "-m", "pkg", "a", "-b")
    assert (done.stdout, done.returncode) == ("['a', '-b'] pkg 3\n", 0), done.stderr


def test_a_traceback_shows_the_program_only(tmp_path: Path) -> None:
    write(tmp_path, "bad.py", "def f():\n    raise ValueError('no')\nf()\n")
    done = start(tmp_path, "bad.py")
    assert done.returncode == 1
    assert "mlu_backend" not in done.stderr and done.stderr.startswith("Traceback") and done.stderr.count("File ") == 2


@pytest.mark.parametrize(
    ("code", "status"), [("import sys; sys.exit(7)", 7), ("raise SystemExit('x')", 1), ("import os; os._exit(3)", 3)]
)
def test_exit_codes_come_through(tmp_path: Path, code: str, status: int) -> None:
    write(tmp_path, "leave.py", code)
    assert start(tmp_path, "leave.py").returncode == status
    assert launch.run(["leave.py" if os.getcwd() == str(tmp_path) else str(tmp_path / "leave.py")]) == status


def test_a_program_killed_by_a_signal_says_so(tmp_path: Path) -> None:
    script = write(tmp_path, "die.py", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    assert start(tmp_path, "die.py").returncode == -signal.SIGKILL
    assert launch.run([str(script)]) == 128 + signal.SIGKILL


def test_signals_reach_the_program(tmp_path: Path) -> None:
    script = write(
        tmp_path,
        "wait.py",
        """
        import pathlib, signal, sys, time
        signal.signal(signal.SIGTERM, lambda *a: sys.exit(42))
        pathlib.Path("ready").touch()
        time.sleep(100)
        """,
    )
    code = f"import sys; from mlu_backend import launch; sys.exit(launch.run([{str(script)!r}]))"
    supervisor = subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, env=clean(), stdin=subprocess.DEVNULL)
    for _ in range(600):
        if (tmp_path / "ready").exists():
            break
        time.sleep(0.1)
    supervisor.terminate()
    assert supervisor.wait(60) == 42


def test_all_children_find_the_device(tmp_path: Path) -> None:
    write(
        tmp_path,
        "children.py",
        """
        import multiprocessing, subprocess, sys, torch, torch_mlu
        import torch.multiprocessing as mp
        from torch.utils.data import DataLoader, Dataset

        class OnCard(Dataset):
            def __len__(self):
                return 2
            def __getitem__(self, index):
                return torch.full((1,), float(index), device="mlu").cpu()

        def work(rank, out):
            out[rank] = torch.ones(3, device=f"mlu:{rank}").sum().item()

        if __name__ == "__main__":
            code = "import torch, torch_mlu; print(torch.ones(1, device='mlu').item(), torch.mlu.device_count())"
            print(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip())
            out = torch.zeros(2).share_memory_()
            mp.spawn(work, args=(out,), nprocs=2)
            print(out.tolist())
            # No card has been used here yet, so a forked worker may use one.
            print(torch.cat(list(DataLoader(OnCard(), num_workers=1))).flatten().tolist())
            spawned = DataLoader(OnCard(), num_workers=1, multiprocessing_context="spawn")
            print(torch.cat(list(spawned)).flatten().tolist())
        """,
    )
    done = start(tmp_path, "--cards", "2", "children.py")
    assert done.stdout.splitlines() == ["1.0 2", "[3.0, 3.0]", "[0.0, 1.0]", "[0.0, 1.0]"], done.stderr


def test_torchrun_starts_one_process_a_card(tmp_path: Path) -> None:
    write(
        tmp_path,
        "train.py",
        """
        import os, torch, torch_mlu
        import torch.distributed as dist
        rank = int(os.environ["LOCAL_RANK"])
        torch.mlu.set_device(rank)
        dist.init_process_group("cncl")
        x = torch.full((2,), float(rank + 1), device="mlu")
        dist.all_reduce(x)
        if rank == 0:
            print(x.tolist(), x.device, dist.get_backend(), dist.is_cncl_available())
        dist.destroy_process_group()
        """,
    )
    done = start(tmp_path, "--cards", "2", "--", "torchrun", "--nproc-per-node", "2", "train.py")
    assert "[3.0, 3.0] mlu:0 cncl True" in done.stdout, done.stderr
    assert done.returncode == 0


def test_a_failing_rank_fails_the_command(tmp_path: Path) -> None:
    write(tmp_path, "train.py", "import os, sys; sys.exit(5 if os.environ['RANK'] == '1' else 0)")
    assert start(tmp_path, "--", "torchrun", "--nproc-per-node", "2", "train.py").returncode == 1


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--cards", "many", "x.py"], "--cards needs a number"),
        (["--cards", "17", "x.py"], "between 0 and 16"),
        (["--profile", "mlu999", "x.py"], "--profile must be one of exact, mlu370, mlu590"),
        (["--frobnicate", "x.py"], "unknown option --frobnicate"),
        (["-m"], "-m needs a module name"),
        (["--"], "nothing to run after --"),
        (["--cards", "2"], "nothing to run"),
        (["--", "no-such-program"], "cannot start no-such-program"),
    ],
)
def test_a_wrong_command_line_is_told_and_exits_with_two(
    capsys: pytest.CaptureFixture[str], arguments: list[str], text: str
) -> None:
    assert launch.main(arguments) == 2
    assert text in capsys.readouterr().err


def test_usage_is_shown_when_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert launch.main(["--help"]) == 0
    assert "python -m mlu_backend" in capsys.readouterr().out
    assert launch.main([]) == 2


def test_the_environment_is_added_to_and_not_replaced() -> None:
    env = launch.environment(4, "mlu370", {"A": "1", "PYTHONPATH": f"/x{os.pathsep}/y"})
    assert env["A"] == "1" and env["PYTHONPATH"] == os.pathsep.join([str(SITE), "/x", "/y"])
    assert (env["MLU_EMULATOR_CARDS"], env["MLU_EMULATOR_PROFILE"]) == ("4", "mlu370")
    assert launch.environment(base=env)["PYTHONPATH"] == env["PYTHONPATH"]


def test_an_installed_torch_mlu_wins_in_the_program_and_its_children(tmp_path: Path) -> None:
    write(tmp_path, "installed/torch_mlu/__init__.py", "from torch_mlu.part import WHO\n__version__ = '9'")
    write(tmp_path, "installed/torch_mlu/part.py", "WHO = 'real'")
    write(
        tmp_path,
        "ask.py",
        """
        import subprocess, sys
        import torch_mlu, torch_mlu.part
        print(torch_mlu.WHO, torch_mlu.__version__, hasattr(torch_mlu, "_MLUC"), sys.modules["torch_mlu"] is torch_mlu)
        if len(sys.argv) == 1:
            subprocess.run([sys.executable, __file__, "child"])
        """,
    )
    done = start(
        tmp_path, "ask.py", PYTHONPATH=os.pathsep.join([os.environ.get("PYTHONPATH", ""), str(tmp_path / "installed")])
    )
    assert done.stdout.splitlines() == ["real 9 False True"] * 2, done.stderr


def test_a_folder_that_only_has_the_name_is_no_torch_mlu(tmp_path: Path) -> None:
    (tmp_path / "torch_mlu").mkdir()
    write(tmp_path, "ask.py", "import torch, torch_mlu; print(torch.ones(1, device='mlu').device)")
    assert start(tmp_path, "ask.py").stdout == "mlu:0\n"


def test_importing_the_package_is_enough(tmp_path: Path) -> None:
    code = "import sys, mlu_backend; print('torch' in sys.modules); import torch_mlu, torch; "
    code += "print(torch.ones(1, device='mlu').item())"
    env = clean()
    env["PYTHONPATH"] = os.pathsep.join(p for p in env["PYTHONPATH"].split(os.pathsep) if p != str(SITE))
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120
    )
    assert done.stdout.splitlines() == ["False", "1.0"], done.stderr


def test_support_prints_the_operators_a_program_used(tmp_path: Path) -> None:
    write(tmp_path, "use.py", "import torch, torch_mlu\nprint((torch.ones(2, device='mlu') + 1).sum().item())")
    done = start(tmp_path, "--support=report.json", "use.py")
    assert done.stdout == "4.0\n" and "native" in done.stderr
    names = {row["operator"] for row in json.loads((tmp_path / "report.json").read_text())["operators"]}
    assert any(name.startswith("aten::add") for name in names), names


def test_the_doctor_knows_what_would_be_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import torch

    found = doctor.facts()
    assert found["torch"] == torch.__version__ and found["torch_supported"] is True
    assert found["used"] == "the emulated device" and found["emulator_built"] is True
    json.dumps(found)
    write(tmp_path, "torch_mlu/__init__.py", "")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert doctor.facts()["used"] == "the real torch_mlu"
    monkeypatch.setenv("MLU_EMULATOR_PROFILE", "mlu999")
    assert "invalid" in doctor.facts()["profile"]


def test_the_doctor_says_what_is_missing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from mlu_backend import build

    def nothing() -> str:
        raise build.BuildError("no C++ compiler: install g++")

    monkeypatch.setattr(build, "compiler", nothing)
    monkeypatch.setattr(build, "built", lambda: False)
    found = doctor.facts()
    assert found["compiler"] is None and "install g++" in found["compiler_hint"]
    assert found["used"].startswith("nothing: ")
    assert doctor.main(["--json"]) == 0 and json.loads(capsys.readouterr().out)["compiler"] is None
    assert doctor.main(["--loud"]) == 2
