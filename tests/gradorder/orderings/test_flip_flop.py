import pytest
import torch
from asking import order_of

import gradorder as go


def order(ordering, scores, epoch, seed=0):
    order = order_of(ordering, scores, epoch=epoch, seed=seed)
    return order.indices.flip(0).tolist() if order.backwards else order.indices.tolist()


@pytest.mark.parametrize("inner", [go.Shuffled(), go.PlackettLuce(), go.Descending(), go.ShuffledOnce()], ids=str)
def test_odd_epochs_replay_their_even_partner_reversed(inner):
    scores = torch.rand(20)
    ordering = go.FlipFlop(inner)
    for epoch in (0, 2, 4):
        assert order(ordering, scores, epoch) == order(inner, scores, epoch)
        assert order(ordering, scores, epoch + 1) == order(ordering, scores, epoch)[::-1]


def test_the_order_before_it_is_played_backwards_is_the_even_partners():
    """With scores or without, with weights, and complete where the partner was."""
    scores = torch.rand(20)
    for inner, given in [
        (go.PlackettLuce(unbiased=True), scores),
        (go.InfoBatch(4), scores),
        (go.Descending(), scores),
    ]:
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
        with pytest.raises(ValueError, match=r"inner.*FlipFlop"):
            wrapper(go.FlipFlop(go.Descending()))
    with pytest.raises(ValueError, match="inner must not carry"):
        go.FlipFlop(go.FlipFlop(go.Shuffled()))
