"""
What a command line says about devices: variables, options, back ends, tools, installs, containers and schedulers.

Used for shell scripts, and for the commands in Makefiles, Dockerfiles, workflows, notebooks and Markdown.
"""

from __future__ import annotations

import re

from mlu_migrate.configs import checks, packages, pythoncode
from mlu_migrate.configs import vocabulary as words
from mlu_migrate.configs.document import Document
from mlu_migrate.configs.shellwords import DEPTH, Command, HereDocument, Word, commands

_KEYWORDS = frozenset("if then else elif do while until ! { time sudo exec nohup env command builtin watch @".split())
_SAYS = frozenset("echo printf log logger info warn warning error die print cat read".split())
_EXPORTS = frozenset("export unset declare typeset local readonly printenv setenv env".split())
_PASSES_ON = frozenset({"-e", "--env", "-x", "-v", "-genv", "--env-add", "--export", "-u", "--unset"})
_SHELLS = frozenset("bash sh zsh dash ksh ssh eval su srun sbatch".split())
_CONTAINERS = frozenset("docker podman nerdctl nvidia-docker docker-compose singularity apptainer enroot".split())
_SCHEDULERS = frozenset("srun sbatch salloc qsub bsub".split())
_LAUNCHERS = re.compile(
    r"(?:python|torchrun|accelerate|deepspeed|mpirun|mpiexec|horovodrun|srun|yolo)[\w.]*|.*\.(?:sh|py)"
)
# Programs that know nothing of torch: the words they are given are theirs.
_OTHERS = frozenset(
    "git grep rg find ls cd mkdir cp mv rm ln sed awk tar unzip cat head tail wget curl rsync scp touch chmod tee diff "
    "make cmake ninja gcc g++ clang clang++ ffmpeg ffprobe mpv which type hash source kill pkill tmux screen".split()
)
_PYTHON = re.compile(r"(?:python|pypy|ipython)[\d.]*")
_TESTS = frozenset({"[", "[[", "test"})
_BARE_TOOLS = frozenset(set(words.TOOLS) - {"ncu", "nvcc", "tritonserver", "trtexec"})
_OPTION = re.compile(r"-{1,2}[A-Za-z][\w.-]*")
_PAIR = re.compile(r"[+~]{0,2}([A-Za-z_][\w.@/-]*)=(['\"]?)([^'\"]*)\2")
_COMMA_PAIR = re.compile(r"(?<![^,'\"])([A-Za-z_][\w.]*)=(cuda(?::\d+)?|nccl)(?=[,'\"\s]|$)")
_DEFAULT = re.compile(r"\$\{(\w+):?[-=](['\"]?)(cuda(?::\d+)?|nccl)\2\}")
_VARIABLE = re.compile(r"\$\{?(\w+)|%(\w+)%")
_ENVIRONMENT_OF = re.compile(r"\$(?:[({][#!]?|\?|[Ee]nv:|\{[Ee]nv:)?$")
_UNLISTED = re.compile(r"(?<![A-Za-z0-9_])NCCL_[A-Z0-9_]+(?==)")
_SCHEDULER_OPTION = re.compile(
    r"--(?:gres|gpus(?:-per-\w+)?|gpus-bind|gpu-bind|gpu-freq|tres-per-\w+|tres-bind)(?:=|$)|-G\d*$|-gpu$"
)
_COUNTED = frozenset({"--gres", "--tres-per-node", "--tres-per-task", "--tres-per-job", "--tres-bind"})
_MODULE = re.compile(r"(?:cuda|cudnn|nccl|nvhpc|cudatoolkit)(?:[/.\d-].*)?", re.IGNORECASE)
_SYSTEM_INSTALLS = frozenset("apt apt-get yum dnf zypper apk microdnf".split())
_CONDAS = frozenset("conda mamba micromamba".split())
_TAKES_ADDRESS = frozenset({"-f", "--find-links", "-i", "--index-url", "--extra-index-url", "--index"})
_TAKES_VALUE = frozenset({"-n", "--name", "-c", "--channel", "-r", "-p", "--prefix", "-t", "--target", "--requirement"})


