"""Our torch_mlu against the recorded surface of the real one: every name, in its place, with its signature."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch_mlu

from mlu_backend.surface import table

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

GAPS = tomllib.loads(Path(__file__).with_name("surface_gaps.toml").read_text(encoding="utf-8"))["gap"]
MISSING = object()


def gap(place: str, aspect: str) -> dict[str, str] | None:
    return next((row for row in GAPS if row["name"] == place and row["aspect"] == aspect), None)


def home(module: str) -> Any:
    """The object a table's module stands for."""
    if module == "torch.ops.torch_mlu":
        return torch.ops.torch_mlu
    if module in ("torch.backends.cnnl", "torch.backends.mlufusion"):
        # Attributes only: there is no such module to import (torch_mlu/__init__.py:79-80).
        return importlib.import_module(f"torch_mlu.{module.removeprefix('torch.')}")
    return importlib.import_module(module)


def resolve(owner: Any, dotted: str) -> Any:
    """The attribute, found without calling properties."""
    for part in dotted.split("."):
        if inspect.isclass(owner):
            found = next((vars(cls)[part] for cls in owner.__mro__ if part in vars(cls)), MISSING)
        else:
            found = getattr(owner, part, MISSING)
        if found is MISSING:
            return MISSING
        owner = found
    return owner


def unwrapped(function: Any) -> Any:
    while hasattr(function, "__wrapped__") and not hasattr(function, "__signature__"):
        function = function.__wrapped__
    return function.__func__ if isinstance(function, (classmethod, staticmethod)) else function


def plain_signature(function: Any) -> inspect.Signature:
    """The signature in the source, whatever ``__signature__`` claims."""
    function = unwrapped(function)
    if "__signature__" in getattr(function, "__dict__", {}) and hasattr(function, "__code__"):
        claimed = function.__dict__.pop("__signature__")
        try:
            return inspect.signature(function)
        finally:
            function.__signature__ = claimed
    return inspect.signature(function)


def shape_of(sig: str) -> list[tuple[str, str, Any]]:
    """(name, kind, default) of each parameter of a signature as the table spells it."""
    arguments = ast.parse(f"def f{sig}: pass").body[0].args  # type: ignore[attr-defined]
    plain = [*arguments.posonlyargs, *arguments.args]
    defaults = [MISSING] * (len(plain) - len(arguments.defaults)) + [value(node) for node in arguments.defaults]
    shape = [(arg.arg, "plain", default) for arg, default in zip(plain, defaults, strict=True)]
    if arguments.vararg:
        shape.append((arguments.vararg.arg, "*", MISSING))
    for arg, node in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        shape.append((arg.arg, "keyword", MISSING if node is None else value(node)))
    if arguments.kwarg:
        shape.append((arguments.kwarg.arg, "**", MISSING))
    return shape


def value(node: ast.expr) -> Any:
    from torch.optim.optimizer import required

    names = {"torch": torch, "sys": sys, "required": required}
    result = eval(compile(ast.Expression(node), "signature", "eval"), names)
    return "<function>" if inspect.isfunction(result) else result


def our_shape(function: Any) -> list[tuple[str, str, Any]]:
    kinds = {
        inspect.Parameter.POSITIONAL_ONLY: "plain",
        inspect.Parameter.POSITIONAL_OR_KEYWORD: "plain",
        inspect.Parameter.VAR_POSITIONAL: "*",
        inspect.Parameter.KEYWORD_ONLY: "keyword",
        inspect.Parameter.VAR_KEYWORD: "**",
    }
    shape = []
    for parameter in plain_signature(function).parameters.values():
        default = MISSING if parameter.default is inspect.Parameter.empty else parameter.default
        shape.append((parameter.name, kinds[parameter.kind], "<function>" if inspect.isfunction(default) else default))
    return shape


def module_rows() -> list[tuple[str, dict[str, str]]]:
    return [(module, row) for module, rows in table()["modules"].items() for row in rows]


