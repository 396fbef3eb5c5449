"""What the paper claims beyond what the listed experiments test, in our words: the page leaves no claim out."""

PAPER_CLAIMS = {
    "C7": "MNIST: the hardest half of each mini-batch, in order, is best in training and test accuracy.",
    "C8": "Fashion-MNIST: the hardest half of each mini-batch, in order, is best in training and test accuracy.",
    "C9": "CIFAR-10, ordered from 0.7 of the run: ordered mini-batches reach the lowest training loss, "
    "with test accuracy within half a point.",
    "C10": "CIFAR-100, ordered from 0.7 of the run: ordered mini-batches reach the lowest training loss, "
    "with test accuracy within half a point.",
    "C11": "An earlier start saves at least a tenth of all example gradients for about the same accuracy.",
    "C12": "The bounds of Theorems 1 to 4 hold along the run, and the decreasing order maximises their leading term.",
    "C13": "The best epoch to start ordered mini-batches at is 0.7 of the run, against 0.4 and 0.5.",
}
"""Used for a claim that no experiment provides; a claim that one does provide brings its own text."""