def check(doc: Document, start: int, end: int) -> None:
    """Look at every command in ``doc.text[start:end]``."""
    subject: str | None = None  # the variable that a ``case`` looks at
    for item in commands(doc.text, start, end):
        if isinstance(item, HereDocument):
            _heredoc(doc, item)
            continue
        first = item.words[0].raw
        if first == "case" and len(item.words) > 1:
            variable = _VARIABLE.search(item.words[1].raw)
            subject = variable[1] if variable else None
        elif first == "esac":
            subject = None
        _command(doc, item, subject)


def check_words(doc: Document, items: list[Word]) -> None:
    """Look at one command whose words were split by another format (a list in YAML or JSON)."""
    if items:
        _command(doc, Command(items))


def scheduler_words(doc: Document, items: list[Word]) -> None:
    """MLU604 for the options of a batch system, on a command line or an ``#SBATCH`` line."""
    for index, word in enumerate(items):
        if _SCHEDULER_OPTION.match(word.raw):
            following = items[index + 1].raw if index + 1 < len(items) else ""
            option, _, value = word.raw.partition("=")
            if option in _COUNTED and "gpu" not in (value or following):
                continue
            checks.resource(doc, word.start, word.end)


def environment_words(doc: Document, start: int, end: int, *, says: bool = False, passes: bool = False) -> None:
    """MLU601 for every known name inside one word."""
    text = doc.text
    for match in words.environment_name().finditer(text, start, end):
        first, last = match.span()
        lead = text[max(start, first - 6) : first]
        if _ENVIRONMENT_OF.search(lead) or (lead.endswith("%") and text[last : last + 1] == "%"):
            checks.environment_read(doc, first, last)
        elif text[last : last + 1] == "=" or text[last : last + 2] == "+=":
            equals = text.index("=", last)
            checks.environment_set(doc, first, last, _assigned(text, equals + 1, end), safe=not says)
        elif (first, last) == (start, end):
            checks.environment_set(doc, first, last, None, safe=passes)
        elif re.match(r"\\?[\"']\s*:", text[last : last + 4]) and text[first - 1 : first] in ("'", '"'):
            checks.environment_set(doc, first, last, None, safe=not says)  # JSON in a word
    for match in _UNLISTED.finditer(text, start, end):
        if match[0] not in words.environment() and not says:
            checks.environment_set(doc, match.start(), match.end(), None)


def _assigned(text: str, start: int, end: int) -> str | None:
    match = re.compile(r"(['\"]?)([^'\"\s]*)\1").match(text, start, end)
    value = match[2] if match else None
    return None if value is None or "$" in value or "`" in value else value


def _heredoc(doc: Document, item: HereDocument) -> None:
    program = _strip(item.command.arguments)
    name = _basename(program[0]) if program else ""
    target = next((w.value for w in reversed(item.command.words) if re.search(r"(?:^|[\w/])\.\w+$|file$", w.value)), "")
    writes = item.command.redirected or name == "tee"
    if _PYTHON.fullmatch(name) or (writes and re.search(r"\.py[iw]?$", target)):
        pythoncode.check(doc, item.start, item.end, literal=not item.expands)
        return
    if name in _SHELLS or not item.command.words:
        if doc.depth < DEPTH:
            doc.depth += 1
            check(doc, item.start, item.end)
            doc.depth -= 1
        return
    if writes and target and doc.embed is not None and doc.embed(target, item.start, item.end):
        return
    for match in words.environment_name().finditer(doc.text, item.start, item.end):
        before = doc.text[max(item.start, match.start() - 2) : match.start()]
        if item.expands and before.endswith(("$", "${")):
            checks.environment_read(doc, match.start(), match.end())
        elif doc.text[match.end() : match.end() + 1] == "=":
            checks.environment_set(doc, match.start(), match.end(), None, safe=False)


