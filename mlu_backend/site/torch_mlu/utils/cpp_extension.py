"""
Extensions in C++ and BangC.

C++ sources are built and loaded for real, against the installed torch. Kernel files (``.mlu``) need Cambricon's
compiler ``cncc``: without a toolkit they raise EnvironmentError, as on a machine that lacks it. The library
``torch_mlu`` that real extensions link against does not exist here and is left out of the link line.
"""

from __future__ import annotations

import os
import re
import shutil
import sysconfig
from pathlib import Path
from typing import Any

import setuptools
import torch
from torch.utils import cpp_extension as theirs

from torch_mlu.utils import _ninja

__all__ = ["BuildExtension", "MLUExtension", "include_paths", "library_paths", "load", "load_inline"]

COMMON_BANG_CFLAGS = ["-fPIC", "-O3", "-std=c++17", "--no-neuware-version-check"]
COMMON_FLAGS = ["-O3", "-Wall", "-fPIC", "-std=c++17", "-pthread"]
DEFAULT_NEUWARE = "/usr/local/neuware_home"
ARCHITECTURES = {"3.0": "compute_30", "5.0": "compute_50", "6.0": "compute_60"}


def get_pytorch_dir() -> str:
    """The folder of the installed torch."""
    return str(Path(torch.__file__).resolve().parent)


pytorch_dir = get_pytorch_dir()


def _prepare_ldflags(extra_ldflags: list[str], with_bang: bool, verbose: bool, is_standalone: bool) -> list[str]:
    """``extra_ldflags`` with torch's libraries, and the toolkit's when kernels are in it."""
    flags = list(extra_ldflags)
    for folder in theirs.library_paths():
        flags += [f"-L{folder}", f"-Wl,-rpath,{folder}"]
    flags += ["-lc10", "-ltorch_cpu", "-ltorch"]
    if not is_standalone:
        flags.append("-ltorch_python")
    if with_bang:
        flags += [f"-L{_join_neuware_home('lib64')}", "-lcnrt", "-lcndrv"]
    if verbose:
        print(f"Link flags: {' '.join(flags)}")
    return flags


def _find_neuware_home() -> str:
    """
    NEUWARE_HOME, else the toolkit ``cncc`` on PATH belongs to, else the usual folder; EnvironmentError without any.
    """
    home = os.environ.get("NEUWARE_HOME")
    if home is None:
        compiler = shutil.which("cncc")
        home = str(Path(compiler).resolve().parent.parent) if compiler else DEFAULT_NEUWARE
    if not os.path.isdir(home):
        raise OSError("NEUWARE_HOME environment variable is not set. Please set it to your neuware install root.")
    return home


def _is_mlu_file(path: str) -> bool:
    """Whether ``path`` is a BangC kernel file."""
    return os.path.splitext(path)[1] == ".mlu"


def _join_neuware_home(*paths: str) -> str:
    """A path below the toolkit; EnvironmentError without one."""
    return os.path.join(_find_neuware_home(), *paths)


def include_paths() -> list[str]:
    """Folders with headers: torch's, and the toolkit's where there is one. Takes no argument, unlike CUDA's."""
    return [*theirs.include_paths(), *_toolkit("include")]


def library_paths() -> list[str]:
    """Folders with libraries: torch's, and the toolkit's where there is one. Takes no argument, unlike CUDA's."""
    return [*theirs.library_paths(), *_toolkit("lib64")]


def _toolkit(folder: str) -> list[str]:
    try:
        return [_join_neuware_home(folder)]
    except OSError:
        return []


def _write_ninja_file_and_compile_objects(
    sources: list[str],
    objects: list[str],
    cflags: list[str],
    post_cflags: list[str],
    bang_cflags: list[str],
    bang_post_cflags: list[str],
    build_directory: str,
    verbose: bool,
    with_bang: bool | None,
) -> None:
    """Compile ``sources`` to ``objects`` without linking."""
    kernels = any(map(_is_mlu_file, sources)) if with_bang is None else with_bang
    path = os.path.join(build_directory, "build.ninja")
    _write_ninja_file(path, cflags, post_cflags, bang_cflags, bang_post_cflags, sources, objects, None, None, kernels)
    theirs._run_ninja_build(build_directory, verbose, "Error compiling objects for extension")