KINDS = {
    "class": lambda found: inspect.isclass(found) or isinstance(found, classmethod),
    "property": lambda found: not inspect.isfunction(found),
    "method": lambda found: callable(found) or isinstance(found, (staticmethod, classmethod)),
    "context": callable,
}
# Change while a program runs, or when the module is set up.
MOVING = ("_initialized", "_queued_calls", "_cached_device_count", "default_generators")


def faults(module: str) -> list[str]:
    """What of a module's rows is absent or different here, gaps apart."""
    owner, wrong = home(module), []
    for row in table()["modules"][module]:
        place = f"{module}.{row['name']}"
        found = resolve(owner, row["name"].replace(".dst_param", ""))
        if found is MISSING:
            if row["kind"] == "module" and importlib.util.find_spec(place) is not None:
                # Not loaded by `import torch_mlu`, there as well.
                continue
            if gap(place, "missing") is None:
                wrong.append(f"{place} is missing")
            continue
        if not KINDS.get(row["kind"], lambda _: True)(found) and gap(place, "kind") is None:
            wrong.append(f"{place} should be a {row['kind']}, is {found!r}")
        if "sig" in row and row["kind"] not in ("op", "property", "class") and gap(place, "signature") is None:
            if shape_of(row["sig"]) != our_shape(found):
                wrong.append(f"{place}: recorded {row['sig']}, ours {inspect.signature(unwrapped(found))}")
        if row["kind"] == "constant" and "value" in row and row["name"] not in MOVING:
            try:
                expected = ast.literal_eval(row["value"])
            except (ValueError, SyntaxError):
                continue
            if expected != found and gap(place, "kind") is None:
                wrong.append(f"{place} should be {expected!r}, is {found!r}")
    return wrong


# Importing these replaces names in torch, so they are looked at in a process of their own.
MIGRATING = ("torch_mlu.utils.gpu_migration", "torch_mlu.utils.model_transfer")
PLAIN = [module for module in table()["modules"] if not module.startswith(MIGRATING)]


@pytest.mark.parametrize("module", PLAIN)
def test_every_name_of_a_module_is_there_as_recorded(module: str) -> None:
    for sub in table()["modules"]:
        if sub.startswith("torch_mlu.utils.") and sub in PLAIN:
            importlib.import_module(sub)
    assert faults(module) == []


def test_the_migrating_modules_are_there_as_recorded() -> None:
    modules = [module for module in table()["modules"] if module.startswith(MIGRATING)]
    code = f"import mlu_backend, sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import test_surface as t\n"
    code += f"import torch_mlu.utils.gpu_migration\nfor m in {modules!r}: print(*t.faults(m), sep='\\n', end='')"
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=120)
    assert (done.stdout.strip(), done.returncode) == ("", 0), done.stderr


def test_every_operator_has_the_recorded_schema() -> None:
    for row in table()["modules"]["torch.ops.torch_mlu"]:
        name, _, overload = row["name"].partition(".")
        schema = getattr(getattr(torch.ops.torch_mlu, name), overload or "default")._schema
        ours = str(schema).partition("(")[2]
        expected = row["sig"].replace("DeviceIndex", "int").partition("(")[2]
        assert ours.replace("SymInt", "int") == expected, row["name"]


def test_everything_attached_to_torch_is_there() -> None:
    for row in table()["attached"]:
        if gap(f"{row['owner']}.{row['name']}", "missing"):
            continue
        if row["kind"] == "constructor":
            assert torch.Generator(device="mlu").device.type == "mlu"
            continue
        owner: Any = torch
        for part in row["owner"].split(".")[1:]:
            owner = getattr(owner, part)
        found = inspect.getattr_static(owner, row["name"], MISSING)
        if found is MISSING:
            found = getattr(owner, row["name"], MISSING)
        assert found is not MISSING, f"{row['owner']}.{row['name']}"
        if "sig" in row and row["kind"] in ("method", "function"):
            names = [name for name, _, _ in our_shape(found) if name != "self"]
            assert names == [name for name, _, _ in shape_of(row["sig"])], f"{row['owner']}.{row['name']}"


