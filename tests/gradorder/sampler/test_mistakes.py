"""Loud where users go wrong: each mistake in a training loop is said or refused, and no score reaches another example.

In all of these the score of example i is i, so that a remembered score says whose it is.
"""

import io
import itertools
import math
import warnings
from collections import deque
from contextlib import nullcontext

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import BatchSampler, DataLoader, Dataset

import gradorder as go

SIZE, BATCH = 48, 4  # 12 batches: more than the 5 that a loader with two workers is ahead
workers = pytest.mark.parametrize("num_workers", [0, 2])


def new(size=SIZE, **settings):
    return go.OrderedSampler(size, BATCH, **{"ordering": go.Descending(), **settings})


def loader_of(sampler, num_workers=0, **settings):
    data = range(sampler.num_examples)
    return DataLoader(data, **{"batch_size": BATCH, "sampler": sampler, "num_workers": num_workers, **settings})


def files(said):
    """Where the library's warnings point to: Python 3.12 and later have one of their own about a loader's workers."""
    return [each.filename for each in said if each.category is UserWarning]


def remembered(sampler):
    """The known scores by example."""
    sampler._memory.settle()
    known = sampler._memory.known()
    return {} if known is None else {i: value for i, value in enumerate(known.tolist()) if not math.isnan(value)}


def assert_scores_are_their_own(sampler):
    known = remembered(sampler)
    assert known == {i: float(i) for i in known}


def train(sampler, loader, *, skipped=(), indices=False):
    """One pass, as a user writes it who forgets `step` where a batch is skipped; the batches seen."""
    seen = []
    for number, batch in enumerate(loader):
        seen.append(batch.tolist())
        if number in skipped:
            continue
        sampler.step(batch.float(), indices=batch if indices else None)
    return seen


# ------------------------------------------------------------------------------------------------ no scores


def test_a_part_is_to_be_kept_and_there_are_never_any_scores():
    sampler = new(keep=0.5)
    loader = loader_of(sampler)
    with pytest.warns(UserWarning, match=r"epoch 0.*keep is 0.5") as said:
        for epoch in range(3):
            sampler.set_epoch(epoch)
            assert len(list(loader)) == 12
    assert len(files(said)) == 1  # once


def test_an_order_by_scores_and_there_are_never_any():
    sampler = new()
    loader = loader_of(sampler)
    list(loader)  # epoch 0: the losses may be about to come
    sampler.set_epoch(1)
    with pytest.warns(UserWarning, match=r"epoch 1.*Descending"):
        list(loader)


# ------------------------------------------------------------------------------------------------ a batch skipped

DISCARDED = "step was called"  # in the warning about scores that are discarded
own_or_plain = pytest.mark.parametrize("is_own", [True, False], ids=["own loader", "DataLoader"])


@workers
@own_or_plain
@pytest.mark.parametrize("skipped", [[0], [11]], ids=str)
def test_after_a_batch_without_step_no_score_reaches_another_example(num_workers, is_own, skipped):
    sampler = new()
    loader = sampler.loader(num_workers=num_workers) if is_own else loader_of(sampler, num_workers)
    train(sampler, loader, skipped=skipped)
    with pytest.warns(UserWarning, match=rf"12 .*{DISCARDED} {12 - len(skipped)}") as said:
        sampler.set_epoch(1)
    assert remembered(sampler) == {}
    assert {*files(said)} == {__file__}  # at the user's line, not inside the library


@pytest.mark.parametrize("skipped", [0, 7])
def test_examples_that_are_named_are_checked(skipped):
    sampler = new()
    with pytest.raises(go.StepError, match=rf"batch {skipped} .*batch {skipped + 1}"):
        train(sampler, loader_of(sampler), skipped=[skipped], indices=True)
    assert_scores_are_their_own(sampler)
    with pytest.raises(go.StepError, match="they are not"):
        sampler.step(indices=[0, 0, 0, 0])


def test_scores_with_checked_indices_are_kept():
    """Up to the last checked step the scores are proven right, whatever the counts say."""
    sampler = new()
    for number, batch in enumerate(loader_of(sampler)):
        if number < 6:
            sampler.step(batch.float(), indices=batch)
        elif number != 7:
            sampler.step(batch.float())
    with pytest.warns(UserWarning, match=DISCARDED):
        sampler.set_epoch(1)
    assert len(remembered(sampler)) == 6 * BATCH
    assert_scores_are_their_own(sampler)


