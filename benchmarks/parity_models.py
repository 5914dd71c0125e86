"""
Models of timm and transformers, random weights: one training step on the CPU and on mlu, compared at module level.

    python benchmarks/parity_models.py [--only NAME ...] [--json FILE]

Says for each model how many tensors were compared, how many were equal bit for bit, and whether parity calls it a
match. A mismatch here is a false alarm or a fault of the emulated device: nothing was migrated.

A library that is not installed is fetched by pip into a temporary folder that only the runs of its models see; torch
stays as it is. Where that fails, its models are named as not run, the others are, and the exit status is 2.

timm imports torchvision, whose Linux wheel on PyPI is built against CUDA: beside a CPU build of torch its C++ part
does not load, and the import stops at the two operators it describes in Python. They are declared then, by name and
without a kernel, and the output says so. No model here calls them; a call would raise.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

TIMM = (
    "resnet18",
    "convnext_atto",
    "mobilenetv3_small_050",
    "vit_tiny_patch16_224",
    "efficientnet_lite0",
    "swin_tiny_patch4_window7_224",
    "mixer_s32_224",
)
TRANSFORMERS = ("bert", "gpt2", "llama", "t5", "vit", "distilbert")


def library_of(name: str) -> str:
    """The package a model comes from."""
    return "timm" if name in TIMM else "transformers"


def load(library: str) -> str:
    """Import a library. Says what had to be done for it, nothing where it simply could be imported."""
    done = declare_torchvision()  # transformers imports it too, where it is there
    importlib.import_module(library)
    return done


_DECLARED: list[object] = []  # a torch.library.Library takes its operators along when it goes


def declare_torchvision() -> str:
    """Declare the operators without which torchvision cannot be imported, where its own C++ part does not load."""
    import torch

    found = importlib.util.find_spec("torchvision")
    if found is None or _DECLARED:
        return ""
    parts = [next(Path(place).glob("_C*.so"), None) for place in found.submodule_search_locations or ()]
    try:
        for part in filter(None, parts):
            torch.ops.load_library(str(part))
            return ""
    except OSError:
        pass
    names = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        names.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _DECLARED.append(names)
    return (
        f"torchvision {version('torchvision')} cannot load its C++ part beside torch {torch.__version__}: "
        "torchvision::nms and torchvision::qnms are declared without a kernel, so that it can be imported"
    )


def requirements(library: str) -> list[list[str]]:
    """What pip is told, one list of words a call. torchvision 0.28 is the one of torch 2.13, and so on."""
    if library == "transformers":
        return [["transformers>=4.55,<6"]]
    minor = int(version("torch").split(".")[1])
    return [["--no-deps", "timm>=1,<2", f"torchvision==0.{minor + 15}.*"], ["pyyaml", "huggingface_hub", "pillow"]]


def environment(folder: Path) -> dict[str, str]:
    """Of a process that finds the packages in ``folder`` first."""
    from mlu_backend import launch

    env = launch.environment(1)
    env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(folder), env.get("PYTHONPATH", "")]))
    return env


def prepare(library: str, folder: Path) -> str | None:
    """Make a library importable, from ``folder`` where it is not installed; the reason where that cannot be done."""
    if importlib.util.find_spec(library) is None:
        print(f"{library} is not installed: pip puts it into a temporary folder", file=sys.stderr)
        for words in requirements(library):
            command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder), *words]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                return last_line(done.stderr)
    command = [sys.executable, os.path.abspath(__file__), "--load", library]
    done = subprocess.run(command, env=environment(folder), capture_output=True, text=True, check=False)
    if done.returncode:
        return last_line(done.stderr)
    print(done.stdout, end="")
    return None


def last_line(text: str) -> str:
    """Where pip and Python say what went wrong."""
    return (text.strip().splitlines() or ["no reason given"])[-1]


def build(name: str) -> tuple[object, dict[str, object]]:
    """A small model and its inputs on the CPU, from a fixed seed."""
    import torch

    torch.manual_seed(0)
    load(library_of(name))
    if name in TIMM:
        import timm

        size = 224 if name.endswith("_224") else 64
        model = timm.create_model(name, pretrained=False, num_classes=10, drop_rate=0.0, drop_path_rate=0.0)
        return model, {"x": torch.randn(2, 3, size, size)}
    return _transformer(name)


def _transformer(name: str) -> tuple[object, dict[str, object]]:
    import torch
    import transformers as t

    text = {"input_ids": torch.randint(5, 90, (2, 12))}
    small = {
        "vocab_size": 100,
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 64,
    }
    quiet = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    if name == "bert":
        return t.BertForSequenceClassification(t.BertConfig(**small, **quiet)), {**text, "labels": torch.tensor([0, 1])}
    if name == "gpt2":
        config = t.GPT2Config(
            vocab_size=100, n_embd=32, n_layer=2, n_head=4, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0
        )
        return t.GPT2LMHeadModel(config), {**text, "labels": text["input_ids"]}
    if name == "llama":
        return t.LlamaForCausalLM(t.LlamaConfig(**small)), {**text, "labels": text["input_ids"]}
    if name == "t5":
        config = t.T5Config(
            vocab_size=100,
            d_model=32,
            d_kv=8,
            d_ff=64,
            num_layers=2,
            num_heads=4,
            dropout_rate=0.0,
            decoder_start_token_id=0,
        )
        return t.T5ForConditionalGeneration(config), {**text, "labels": text["input_ids"]}
    if name == "vit":
        config = t.ViTConfig(
            **{k: v for k, v in small.items() if k != "vocab_size"}, **quiet, image_size=32, patch_size=8
        )
        return t.ViTForImageClassification(config), {
            "pixel_values": torch.randn(2, 3, 32, 32),
            "labels": torch.tensor([0, 1]),
        }
    if name == "distilbert":
        config = t.DistilBertConfig(
            vocab_size=100, dim=32, n_layers=2, n_heads=4, hidden_dim=64, dropout=0.0, attention_dropout=0.0
        )
        return t.DistilBertForMaskedLM(config), {**text, "labels": text["input_ids"]}
    raise ValueError(name)


def one_step(name: str, device: str) -> None:
    """Forward, backward and one optimizer step; what the recorded process does."""
    import torch

    if device == "mlu":
        import torch_mlu  # noqa: F401
    model, inputs = build(name)
    model = model.to(device).train()  # type: ignore[attr-defined]
    given = {k: v.to(device) for k, v in inputs.items()}  # type: ignore[attr-defined]
    out = model(**given)
    loss = out.loss if hasattr(out, "loss") else out.float().pow(2).mean()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loss.backward()
    optimizer.step()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=(*TIMM, *TRANSFORMERS), action="append")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--step", nargs=2, metavar=("NAME", "DEVICE"), help=argparse.SUPPRESS)
    parser.add_argument("--load", metavar="LIBRARY", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.load:
        said = load(args.load)
        print(f"{said}\n" if said else "", end="")
        return 0
    if args.step:
        one_step(*args.step)
        return 0
    from mlu_backend.parity import trace, verdict
    from mlu_backend.parity.findings import Status
    from mlu_backend.parity.options import Options
    from mlu_backend.parity.record import record

    wanted = [n for n in (*TIMM, *TRANSFORMERS) if not args.only or n in args.only]
    rows, absent = [], set()
    with tempfile.TemporaryDirectory(prefix="mlu-parity-models-") as folder:
        for library in sorted({library_of(name) for name in wanted}):
            reason = prepare(library, Path(folder, library))
            if reason is not None:
                absent.add(library)
                print(f"{library} cannot be imported, its models are not run: {reason}", file=sys.stderr)
        print(
            "| model | verdict | tensors | equal bit for bit | largest mean error | first difference |\n"
            + "|---" * 6
            + "|",
            flush=True,
        )
        for name in [n for n in wanted if library_of(n) not in absent]:
            traces = []
            for device in ("cpu", "mlu"):
                options = Options(out=f"{folder}/{name}-{device}", root=folder, seed=0)
                command = [sys.executable, os.path.abspath(__file__), "--step", name, device]
                env = environment(Path(folder, library_of(name)))
                outcome = record(command, options, env=env, timeout=600, capture_output=True)
                if outcome.status != 0:
                    print(f"{name} on {device} failed:\n{outcome.output[-2000:]}", file=sys.stderr)
                    return 2
                traces.append(trace.read(outcome.trace))
            found = verdict.judge(traces[0], traces[1], verdict.Question(reference="cpu", same_files=True))
            worst = found.worst[0]["mean"] if found.worst else 0.0
            rows.append(
                {
                    "model": name,
                    "status": found.status.value,
                    "compared": found.compared,
                    "equal": found.equal,
                    "calls": found.calls,
                    "worst": worst,
                    "first": found.first.what if found.first else "; ".join(found.reasons),
                    "reasons": found.reasons,
                }
            )
            print(
                f"| {name} | {found.status.value} | {found.compared} | {found.equal} "
                f"| {worst:.1e} | {rows[-1]['first']} |",
                flush=True,
            )
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    if absent:
        return 2
    return 0 if rows and all(r["status"] == Status.MATCH.value for r in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
