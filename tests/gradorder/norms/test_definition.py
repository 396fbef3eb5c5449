import pytest
import torch
from torch import nn

import gradorder as go
from gradorder.norms import isolation, reference


def test_memory_stays_bounded_by_chunks(monkeypatch):
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3))
    batch = (torch.randn(17, 4), torch.arange(17) % 3)
    whole = go.per_example_gradients(model, batch)
    sizes = []
    vectorized = isolation._vectorized

    def watched(*args):
        for chunk in vectorized(*args):
            sizes.append(len(chunk[0]))
            yield chunk

    monkeypatch.setattr(isolation, "_vectorized", watched)
    monkeypatch.setattr(isolation, "MAX_GRADIENT_ENTRIES", 250)
    torch.testing.assert_close(go.per_example_gradients(model, batch), whole)
    assert max(sizes) == 250 // sum(p.numel() for p in model.parameters()) == 3
    assert sum(sizes) == 17


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
    with pytest.raises(ValueError, match=r'losses.*reduction="none"'):
        go.gradient_norms(model, batch, lambda m, b: nn.functional.cross_entropy(m(b[0]), b[1]))
    with pytest.raises(ValueError, match=r"losses.*\(5, 3\)"):
        go.gradient_norms(model, batch, lambda m, b: m(b[0]))
    with pytest.raises(ValueError, match=r"batch.*dict"):
        go.gradient_norms(model, {"x": batch[0]})
    with pytest.raises(ValueError, match="requires_grad=True"):
        go.gradient_norms(model.requires_grad_(requires_grad=False), batch)


def half_of_the_weight(gradient):
    return gradient * (torch.arange(len(gradient)) % 2)[:, None]


HOOKED = {
    "a chain": lambda: nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3)),
    "the graph": lambda: nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3)),
    "one by one": lambda: nn.Sequential(nn.Linear(4, 6), Distances()),
}


class Distances(nn.Module):
    """An operation that the graph knows nothing about."""

    def __init__(self):
        super().__init__()
        self.centres = nn.Parameter(torch.randn(3, 6))

    def forward(self, x):
        return torch.cdist(x, self.centres)


@pytest.mark.filterwarnings("ignore:the gradient norms of this:UserWarning")
@pytest.mark.parametrize("make", HOOKED.values(), ids=HOOKED)
def test_a_hook_on_a_parameter_counts(make):
    model, batch = make(), (torch.randn(5, 4), torch.tensor([0, 1, 2, 0, 1]))
    without = reference.gradient_norms(model, batch)
    hook = model[0].weight.register_hook(half_of_the_weight)
    norms = []
    for i in range(5):
        loss = go.cross_entropy(model, (batch[0][i : i + 1], batch[1][i : i + 1]))[0]
        norms.append(isolation.flat_gradient(loss, list(model.parameters())).norm())
    torch.testing.assert_close(go.gradient_norms(model, batch), torch.stack(norms))
    torch.testing.assert_close(go.per_example_gradients(model, batch).norm(dim=1), torch.stack(norms))
    hook.remove()
    torch.testing.assert_close(go.gradient_norms(model, batch), without)


class InAList(nn.Module):
    """Its parameters are used by way of a list that `functional_call` does not reach."""

    def __init__(self):
        super().__init__()
        self.body, self.centres = nn.Parameter(torch.randn(4, 6)), nn.Parameter(torch.randn(3, 6))
        self.both = [self.body, self.centres]

    def forward(self, x):
        return torch.cdist(x @ self.both[0], self.both[1])


@pytest.mark.filterwarnings("ignore:the gradient norms of this:UserWarning")
def test_parameters_that_are_reached_by_other_ways():
    model, batch = InAList(), (torch.randn(5, 4), torch.tensor([0, 1, 2, 0, 1]))
    expected = reference.per_example_gradients(model, batch)
    assert expected.norm(dim=1).min() > 0
    torch.testing.assert_close(go.per_example_gradients(model, batch), expected)
    torch.testing.assert_close(go.gradient_norms(model, batch), expected.norm(dim=1))


def test_parameters_that_the_losses_hold():
    model, batch = nn.Sequential(nn.Linear(4, 6), Distances()), (torch.randn(5, 4), torch.tensor([0, 1, 2, 0, 1]))
    weight = model[0].weight

    def losses(model, batch):
        return go.cross_entropy(model, batch) + (batch[0] @ weight.T).square().sum(1)

    expected = reference.per_example_gradients(model, batch, losses)
    torch.testing.assert_close(go.per_example_gradients(model, batch, losses), expected)


@pytest.mark.parametrize("name", ["weight", "bias"])
def test_a_linear_layer_with_a_buffer_for_a_parameter(name):
    model, batch = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3)), (torch.randn(5, 4), torch.arange(5) % 3)
    values = getattr(model[0], name).detach()
    delattr(model[0], name)
    model[0].register_buffer(name, values)
    torch.testing.assert_close(go.gradient_norms(model, batch), reference.gradient_norms(model, batch))


@pytest.mark.filterwarnings("ignore:the gradient norms of this:UserWarning")
@pytest.mark.parametrize("size", [1, 5])
def test_sparse_gradients(size):
    class Sparse(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.last = nn.Embedding(9, 6, sparse=True), Distances()

        def forward(self, x):
            return self.last(self.table(x).mean(1))

    model, batch = Sparse(), (torch.randint(9, (size, 4)), torch.arange(size) % 3)
    expected = reference.per_example_gradients(model, batch)
    torch.testing.assert_close(go.per_example_gradients(model, batch), expected)
    torch.testing.assert_close(go.gradient_norms(model, batch), expected.norm(dim=1))


def test_gradients_of_an_empty_batch():
    model = nn.Linear(4, 3)
    for gradients in (go.per_example_gradients, reference.per_example_gradients):
        assert gradients(model, (torch.randn(0, 4), torch.arange(0))).shape == (0, 15)