@workers
@own_or_plain
def test_a_skipped_batch_that_is_counted_is_no_mistake(num_workers, is_own):
    sampler = new()
    loader = sampler.loader(num_workers=num_workers) if is_own else loader_of(sampler, num_workers)
    for number, batch in enumerate(loader):
        sampler.step(None if number in (0, 4, 11) else batch.float())
    sampler.set_epoch(1)
    assert_scores_are_their_own(sampler)
    assert len(remembered(sampler)) == 9 * BATCH


def test_gradients_of_an_epoch_with_a_missing_step_are_not_learned_from():
    sampler = new(ordering=go.GradientBalancing())
    for number, batch in enumerate(sampler.loader()):
        if number != 3:
            sampler.step(gradients=torch.ones(len(batch), 2))
    with pytest.warns(UserWarning, match=DISCARDED), pytest.warns(UserWarning, match="44 of 48"):
        sampler.set_epoch(1)
    assert "carried_order" not in sampler.state_dict()


class Prefetching:
    """A loader that is always so many batches ahead."""

    def __init__(self, sampler, depth):
        self.sampler, self.depth = sampler, depth

    def __iter__(self):
        batches = iter(BatchSampler(self.sampler, self.sampler.loader_batch_size, drop_last=False))
        ahead = deque(itertools.islice(batches, self.depth))
        for batch in batches:
            ahead.append(batch)
            yield torch.tensor(ahead.popleft())
        while ahead:
            yield torch.tensor(ahead.popleft())


@given(
    num_batches=st.integers(1, 12), depth=st.integers(0, 14), skipped=st.sets(st.integers(0, 11)), tail=st.booleans()
)
def test_whatever_is_skipped_and_prefetched_no_score_reaches_another_example(num_batches, depth, skipped, tail):
    sampler = new(num_batches * BATCH - tail)
    skipped = {number for number in skipped if number < num_batches}
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            train(sampler, Prefetching(sampler, depth), skipped=skipped)
        except ValueError as error:
            assert "got shape (3,)" in str(error)  # noqa: PT017 - the short last batch betrays it
            assert skipped
            return
        sampler.set_epoch(1)
    assert_scores_are_their_own(sampler)
    if not skipped:
        assert said == []
        assert len(remembered(sampler)) == sampler.num_examples
    else:
        assert remembered(sampler) == {}
        assert len(said) == (len(skipped) < num_batches)  # nothing to say of an epoch without a step


# ------------------------------------------------------------------------------------------------ another loader


def test_a_loader_with_smaller_batches():
    sampler = new()
    loader = loader_of(sampler, batch_size=2)
    with pytest.raises(ValueError, match=r"batch 0 .*\(4,\).*\(2,\)"):
        train(sampler, loader)
    with pytest.raises(go.StepError, match=r"loader_batch_size, here 4"):
        for _ in loader:
            sampler.step()
    with pytest.raises(go.StepError, match=r"indices.*batch 0"):
        train(sampler, loader, indices=True)


def test_a_loader_with_larger_batches():
    sampler = new(160)  # 20 batches of the loader
    loader = loader_of(sampler, batch_size=8)
    with pytest.raises(ValueError, match=r"batch 0 .*\(4,\).*\(8,\)"):
        train(sampler, loader)
    with pytest.raises(go.StepError, match=r"indices.*batch 0"):
        train(sampler, loader, indices=True)
    for _ in loader:
        sampler.step()
    with pytest.warns(UserWarning, match=DISCARDED):
        sampler.set_epoch(1)


def test_a_loader_that_drops_the_last_batch():
    sampler = new(SIZE - 1)
    train(sampler, loader_of(sampler, drop_last=True))
    with pytest.warns(UserWarning, match="drop_last"):
        sampler.set_epoch(1)
    assert remembered(sampler) == {}


def test_a_second_loader_over_the_same_sampler():
    sampler = new()
    first, second = (iter(loader_of(sampler)) for _ in range(2))
    batch = next(first)
    sampler.step(batch.float())
    next(second)
    with pytest.raises(go.StepError, match=r"two loaders"):
        next(first)


def test_a_look_at_the_data_before_training_is_no_mistake():
    sampler = new()
    loader = loader_of(sampler, 2)
    next(iter(loader))
    list(loader)
    train(sampler, loader)
    sampler.set_epoch(1)
    assert len(remembered(sampler)) == SIZE
    assert_scores_are_their_own(sampler)


