"""The operator table: what is counted, what the card is said to do with it, and how that is printed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch_mlu  # noqa: F401

from mlu_backend import support
from mlu_backend.support import Use, judge


@pytest.fixture
def counting() -> Iterator[None]:
    support.clear()
    support.start()
    yield
    support.stop()
    support.clear()


def used() -> dict[str, dict[tuple[str, ...], int]]:
    found: dict[str, dict[tuple[str, ...], int]] = {}
    for use in support.uses():
        found.setdefault(use.operator, {})[use.dtypes] = use.calls
    return found


def test_operators_on_the_card_are_counted_by_name_and_dtypes(counting: None) -> None:
    x = torch.ones(3, device="mlu")
    index = torch.tensor([0, 2], device="mlu")
    for _ in range(4):
        x = x + 1
    x[index]
    x.double() + x
    found = used()
    assert found["aten::add.Tensor"] == {("float32",): 4, ("float64", "float32"): 1}
    assert found["aten::index.Tensor"] == {("float32", "int64"): 1}


def test_backward_passes_and_optimizers_are_counted_too(counting: None) -> None:
    layer = torch.nn.Linear(3, 2, device="mlu")
    layer(torch.ones(4, 3, device="mlu")).sum().backward()
    torch.optim.SGD(layer.parameters(), lr=0.1).step()
    found = used()
    assert "aten::mm" in found and any(name.startswith("aten::_foreach_add_") for name in found)
    assert "aten::_copy_from" not in found


def test_operators_on_the_cpu_and_after_stopping_are_not_counted(counting: None) -> None:
    torch.ones(3).cos()
    x = torch.ones(3, device="mlu")
    support.stop()
    x.cos()
    assert "aten::cos" not in used()
    support.start()
    x.cos()
    assert used()["aten::cos"] == {("float32",): 1}


def test_operators_without_tensor_arguments_count_by_their_result(counting: None) -> None:
    torch.empty(3, device="mlu", dtype=torch.float16)
    torch.empty(3)
    assert used()["aten::empty.memory_format"] == {("float16",): 1}


def test_what_an_operator_of_the_card_calls_in_turn_is_not_counted(counting: None) -> None:
    tensors = [torch.ones(2, device="mlu"), torch.ones(3, device="mlu")]
    support.clear()
    torch._foreach_mul_(tensors, 2.0)
    tensors[0].copy_(tensors[0].double())
    torch.nn.functional.linear(tensors[1], torch.ones(2, 3, device="mlu"))
    found = used()
    assert found["aten::_foreach_mul_.Scalar"] == {("float32",): 1}
    assert "aten::mul_.Scalar" not in found and "aten::_copy_from" not in found
    assert "aten::linear" in found and len(found) > 3, "a composite operator is opened"


def test_a_registered_kernel_is_native_and_names_its_place_in_torch_mlu() -> None:
    answer = judge(Use("aten::add.Tensor", ("float32",), 3))
    assert answer.answer == "native" and answer.calls == 3
    assert answer.evidence == "torch_mlu/csrc/aten/operators/cnnl/add.cpp:133"


def test_an_operator_without_a_kernel_goes_to_the_cpu() -> None:
    answer = judge(Use("aten::nanmedian.dim_values", ("float32",), 1))
    assert answer.answer == "cpu" and "MLUFallback" in answer.evidence
    assert judge(Use("mylib::roll", ("float32",), 1)).reason.startswith("a custom operator")


@pytest.mark.parametrize(
    ("operator", "dtypes", "reason"),
    [
        ("aten::add.Tensor", ("float64",), "float64 computed as float32"),
        ("aten::add.Tensor", ("complex128",), "complex128 computed as complex64"),
        ("aten::_index_put_impl_", ("float32", "int64"), "int64 computed as int32"),
    ],
)
def test_dtypes_the_card_computes_in_others_are_casts(operator: str, dtypes: tuple[str, ...], reason: str) -> None:
    answer = judge(Use(operator, dtypes, 1))
    assert (answer.answer, answer.reason) == ("casts", reason)


def test_a_dtype_the_kernel_is_not_registered_for_is_said_so() -> None:
    answer = judge(Use("aten::addcmul", ("int32",), 1))
    assert answer.answer == "unlisted" and "bfloat16, float16" in answer.reason
    assert judge(Use("aten::addcmul", ("bool", "float32"), 1)).answer == "native"
    assert judge(Use("aten::add.Tensor", ("bfloat16",), 1), "mlu370").answer == "unlisted"
    assert judge(Use("aten::add.Tensor", ("bfloat16",), 1), "mlu590").answer == "native"


def test_operators_torch_takes_apart_are_not_called_missing() -> None:
    assert judge(Use("aten::layer_norm", ("float32",), 1, composite=True)).answer == "composite"
    assert judge(Use("aten::copy_", ("float32",), 1)).answer == "native"
    assert judge(Use("c10d::allreduce_", ("float32",), 1)).answer == "native"


def test_a_structured_operator_without_a_kernel_is_not_taken_for_a_composite_one(counting: None) -> None:
    torch.linalg.eigh(torch.eye(3, device="mlu"))
    (row,) = [answer for answer in support.report() if answer.operator == "aten::_linalg_eigh"]
    assert row.answer == "cpu"


def test_official_remarks_come_along() -> None:
    assert judge(Use("aten::topk", ("float32",), 1)).limit == "torch.topk: sorted only True"
    assert judge(Use("aten::mm", ("float32",), 1)).limit is None


def test_the_table_names_every_row_of_the_operators_it_was_made_from_once() -> None:
    facts = support.table()
    assert len(facts["operators"]) > 700 and facts["branch"] == "f"
    for name, row in facts["operators"].items():
        assert "::" in name and isinstance(row["line"], int)


def test_the_table_fits_80_columns_and_puts_what_costs_first() -> None:
    uses = [
        Use("aten::add.Tensor", ("float32",), 12),
        Use("aten::nanmedian.dim_values", ("float32",), 2),
        Use("aten::add.Tensor", ("float64", "float32", "int64", "bool"), 1),
        Use("aten::layer_norm", ("float32",), 1, composite=True),
        Use("aten::_scaled_dot_product_efficient_attention_backward", ("float32",), 3),
        Use("aten::max_pool2d", ("float32",), 1, composite=True),
    ]
    text = support.as_table(support.judge_all(uses))
    lines = text.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[2].startswith("nanmedian.dim_values") and lines[2].endswith("2 cpu")
    assert "layer_norm" not in text and "limit: torch.nn.functional.max_pool2d" in text
    assert "    1 casts: " in text
    assert support.as_table([]) == "No operator ran on the device.\n"


PROGRAM = """
import sys
import torch, torch_mlu
import torch.multiprocessing as mp

