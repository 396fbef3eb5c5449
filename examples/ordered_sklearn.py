"""Ordered SGD in a scikit-learn pipeline, next to scikit-learn's own: two lines differ."""

from sklearn.datasets import load_digits
from sklearn.linear_model import SGDClassifier
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import gradorder as go
from gradorder.sklearn import OrderedSGDClassifier


def main() -> float:
    """Train both and print their test accuracies; returns that of ordered SGD."""
    images, labels = load_digits(return_X_y=True)
    train_images, test_images, train_labels, test_labels = train_test_split(images, labels, random_state=0)

    plain = SGDClassifier("log_loss", learning_rate="constant", eta0=0.01, tol=None, max_iter=20, random_state=0)
    # Random epochs first, then the hardest half of every batch of 100, hardest first (Algorithm 2).
    ordered = OrderedSGDClassifier(
        "multinomial",
        ordering=go.Descending(),
        batch_size=100,
        keep=0.5,
        start_epoch=5,
        schedule=go.InversePerEpoch(0.05),
        tol=None,
        max_iter=20,
        random_state=0,
    )
    accuracy = 0.0
    for name, classifier in (("scikit-learn", plain), ("ordered", ordered)):
        model = make_pipeline(StandardScaler(), classifier).fit(train_images, train_labels)
        accuracy = float(model.score(test_images, test_labels))
        print(f"{name}: {int(classifier.t_) - 1} updates, test accuracy {accuracy:.3f}")
    return accuracy


if __name__ == "__main__":
    main()
