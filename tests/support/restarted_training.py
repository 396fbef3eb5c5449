"""A DDP training run that saves every step and goes on from what was saved.

`torchrun restarted_training.py FOLDER STEP ...`: on its first attempt rank 1 dies without a word after the first of the
global steps, on its second after the second, and so on.
"""

import os
import signal
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

import gradorder as go

EPOCHS = 3


def train(folder, deaths=()):
    attempt = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
    dies_after = deaths[attempt] if attempt < len(deaths) else None
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(22, 5), torch.arange(22) % 3)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 3)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    sampler = go.OrderedSampler(data, 4, ordering=go.PlackettLuce(), keep=0.6, start_epoch=1)
    loader = DataLoader(data, sampler.loader_batch_size, sampler=sampler)
    parts = {"model": model, "optimizer": optimizer, "sampler": sampler}

    checkpoint = folder / "checkpoint.pt"
    step = 0
    if checkpoint.exists():
        saved = torch.load(checkpoint, weights_only=True)
        step = saved.pop("step")
        for name, part in parts.items():
            part.load_state_dict(saved[name])

    for epoch in range(sampler.epoch, EPOCHS):
        sampler.set_epoch(epoch)
        for inputs, targets in loader:
            losses = F.cross_entropy(model(inputs), targets, reduction="none")
            optimizer.zero_grad()
            (losses.mean() * sampler.loss_scale).backward()
            optimizer.step()
            sampler.step(losses.detach())
            step += 1
            saved = {"step": step, **{name: part.state_dict() for name, part in parts.items()}}
            if dist.get_rank() == 0:
                torch.save(saved, folder / "unfinished.pt")
                (folder / "unfinished.pt").replace(checkpoint)
            dist.barrier()
            if step == dies_after and dist.get_rank() == 1:
                os.kill(os.getpid(), signal.SIGKILL)
    return {"step": step, "attempt": attempt, **{name: value.clone() for name, value in model.state_dict().items()}}


def main(folder, deaths):
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    result = train(folder, deaths)
    if dist.get_rank() == 0:
        torch.save(result, folder / "final.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), [int(step) for step in sys.argv[2:]])