# ------------------------------------------------------------------------------------------------ epochs


@workers
@own_or_plain
@pytest.mark.parametrize("num_used", [1, 11])
def test_an_epoch_left_early(num_workers, is_own, num_used):
    """Its own loader knows what training has received; another one may have fetched the rest of the epoch ahead."""
    sampler = new()
    used = []
    for batch in sampler.loader(num_workers=num_workers) if is_own else loader_of(sampler, num_workers):
        used += batch.tolist()
        sampler.step(batch.float())
        if len(used) == num_used * BATCH:
            break
    is_all_fetched = not is_own and num_workers > 0 and num_used == 11
    other = resumed(sampler)
    with pytest.warns(UserWarning, match=DISCARDED) if is_all_fetched else nullcontext():
        sampler.set_epoch(1)
    assert sorted(remembered(sampler)) == ([] if is_all_fetched else sorted(used))
    assert_scores_are_their_own(sampler)
    if not is_all_fetched:
        never = sorted(set(range(SIZE)) - set(used))
        assert list(sampler)[: len(never)] == never
        other.set_epoch(1)
        assert list(other) == list(sampler)


def test_set_epoch_forgotten():
    sampler = new()
    loader = loader_of(sampler)
    first = train(sampler, loader)
    with pytest.warns(UserWarning, match=r"epoch 0.*again.*set_epoch") as said:
        assert train(sampler, loader) == first
        assert train(sampler, loader) == first
    assert files(said) == [__file__]  # once, at the user's line


def resumed(sampler, **settings):
    other = new(**settings)
    other.load_state_dict(sampler.state_dict())
    return other


def test_the_steps_of_past_epochs_of_info_batch_after_a_resume():
    ordering = go.InfoBatch(10)
    sampler = new(ordering=ordering, start_epoch=1)
    lengths = []
    for epoch in range(4):
        sampler.set_epoch(epoch)
        lengths.append(len(train(sampler, loader_of(sampler))))
    assert lengths[0] == 12 > min(lengths)
    other = resumed(sampler, ordering=ordering, start_epoch=1)
    assert [other.num_steps(epoch, epoch + 1) for epoch in range(4)] == lengths
    with pytest.raises(ValueError, match="epoch 4"):
        other.num_steps(0, 5)
    other.set_epoch(4)
    assert other.num_steps(0, 5) == sum(lengths) + math.ceil(len(other) / BATCH)


# ------------------------------------------------------------------------------------------------ never scored


@pytest.mark.parametrize("ordering", [go.Descending(), go.InfoBatch(10), go.FlipFlop(go.Ascending())], ids=str)
def test_what_was_never_scored_comes_first(ordering):
    """Here: an example whose batch had no scores."""
    sampler = new(ordering=ordering, start_epoch=2)
    sampler.set_epoch(1)
    never = []
    for number, batch in enumerate(loader_of(sampler)):
        never += batch.tolist() if number in (3, 8) else []
        sampler.step(None if number in (3, 8) else batch.float() / 10)
    sampler.set_epoch(2)
    assert sorted(list(sampler)[:8]) == sorted(never)


def test_what_recommended_dropped_comes_in_the_next_epoch():
    for size in (47, 39):  # of which 24 and 20 are kept: full batches, so that nothing is dropped again
        sampler = go.recommended(size, BATCH, epochs=10, drop_last=True)
        sampler.set_epoch(0)
        seen = sum(train(sampler, loader_of(sampler)), [])
        dropped = set(range(size)) - set(seen)
        assert len(dropped) == 3
        sampler.set_epoch(1)
        assert dropped < set(sampler)


# ------------------------------------------------------------------------------------------------ its own loader


@workers
@pytest.mark.parametrize("left_at", [5, 10])
def test_a_missing_step_is_noticed_in_an_epoch_that_was_left_early(num_workers, left_at):
    sampler = new()
    for number, batch in enumerate(sampler.loader(num_workers=num_workers)):
        if number > 0:
            sampler.step(batch.float())
        if number == left_at:
            break
    with pytest.warns(UserWarning, match=rf"{left_at + 1} batches.*{DISCARDED} {left_at} "):
        sampler.set_epoch(1)
    assert remembered(sampler) == {}


