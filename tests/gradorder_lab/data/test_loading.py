import hashlib
import socket
import subprocess
import sys
import threading
from collections import Counter
from dataclasses import replace
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import torch

from gradorder_lab.data import SOURCES, load, loading
from gradorder_lab.data.download import Remote
from gradorder_lab.errors import DatasetError, DatasetNotFoundError

NAMES = [f"{split}-{kind}-ubyte.gz" for split in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")]


def assert_same(datasets, splits):
    for dataset, split in zip(datasets, splits, strict=True):
        assert torch.equal(dataset.images, split.images)
        assert torch.equal(dataset.labels, split.labels)


@pytest.mark.parametrize("size", ["paper", "cpu"])
def test_from_the_data_directory(idx_dir, idx_splits, small_mnist, size):
    assert_same(load("mnist", data_dir=idx_dir, size=size, download=False), idx_splits)
    assert_same(load("mnist", data_dir=str(idx_dir), size=size, download=False), idx_splits)


def test_from_the_environment(idx_dir, idx_splits, small_mnist, monkeypatch):
    monkeypatch.setenv("GRADORDER_DATA", str(idx_dir))
    assert_same(load("mnist", download=False), idx_splits)


def test_argument_goes_before_environment(idx_dir, idx_splits, small_mnist, monkeypatch, tmp_path):
    monkeypatch.setenv("GRADORDER_DATA", str(tmp_path))
    assert_same(load("mnist", data_dir=idx_dir, download=False), idx_splits)


def test_mini_is_the_first_of_each_class(idx_dir, idx_splits, small_mnist):
    for dataset, split, per_class in zip(load("mnist", data_dir=idx_dir, size="mini"), idx_splits, (2, 1), strict=True):
        seen, chosen = Counter(), []
        for position, label in enumerate(split.labels.tolist()):
            seen[label] += 1
            if seen[label] <= per_class:
                chosen.append(position)
        assert_same([dataset], [type(split)(split.images[chosen], split.labels[chosen])])


def test_normalised_as_the_source_says(idx_dir, small_mnist):
    train, test = load("mnist", data_dir=idx_dir)
    assert train.mean == test.mean == (0.1307,)
    assert train.std == test.std == (0.3081,)
    assert train.num_classes == 10


def test_paper_refuses_to_be_less(idx_dir):
    with pytest.raises(DatasetError, match=r"has 60000 \+ 10000 examples, the files hold 60 \+ 30"):
        load("mnist", data_dir=idx_dir)


def test_too_few_for_mini(idx_dir, small_mnist, monkeypatch):
    monkeypatch.setitem(SOURCES, "mnist", replace(small_mnist, num_mini_train=100))
    with pytest.raises(DatasetError, match="needs 10 examples of each"):
        load("mnist", data_dir=idx_dir, size="mini")


def test_labels_of_another_data_set_are_refused(idx_dir, small_mnist, monkeypatch):
    monkeypatch.setitem(SOURCES, "mnist", replace(small_mnist, num_classes=5))
    with pytest.raises(DatasetError, match="labels must be 0 to 4, got 0 to 9"):
        load("mnist", data_dir=idx_dir, size="cpu")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "emnist"}, "name must be one of mnist, fashion-mnist, cifar10, cifar100, got 'emnist'"),
        ({"name": "mnist", "size": "huge"}, "size must be one of mini, cpu, paper, got 'huge'"),
        ({"name": "mnist", "data_dir": "no/such"}, "data_dir must be an existing directory, got no/such"),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        load(**arguments)


def test_wrong_environment(monkeypatch):
    monkeypatch.setenv("GRADORDER_DATA", "no/such")
    with pytest.raises(DatasetError, match="GRADORDER_DATA must be an existing directory, got no/such"):
        load("mnist")


def test_an_empty_environment_variable_is_none(monkeypatch):
    monkeypatch.setenv("GRADORDER_DATA", "")
    assert loading.data_directory() is None


def test_not_found_says_what_to_put_where(tmp_path):
    with pytest.raises(DatasetNotFoundError) as raised:
        load("cifar100", data_dir=tmp_path, size="mini", download=False)
    told = str(raised.value)
    for needed in ("https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz", tmp_path / "cifar100", "--data"):
        assert str(needed) in told


