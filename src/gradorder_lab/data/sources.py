"""The data sets of images: the files that each comes in, where they are public, what they hold."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gradorder_lab.data.cifar_binary import CifarFiles
from gradorder_lab.data.idx import IDX_NAMES, IdxFiles


@dataclass(frozen=True)
class Remote:
    """A public file: its name, the hash of its bytes as pooch writes it, and where it may be had."""

    name: str
    known_hash: str
    urls: tuple[str, ...]


@dataclass(frozen=True)
class Source:
    """One data set.

    Args:
        name: as in `load(name)`; also the folder that users may put the files into.
        title: as people write it.
        class_names: in the order of the labels.
        mean: of the training pixels / 255, one per channel.
        std: of the training pixels / 255, one per channel.
        num_train: of the complete data set.
        num_mini_train: of size "mini".
        num_mini_test: of size "mini".
        files: how it is read.
        remotes: what is downloaded.
        num_test: of the complete data set.
        is_embedded: whether size "mini" is shipped with the package.
    """

    name: str
    title: str
    class_names: tuple[str, ...] = field(repr=False)
    mean: tuple[float, ...]
    std: tuple[float, ...]
    num_train: int
    num_mini_train: int
    num_mini_test: int
    files: IdxFiles | CifarFiles
    remotes: tuple[Remote, ...]
    num_test: int = 10_000
    is_embedded: bool = True


def _remotes(hashes: Mapping[str, str], *mirrors: str) -> tuple[Remote, ...]:
    """Files with their hashes, each to be had from every mirror."""
    return tuple(Remote(name, known, tuple(f"{url}{name}" for url in mirrors)) for name, known in hashes.items())


def _idx_hashes(*sha256: str) -> dict[str, str]:
    """Of the four files, packed, in the order of `IDX_NAMES`."""
    return {f"{name}.gz": f"sha256:{known}" for name, known in zip(IDX_NAMES, sha256, strict=True)}


_FROM_TORONTO = "https://www.cs.toronto.edu/~kriz/"
_ALL = (
    Source(
        name="mnist",
        title="MNIST",
        class_names=tuple(map(str, range(10))),
        mean=(0.1307,),
        std=(0.3081,),
        num_train=60_000,
        num_mini_train=5_000,
        num_mini_test=1_000,
        files=IdxFiles(
            ("mnist", "MNIST/raw", "MNIST", "."),
            {"0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34": "Fashion-MNIST, not of MNIST"},
        ),
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
    ),
    Source(
        name="fashion-mnist",
        title="Fashion-MNIST",
        class_names=(
            *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
            *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
        ),
        mean=(0.2860,),
        std=(0.3530,),
        num_train=60_000,
        num_mini_train=5_000,
        num_mini_test=1_000,
        files=IdxFiles(
            ("fashion-mnist", "FashionMNIST/raw", "FashionMNIST", "."),
            {"ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2": "MNIST, not of Fashion-MNIST"},
        ),
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
    ),
    Source(
        name="cifar10",
        title="CIFAR-10",
        class_names=("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
        mean=(0.4914, 0.4822, 0.4465),
        std=(0.2470, 0.2435, 0.2616),
        num_train=50_000,
        num_mini_train=2_000,
        num_mini_test=500,
        files=CifarFiles(
            folders=("cifar-10-batches-bin", "cifar10", "cifar10/cifar-10-batches-bin", "."),
            archive="cifar-10-binary.tar.gz",
            train_files=tuple(f"data_batch_{number}.bin" for number in range(1, 6)),
            test_file="test_batch.bin",
            label_ranges=(10,),
            records_per_file=10_000,
        ),
        remotes=_remotes({"cifar-10-binary.tar.gz": "md5:c32a1d4ab5d03f1284b67883e8d87530"}, _FROM_TORONTO),
    ),
    Source(
        name="cifar100",
        title="CIFAR-100",
        class_names=tuple(
            """
            apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel can
            castle caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur dolphin
            elephant flatfish forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard
            lobster man maple_tree motorcycle mountain mouse mushroom oak_tree orange orchid otter palm_tree pear
            pickup_truck pine_tree plain plate poppy porcupine possum rabbit raccoon ray road rocket rose sea seal
            shark shrew skunk skyscraper snail snake spider squirrel streetcar sunflower sweet_pepper table tank
            telephone television tiger tractor train trout tulip turtle wardrobe whale willow_tree wolf woman worm
            """.split()  # noqa: SIM905 - a hundred names read best as text
        ),
        mean=(0.5071, 0.4865, 0.4409),
        std=(0.2673, 0.2564, 0.2762),
        num_train=50_000,
        num_mini_train=2_000,
        num_mini_test=500,
        files=CifarFiles(
            folders=("cifar-100-binary", "cifar100", "cifar100/cifar-100-binary", "."),
            archive="cifar-100-binary.tar.gz",
            train_files=("train.bin",),
            test_file="test.bin",
            label_ranges=(20, 100),
        ),
        remotes=_remotes({"cifar-100-binary.tar.gz": "md5:03b5dce01913d631647c71ecec9e9cb8"}, _FROM_TORONTO),
        is_embedded=False,
    ),
)
SOURCES = {source.name: source for source in _ALL}
