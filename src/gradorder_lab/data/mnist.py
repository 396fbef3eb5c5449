"""MNIST: handwritten digits."""

from gradorder_lab.data.idx import IdxFiles
from gradorder_lab.data.source import Source, remotes_at

MNIST_SOURCE = Source(
    name="mnist",
    title="MNIST",
    class_names=tuple(map(str, range(10))),
    mean=(0.1307,),
    std=(0.3081,),
    num_train=60_000,
    num_test=10_000,
    num_mini_train=5_000,
    num_mini_test=1_000,
    files=IdxFiles(
        folders=("mnist", "MNIST/raw", "MNIST", "."),
        look_alikes={"0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34": "Fashion-MNIST, not of MNIST"},
    ),
    remotes=remotes_at(
        {
            "train-images-idx3-ubyte.gz": "sha256:440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            "train-labels-idx1-ubyte.gz": "sha256:3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
            "t10k-images-idx3-ubyte.gz": "sha256:8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            "t10k-labels-idx1-ubyte.gz": "sha256:f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
        },
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
    ),
    is_embedded=True,
)
