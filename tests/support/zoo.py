"""Architectures of every kind, each tiny: a model, a batch of any size, and one loss per example.

Those of `transformers` are built from their configurations, nothing is downloaded. Sentences are padded at the end to
the longest, and what does not count for the loss has the label -100. Every batch of sentences is seven long, so that
a batch of seven has as many examples as positions.
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from decoder import DecoderLanguageModel
from torch import nn
from torch.nn import functional as F
from unet import UNet

import gradorder as go
from gradorder_lab import models

LENGTH = 7
NUM_TOKENS = 50
NUM_CLASSES = 5
PADDING, FIRST_WORD = 0, 3
IGNORED = -100


@dataclass(frozen=True)
class Architecture:
    build: Callable[[], nn.Module]
    """The model in eval mode, always the same."""
    batch: Callable[[int], Any]
    losses: Callable[[nn.Module, Any], torch.Tensor] = go.cross_entropy
    """The mean over an example's own targets."""
    is_mixing: bool = False
    """Whether an example's loss depends on the others: it has no gradient of its own then."""


# Batches ----------------------------------------------------------------------------------------------------------


def sentences(size):
    """Words and which of them are there; every third example fills the whole length."""
    words = torch.randint(FIRST_WORD, NUM_TOKENS, (size, LENGTH))
    lengths = LENGTH - 2 * (torch.arange(size) % 3)
    is_there = torch.arange(LENGTH) < lengths[:, None]
    return {"input_ids": words.where(is_there, PADDING), "attention_mask": is_there.long()}


def classified(size):
    return sentences(size) | {"labels": torch.arange(size) % NUM_CLASSES}


