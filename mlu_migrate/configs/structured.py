"""
What the keys and values of a YAML, JSON or TOML file say about devices, whatever the format writes around them.

A format hands over leaves: every key and every scalar value with the path that leads to it and its place in the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from mlu_migrate.configs import checks, commandline, packages
from mlu_migrate.configs import vocabulary as words
from mlu_migrate.configs.document import Document
from mlu_migrate.configs.shellwords import Word
from mlu_migrate.model import Safety, Severity

Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Leaf:
    """
    One key or value. ``text[start:end]`` is what stands inside its quotes. ``path`` is the keys and list positions
    from the root, ending with the key itself or the place the value stands at.
    """

    path: Path
    start: int
    end: int
    is_key: bool = False


_ENVIRONMENT_PARENTS = frozenset(
    "env environment environment_variables environment_vars env_vars envs variables containerenv remoteenv buildenv "
    "runtime_env env-vars build_args buildargs args_env conda_env exports pass_env passenv setenv "
    "environment-pass".split()
)
_COMMANDS = frozenset(
    "run script before_script after_script command commands cmd cmds setup entry entrypoint args bash sh install "
    "runargs postcreatecommand poststartcommand exec scripts tasks pre_cmd post_cmd launch launcher program "
    "launch_args job_command before-build before-all test-command addopts pytestargs cmdline jvm_args".split()
)
_IMAGES = frozenset({"image", "container", "images", "docker", "from", "baseimage", "repository"})
_LABELS = frozenset({"labels", "annotations", "matchlabels", "selector", "topics", "keywords"})
_DESCRIBES_KEY = frozenset({"default", "options", "choices", "enum", "value", "values", "const", "example", "examples"})
_CARD = re.compile(r"(?i)(?:[a-z]+[-_:])?(?:[ahvtlpb]\d{2,3}|rtx\w+|nvidia\S*|k80|gpu\.\S+)(?:[-_:]\S*)?")
_LAUNCH_TEXT = re.compile(r"--(?P<key>[\w-]*(?:device|backend)[\w-]*)[= ]+(?P<value>cuda(?::\d+)?|nccl)(?![\w./-])")
_REQUIREMENTS = frozenset(
    "pip python_packages pip_packages pip_requirements python_dependencies py_packages requirements".split()
)
_CARDS_ARE_ASKED = (
    # (a key above, the key, values that ask for nothing)
    (("services",), "gpus", ("0",)),
    (("devices", "reservations"), "capabilities", ()),
    (("hostRequirements",), "gpu", ("false",)),
    (("build",), "gpu", ("false",)),
    (("build",), "cuda", ()),
)
_INTERPOLATED = re.compile(
    r"\$\{(?:oc\.)?env:['\"]?(?P<name>\w+)['\"]?,\s*(?P<q>\\?['\"]?)(?P<value>cuda(?::\d+)?|nccl)(?P=q)\s*\}"
    r"|\$\{(?P<shell>\w+):?-(?P<default>cuda(?::\d+)?|nccl)\}"
)
_COMPARED = re.compile(r"(?P<name>[\w.$-]*)\s*[=!]=\s*(?P<q>\\?['\"])(?P<value>cuda(?::\d+)?|nccl)(?P=q)")
_OF_MATRIX = re.compile(r"\$\{\{\s*matrix\.(?P<name>\w+)\s*\}\}")
_ASSIGNED = re.compile(r"(?P<name>\w+)=(?P<value>\S+)")  # - DEVICE=cuda
_CONTAINER_OPTION = re.compile(r"--gpus(?:[= ][^\s'\"]+)?|--runtime[= ]nvidia\b|(?<![\w-])--nv(?![\w-])")
_OTHER_LIBRARIES = frozenset(
    "xgboost xgb lightgbm lgb lgbm catboost jax tensorflow onnx onnxruntime numba cupy".split()
)


def check(doc: Document, leaves: Iterable[Leaf], *, environment: bool = False) -> None:
    """
    Look at every leaf. ``environment`` is True for a file whose keys are environment variables wherever they stand
    (workflow files).
    """
    all_leaves = list(leaves)
    values = {leaf.path: leaf for leaf in all_leaves if not leaf.is_key}
    argument_lists = _argument_lists(doc, all_leaves)
    names = {
        leaf.path[:-1]: doc.text[leaf.start : leaf.end]
        for leaf in all_leaves
        if not leaf.is_key and leaf.path and leaf.path[-1] == "name"
    }
    for leaf in all_leaves:
        if leaf.is_key:
            _key(doc, leaf, values, environment)
        elif leaf.path[:-1] not in argument_lists:
            _value(doc, leaf, values, names)
    for items in argument_lists.values():
        commandline.check_words(doc, [_word(doc, leaf) for leaf in items])


def name_of(path: Path) -> str | None:
    """The key that a value stands under; for a list's members the key of the list."""
    return next((part for part in reversed(path) if isinstance(part, str)), None)


