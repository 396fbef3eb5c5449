import gzip
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
from gradorder_lab.data.sources import Remote
from gradorder_lab.errors import DatasetError, DatasetFileError, DatasetNotFoundError

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


def test_mini_without_files_is_shipped_and_needs_no_network(tmp_path, monkeypatch):
    monkeypatch.setattr(loading, "fetch", None)
    assert len(load("cifar10", size="mini", data_dir=tmp_path)[0]) == 2000


def test_normalised_as_the_source_says(idx_dir, small_mnist):
    train, test = load("mnist", data_dir=idx_dir)
    assert train.mean == test.mean == (0.1307,)
    assert train.std == test.std == (0.3081,)
    assert train.class_names == tuple("0123456789")


def test_paper_refuses_to_be_less(idx_dir):
    with pytest.raises(DatasetError, match=r'size "paper": .* has 60000 \+ 10000 examples, the files hold 60 \+ 30'):
        load("mnist", data_dir=idx_dir)


def test_too_few_for_mini(idx_dir):
    with pytest.raises(DatasetError, match=r'MNIST, size "mini": .* needs 500 examples of each'):
        load("mnist", data_dir=idx_dir, size="mini")


def test_damaged_files_are_not_passed_over(idx_dir):
    (idx_dir / "mnist" / NAMES[0]).write_bytes(gzip.compress(b"x")[:-4])
    for size in ("mini", "cpu", "paper"):
        with pytest.raises(DatasetFileError, match=NAMES[0]):
            load("mnist", data_dir=idx_dir, size=size)


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
    message = str(raised.value)
    assert message.startswith(f"CIFAR-100 was not found: not in {tmp_path}; downloading was not allowed.")
    assert "cifar-100-binary.tar.gz    from https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz" in message
    assert str(tmp_path / "cifar100") in message
    assert "needs no files" not in message


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
def test_a_bad_transfer_is_repeated(tmp_path, contents, offered, idx_splits, fault):
    with Server(contents, [fault, fault]) as server:
        offered(server.url)
        assert_same(load("mnist"), idx_splits)
    assert server.requests == [NAMES[0], NAMES[0], *NAMES]
    assert sorted(path.name for path in (tmp_path / "cache" / "gradorder" / "mnist").iterdir()) == sorted(NAMES)


def test_a_transfer_that_stays_bad_leaves_nothing(tmp_path, contents, offered):
    with Server(contents, ["broken"] * 9) as server:
        offered(server.url)
        with pytest.raises(DatasetNotFoundError, match="could not be downloaded"):
            load("mnist")
    assert server.requests == [NAMES[0]] * 3
    assert list((tmp_path / "cache" / "gradorder" / "mnist").iterdir()) == []


def test_a_damaged_file_in_the_cache_is_fetched_again(tmp_path, contents, offered, idx_splits):
    with Server(contents) as server:
        offered(server.url)
        load("mnist")
        (tmp_path / "cache" / "gradorder" / "mnist" / NAMES[2]).write_bytes(b"damaged")
        assert_same(load("mnist"), idx_splits)
    assert server.requests[4:] == [NAMES[2]]


@pytest.mark.parametrize("first", ["missing", "unreachable"])
def test_next_mirror(contents, offered, idx_splits, first):
    with Server(contents, ["missing"] * 4) as refusing, Server(contents) as server:
        offered(refusing.url if first == "missing" else unreachable(), server.url)
        assert_same(load("mnist"), idx_splits)
    assert refusing.requests == (NAMES if first == "missing" else [])
    assert server.requests == NAMES


def test_without_network_the_message_says_what_to_do(offered, tmp_path):
    url = unreachable()
    offered(url)
    with pytest.raises(DatasetNotFoundError) as raised:
        load("mnist", data_dir=tmp_path)
    message = str(raised.value)
    for name in NAMES:
        assert f"{name}    from {url}{name}" in message
    assert f"not in {tmp_path}; it could not be downloaded ({url}{NAMES[0]}: ConnectionError: " in message
    assert f"Put these files into {tmp_path / 'mnist'}:" in message
    assert f"pass --data {tmp_path}, or set GRADORDER_DATA={tmp_path}." in message
    assert 'Size "mini" needs no files.' in message


def test_without_network_and_without_directory(offered):
    offered(unreachable())
    with pytest.raises(DatasetNotFoundError) as raised:
        load("mnist")
    message = str(raised.value)
    assert "neither data_dir (--data) nor GRADORDER_DATA is set" in message
    assert "Put these files into DIR/mnist:" in message
    assert "pass --data DIR, or set GRADORDER_DATA=DIR." in message


def test_cache_that_cannot_be_written(offered, tmp_path):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "gradorder").write_text("a file where the folder should be")
    offered(unreachable())
    with pytest.raises(DatasetNotFoundError, match="cannot be written"):
        load("mnist")


def test_known_hashes_and_names():
    for source in SOURCES.values():
        for remote in source.remotes:
            algorithm, digest = remote.known_hash.split(":")
            assert len(digest) == {"md5": 32, "sha256": 64}[algorithm]
            assert all(url.endswith(f"/{remote.name}") for url in remote.urls)


def test_everything_is_lazy():
    """Neither the network's packages nor any file are touched by importing."""
    code = "import sys, gradorder_lab.data; assert not {'pooch', 'requests'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)