def test_a_mismatch_outlives_a_look_and_another_pass():
    sampler = new()
    train(sampler, sampler.loader(), skipped=[0])
    list(sampler)
    iterator = iter(sampler.loader())
    sampler.step(next(iterator).float())
    with pytest.warns(UserWarning, match=DISCARDED):
        sampler.set_epoch(1)
    assert_scores_are_their_own(sampler)


def test_a_batch_that_cannot_be_loaded_is_one_that_was_skipped():
    class Torn(Dataset):
        def __len__(self):
            return SIZE

        def __getitem__(self, index):
            if index == torn:
                raise OSError("torn")
            return index

    sampler = new()
    torn = list(sampler)[5 * BATCH]
    iterator = iter(sampler.loader(Torn()))
    for number in range(12):
        if number == 5:
            with pytest.raises(OSError, match="torn"):
                next(iterator)
        else:
            sampler.step(next(iterator).float())
    with pytest.warns(UserWarning, match=DISCARDED):
        sampler.set_epoch(1)
    assert remembered(sampler) == {}


def test_two_of_its_own_loaders_in_step():
    sampler = new()
    with pytest.raises(go.StepError, match="two loaders"):
        for batch, _ in zip(sampler.loader(), sampler.loader(), strict=True):
            sampler.step(batch.float())
    assert_scores_are_their_own(sampler)


def test_a_prefetcher_around_the_samplers_own_loader():
    """Ray and other frameworks fetch one batch ahead: no score is lost at a checkpoint or at the end of the epoch."""
    sampler = new()

    def prefetching(sampler):
        batches = iter(sampler.loader())
        waiting = next(batches)
        for batch in batches:
            yield waiting
            waiting = batch
        yield waiting

    for number, batch in enumerate(prefetching(sampler)):
        sampler.step(batch.float())
        if number == 5:
            break
    other = resumed(sampler)
    assert len(remembered(other)) == 6 * BATCH
    for batch in prefetching(other):
        other.step(batch.float())
    other.set_epoch(1)
    assert len(remembered(other)) == SIZE
    assert_scores_are_their_own(other)


def test_the_sampler_as_a_batch_sampler_says_what_to_write():
    loader = DataLoader(range(SIZE), batch_sampler=new())
    with pytest.raises(TypeError, match=r"sampler\.loader\(dataset\)"):
        next(iter(loader))


# ------------------------------------------------------------------------------------------------ advice that fits


def test_recommended_does_not_advise_what_it_does_not_take():
    sampler = go.recommended(SIZE, BATCH, epochs=3)
    loader = sampler.loader()
    list(loader)
    sampler.set_epoch(1)
    with pytest.warns(UserWarning, match=r"epoch 1 .*sampler\.step\(losses") as said:
        list(loader)
    assert "start_epoch" not in str(said[0].message)
    sampler = new()
    sampler.set_epoch(1)
    with pytest.warns(UserWarning, match="start_epoch=1"):
        list(sampler)


# ------------------------------------------------------------------------------------------------ length


def test_a_schedule_over_the_length_of_the_loader_is_warned_about_once():
    loader = go.recommended(SIZE, BATCH, epochs=3).loader()
    with pytest.warns(UserWarning, match=r"len\(loader\) is 12.*go\.ProgressLR") as said:
        assert 3 * len(loader) == 3 * len(loader) == 36
    assert files(said) == [__file__]


def test_where_the_number_of_steps_is_known_it_is_said():
    sampler = go.recommended(SIZE, BATCH, epochs=4, budget=0.7)
    assert sampler.num_steps(0, 4) == 34
    with pytest.warns(UserWarning, match=r"34 steps.*num_steps"):
        len(sampler.loader())


@pytest.mark.parametrize(
    "sampler",
    [
        new(ordering=go.Shuffled()),
        new(epochs=3),
        go.recommended(SIZE, BATCH, epochs=1),
        new(keep=0.5, ordering=go.Shuffled()),
    ],
    ids=["shuffled", "sorted", "one epoch", "a part"],
)
def test_epochs_of_one_length_say_nothing(sampler):
    assert len(sampler.loader()) == math.ceil(len(sampler) / BATCH)


def test_a_loop_that_asks_for_the_length_of_each_epoch_is_no_mistake():
    sampler = go.recommended(SIZE, BATCH, epochs=3)
    loader = sampler.loader()
    for epoch in range(3):
        sampler.set_epoch(epoch)
        assert len(loader) == len(list(loader)) == len(train(sampler, loader))