def _word(doc: Document, leaf: Leaf) -> Word:
    return Word(leaf.start, leaf.end, doc.text[leaf.start : leaf.end])


def _argument_lists(doc: Document, leaves: list[Leaf]) -> dict[Path, list[Leaf]]:
    """Lists that hold one command word by word: ``["python", "train.py", "--device", "cuda"]``."""
    lists: dict[Path, list[Leaf]] = {}
    for leaf in leaves:
        if not leaf.is_key and leaf.path and isinstance(leaf.path[-1], int):
            lists.setdefault(leaf.path[:-1], []).append(leaf)
    found = {}
    for path, items in lists.items():
        texts = [doc.text[leaf.start : leaf.end] for leaf in items]
        options = any(re.fullmatch(r"--?[A-Za-z][\w-]*(?:=.*)?", text) for text in texts)
        if options and not any(re.search(r"\s", text) for text in texts) and name_of(path) != "pip":
            found[path] = items
    return found


def _key(doc: Document, leaf: Leaf, values: dict[Path, Leaf], environment: bool) -> None:
    text = doc.text[leaf.start : leaf.end]
    if text == "nvidia.com/gpu":
        checks.resource(doc, leaf.start, leaf.end, replacement="cambricon.com/mlu")
    elif text.startswith("nvidia.com/"):
        checks.resource(doc, leaf.start, leaf.end)
    elif text.startswith("ghcr.io/") and "cuda" in text:
        doc.add("MLU604", "feature", leaf.start, leaf.end, severity=Severity.ERROR, args={"feature": text})
    elif text.rpartition(".")[2] in words.environment() and "." in text:
        checks.environment_set(doc, leaf.end - len(text.rpartition(".")[2]), leaf.end, None, safe=False)
    elif text in words.environment() or re.fullmatch(r"NCCL_[A-Z0-9_]+", text):
        parent = name_of(leaf.path[:-1])
        value = values.get(leaf.path)
        known = environment or (parent is not None and _is_environment(parent))
        value_text = None if value is None else doc.text[value.start : value.end]
        checks.environment_set(doc, leaf.start, leaf.end, value_text, safe=known)


def _is_environment(parent: str) -> bool:
    lower = parent.lower()
    parts = lower.split(".")  # "terminal.integrated.env.linux"
    return not _ENVIRONMENT_PARENTS.isdisjoint((lower, *parts) if len(parts) > 2 else (lower,)) or lower.endswith(
        ("_env", "-env", "_environment", "_env_vars", "-env-vars", "-environment")
    )


