"""Products over positions are kept for the next weight with the same input, and for no other."""

import pytest
import torch

from gradorder.norms.factored import LastProducts, OuterSum


def rows(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_the_same_input_is_multiplied_once():
    inputs = rows(3, 4, 8)
    last = LastProducts()
    first = last.of(inputs.view(12, 8).view(3, 4, 8))
    assert last.of(inputs.detach()) is first


@pytest.mark.parametrize(
    "other",
    [
        lambda inputs: inputs.clone(),
        lambda inputs: inputs.mT.contiguous().mT,
        lambda inputs: inputs[..., :4],
        lambda inputs: inputs.view(torch.int64).double(),
        lambda inputs: inputs.mul_(2),
    ],
    ids=["another tensor", "another layout", "a part", "another type", "written to"],
)
def test_another_input_is_multiplied_itself(other):
    inputs = rows(3, 4, 8)
    last = LastProducts()
    last.of(inputs)
    found = other(inputs)
    torch.testing.assert_close(last.of(found), found @ found.mT)


def test_memory_that_is_used_again_is_another_input():
    last = LastProducts()
    for number in range(20):
        inputs = torch.full((2, 3, 4), float(number))
        torch.testing.assert_close(last.of(inputs), inputs @ inputs.mT)
        del inputs


@pytest.mark.parametrize("shape", [(3, 4, 8, 8), (3, 4, 2, 3), (3, 1, 5, 6), (1, 16, 32, 32)])
def test_squares_with_products_that_are_kept(shape):
    size, positions, height, width = shape
    inputs, last = rows(size, positions, height), LastProducts()
    for gradient in (rows(size, positions, width), 2 * rows(size, positions, width) + 1):
        form = OuterSum(inputs, gradient)
        torch.testing.assert_close(form.squares(last), form.dense().square().sum((1, 2)))
