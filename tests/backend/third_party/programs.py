"""
Small trainings with other people's libraries, run as programs: ``python programs.py NAME OUTPUT.json``.

Nothing here names the device except where the library asks its user to. Every rank reports to ``OUTPUT.json.RANK``.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import torch
import torch.nn as nn

Report = dict[str, Any]


def data() -> torch.utils.data.TensorDataset:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(32, 8, generator=generator)
    return torch.utils.data.TensorDataset(x, x @ torch.randn(8, 3, generator=generator))


def accelerate_loop() -> Report:
    from accelerate import Accelerator
    from accelerate.utils import is_mlu_available, set_seed

    accelerator = Accelerator()
    set_seed(3)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-2)
    loader = torch.utils.data.DataLoader(data(), batch_size=8 // accelerator.num_processes)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    losses = []
    for _ in range(6):
        for x, y in loader:
            with accelerator.accumulate(model):
                loss = nn.functional.mse_loss(model(x), y)
                accelerator.backward(loss)
                accelerator.clip_grad_norm_(model.parameters(), 10.0)
                optimizer.step()
                optimizer.zero_grad()
            losses.append(accelerator.gather(loss.detach().reshape(1)).mean().item())
    return {
        "recognised": is_mlu_available(),
        "device": str(accelerator.device),
        "kind": str(accelerator.distributed_type),
        "processes": accelerator.num_processes,
        "model": str(next(model.parameters()).device),
        "losses": losses,
    }


def accelerate_half() -> Report:
    from accelerate import Accelerator
    from accelerate.utils import set_seed

    accelerator = Accelerator(mixed_precision="fp16")
    set_seed(3)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=5e-2)
    loader = torch.utils.data.DataLoader(data(), batch_size=8)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    seen: list[str] = []
    model[0].register_forward_hook(lambda module, inputs, output: seen.append(str(output.dtype)))
    losses = []
    for _ in range(4):
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x), y)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
    return {"dtypes": sorted(set(seen)), "losses": losses, "scaler": type(accelerator.scaler).__name__}


class Words(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return 16

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        ids = torch.arange(index, index + 12) % 50
        return {"input_ids": ids, "labels": ids}


def transformers_trainer() -> Report:
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed

    set_seed(3)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=50, n_positions=16, n_embd=16, n_layer=2, n_head=2))
    arguments = TrainingArguments(
        output_dir=os.environ["PROGRAM_FOLDER"],
        per_device_train_batch_size=4,
        max_steps=16,
        logging_steps=1,
        learning_rate=3e-2,
        save_steps=8,
        report_to=[],
        seed=3,
    )
    trainer = Trainer(model=model, args=arguments, train_dataset=Words())
    trainer.train()
    losses = [row["loss"] for row in trainer.state.log_history if "loss" in row]
    return {
        "device": str(arguments.device),
        "model": str(next(model.parameters()).device),
        "cards": arguments.n_gpu,
        "saved": sorted(path.name for path in Path(arguments.output_dir).glob("checkpoint-*")),
        "losses": losses,
    }


def lightning_trainer() -> Report:
    import torch_mlu  # noqa: F401
    from lightning.pytorch import LightningModule, Trainer, seed_everything
    from lightning.pytorch.accelerators import Accelerator
    from lightning.pytorch.strategies import SingleDeviceStrategy

    class MluAccelerator(Accelerator):
        """Lightning has none for the MLU; this is what its documentation asks a new device for."""

        def setup_device(self, device: torch.device) -> None:
            torch.mlu.set_device(device)

        def teardown(self) -> None:
            torch.mlu.empty_cache()

        @staticmethod
        def parse_devices(devices: Any) -> list[int]:
            return list(range(int(devices)))

        @staticmethod
        def get_parallel_devices(devices: list[int]) -> list[torch.device]:
            return [torch.device("mlu", index) for index in devices]

        @staticmethod
        def auto_device_count() -> int:
            return torch.mlu.device_count()

        @staticmethod
        def is_available() -> bool:
            return torch.mlu.is_available()

        @staticmethod
        def name() -> str:
            return "mlu"

        def get_device_stats(self, device: torch.device) -> dict[str, Any]:
            return torch.mlu.memory_stats(device)

    class Model(LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
            self.losses: list[float] = []
            self.devices: set[str] = set()

        def training_step(self, batch: list[torch.Tensor], index: int) -> torch.Tensor:
            x, y = batch
            loss = nn.functional.mse_loss(self.net(x), y)
            self.losses.append(loss.item())
            self.devices.add(str(x.device))
            return loss

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.AdamW(self.parameters(), lr=5e-2)

    seed_everything(3)
    model = Model()
    trainer = Trainer(
        accelerator=MluAccelerator(),
        strategy=SingleDeviceStrategy(device=torch.device("mlu", 0)),
        max_epochs=6,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(model, torch.utils.data.DataLoader(data(), batch_size=8))
    return {"devices": sorted(model.devices), "root": str(trainer.strategy.root_device), "losses": model.losses}


if __name__ == "__main__":
    report = globals()[sys.argv[1]]()
    Path(f"{sys.argv[2]}.{os.environ.get('RANK', '0')}").write_text(json.dumps(report))
