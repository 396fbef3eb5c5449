import pytest
import torch

import gradorder as go
from gradorder.seeding import epoch_generator


def order(ordering, scores, epoch, seed=0):
    return ordering(scores, epoch=epoch, generator=epoch_generator(seed, ordering.noise_epoch(epoch))).tolist()


@pytest.mark.parametrize("inner", [go.Shuffled(), go.PlackettLuce(), go.Descending(), go.ShuffledOnce()], ids=str)
def test_odd_epochs_replay_their_even_partner_reversed(inner):
    scores = torch.rand(20)
    ordering = go.FlipFlop(inner)
    for epoch in (0, 2, 4):
        assert order(ordering, scores, epoch) == order(inner, scores, epoch)
        assert order(ordering, scores, epoch + 1) == order(ordering, scores, epoch)[::-1]


def test_new_pairs_are_new():
    ordering = go.FlipFlop(go.Shuffled())
    assert order(ordering, torch.rand(20), 0) != order(ordering, torch.rand(20), 2)


def test_which_epoch_gives_noise_and_scores():
    ordering = go.FlipFlop(go.Shuffled())
    assert [ordering.noise_epoch(epoch) for epoch in range(4)] == [0, 0, 2, 2]
    assert [ordering.scores_epoch(epoch) for epoch in range(4)] == [0, 0, 2, 2]
    assert [ordering.reverses(epoch) for epoch in range(4)] == [False, True, False, True]
    assert go.FlipFlop(go.ShuffledOnce()).noise_epoch(5) == 0


def test_refuses_what_is_no_ordering():
    with pytest.raises(TypeError, match="inner must be an ordering"):
        go.FlipFlop(go.Shuffled)
