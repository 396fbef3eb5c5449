"""What a report says of data whose wrong labels are known, as a table, in words and as a page."""

import base64
import io
import math
import re
import sys
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from torch import nn
from torch.nn import functional as F
from torch.utils.data import TensorDataset

import gradorder as go
from gradorder.diagnostics.page import thumbnail

SIZE, CLASSES, WRONG = 300, 3, 30


class Points(TensorDataset):
    """Three clouds of points; the first few have the label of another one."""

    def __init__(self):
        generator = torch.Generator().manual_seed(0)
        true = torch.arange(SIZE) % CLASSES
        centres = torch.eye(CLASSES)[true] * 6
        self.targets = torch.where(torch.arange(SIZE) < WRONG, (true + 1) % CLASSES, true)
        super().__init__(centres + torch.randn(SIZE, CLASSES, generator=generator), self.targets)


def trained(data, epochs=6):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(CLASSES, 32), nn.ReLU(), nn.Linear(32, CLASSES))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    sampler = go.OrderedSampler(data, 20, ordering=go.Shuffled())
    sampler.record_history()
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for inputs, targets in sampler.loader():
            logits = model(inputs)
            losses = F.cross_entropy(logits, targets, reduction="none")
            optimizer.zero_grad()
            losses.mean().backward()
            optimizer.step()
            sampler.step(losses.detach(), margins=go.margins(logits, targets))
    return sampler


def test_wrong_labels_are_suspected_and_others_are_not():
    report = go.data_report(trained(Points()))
    suspects = report.suspects
    num_found = int((suspects < WRONG).sum())
    assert num_found / len(suspects) > 0.9
    assert num_found / WRONG > 0.9
    assert (report.history.mean_loss[suspects] > math.log(CLASSES)).all()
    area = report.history.area_under_margin
    assert area[:WRONG].median() < 0 < area[WRONG:].median()


def told(losses, **settings):
    """A report on a sampler that was told these losses, one row for each epoch."""
    sampler = go.OrderedSampler(len(losses[0]), 2, ordering=go.Shuffled())
    sampler.record_history()
    for epoch, row in enumerate(losses):
        sampler.set_epoch(epoch)
        for examples in sampler.loader():
            sampler.step(torch.tensor(row)[examples])
    return go.data_report(sampler, **{"labels": [0, 1] * 3, **settings})


LOSSES = [[0.1, 2.0, 0.9, 5.0, 0.2, 0.8], [0.1, 2.0, 0.5, 0.1, 0.9, 0.7], [0.1, 2.0, 0.9, 0.1, 0.9, 0.6]]


def test_every_kind_in_its_order():
    report = told(LOSSES)
    assert report.suspects.tolist() == [1, 3, 2, 5]  # means of 2, 1.73, 0.77 and 0.7, above ln 2
    assert report.never_learned.tolist() == [1]
    assert report.learned_first.tolist() == [0, 4, 2, 3, 5]
    assert report.history.times_forgotten.tolist() == [0, 0, 1, 0, 1, 0]
    assert told(LOSSES, suspect_above=1.8).suspects.tolist() == [1]


def test_as_a_table(monkeypatch):
    report = told(LOSSES)
    table = report.to_pandas()
    assert isinstance(table, pd.DataFrame)
    assert table["is_suspect"].tolist() == [False, True, True, True, False, True]
    assert table["first_learned"].tolist() == [0, -1, 1, 1, 0, 2]
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="needs pandas"):
        report.to_pandas()
    assert report.columns()["mean_loss"].shape == (6,)


def test_in_words():
    said = str(told(LOSSES))
    assert [part in said for part in ("6 of 6", "4 (1, 3, 2, 5)", "1 (1)", "5 (0, 4, 2, 3, 5)")] == [True] * 4


def test_what_was_never_trained_on_is_of_no_kind():
    sampler = go.OrderedSampler(4, 2, ordering=go.Sequential())
    sampler.record_history()
    next(iter(sampler))
    sampler.step(torch.tensor([0.1, 3.0]))
    report = go.data_report(sampler, labels=[0, 1, 0, 1])
    assert (report.suspects.tolist(), report.never_learned.tolist(), report.learned_first.tolist()) == ([1], [1], [0])
    assert "2 of 4" in str(report)


def test_what_is_missing_is_said():
    sampler = go.OrderedSampler(4, ordering=go.Shuffled())
    with pytest.raises(ValueError, match=r"record_history"):
        go.data_report(sampler)
    sampler.record_history()
    with pytest.raises(ValueError, match=r"dataset.*3"):
        go.data_report(sampler, [1, 2, 3])
    with pytest.raises(ValueError, match=r"suspect_above.*-1"):
        go.data_report(sampler, suspect_above=-1)
    with pytest.raises(ValueError, match="labels"):
        go.data_report(sampler)
    with pytest.raises(ValueError, match=r"suspect_above"):
        go.data_report(sampler, labels=[3, 3, 3, 3])
    for labels in ([0, 1, 0], False):
        with pytest.raises(ValueError, match=r"labels.*4"):
            go.data_report(sampler, labels=labels, suspect_above=1.0)
    assert len(go.data_report(sampler, labels=[3, 3, 3, 3], suspect_above=1.0).suspects) == 0


