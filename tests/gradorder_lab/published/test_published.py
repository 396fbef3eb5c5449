"""Every published rule against a slow loop that is written from its formula."""

import math

import numpy as np
import pytest
import torch
from asking import order_of, request_of

import gradorder as go
from gradorder.testing import check_ordering
from gradorder_lab.published import IES, RS2, Kakurenbo, OrderDP, RePB, SeTa
from gradorder_lab.published.seta import groups_by_loss


def random_losses(num_examples, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).exponential(size=num_examples)).float()


def shuffled(num_examples, epoch, seed=0):
    """The random order from which a rule of this epoch chooses."""
    generator = request_of(go.Shuffled(), num_examples, epoch=epoch, seed=seed).generator
    return torch.randperm(num_examples, generator=generator).tolist()


@pytest.mark.parametrize("rule", [SeTa(40), IES(), RePB(), RS2(), Kakurenbo(40)], ids=str)
def test_the_contract_of_orderings(rule):
    check_ordering(rule)


def test_order_dp_keeps_the_contract_except_for_examples_that_its_pool_does_not_hold():
    with pytest.raises(AssertionError, match="never scored first"):
        check_ordering(OrderDP())
    check_ordering(OrderDP(pool=1.0))


@pytest.mark.parametrize("rule", [SeTa(4), IES(), OrderDP(), RePB(), RS2(), Kakurenbo(4)], ids=str)
def test_a_fraction_to_keep_is_refused(rule):
    with pytest.raises(ValueError, match="keep must not be given"):
        go.OrderedSampler(20, 4, ordering=rule, keep=0.5)


# ---------------------------------------------------------------- SeTa