def _value(doc: Document, leaf: Leaf, values: dict[Path, Leaf], names: dict[Path, str]) -> None:
    start, end = leaf.start, leaf.end
    text = doc.text[start:end]
    key = name_of(leaf.path)
    lower = (key or "").lower()
    path = words.TOOLKIT_PATH.search(text)
    if path:
        checks.toolkit_path(doc, start + path.start(), start + path.end())
    if not _LABELS.isdisjoint(str(part).lower() for part in leaf.path[:-1]):
        return
    key = _meaning(leaf.path, key, names)
    _inside_value(doc, start, end)
    if text == "nvidia.com/gpu" and lower in ("key", "resourcename", "resource_name"):
        checks.resource(doc, start, end, replacement="cambricon.com/mlu")
    elif text.startswith("nvidia.com/") and lower == "key":
        checks.resource(doc, start, end)
    elif text.startswith("/dev/nvidia"):
        checks.container_option(doc, start, end)
    elif (
        lower in ("resource_class", "accelerators", "gpu_type", "gputype") or lower.endswith("/gke-accelerator")
    ) and _CARD.fullmatch(text):
        checks.resource(doc, start, end)
    elif text == "nvidia" and lower in ("driver", "runtime", "runtimeclassname", "container_runtime"):
        checks.container_option(doc, start, end)
    elif lower == "uses" and "cuda" in text.lower():
        doc.add("MLU606", "action", start, end, args={"action": text})
    elif text == "MULTI_GPU" and lower == "distributed_type":
        _accelerate(doc, start, end)
    elif _asks_for_cards(doc, leaf, values):
        asked = {"key": name_of(leaf.path) or "", "value": text}
        doc.add("MLU604", "asked", start, end, severity=Severity.ERROR, safety=Safety.MANUAL, args=asked)
    elif words.is_device(text) and "matrix" in leaf.path and _chooses_file(doc, key):
        doc.add("MLU602", "matrix-file", start, end, args={"key": key or "", "value": text})
    elif words.is_device(text) and _is_config_group(leaf):
        doc.add("MLU602", "config-group", start, end, severity=Severity.INFO, args={"key": key or "", "value": text})
    elif checks.torch_name(doc, start, end, key):
        pass
    elif words.WHEELS.fullmatch(text):
        packages.index(doc, start, end)
    elif name_of(leaf.path) in _REQUIREMENTS and isinstance(leaf.path[-1], int):
        dependencies(doc, [leaf])
    elif text in words.environment() and lower == "name":
        beside = values.get((*leaf.path[:-1], "value"))
        checks.environment_set(doc, start, end, None if beside is None else doc.text[beside.start : beside.end])
    elif words.is_device(text) and _is_of_another_library(doc, leaf):
        doc.add("MLU602", "other-library", start, end, severity=Severity.INFO, args={"key": key or "", "value": text})
    elif checks.value(doc, start, end, key):
        pass
    elif lower in _IMAGES or lower.endswith(("image", "image_name", "image_uri", "docker_image")):
        if not checks.image(doc, start, end, loose=lower == "image"):
            commandline.environment_words(doc, start, end)
    elif lower in _COMMANDS or lower.endswith("_commands") or _parent(leaf.path) in ("scripts", "tasks"):
        commandline.check(doc, start, end)
    elif _is_environment(lower) or isinstance(leaf.path[-1] if leaf.path else "", int):
        commandline.environment_words(doc, start, end, passes=_is_environment(lower))
        assigned = _ASSIGNED.fullmatch(doc.text, start, end) if _is_environment(lower) else None
        if assigned is not None and assigned["name"] not in words.environment():
            checks.value(doc, *assigned.span("value"), assigned["name"])
    else:
        _references(doc, start, end)
        _launch_text(doc, start, end)


def _meaning(path: Path, key: str | None, names: dict[Path, str]) -> str | None:
    """The key that says what a value means where its own only says that it is one."""
    if path and path[-1] == "value" and path[:-1] in names:  # {name: DEVICE, value: cuda}
        return names[path[:-1]]
    above = [part for part in path if isinstance(part, str)][:-1]
    if "device_map" in above:
        return "device_map"
    if key in _DESCRIBES_KEY and above and (words.names_device(above[-1]) or words.names_backend(above[-1])):
        return above[-1]
    return key


def _launch_text(doc: Document, start: int, end: int) -> None:
    """Options inside a longer text that no key calls a command: told, not rewritten by itself."""
    for match in _LAUNCH_TEXT.finditer(doc.text, start, end):
        if match.start("value") not in doc.places:
            checks.value(doc, *match.span("value"), None)


def _is_config_group(leaf: Leaf) -> bool:
    """``defaults: [{device: cuda}]`` of hydra names a file, ``device/cuda.yaml``."""
    return leaf.path[:1] == ("defaults",) and len(leaf.path) == 3 and isinstance(leaf.path[1], int)


def _chooses_file(doc: Document, name: str | None) -> bool:
    """Whether a value of a matrix is part of a path or an image's name: ``docker-${{ matrix.device }}/Dockerfile``."""
    for match in _OF_MATRIX.finditer(doc.text):
        if match["name"] == name:
            start = max(doc.text.rfind(space, 0, match.start()) for space in " \t\n'\"=") + 1
            end = re.compile(r"[\s'\"]|\Z").search(doc.text, match.end())
            around = doc.text[start : match.start()] + "x" + doc.text[match.end() : end.start() if end else None]
            if "/" in around or re.search(r"\.[A-Za-z]\w*$", around):
                return True
    return False


