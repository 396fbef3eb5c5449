"""TRL's GRPOTrainer and RLOOTrainer with an ordering of prompts: draws, rewards and exact resumes of a small GPT-2."""

import copy
import math
import os
import signal
from functools import cache
from pathlib import Path

import processes
import pytest
import torch
import torch.distributed as dist
from datasets import Dataset
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import GPT2Config, GPT2ForSequenceClassification, GPT2LMHeadModel, PreTrainedTokenizerFast
from trl import GRPOConfig, RLOOConfig

import gradorder as go
from gradorder.integrations.grpo import INDEX_COLUMN, OrderedPrompts
from gradorder.integrations.trl import OrderedGRPOTrainer, OrderedRLOOTrainer

processes.preload("datasets", "gradorder.integrations.trl")
pytestmark = pytest.mark.filterwarnings("ignore")  # TRL's own

PADDING, END = "padding", "end"
WORDS = [f"w{number}" for number in range(10)]
SIZE, GROUP, PER_BATCH = len(WORDS), 4, 3
STEPS = SIZE // PER_BATCH  # of an epoch, where every generation batch is one step; the tenth prompt is dropped
SETTINGS = {"vocab_size": 2 + SIZE, "n_positions": 8, "n_embd": 8, "n_layer": 1, "n_head": 2}
OWN = ("model", "train_dataset", "eval_dataset", "reward_funcs", "reward_processing_classes")
TOKENS = {"bos_token_id": 1, "eos_token_id": 1, "pad_token_id": 0}


@cache
def tokenizer():
    words = Tokenizer(WordLevel({word: number for number, word in enumerate([PADDING, END, *WORDS])}, PADDING))
    words.pre_tokenizer = Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=words, pad_token=PADDING, eos_token=END, padding_side="left")


@cache
def first_model():
    torch.manual_seed(0)
    return GPT2LMHeadModel(GPT2Config(**SETTINGS, **TOKENS))  # with dropout, so that random states matter


def prompts():
    return Dataset.from_list([{"prompt": word} for word in WORDS])


class Watched:
    """A reward, and what it was asked for: the prompts and completions of every generation batch."""

    __name__ = "watched"

    def __init__(self, reward=None, killed_at=None):
        self.reward = reward or (lambda index, completion: float("w1" in completion or index < 3))
        self.killed_at = killed_at
        self.calls, self.steps = [], []

    def __call__(self, completions, trainer_state, **columns):
        if trainer_state.global_step == self.killed_at:
            os.kill(os.getpid(), signal.SIGKILL)
        indices = columns.get(INDEX_COLUMN, [])
        self.calls.append((list(indices), list(completions)))
        self.steps.append(trainer_state.global_step)
        return [self.reward(*pair) for pair in zip(indices or [0] * len(completions), completions, strict=True)]


def new_trainer(folder, *, reward=None, rule=None, kind=OrderedGRPOTrainer, config=GRPOConfig, **settings):
    num_processes = dist.get_world_size() if dist.is_initialized() else 1
    own = {name: settings.pop(name) for name in OWN if name in settings}
    arguments = {
        "per_device_train_batch_size": GROUP * PER_BATCH // num_processes,
        "num_generations": GROUP,
        "max_completion_length": 2,
        "num_train_epochs": 3,
        "learning_rate": 0.05,
        "optim": "sgd",
        "bf16": False,  # TRL's default
        "beta": 0.0,
        "save_strategy": "no",
        "logging_strategy": "no",
        "report_to": [],
        "disable_tqdm": True,
        "use_cpu": True,
        "seed": 3,
        **settings,
    }
    return kind(
        args=config(str(folder), **arguments),
        processing_class=tokenizer(),
        prompts=rule or go.Informative(every=2),
        **{
            "model": copy.deepcopy(first_model()),
            "reward_funcs": reward or Watched(),
            "train_dataset": prompts(),
            **own,
        },
    )


def trained(folder, *, checkpoint=None, reward=None, **settings):
    reward = reward or Watched()
    trainer = new_trainer(folder, reward=reward, **settings)
    trainer.train(resume_from_checkpoint=checkpoint and str(checkpoint))
    return trainer, reward.calls


def assert_same_end(resumed, straight):
    for one, other in zip(resumed.model.parameters(), straight.model.parameters(), strict=True):
        assert torch.equal(one, other)
    state = straight.prompt_sampler.state_dict()
    for name, value in resumed.prompt_sampler.state_dict().items():
        torch.testing.assert_close(value, state[name], rtol=0, atol=0, equal_nan=True)


# ------------------------------------------------------------------------------------------------ two processes


def on_two_processes(folder):
    """Six completions on each process: the second of three groups is torn."""
    straight, calls = trained(folder, save_strategy="steps", save_steps=2)
    resumed, rest = trained(folder, checkpoint=folder / "checkpoint-4")
    assert_same_end(resumed, straight)
    assert rest == calls[4:]
    return calls, {name: torch.as_tensor(value) for name, value in straight.prompt_sampler.state_dict().items()}


