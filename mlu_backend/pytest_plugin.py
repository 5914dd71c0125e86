"""
pytest plugin: run a function on the CPU and on ``mlu`` and compare, in one line of a test.

    def test_attention(mlu_parity):
        mlu_parity(Attention(64), torch.randn(2, 10, 64))          # outputs and gradients

    @pytest.mark.mlu_parity(seed=3)
    def test_step(parity_device):                                  # called for "cpu" and for "mlu"
        model = Net().to(parity_device)
        return model(torch.ones(4, 8, device=parity_device))       # what it returns is compared

A test fails where the results differ by more than the limits of ``mlu_backend.parity.tolerance``; it fails too, rather
than being skipped, where there is no ``mlu`` device, since a comparison that did not happen proves nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from mlu_backend.parity.functions import Result

MARKER = "mlu_parity"


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known, so that ``--strict-markers`` accepts it."""
    config.addinivalue_line(
        "markers",
        f"{MARKER}(seed=0, profile='exact', kind='composite'): call the test for cpu and mlu, compare results",
    )


@pytest.fixture
def mlu_parity() -> Callable[..., Result]:
    """
    ``mlu_parity(function, *args, seed=0, profile="exact", kind="composite", gradients=True, **kwargs)`` calls
    ``function`` (a module too) with its tensors on the CPU and on mlu. Returns what was compared; a difference beyond
    the limits fails the test.
    """

    def compare(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Result:
        from mlu_backend.parity import functions

        return _judged(lambda: functions.compare(function, *args, **kwargs))

    return compare


@pytest.fixture
def parity_device() -> str:
    """The device a test marked ``mlu_parity`` is being called for; ``cpu`` in a test that is not marked."""
    return "cpu"


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Call a marked test once for each device."""
    marker = pyfuncitem.get_closest_marker(MARKER)
    if marker is None:
        return None
    if "parity_device" not in pyfuncitem.funcargs:
        pytest.fail(
            f"a test marked {MARKER} takes the fixture parity_device and returns what is to be compared", pytrace=False
        )
    from mlu_backend.parity import functions

    names = pyfuncitem._fixtureinfo.argnames

    def called(device: str) -> Any:
        arguments = {name: pyfuncitem.funcargs[name] for name in names}
        arguments["parity_device"] = device
        return pyfuncitem.obj(**arguments)

    options = {"seed", "profile", "kind"}
    wrong = sorted(set(marker.kwargs) - options)
    if wrong or marker.args:
        what = wrong[0] if wrong else "values without a name"
        pytest.fail(f"the marker {MARKER} takes {', '.join(sorted(options))}, not {what}", pytrace=False)
    _judged(lambda: functions.compare_devices(called, **marker.kwargs))
    return True


def _judged(compare: Callable[[], Result]) -> Result:
    """The result of a comparison; fails the test where it differs, was none, or was asked for wrongly."""
    from mlu_backend.parity import functions

    why = ""
    try:
        result = compare()
    except functions.NoDevice as error:
        why = f"not judged: {error}"
    except functions.WrongUse as error:
        why = str(error)
    if not why and result.faults:
        why = "cpu and mlu differ:\n" + "\n".join(f"  {fault}" for fault in result.faults)
    if why:
        pytest.fail(why, pytrace=False)
    return result
