"""`sampler.run()`: how many epochs there are, what they cost, the progress, and resuming."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import gradorder as go
from gradorder.sampler import sampler as sampler_module

SIZE, BATCH = 100, 20
few = settings(max_examples=settings().max_examples // 2)


def losses_of(indices, epoch, fitted, returns):
    """`fitted` of ten examples are fitted; every `returns`-th epoch some of them are not."""
    is_fitted = (indices % 10 < fitted) & ~((indices % 3 == 0) & (epoch % returns == returns - 1))
    return torch.where(is_fitted, 0.01, 1.0)


def train(sampler, fitted, returns, *, stop=None):
    """The visited examples of every epoch, and the progress after every step; ends after `stop` steps."""
    loader, visited, progress = sampler.loader(), [], []
    for epoch in sampler.run():
        visited.append([])
        for batch in loader:
            sampler.step(losses_of(batch, epoch, fitted, returns))
            visited[-1] += batch.tolist()
            progress.append(sampler.progress)
            if len(progress) == stop:
                return visited, progress
    return visited, progress


runs = {"fitted": st.integers(0, 10), "returns": st.integers(1, 6), "epochs": st.integers(1, 8)}


@given(**runs)
@few
def test_a_run_never_costs_more_than_its_epochs_and_ends_at_progress_one(fitted, returns, epochs):
    sampler = go.recommended(SIZE, BATCH, epochs=epochs)
    visited, progress = train(sampler, fitted, returns)
    assert sum(map(len, visited)) <= epochs * SIZE
    assert len(visited) <= 2 * epochs
    assert progress == sorted(progress)
    assert progress[-1] == pytest.approx(1)
    assert sampler.is_over
    assert list(sampler.run()) == []


def test_if_nothing_is_skipped_there_are_as_many_epochs_as_asked_for():
    sampler = go.recommended(SIZE, BATCH, epochs=7)
    visited, progress = train(sampler, 0, 3)
    assert [len(each) for each in visited] == [SIZE] * 7
    assert progress == pytest.approx([step / 35 for step in range(1, 36)])


def test_shorter_epochs_are_more_epochs():
    """An epoch with a part k of the examples counts as sqrt(k) epochs."""
    sampler = go.recommended(SIZE, BATCH, epochs=10)
    visited, progress = train(sampler, 8, 1000)
    kept = [len(each) / SIZE for each in visited]
    worth = torch.tensor(kept).sqrt()
    assert len(visited) > 12
    assert sum(kept) < 8
    assert float(worth.sum()) == pytest.approx(10, abs=0.5 * float(worth[-1]) + 1e-6)
    assert progress[len(visited[0]) // BATCH - 1] == pytest.approx(0.1)


@given(stop=st.integers(1, 30), **runs)
@few
def test_a_run_is_resumed_exactly(stop, fitted, returns, epochs):
    expected = train(go.recommended(SIZE, BATCH, epochs=epochs), fitted, returns)
    sampler = go.recommended(SIZE, BATCH, epochs=epochs)
    visited, progress = train(sampler, fitted, returns, stop=stop)
    resumed = go.recommended(SIZE, BATCH, epochs=epochs)
    resumed.load_state_dict(sampler.state_dict())
    more_visited, more_progress = train(resumed, fitted, returns)
    assert progress + more_progress == expected[1]
    assert sum(visited, []) + sum(more_visited, []) == sum(expected[0], [])


def test_range_gives_the_number_of_epochs_and_a_progress_by_epochs():
    sampler = go.recommended(SIZE, BATCH, epochs=5)
    for epoch in range(5):
        sampler.set_epoch(epoch)
        for batch in sampler.loader():
            sampler.step(losses_of(batch, epoch, 8, 1000))
        assert sampler.progress == pytest.approx((epoch + 1) / 5)
        assert sampler.is_over == (epoch == 4)


def test_an_ordering_of_fixed_length_has_as_many_epochs_as_asked_for():
    sampler = go.OrderedSampler(SIZE, BATCH, ordering=go.Shuffled(), keep=0.5, epochs=4)
    visited, progress = train(sampler, 0, 1)
    assert [len(each) for each in visited] == [SIZE // 2] * 4
    assert progress[-1] == 1


def test_a_loop_of_its_own_ends_when_the_run_is_over():
    """As the plug-ins of frameworks do."""
    sampler, other = (go.recommended(SIZE, BATCH, epochs=6) for _ in range(2))
    other.start_run()
    lengths, epoch = [], 0
    while not other.is_over:
        other.set_epoch(epoch)
        lengths.append(len(other))
        for batch in other.loader():
            other.step(losses_of(batch, epoch, 7, 1000))
        epoch += 1
    assert lengths == [len(each) for each in train(sampler, 7, 1000)[0]]


def test_an_epoch_that_is_left_early_is_not_repeated():
    sampler = go.recommended(SIZE, BATCH, epochs=3)
    seen = []
    for epoch in sampler.run():
        seen.append(epoch)
        for batch in sampler.loader():
            sampler.step(losses_of(batch, epoch, 0, 1))
            break
    assert seen == [0, 1, 2]


def test_a_run_needs_a_number_of_epochs():
    with pytest.raises(ValueError, match="epochs"):
        go.OrderedSampler(SIZE, BATCH, ordering=go.Shuffled()).run()


def test_the_summary_counts_visited_and_skipped_examples(capsys):
    sampler = go.recommended(SIZE, BATCH, epochs=6, verbose=True)
    visited, _ = train(sampler, 8, 1000)
    summary = sampler.summary()
    assert summary.visited == {epoch: len(each) for epoch, each in enumerate(visited)}
    assert summary.kept == pytest.approx(sum(map(len, visited)) / SIZE / len(visited))
    assert summary.kept + summary.skipped == pytest.approx(1)
    assert 0 < summary.seconds < 60
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == len(visited)
    assert str(len(visited[0])) in printed[0]
    assert str(len(visited[1])) in printed[1]
    assert str(SIZE) in str(summary)


def test_one_process_prints_even_if_all_have_rank_0_of_1(capsys, monkeypatch):
    """As with Accelerate."""
    monkeypatch.setattr(sampler_module, "own_rank", lambda: 1)
    go.recommended(SIZE, BATCH, epochs=6, verbose=True, num_replicas=1).set_epoch(0)
    assert capsys.readouterr().out == ""


def test_the_learning_rate_ends_at_its_final_value():
    sampler = go.recommended(SIZE, BATCH, epochs=6)
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    scheduler = go.ProgressLR(optimizer, sampler)
    rates = []
    for epoch in sampler.run():
        for batch in sampler.loader():
            optimizer.step()
            sampler.step(losses_of(batch, epoch, 8, 1000))
            scheduler.step()
            rates.append(optimizer.param_groups[0]["lr"])
    assert rates == sorted(rates, reverse=True)
    assert len(rates) < 6 * SIZE // BATCH
    assert rates[-1] == pytest.approx(0, abs=1e-12)


@given(unit=st.integers(-20, 20), **runs)
def test_a_unit_that_is_a_power_of_two_changes_no_bit_of_a_run(unit, fitted, returns, epochs):
    def visited(factor):
        sampler, seen = go.recommended(SIZE, BATCH, epochs=epochs), []
        for epoch in sampler.run():
            for batch in sampler.loader():
                noise = torch.sin(batch * 7.0 + epoch) ** 2 / 3
                sampler.step(factor * (noise + losses_of(batch, epoch, fitted, returns)))
                seen += batch.tolist()
        return seen

    assert visited(2.0**unit) == visited(1.0)
