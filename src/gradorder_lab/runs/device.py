"""Where networks are trained: is the device there, and which one is it?"""

import torch

from gradorder_lab.errors import LabError

CPU = "cpu"


def check_device(name: str) -> None:
    """Refuse a device that torch does not find, before anything is read or downloaded.

    Raises:
        LabError: no such device.
    """
    if name == CPU:
        return
    found = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    if found is None or found.type != name:
        there = CPU if found is None else f"{CPU} or {found.type}"
        raise LabError(f"--device {name}: torch {torch.__version__} finds no such device here. Use --device {there}")


def device_name(name: str) -> str:
    """The device with its maker's name where torch knows it, as "cuda: NVIDIA A100-SXM4-40GB".

    >>> device_name("cpu")
    'cpu'
    """
    return f"{name}: {torch.cuda.get_device_name()}" if name == "cuda" else name