@pytest.mark.slow
def test_two_processes_with_torn_groups_agree_and_resume_and_so_does_one(tmp_path):
    (first, state), (second, other) = processes.run(on_two_processes, 2, tmp_path, timeout=300)
    for name, value in state.items():
        torch.testing.assert_close(value, other[name], rtol=0, atol=0, equal_nan=True)
    assert int(state["num_groups"].sum()) == 3 * STEPS * PER_BATCH
    drawn = [(one + two)[::GROUP] for (one, _), (two, _) in zip(first, second, strict=True)]
    assert torch.equal(torch.tensor(drawn[2 * STEPS :]).flatten(), state["order"])
    trainer, rest = trained(tmp_path, checkpoint=tmp_path / "checkpoint-4")  # alone, with the same generation batches
    assert trainer.state.global_step == 3 * STEPS
    assert [indices[::GROUP] for indices, _ in rest[: 2 * STEPS - 4]] == drawn[4 : 2 * STEPS]


# ------------------------------------------------------------------------------------------------ resuming


CASES = {  # settings, and how many generation batches there are before a checkpoint
    "plain": ({}, {2: 2, STEPS: STEPS}),  # in the middle of an epoch, and at its end
    "workers": ({"dataloader_num_workers": 2}, {STEPS + 2: STEPS + 2}),
    "several steps per generation": (
        {"per_device_train_batch_size": 6, "steps_per_generation": 2, "num_iterations": 2},
        {4: 1, 4 * STEPS: STEPS},
    ),
    "accumulation over generations": (  # the second step of an epoch has the third batch only
        {"per_device_train_batch_size": 3, "steps_per_generation": 4, "gradient_accumulation_steps": 8},
        {1: 2, 2: STEPS},
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_a_resumed_run_is_the_uninterrupted_one_bit_by_bit(case, tmp_path):
    settings, checkpoints = CASES[case]
    straight, calls = trained(tmp_path, save_strategy="steps", save_steps=math.gcd(*checkpoints), **settings)
    for step, num_calls in checkpoints.items():
        resumed, rest = trained(tmp_path, checkpoint=tmp_path / f"checkpoint-{step}", **settings)
        assert rest == calls[num_calls:]
        assert_same_end(resumed, straight)


def killed(folder):
    trained(Path(folder), reward=Watched(killed_at=5), save_strategy="steps", save_steps=2)


@pytest.fixture
def one_thread():
    """As in `processes`: another number of threads gives other bits."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.slow
def test_a_killed_run_resumes_exactly(tmp_path, one_thread):
    straight, calls = trained(tmp_path / "straight")
    with processes.Started(killed, str(tmp_path / "killed")) as process:
        processes.until(lambda: False, process, "a run that kills itself")
        assert process.poll() == -signal.SIGKILL
    resumed, rest = trained(tmp_path / "killed", checkpoint=tmp_path / "killed" / "checkpoint-4")
    assert rest == calls[4:]
    assert_same_end(resumed, straight)


def test_a_checkpoint_within_a_generation_cycle_is_said_to_be_inexact(tmp_path):
    settings = {"num_iterations": 2, "num_train_epochs": 1, "save_strategy": "steps", "save_steps": 3}
    with pytest.warns(UserWarning, match="multiple of 2"):
        trained(tmp_path, **settings)
    reward = Watched()
    trainer = new_trainer(tmp_path, reward=reward, **settings)
    with pytest.warns(UserWarning, match="middle of a generation cycle"):
        trainer.train(resume_from_checkpoint=str(tmp_path / "checkpoint-3"))
    assert reward.steps == [3, 4]  # the second batch again, and the third where it begins
    assert trainer.prompt_sampler.num_groups.sum() == 4 * PER_BATCH


def test_a_checkpoint_of_another_trainer_or_other_steps_is_refused(tmp_path):
    trained(tmp_path, max_steps=1, save_strategy="steps", save_steps=1)
    with pytest.raises(ValueError, match="gradient_accumulation_steps"):
        trained(
            tmp_path, checkpoint=tmp_path / "checkpoint-1", gradient_accumulation_steps=STEPS, steps_per_generation=1
        )
    (tmp_path / "checkpoint-1" / "prompt_sampler.pt").unlink()
    with pytest.raises(FileNotFoundError, match=r"prompt_sampler\.pt"):
        trained(tmp_path, checkpoint=tmp_path / "checkpoint-1")


# ------------------------------------------------------------------------------------------------ draws and rewards


def test_prompts_without_spread_wait_and_all_batches_are_full(tmp_path):
    trainer, calls = trained(tmp_path, reward=Watched(lambda index, _: float(index < 5)), num_train_epochs=4)
    assert trainer.state.global_step == trainer.state.max_steps == 4 * STEPS
    drawn = torch.tensor([indices[::GROUP] for indices, _ in calls])
    assert drawn.shape == (4 * STEPS, PER_BATCH)
    assert torch.equal(drawn[3 * STEPS :].flatten(), trainer.prompt_sampler.order)
    for start in range(3):  # no group has spread: every two epochs have all prompts
        assert set(drawn[start * STEPS : (start + 2) * STEPS].flatten().tolist()) == set(range(SIZE))
    assert trainer.prompt_sampler.pass_rates.tolist() == [1.0] * 5 + [0.0] * 5


def test_weighted_rewards_some_of_them_missing_and_a_reward_model(tmp_path):
    torch.manual_seed(1)
    judge = GPT2ForSequenceClassification(GPT2Config(**SETTINGS, **TOKENS, num_labels=1)).eval()
    watched = Watched(lambda index, _: [float(index), None, float("nan")][index % 3])
    trainer, _ = trained(
        tmp_path / "one",
        reward_funcs=[watched, lambda completions, **_: [None if i % 2 else 1.0 for i in range(len(completions))]],
        reward_weights=[1.0, 0.5],
        num_train_epochs=2,
    )
    rates, spreads = trainer.prompt_sampler.pass_rates, trainer.prompt_sampler.spreads
    for index in range(SIZE):
        scored = [index + 0.5, float(index)] if index % 3 == 0 else [0.5]
        assert rates[index] == pytest.approx(sum(scored) / len(scored))
        assert spreads[index] == max(scored) - min(scored)
    trainer, _ = trained(
        tmp_path / "two", reward_funcs=[judge], reward_processing_classes=tokenizer(), num_train_epochs=1
    )
    assert (trainer.prompt_sampler.spreads[trainer.prompt_sampler.order] > 0).any()


def test_evaluation_leaves_the_state_alone(tmp_path):
    trainer, _ = trained(
        tmp_path, eval_dataset=prompts(), eval_strategy="steps", eval_steps=1, per_device_eval_batch_size=8, max_steps=4
    )
    before = trainer.prompt_sampler.state_dict()
    assert before["num_groups"].sum() == 4 * PER_BATCH
    trainer.evaluate()
    for name, value in trainer.prompt_sampler.state_dict().items():
        torch.testing.assert_close(value, before[name], rtol=0, atol=0, equal_nan=True)


def test_rloo_has_it_too_and_rewards_count_as_clipped(tmp_path):
    settings = {"kind": OrderedRLOOTrainer, "config": RLOOConfig, "num_train_epochs": 2}
    trainer, _ = trained(
        tmp_path, reward_clip_range=(0.0, 1.0), reward=Watched(lambda i, text: 1 + len(text)), **settings
    )
    assert (trainer.prompt_sampler.num_groups > 0).all()
    assert (trainer.prompt_sampler.pass_rates == 1).all()
    assert (trainer.prompt_sampler.spreads == 0).all()


# ------------------------------------------------------------------------------------------------ refused


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"remove_unused_columns": True}, "remove_unused_columns"),
        ({"ignore_data_skip": True}, "ignore_data_skip"),
        ({"shuffle_dataset": False}, "shuffle_dataset"),
        ({"train_dataset": prompts().select(range(2))}, "num_prompts"),
        ({"train_dataset": prompts().add_column(INDEX_COLUMN, [0] * SIZE)}, INDEX_COLUMN),
        ({"rule": go.FlipFlop(go.Shuffled())}, "carry"),
    ],
    ids=str,
)
def test_bad_settings_are_refused_at_construction(settings, words, tmp_path):
    with pytest.raises(ValueError, match=words):
        new_trainer(tmp_path, **settings)


def test_prompts_without_an_index_and_trainers_without_rewards_are_refused(tmp_path):
    for dataset in (prompts().to_iterable_dataset(), None):
        with pytest.raises(TypeError, match=r"datasets\.Dataset"):
            new_trainer(tmp_path, train_dataset=dataset)
    from trl.experimental.async_grpo import AsyncGRPOTrainer  # noqa: PLC0415 - it warns

    with pytest.raises(TypeError, match="_calculate_rewards"):
        type("Mine", (OrderedPrompts, AsyncGRPOTrainer), {})


@pytest.mark.parametrize(
    "settings",
    [
        {"beta": 0.1},
        {"multi_objective_aggregation": "normalize_then_sum"},
        {"entropy_coef": 0.1},
        {"kind": OrderedRLOOTrainer, "config": RLOOConfig, "beta": 0.05},
    ],
    ids=str,
)
def test_a_gradient_of_equal_rewards_is_warned_of(settings, tmp_path):
    first_model().save_pretrained(tmp_path)  # where TRL finds the reference model of a KL term
    with pytest.warns(UserWarning, match="equal rewards have a gradient") as caught:
        new_trainer(tmp_path, model=str(tmp_path), **settings)
    assert sum("equal rewards" in str(each.message) for each in caught) == 1
