"""Linear classification by ordered SGD."""

import warnings
from collections.abc import Callable
from typing import Any, ClassVar, Self, final

import numpy as np
from scipy.special import expit, softmax
from sklearn.base import ClassifierMixin, _fit_context
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.utils import compute_class_weight
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import _check_partial_fit_first_call, check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from gradorder.orderings import Ordering
from gradorder.sklearn import compiled
from gradorder.sklearn.compiled import Array
from gradorder.sklearn.estimator import (
    Matrix,
    OrderedLinearModel,
    Patience,
    Problem,
    SoFar,
    held_out_weights,
    outputs_of,
)
from gradorder.sklearn.learning_rates import LearningRates
from gradorder.sklearn.training import Model, Trained

_LOSSES = {
    "hinge": compiled.HINGE,
    "log_loss": compiled.LOG_LOSS,
    "modified_huber": compiled.MODIFIED_HUBER,
    "multinomial": compiled.MULTINOMIAL,
}
_WITH_PROBABILITIES = ("log_loss", "modified_huber", "multinomial")
_BINARY = 2
_ROWS_AT_ONCE = 4096


def _has_probabilities(estimator: "OrderedSGDClassifier") -> bool:
    if estimator.loss not in _WITH_PROBABILITIES:
        raise AttributeError(f"loss must be one of {_WITH_PROBABILITIES} for probabilities, got {estimator.loss!r}")
    return True


