"""The prompt sampler by itself: TRL's pattern, what it remembers, and its state."""

import math
from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch
from trl.trainer.utils import RepeatSampler

import gradorder as go
from gradorder.integrations.prompts import PromptSampler

SIZE, BATCH, GROUP = 14, 4, 3


@dataclass(frozen=True)
class FirstFive(go.Ordering):
    needs_scores: ClassVar[bool] = False

    def order(self, request):
        return go.Order(torch.arange(5))


def new_sampler(ordering=None, **changes):
    settings = {"prompts_per_batch": BATCH, "num_generations": GROUP, "num_repeats": 2, "seed": 7, **changes}
    return PromptSampler(SIZE, ordering=ordering or go.Informative(every=4), **settings)


def trls_sampler():
    return RepeatSampler(range(SIZE), mini_repeat_count=GROUP, batch_size=BATCH, repeat_count=2, seed=7)


def recorded(sampler, prompts, rewards):
    sampler.record(torch.tensor(prompts).repeat_interleave(GROUP), torch.tensor(rewards).flatten())
    return sampler


def played(sampler, epochs, solved):
    """Epochs in which the completions of some prompts all pass, and of the others only one."""
    for epoch in epochs:
        sampler.plan(epoch)
        for batch in sampler.order.split(BATCH):
            recorded(sampler, batch.tolist(), [[1.0, float(i in solved), float(i in solved)] for i in batch.tolist()])
    return sampler


def test_without_a_rule_the_prompts_of_the_first_epoch_are_trls_own():
    sampler = new_sampler(go.Shuffled())
    assert list(sampler) == list(trls_sampler())
    assert len(sampler) == len(list(sampler)) == 12 * GROUP * 2


def test_after_a_resume_trls_sampler_replays_the_first_epoch_and_ours_does_not():
    straight = trls_sampler()
    first, second = list(straight), list(straight)
    assert list(trls_sampler()) == first != second  # TRL makes a new sampler when it resumes
    sampler = new_sampler(go.Shuffled())
    sampler.plan(1)
    expected = list(sampler)
    resumed = new_sampler(go.Shuffled())
    resumed.load_state_dict(sampler.state_dict())
    resumed.plan(1)
    assert list(resumed) == expected != first


def test_solved_prompts_wait_and_an_epoch_keeps_its_length():
    solved = set(range(10))
    sampler = played(new_sampler(), range(3), solved)
    sampler.plan(3)
    visits = torch.bincount(sampler.order, minlength=SIZE)
    assert visits.sum() == 12
    assert (visits[10:] == 2).all()
    assert visits[:10].max() == 1


def test_every_prompt_is_visited_within_every_epochs():
    sampler = new_sampler()
    visited = []
    for epoch in range(9):
        played(sampler, [epoch], set(range(3, 12)))
        visited.append(set(sampler.order.tolist()))
        if epoch >= 3:
            assert set.union(*visited[-4:]) == set(range(SIZE))


def test_what_is_remembered_of_a_group():
    nan = math.nan
    rewards = [[0.5, 0.5, 2.0], [nan, 1.0, 1.0], [nan, nan, nan], [0.1, 0.1, 0.1]]
    sampler = recorded(new_sampler(), [3, 5, 6, 9], rewards)
    assert sampler.spreads[[3, 5, 6, 9]].tolist() == [1.5, 0, 0, 0]
    torch.testing.assert_close(sampler.pass_rates[[3, 5, 6, 9]], torch.tensor([1.0, 1.0, nan, 0.1]), equal_nan=True)
    assert sampler.num_groups.tolist() == [int(i in {3, 5, 6, 9}) for i in range(SIZE)]
    assert sampler.spreads[0].isnan()
    assert sampler.pass_rates[0].isnan()


def test_of_two_groups_in_a_batch_the_last_one_counts():
    sampler = recorded(new_sampler(), [3, 5, 3, 9], [[0.0, 0, 1], [0.0, 0, 0], [1.0, 1, 1], [0.0, 0, 0]])
    assert (sampler.pass_rates[3], sampler.spreads[3], sampler.num_groups[3]) == (1, 0, 2)


