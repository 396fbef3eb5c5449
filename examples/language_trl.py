"""The language model of language_accelerate.py with TRL's SFTTrainer: prompts, completions, a tokenizer made here."""

import tempfile

import torch
from datasets import Dataset  # type: ignore[import-untyped]
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast
from trl import SFTConfig  # type: ignore[attr-defined] # its modules come when they are asked for

import gradorder as go
from gradorder.integrations.trl import OrderedSFTTrainer

NUM_WORDS, PADDING, END = 12, "padding", "end"
WORDS = [f"word{number}" for number in range(NUM_WORDS)]


def counting() -> Dataset:
    """Sentences that count on from two words, in steps of one or two: of three to eight words."""
    rows = []
    for index in range(480):
        first, step, length = index % NUM_WORDS, 1 + index // NUM_WORDS % 2, 3 + index // 24 % 6
        words = [WORDS[(first + step * place) % NUM_WORDS] for place in range(length)]
        rows.append({"prompt": " ".join(words[:2]), "completion": " " + " ".join(words[2:]) + " "})
    return Dataset.from_list(rows)


def tokenizer() -> PreTrainedTokenizerFast:
    """A number for every word."""
    words = Tokenizer(WordLevel({word: number for number, word in enumerate([PADDING, END, *WORDS])}, PADDING))
    words.pre_tokenizer = Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=words, pad_token=PADDING, eos_token=END)


def main(epochs: int = 8) -> float:
    """Train and return the loss on all sentences."""
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=2 + NUM_WORDS, n_positions=9, n_embd=32, n_layer=2, n_head=2, bos_token_id=1, eos_token_id=1
    )
    with tempfile.TemporaryDirectory() as folder:
        args = SFTConfig(
            folder,
            num_train_epochs=epochs,
            per_device_train_batch_size=32,
            learning_rate=3e-3,
            max_length=9,
            bf16=False,
            use_cpu=True,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
        )
        trainer = OrderedSFTTrainer(
            GPT2LMHeadModel(config),
            args,
            train_dataset=counting(),
            eval_dataset=counting(),
            processing_class=tokenizer(),
            order={"ordering": go.PlackettLuce(), "keep": 0.6, "start_epoch": 2},
        )
        trainer.train()
        loss: float = trainer.evaluate()["eval_loss"]
    print(f"{trainer.state.global_step} steps, loss {loss:.3f}")
    return loss


if __name__ == "__main__":
    main()