@final
class OrderedSGDClassifier(ClassifierMixin, OrderedLinearModel):  # type: ignore[misc] # scikit-learn has no types
    """Linear classification trained by SGD, one example at a time, in an order of your choice (Algorithms 1 and 2).

    As scikit-learn's `SGDClassifier`, with an order; random by default, the paper's is `ordering="descending"`. More
    than two classes are one model against the rest each, with its own scores and orders, and one model for
    "multinomial", the cross-entropy of the softmax.

    An example's score is the exact norm of the gradient of its weighted loss at the current weights, without the
    penalty: weight_i |loss'| sqrt(||x_i||^2 + 1), with ||softmax - onehot|| for |loss'| in the softmax.

    Args:
        loss: "log_loss", "hinge", "modified_huber" or "multinomial". All but "hinge" have probabilities. On data with
            few positives "hinge" may predict none.
        ordering: an ordering of the library such as `gradorder.Descending()`, or a name for it: "random", "descending",
            "ascending", "shuffle-once", "flip-flop" (of random epochs), "plackett-luce", "sequential". "recommended" is
            random reshuffling too: no ordering that was tried is better for linear models.
        batch_size: None for Algorithm 1, every epoch ordered as a whole. A number S, or a fraction of the examples, for
            Algorithm 2: random batches of S, each scored at the weights it finds.
        keep: Algorithm 1 trains on this fraction of the order, its beginning; Algorithm 2 on the hardest
            ceil(keep * S) of each batch, at least one, in the given ordering.
        start_epoch: epochs before it are random and complete.
        schedule: a schedule of the library such as `gradorder.InversePerStep(0.1)`, a function of step and epoch, or a
            name for `eta0` to start: "constant", "inverse-per-step", "inverse-sqrt-per-step", "inverse-per-epoch",
            "inverse-sqrt-per-epoch". None is eta0 / (1 + t / n), n the number of examples, and in `partial_fit`
            eta0 / sqrt(1 + t / 1000).
        eta0: the initial learning rate. The default is 1 / mean_i(||x_i||^2 + 1), half of it for "modified_huber" and
            four times it for "log_loss". A schedule object has its own, so leave `eta0` out then.
        penalty: "l2", alpha / 2 ||w||^2; "l1", alpha ||w||_1, which makes weights zero; "elasticnet", both, with
            `l1_ratio`; or None. The intercept has none.
        alpha: of the penalty.
        l1_ratio: of "elasticnet", the part of alpha that is the L1 penalty's.
        fit_intercept: whether to have one.
        max_iter: the most epochs.
        tol: training ends when the objective has not fallen by more than this for `n_iter_no_change` epochs; None for
            exactly `max_iter` epochs.
        early_stopping: look at the accuracy of held-out examples in place of the objective.
        validation_fraction: how many to hold out.
        n_iter_no_change: see `tol`.
        class_weight: weights by label, "balanced", or None; multiplied with the examples' own.
        random_state: a seed, a `RandomState`, or None for a new seed every time; numpy's global state is never used.
        warm_start: `fit` goes on from the last model.
        average: True for the mean of the weights after each update as `coef_`, or a number S for that of the updates
            from the S-th on; until then `coef_` is the last weights.

    Attributes:
        coef_: (1, d) for two classes, else (K, d).
        intercept_: (1,), or (K,).
        n_iter_: epochs of the last fit, the most of its models.
        t_: one more than the number of updates.
        loss_curve_: the mean objective of each epoch as training saw it: each example's loss just before its update,
            averaged with the examples' weights, and the penalty; the mean over the models, where there
            are several.
        n_features_in_: d.
        feature_names_in_: the columns of a data frame.
        classes_: the labels.

    Example:
        >>> inputs = np.array([[0.0], [1.0], [2.0], [3.0]])
        >>> model = OrderedSGDClassifier(random_state=0).fit(inputs, ["low", "low", "high", "high"])
        >>> model.predict([[-1.0], [4.0]]).tolist()
        ['low', 'high']
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **OrderedLinearModel._parameter_constraints,  # noqa: SLF001 - of the class itself
        "loss": [StrOptions(set(_LOSSES))],
        "class_weight": [StrOptions({"balanced"}), dict, None],
    }

    def __init__(
        self,
        loss: str = "log_loss",
        *,
        ordering: Ordering | str = "random",
        batch_size: float | None = None,
        keep: float = 1.0,
        start_epoch: int = 0,
        schedule: LearningRates | str | None = None,
        eta0: float | None = None,
        penalty: str | None = "l2",
        alpha: float = 1e-4,
        l1_ratio: float = 0.15,
        fit_intercept: bool = True,
        max_iter: int = 1000,
        tol: float | None = 1e-3,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 5,
        class_weight: dict[Any, float] | str | None = None,
        random_state: int | np.random.RandomState | None = None,
        warm_start: bool = False,
        average: bool | int = False,
    ) -> None:
        self.loss = loss
        self.ordering = ordering
        self.batch_size = batch_size
        self.keep = keep
        self.start_epoch = start_epoch
        self.schedule = schedule
        self.eta0 = eta0
        self.penalty = penalty
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.class_weight = class_weight
        self.random_state = random_state
        self.warm_start = warm_start
        self.average = average

    @_fit_context(prefer_skip_nested_validation=True)  # type: ignore[untyped-decorator]
    def fit(
        self,
        X: Matrix,  # noqa: N803 - scikit-learn's name
        y: Matrix,
        coef_init: Matrix = None,
        intercept_init: Matrix = None,
        sample_weight: Matrix = None,
    ) -> Self:
        """Train until the objective no longer falls, for at most `max_iter` epochs.

        Args:
            X: (n, d), an array, a data frame or a sparse matrix.
            y: (n,), labels of any kind.
            coef_init: of the shape of `coef_`, where to start; zeros if not given, with `warm_start` the last model.
            intercept_init: of the shape of `intercept_`, likewise.
            sample_weight: (n,), not negative.
        """
        with self._all_or_nothing():
            X, y = self._checked(X, y, reset=True)  # noqa: N806
            check_classification_targets(y)
            self.classes_ = np.unique(y)
            so_far = SoFar(self._start((self._num_rows(), X.shape[1]), coef_init, intercept_init))
            trained = self._trained(X, y, sample_weight, so_far, self.max_iter)
            self._set(trained, so_far, X.dtype)
        self._warn_if_not_converged(trained)
        self._warn_if_one_class(X)
        return self

    @_fit_context(prefer_skip_nested_validation=True)  # type: ignore[untyped-decorator]
    def partial_fit(self, X: Matrix, y: Matrix, classes: Matrix = None, sample_weight: Matrix = None) -> Self:  # noqa: N803
        """One epoch on these examples; steps and epochs are counted on.

        The default learning rate depends on the rows of all calls so far, not on how they are cut into calls.

        Args:
            X: (n, d).
            y: (n,), labels out of `classes`.
            classes: all labels there will ever be; must be given at the first call.
            sample_weight: (n,), not negative.
        """
        self._refuse_for_partial_fit()
        if self.class_weight == "balanced":
            raise ValueError(
                "class_weight must not be 'balanced' for partial_fit, which sees only a part of the labels"
            )
        with self._all_or_nothing():
            X, y = self._checked(X, y, reset=not hasattr(self, "coef_"))  # noqa: N806
            _check_partial_fit_first_call(self, classes)
            check_classification_targets(y)
            so_far = self._so_far((self._num_rows(), X.shape[1]))
            self._set(self._trained(X, y, sample_weight, so_far, 1), so_far, X.dtype)
        return self

    def decision_function(self, X: Matrix) -> Array:  # noqa: N803
        """Signed distances times the norm of the weights: (n,) for two classes, else (n, K)."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)  # noqa: N806
        scores = outputs_of(X, Model(self.coef_, self.intercept_))
        return scores.ravel() if scores.shape[1] == 1 else scores

    def predict(self, X: Matrix) -> Array:  # noqa: N803
        """The label with the highest score, (n,)."""
        return self._predicted(self.decision_function(X))

    def _predicted(self, scores: Array) -> Array:
        is_binary = len(self.classes_) == _BINARY
        indices = (scores.ravel() > 0).astype(np.intp) if is_binary else scores.argmax(axis=1)
        labels: Array = self.classes_[indices]
        return labels

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Matrix) -> Array:  # noqa: N803
        """Probabilities (n, K) from the scores s.

        1 / (1 + exp(-s)) for "log_loss", s cut off at -1 and 1 and moved to 0 and 1 for "modified_huber", both
        normalised over one-against-rest models; the softmax for "multinomial".
        """
        scores = self.decision_function(X)
        if self.loss == "multinomial" and scores.ndim > 1:
            probabilities: Array = softmax(scores, axis=1)
            return probabilities
        positive = (np.clip(scores, -1, 1) + 1) / 2 if self.loss == "modified_huber" else expit(scores)
        return np.column_stack([1 - positive, positive]) if scores.ndim == 1 else _normalised(positive)

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Matrix) -> Array:  # noqa: N803
        """The logarithm of `predict_proba`."""
        logarithms: Array = np.log(self.predict_proba(X))
        return logarithms

    # Between coef_ and the models that are trained ----------------------------------------------------------------

    def _num_rows(self) -> int:
        num_classes = len(self.classes_)
        if num_classes < _BINARY:
            raise ValueError(f"y must hold at least two classes, got {num_classes} class")
        return 1 if num_classes == _BINARY else num_classes

    def _split(self, model: Model) -> list[Model]:
        num_rows = len(model.intercepts)
        if self.loss != "multinomial":
            return [Model(model.weights[k], model.intercepts[k : k + 1]) for k in range(num_rows)]
        if num_rows > 1:
            return [model]
        # Errors of a softmax sum to zero, so the two classes have opposite weights, and coef_ is their difference.
        return [Model(*(np.concatenate([-each, each]) / 2 for each in model))]

    def _joined(self, models: list[Model]) -> Model:
        weights = np.concatenate([np.atleast_2d(each.weights) for each in models])
        intercepts = np.concatenate([each.intercepts for each in models])
        if self.loss == "multinomial" and len(self.classes_) == _BINARY:
            return Model(weights[1:] - weights[:1], intercepts[1:] - intercepts[:1])
        return Model(weights, intercepts)

    # Training -----------------------------------------------------------------------------------------------------

    def _trained(
        self,
        X: Matrix,  # noqa: N803
        y: Array,
        sample_weight: Matrix,
        so_far: SoFar,
        num_epochs: int,
    ) -> list[Trained]:
        seed, weights, labels = self._seed(), self._example_weights(sample_weight, X), self._labels(y)
        problems = self._problems(y, labels, weights)
        if self.early_stopping:
            split = StratifiedShuffleSplit(test_size=self.validation_fraction, random_state=seed)
            training, held_out = next(split.split(X, labels))
            weights = held_out_weights(weights[held_out])
            problems = [self._stopped(each, X[held_out], held_out, weights, training) for each in problems]
            X = X[training]  # noqa: N806
        return self._train(X, problems, so_far, loss=_LOSSES[self.loss], seed=seed, num_epochs=num_epochs)

    def _stopped(self, problem: Problem, X: Matrix, held_out: Array, weights: Array, training: Array) -> Problem:  # noqa: N803
        """The problem on a part of the examples, to be stopped by its accuracy on the others."""
        accuracy = _accuracy_on(X, problem.targets[held_out], weights)
        stop = Patience(accuracy, self.tol, self.n_iter_no_change)
        return Problem(problem.targets[training], problem.weights[training], stop)

    def _labels(self, y: Array) -> Array:
        """The place of each label in `classes_`."""
        unknown = np.setdiff1d(y, self.classes_)
        if len(unknown):
            raise ValueError(f"y must hold labels out of classes {self.classes_}, got {unknown}")
        return np.searchsorted(self.classes_, y)

    def _problems(self, y: Array, labels: Array, weights: Array) -> list[Problem]:
        class_weight = compute_class_weight(self.class_weight, classes=self.classes_, y=y)
        if self.loss == "multinomial":
            return [Problem(labels.astype(np.float64), weights * class_weight[labels])]
        if len(self.classes_) == _BINARY:
            return [Problem(np.where(labels == 1, 1.0, -1.0), weights * class_weight[labels])]
        return [
            Problem(np.where(labels == k, 1.0, -1.0), weights * np.where(labels == k, class_weight[k], 1.0))
            for k in range(len(self.classes_))
        ]

    def _warn_if_one_class(self, X: Matrix) -> None:  # noqa: N803
        """As a model that has learned nothing does; looks no further than to the second class."""
        predicted: set[Any] = set()
        for begin in range(0, X.shape[0], _ROWS_AT_ONCE):
            scores = outputs_of(X[begin : begin + _ROWS_AT_ONCE], Model(self.coef_, self.intercept_))
            predicted |= set(self._predicted(scores).tolist())
            if len(predicted) > 1:
                return
        (label,) = predicted
        warnings.warn(
            f"{type(self).__name__} predicts {label!r} for every example that it was fitted on: try ordering='random', "
            "another eta0, scaled features, or class_weight='balanced'",
            UserWarning,
            stacklevel=3,
        )


def _accuracy_on(X: Matrix, targets: Array, weights: Array) -> Callable[[Model], float]:  # noqa: N803
    def accuracy(model: Model) -> float:
        outputs = outputs_of(X, model)
        right = outputs.argmax(axis=1) == targets if outputs.shape[1] > 1 else (outputs[:, 0] > 0) == (targets > 0)
        return float(np.average(right, weights=weights))

    return accuracy


def _normalised(positive: Array) -> Array:
    """Rows that sum to one; a row of zeros becomes uniform."""
    totals = positive.sum(axis=1, keepdims=True)
    uniform = np.full_like(positive, 1 / positive.shape[1])
    normalised: Array = np.divide(positive, totals, out=uniform, where=totals > 0)
    return normalised