@pytest.mark.parametrize(
    ("prompts", "rewards", "words"),
    [
        (torch.arange(12), torch.zeros(12), "equal indices"),
        (torch.full((12,), SIZE), torch.zeros(12), "below 14"),
        (torch.zeros(9, dtype=torch.int64), torch.zeros(9), "12 completions"),
        (torch.zeros(12, dtype=torch.int64), torch.full((12,), math.inf), "infinite"),
    ],
)
def test_rewards_that_are_not_of_whole_groups_are_refused(prompts, rewards, words):
    sampler = new_sampler()
    with pytest.raises(ValueError, match=words):
        sampler.record(prompts, rewards)
    assert not sampler.num_groups.any()


def test_a_state_continues_in_the_middle_of_an_epoch_and_after_it(tmp_path):
    solved = {1, 2, 3, 4, 5}
    sampler = played(new_sampler(), range(2), solved)
    sampler.plan(2)
    torch.save(sampler.state_dict(), tmp_path / "state.pt")
    resumed = new_sampler()
    resumed.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    resumed.plan(2)
    assert torch.equal(resumed.order, sampler.order)
    for each in (sampler, resumed):
        played(each, [2, 3], solved)
    assert torch.equal(resumed.order, sampler.order)
    assert torch.equal(resumed.num_groups, sampler.num_groups)


def changed(name, value):
    state = played(new_sampler(), [0], set()).state_dict()
    return {**state, name: value} if value is not None else {k: v for k, v in state.items() if k != name}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("version", 0),
        ("seed", 8),
        ("num_prompts", 15),
        ("prompts_per_batch", 2),
        ("order", None),
        ("epoch", -1),
        ("epoch", 1.5),
        ("order", list(range(12))),
        ("order", torch.arange(3, 15)),
        ("order", torch.arange(11)),
        ("spreads", torch.zeros(SIZE, dtype=torch.float64)),
        ("spreads", torch.full((SIZE,), -1.0)),
        ("spreads", torch.full((SIZE,), math.inf)),
        ("num_groups", torch.full((SIZE,), 1)),
    ],
)
def test_a_wrong_state_is_refused_and_changes_nothing(name, value):
    sampler = new_sampler()
    before = sampler.state_dict()
    with pytest.raises(ValueError, match=name.replace("num_groups", "group").replace("spreads", "spread")):
        sampler.load_state_dict(changed(name, value))
    for key, kept in sampler.state_dict().items():
        torch.testing.assert_close(kept, before[key], equal_nan=True)


def test_an_order_that_is_too_short_starts_over():
    sampler = new_sampler(FirstFive())
    assert sampler.order.tolist() == [0, 1, 2, 3, 4] * 2 + [0, 1]


@pytest.mark.parametrize(
    ("ordering", "words"),
    [
        (go.FlipFlop(go.Shuffled()), "carry"),
        (go.GradientBalancing(), "carry"),
        (go.Unlearned(), "carry"),
        (go.InfoBatch(10), "keep"),
    ],
)
def test_rules_that_cannot_serve_prompts_are_refused(ordering, words):
    with pytest.raises(ValueError, match=words):
        new_sampler(ordering)


def test_bad_arguments_are_refused():
    with pytest.raises(ValueError, match="num_prompts"):
        new_sampler(prompts_per_batch=15)
    with pytest.raises(ValueError, match="num_generations"):
        new_sampler(num_generations=1)
    with pytest.raises(TypeError, match="ordering"):
        new_sampler("informative")


def test_shuffled_once_has_one_order_for_the_run():
    sampler = new_sampler(go.ShuffledOnce())
    orders = []
    for epoch in range(3):
        sampler.plan(epoch)
        orders.append(sampler.order.tolist())
    assert orders[0] == orders[1] == orders[2]
