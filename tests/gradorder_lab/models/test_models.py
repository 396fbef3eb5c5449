import pytest
import torch
from decoder import DecoderLanguageModel
from unet import UNet

from gradorder_lab import models

TOKENS = torch.arange(6).reshape(2, 3)


def num_parameters(model):
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize(
    ("model", "inputs", "shape"),
    [
        (models.mlp(), torch.randn(2, 1, 28, 28), (2, 10)),
        (models.mlp(13, 4, classes=1), torch.randn(2, 13), (2, 1)),
        (models.BagOfWords(), TOKENS, (2, 2)),
        (models.strided_conv_net(3, 16, 7, width=4), torch.randn(2, 3, 16, 16), (2, 7)),
        (models.conv_net(), torch.randn(2, 1, 28, 28), (2, 10)),
        (models.conv_net(channels=3, size=32, classes=7), torch.randn(2, 3, 32, 32), (2, 7)),
        (models.resnet20(), torch.randn(2, 3, 32, 32), (2, 10)),
        (models.resnet18(width=8), torch.randn(2, 3, 32, 32), (2, 100)),
        (models.TransformerClassifier(width=16, depth=2, feedforward=32), TOKENS, (2, 10)),
        (DecoderLanguageModel(vocabulary=50, width=16, feedforward=32), TOKENS, (2, 3, 50)),
        (models.RecurrentClassifier(inputs=5), torch.randn(2, 7, 5), (2, 10)),
        (UNet(channels=3, classes=4, width=8), torch.randn(2, 3, 16, 24), (2, 4, 16, 24)),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, torch.nn.Module) else "",
)
def test_shapes_and_every_parameter_is_used(model, inputs, shape):
    outputs = model(inputs)
    assert outputs.shape == shape
    outputs.square().sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_the_residual_networks_have_their_known_size():
    """He et al. give 0.27M; 11.2M is the usual number for 100 classes."""
    assert num_parameters(models.resnet20()) == 269_722
    assert num_parameters(models.resnet18()) == 11_220_132


def test_the_paper_s_network_has_seven_layers():
    layers = [m for m in models.conv_net().modules() if isinstance(m, torch.nn.Conv2d | torch.nn.Linear)]
    assert [type(layer).__name__ for layer in layers] == ["Conv2d"] * 4 + ["Linear"] * 3


def test_a_shortcut_without_parameters_keeps_pixels_and_adds_zeros():
    images = torch.randn(2, 4, 6, 6)
    shorter = models.resnet.Subsample(4, 8, 2)(images)
    assert torch.equal(shorter[:, 2:6], images[:, :, ::2, ::2])
    assert not shorter[:, :2].any()
    assert not shorter[:, 6:].any()


def test_tied_weights_are_tied():
    model = DecoderLanguageModel(vocabulary=50, width=16, feedforward=32)
    assert model.head.weight is model.embedding.weight
    assert "head.weight" not in dict(model.named_parameters())


def test_a_decoder_does_not_see_the_future():
    model = DecoderLanguageModel(vocabulary=50, width=16, feedforward=32)
    tokens = torch.tensor([[3, 1, 4, 1, 5]])
    changed = torch.tensor([[3, 1, 4, 9, 2]])
    first, second = model(tokens), model(changed)
    torch.testing.assert_close(first[:, :3], second[:, :3])
    assert not torch.allclose(first[:, 3], second[:, 3])


def test_sizes_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="size must be a multiple of 4"):
        models.conv_net(size=30)
    with pytest.raises(ValueError, match="width must be a multiple of heads"):
        DecoderLanguageModel(width=10, heads=4)
