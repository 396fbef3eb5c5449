"""TRL's SFTTrainer with a small GPT and a tokenizer made here: batches, losses, lengths and resumes of plain torch."""

import tempfile
from functools import cache
from pathlib import Path

import processes
import pytest
import torch
import torch.distributed as dist
from datasets import Dataset
from reference_run import put_together
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from torch.nn.utils.rnn import pad_sequence
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast
from trl import GRPOConfig, GRPOTrainer, SFTConfig
from trl.trainer.utils import FusedCausalLMOutput

import gradorder as go
from gradorder.integrations.transformers import OrderedTrainer, causal_losses, causal_losses_of_outputs
from gradorder.integrations.trl import OrderedSFTTrainer

processes.preload("datasets", "gradorder.integrations.trl")
pytestmark = pytest.mark.filterwarnings("ignore")  # TRL's own

SIZE, BATCH, EPOCHS = 23, 4, 3
ORDER = {"ordering": go.PlackettLuce(), "keep": 0.6, "start_epoch": 1}  # 6 steps, then 4
STEPS = [6, 4, 4]
PADDING, END, WORDS = "padding", "end", [f"word{number}" for number in range(30)]  # tokens 0, 1, and from 2 on
LENGTHS = [2 + example % 4 for example in range(SIZE)]


def tokenizer():
    words = Tokenizer(WordLevel({word: number for number, word in enumerate([PADDING, END, *WORDS])}, PADDING))
    words.pre_tokenizer = Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=words, pad_token=PADDING, eos_token=END)


def completion(example):
    return [WORDS[(7 * example + 3 * place**2) % len(WORDS)] for place in range(LENGTHS[example])]


def conversations():
    """Example number i is asked about with word i, so that a batch says what is in it; answers differ in length."""
    return Dataset.from_list(
        [{"prompt": WORDS[i], "completion": " " + " ".join(completion(i)) + " "} for i in range(SIZE)]
    )


def tokens_of(example):
    return [2 + example, *(2 + WORDS.index(word) for word in completion(example)), 1]


def padded(examples):
    """The same as tokens; nothing is asked of the prompt or of padding."""
    tokens = [torch.tensor(tokens_of(i)) for i in examples]
    labels = [torch.cat([torch.tensor([-100]), each[1:]]) for each in tokens]
    return {
        "input_ids": pad_sequence(tokens, batch_first=True, padding_value=0),
        "attention_mask": pad_sequence([torch.ones_like(each) for each in tokens], batch_first=True),
        "labels": pad_sequence(labels, batch_first=True, padding_value=-100),
    }


def new_model(dropout=0.0):
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=2 + len(WORDS),
        n_positions=8,
        n_embd=8,
        n_layer=1,
        n_head=2,
        resid_pdrop=dropout,
        embd_pdrop=dropout,
        attn_pdrop=dropout,
        bos_token_id=1,
        eos_token_id=1,
    )
    return GPT2LMHeadModel(config)


class Watch:
    """Notes what the model is trained on, pass by pass."""

    def __init__(self):
        self.batches = []

    def __call__(self, model, args, inputs):
        if model.training:
            self.batches.append((inputs["input_ids"][:, 0] - 2).tolist())


def trained(folder, *, checkpoint=None, score=None, evaluates=False, dropout=0.0, adapter=None, **settings):
    num_processes = dist.get_world_size() if dist.is_initialized() else 1
    arguments = {
        "num_train_epochs": EPOCHS,
        "per_device_train_batch_size": BATCH // num_processes,
        "learning_rate": 0.05,
        "lr_scheduler_type": "constant",
        "optim": "sgd",
        "max_grad_norm": 0.0,
        "max_length": 8,
        "bf16": False,  # TRL's default
        "save_strategy": "no",
        "report_to": [],
        "disable_tqdm": True,
        "use_cpu": True,
        "seed": 3,
        **settings,
    }
    watch, model = Watch(), new_model(dropout)
    model.register_forward_pre_hook(watch, with_kwargs=True)
    trainer = OrderedSFTTrainer(
        model,
        SFTConfig(str(folder), **arguments),
        train_dataset=conversations(),
        eval_dataset=conversations() if evaluates else None,
        processing_class=tokenizer(),
        order=ORDER,
        score=score,
        peft_config=adapter,
    )
    trainer.train(resume_from_checkpoint=checkpoint and str(checkpoint))
    return trainer, watch.batches


def weights(model):
    return [parameter.detach().clone() for parameter in model.parameters()]


@cache
def plain(*, accumulated=1):
    """The same training in plain torch: its batches, its weights, what is remembered of the losses."""
    model = new_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    sampler = go.OrderedSampler(SIZE, BATCH, seed=3, **ORDER)
    batches = []
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        order = list(sampler.loader(collate_fn=list))
        for start in range(0, len(order), accumulated):
            group = [padded(examples) for examples in order[start : start + accumulated]]
            num_tokens = sum((batch["labels"] != -100).sum() for batch in group)  # Trainer's mean is that over tokens
            for batch in group:
                losses = causal_losses(model, batch)
                (losses * (batch["labels"] != -100).sum(1)).sum().div(num_tokens).backward()
                sampler.step(losses.detach())
            optimizer.step()
            optimizer.zero_grad()
        batches += order
    return batches, weights(model), sampler.state_dict()["remembered_scores"]