def _inside_value(doc: Document, start: int, end: int) -> None:
    """``${oc.env:DEVICE,cuda}``, ``matrix.device == 'cuda'`` and ``--gpus all`` inside a value."""
    for match in _INTERPOLATED.finditer(doc.text, start, end):
        group = "value" if match["name"] else "default"
        checks.value(doc, *match.span(group), match["name"] or match["shell"])
    for match in _COMPARED.finditer(doc.text, start, end):
        name = match["name"].rpartition(".")[2]
        if match["name"].startswith("matrix.") and _chooses_file(doc, name):
            continue
        if match.start("value") not in doc.places and (words.names_device(name) or words.names_backend(name)):
            checks.value(doc, *match.span("value"), name)
    if not re.search(r"\s", doc.text[start:end]):
        return  # one word of a list is looked at with its neighbours
    for match in _CONTAINER_OPTION.finditer(doc.text, start, end):
        checks.container_option(doc, *match.span())


def _asks_for_cards(doc: Document, leaf: Leaf, values: dict[Path, Leaf]) -> bool:
    """Whether a value asks for GPUs in a compose file, a development container or a cog file."""
    key, text = name_of(leaf.path), doc.text[leaf.start : leaf.end]
    for above, name, nothing in _CARDS_ARE_ASKED:
        if key != name or text in nothing or above[0] not in leaf.path:
            continue
        if name == "capabilities":
            device = leaf.path[: leaf.path.index(name)]
            return text == "gpu" and (*device, "driver") not in values
        if above == ("build",):
            return doc.path.rsplit("/", 1)[-1] == "cog.yaml" and leaf.path[0] == "build"
        return True
    return False


def _is_of_another_library(doc: Document, leaf: Leaf) -> bool:
    """Whether a key above, or the file's name, says that the device is not torch's."""
    above = any(str(part).lower() in _OTHER_LIBRARIES for part in leaf.path)
    return above or words.BOOSTING.search(doc.path.rsplit("/", 1)[-1]) is not None


def _parent(path: Path) -> str:
    names = [part for part in path if isinstance(part, str)]
    return names[-2].lower() if len(names) > 1 else ""


def _references(doc: Document, start: int, end: int) -> None:
    """``${oc.env:CUDA_VISIBLE_DEVICES}`` and ``$CUDA_VISIBLE_DEVICES`` inside a value."""
    for match in words.environment_name().finditer(doc.text, start, end):
        before = doc.text[max(start, match.start() - 12) : match.start()]
        if re.search(r"\$(?:[({]|\{oc\.env:|\{env:)?$", before):
            checks.environment_read(doc, match.start(), match.end())


def _accelerate(doc: Document, start: int, end: int) -> None:
    doc.add(
        "MLU604",
        "accelerate",
        start,
        end,
        safety=Safety.UNSAFE,
        args={"value": "MULTI_GPU", "mlu": "MULTI_MLU"},
        replace=((start, end, "MULTI_MLU"),),
    )


def dependencies(doc: Document, leaves: Iterable[Leaf], *, comment: bool = False) -> None:
    """
    Requirements given as members of a list. ``comment`` is True where a member has a line of its own that a comment
    sign can take out.
    """
    items = list(leaves)
    others = [leaf for leaf in items if (row := _row(doc.text[leaf.start : leaf.end])) is None or row.kind != "nvidia"]
    for leaf in items:
        text = doc.text[leaf.start : leaf.end]
        first = re.match(r"(--?[\w-]+)[= ]+", text)
        if first is not None:
            packages.index(doc, leaf.start + first.end(), leaf.end)
            continue
        line = doc.line_start(leaf.start)
        dash = re.compile(r"[ \t]*()-[ \t]+['\"]?").fullmatch(doc.text, line, leaf.start)
        place = dash.start(1) if comment and others and dash else None
        packages.requirement(doc, leaf.start, leaf.end, comment_at=place)


def _row(text: str) -> words.PackageRow | None:
    match = re.match(r"[A-Za-z0-9][\w.-]*", text)
    return words.package(match[0]) if match else None
