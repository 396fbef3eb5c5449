"""The data sets of images: the files that each comes in, who serves them, what they hold."""

from dataclasses import dataclass

from gradorder_lab.data.download import Remote
from gradorder_lab.data.original_files import IDX_NAMES, CifarFiles, IdxFiles


@dataclass(frozen=True)
class Source:
    """One data set.

    Args:
        name: as in `load(name)`; also the folder that users may put the files into.
        title: as people write it.
        mean: of the training pixels / 255, one per channel.
        std: of the training pixels / 255, one per channel.
        num_train: of the complete data set.
        num_mini_train: of size "mini".
        num_mini_test: of size "mini".
        files: how it is read.
        remotes: what is downloaded.
        num_test: of the complete data set.
        num_classes: labels are 0 to this, less one.
        is_embedded: whether size "mini" is shipped with the package.
    """

    name: str
    title: str
    mean: tuple[float, ...]
    std: tuple[float, ...]
    num_train: int
    num_mini_train: int
    num_mini_test: int
    files: IdxFiles | CifarFiles
    remotes: tuple[Remote, ...]
    num_test: int = 10_000
    num_classes: int = 10
    is_embedded: bool = False


def _remotes(hashes: dict[str, str], *mirrors: str) -> tuple[Remote, ...]:
    """Files with their SHA-256, each from every mirror."""
    return tuple(Remote(name, sha256, tuple(f"{url}{name}" for url in mirrors)) for name, sha256 in hashes.items())


def _idx_hashes(*sha256: str) -> dict[str, str]:
    return dict(zip(IDX_NAMES, sha256, strict=True))


_FROM_TORONTO = "https://www.cs.toronto.edu/~kriz/"
_ALL = (
    Source(
        name="mnist",
        title="MNIST",
        mean=(0.1307,),
        std=(0.3081,),
        num_train=60_000,
        num_mini_train=5_000,
        num_mini_test=1_000,
        files=IdxFiles(("mnist", "MNIST/raw", "MNIST")),
        remotes=_remotes(
            _idx_hashes(
                "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
                "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
                "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
                "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
            ),
            "https://ossci-datasets.s3.amazonaws.com/mnist/",
            "https://storage.googleapis.com/cvdf-datasets/mnist/",
        ),
        is_embedded=True,
    ),
    Source(
        name="fashion-mnist",
        title="Fashion-MNIST",
        mean=(0.2860,),
        std=(0.3530,),
        num_train=60_000,
        num_mini_train=5_000,
        num_mini_test=1_000,
        files=IdxFiles(("fashion-mnist", "FashionMNIST/raw", "FashionMNIST")),
        remotes=_remotes(
            _idx_hashes(
                "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
                "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
                "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
                "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
            ),
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
            "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
        ),
        is_embedded=True,
    ),
    Source(
        name="cifar10",
        title="CIFAR-10",
        mean=(0.4914, 0.4822, 0.4465),
        std=(0.2470, 0.2435, 0.2616),
        num_train=50_000,
        num_mini_train=2_000,
        num_mini_test=500,
        files=CifarFiles(
            name="cifar10",
            folder="cifar-10-batches-bin",
            archive="cifar-10-binary.tar.gz",
            train_files=tuple(f"data_batch_{number}.bin" for number in range(1, 6)),
            test_file="test_batch.bin",
        ),
        remotes=_remotes(
            {"cifar-10-binary.tar.gz": "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"},
            _FROM_TORONTO,
        ),
    ),
    Source(
        name="cifar100",
        title="CIFAR-100",
        mean=(0.5071, 0.4865, 0.4409),
        std=(0.2673, 0.2564, 0.2762),
        num_train=50_000,
        num_mini_train=2_000,
        num_mini_test=500,
        num_classes=100,
        files=CifarFiles(
            name="cifar100",
            folder="cifar-100-binary",
            archive="cifar-100-binary.tar.gz",
            train_files=("train.bin",),
            test_file="test.bin",
            num_label_bytes=2,
        ),
        remotes=_remotes(
            {"cifar-100-binary.tar.gz": "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec"},
            _FROM_TORONTO,
        ),
    ),
)
SOURCES = {source.name: source for source in _ALL}