# ------------------------------------------------------------------------------------------------ two processes


def on_two_processes(folder):
    straight, batches = trained(folder)
    dropped, dropped_batches = trained(folder, save_strategy="steps", save_steps=8, dropout=0.2)
    resumed, rest = trained(folder, checkpoint=folder / "checkpoint-8", dropout=0.2)
    is_same = all(torch.equal(a, b) for a, b in zip(weights(resumed.model), weights(dropped.model), strict=True))
    memory = {"bf16": True, "gradient_checkpointing": True}
    still, _ = trained(folder, num_train_epochs=1, learning_rate=0.0, **memory)
    return {
        "losses": still.ordered_sampler.state_dict()["remembered_scores"],
        "batches": [(0, batch) for batch in batches],
        "weights": weights(straight.model),
        "steps": (straight.state.global_step, straight.state.max_steps),
        "rest": (rest, dropped_batches[8:], is_same),
    }


@cache
def two_processes():
    with tempfile.TemporaryDirectory() as folder:
        return processes.run(on_two_processes, 2, Path(folder), timeout=200)


@pytest.mark.slow
def test_two_processes_train_on_the_batches_of_plain_torch():
    batches, expected, _ = plain()
    assert [batch for _, batch in put_together([rank["batches"] for rank in two_processes()])] == batches
    for rank in two_processes():
        torch.testing.assert_close(rank["weights"], expected, rtol=1e-4, atol=1e-6)
        assert rank["steps"] == (sum(STEPS), sum(STEPS))


@pytest.mark.slow
def test_two_processes_resume_without_skipping():
    for rank in two_processes():
        resumed, left, is_same = rank["rest"]
        assert resumed == left
        assert is_same


@pytest.mark.slow
def test_two_processes_record_the_losses_of_own_tokens_in_half_precision_with_checkpointing():
    for rank in two_processes():
        torch.testing.assert_close(rank["losses"], own_losses(map(tokens_of, range(SIZE)), 1), rtol=1e-3, atol=0)


# ------------------------------------------------------------------------------------------------ one process


