"""A small language model with Accelerate, by hand: the loss of each example orders the next epoch."""

import torch
from accelerate import Accelerator  # type: ignore[import-untyped]
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel

import gradorder as go
from gradorder.integrations.accelerate import ordered_loader

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
    """Train and return the mean loss of the last epoch."""
    accelerator = Accelerator(cpu=True)
    torch.manual_seed(0)
    data = Counting()
    config = GPT2Config(
        vocab_size=1 + NUM_WORDS, n_positions=8, n_embd=32, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0
    )
    model = GPT2LMHeadModel(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)

    sampler = go.OrderedSampler(data, batch_size=32, ordering=go.PlackettLuce(), keep=0.6, start_epoch=2)
    loader = ordered_loader(accelerator, data, sampler, collate_fn=padded)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)

    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        seen = []
        for batch in loader:
            logits = model(batch["input_ids"], attention_mask=batch["attention_mask"]).logits
            losses = go.token_losses(logits, batch["labels"])
            optimizer.zero_grad()
            accelerator.backward(losses.mean() * sampler.loss_scale)
            optimizer.step()
            sampler.step(losses.detach())
            seen.append(losses.mean().item())
        loss = sum(seen) / len(seen)
        accelerator.print(f"epoch {epoch}: {len(seen)} steps, training loss {loss:.3f}")
    return loss


if __name__ == "__main__":
    main()
