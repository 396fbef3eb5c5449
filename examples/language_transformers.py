"""The language model of language_accelerate.py with transformers.Trainer; three lines say what is trained on."""

import tempfile

import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, TrainingArguments

import gradorder as go
from gradorder.integrations.transformers import OrderedTrainer, causal_losses_of_outputs

NUM_WORDS, PADDING, NO_LABEL = 12, 0, -100


class Counting(Dataset[list[int]]):
    """Sentences that count on from a first word, in steps of one or two: of three to eight words."""

    def __len__(self) -> int:
        return 480

    def __getitem__(self, index: int) -> list[int]:
        first, step, length = index % NUM_WORDS, 1 + index // NUM_WORDS % 2, 3 + index // 24 % 6
        return [1 + (first + step * place) % NUM_WORDS for place in range(length)]


def padded(sentences: list[list[int]]) -> dict[str, torch.Tensor]:
    """Nothing is asked of padding, nor of the first two words, which nobody can know."""
    tokens = [torch.tensor(sentence) for sentence in sentences]
    labels = [torch.where(torch.arange(len(each)) < 2, NO_LABEL, each) for each in tokens]  # noqa: PLR2004 - two words
    return {
        "input_ids": pad_sequence(tokens, batch_first=True, padding_value=PADDING),
        "attention_mask": pad_sequence([torch.ones_like(each) for each in tokens], batch_first=True),
        "labels": pad_sequence(labels, batch_first=True, padding_value=NO_LABEL),
    }


def main(epochs: int = 8) -> float:
    """Train and return the loss on all sentences."""
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=1 + NUM_WORDS, n_positions=8, n_embd=32, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0
    )
    with tempfile.TemporaryDirectory() as folder:
        args = TrainingArguments(
            folder,
            num_train_epochs=epochs,
            per_device_train_batch_size=32,
            learning_rate=3e-3,
            use_cpu=True,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            remove_unused_columns=False,
        )
        trainer = OrderedTrainer(
            GPT2LMHeadModel(config),
            args,
            data_collator=padded,
            train_dataset=Counting(),
            eval_dataset=Counting(),
            order={"ordering": go.PlackettLuce(), "keep": 0.6, "start_epoch": 2},
            record=causal_losses_of_outputs,
        )
        trainer.train()
        loss: float = trainer.evaluate()["eval_loss"]
    print(f"{trainer.state.global_step} steps, loss {loss:.3f}")
    return loss


if __name__ == "__main__":
    main()
