"""Exact norms out of the user's own training step, without changing it by a bit."""

import copy
import gc
import weakref
from contextlib import nullcontext

import pytest
import torch
from test_models import BATCH, Custom, make
from torch import nn
from torch.nn import functional as F

import gradorder as go
from gradorder.norms import reference, squared_norms


def frozen_batch_norm(model):
    model.train()
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.eval()
    return model


REDUCTIONS = {
    "mean": lambda losses: losses.mean(),
    "sum": lambda losses: losses.sum(),
    "scaled": lambda losses: 1024 * losses.mean(),
    "weighted": lambda losses: (torch.linspace(0.1, 2, len(losses), dtype=losses.dtype) * losses).sum(),
    "negative": lambda losses: -losses.sum(),
}


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_any_reduction(reduction):
    model, batch, losses = make("decoder", 5)
    model.double()
    expected = reference.gradient_norms(model, batch, losses)
    with go.observe_gradient_norms(model) as seen:
        REDUCTIONS[reduction](seen.losses(losses(model, batch))).backward()
        torch.testing.assert_close(seen.norms, expected, rtol=1e-9, atol=0)


@pytest.mark.parametrize("name", ["mlp", "conv net", "decoder", "LSTM"])
def test_the_gradients_stay_the_same_to_the_bit(name):
    model, batch, losses = make(name, 4)
    frozen_batch_norm(model)
    other = copy.deepcopy(model)
    losses = losses or go.cross_entropy
    losses(other, batch).mean().backward()
    with go.observe_gradient_norms(model) as seen:
        for _ in range(2):  # the first batch is checked, the second is not
            model.zero_grad()
            seen.losses(losses(model, batch)).mean().backward()
            _ = seen.norms
            for ours, plain in zip(model.parameters(), other.parameters(), strict=True):
                assert torch.equal(ours.grad, plain.grad)
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def test_gradient_accumulation_and_several_batches_in_flight():
    model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))
    batches = [(torch.randn(size, 4), torch.randint(3, (size,))) for size in (3, 5, 2)]
    with go.observe_gradient_norms(model) as seen:
        for batch in batches:
            (seen.losses(go.cross_entropy(model, batch)).mean() / 3).backward()
            torch.testing.assert_close(seen.norms, reference.gradient_norms(model, batch))
        first = seen.losses(go.cross_entropy(model, batches[0])).sum()
        second = seen.losses(go.cross_entropy(model, batches[1])).sum()
        (first + second).backward()
        torch.testing.assert_close(seen.norms, reference.gradient_norms(model, batches[1]))


def test_norms_are_of_the_losses_told_last():
    model = nn.Linear(4, 3)
    with go.observe_gradient_norms(model) as seen:
        first = seen.losses(go.cross_entropy(model, BATCH)).mean()
        last = (2 * BATCH[0], BATCH[1])
        seen.losses(go.cross_entropy(model, last)).mean().backward()
        torch.testing.assert_close(seen.norms, reference.gradient_norms(model, last))
        first.backward()
        torch.testing.assert_close(seen.norms, reference.gradient_norms(model, last))


OTHER_TERMS = {
    "logits": lambda hidden, logits: 1e-3 * logits.logsumexp(1).square().mean(),
    "hidden": lambda hidden, logits: 1e-3 * hidden.square().mean(),
    "both": lambda hidden, logits: 1e-3 * (hidden.sum(1) + logits.sum(1)).square().mean(),
    "larger than rounding in bfloat16": lambda hidden, logits: 0.01 * hidden.sum(),
}


@pytest.mark.parametrize("name", OTHER_TERMS)
def test_another_term_of_the_same_backward_pass_is_noticed(name):
    dtype = torch.bfloat16 if "bfloat16" in name else torch.float32
    model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3)).to(dtype)
    with go.observe_gradient_norms(model) as seen:
        hidden = model[1](model[0](BATCH[0].to(dtype)))
        logits = model[2](hidden)
        losses = seen.losses(F.cross_entropy(logits, BATCH[1], reduction="none"))
        (losses.mean() + OTHER_TERMS[name](hidden, logits)).backward()
        with pytest.raises(ValueError, match="another term"):
            _ = seen.norms


def test_a_penalty_on_the_weights_is_no_gradient_of_an_example():
    model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))
    with go.observe_gradient_norms(model) as seen:
        losses = seen.losses(go.cross_entropy(model, BATCH))
        (losses.mean() + sum(p.square().sum() for p in model.parameters())).backward()
        torch.testing.assert_close(seen.norms, reference.gradient_norms(model, BATCH))


def test_a_second_backward_pass_starts_again():
    model = nn.Linear(4, 3)
    with go.observe_gradient_norms(model) as seen:
        loss = seen.losses(go.cross_entropy(model, BATCH)).mean()
        loss.backward(retain_graph=True)
        loss.backward()
        torch.testing.assert_close(seen.norms, reference.gradient_norms(model, BATCH))