def load(
    name: str,
    sources: str | list[str],
    extra_cflags: list[str] | None = None,
    extra_bang_cflags: list[str] | None = None,
    extra_ldflags: list[str] | None = None,
    extra_include_paths: list[str] | None = None,
    build_directory: str | None = None,
    verbose: bool = False,
    with_bang: bool | None = None,
    is_python_module: bool = True,
    is_standalone: bool = False,
    keep_intermediates: bool = True,
) -> Any:
    """
    Build an extension now and load it.

    ``with_bang`` None: kernels are compiled if ``sources`` has ``.mlu`` files. Returns the module, or the library's
    path (also loaded into torch.ops) without ``is_python_module``, or the program's path with ``is_standalone``.
    RuntimeError when compiling fails, EnvironmentError for kernels without a toolkit.
    """
    return _jit_compile(
        name,
        [sources] if isinstance(sources, str) else sources,
        extra_cflags,
        extra_bang_cflags,
        extra_ldflags,
        extra_include_paths,
        build_directory or theirs._get_build_directory(name, verbose),
        verbose,
        with_bang,
        is_python_module,
        is_standalone,
        keep_intermediates,
    )


def load_inline(
    name: str,
    cpp_sources: str | list[str],
    bang_sources: str | list[str] | None = None,
    functions: Any = None,
    extra_cflags: list[str] | None = None,
    extra_bang_cflags: list[str] | None = None,
    extra_ldflags: list[str] | None = None,
    extra_include_paths: list[str] | None = None,
    build_directory: str | None = None,
    verbose: bool = False,
    with_bang: bool | None = None,
    is_python_module: bool = True,
    with_pytorch_error_handling: bool = True,
    keep_intermediates: bool = True,
    use_pch: bool = False,
) -> Any:
    """
    Build an extension from source texts. ``functions``: names, or a mapping of names to docstrings, to bind.

    ``use_pch`` is accepted and makes no difference.
    """
    folder = build_directory or theirs._get_build_directory(name, verbose)
    cpp = [cpp_sources] if isinstance(cpp_sources, str) else list(cpp_sources)
    bang = [bang_sources] if isinstance(bang_sources, str) else list(bang_sources or [])
    cpp.insert(0, "#include <torch/extension.h>")
    if functions is not None:
        cpp.append(_bindings(functions, with_pytorch_error_handling))
    sources = [_write(os.path.join(folder, "main.cpp"), "\n".join(cpp))]
    if bang:
        sources.append(_write(os.path.join(folder, "bang.mlu"), "\n".join(bang)))
    return _jit_compile(
        name,
        sources,
        extra_cflags,
        extra_bang_cflags,
        extra_ldflags,
        extra_include_paths,
        folder,
        verbose,
        with_bang,
        is_python_module,
        False,
        keep_intermediates,
    )


def _bindings(functions: Any, handle_errors: bool) -> str:
    if isinstance(functions, str):
        functions = [functions]
    described = functions if isinstance(functions, dict) else {function: function for function in functions}
    lines = ["PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {"]
    for function, text in described.items():
        target = f"torch::wrap_pybind_function({function})" if handle_errors else function
        lines.append(f'  m.def("{function}", {target}, "{text}");')
    return "\n".join([*lines, "}"])


def _write(path: str, text: str) -> str:
    """Write ``text`` unless it is there already, so that nothing is compiled again for no reason."""
    file = Path(path)
    if not file.is_file() or file.read_text(encoding="utf-8") != text:
        file.write_text(text, encoding="utf-8")
    return path