def test_a_list_and_a_progress_bar_ask_for_one_epoch():
    tqdm = pytest.importorskip("tqdm").tqdm
    assert len(list(go.recommended(SIZE, BATCH, epochs=3).loader())) == 12
    with tqdm(go.recommended(SIZE, BATCH, epochs=3).loader(), disable=True) as bar:
        assert len(list(bar)) == 12
    assert tqdm(go.recommended(SIZE, BATCH, epochs=3).loader(), file=io.StringIO()).total == 12


# ------------------------------------------------------------------------------------------------ smoothed losses


def run_with(losses, epochs=6, **settings):
    sampler = go.recommended(SIZE, BATCH, epochs=epochs, **settings)
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for batch in sampler.loader():
            sampler.step(losses[batch])
    return sampler


def test_losses_with_a_floor_are_said_once():
    losses = torch.full((SIZE,), 0.5) + 0.001 * torch.arange(SIZE)
    losses[:4] = 3.0
    with pytest.warns(UserWarning, match=r"0\.504.*44 of 48") as said:
        sampler = run_with(losses)
    assert len(sampler) == SIZE
    assert files(said) == [__file__]


@pytest.mark.parametrize(
    "losses",
    [torch.ones(SIZE), torch.linspace(0.65, 0.75, SIZE), torch.linspace(1.5, 4, SIZE), torch.linspace(0, 4, SIZE)],
    ids=["equal", "nothing learned", "spread out", "from zero"],
)
def test_other_losses_say_nothing_of_a_floor(losses):
    run_with(losses)


# ------------------------------------------------------------------------------------------------ shapes


@pytest.mark.parametrize("shape", [(BATCH, 1), (BATCH, 7), (BATCH, 3, 5)], ids=str)
def test_losses_of_several_numbers_per_example_say_what_to_write(shape):
    sampler = new()
    next(iter(sampler.loader()))
    with pytest.raises(ValueError, match=r"scores\.flatten\(1\)\.mean\(1\)"):
        sampler.step(torch.ones(shape))
    sampler.step(torch.ones(shape).flatten(1).mean(1))


def test_a_broadcast_loss_is_told_apart():
    sampler = new()
    next(iter(sampler.loader()))
    with pytest.raises(ValueError, match="Give both the same shape"):
        sampler.step(torch.ones(BATCH, BATCH))
    with pytest.raises(ValueError, match=r"got shape \(7, 3\)$"):  # no batch dimension to keep
        sampler.step(torch.ones(7, 3))


# ------------------------------------------------------------------------------------------------ evaluation


def test_an_evaluation_in_the_middle_of_an_epoch_changes_nothing():
    data = torch.arange(SIZE)
    straight, sampler = new(), new()
    before = torch.get_rng_state()
    seen = []
    for number, batch in enumerate(sampler.loader(data, num_workers=2)):
        seen.append(batch.tolist())
        sampler.step(batch.float())
        if number in (0, 5):
            evaluated = list(sampler.evaluation_loader(data, num_workers=2))
            assert torch.cat(evaluated).tolist() == list(range(SIZE))
            assert len(evaluated) == SIZE // BATCH
    assert seen == train(straight, straight.loader(data))
    assert torch.equal(torch.get_rng_state(), before)
    for each in (straight, sampler):
        each.set_epoch(1)
    assert list(sampler) == list(straight)


def test_the_evaluation_loader_has_its_own_batch_size_and_the_datasets_order():
    sampler = new()
    assert [len(batch) for batch in sampler.evaluation_loader(batch_size=40)] == [40, 8]
    for refused in ({"shuffle": True}, {"sampler": [1]}, {"drop_last": True}, {"batch_sampler": [[1]]}):
        with pytest.raises(ValueError, match=next(iter(refused))):
            sampler.evaluation_loader(**refused)
    with pytest.raises(ValueError, match=r"48 examples.*7"):
        sampler.evaluation_loader(range(7))


# ------------------------------------------------------------------------------------------------ limits


@pytest.mark.xfail(reason="only the sampler's own loader knows what training has received", strict=True)
def test_a_missing_step_of_another_loader_in_an_epoch_that_was_left_early():
    sampler = new()
    for number, batch in enumerate(loader_of(sampler, 0)):
        if number == 5:
            break
        if number > 0:
            sampler.step(batch.float())
    sampler.set_epoch(1)
    assert_scores_are_their_own(sampler)
