"""Starts the recorder once torch has been imported, on torch before 2.5. Runs the sitecustomize it hides first."""

import importlib.util
import os
import sys


def _run_hidden():
    """Find and run the sitecustomize that would have been found without this folder."""
    here = os.path.dirname(os.path.abspath(__file__))
    from importlib.machinery import PathFinder

    rest = [p for p in sys.path if os.path.abspath(p or ".") != here]
    spec = PathFinder.find_spec("sitecustomize", rest)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)


class _AfterTorch:
    """Import hook that lets torch load as usual and then calls the recorder, once."""

    def find_spec(self, name, path=None, target=None):
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            from mlu_backend.parity.inject import autoload

            autoload()

        spec.loader.exec_module = exec_module
        return spec


_run_hidden()
if os.environ.get("MLU_PARITY_RECORD"):
    sys.meta_path.insert(0, _AfterTorch())