def test_dropout_in_training_mode_is_seen_as_it_fell():
    """The norm is that of the gradient with the dropout of this very pass, attention's own included."""
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.5, batch_first=True).double()
    model = Custom(lambda m, x: m.layer(x).mean(1)[:, :3], layer=layer)
    x, y = torch.randn(4, 5, 8, dtype=torch.float64), torch.tensor([0, 1, 2, 0])
    with go.observe_gradient_norms(model) as seen:
        losses = seen.losses(F.cross_entropy(model(x), y, reduction="none"))
        expected = [
            torch.cat(
                [g.flatten() for g in torch.autograd.grad(losses[i], list(model.parameters()), retain_graph=True)]
            )
            for i in range(4)
        ]
        losses.mean().backward()
        torch.testing.assert_close(seen.norms, torch.stack(expected).norm(dim=1), rtol=1e-9, atol=0)


def test_batch_norm_with_batch_statistics_raises_at_the_first_forward():
    model = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 3))
    with go.observe_gradient_norms(model), pytest.raises(ValueError, match=r"BatchNorm1d normalizes .*eval mode"):
        model(BATCH[0])
    model[1].eval()
    with go.observe_gradient_norms(model) as seen:
        seen.losses(go.cross_entropy(model, BATCH)).mean().backward()
        torch.testing.assert_close(seen.norms, reference.gradient_norms(model, BATCH))


def test_wrong_use_is_refused():
    model = nn.Linear(4, 3)
    with go.observe_gradient_norms(model) as seen:
        with pytest.raises(RuntimeError, match="losses were not passed"):
            _ = seen.norms
        losses = go.cross_entropy(model, BATCH)
        with pytest.raises(ValueError, match=r'use reduction="none"'):
            seen.losses(losses.mean())
        with pytest.raises(ValueError, match="with grad"):
            seen.losses(losses.detach())
        loss = seen.losses(losses)
        with pytest.raises(RuntimeError, match="call backward"):
            _ = seen.norms
        (loss * torch.tensor([1.0, 0.0, 1.0, 0.0, 1.0])).sum().backward()
        with pytest.raises(ValueError, match=r"2 of 5.*example 1"):
            _ = seen.norms
    with pytest.raises(ValueError, match="at least one parameter"), go.observe_gradient_norms(nn.ReLU()):
        pass


def test_a_validation_pass_in_between_does_no_harm():
    model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))
    with go.observe_gradient_norms(model) as seen:
        with torch.no_grad():
            model(BATCH[0])
        model(BATCH[0])  # with grad, and never used
        seen.losses(go.cross_entropy(model, BATCH)).mean().backward()
        torch.testing.assert_close(seen.norms, reference.gradient_norms(model, BATCH))


def test_the_graphs_of_earlier_batches_are_let_go():
    """A context around a whole training run keeps one batch's graph, not all of them."""
    model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))
    alive = []
    with go.observe_gradient_norms(model) as seen:
        for _ in range(5):
            losses = go.cross_entropy(model, BATCH)
            alive.append(weakref.ref(losses))
            seen.losses(losses).mean().backward()
            _ = seen.norms
            del losses
        gc.collect()
        assert [reference() is None for reference in alive[:-1]] == [True] * 4


def test_layers_that_are_frozen_unfrozen_and_replaced_between_steps():
    model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))
    model[0].requires_grad_(requires_grad=False)
    with go.observe_gradient_norms(model, batch_gradient=True) as seen:
        for change in (
            lambda: None,
            lambda: model[0].requires_grad_(requires_grad=True),
            lambda: model.__setitem__(2, nn.Linear(6, 3)),
            lambda: model[2].requires_grad_(requires_grad=False),
        ):
            change()
            model.zero_grad()
            seen.losses(go.cross_entropy(model, BATCH)).mean().backward()
            torch.testing.assert_close(seen.norms, reference.gradient_norms(model, BATCH))
            gradients = torch.cat([p.grad.flatten() for p in model.parameters() if p.requires_grad])
            torch.testing.assert_close(seen.batch_gradient_norm, gradients.norm())


def test_a_hook_on_a_parameter_is_refused():
    model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))
    hook = model[0].weight.register_hook(lambda gradient: gradient * 0)
    with go.observe_gradient_norms(model) as seen:
        with pytest.raises(ValueError, match=r"register_hook"):
            seen.losses(go.cross_entropy(model, BATCH))
        hook.remove()
        model[0].weight.register_post_accumulate_grad_hook(lambda parameter: None)
        seen.losses(go.cross_entropy(model, BATCH)).mean().backward()
        torch.testing.assert_close(seen.norms, reference.gradient_norms(model, BATCH))