def _command(doc: Document, command: Command, subject: str | None = None) -> None:
    arguments = _strip(command.arguments)
    program = _basename(arguments[0]) if arguments else ""
    lists_options = bool(arguments) and _OPTION.match(arguments[0].raw) is not None
    rest = arguments if lists_options else arguments[1:]  # a list of options has no program
    says = program in _SAYS
    if program in ("setenv", "set"):
        _setenv(doc, program, rest)
    previous = ""
    for word in command.words:
        if not (previous == "-c" and _PYTHON.fullmatch(program)) and not _recurse(doc, word, says):
            passes = program in _EXPORTS or previous in _PASSES_ON or _is_option(word, command.words)
            passes = passes or (program == "set" and _set_target(rest) is word)
            start, end = word.inner
            environment_words(doc, start, end, says=says, passes=passes)
        name = word.assigns
        if name is not None and name not in words.environment():
            _assignment(doc, word, name)
        if not says:
            for match in _DEFAULT.finditer(word.raw):
                own = name if name is not None and not _says_meaning(match[1]) else match[1]
                if _OPTION.fullmatch(previous) and _says_meaning(previous) and not _says_meaning(own):
                    own = previous
                checks.value(doc, word.start + match.start(3), word.start + match.end(3), own)
            path = words.TOOLKIT_PATH.search(word.raw)
            if path:
                checks.toolkit_path(doc, word.start + path.start(), word.start + path.end())
        previous = word.raw
    if says or not arguments:
        return
    if _is_pattern(doc, arguments):
        start, end = arguments[0].inner
        if not checks.value(doc, start, end, subject):
            checks.pattern(doc, start, end, subject)
        return
    _tools(doc, program, arguments)
    installs = _installs(doc, program, rest)
    if lists_options:
        _container_options(doc, arguments)
    if program == "module" or program == "ml":
        _modules(doc, program, rest)
    elif program in _CONTAINERS:
        _container(doc, program, arguments)
    if program in _SCHEDULERS:
        scheduler_words(doc, rest)
    if not installs and program not in ("module", "ml"):
        _options(doc, program, rest)


def _strip(arguments: list[Word]) -> list[Word]:
    """The command after shell keywords and wrappers such as ``sudo``, with their assignments."""
    index = 0
    while index < len(arguments):
        word = arguments[index]
        value = word.value.lstrip("@-") if index == 0 and word.raw.startswith(("@", "-")) else word.value
        if value in _KEYWORDS or (index and word.assigns is not None and not word.quoted):
            index += 1
        elif index and word.raw.startswith("-") and arguments[0].value in ("sudo", "watch", "env", "time"):
            index += 1
        else:
            break
    return arguments[index:]


def _basename(word: Word) -> str:
    return word.value.rsplit("/", 1)[-1].lstrip("@-")


def _is_option(word: Word, items: list[Word]) -> bool:
    """``[ -v NAME ]`` and ``read NAME``: the name is a variable there."""
    return bool(items) and items[0].raw in ("read", "mapfile") and word is not items[0]


def _is_pattern(doc: Document, arguments: list[Word]) -> bool:
    """A branch of ``case``: one word with a closing parenthesis behind it."""
    word = arguments[0]
    device = words.is_device(word.value) or words.DEVICE_PATTERN.fullmatch(word.value) is not None
    return len(arguments) == 1 and doc.text[word.end : word.end + 1] in (")", "|") and device


def _setenv(doc: Document, program: str, rest: list[Word]) -> None:
    """``setenv NAME value`` and ``set name = value`` of the C shell, ``set -gx NAME value`` of fish."""
    target = rest[0] if program == "setenv" and rest else _set_target(rest)
    if target is None:
        return
    if program == "set" and target.value.startswith("NCCL_") and target.value not in words.environment():
        checks.environment_set(doc, *target.inner, None)
    if target.value in words.environment():
        return
    for word in rest[rest.index(target) + 1 :]:
        if word.raw != "=":
            checks.value(doc, *word.inner, target.value)


def _set_target(rest: list[Word]) -> Word | None:
    """The variable that ``set`` gives a value to, None where it does something else (``set -euo pipefail``)."""
    names = [word for word in rest if not re.match(r"[-+]", word.raw)]
    plain = bool(names) and re.fullmatch(r"[A-Za-z_]\w*", names[0].raw) is not None
    return names[0] if plain and (len(names) > 1 or (rest[0] is not names[0] and "o" not in rest[0].raw)) else None


def _says_meaning(name: str) -> bool:
    return words.names_device(name) or words.names_backend(name)


