"""The original program believes in cuda, everywhere it can look."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mlu_backend.parity import trace

SOURCE = """\
import threading
import torch, torch.nn as nn
from torch import cuda
from torch.cuda.amp import GradScaler, autocast
from torch.utils.checkpoint import checkpoint

def say(name, value):
    print(f"{name}={value}", flush=True)

say("available", torch.cuda.is_available() and cuda.is_available())
say("capability", torch.cuda.get_device_capability())
device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
say("device", device)
x = torch.randn(4, 8, device=device)
say("tensor", (x.device, x.is_cuda, x.type(), x.cuda().device, x.to("cpu").is_cuda))
say("made", (x.new_zeros(2).device, torch.zeros_like(x).device, torch.ones(1, device=0).device, torch.device(0)))
net = nn.Linear(8, 3).to("cuda")
say("module", next(net.parameters()).device)
optimizer, scaler = torch.optim.AdamW(net.parameters()), GradScaler()
with autocast():
    y = net(x)
    say("autocast", (y.dtype, torch.is_autocast_enabled(), torch.get_autocast_gpu_dtype()))
scaler.scale(y.float().mean()).backward()
scaler.step(optimizer)
scaler.update()
say("scale", scaler.get_scale())
torch.save({"w": net.state_dict(), "d": device}, "model.pt")
for where in ("cuda:0", {"cuda:0": "cpu"}, None, lambda storage, location: storage):
    say("loaded", torch.load("model.pt", map_location=where, weights_only=False)["w"]["weight"].device)
g = torch.Generator(device="cuda").manual_seed(1)
say("generator", (isinstance(g, torch.Generator), torch.rand(2, device="cuda", generator=g).device))
t = torch.cuda.FloatTensor(3).fill_(1)
say("legacy", (t.type(), isinstance(t, torch.cuda.FloatTensor)))
class Looks(nn.Module):
    def forward(self, x):
        assert x.device.type == "cuda" and x.is_cuda
        return x * torch.ones(1, device="cuda")
x.requires_grad_()
checkpoint(Looks(), x, use_reentrant=False).sum().backward()
checkpoint(Looks(), x, use_reentrant=True).sum().backward()
class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2
    @staticmethod
    def backward(ctx, g):
        say("in backward", (g.device, torch.zeros(1, device="cuda").device))
        return g * 2
Twice.apply(x).sum().backward()
worker = threading.Thread(target=lambda: say("in a thread", torch.zeros(1, device="cuda").device))
worker.start(); worker.join()
stream = torch.cuda.Stream()
with torch.cuda.stream(stream):
    say("stream", (x + 1).device)
torch.cuda.synchronize()
say("memory", torch.cuda.max_memory_allocated() > 0)
torch.backends.cuda.cufft_plan_cache.max_size = 7
say("plans", (torch.backends.cuda.cufft_plan_cache.max_size, torch.backends.cuda.cufft_plan_cache[device].max_size))
try:
    torch.randn(2).cuda() + torch.randn(2)
except RuntimeError as error:
    say("mixed", "same device" in str(error))
"""


@pytest.fixture(scope="module")
def said(recorded: Callable[..., trace.Trace]) -> list[tuple[str, str]]:
    """What the program printed."""
    output = recorded(SOURCE, route="emulated-cuda").meta["output"]
    rows = [line.split("=", 1) for line in output.splitlines() if "=" in line]
    return [(name, value) for name, value in rows]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("available", "True"),
        ("capability", "(8, 0)"),
        ("device", "cuda:0"),
        ("module", "cuda:0"),
        ("scale", "65536.0"),
        ("autocast", "(torch.float16, True, torch.float16)"),
        ("in a thread", "cuda:0"),
        ("stream", "cuda:0"),
        ("memory", "True"),
        ("legacy", "('torch.cuda.FloatTensor', True)"),
        ("mixed", "True"),
        ("plans", "(7, 7)"),
        (
            "tensor",
            "(device(type='cuda', index=0), True, 'torch.cuda.FloatTensor', device(type='cuda', index=0), False)",
        ),
        ("made", "(" + ", ".join(["device(type='cuda', index=0)"] * 4) + ")"),
        ("generator", "(True, device(type='cuda', index=0))"),
        ("in backward", "(device(type='cuda', index=0), device(type='cuda', index=0))"),
    ],
)
def test_the_program_sees_cuda(said: list[tuple[str, str]], name: str, value: str) -> None:
    assert dict(said)[name] == value


def test_files_are_tagged_and_restored_as_on_a_gpu_machine(said: list[tuple[str, str]]) -> None:
    assert [value for name, value in said if name == "loaded"] == ["cuda:0", "cpu", "cuda:0", "cpu"]


def test_its_tensors_really_live_on_the_emulated_device(recorded: Callable[..., trace.Trace]) -> None:
    (process,) = recorded(SOURCE, route="emulated-cuda").processes
    assert any(row.kind.device == "mlu" for row in process.rows)
    assert not any(row.kind.device == "cuda" for row in process.rows)


def test_statistics_in_cpp_and_in_torch_are_the_same(recorded: Callable[..., trace.Trace]) -> None:
    source = (
        "import torch, torch_mlu\nfrom mlu_backend.parity import statistics as s\n"
        "torch.manual_seed(0)\nassert s._fused() is not None\n"
        "base = torch.randn(70, 33)\nbad = base.clone(); bad[3, 4] = float('nan'); bad[1] = float('inf')\n"
        "for t in (base, bad, base.t(), base[::2, 1:], base.half(), base.bfloat16(), base.double(),\n"
        "          (base * 100).int(),\n"
        "          (base * 100).long(), base > 0, (base * 100).to(torch.uint8), torch.complex(base, base),\n"
        "          torch.empty(0), base[0, 0]):\n"
        "    for device in ('cpu', 'mlu'):\n"
        "        dense = s.plain(t.to(device))\n"
        "        a, b = s.Stats._make(s._fused()(dense))._asdict(), s.measure_in_torch(dense)\n"
        "        assert a['checksum'] % 2**64 == b['checksum'], (t.dtype, device)\n"
        "        for name in ('nonfinite', 'min', 'max'):\n"
        "            assert a[name] == b[name], (t.dtype, device, a, b)\n"
        "        for name in ('norm', 'mean'):\n"
        "            assert abs(a[name] - b[name]) <= 1e-12 * (1 + abs(b[name])), (name, a, b)\n"
        "print('same')\n"
    )
    assert "same" in recorded(source).meta["output"]
