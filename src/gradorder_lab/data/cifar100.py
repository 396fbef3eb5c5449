"""CIFAR-100: small photographs of a hundred kinds."""

from gradorder_lab.data.cifar_binary import CifarFiles
from gradorder_lab.data.source import Source, remotes_at

CIFAR100_SOURCE = Source(
    name="cifar100",
    title="CIFAR-100",
    class_names=tuple(
        """
        apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel can
        castle caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur dolphin
        elephant flatfish forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard lobster
        man maple_tree motorcycle mountain mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck
        pine_tree plain plate poppy porcupine possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk
        skyscraper snail snake spider squirrel streetcar sunflower sweet_pepper table tank telephone television tiger
        tractor train trout tulip turtle wardrobe whale willow_tree wolf woman worm
        """.split()  # noqa: SIM905 - a hundred names read best as text
    ),
    mean=(0.5071, 0.4865, 0.4409),
    std=(0.2673, 0.2564, 0.2762),
    num_train=50_000,
    num_test=10_000,
    num_mini_train=2_000,
    num_mini_test=500,
    files=CifarFiles(
        folders=("cifar-100-binary", "cifar100", "cifar100/cifar-100-binary", "."),
        archive="cifar-100-binary.tar.gz",
        train_files=("train.bin",),
        test_file="test.bin",
        label_ranges=(20, 100),
    ),
    remotes=remotes_at(
        {"cifar-100-binary.tar.gz": "md5:03b5dce01913d631647c71ecec9e9cb8"}, "https://www.cs.toronto.edu/~kriz/"
    ),
    is_embedded=False,
)
