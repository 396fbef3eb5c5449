"""CIFAR-10: small photographs of ten kinds."""

from gradorder_lab.data.cifar_binary import CifarFiles
from gradorder_lab.data.source import Source, remotes_at

CIFAR10_SOURCE = Source(
    name="cifar10",
    title="CIFAR-10",
    class_names=("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
    mean=(0.4914, 0.4822, 0.4465),
    std=(0.2470, 0.2435, 0.2616),
    num_train=50_000,
    num_test=10_000,
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
    remotes=remotes_at(
        {"cifar-10-binary.tar.gz": "md5:c32a1d4ab5d03f1284b67883e8d87530"}, "https://www.cs.toronto.edu/~kriz/"
    ),
    is_embedded=True,
)
