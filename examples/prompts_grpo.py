"""TRL's GRPOTrainer that skips prompts without a learning signal: answer a word with the next one of the alphabet."""

import string
import tempfile
from typing import Any

import torch
from datasets import Dataset  # type: ignore[import-untyped]
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast
from trl import GRPOConfig  # type: ignore[attr-defined] # its modules come when they are asked for

import gradorder as go
from gradorder.integrations.trl import OrderedGRPOTrainer

PADDING, END, LETTERS = "padding", "end", string.ascii_lowercase[:6]


def prompts() -> Dataset:
    """Letters with the answers to them; a column is passed on to the reward."""
    return Dataset.from_list(
        [{"prompt": letter, "answer": LETTERS[(place + 1) % len(LETTERS)]} for place, letter in enumerate(LETTERS)]
    )


def accuracy(completions: list[str], answer: list[str], **others: Any) -> list[float]:  # noqa: ANN401 - other columns
    """1 for each completion that is the answer, else 0."""
    del others
    return [float(completion.strip() == right) for completion, right in zip(completions, answer, strict=True)]


def tokenizer() -> PreTrainedTokenizerFast:
    """A number for every letter."""
    words = Tokenizer(WordLevel({word: number for number, word in enumerate([PADDING, END, *LETTERS])}, PADDING))
    words.pre_tokenizer = Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=words, pad_token=PADDING, eos_token=END, padding_side="left")


def main(epochs: int = 24) -> float:
    """Train and return the mean pass rate."""
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=2 + len(LETTERS), n_positions=4, n_embd=32, n_layer=1, n_head=2, bos_token_id=1, eos_token_id=1
    )
    with tempfile.TemporaryDirectory() as folder:
        args = GRPOConfig(
            folder,
            num_train_epochs=epochs,
            per_device_train_batch_size=48,
            num_generations=16,
            max_completion_length=1,
            learning_rate=1e-2,
            lr_scheduler_type="constant",
            bf16=False,
            use_cpu=True,
            save_strategy="no",
            logging_strategy="no",
            report_to="none",
            disable_tqdm=True,
        )
        trainer = OrderedGRPOTrainer(
            model=GPT2LMHeadModel(config),
            reward_funcs=accuracy,
            args=args,
            train_dataset=prompts(),
            processing_class=tokenizer(),
            prompts=go.Informative(every=4),
        )
        trainer.train()
    sampler = trainer.prompt_sampler
    for letter, rate, num_groups in zip(LETTERS, sampler.pass_rates, sampler.num_groups, strict=True):
        print(f"{letter}: pass rate {rate:.2f}, {num_groups} groups")
    return float(sampler.pass_rates.mean())


if __name__ == "__main__":
    main()
