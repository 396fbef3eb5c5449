"""The words of a phrase, whatever their order: the sum of their embeddings and one hidden layer."""

import torch
from torch import nn

_PADDING = 0


class BagOfWords(nn.Module):
    """Words (B, T), padded with 0 at the end, to logits (B, classes).

    The sum is divided by the root of the number of words, so that short and long phrases are of one size at the start.
    """

    def __init__(self, vocabulary: int = 1000, classes: int = 2, *, width: int = 32, hidden: int = 32) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.hidden = nn.Linear(width, hidden)
        self.relu = nn.ReLU()
        self.head = nn.Linear(hidden, classes)
        # Torch's own start, variance 1, would have to be unlearnt for every word.
        nn.init.normal_(self.embedding.weight, std=0.1)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        """Words (B, T)."""
        is_word = words != _PADDING
        num_words = is_word.sum(1)
        longest = int(num_words.max())  # half of a batch is padding: no need to look it up
        embedded = self.embedding(words[:, :longest]) * is_word[:, :longest].unsqueeze(2)
        phrases = embedded.sum(1) / num_words.clamp(min=1).sqrt().unsqueeze(1)
        logits: torch.Tensor = self.head(self.relu(self.hidden(phrases)))
        return logits
