import pytest
import torch
from small_models import cases
from torch import nn

import gradorder as go
from gradorder.scores import reference, vectorized


@pytest.mark.parametrize("batch_size", [1, 2, 17])
@pytest.mark.parametrize("case", range(len(cases())), ids=[str(case) for case in cases()])
def test_equals_the_reference(case, batch_size):
    case = cases(batch_size)[case]
    tolerance = 1e-10 if "float64" in case.name else 1e-5
    expected = reference.per_example_gradients(case.model, case.batch, case.losses)
    rows = go.per_example_gradients(case.model, case.batch, case.losses)
    torch.testing.assert_close(rows, expected, rtol=tolerance, atol=tolerance * float(expected.abs().max()))
    norms = go.gradient_norms(case.model, case.batch, case.losses)
    torch.testing.assert_close(norms, expected.norm(dim=1), rtol=tolerance, atol=0)
    torch.testing.assert_close(go.GradientNorm(case.losses)(case.model, case.batch), norms, rtol=0, atol=0)


def test_memory_stays_bounded_by_chunks(monkeypatch):
    case = cases(17)[2]
    whole = go.gradient_norms(case.model, case.batch)
    sizes = []
    vmap = vectorized.vmap
    monkeypatch.setattr(
        vectorized, "vmap", lambda f, chunk_size: sizes.append(chunk_size) or vmap(f, chunk_size=chunk_size)
    )
    monkeypatch.setattr(vectorized, "MAX_GRADIENT_ENTRIES", 250)
    torch.testing.assert_close(vectorized.norms_and_losses(case.model, case.batch, go.cross_entropy)[0], whole)
    assert sizes == [250 // sum(p.numel() for p in case.model.parameters())] == [3]


def test_frozen_parameters_are_left_out():
    case = cases()[3]
    case.model[0].weight.requires_grad_(requires_grad=False)
    case.model[1].body[1].bias.requires_grad_(requires_grad=False)
    expected = reference.gradient_norms(case.model, case.batch)
    torch.testing.assert_close(go.gradient_norms(case.model, case.batch), expected, rtol=1e-5, atol=0)


def test_half_precision_gives_float32_scores():
    model, batch = nn.Linear(4, 3).bfloat16(), (torch.randn(5, 4).bfloat16(), torch.tensor([0, 1, 2, 0, 1]))
    assert go.gradient_norms(model, batch).dtype == torch.float32


def test_works_without_grad_and_in_inference_mode():
    case = cases()[1]
    expected = reference.gradient_norms(case.model, case.batch, case.losses)
    with torch.no_grad():
        torch.testing.assert_close(go.gradient_norms(case.model, case.batch, case.losses), expected)
    with torch.inference_mode():
        norms = go.gradient_norms(case.model, case.batch, case.losses)
    torch.testing.assert_close(norms, expected)
    assert not norms.requires_grad


def test_rows_that_are_not_tensors_stay_with_their_example():
    model = nn.Linear(4, 3)
    batch = {"x": torch.randn(3, 4), "kind": ["a", "b", "c"]}

    def losses(model, batch):
        weights = torch.tensor([{"a": 1.0, "b": 2.0, "c": 3.0}[kind] for kind in batch["kind"]])
        return weights * model(batch["x"]).square().sum(1)

    expected = reference.gradient_norms(model, batch, losses)
    torch.testing.assert_close(go.gradient_norms(model, batch, losses), expected)
    plain = reference.gradient_norms(model, batch, lambda m, b: m(b["x"]).square().sum(1))
    torch.testing.assert_close(expected, plain * torch.tensor([1.0, 2.0, 3.0]))


def test_bad_losses_are_refused():
    model, batch = nn.Linear(4, 3), (torch.randn(5, 4), torch.tensor([0, 1, 2, 0, 1]))
    with pytest.raises(ValueError, match=r'losses must give one number per example.*use reduction="none"'):
        go.gradient_norms(model, batch, lambda m, b: nn.functional.cross_entropy(m(b[0]), b[1]))
    with pytest.raises(ValueError, match=r"losses must give one number per example.*got shape \(5, 3\)"):
        go.gradient_norms(model, batch, lambda m, b: m(b[0]))
    with pytest.raises(ValueError, match=r"takes a batch \(inputs, targets\), got dict"):
        go.gradient_norms(model, {"x": batch[0]})
    with pytest.raises(ValueError, match="at least one parameter with requires_grad=True"):
        go.gradient_norms(model.requires_grad_(requires_grad=False), batch)