def _jit_compile(
    name: str,
    sources: list[str],
    extra_cflags: list[str] | None,
    extra_bang_cflags: list[str] | None,
    extra_ldflags: list[str] | None,
    extra_include_paths: list[str] | None,
    build_directory: str,
    verbose: bool,
    with_bang: bool | None,
    is_python_module: bool,
    is_standalone: bool,
    keep_intermediates: bool = True,
) -> Any:
    """Build if sources or flags changed since the last build in ``build_directory``, under a lock, then load."""
    from torch.utils.file_baton import FileBaton

    if is_python_module and is_standalone:
        raise ValueError("`is_python_module` and `is_standalone` are mutually exclusive.")
    kernels = any(map(_is_mlu_file, sources)) if with_bang is None else with_bang
    if kernels:
        _find_neuware_home()
    old = theirs.JIT_EXTENSION_VERSIONER.get_version(name)
    version = theirs.JIT_EXTENSION_VERSIONER.bump_version_if_changed(
        name,
        sources,
        build_arguments=[extra_cflags, extra_bang_cflags, extra_ldflags, extra_include_paths],
        build_directory=build_directory,
        with_cuda=False,
        with_sycl=False,
        is_python_module=is_python_module,
        is_standalone=is_standalone,
    )
    if version > 0:
        name = f"{name}_v{version}"
    baton = FileBaton(os.path.join(build_directory, "lock"))
    if not baton.try_acquire():
        baton.wait()
    else:
        try:
            if version != old:
                _write_ninja_file_and_build_library(
                    name,
                    sources,
                    extra_cflags or [],
                    extra_bang_cflags or [],
                    extra_ldflags or [],
                    extra_include_paths or [],
                    build_directory,
                    verbose,
                    kernels,
                    is_standalone,
                )
                if not keep_intermediates:
                    for left in Path(build_directory).glob("*.o"):
                        left.unlink()
        finally:
            baton.release()
    if is_standalone:
        return os.path.join(build_directory, name)
    return theirs._import_module_from_library(name, build_directory, is_python_module)


def _write_ninja_file_and_build_library(
    name: str,
    sources: list[str],
    extra_cflags: list[str],
    extra_bang_cflags: list[str],
    extra_ldflags: list[str],
    extra_include_paths: list[str],
    build_directory: str,
    verbose: bool,
    with_bang: bool | None,
    is_standalone: bool = False,
) -> None:
    """Compile and link one library (or program)."""
    theirs.verify_ninja_availability()
    kernels = any(map(_is_mlu_file, sources)) if with_bang is None else with_bang
    _write_ninja_file_to_build_library(
        os.path.join(build_directory, "build.ninja"),
        name,
        sources,
        extra_cflags,
        extra_bang_cflags,
        _prepare_ldflags(extra_ldflags, kernels, verbose, is_standalone),
        extra_include_paths,
        kernels,
        is_standalone,
    )
    theirs._run_ninja_build(build_directory, verbose, f"Error building extension '{name}'")


def _write_ninja_file_to_build_library(
    path: str,
    name: str,
    sources: list[str],
    extra_cflags: list[str],
    extra_bang_cflags: list[str],
    extra_ldflags: list[str],
    extra_include_paths: list[str],
    with_bang: bool,
    is_standalone: bool,
) -> None:
    """The ninja file of one library."""
    includes = [f"-I{os.path.abspath(folder)}" for folder in extra_include_paths]
    system = [f"-isystem {folder}" for folder in (*include_paths(), sysconfig.get_path("include"))]
    defines = [] if is_standalone else [f"-DTORCH_EXTENSION_NAME={name}", "-DTORCH_API_INCLUDE_EXTENSION_H"]
    cflags = [*defines, *includes, *system, *_flags_for_this_torch(extra_cflags), *extra_cflags]
    bang_cflags: list[str] = []
    if with_bang:
        bang_cflags = [*defines, *includes, *system, *COMMON_BANG_CFLAGS, *_get_bang_arch_flags(extra_bang_cflags)]
        bang_cflags += extra_bang_cflags
    objects = [
        f"{Path(source).stem}.{'bang.' if _is_mlu_file(source) else ''}{number}.o"
        for number, source in enumerate(sources)
    ]
    target = name if is_standalone else f"{name}{theirs.LIB_EXT}"
    ldflags = extra_ldflags if is_standalone else ["-shared", *extra_ldflags]
    _write_ninja_file(path, cflags, [], bang_cflags, [], sources, objects, ldflags, target, with_bang)


def _flags_for_this_torch(extra_cflags: list[str]) -> list[str]:
    """COMMON_FLAGS, with the language standard the headers of torch 2.13 need in place of C++17."""
    if any(flag.startswith("-std=") for flag in extra_cflags):
        return [flag for flag in COMMON_FLAGS if not flag.startswith("-std=")]
    return ["-std=c++20" if flag.startswith("-std=") else flag for flag in COMMON_FLAGS]