def meaning(doc: Document, name: str) -> str:
    """
    What a variable of a script is used for: itself, or the option that it is handed to (``--device $d``) when its own
    name says nothing.
    """
    if _says_meaning(name) or len(name) > 40:
        return name
    used = re.search(
        rf"--?([\w-]*(?:device|backend)[\w-]*)[= \t]+['\"]?(?:\$[({{]?{re.escape(name)}\b|%{re.escape(name)}%"
        rf"|\{{\{{\s*\.?{re.escape(name)}\b)",
        doc.text,
    )
    return used[1] if used else name


def _recurse(doc: Document, word: Word, says: bool) -> bool:
    """Look into a quoted command line such as ``ARGS="--device cuda"`` or ``bash -c "..."``."""
    if says:
        return False
    offset = word.start
    name = word.assigns
    if name is not None:
        offset = doc.text.index("=", word.start) + 1
    inner = Word(offset, word.end, doc.text[offset : word.end])
    start, end = inner.inner
    if not inner.quoted or not re.search(r"\s", doc.text[start:end].strip()):
        return False
    body = doc.text[start:end]
    if not (re.search(r"(?:^|\s)-{1,2}[A-Za-z]", body) or re.search(r"(?:^|[\s;])[A-Z_][A-Z0-9_]*=", body)):
        return False
    check(doc, start, end)
    return True


def _assignment(doc: Document, word: Word, name: str) -> None:
    offset = doc.text.index("=", word.start) + 1
    value = Word(offset, word.end, doc.text[offset : word.end])
    start, end = value.inner
    known = doc.text[start:end]
    if words.is_device(known) or words.is_backend(known):
        name = meaning(doc, name)
    if start < end and not checks.value(doc, start, end, name):
        checks.image(doc, start, end)


def _tools(doc: Document, program: str, arguments: list[Word]) -> None:
    first = arguments[0]
    if program in words.TOOLS:
        start, end = first.inner
        at = doc.text.rindex(program, start, end)
        checks.tool(doc, at, at + len(program), program)
    elif program == "nvidia-docker":
        checks.container_option(doc, first.start, first.end)
    if _install_words(program, arguments[1:]) is not None:
        return
    for word in arguments[1:]:
        value = word.value.rsplit("/", 1)[-1]
        if value in _BARE_TOOLS or (value == "nvcc" and program in ("which", "command", "type", "hash")):
            checks.tool(doc, word.inner[0], word.inner[1], value)


def _install_words(program: str, rest: list[Word]) -> list[Word] | None:
    """The words after ``install``, None when the command installs nothing."""
    values = [word.value for word in rest]
    if _PYTHON.fullmatch(program) and values[:2] in (["-m", "pip"], ["-m", "uv"]):
        return _install_words("pip", rest[2:])
    if program == "uv" and values[:1] == ["pip"]:
        return _install_words("pip", rest[1:])
    if re.fullmatch(r"pip[\d.]*|%pip", program) or program in _CONDAS or program in _SYSTEM_INSTALLS:
        for index, word in enumerate(values):
            if word in ("install", "create", "download", "wheel", "add"):
                return rest[index + 1 :]
        return None
    if program in ("uv", "poetry", "pdm", "pipenv", "rye") and values[:1] and values[0] in ("add", "install"):
        return rest[1:]
    return None


def _installs(doc: Document, program: str, rest: list[Word]) -> bool:
    items = _install_words(program, rest)
    if items is None:
        return False
    previous = ""
    for word in items:
        start, end = word.inner
        if previous in _TAKES_ADDRESS:
            packages.index(doc, start, end)
        elif word.raw.startswith("--") and "=" in word.value:
            packages.index(doc, doc.text.index("=", start) + 1, end)
        elif previous not in _TAKES_VALUE and not word.raw.startswith(("-", "$", ".", "/")):
            packages.requirement(doc, start, end, system=program in _SYSTEM_INSTALLS)
        previous = word.raw
    return True


def _modules(doc: Document, program: str, rest: list[Word]) -> None:
    values = [word.value for word in rest]
    if program == "module" and values[:1] and values[0] not in ("load", "add", "switch", "swap"):
        return
    for word in rest:
        if _MODULE.fullmatch(word.value):
            doc.add("MLU606", "module", word.inner[0], word.inner[1], args={"module": word.value})


