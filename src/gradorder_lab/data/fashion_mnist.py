"""Fashion-MNIST: clothes."""

from gradorder_lab.data.idx import IdxFiles
from gradorder_lab.data.source import Source, remotes_at

FASHION_MNIST_SOURCE = Source(
    name="fashion-mnist",
    title="Fashion-MNIST",
    class_names=(
        *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
        *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
    ),
    mean=(0.2860,),
    std=(0.3530,),
    num_train=60_000,
    num_test=10_000,
    num_mini_train=5_000,
    num_mini_test=1_000,
    files=IdxFiles(
        folders=("fashion-mnist", "FashionMNIST/raw", "FashionMNIST", "."),
        look_alikes={"ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2": "MNIST, not of Fashion-MNIST"},
    ),
    remotes=remotes_at(
        {
            "train-images-idx3-ubyte.gz": "sha256:3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
            "train-labels-idx1-ubyte.gz": "sha256:a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
            "t10k-images-idx3-ubyte.gz": "sha256:346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
            "t10k-labels-idx1-ubyte.gz": "sha256:67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
        },
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
    ),
    is_embedded=True,
)
