"""Whether products in bfloat16 can be run here."""

from functools import cache

import pytest
import torch
from processes import DEADLINE, Started


def need_bfloat16_products():
    """Skip the test where they end the process: on a machine that says it has AMX and does not let it be used.

    With ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 torch goes without it, and the test is run there too.
    """
    if not _are_survived():
        pytest.skip("a product in bfloat16 ends the process on this machine")


@cache
def _are_survived():
    with Started(multiply) as process:
        process.process.join(DEADLINE)
        return process.poll() == 0


def multiply():
    """Larger ones take another way than small ones: it is the one that fails."""
    for size in (64, 256):
        ones = torch.ones(size, size, dtype=torch.bfloat16)
        assert (ones @ ones)[0, 0] == size