@pytest.mark.parametrize("error", [RuntimeError, torch.OutOfMemoryError])
def test_an_error_of_a_rule_does_not_end_the_training_step_unless_memory_runs_out(error, monkeypatch):
    def fails(norms, junction, gradients):
        raise error("no room")

    model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))
    monkeypatch.setattr(squared_norms.SquaredNorms, "add", fails)
    with go.observe_gradient_norms(model) as seen:
        loss = seen.losses(go.cross_entropy(model, BATCH)).mean()
        with pytest.raises(error) if error is torch.OutOfMemoryError else nullcontext():
            loss.backward()
            assert all(parameter.grad is not None for parameter in model.parameters())
            with pytest.raises(ValueError, match="no room"):
                _ = seen.norms


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_gradients_of_many_users_are_no_other_term(dtype):
    model = Custom(lambda m, x: m.head(sum((m.body(x) * scale).tanh() for scale in range(7)) * m.body(x)),
                   body=nn.Linear(4, 4), head=nn.Linear(4, 3)).to(dtype)  # fmt: skip
    used_often = Custom(lambda m, x: sum(m.head(each) for each in [m.body(x).tanh()] * 7),
                        body=nn.Linear(4, 4), head=nn.Linear(4, 3)).to(dtype)  # fmt: skip
    for each in (model, used_often):
        with go.observe_gradient_norms(each, batch_gradient=True) as seen:
            seen.losses(go.cross_entropy(each, (BATCH[0].to(dtype), BATCH[1]))).mean().backward()
            assert seen.norms.isfinite().all()
            assert seen.batch_gradient_norm.isfinite()


@pytest.mark.parametrize("size", [1, 5])
def test_sparse_gradients(size):
    model = Custom(lambda m, x: m.head(m.table(x).mean(1)), table=nn.Embedding(9, 4, sparse=True), head=nn.Linear(4, 3))
    batch = (torch.randint(9, (size, 6)), BATCH[1][:size])
    with go.observe_gradient_norms(model, batch_gradient=True) as seen:
        seen.losses(go.cross_entropy(model, batch)).mean().backward()
        torch.testing.assert_close(seen.norms, reference.gradient_norms(model, batch))


def compared_with_a_plain_step(model, batch, losses=go.cross_entropy):
    """The norms of an observed step and those of the definition."""
    expected = reference.gradient_norms(model, batch, losses)
    with go.observe_gradient_norms(model) as seen:
        seen.losses(losses(model, batch)).mean().backward()
        torch.testing.assert_close(seen.norms, expected)
    torch.testing.assert_close(go.gradient_norms(model, batch, losses), expected)


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")
@pytest.mark.parametrize("register", ["register_full_backward_hook", "register_full_backward_pre_hook"])
def test_full_backward_hooks_on_modules(register):
    model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))
    calls = []
    for module in model:
        getattr(module, register)(lambda *call: calls.append(call))
    compared_with_a_plain_step(model, BATCH)
    assert calls


@pytest.mark.parametrize("register", ["register_hook", "register_prehook"])
def test_a_hook_of_the_user_that_changes_a_gradient_after_ours_is_noticed(register):
    model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))
    with go.observe_gradient_norms(model) as seen:
        hidden = model[1](model[0](BATCH[0]))
        losses = seen.losses(F.cross_entropy(model[2](hidden), BATCH[1], reduction="none"))
        getattr(hidden.grad_fn, register)(lambda gradients, *_: tuple(2 * each for each in gradients))
        losses.mean().backward()
        with pytest.raises(ValueError, match="than the losses"):
            _ = seen.norms


class Positions(nn.Module):
    """A table that all examples share."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(6, 4)

    def forward(self, x):
        return self.table(torch.arange(x.shape[1]))


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")
@pytest.mark.parametrize("factor", [None, 3.0])
@pytest.mark.parametrize("batch_gradient", [True, False])
def test_hooks_on_a_module_whose_output_all_examples_share(factor, batch_gradient):
    """They run as in a plain backward pass, also if they change gradients."""
    model = Custom(lambda m, x: m.head((m.body(x) + m.positions(x)).tanh().mean(1)),
                   body=nn.Linear(4, 4), positions=Positions(), head=nn.Linear(4, 3))  # fmt: skip
    model.positions.register_full_backward_pre_hook(
        lambda module, gradients: None if factor is None else tuple(factor * each for each in gradients)
    )
    batch = (torch.randn(5, 6, 4), BATCH[1])
    expected = reference.gradient_norms(model, batch)
    torch.testing.assert_close(go.gradient_norms(model, batch), expected)
    with go.observe_gradient_norms(model, batch_gradient=batch_gradient) as seen:
        seen.losses(go.cross_entropy(model, batch)).mean().backward()
        torch.testing.assert_close(seen.norms, expected)
        if batch_gradient:
            gradient = torch.cat([parameter.grad.flatten() for parameter in model.parameters()])
            torch.testing.assert_close(seen.batch_gradient_norm, gradient.norm())