def _container(doc: Document, program: str, arguments: list[Word]) -> None:
    values = [word.value for word in arguments]
    for index, word in enumerate(arguments[1:], 1):
        value, before = word.value, values[index - 1]
        if value == "--gpus" or value.startswith("--gpus="):
            checks.container_option(doc, word.start, word.end)
        elif value == "--runtime=nvidia" or (before == "--runtime" and value == "nvidia"):
            checks.container_option(doc, word.start, word.end)
        elif value == "--nv" and program in ("singularity", "apptainer"):
            checks.container_option(doc, word.start, word.end)
        elif re.search(r"/dev/nvidia|nvidia\.com/gpu", value):
            checks.container_option(doc, word.start, word.end)
        elif not word.raw.startswith("-"):
            checks.image(doc, *word.inner)


def _container_options(doc: Document, items: list[Word]) -> None:
    """``["--gpus", "all"]``: options for a container whose program is named elsewhere."""
    for word, following in zip(items, [*items[1:], items[-1]], strict=False):
        if word.value == "--gpus" and (following.value == "all" or "device=" in following.value):
            checks.container_option(doc, word.start, word.end)
        elif word.value in ("--gpus=all", "--runtime=nvidia") or (word.value, following.value) == (
            "--runtime",
            "nvidia",
        ):
            checks.container_option(doc, word.start, word.end)


def _options(doc: Document, program: str, rest: list[Word]) -> None:
    """Values of options, of ``key=value`` words, and bare ``cuda`` where a program may take it as a device."""
    if program in _OTHERS and program != "make":
        return
    takes_bare = _LAUNCHERS.fullmatch(program) is not None or program in doc.functions  # `train cuda:1`
    about = ""
    if program in _TESTS or program == "for":
        variables = [m[1] or m[2] for word in rest for m in _VARIABLE.finditer(word.raw)]
        if program == "for" and rest:
            variables = [meaning(doc, rest[0].value)]
        about = next((name for name in variables if words.names_device(name) or words.names_backend(name)), "")
        takes_bare = bool(about)
    previous: Word | None = None
    for word in rest:
        start, end = word.inner
        pair = _PAIR.fullmatch(word.value) if not word.raw.startswith("-") else None
        script = previous is not None and previous.raw == "-c"
        if _PYTHON.fullmatch(program) and (
            script or doc.text[max(0, word.start - 4) : word.start].rstrip().endswith("<<<")
        ):
            quote = word.raw[0] if word.quoted else ""
            pythoncode.check(doc, start, end, quote=quote, literal=quote == "'")
        elif word.raw.startswith("-") and "=" in word.value:
            key, _, text = word.value.partition("=")
            _option_value(doc, end - len(text), end, key, program)
        elif pair is not None and (word.assigns is None or word.assigns not in words.environment()):
            offset = start + pair.start(3)
            if offset not in doc.places:
                _pair_value(doc, offset, start + pair.end(3), pair[1].rsplit(".", 1)[-1])
        elif previous is not None and _OPTION.fullmatch(previous.value):
            _option_value(doc, start, end, previous.value, program)
        elif takes_bare and (words.is_device(word.value) or (about and words.is_backend(word.value))):
            checks.value(doc, start, end, about or None)
        elif about and program in _TESTS and checks.pattern(doc, start, end, about):
            pass
        elif (program == "for" or program in _TESTS) and words.is_device(word.value):
            checks.value(doc, start, end, None)
        previous = word


def _option_value(doc: Document, start: int, end: int, key: str, program: str) -> None:
    if program in _CONTAINERS and not (words.names_device(key) or words.names_backend(key)):
        return
    text = doc.text[start:end]
    if len(text) >= 2 and text[0] in "'\"" and text[-1] == text[0]:
        start, end = start + 1, end - 1
    _pair_value(doc, start, end, key)


def _pair_value(doc: Document, start: int, end: int, key: str) -> None:
    """A value, or several of ``name=value`` with commas between them."""
    if not checks.value(doc, start, end, key):
        for pair in _COMMA_PAIR.finditer(doc.text, start, end):
            checks.value(doc, *pair.span(2), pair[1])