def child(rank):
    import torch_mlu
    (torch.ones(2, device="mlu") * 3).cos()

if __name__ == "__main__":
    torch.ones(3, device="mlu").double().cos()
    torch.nanmedian(torch.ones(3, 3, device="mlu"), 1)
    mp.spawn(child, nprocs=1)
    print("done")
    sys.exit(3)
"""


def test_run_reports_a_program_and_its_children_and_keeps_its_status(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    report = tmp_path / "support.json"
    command = [sys.executable, "-m", "mlu_backend", f"--support={report}", str(tmp_path / "program.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False, env=dict(os.environ))
    assert done.returncode == 3, done.stderr
    assert done.stdout == "done\n"
    assert "nanmedian.dim" in done.stderr and "float64 computed as float32" in done.stderr
    document = json.loads(report.read_text())
    assert document["version"] == 1 and document["processes"] == 2 and document["profile"] == "exact"
    rows = {(row["operator"], tuple(row["dtypes"])): row for row in document["operators"]}
    assert rows["aten::cos", ("float32",)]["answer"] == "native"
    assert rows["aten::cos", ("float64",)]["answer"] == "casts"
    assert document["summary"]["cpu"] >= 1


def test_a_program_that_never_imports_torch_mlu_is_said_to_have_used_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    status = support.run(
        dict(os.environ), None, lambda env: subprocess.run([sys.executable, "-c", "0"], env=env).returncode
    )
    assert status == 0
    assert "No process imported torch_mlu" in capfd.readouterr().err