class Server:
    """Files over HTTP on loopback, with a fault for the first requests."""

    def __init__(self, contents, faults=()):
        self.contents, self.faults, self.requests = contents, list(faults), []
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, self))
        self.url = f"http://127.0.0.1:{self.http.server_port}/"

    def __enter__(self):
        self.thread = threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.http.shutdown()
        self.thread.join()
        self.http.server_close()


class Handler(BaseHTTPRequestHandler):
    def __init__(self, server, *args):
        self.files = server
        super().__init__(*args)

    def do_GET(self):
        name = self.path.strip("/")
        self.files.requests.append(name)
        fault = self.files.faults.pop(0) if self.files.faults else None
        content = self.files.contents[name]
        self.send_response(404 if fault == "missing" else 200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if fault == "broken":
            content = content[: len(content) // 2]
        elif fault == "wrong":
            content = bytes(len(content))
        self.wfile.write(content)

    def log_message(self, *_):
        pass


@pytest.fixture(autouse=True)
def _loopback_without_proxy(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.fixture
def contents(idx_dir):
    return {path.name: path.read_bytes() for path in (idx_dir / "mnist").iterdir()}


@pytest.fixture
def offered(contents, small_mnist, monkeypatch):
    """Let MNIST come from these mirrors, with the hashes of `contents`."""

    def offer(*mirrors):
        hashes = {name: hashlib.sha256(contents[name]).hexdigest() for name in NAMES}
        remotes = tuple(Remote(name, hashes[name], tuple(f"{url}{name}" for url in mirrors)) for name in NAMES)
        monkeypatch.setitem(SOURCES, "mnist", replace(small_mnist, remotes=remotes))

    return offer


def unreachable():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}/"


def test_downloaded_once(tmp_path, contents, offered, idx_splits):
    with Server(contents) as server:
        offered(server.url)
        assert_same(load("mnist"), idx_splits)
        assert sorted(server.requests) == sorted(NAMES)
        assert_same(load("mnist"), idx_splits)
        assert len(server.requests) == 4
    assert_same(load("mnist", download=False), idx_splits)
    assert sorted(path.name for path in (tmp_path / "cache" / "gradorder" / "mnist").iterdir()) == sorted(NAMES)


@pytest.mark.parametrize("fault", ["broken", "wrong"])
def test_a_bad_transfer_leaves_nothing(tmp_path, contents, offered, fault):
    with Server(contents, [fault]) as server:
        offered(server.url)
        with pytest.raises(DatasetNotFoundError, match="could not be downloaded"):
            load("mnist")
    assert server.requests == NAMES[:1]
    assert list((tmp_path / "cache" / "gradorder" / "mnist").iterdir()) == []


def test_a_damaged_file_in_the_cache_is_fetched_again(tmp_path, contents, offered, idx_splits):
    with Server(contents) as server:
        offered(server.url)
        load("mnist")
        (tmp_path / "cache" / "gradorder" / "mnist" / NAMES[2]).write_bytes(b"damaged")
        assert_same(load("mnist"), idx_splits)
    assert server.requests[4:] == [NAMES[2]]


@pytest.mark.parametrize("fault", ["missing", "broken", "wrong", "unreachable"])
def test_next_mirror(contents, offered, idx_splits, fault):
    with Server(contents, [fault] * 4) as refusing, Server(contents) as server:
        offered(unreachable() if fault == "unreachable" else refusing.url, server.url)
        assert_same(load("mnist"), idx_splits)
    assert refusing.requests == ([] if fault == "unreachable" else NAMES)
    assert server.requests == NAMES


def test_cache_that_cannot_be_written(offered, tmp_path):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "gradorder").write_text("a file where the folder should be")
    offered(unreachable())
    with pytest.raises(DatasetNotFoundError, match="could not be downloaded"):
        load("mnist")


def test_everything_is_lazy():
    """Neither the network's packages nor any file are touched by importing."""
    code = "import sys, gradorder_lab.data; assert not {'pooch', 'requests'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)