def continued(size):
    """Each word is to be guessed from those before it; of an even example only the second half counts."""
    batch = sentences(size)
    labels = batch["input_ids"].where(batch["attention_mask"] == 1, IGNORED)
    labels[::2, : LENGTH // 2] = IGNORED
    return batch | {"labels": labels}


def masked(size):
    """Some words are to be guessed; of the first two examples none, where others follow."""
    batch = sentences(size)
    is_hidden = (torch.arange(LENGTH) + torch.arange(size)[:, None]) % 3 == 0
    if size > 2:
        is_hidden[:2] = False
    return batch | {"labels": batch["input_ids"].where(is_hidden & (batch["attention_mask"] == 1), IGNORED)}


def translated(size):
    """A sentence and another one that is to be guessed from it."""
    answers = continued(size)
    return sentences(size) | {"decoder_input_ids": answers["input_ids"], "labels": answers["labels"]}


def images(size, side=32):
    return {"pixel_values": torch.randn(size, 3, side, side), "labels": torch.arange(size) % NUM_CLASSES}


def painted(size, side=32, shrunk=4):
    """Images with a class for each place of a smaller one, some of them unknown."""
    labels = torch.randint(NUM_CLASSES, (size, side // shrunk, side // shrunk))
    labels[:, 0] = IGNORED
    return {"pixel_values": torch.randn(size, 3, side, side), "labels": labels}


def captioned(size):
    return sentences(size) | {"pixel_values": torch.randn(size, 3, 32, 32)}


def sounds(size):
    return {"input_values": torch.randn(size, 200), "labels": torch.arange(size) % NUM_CLASSES}


def padded_sounds(size):
    is_there = torch.arange(200) < 200 - 40 * (torch.arange(size) % 3)[:, None]
    return sounds(size) | {"attention_mask": is_there.long()}


def spectrograms(name, *shape):
    return lambda size: {name: torch.randn(size, *shape), "labels": torch.arange(size) % NUM_CLASSES}


def vectors(*shape):
    return lambda size: (torch.randn(size, *shape), torch.arange(size) % NUM_CLASSES)


# Losses -----------------------------------------------------------------------------------------------------------


def outputs(model, batch):
    return model(**{name: part for name, part in batch.items() if name != "labels"})


def class_losses(model, batch):
    return F.cross_entropy(outputs(model, batch).logits, batch["labels"], reduction="none")


def mean_over_targets(logits, labels):
    """Logits (B, ..., classes) and labels (B, ...)."""
    losses = F.cross_entropy(logits.movedim(-1, 1), labels, reduction="none", ignore_index=IGNORED)
    return losses.flatten(1).sum(1) / (labels != IGNORED).flatten(1).sum(1).clamp(min=1)


def word_losses(model, batch):
    return mean_over_targets(outputs(model, batch).logits, batch["labels"])


def next_word_losses(model, batch):
    return mean_over_targets(outputs(model, batch).logits[:, :-1], batch["labels"][:, 1:])


def place_losses(model, batch):
    return mean_over_targets(outputs(model, batch).logits.movedim(1, -1), batch["labels"])


def box_losses(model, batch):
    """Each query is to say the image's class and the middle of the image."""
    found = outputs(model, batch)
    labels = batch["labels"][:, None].expand(found.logits.shape[:2])
    return mean_over_targets(found.logits, labels) + (found.pred_boxes - 0.5).abs().mean((1, 2))


def contrastive_losses(model, batch):
    """Each image among all captions of the batch: the examples mix."""
    logits = model(**batch).logits_per_image
    return F.cross_entropy(logits, torch.arange(len(logits)), reduction="none")


# Models of `transformers` -----------------------------------------------------------------------------------------


def built(auto_class, model_type, settings):
    transformers = importlib.import_module("transformers")  # takes seconds: not before it is needed
    transformers.logging.set_verbosity_error()  # advice for users of real models
    given = {name: value for name, value in settings.items() if value is not None}
    config = transformers.AutoConfig.for_model(model_type, **given)
    torch.manual_seed(0)
    return getattr(transformers, auto_class).from_config(config).eval()


def family(title, auto_class, batch, losses, common, special, *, is_mixing=False):
    """One architecture for each model type; what is special about a type's configuration comes on top."""
    return {
        f"{model_type}, {title}": Architecture(
            partial(built, auto_class, model_type, common | settings), batch, losses, is_mixing
        )
        for model_type, settings in special.items()
    }


def own_names(settings):
    """For a configuration that does not take the common names."""
    return dict.fromkeys(WORDS, None) | settings


def ordinary(model_types):
    return {model_type: {} for model_type in model_types.split()}


WIDTH = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
WORDS = {
    **WIDTH,
    "vocab_size": NUM_TOKENS,
    "max_position_embeddings": 32,
    "pad_token_id": PADDING,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
LABELLED = {"num_labels": NUM_CLASSES}
FOUR_STAGES = {"hidden_sizes": [8, 8, 16, 16], "depths": [1, 1, 1, 1]}
FOUR_STAGES_OF_ATTENTION = FOUR_STAGES | {"num_attention_heads": [1, 1, 2, 2]}
WINDOWS = {"patch_size": 4, "embed_dim": 8, "depths": [2, 1], "num_heads": [2, 2], "window_size": 4}
EXPERTS = {"num_experts": 4, "num_local_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 8}
SELECTIVE = {"state_size": 4, "expand": 2, "conv_kernel": 4}

CAUSAL = family(
    "next word", "AutoModelForCausalLM", continued, next_word_losses, WORDS | {"num_key_value_heads": 1},
    ordinary("biogpt bloom cohere gpt2 gpt_bigcode gpt_neox granite llama mistral mpt nemotron")
    | ordinary("olmo olmo2 openai-gpt persimmon phi phi3 qwen2 smollm3 stablelm starcoder2")
    | {
        "codegen": {"num_attention_heads": 4, "rotary_dim": 4},
        "ctrl": {"dff": 24},
        "falcon": {"new_decoder_architecture": True},
        "falcon_mamba": SELECTIVE,
        "gemma": {"head_dim": 8},
        "gemma2": {"head_dim": 8},
        "gemma3_text": {"head_dim": 8},
        "glm": {"head_dim": 8},
        "gpt_neo": {"attention_types": [[["global", "local"], 1]], "window_size": 4, "num_layers": 2},
        "gpt_oss": EXPERTS | {"head_dim": 8},
        "gptj": {"rotary_dim": 4},
        "granitemoe": EXPERTS,
        "lfm2": {"layer_types": ["conv", "full_attention"]},
        "mamba": SELECTIVE,
        "mamba2": SELECTIVE | {"num_heads": 4, "head_dim": 8, "n_groups": 1, "chunk_size": 4},
        "mixtral": EXPERTS,
        "olmoe": EXPERTS,
        "opt": {"ffn_dim": 24, "word_embed_proj_dim": 8},
        "qwen2_moe": EXPERTS | {"shared_expert_intermediate_size": 8},
        "qwen3": {"head_dim": 8},
        "qwen3_moe": EXPERTS | {"head_dim": 8},
        "recurrent_gemma": {"block_types": ["recurrent", "attention"]},
        "xglm": {"ffn_dim": 24, "d_model": 16, "num_layers": 2},
    },
)  # fmt: skip

MASKED = family(
    "masked word", "AutoModelForMaskedLM", masked, word_losses, WORDS,
    ordinary("bert big_bird camembert deberta deberta-v2 ernie flaubert fnet ibert megatron-bert modernbert mpnet")
    | ordinary("nystromformer roberta roberta-prelayernorm roformer xlm yoso")
    | {
        "albert": {"embedding_size": 8},
        "convbert": {"embedding_size": 16, "conv_kernel_size": 3},
        "distilbert": {"hidden_dim": 24, "dim": 16, "n_layers": 2, "n_heads": 2},
        "electra": {"embedding_size": 8},
        "esm": {"mask_token_id": 4},
        "layoutlm": {"max_2d_position_embeddings": 16},
        "longformer": {"attention_window": 4},
        "mobilebert": {
            "embedding_size": 16, "true_hidden_size": 16, "intra_bottleneck_size": 16, "num_feedforward_networks": 1,
        },
        "rembert": {"input_embedding_size": 8, "output_embedding_size": 16},
        "squeezebert": {"embedding_size": 16},
    },
)  # fmt: skip

CLASSIFIED = family(
    "class of a sentence", "AutoModelForSequenceClassification", classified, class_losses, WORDS | LABELLED,
    ordinary("bert gpt2 llama roberta")
    | {
        "canine": {"num_hash_functions": 2, "num_hash_buckets": 20, "local_transformer_stride": 4,
                   "downsampling_rate": 2, "upsampling_kernel_size": 2, "type_vocab_size": 2},
        "funnel": own_names({"vocab_size": NUM_TOKENS, "block_sizes": [1, 1], "d_model": 16, "n_head": 2,
                             "d_head": 8, "d_inner": 24}),
        "xlnet": own_names({"vocab_size": NUM_TOKENS, "d_model": 16, "n_layer": 2, "n_head": 2, "d_inner": 24}),
    },
)  # fmt: skip

TWO_SIDES = {
    **WORDS,
    "d_model": 16,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 24,
    "decoder_start_token_id": 2,
}
T5 = {"d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 1, "num_decoder_layers": 1, "num_heads": 2}
TRANSLATED = family(
    "translation", "AutoModelForSeq2SeqLM", translated, word_losses, TWO_SIDES,
    ordinary("bart bigbird_pegasus blenderbot blenderbot-small m2m_100 marian mbart mvp pegasus plbart")
    | {
        "led": {"attention_window": 4, "max_encoder_position_embeddings": 32, "max_decoder_position_embeddings": 32},
        "longt5": T5 | {"local_radius": 3},
        "mt5": T5,
        "switch_transformers": T5 | {"num_experts": 2, "expert_capacity": 16, "num_sparse_encoder_layers": 1,
                                     "num_sparse_decoder_layers": 1},
        "t5": T5,
        "umt5": T5,
    },
)  # fmt: skip

PATCHES = WIDTH | LABELLED | {"image_size": 32, "patch_size": 8}
VISION = family(
    "class of an image", "AutoModelForImageClassification", images, class_losses, LABELLED | {"image_size": 32},
    {
        "beit": PATCHES,
        "bit": FOUR_STAGES | {"embedding_size": 8, "num_groups": 2},
        "convnext": FOUR_STAGES | {"patch_size": 2},
        "convnextv2": FOUR_STAGES | {"patch_size": 2},
        "data2vec-vision": PATCHES | {"use_relative_position_bias": True},
        "dinov2": PATCHES,
        "dinov2_with_registers": PATCHES,
        "focalnet": {"embed_dim": 8, "depths": [1, 1], "hidden_sizes": [8, 16], "focal_levels": [1, 1],
                     "focal_windows": [3, 3]},
        "hiera": {"image_size": [32, 32], "embed_dim": 8, "depths": [1, 1], "num_heads": [1, 2],
                  "query_stride": [2, 2], "masked_unit_size": [4, 4], "num_query_pool": 1},
        "mobilenet_v1": {"depth_multiplier": 0.05},
        "mobilenet_v2": {"depth_multiplier": 0.1},
        "mobilevit": {"hidden_sizes": [8, 8, 8], "neck_hidden_sizes": [4, 4, 4, 4, 4, 4, 16],
                      "num_attention_heads": 2},
        "poolformer": FOUR_STAGES,
        "pvt": FOUR_STAGES_OF_ATTENTION | {"sequence_reduction_ratios": [2, 2, 1, 1]},
        "pvt_v2": FOUR_STAGES_OF_ATTENTION | {"sr_ratios": [2, 2, 1, 1]},
        "regnet": FOUR_STAGES | {"embedding_size": 8, "groups_width": 4},
        "resnet": FOUR_STAGES | {"embedding_size": 8},
        "segformer": FOUR_STAGES_OF_ATTENTION,
        "siglip": {"vision_config": PATCHES, "text_config": WORDS},
        "swiftformer": {"depths": [1, 1, 1, 1], "embed_dims": [8, 8, 8, 8]},
        "swin": WINDOWS,
        "swinv2": WINDOWS,
        "vit": PATCHES,
        "vit_msn": PATCHES,
    },
)  # fmt: skip
DENSE = family(
    "class of each place", "AutoModelForSemanticSegmentation", painted, place_losses, LABELLED,
    {"segformer": FOUR_STAGES_OF_ATTENTION | {"decoder_hidden_size": 16}},
)  # fmt: skip
DETECTION = family(
    "objects", "AutoModelForObjectDetection", images, box_losses, LABELLED,
    {
        "yolos": PATCHES | {"image_size": [32, 32], "num_detection_tokens": 3},
        "detr": TWO_SIDES | {"num_hidden_layers": None, "hidden_size": None, "num_attention_heads": None,
                 "num_queries": 3, "use_timm_backbone": False, "use_pretrained_backbone": False, "backbone": None,
                 "backbone_config": FOUR_STAGES | {"model_type": "resnet", "embedding_size": 8,
                                                   "out_features": ["stage4"]}},
    },
)  # fmt: skip
CONTRASTIVE = family(
    "images among captions", "AutoModelForZeroShotImageClassification", captioned, contrastive_losses, {},
    {"clip": {"vision_config": PATCHES, "text_config": WORDS, "projection_dim": 8}}, is_mixing=True,
)  # fmt: skip

WAVES = {
    **WIDTH,
    **LABELLED,
    "conv_dim": (8, 8),
    "conv_stride": (4, 2),
    "conv_kernel": (8, 4),
    "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 4,
    "num_conv_pos_embedding_groups": 2,
    "classifier_proj_size": 8,
}
SOUND = family(
    "class of a sound", "AutoModelForAudioClassification", padded_sounds, class_losses, WAVES,
    ordinary("hubert unispeech wav2vec2 wavlm"),
)  # fmt: skip
SPECTRA = family(
    "class of a spectrogram", "AutoModelForAudioClassification",
    spectrograms("input_values", 32, 16), class_losses, WIDTH | LABELLED,
    {"audio-spectrogram-transformer": {"patch_size": 8, "num_mel_bins": 16, "max_length": 32,
                                       "frequency_stride": 8, "time_stride": 8}},
) | family(
    "class of a spectrogram", "AutoModelForAudioClassification",
    spectrograms("input_features", 8, 32), class_losses, TWO_SIDES | LABELLED,
    {"whisper": {"num_mel_bins": 8, "max_source_positions": 16, "max_target_positions": 16}},
)  # fmt: skip

# Models of our own ------------------------------------------------------------------------------------------------


def own(make):
    """Always the same."""
    torch.manual_seed(0)
    return make().eval()


class LastStep(nn.Module):
    """A recurrent layer, read off the last step."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer
        self.head = nn.Linear((1 + layer.bidirectional) * layer.hidden_size, NUM_CLASSES)

    def forward(self, sequences):
        return self.head(self.layer(sequences)[0][:, -1])


class TimeFirst(nn.Module):
    """The same with the steps in front, inside."""

    def __init__(self):
        super().__init__()
        self.body, self.head = nn.LSTM(3, 6), nn.Linear(6, NUM_CLASSES)

    def forward(self, sequences):
        return self.head(self.body(sequences.transpose(0, 1))[0]).mean(0)


class Inverted(nn.Module):
    """A block of MobileNetV2: wider, by channel, narrower."""

    def __init__(self, width, expansion=2):
        super().__init__()
        inner = width * expansion
        self.body = nn.Sequential(
            nn.Conv2d(width, inner, 1, bias=False),
            nn.BatchNorm2d(inner),
            nn.ReLU6(inplace=True),
            nn.Conv2d(inner, inner, 3, padding=1, groups=inner, bias=False),
            nn.BatchNorm2d(inner),
            nn.ReLU6(inplace=True),
            nn.Conv2d(inner, width, 1, bias=False),
            nn.BatchNorm2d(width),
        )

    def forward(self, images):
        return images + self.body(images)


def inverted_residuals():
    pooled = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, NUM_CLASSES)
    return nn.Sequential(nn.Conv2d(3, 8, 3, stride=2), Inverted(8), Inverted(8), *pooled)


def transformer():
    return models.TransformerClassifier(NUM_TOKENS, NUM_CLASSES, width=16, depth=2, heads=2, length=8, feedforward=24)


def decoder_losses(model, words):
    return F.cross_entropy(model(words[:, :-1]).mT, words[:, 1:], reduction="none").mean(1)


def words_and_classes(size):
    return torch.randint(NUM_TOKENS, (size, LENGTH)), torch.arange(size) % NUM_CLASSES


def pixels(size):
    return torch.randn(size, 1, 16, 16), torch.randint(2, (size, 16, 16))


OWN = {
    "MLP": Architecture(partial(own, lambda: models.mlp(16, 8)), vectors(1, 4, 4)),
    "7-layer conv net": Architecture(partial(own, models.conv_net), vectors(1, 28, 28)),
    "ResNet-20": Architecture(partial(own, lambda: models.resnet20(width=4)), vectors(3, 16, 16)),
    "ResNet-18": Architecture(partial(own, lambda: models.resnet18(5, width=4)), vectors(3, 16, 16)),
    "inverted residuals": Architecture(partial(own, inverted_residuals), vectors(3, 8, 8)),
    "U-Net": Architecture(partial(own, lambda: UNet(width=4)), pixels),
    "transformer encoder": Architecture(partial(own, transformer), words_and_classes),
    "transformer decoder, tied": Architecture(
        partial(own, lambda: DecoderLanguageModel(NUM_TOKENS)),
        lambda size: torch.randint(NUM_TOKENS, (size, LENGTH)),
        decoder_losses,
    ),
    "LSTM": Architecture(partial(own, lambda: LastStep(nn.LSTM(3, 6, batch_first=True))), vectors(LENGTH, 3)),
    "LSTM, two layers, both directions": Architecture(
        partial(own, lambda: LastStep(nn.LSTM(3, 6, num_layers=2, bidirectional=True, batch_first=True))),
        vectors(LENGTH, 3),
    ),
    "GRU": Architecture(partial(own, lambda: LastStep(nn.GRU(3, 6, batch_first=True))), vectors(LENGTH, 3)),
    "plain recurrent layer": Architecture(
        partial(own, lambda: LastStep(nn.RNN(3, 6, batch_first=True))), vectors(LENGTH, 3)
    ),
    "LSTM, time first": Architecture(partial(own, TimeFirst), vectors(LENGTH, 3)),
}

LANGUAGE = CAUSAL | MASKED
OTHERS = CLASSIFIED | TRANSLATED | VISION | DENSE | DETECTION | CONTRASTIVE | SOUND | SPECTRA | OWN
ARCHITECTURES = LANGUAGE | OTHERS