def test_nothing_public_is_offered_that_the_real_one_lacks() -> None:
    """A program that uses such a name would run here and fail on the card."""
    for module in (
        "torch.mlu",
        "torch.mlu.memory",
        "torch.mlu.random",
        "torch.mlu.streams",
        "torch.mlu.graphs",
        "torch.mlu.amp",
    ):
        known = {row["name"].partition(".")[0] for row in table()["modules"][module]}
        ours = home(module)
        extra = {
            name
            for name, found in vars(ours).items()
            if not name.startswith("_")
            and name not in known
            and not inspect.ismodule(found)
            and getattr(found, "__module__", "").startswith(("torch_mlu", "torch.mlu", "mlu_backend"))
        }
        assert extra == set(), module


def test_names_torch_cuda_has_and_mlu_lacks_raise() -> None:
    for name in (
        "get_arch_list",
        "get_gencode_flags",
        "utilization",
        "temperature",
        "power_draw",
        "clock_rate",
        "memory_usage",
        "set_sync_debug_mode",
        "comm",
        "sparse",
        "tunable",
        "gds",
        "jiterator",
        "MemPool",
        "nccl",
        "nvtx",
        "CUDAGraph",
        "cudart",
    ):
        with pytest.raises(AttributeError):
            getattr(torch.mlu, name)


def test_no_gap_is_stale() -> None:
    """A gap that has been closed has to leave the list."""
    known = {f"{module}.{row['name']}": (module, row) for module, row in module_rows()}
    attached = {f"{row['owner']}.{row['name']}" for row in table()["attached"]}
    targets = {row["target"] for row in table()["patches"]}
    for row in GAPS:
        assert row["reason"].strip()
        if row["aspect"] == "patch":
            assert row["name"] in targets, row["name"]
            continue
        if row["aspect"] == "meaning":
            assert row["name"] in known or row["name"] in attached, row["name"]
            continue
        assert row["name"] in known, row["name"]
        module, entry = known[row["name"]]
        if module not in PLAIN:
            continue
        found = resolve(home(module), entry["name"])
        if row["aspect"] == "missing":
            assert found is MISSING, f"{row['name']} is there now"
        elif row["aspect"] == "signature":
            assert found is not MISSING and shape_of(entry["sig"]) != our_shape(found), f"{row['name']} fits now"


def test_every_patch_of_the_import_is_in_place() -> None:
    """
    Targets the real import replaces are replaced here too, or torch 2.13 does the same by itself (a gap row says so).
    """
    left = []
    for row in table()["patches"]:
        target = row["target"]
        if row["phase"] != "import torch_mlu" or gap(target, "patch") or target.endswith(("()", "ProcessGroupCNCL")):
            continue
        if target.startswith("sys.modules["):
            assert target.split("'")[1] in sys.modules
            continue
        owner, _, name = target.removesuffix(".__code__").rpartition(".")
        try:
            place: Any = importlib.import_module(owner)
        except ImportError:
            module, _, cls = owner.rpartition(".")
            place = getattr(importlib.import_module(module), cls)
        found = inspect.getattr_static(place, name, MISSING)
        found = getattr(found, "__func__", found)
        mine = getattr(found, "__module__", None) or type(found).__module__
        globals_of = getattr(found, "__globals__", {}).get("__name__", "")
        if found is MISSING or not (str(mine).startswith("torch_mlu") or globals_of.startswith("torch_mlu")):
            if (
                name in ("mlu", "MLU", "__module__")
                or found is None
                or "torch_mlu" in repr(getattr(found, "__closure__", ""))
            ):
                continue
            left.append(target)
    assert left == []


def test_the_version_has_the_real_form() -> None:
    assert torch_mlu.__version__ == f"1.25.0+torch{torch.__version__.partition('+')[0]}"
    assert torch.version.mlu is None
    assert torch_mlu.get_git_version() == table()["commit"]
