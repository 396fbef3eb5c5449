"""What exact per-example gradient norms cost, as multiples of one plain forward and backward pass.

Time: all methods of a workload in turn in one process, the median over the rounds; next to the plain pass stands the
naive loop, one example after the other, that every slower way must not exceed. Memory: the peak above what the process
held before, each method in a process of its own. Every method is first compared with the one-at-a-time reference on a
few examples; what it cannot do stands in its note. BatchNorm is frozen (the model in eval mode), so that all compute
the same; the plain pass in train mode stands next to it. The peers are installed by `make bench`; they are tried on the
first workloads only. Models of `transformers` are built from their configurations: nothing is downloaded.

    python benchmarks/gradient_norm.py                      # writes results/gradient_norm.csv
    python benchmarks/gradient_norm.py --workload mlp --method gradorder --no-memory
"""

import argparse
import copy
import csv
import ctypes
import importlib
import math
import os
import subprocess
import sys
import textwrap
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

import gradorder as go
from gradorder.batches import num_examples, take
from gradorder.losses import Losses
from gradorder_lab import models
from gradorder_lab.runs import origin

RESULTS = Path(__file__).resolve().parent.parent / "results" / "gradient_norm.csv"
THREADS = 2
SECONDS_PER_WORKLOAD = 20
SHORTEST_TURN = 0.005
MOST_ROUNDS, FEWEST_ROUNDS, SLOW_ROUNDS = 100, 7, 3
SLOW = 10
NUM_CHECKED = 4
TOLERANCE = 1e-3
LARGEST_VMAP = 2**28
SMALLEST_PEAK = 1.0
PLAIN, PLAIN_TRAIN_MODE, ONE_AT_A_TIME = "plain pass", "plain pass, train mode", "one at a time"

Batch = Any
Norms = Callable[[Batch], torch.Tensor]
"""A method made ready for one model: the norms of a batch."""


# What is measured -----------------------------------------------------------------------------------------------


def mean_cross_entropy(model: nn.Module, batch: Batch) -> torch.Tensor:
    """The loss of a plain pass."""
    return F.cross_entropy(model(batch[0]), batch[1])


@dataclass(frozen=True)
class Workload:
    """A model, a batch, and the loss as a user would write it for a plain pass."""

    title: str
    model: Callable[[], nn.Module]
    batch: Callable[[], Batch]
    losses: Losses = go.cross_entropy
    mean_loss: Callable[[nn.Module, Batch], torch.Tensor] = mean_cross_entropy
    layouts: tuple[str, ...] = ("contiguous",)
    methods: tuple[str, ...] | None = None
    """Those that are tried; None: all."""


def own_squared_error(model: nn.Module, batch: Batch) -> torch.Tensor:
    """The loss of a user who does not know `go.squared_error`."""
    inputs, targets = batch
    errors: torch.Tensor = model(inputs).squeeze(1) - targets
    return errors.square()


def mean_squared_error(model: nn.Module, batch: Batch) -> torch.Tensor:
    """Outputs (B, 1), targets (B,)."""
    return F.mse_loss(model(batch[0]).squeeze(1), batch[1])


def linear() -> nn.Module:
    """Linear regression."""
    return nn.Linear(13, 1)


def regression_batch() -> Batch:
    """Vectors with a number each."""
    return torch.randn(256, 13), torch.randn(256)


def images(size: int, *shape: int, classes: int = 10) -> Callable[[], Batch]:
    """Makes a batch of noise with labels."""
    return lambda: (torch.randn(size, *shape), torch.randint(classes, (size,)))


def tokens() -> Batch:
    """Sequences of 128 tokens with labels."""
    return torch.randint(1000, (32, 128)), torch.randint(10, (32,))


BOTH_LAYOUTS = ("contiguous", "channels_last")
WITH_PEERS = {
    "linear": Workload("linear regression, 256", linear, regression_batch, go.squared_error, mean_squared_error),
    "linear-own-loss": Workload(
        "linear regression, own loss, 256", linear, regression_batch, own_squared_error, mean_squared_error
    ),
    "mlp": Workload("MLP 784-128-10, 256", models.mlp, images(256, 1, 28, 28)),
    "conv": Workload("7-layer conv net, 128", models.conv_net, images(128, 1, 28, 28), layouts=BOTH_LAYOUTS),
    "resnet20": Workload("ResNet-20, 128", models.resnet20, images(128, 3, 32, 32), layouts=BOTH_LAYOUTS),
    "resnet18": Workload("ResNet-18, 32", models.resnet18, images(32, 3, 32, 32, classes=100), layouts=BOTH_LAYOUTS),
    "transformer": Workload("transformer encoder, 32", models.TransformerClassifier, tokens),
}


# Other architectures: width 128, 64 positions, 16 examples ---------------------------------------------------------