def _write_ninja_file(
    path: str,
    cflags: list[str],
    post_cflags: list[str],
    bang_cflags: list[str],
    bang_post_cflags: list[str],
    sources: list[str],
    objects: list[str],
    ldflags: list[str] | None,
    library_target: str | None,
    with_bang: bool,
) -> None:
    """Rules and edges for ``sources`` to ``objects``, and to ``library_target`` when there is one."""
    compiler = _join_neuware_home("bin", "cncc") if with_bang else None
    text = _ninja.text(
        cxx=theirs.get_cxx_compiler(),
        cncc=compiler,
        cflags=[*cflags, *post_cflags],
        bang_cflags=[*bang_cflags, *bang_post_cflags],
        edges=[
            (os.path.abspath(source), target, _is_mlu_file(source))
            for source, target in zip(sources, objects, strict=True)
        ],
        ldflags=ldflags,
        target=library_target,
    )
    _write(path, text)


def _get_bang_arch_flags(cflags: list[str] | None = None) -> list[str]:
    """
    Architecture flags: those in ``cflags`` if there are any, else of ``TORCH_BANG_ARCH_LIST``, else of the visible
    card.

    ValueError for an architecture other than 3.0, 5.0 and 6.0.
    """
    if any("bang-arch" in flag or "bang-mlu-arch" in flag for flag in cflags or ()):
        return []
    listed = os.environ.get("TORCH_BANG_ARCH_LIST")
    if listed:
        flags = []
        for arch in filter(None, re.split(r"[;\s]+", listed)):
            if arch not in ARCHITECTURES:
                raise ValueError(f"Unknown BANG arch ({arch}) or MLU not supported")
            flags.append(f"--bang-arch={ARCHITECTURES[arch]}")
        return sorted(set(flags))
    isa = torch.mlu.get_device_properties(torch.mlu.current_device()).isa_version
    return [f"--bang-mlu-arch=mtp_{isa}"]


def MLUExtension(name: str, sources: list[str], *args: Any, **kwargs: Any) -> setuptools.Extension:
    """
    A ``setuptools.Extension`` with torch's headers and libraries; ``extra_compile_args`` has keys ``cxx`` and ``cncc``.
    """
    kwargs["include_dirs"] = [*kwargs.get("include_dirs", []), *include_paths()]
    kwargs["library_dirs"] = [*kwargs.get("library_dirs", []), *library_paths()]
    kwargs["libraries"] = [*kwargs.get("libraries", []), "c10", "torch", "torch_cpu", "torch_python"]
    kwargs["language"] = "c++"
    return setuptools.Extension(name, sources, *args, **kwargs)


class BuildExtension(theirs.BuildExtension):
    """setuptools' ``build_ext`` for extensions made with :func:`MLUExtension`."""

    @classmethod
    def with_options(cls, **options: Any) -> type[BuildExtension]:
        """The class with constructor arguments already given, for ``cmdclass``."""

        class Prepared(cls):  # type: ignore[misc, valid-type]
            def __init__(self, *args: Any, **kwargs: Any) -> None:
                super().__init__(*args, **{**kwargs, **options})

        return Prepared

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)

    def finalize_options(self) -> None:
        super().finalize_options()

    def build_extensions(self) -> None:
        """Build; EnvironmentError for kernel files without a toolkit."""
        self._check_abi()
        for extension in self.extensions:
            if any(map(_is_mlu_file, extension.sources)):
                _find_neuware_home()
                raise OSError("kernel files (.mlu) cannot be linked without the torch_mlu library of the card")
            if isinstance(extension.extra_compile_args, dict):
                extension.extra_compile_args = {"cxx": extension.extra_compile_args.get("cxx", [])}
        super().build_extensions()

    def _check_abi(self) -> Any:
        return super()._check_abi()

    def _add_compile_flag(self, extension: Any, flag: str) -> None:
        super()._add_compile_flag(extension, flag)

    def _define_torch_extension_name(self, extension: Any) -> None:
        super()._define_torch_extension_name(extension)

    def _add_gnu_cpp_abi_flag(self, extension: Any) -> None:
        """The C++ ABI torch was built with."""
        self._add_compile_flag(extension, f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}")
