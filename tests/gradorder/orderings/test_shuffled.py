import torch

import gradorder as go
from gradorder.orderings.ordering import epoch_generator


def orders(ordering, seed, epochs, size=30):
    return [
        ordering(
            None,
            epoch=epoch,
            generator=epoch_generator(seed, epoch),
            num_examples=size,
        ).tolist()
        for epoch in epochs
    ]


def test_shuffled_is_new_every_epoch():
    epochs = orders(go.Shuffled(), 0, range(20))
    assert len({tuple(order) for order in epochs}) == 20


def test_shuffled_once_is_the_same_every_epoch_and_differs_between_seeds():
    assert len({tuple(order) for order in orders(go.ShuffledOnce(), 0, range(5))}) == 1
    assert orders(go.ShuffledOnce(), 0, [0]) != orders(go.ShuffledOnce(), 1, [0])


def test_sequential_is_the_order_of_the_data():
    assert orders(go.Sequential(), 0, [4], size=5) == [[0, 1, 2, 3, 4]]


def test_seeds_do_not_share_epochs():
    drawn = {tuple(order) for seed in range(10) for order in orders(go.Shuffled(), seed, range(10))}
    assert len(drawn) == 100


def test_first_place_is_uniform():
    first = torch.tensor([orders(go.Shuffled(), 3, [epoch], size=4)[0][0] for epoch in range(4000)])
    counts = torch.bincount(first, minlength=4)
    assert (counts - 1000).abs().max() < 5 * 28  # five standard deviations