# ------------------------------------------------------------------------------------------------ the page


class Addresses(HTMLParser):
    """Every address and every tag of a page."""

    def __init__(self):
        super().__init__()
        self.addresses, self.tags, self.open = [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.addresses += [value for name, value in attrs if name in {"src", "href"}]
        if tag not in {"meta", "img"}:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def pictures(shape=(1, 8, 6)):
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(256, (6, *shape), generator=generator, dtype=torch.uint8)
    return [(image, f"<{number}>") for number, image in enumerate(images)]


def test_a_page_of_thumbnails_that_fetches_nothing(tmp_path):
    data = pictures()
    told(LOSSES, dataset=data, labels=None, suspect_above=0.5).write_page(tmp_path / "page.html", at_most=3)
    text = (tmp_path / "page.html").read_text()
    parser = Addresses()
    parser.feed(text)
    assert not parser.open
    assert len(parser.addresses) == 3 + 1 + 3
    assert all(address.startswith("data:image/png;base64,") for address in parser.addresses)
    assert not re.search(r"https?:|@import|url\(|<script", text)
    assert "<dd>&lt;1&gt;</dd>" in text  # a label is text
    first = Image.open(io.BytesIO(base64.b64decode(parser.addresses[0].split(",")[1])))
    np.testing.assert_array_equal(np.asarray(first), data[1][0][0].numpy())


def shown_labels(report, path):
    """By the example's number, of all examples on the page."""
    report.write_page(path)
    shown = re.findall(r"<dt>example</dt><dd>(\d+)</dd><dt>label</dt><dd>(.*?)</dd>", path.read_text())
    return {int(example): label for example, label in shown}


@pytest.mark.parametrize(
    "labels",
    [
        pd.Series([7, 8, 9, 7, 8, 9], index=[5, 4, 3, 2, 1, 0]),
        pd.Series([7, 8, 9, 7, 8, 9], index=list("abcdef")),
        torch.tensor([7, 8, 9, 7, 8, 9]),
        [7, 8, 9, 7, 8, 9],
    ],
    ids=["index backwards", "index of text", "tensor", "list"],
)
def test_a_label_belongs_to_the_example_at_its_place(labels, tmp_path):
    expected = dict(enumerate("789789"))
    for bound in (None, 0.5):
        report = told(LOSSES, dataset=pictures(), labels=labels, suspect_above=bound)
        assert shown_labels(report, tmp_path / "page.html") == expected


def test_the_datasets_own_labels_may_be_asked_for(tmp_path):
    data = list(zip(torch.zeros(6, 1, 4, 4), torch.arange(6) % 2, strict=True))

    class WithTargets(list):
        targets = torch.arange(6) % 2

    report = told(LOSSES, dataset=WithTargets(data), labels=True)
    assert report.suspects.tolist() == told(LOSSES).suspects.tolist()
    assert shown_labels(report, tmp_path / "page.html") == dict(enumerate("010101"))


def read(example):
    """The pixels of a thumbnail."""
    kind, data = thumbnail(example).split(",")
    assert kind == "data:image/png;base64"
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(data))))


@pytest.mark.parametrize("shape", [(3, 5, 7), (1, 5, 7), (5, 7, 3), (5, 7)])
def test_a_thumbnail_has_the_pixels_of_the_image(shape):
    image = torch.randint(256, shape, dtype=torch.uint8).numpy()
    expected = image.transpose(1, 2, 0) if shape[0] == 3 else image.reshape(5, 7, -1)
    np.testing.assert_array_equal(read(image).reshape(expected.shape), expected)


def test_normalised_images_are_stretched():
    pixels = read((torch.linspace(-2, 3, 35).reshape(1, 5, 7), 4))
    assert (pixels[0, 0], pixels[-1, -1]) == (0, 255)
    assert read(torch.ones(1, 2, 2)).tolist() == [[0, 0], [0, 0]]  # one colour


def test_pillow_images_keep_their_colours_and_large_ones_shrink():
    red = Image.new("RGB", (4, 2), (255, 0, 0))
    for image in (red, red.convert("P"), red.convert("RGBA")):
        assert read((image, 0))[1, 3].tolist() == [255, 0, 0]
    assert read(Image.new("L", (1000, 500))).shape[:2] == (128, 256)


@pytest.mark.parametrize("example", [torch.zeros(4), (torch.zeros(2, 5, 5), 1), "text"])
def test_other_data_is_refused(example):
    with pytest.raises(TypeError, match="dataset must hold images"):
        thumbnail(example)


def test_without_pillow_the_page_says_so_and_shows_the_rest(tmp_path, monkeypatch):
    report = told(LOSSES, dataset=pictures(), labels=list("ababab"))
    report.write_page(tmp_path / "with.html")
    monkeypatch.setitem(sys.modules, "PIL", None)
    report.write_page(tmp_path / "without.html")
    with_images, without = ((tmp_path / name).read_text() for name in ("with.html", "without.html"))
    assert ("<img" in with_images, "Pillow" in with_images) == (True, False)
    assert ("<img" in without, without.count("Pillow")) == (False, 1)
    assert re.findall(r"<dt>.*?</dd>", without) == re.findall(r"<dt>.*?</dd>", with_images)
