"""Training by a framework: `framework_program.py STEPS CASE`, started as its users start it.

It knows nothing of toposeat. The model is one layer of HIDDEN x HIDDEN floats; ranks exchange its
gradients by gloo, once in each step.
"""

import os
import sys
import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

HIDDEN, BATCH, RANKS = 64, 4, 4
NODES = int(os.environ.get("NODES", "1"))
STEPS, CASE = 0, ""


class Inputs(Dataset):
    """As many as are needed."""

    def __len__(self):
        return STEPS * BATCH * RANKS

    def __getitem__(self, at):
        return torch.ones(HIDDEN)


def layer():
    return nn.Linear(HIDDEN, HIDDEN, bias=False)


def descent(model):
    return torch.optim.SGD(model.parameters(), lr=0.1)


def train(model, steps):
    optimizer = descent(model)
    for _ in range(steps):
        model(torch.ones(BATCH, HIDDEN)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def accelerate():
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    model = layer()
    model, optimizer, loader = accelerator.prepare(
        model, descent(model), DataLoader(Inputs(), batch_size=BATCH)
    )
    for batch in loader:
        accelerator.backward(model(batch).sum())
        optimizer.step()
        optimizer.zero_grad()
    accelerator.end_training()


def lightning():
    import lightning

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = layer()

        def training_step(self, batch, _):
            return self.model(batch).sum()

        def configure_optimizers(self):
            return descent(self)

    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "logger": False}
    trainer = lightning.Trainer(
        **{"accelerator": "cpu", "devices": RANKS // NODES, "num_nodes": NODES},
        **{"strategy": "ddp", "max_epochs": 1},
        enable_checkpointing=False,
        **quiet,
    )
    trainer.fit(Module(), DataLoader(Inputs(), batch_size=BATCH))


def transformers():
    from transformers import Trainer, TrainingArguments

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = layer()

        def forward(self, x, labels=None):
            return {"loss": self.model(x).sum()}

    class Labelled(Inputs):
        def __getitem__(self, at):
            return {"x": torch.ones(HIDDEN), "labels": 0}

    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            per_device_train_batch_size=BATCH,
            num_train_epochs=1,
            use_cpu=True,
            report_to=[],
            save_strategy="no",
            logging_strategy="no",
            disable_tqdm=True,
            max_grad_norm=0.0,
        )
        Trainer(model=Model(), args=arguments, train_dataset=Labelled()).train()


def deepspeed():
    import deepspeed

    deepspeed.init_distributed("gloo")
    model = layer()
    config = {
        "train_micro_batch_size_per_gpu": BATCH,
        "optimizer": {"type": "SGD", "params": {"lr": 0.1}},
    }
    engine, *_ = deepspeed.initialize(
        model=model, model_parameters=model.parameters(), config=config
    )
    for _ in range(STEPS):
        engine.backward(engine(torch.ones(BATCH, HIDDEN)).sum())
        engine.step()


def one_of_spawn(rank, port, steps):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=RANKS)
    train(DistributedDataParallel(layer()), steps)
    dist.destroy_process_group()


def spawn():
    from socket import socket

    with socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    torch.multiprocessing.spawn(one_of_spawn, (port, STEPS), nprocs=RANKS)


def fsdp2():
    from torch.distributed.fsdp import fully_shard

    dist.init_process_group("gloo")
    train(fully_shard(layer()), STEPS)
    dist.destroy_process_group()


def ray():
    from ray.train import ScalingConfig
    from ray.train.torch import TorchConfig, TorchTrainer, prepare_model

    def loop(config):
        train(prepare_model(layer()), config["steps"])

    TorchTrainer(
        loop,
        train_loop_config={"steps": STEPS},
        torch_config=TorchConfig(backend="gloo"),
        scaling_config=ScalingConfig(num_workers=RANKS, resources_per_worker={"CPU": 0.25}),
    ).fit()


CASES = {
    each.__name__: each
    for each in (accelerate, lightning, transformers, deepspeed, spawn, fsdp2, ray)
}

if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if not word.startswith("--")]  # deepspeed adds one
    STEPS, CASE = int(words[0]), words[1]
    CASES[CASE]()