def k_means(values, k):
    """Lloyd's iterations; the start is the middle of k parts of equal size."""
    ranked = sorted(values)
    centres = [ranked[(2 * j + 1) * len(values) // (2 * k)] for j in range(k)]
    while True:
        groups = [min(range(k), key=lambda j, value=value: (abs(value - centres[j]), j)) for value in values]
        parts = [[value for value, group in zip(values, groups, strict=True) if group == j] for j in range(k)]
        new = [sum(part) / len(part) if part else centre for part, centre in zip(parts, centres, strict=True)]
        if np.allclose(new, centres, rtol=1e-12, atol=0):
            return groups
        centres = new


@pytest.mark.parametrize("seed", range(5))
def test_groups_are_those_of_k_means(seed):
    losses = random_losses(60, seed)
    assert groups_by_loss(losses, 5).tolist() == k_means(losses.double().tolist(), 5)


@pytest.mark.parametrize("epoch", range(1, 40))
def test_seta_visits_the_groups_of_its_window(epoch):
    losses, rule = random_losses(200, epoch), SeTa(40)
    drawn = shuffled(200, epoch)[:180]  # (1 - 0.1) * 200
    groups = k_means(losses[drawn].double().tolist(), 5)
    first = epoch % 2  # w = 4 of 5 groups
    expected = [i for i, group in zip(drawn, groups, strict=True) if first <= group < first + 4]
    is_last = epoch >= 35  # of 40, an eighth
    assert order_of(rule, losses, epoch=epoch).indices.tolist() == (drawn if is_last else expected)
    assert is_last or len(expected) < 180
    assert order_of(rule, losses, epoch=epoch).weights is None


def test_the_first_epoch_of_seta_is_complete():
    assert sorted(order_of(SeTa(8), None, num_examples=50).indices.tolist()) == list(range(50))
    assert sorted(order_of(SeTa(8), random_losses(50)).indices.tolist()) == list(range(50))


@pytest.mark.parametrize("epoch", [1, 2])
def test_equal_losses_do_not_empty_an_epoch_of_seta(epoch):
    assert len(order_of(SeTa(40), torch.full((20,), 0.1), epoch=epoch).indices) == 18


# ---------------------------------------------------------------- IES


def excluded(history, threshold):
    """Of the losses of one example, the oldest first."""
    if len(history) < 4:
        return False
    seconds = [abs(history[e] - 2 * history[e - 1] + history[e - 2]) for e in range(2, len(history))]
    return float(np.mean(seconds[-3:])) < threshold


def ies_histories(num_examples=60, epochs=9):
    """Straight lines with a little noise, which is too large for some examples, or in some epochs."""
    rng = np.random.default_rng(3)
    noise = rng.exponential(5e-4, (num_examples, 1)) * rng.standard_normal((num_examples, epochs))
    return 2 - 0.1 * np.arange(epochs) + noise


@pytest.mark.parametrize("threshold", [1e-3, 2e-3])
def test_ies_excludes_examples_with_small_second_differences(threshold):
    histories = torch.from_numpy(ies_histories())
    run = IES(threshold).start(request_of(IES(), 60))
    sizes = []
    for epoch in range(10):
        given = None if epoch == 0 else histories[:, epoch - 1]
        order = run.order(request_of(IES(), 60, epoch=epoch, scores=given))
        out = [i for i in range(60) if excluded(histories[i, :epoch].tolist(), threshold)]
        assert order.indices.tolist() == [i for i in shuffled(60, epoch) if i not in out]
        assert order.weights is None
        sizes.append(len(order.indices))
    assert sizes[:4] == [60] * 4  # four losses are recorded after epoch 3
    assert all(0 < size < 60 for size in sizes[4:])
    assert len(set(sizes[4:])) > 1  # some return


def test_where_ies_excludes_all_one_batch_is_left_with_the_largest_changes():
    run = IES().start(request_of(IES(), 12))
    curved = 1e-6 * torch.arange(12, dtype=torch.float64)
    for epoch in range(1, 5):
        order = run.order(request_of(IES(), 12, epoch=epoch, scores=curved * epoch**2, batch_size=4))
    assert sorted(order.indices.tolist()) == [8, 9, 10, 11]


def test_ies_has_the_papers_thresholds():
    assert [IES.for_classes(number).threshold for number in (0, 10, 99, 100, 150)] == [1e-3] * 3 + [2e-3] * 2


# ---------------------------------------------------------------- OrderDP


@pytest.mark.parametrize("seed", range(5))
def test_order_dp_visits_the_largest_losses_of_its_pool(seed):
    losses = random_losses(100, seed)
    pool = shuffled(100, 3, seed)[:50]
    largest = sorted(pool, key=lambda i: -losses[i])[:30]
    order = order_of(OrderDP(), losses, epoch=3, seed=seed)
    assert order.indices.tolist() == [i for i in pool if i in largest]
    assert order.weights is None


def test_the_first_epoch_of_order_dp_has_equal_losses():
    assert order_of(OrderDP(), None, num_examples=100).indices.tolist() == shuffled(100, 0)[:30]
    sampler = go.OrderedSampler(100, 10, ordering=OrderDP())
    assert list(sampler) == shuffled(100, 0)[:30]


def test_examples_that_order_dp_never_visited_come_first():
    losses, known = random_losses(100), torch.arange(100) % 10 > 0
    pool = shuffled(100, 3)[:50]
    order = order_of(OrderDP(), losses, epoch=3, known=known).indices.tolist()
    never = [i for i in pool if i % 10 == 0]
    assert len(never) > 0
    assert order[: len(never)] == never
    assert len(order) == 30


# ---------------------------------------------------------------- RePB


def test_repb_visits_and_weighs_as_its_formula_says():
    num_examples, batch_size, epochs, ratio = 50, 8, 6, 0.5
    sampler = go.OrderedSampler(num_examples, batch_size, ordering=RePB(ratio), seed=4)
    last_batches, visits = [list(range(num_examples))], np.zeros(num_examples)
    losses = {}
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        generator = request_of(RePB(), num_examples, epoch=epoch, seed=4).generator
        order = torch.randperm(num_examples, generator=generator).tolist()
        draws = torch.rand(num_examples, generator=generator, dtype=torch.float64).tolist()
        stays = {i for i in range(num_examples) if draws[i] >= ratio or epoch == 0}
        for batch in last_batches if epoch > 0 else []:
            mean = sum(losses[i] for i in batch) / len(batch)
            stays |= {i for i in batch if losses[i] >= mean}
        expected = [i for i in order if i in stays]
        assert list(sampler) == expected
        visits[expected] += 1
        last_batches = [expected[k : k + batch_size] for k in range(0, len(expected), batch_size)]
        given = random_losses(num_examples, seed=epoch)
        for batch in last_batches:
            assert sampler.weights.tolist() == pytest.approx([(epoch + 1) / visits[i] for i in batch])
            sampler.step(given[batch])
            losses |= {i: float(given[i]) for i in batch}
    assert visits.min() < epochs


def test_repb_refuses_to_plan_an_epoch_again():
    sampler = go.OrderedSampler(20, 4, ordering=RePB())
    with pytest.raises(ValueError, match="none can be planned again"):
        sampler.set_epoch(0, scores=random_losses(20))
    with pytest.raises(ValueError, match="labels must not be given"):
        go.OrderedSampler(20, 4, ordering=RePB(), labels=torch.arange(20) % 2)


# ---------------------------------------------------------------- RS2


@pytest.mark.parametrize(("num_examples", "size", "subsets"), [(100, 30, 3), (101, 30, 3), (10, 3, 3), (1, 1, 1)])
def test_rs2_visits_disjoint_subsets_and_shuffles_again(num_examples, size, subsets):
    sampler = go.OrderedSampler(num_examples, 5, ordering=RS2(), seed=7)
    for epoch in range(4 * subsets):
        sampler.set_epoch(epoch)
        turn = epoch % subsets
        shuffle = shuffled(num_examples, epoch - turn, seed=7)
        assert list(sampler) == shuffle[turn * size : (turn + 1) * size]


# ---------------------------------------------------------------- KAKURENBO


@pytest.mark.parametrize("epoch", range(20))
def test_kakurenbo_hides_small_losses_that_are_confident(epoch):
    losses, rule = 0.8 * random_losses(100, epoch), Kakurenbo(20)
    factor = 1.0 if epoch < 6 else 0.8 if epoch < 12 else 0.6 if epoch < 16 else 0.4
    fraction = 0.3 * factor if epoch > 0 else 0.0
    candidates = sorted(range(100), key=lambda i: losses[i])[: round(100 * fraction)]
    hidden = [i for i in candidates if math.exp(-losses[i]) >= 0.7]
    order = order_of(rule, losses, epoch=epoch)
    assert order.indices.tolist() == [i for i in shuffled(100, epoch) if i not in hidden]
    assert rule.learning_rate_factor(epoch) == pytest.approx(1 / (1 - fraction))


def test_both_conditions_of_kakurenbo_count():
    small, large = torch.linspace(0.01, 0.02, 100), torch.linspace(1, 2, 100)
    mixed = torch.where(torch.arange(100) < 10, small, large)
    sizes = [len(order_of(Kakurenbo(20), losses, epoch=1).indices) for losses in (small, large, mixed)]
    assert sizes == [70, 100, 90]


# ---------------------------------------------------------------- state


def trained(sampler, losses):
    """Train on what is left of the epoch, batch by batch."""
    for batch in torch.tensor(list(sampler)).split(7):
        yield batch.tolist(), sampler.weights.tolist()
        sampler.step(losses[batch])


def trained_epochs(sampler, epochs, losses):
    """Train on whole epochs; the rules that need all losses are given those of the epoch before."""
    found = []
    for epoch in epochs:
        is_rescored = isinstance(sampler._planner.ordering, IES) and epoch > 0
        sampler.set_epoch(epoch, scores=losses[epoch - 1] if is_rescored else None)
        found += trained(sampler, losses[epoch])
    return found


@pytest.mark.parametrize("rule", [IES(2e-3), RePB()], ids=str)
def test_a_resumed_run_goes_on_as_it_would_have(rule):
    losses = [random_losses(60, epoch) for epoch in range(9)]
    if isinstance(rule, IES):
        losses = list(torch.from_numpy(ies_histories()).float().T)
    first, second = (go.OrderedSampler(60, 7, ordering=rule, seed=1) for _ in range(2))
    trained_epochs(first, range(5), losses)
    first.set_epoch(5, scores=losses[4] if isinstance(rule, IES) else None)
    rest = trained(first, losses[5])
    next(rest), next(rest)  # now one step is made
    second.load_state_dict(first.state_dict())
    list(rest)
    list(trained(second, losses[5]))
    unbroken, again = (trained_epochs(sampler, range(6, 9), losses) for sampler in (first, second))
    assert unbroken == again
    assert 0 < sum(len(batch) for batch, _ in unbroken) < 3 * 60


@pytest.mark.parametrize("rule", [IES(), RePB()], ids=str)
def test_a_state_of_another_size_is_refused(rule):
    run = rule.start(request_of(rule, 10))
    run.order(request_of(rule, 10, epoch=1, scores=random_losses(10)))
    rule.start(request_of(rule, 10)).load(run.state())
    with pytest.raises(ValueError, match=r"got .*10"):
        rule.start(request_of(rule, 11)).load(run.state())