NUM_EXAMPLES, LENGTH, NUM_WORDS, NUM_CLASSES, IGNORED = 16, 64, 1000, 10, -100
WIDTH = {"hidden_size": 128, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 512}
WORDS = {**WIDTH, "vocab_size": NUM_WORDS, "max_position_embeddings": 128, "pad_token_id": 0}
PATCHES = {**WIDTH, "image_size": 32, "patch_size": 4, "num_labels": NUM_CLASSES}
STAGES = {"hidden_sizes": [32, 64, 128, 128], "depths": [2, 2, 2, 2], "num_labels": NUM_CLASSES}
T5 = {"d_model": 128, "d_kv": 32, "d_ff": 512, "num_layers": 2, "num_heads": 4, "vocab_size": NUM_WORDS}


def of_transformers(kind: str, model_type: str, **settings: object) -> Callable[[], nn.Module]:
    """Makes a model of `transformers` from its configuration."""

    def build() -> nn.Module:
        transformers = importlib.import_module("transformers")
        config = transformers.AutoConfig.for_model(model_type, **settings)
        model: nn.Module = getattr(transformers, f"AutoModelFor{kind}").from_config(config)
        return model

    return build


def sentences(size: int = NUM_EXAMPLES, length: int = LENGTH, num_words: int = NUM_WORDS) -> dict[str, torch.Tensor]:
    """Words and which of them are there: a quarter of each third example is padding."""
    is_there = torch.arange(length) < length - (length // 4) * (torch.arange(size) % 3 == 0)[:, None]
    words = torch.randint(1, num_words, (size, length)).where(is_there, 0)
    return {"input_ids": words, "attention_mask": is_there.long()}


def with_classes() -> Batch:
    """Sentences with a class each."""
    return sentences() | {"labels": torch.randint(NUM_CLASSES, (NUM_EXAMPLES,))}


def with_every_word(size: int = NUM_EXAMPLES, length: int = LENGTH, num_words: int = NUM_WORDS) -> Batch:
    """Sentences each word of which is to be guessed from those before it."""
    batch = sentences(size, length, num_words)
    return batch | {"labels": batch["input_ids"].where(batch["attention_mask"] == 1, IGNORED)}


def with_some_words() -> Batch:
    """Sentences of which every seventh word is to be guessed."""
    batch = with_every_word()
    batch["labels"][:, torch.arange(LENGTH) % 7 > 0] = IGNORED
    return batch


def with_translations() -> Batch:
    """Sentences with another one each."""
    answers = with_every_word()
    return sentences() | {"decoder_input_ids": answers["input_ids"], "labels": answers["labels"]}


def pictures(side: int) -> Callable[[], Batch]:
    """Makes a batch of noise with labels, as models of `transformers` take it."""
    return lambda: {
        "pixel_values": torch.randn(NUM_EXAMPLES, 3, side, side),
        "labels": torch.randint(NUM_CLASSES, (NUM_EXAMPLES,)),
    }


def logits(model: nn.Module, batch: Batch) -> torch.Tensor:
    """What the model says without its labels."""
    found: torch.Tensor = model(**{name: part for name, part in batch.items() if name != "labels"}).logits
    return found


def class_losses(model: nn.Module, batch: Batch) -> torch.Tensor:
    """One class per example."""
    return F.cross_entropy(logits(model, batch), batch["labels"], reduction="none")


def mean_class_loss(model: nn.Module, batch: Batch) -> torch.Tensor:
    """The same for a plain pass."""
    return F.cross_entropy(logits(model, batch), batch["labels"])


def word_losses(model: nn.Module, batch: Batch) -> torch.Tensor:
    """The mean over an example's own words."""
    labels: torch.Tensor = batch["labels"]
    losses = F.cross_entropy(logits(model, batch).mT, labels, reduction="none", ignore_index=IGNORED)
    return losses.sum(1) / (labels != IGNORED).sum(1).clamp(min=1)


def mean_word_loss(model: nn.Module, batch: Batch) -> torch.Tensor:
    """The mean over all words, for a plain pass."""
    return F.cross_entropy(logits(model, batch).flatten(0, 1), batch["labels"].flatten(), ignore_index=IGNORED)


def shifted(batch: Batch) -> Batch:
    """Each word as the label of the one before it."""
    labels = F.pad(batch["labels"][:, 1:], (0, 1), value=IGNORED)
    return {**batch, "labels": labels}


def next_words() -> Batch:
    """Sentences with each word's next one as its label."""
    return shifted(with_every_word())


class InvertedResidual(nn.Module):
    """Wider, convolved channel by channel, narrower again: (B, C, H, W) to (B, C', H / stride, W / stride)."""

    def __init__(self, channels_in: int, channels_out: int, stride: int, expansion: int) -> None:
        super().__init__()
        inner = channels_in * expansion
        self.is_residual = stride == 1 and channels_in == channels_out
        self.body = nn.Sequential(
            *convolved(channels_in, inner, 1),
            *convolved(inner, inner, 3, stride=stride, groups=inner),
            nn.Conv2d(inner, channels_out, 1, bias=False),
            nn.BatchNorm2d(channels_out),
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Images (B, C, H, W)."""
        output: torch.Tensor = self.body(images)
        return images + output if self.is_residual else output


def convolved(channels_in: int, channels_out: int, size: int, *, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    """A convolution, BatchNorm, and ReLU6 in place."""
    conv = nn.Conv2d(channels_in, channels_out, size, stride, padding=size // 2, groups=groups, bias=False)
    return [conv, nn.BatchNorm2d(channels_out), nn.ReLU6(inplace=True)]


def mobilenet() -> nn.Module:
    """MobileNetV2 (Sandler et al., 2018) for small images: stride 1 at first."""
    blocks: list[nn.Module] = []
    channels = 32
    for expansion, width, repeats, stride in MOBILENET:
        for number in range(repeats):
            blocks.append(InvertedResidual(channels, width, stride if number == 0 else 1, expansion))
            channels = width
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1280, NUM_CLASSES)]
    return nn.Sequential(*convolved(3, 32, 3), *blocks, *convolved(channels, 1280, 1), *head)


MOBILENET = (
    (1, 16, 1, 1), (6, 24, 2, 1), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
)  # fmt: skip
"""Expansion, channels, repeats, stride: the paper's Table 2, with stride 1 where an image of 32 x 32 needs it."""


def lstm() -> nn.Module:
    """Read off the last step."""
    return models.RecurrentClassifier(128, 128, NUM_CLASSES)


OURS = ("gradorder", "gradorder observe", ONE_AT_A_TIME)
WITH_DATTRI = (*OURS, "dattri-llm")
EXPERTS = {"num_local_experts": 4, "num_experts_per_tok": 2, "num_key_value_heads": 4}
ARCHITECTURES = {
    "bert": Workload(
        "BERT, 16", of_transformers("SequenceClassification", "bert", **WORDS, num_labels=NUM_CLASSES), with_classes,
        class_losses, mean_class_loss, methods=WITH_DATTRI,
    ),
    "llama": Workload(
        "Llama, 16", of_transformers("CausalLM", "llama", **WORDS), next_words, word_losses, mean_word_loss,
        methods=WITH_DATTRI,
    ),
    "gpt2": Workload(
        "GPT-2, 16", of_transformers("CausalLM", "gpt2", **WORDS), next_words, word_losses, mean_word_loss,
        methods=WITH_DATTRI,
    ),
    "vit": Workload(
        "ViT, 16", of_transformers("ImageClassification", "vit", **PATCHES), pictures(32), class_losses,
        mean_class_loss, methods=WITH_DATTRI,
    ),
    "convnext": Workload(
        "ConvNeXt, 16", of_transformers("ImageClassification", "convnext", **STAGES), pictures(64), class_losses,
        mean_class_loss, methods=OURS,
    ),
    "mobilenet": Workload("MobileNetV2, 16", mobilenet, images(16, 3, 32, 32), methods=OURS),
    "lstm": Workload("LSTM, 16", lstm, images(16, LENGTH, 128), methods=OURS),
    "bert-mlm": Workload(
        "BERT, masked words, 16", of_transformers("MaskedLM", "bert", **WORDS), with_some_words, word_losses,
        mean_word_loss, methods=WITH_DATTRI,
    ),
    "opt": Workload(
        "OPT, 16", of_transformers("CausalLM", "opt", **WORDS, ffn_dim=512, word_embed_proj_dim=128), next_words,
        word_losses, mean_word_loss, methods=OURS,
    ),
    "t5": Workload(
        "T5, 16", of_transformers("Seq2SeqLM", "t5", **T5), with_translations, word_losses, mean_word_loss,
        methods=OURS,
    ),
    "mixtral": Workload(
        "Mixtral, 16", of_transformers("CausalLM", "mixtral", **WORDS, **EXPERTS), next_words, word_losses,
        mean_word_loss, methods=OURS,
    ),
}  # fmt: skip


# Where memory counts ----------------------------------------------------------------------------------------------


class TiedHead(nn.Module):
    """A large vocabulary, used to read words and to say them."""

    def __init__(self, num_words: int = 50_000, width: int = 768) -> None:
        super().__init__()
        self.words, self.body = nn.Embedding(num_words, width), nn.Linear(width, width)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        """Words (B, T) to logits (B, T, words)."""
        return F.linear(self.body(self.words(words)).tanh(), self.words.weight)


def tied_losses(model: nn.Module, batch: Batch) -> torch.Tensor:
    """The mean over an example's own words."""
    return F.cross_entropy(model(batch[0]).mT, batch[1], reduction="none").mean(1)


def mean_tied_loss(model: nn.Module, batch: Batch) -> torch.Tensor:
    """The same for a plain pass."""
    return F.cross_entropy(model(batch[0]).flatten(0, 1), batch[1].flatten())


def long_sentences() -> Batch:
    """Two of 1,024 words, with their next words."""
    return torch.randint(50_000, (2, 1024)), torch.randint(50_000, (2, 1024))


LARGE = {
    "tied-head": Workload(
        "tied head 50,000 x 768, T = 1024, 2", TiedHead, long_sentences, tied_losses, mean_tied_loss, methods=OURS[:2]
    ),
    "gpt2-small": Workload(
        "GPT-2 small, T = 32, 8", of_transformers("CausalLM", "gpt2"), lambda: shifted(with_every_word(8, 32, 50_000)),
        word_losses, mean_word_loss, methods=OURS[:2],
    ),
}  # fmt: skip
WORKLOADS = WITH_PEERS | ARCHITECTURES | LARGE


def ready(workload: Workload, layout: str) -> tuple[nn.Module, Batch]:
    """The model, in eval mode, and a batch, both in the layout and always the same."""
    torch.manual_seed(0)
    model, batch = workload.model().eval(), workload.batch()
    if layout == "channels_last":
        model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        batch = batch[0].to(memory_format=torch.channels_last), batch[1]
    return model, batch


# The methods ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Method:
    """Makes a model ready; where it cannot, `adapt` may give an equal model that it can take."""

    prepare: Callable[[nn.Module, Losses], Norms]
    adapt: Callable[[nn.Module], tuple[nn.Module, str] | None] = lambda _: None
    """The equal model and what was changed, or None."""


def gradorder(model: nn.Module, losses: Losses) -> Norms:
    """The library's scores."""
    return lambda batch: go.gradient_norms(model, batch, losses)


def gradorder_observe(model: nn.Module, losses: Losses) -> Norms:
    """A whole training pass of the library's user, the norms on the side."""

    def norms(batch: Batch) -> torch.Tensor:
        with go.observe_gradient_norms(model) as seen:
            seen.losses(losses(model, batch)).mean().backward()
            return seen.norms

    return norms


def one_at_a_time(model: nn.Module, losses: Losses) -> Norms:
    """The naive loop."""

    def norms(batch: Batch) -> torch.Tensor:
        return torch.stack(
            [torch.stack([each.norm() for each in row]).norm() for row in gradients(model, batch, losses)]
        )

    return norms


def gradients(model: nn.Module, batch: Batch, losses: Losses) -> Iterator[list[torch.Tensor]]:
    """Those of each example, by plain autograd; a parameter that it does not reach has none."""
    parameters = list(model.parameters())
    for i in range(num_examples(batch)):
        loss = losses(model, take(batch, torch.tensor([i])))[0]
        found = torch.autograd.grad(loss, parameters, allow_unused=True)
        yield [gradient for gradient in found if gradient is not None]


class _LossOfOne(nn.Module):
    """The loss of one example as a module, for `functional_call`."""

    def __init__(self, model: nn.Module, losses: Losses) -> None:
        super().__init__()
        self.model, self.losses = model, losses

    def forward(self, inputs: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return self.losses(self.model, (inputs.unsqueeze(0), target.unsqueeze(0)))[0]


def torch_func(model: nn.Module, losses: Losses) -> Norms:
    """Vectorised gradients, all at once or in chunks of 16."""
    loss_of_one = _LossOfOne(model, losses)
    weights = {name: parameter.detach() for name, parameter in loss_of_one.named_parameters()}
    num_entries = sum(weight.numel() for weight in weights.values())
    gradient = torch.func.grad(lambda weights, *example: torch.func.functional_call(loss_of_one, weights, example))

    def norm(inputs: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        gradients = gradient(weights, inputs, target).values()
        return torch.stack([each.square().sum() for each in gradients]).sum().sqrt()

    def norms(batch: Batch) -> torch.Tensor:
        chunk_size = 16 if num_entries * len(batch[1]) > LARGEST_VMAP else None
        return torch.func.vmap(norm, chunk_size=chunk_size)(*batch)

    return norms


def opacus_ghost(model: nn.Module, losses: Losses) -> Norms:
    """Ghost clipping's first pass."""
    peer = importlib.import_module("opacus.grad_sample")
    wrapped = peer.GradSampleModuleFastGradientClipping(model.train(), loss_reduction="sum")

    def norms(batch: Batch) -> torch.Tensor:
        losses(wrapped, batch).sum().backward()
        observed: torch.Tensor = wrapped.get_norm_sample()
        return observed

    return norms


def opacus(model: nn.Module, losses: Losses) -> Norms:
    """Every example's gradient, kept whole, then the norms."""
    peer = importlib.import_module("opacus.grad_sample")
    wrapped = peer.GradSampleModule(model.train(), loss_reduction="sum")

    def norms(batch: Batch) -> torch.Tensor:
        losses(wrapped, batch).sum().backward()
        squares = [p.grad_sample.flatten(1).square().sum(1) for p in wrapped.parameters()]
        wrapped.zero_grad()
        return torch.stack(squares).sum(0).sqrt()

    return norms


def backpack(model: nn.Module, losses: Losses) -> Norms:
    """Squared norms per parameter, computed during the backward pass."""
    peer, extensions = importlib.import_module("backpack"), importlib.import_module("backpack.extensions")
    model = peer.extend(model)

    def norms(batch: Batch) -> torch.Tensor:
        with peer.backpack(extensions.BatchL2Grad()):
            losses(model, batch).sum().backward()
        without = [name for name, parameter in model.named_parameters() if not hasattr(parameter, "batch_l2")]
        if without:
            raise NotImplementedError(f"no norms for {len(without)} parameters, {without[0]} the first")
        squares = [parameter.__dict__.pop("batch_l2") for parameter in model.parameters()]
        return torch.stack(squares).sum(0).sqrt()

    return norms


def dattri_llm(model: nn.Module, losses: Losses) -> Norms:
    """Hooks around a training pass keep inputs and gradients of layers; their squared norms are taken afterwards."""
    peer, ops = importlib.import_module("dattri_llm"), importlib.import_module("dattri_llm.gradient.ops")
    capture = peer.CaptureCallback()
    manager = peer.HookManager(model, config=layers_of_transformers(model), callbacks=[capture])

    def norms(batch: Batch) -> torch.Tensor:
        with manager.collect():
            losses(model, batch).sum().backward()
        found = capture.record.gradient
        squares = {name: ops.grad_norm_sq(each, found.layer_types[name]) for name, each in found.data.items()}
        whole = {name for name, each in squares.items() if len(each) == num_examples(batch)}
        without = [name for name, _ in model.named_parameters() if name.rpartition(".")[0] not in whole]
        if without:
            raise NotImplementedError(f"no norms for {len(without)} parameters, {without[0]} the first")
        return torch.stack(list(squares.values())).sum(0).sqrt()

    return norms


def layers_of_transformers(model: nn.Module) -> Any:  # noqa: ANN401 - the peer may not be installed
    """Every layer that the peer knows; the RMSNorm of `transformers` is declared as its documentation asks."""
    peer, kinds = importlib.import_module("dattri_llm"), importlib.import_module("dattri_llm.utils.module")
    norms = {name: module for name, module in model.named_modules() if hasattr(module, "variance_epsilon")}
    return peer.HookManagerConfig(
        hook_types=dict.fromkeys(norms, "linear_io"),
        linear_io=peer.REGISTER_ALL,
        layer_types=dict.fromkeys(norms, "nn.RMSNorm"),
        module_kwargs={
            name: kinds.rms_norm_module_kwargs(normalized_shape=len(norm.weight), eps=norm.variance_epsilon)
            for name, norm in norms.items()
        },
    )


# Models that a peer can take ------------------------------------------------------------------------------------


class FrozenBatchNorm(nn.Module):
    """BatchNorm in eval mode as a module without modes or buffers."""

    def __init__(self, norm: nn.BatchNorm2d) -> None:
        super().__init__()
        self.weight, self.bias = norm.weight, norm.bias
        # Out of sight of `buffers()`: Opacus refuses a module that has any.
        self.statistics, self.eps = (norm.running_mean, norm.running_var), norm.eps

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Images (B, C, H, W)."""
        return F.batch_norm(images, *self.statistics, self.weight, self.bias, training=False, eps=self.eps)


class AttentionOfLinearLayers(nn.Module):
    """What nn.MultiheadAttention computes, with its weights in modules that are called."""

    batch_first = True  # the encoder asks

    def __init__(self, attention: nn.MultiheadAttention) -> None:
        super().__init__()
        self.heads = attention.num_heads
        self.queries_keys_values = _linear(attention.in_proj_weight, attention.in_proj_bias)
        self.output = _linear(attention.out_proj.weight, attention.out_proj.bias)

    def forward(self, hidden: torch.Tensor, *_others: object, **_masks: object) -> tuple[torch.Tensor, None]:
        """Hidden states (B, T, width) that attend to themselves, no masks."""
        parts = self.queries_keys_values(hidden).chunk(3, dim=-1)
        per_head = [part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts]
        attended = F.scaled_dot_product_attention(*per_head)
        return self.output(attended.transpose(1, 2).flatten(2)), None


def _linear(weight: torch.Tensor, bias: torch.Tensor) -> nn.Linear:
    layer = nn.Linear(weight.shape[1], weight.shape[0])
    layer.load_state_dict({"weight": weight, "bias": bias})
    return layer


def adapt_for_opacus(model: nn.Module) -> tuple[nn.Module, str] | None:
    """An equal model without BatchNorm and nn.MultiheadAttention.

    Opacus offers replacements of its own that are not equal: GroupNorm, and an attention that with batch_first
    gives other outputs (1.6.0).
    """
    if replace(model, nn.MultiheadAttention, AttentionOfLinearLayers):
        return model, "attention as linear layers"
    if replace(model, nn.BatchNorm2d, FrozenBatchNorm):
        return model, "BatchNorm as a frozen module of our own"
    return None


class PositionsOfEveryExample(nn.Module):
    """A model of `transformers` that is told the positions in each sentence, not once for all of them."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: torch.Tensor, **others: Any) -> Any:  # noqa: ANN401 - what the model returns
        """Words (B, T)."""
        positions = torch.arange(input_ids.shape[1]).expand(input_ids.shape)
        config: Any = self.model.config
        kinds = {"token_type_ids": torch.zeros_like(input_ids)} if config.model_type == "bert" else {}
        return self.model(input_ids, position_ids=positions, **kinds, **others)


def adapt_for_dattri_llm(model: nn.Module) -> tuple[nn.Module, str] | None:
    """An equal model: a table that is looked up once for all examples has no gradients of single ones."""
    config: Any = getattr(model, "config", None)
    if config is not None and config.model_type in {"bert", "gpt2"}:
        return PositionsOfEveryExample(model), "positions of every example"
    return None


def replace(model: nn.Module, kind: type[nn.Module], replacement: Callable[[Any], nn.Module]) -> int:
    """Exchange every module of a kind; how many there were."""
    found = [
        (parent, name, child)
        for parent in model.modules()
        for name, child in parent.named_children()
        if isinstance(child, kind)
    ]
    for parent, name, child in found:
        setattr(parent, name, replacement(child))
    return len(found)


METHODS = {
    "gradorder": Method(gradorder),
    "gradorder observe": Method(gradorder_observe),
    ONE_AT_A_TIME: Method(one_at_a_time),
    "torch.func": Method(torch_func),
    "opacus ghost": Method(opacus_ghost, adapt_for_opacus),
    "opacus": Method(opacus, adapt_for_opacus),
    "backpack": Method(backpack),
    "dattri-llm": Method(dattri_llm, adapt_for_dattri_llm),
}


# Are the numbers right? -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Action:
    """What is measured: a method, or a plain pass, ready for its own copy of the model."""

    model: nn.Module
    run: Norms

    def forget_gradients(self) -> None:
        """As an optimizer's zero_grad does before each step."""
        for parameter in self.model.parameters():
            parameter.grad = None


@dataclass(frozen=True)
class Checked:
    """A method ready to be measured, or the reason why not."""

    action: Action | None
    error: float
    note: str
    is_adapted: bool = False


def checked(method: Method, workload: Workload, layout: str) -> Checked:
    """The method on the model as it is or, if that fails or is wrong, on the one adapted for it."""
    as_it_is = compared(method, workload, layout, None)
    if as_it_is.note == "ok":
        return as_it_is
    change = adapted_model(method, ready(workload, layout)[0])
    if change is None:
        return as_it_is
    again = compared(method, workload, layout, change[0])
    note = f"{again.note} with {change[1]}; without: {as_it_is.note}"
    return Checked(again.action, again.error, note, is_adapted=True)


def adapted_model(method: Method, model: nn.Module) -> tuple[nn.Module, str] | None:
    """The equal model that the method can take, if there is one."""
    return method.adapt(copy.deepcopy(model))


def compared(method: Method, workload: Workload, layout: str, adapted: nn.Module | None) -> Checked:
    """The norms of the first few examples against the reference on the model as it is."""
    model, batch = ready(workload, layout)
    expected = exact_norms(model, few(batch), workload.losses)
    try:
        action = prepared(method, workload, adapted or model)
        error = ((action.run(few(batch)) - expected).abs() / expected).max().item()
    except Exception as failure:  # noqa: BLE001 - whatever a peer raises goes into the table
        return Checked(None, math.nan, f"fails: {one_line(failure)}")
    return Checked(action, error, "ok" if error <= TOLERANCE else "wrong")


def exact_norms(model: nn.Module, batch: Batch, losses: Losses) -> torch.Tensor:
    """The reference: a norm of millions of entries would lose digits in float32."""
    rows = gradients(model, batch, losses)
    return torch.stack([torch.stack([each.double().norm() for each in row]).norm() for row in rows])


def prepared(method: Method, workload: Workload, model: nn.Module) -> Action:
    """The method on a model that is its own."""
    return Action(model, method.prepare(model, workload.losses))


def few(batch: Batch) -> Batch:
    """The examples that are checked."""
    return take(batch, torch.arange(min(NUM_CHECKED, num_examples(batch))))


def one_line(failure: Exception) -> str:
    """The kind of a failure and the beginning of what it says."""
    return f"{type(failure).__name__}: {textwrap.shorten(str(failure), 110, placeholder=' ...')}"


# Time -----------------------------------------------------------------------------------------------------------


def plain_passes(workload: Workload, layout: str) -> dict[str, Action]:
    """The pass that all else is a multiple of, and that in train mode if it is another."""
    model, _ = ready(workload, layout)
    passes = {PLAIN: plain_pass(workload, model)}
    if any(isinstance(module, nn.BatchNorm2d) for module in model.modules()):
        passes[PLAIN_TRAIN_MODE] = plain_pass(workload, copy.deepcopy(model).train())
    return passes


def plain_pass(workload: Workload, model: nn.Module) -> Action:
    """One forward and backward pass; what it returns is of no interest."""

    def run(batch: Batch) -> torch.Tensor:
        loss = workload.mean_loss(model, batch)
        loss.backward()
        return loss.detach()

    return Action(model, run)


def median_seconds(actions: dict[str, Action], batch: Batch) -> dict[str, float]:
    """Each action's median over the rounds, in each of which all have their turn."""
    for action in actions.values():
        seconds(action, batch)  # once to warm up
    first = {name: min(seconds(action, batch) for _ in range(2)) for name, action in actions.items()}
    repeats = {name: math.ceil(SHORTEST_TURN / taken) for name, taken in first.items()}
    is_slow = {name: taken > SLOW * first[PLAIN] for name, taken in first.items()}
    round_seconds = sum(first[name] * repeats[name] for name in actions if not is_slow[name])
    rounds = min(MOST_ROUNDS, max(FEWEST_ROUNDS, int(SECONDS_PER_WORKLOAD / round_seconds)))
    taken: dict[str, list[float]] = {name: [] for name in actions}
    for number in range(rounds):
        for name, action in actions.items():
            if not is_slow[name] or number < SLOW_ROUNDS:
                taken[name] += [seconds(action, batch) for _ in range(repeats[name])]
    return {name: median(each) for name, each in taken.items()}


def seconds(action: Action, batch: Batch) -> float:
    """How long it took once."""
    action.forget_gradients()
    started = time.perf_counter()
    action.run(batch)
    return time.perf_counter() - started


# Memory ---------------------------------------------------------------------------------------------------------


EXACT_MEMORY = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_ARENA_MAX": "1"}
"""glibc then gives back each large block at once, so that the peak is that of what was in use."""


def peak_mebibytes(workload: str, layout: str, method: str, *, is_adapted: bool) -> float:
    """The peak memory of one pass, in a process of its own; nan if it fails."""
    command = [sys.executable, __file__, "--peak", workload, layout, method, str(int(is_adapted))]
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | EXACT_MEMORY)  # noqa: S603 - ourselves
    return float(result.stdout) if result.returncode == 0 else math.nan


def print_peak(name: str, layout: str, method: str, is_adapted: str) -> None:
    """The child process's part."""
    action, batch = action_alone(name, layout, method, is_adapted=bool(int(is_adapted)))
    seconds(action, few(batch))  # what is loaded on first use does not count
    action.forget_gradients()
    ctypes.CDLL(None).malloc_trim(0)  # nor is what is free by now there to be used again
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    before = status_kibibytes("VmRSS")
    action.run(batch)
    print((status_kibibytes("VmHWM") - before) / 1024)


def action_alone(name: str, layout: str, method: str, *, is_adapted: bool) -> tuple[Action, Batch]:
    """One action of a workload and the batch."""
    workload = WORKLOADS[name]
    model, batch = ready(workload, layout)
    if method not in METHODS:
        return plain_passes(workload, layout)[method], batch
    change = adapted_model(METHODS[method], model) if is_adapted else None
    return prepared(METHODS[method], workload, change[0] if change else model), batch


def status_kibibytes(field: str) -> int:
    """A line of Linux's account of this process; `getrusage` would count its parent's peak too."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(field)).split()[1])


# The table ------------------------------------------------------------------------------------------------------


Row = dict[str, str]
WIDTHS = {
    "workload": 37,
    "layout": 14,
    "method": 23,
    "time_ratio": 11,
    "train_mode_ratio": 17,
    "loop_ratio": 11,
    "memory_ratio": 13,
    "seconds": 10,
    "mebibytes": 10,
    "max_relative_error": 19,
    "note": 0,
}


def measured(name: str, layout: str, methods: Iterable[str], *, with_memory: bool) -> list[Row]:
    """The rows of one workload in one layout."""
    workload = WORKLOADS[name]
    _, batch = ready(workload, layout)
    found = {plain: Checked(action, math.nan, "") for plain, action in plain_passes(workload, layout).items()}
    tried = [method for method in methods if workload.methods is None or method in workload.methods]
    found |= {method: checked(METHODS[method], workload, layout) for method in tried}
    actions = {method: each.action for method, each in found.items() if each.action}
    taken = median_seconds(actions, batch)
    peaks = {
        method: peak_mebibytes(name, layout, method, is_adapted=found[method].is_adapted)
        for method in (actions if with_memory else ())
    }
    return [
        {"workload": workload.title, "layout": layout, "method": method, **numbers(method, each, taken, peaks)}
        for method, each in found.items()
    ]


def numbers(method: str, found: Checked, taken: dict[str, float], peaks: dict[str, float]) -> Row:
    """A method's part of its row, as text; what was not measured is empty."""
    time_taken, peak = taken.get(method, math.nan), peaks.get(method, math.nan)
    plain_peak = peaks.get(PLAIN, math.nan)
    return {
        "time_ratio": text(time_taken / taken[PLAIN], ".2f"),
        "train_mode_ratio": text(time_taken / taken.get(PLAIN_TRAIN_MODE, math.nan), ".2f"),
        "loop_ratio": text(time_taken / taken.get(ONE_AT_A_TIME, math.nan), ".2f"),
        "memory_ratio": text(peak / plain_peak if plain_peak > SMALLEST_PEAK else math.nan, ".2f"),
        "seconds": text(time_taken, ".3g"),
        "mebibytes": text(peak, ".1f"),
        "max_relative_error": text(found.error, ".0e"),
        "note": found.note,
        "threads": str(torch.get_num_threads()),
        "torch": torch.__version__,
        **machine(),
    }


def machine() -> Row:
    """What it was measured on."""
    facts = origin.facts()
    return {"machine": f"{facts['machine']}, {facts['cpus']} cores", "transformers": version_of("transformers")}


def version_of(package: str) -> str:
    """Nothing where it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def text(number: float, form: str) -> str:
    """A number in its form, nothing for nan."""
    return "" if math.isnan(number) else format(number, form)


def line(values: Row) -> str:
    """A row, aligned."""
    return "".join(f"{values[column]:<{width}}" for column, width in WIDTHS.items()).rstrip()


def save(rows: list[Row]) -> None:
    """Write the rows; those of workloads that were not measured now stay as they are."""

    def key(row: Row) -> tuple[str, ...]:
        return row["workload"], row["layout"], row["method"]

    kept: list[Row] = []
    if RESULTS.exists():
        with RESULTS.open(newline="") as file:
            kept = [row for row in csv.DictReader(file) if key(row) not in {key(new) for new in rows}]
    titles = [workload.title for workload in WORKLOADS.values()]
    methods = [PLAIN, PLAIN_TRAIN_MODE, *METHODS]
    every = [row for row in kept + rows if row["workload"] in titles and row["method"] in methods]
    every.sort(
        key=lambda row: (
            titles.index(row["workload"]),
            row["layout"] != "contiguous",
            methods.index(row["method"]),
        )
    )
    RESULTS.parent.mkdir(exist_ok=True)
    with RESULTS.open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(every)


def arguments() -> argparse.Namespace:
    """What to measure: everything unless told."""
    parser = argparse.ArgumentParser(description="The cost of exact per-example gradient norms.")
    parser.add_argument("--workload", nargs="+", choices=list(WORKLOADS), default=list(WORKLOADS))
    parser.add_argument("--method", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--no-memory", action="store_true", help="measure time only")
    return parser.parse_args()


def main() -> None:
    """Measure, print and save after each workload."""
    chosen = arguments()
    print(f"exact gradient norms as multiples of a plain forward and backward pass, {THREADS} threads\n")
    print(line({column: column for column in WIDTHS}))
    for name in chosen.workload:
        for layout in WORKLOADS[name].layouts:
            rows = measured(name, layout, chosen.method, with_memory=not chosen.no_memory)
            print("\n".join(map(line, rows)), flush=True)
            save(rows)
    print(f"\nwritten to {RESULTS.relative_to(Path.cwd()) if RESULTS.is_relative_to(Path.cwd()) else RESULTS}")


if __name__ == "__main__":
    torch.set_num_threads(THREADS)
    warnings.simplefilter("ignore")  # the peers' hooks make torch warn at every pass
    if sys.argv[1:2] == ["--peak"]:
        print_peak(*sys.argv[2:])
    else:
        main()