def test_it_trains_on_the_batches_of_plain_torch_and_makes_no_second_pass(tmp_path):
    trainer, batches = trained(tmp_path, evaluates=True, eval_strategy="steps", eval_steps=1)
    expected_batches, expected, losses = plain()
    assert batches == expected_batches  # one for every pass
    torch.testing.assert_close(weights(trainer.model), expected, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(trainer.ordered_sampler.state_dict()["remembered_scores"], losses, rtol=1e-4, atol=1e-5)


def test_accumulation(tmp_path):
    trainer, batches = trained(tmp_path, gradient_accumulation_steps=4)
    expected_batches, expected, _ = plain(accumulated=4)
    assert batches == expected_batches
    assert trainer.state.global_step == trainer.state.max_steps == 2 + 1 + 1
    torch.testing.assert_close(weights(trainer.model), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_resuming_within_an_epoch_and_after_one(tmp_path):
    settings = {"lr_scheduler_type": "linear", "dropout": 0.2}
    straight, batches = trained(tmp_path, save_strategy="steps", save_steps=1, **settings)
    for step in (3, 6, 9):
        resumed, rest = trained(tmp_path, checkpoint=tmp_path / f"checkpoint-{step}", **settings)
        assert rest == batches[step:], f"stopped after step {step}"
        assert all(torch.equal(a, b) for a, b in zip(weights(resumed.model), weights(straight.model), strict=True))


def test_what_is_remembered_is_the_plain_loss_whatever_is_trained_on(tmp_path):
    trainer, _ = trained(tmp_path, num_train_epochs=1, learning_rate=0.0, label_smoothing_factor=0.1)
    expected = causal_losses(new_model(), padded(range(SIZE))).detach()
    torch.testing.assert_close(trainer.ordered_sampler.state_dict()["remembered_scores"], expected)


def own_losses(examples, num_prompt_tokens):
    """The loss of each example's own tokens: one example and one token at a time, without padding."""
    model, losses = new_model().eval(), []
    for tokens in examples:
        terms = []
        for place in range(num_prompt_tokens, len(tokens)):
            logits = model(torch.tensor([tokens[:place]])).logits[0, -1]
            terms.append(-torch.log_softmax(logits, 0)[tokens[place]])
        losses.append(torch.stack(terms).mean())
    return torch.stack(losses).detach()


def long_conversations():
    """Prompts of two words."""
    return Dataset.from_list(
        [
            {"prompt": f"{WORDS[i]} {WORDS[-1 - i]}", "completion": " " + " ".join(completion(i)) + " "}
            for i in range(SIZE)
        ]
    )


@pytest.mark.parametrize(
    ("settings", "num_prompt_tokens"),
    [
        ({}, 2),
        ({"completion_only_loss": False}, 1),  # all tokens but the first, which nothing predicts
        ({"gradient_checkpointing": True}, 2),
        ({"gradient_checkpointing": True, "gradient_checkpointing_kwargs": {"use_reentrant": True}}, 2),
        ({"per_device_train_batch_size": 2, "gradient_accumulation_steps": 2}, 2),
    ],
    ids=str,
)
def test_what_is_recorded_is_the_loss_of_an_examples_own_tokens(tmp_path, monkeypatch, settings, num_prompt_tokens):
    monkeypatch.setitem(globals(), "conversations", long_conversations)
    trainer, _ = trained(tmp_path, num_train_epochs=1, learning_rate=0.0, **settings)
    tokens = [
        [2 + i, 2 + len(WORDS) - 1 - i, *(2 + WORDS.index(word) for word in completion(i)), 1] for i in range(SIZE)
    ]
    remembered = trainer.ordered_sampler.state_dict()["remembered_scores"]
    torch.testing.assert_close(remembered, own_losses(tokens, num_prompt_tokens))


def test_low_rank_adapters(tmp_path):
    """Only the adapters are trained, the order follows the losses, and a resumed run is the same run."""
    peft = pytest.importorskip("peft")
    adapter = {"adapter": peft.LoraConfig(r=2, target_modules=["c_attn"], lora_dropout=0.1, fan_in_fan_out=True)}
    straight, batches = trained(tmp_path, save_strategy="steps", save_steps=8, **adapter)
    assert {name for name, each in straight.model.named_parameters() if each.requires_grad} == {
        name for name, _ in straight.model.named_parameters() if "lora" in name
    }
    assert len(batches) == sum(STEPS)
    resumed, rest = trained(tmp_path, checkpoint=tmp_path / "checkpoint-8", **adapter)
    assert rest == batches[8:]
    assert all(torch.equal(a, b) for a, b in zip(weights(resumed.model), weights(straight.model), strict=True))
    before, _ = trained(tmp_path, num_train_epochs=1, learning_rate=0.0, **adapter)  # adapters begin as nothing
    losses = before.ordered_sampler.state_dict()["remembered_scores"]
    torch.testing.assert_close(losses, own_losses(map(tokens_of, range(SIZE)), 1))


def test_a_trainer_that_compares_answers_to_one_prompt_is_refused(tmp_path):
    """GRPO repeats each prompt; an order would put different prompts into one group."""

    class Ordered(OrderedTrainer, GRPOTrainer):
        pass

    settings = {"num_generations": 4, "per_device_train_batch_size": 4, "use_cpu": True, "bf16": False}
    trainer = Ordered(
        model=new_model(),
        args=GRPOConfig(str(tmp_path), report_to=[], **settings),
        reward_funcs=lambda completions, **_: [0.0] * len(completions),
        train_dataset=Dataset.from_list([{"prompt": word} for word in WORDS]),
        processing_class=tokenizer(),
        order={"ordering": go.Shuffled()},
    )
    with pytest.raises(ValueError, match=r"Ordered cannot have an order.*repeats examples"):
        trainer.get_train_dataloader()


def test_outputs_without_logits_are_refused_with_what_to_do():
    outputs = FusedCausalLMOutput(log_probs=torch.zeros(2, 3))
    with pytest.raises(ValueError, match=r"FusedCausalLMOutput has none.*OrderedSFTTrainer.*DPOTrainer"):
        causal_losses_of_outputs({"labels": torch.zeros(2, 4)}, outputs)


def test_half_precision_as_trl_has_it_by_default(tmp_path):
    trainer, _ = trained(tmp_path, num_train_epochs=1, learning_rate=0.0, bf16=True)
    losses = trainer.ordered_sampler.state_dict()["remembered_scores"]
    assert losses.dtype == torch.float32
    torch.testing.assert_close(losses, own_losses(map(tokens_of, range(SIZE)), 1), rtol=1e-3, atol=0)


def test_a_score_instead_of_what_training_has(tmp_path):
    trainer, batches = trained(tmp_path, score=go.Loss(causal_losses), learning_rate=0.0)
    assert len(batches) == sum(STEPS)
    expected = causal_losses(new_model(), padded(range(SIZE))).detach()
    torch.testing.assert_close(trainer.ordered_sampler.state_dict()["remembered_scores"], expected)


@pytest.mark.parametrize("name", ["packing", "padding_free"])
def test_examples_in_one_row_are_refused(tmp_path, name):
    with pytest.raises(
        ValueError, match=f"{name} must be False with an order, got True.*Set {name}=False in SFTConfig"
    ):
        trained(tmp_path, **{name: True})
