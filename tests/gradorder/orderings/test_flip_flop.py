import pytest
import torch
from asking import order_of

import gradorder as go
from gradorder.seeding import epoch_generator


def order(ordering, scores, epoch, seed=0):
    return ordering(scores, epoch=epoch, generator=epoch_generator(seed, ordering.source_epoch(epoch))).tolist()


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
    assert [ordering.source_epoch(epoch) for epoch in range(4)] == [0, 0, 2, 2]
    orders = [order_of(ordering, None, num_examples=5, epoch=epoch) for epoch in range(4)]
    assert [each.backwards for each in orders] == [False, True, False, True]
    assert go.FlipFlop(go.ShuffledOnce()).source_epoch(5) == 0


def test_the_order_before_it_is_played_backwards_is_the_even_partners():
    """With scores or without, with weights, and complete where the partner was."""
    scores = torch.rand(20)
    for inner, given in [(go.PlackettLuce(unbiased=True), scores), (go.InfoBatch(4), scores), (go.Descending(), None)]:
        ordering = go.FlipFlop(inner)
        known = {"num_examples": 20, "keep": None if isinstance(inner, go.InfoBatch) else 0.5}
        for epoch in (0, 2):
            even, odd = (order_of(ordering, given, epoch=epoch + turn, **known) for turn in (0, 1))
            alone = order_of(inner, given, epoch=epoch, **known)
            assert (even.backwards, odd.backwards, alone.backwards) == (False, True, False)
            for each in (even, odd):
                assert torch.equal(each.indices, alone.indices)
                assert (each.weights is None) == (alone.weights is None)
                assert alone.weights is None or torch.equal(each.weights, alone.weights)


def test_it_is_the_outermost_of_all():
    for wrapper in (go.Revisiting, go.FlipFlop, go.Undecided):
        with pytest.raises(ValueError, match=r"inner must not replay epochs, got FlipFlop.*: put FlipFlop outside of"):
            wrapper(go.FlipFlop(go.Descending()))
    with pytest.raises(ValueError, match="inner must not replay epochs"):
        go.FlipFlop(go.FlipFlop(go.Shuffled()))


def test_refuses_what_is_no_ordering():
    with pytest.raises(TypeError, match="inner must be an ordering"):
        go.FlipFlop(go.Shuffled)
