"""Linear classification by ordered SGD."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Self, final

import numpy as np
from scipy.special import expit, softmax
from sklearn.base import ClassifierMixin, _fit_context
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.utils import compute_class_weight
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import _check_partial_fit_first_call, check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from gradorder.orderings import Ordering
from gradorder.sklearn import compiled
from gradorder.sklearn.compiled import Array
from gradorder.sklearn.estimator import Matrix, OrderedLinearModel, Patience, problem_seed
from gradorder.sklearn.step_sizes import StepSizes
from gradorder.sklearn.training import Model, Progress, Trained, examples_of, squared_norms

_LOSSES = {"log_loss": compiled.LOG_LOSS, "hinge": compiled.HINGE, "multinomial": compiled.MULTINOMIAL}
_BINARY = 2


@dataclass(frozen=True)
class _Problem:
    """One model to train: all of a binary or a softmax classifier, one class against the rest otherwise."""

    targets: Array
    class_weights: Array
    """One per example."""


def _has_probabilities(estimator: "OrderedSGDClassifier") -> bool:
    if estimator.loss not in {"log_loss", "multinomial"}:
        raise AttributeError(f"probabilities need loss='log_loss' or 'multinomial', got {estimator.loss!r}")
    return True


@final
class OrderedSGDClassifier(ClassifierMixin, OrderedLinearModel):  # type: ignore[misc] # scikit-learn has no types
    """Linear classification trained by SGD, one example at a time, hardest first (Algorithms 1 and 2).

    As scikit-learn's `SGDClassifier`, with an order. More than two classes are one model against the rest each for
    "log_loss" and "hinge", each with its own scores and orders, and one model for "multinomial", the cross-entropy of
    the softmax.

    An example's score is the exact norm of the gradient of its weighted loss at the current weights, without the
    penalty: weight_i |loss'| sqrt(||x_i||^2 + 1), with ||softmax - onehot|| for |loss'| in the softmax.

    Args:
        loss: "log_loss", "hinge" or "multinomial".
        ordering: an ordering of the library such as `gradorder.Descending()`, or a name for it: "random", "descending",
            "ascending", "shuffle-once", "flip-flop" (of random epochs), "plackett-luce", "sequential".
        batch_size: None for Algorithm 1, every epoch ordered as a whole. A number S, or a fraction of the examples, for
            Algorithm 2: random batches of S, each scored at the weights it finds.
        keep: Algorithm 1 trains on this fraction of the order, its beginning; Algorithm 2 on the hardest
            ceil(keep * S) of each batch, at least one, in the given ordering.
        start_epoch: epochs before it are random and complete.
        schedule: a schedule of the library such as `gradorder.InversePerStep(0.1)`, a function of step and epoch, or a
            name for `eta0` to start: "constant", "inverse-per-step", "inverse-sqrt-per-step", "inverse-per-epoch",
            "inverse-sqrt-per-epoch". None is eta0 / (1 + t / n), n the number of examples.
        eta0: the first step size. If not given 0.01. Not with a schedule object, which has its own.
        penalty: "l2", alpha / 2 ||w||^2 without the intercept, or None.
        alpha: of the penalty.
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
        >>> model = OrderedSGDClassifier(eta0=0.5, random_state=0).fit(inputs, ["low", "low", "high", "high"])
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
        ordering: Ordering | str = "descending",
        batch_size: float | None = None,
        keep: float = 1.0,
        start_epoch: int = 0,
        schedule: StepSizes | str | None = None,
        eta0: float | None = None,
        penalty: str | None = "l2",
        alpha: float = 1e-4,
        fit_intercept: bool = True,
        max_iter: int = 1000,
        tol: float | None = 1e-3,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 5,
        class_weight: dict[Any, float] | str | None = None,
        random_state: int | np.random.RandomState | None = None,
        warm_start: bool = False,
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
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.class_weight = class_weight
        self.random_state = random_state
        self.warm_start = warm_start

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
            is_warm = self.warm_start and hasattr(self, "coef_")
            X, y = self._checked(X, y, reset=True)  # noqa: N806
            check_classification_targets(y)
            self.classes_ = np.unique(y)
            coef_init = self.coef_ if coef_init is None and is_warm else coef_init
            intercept_init = self.intercept_ if intercept_init is None and is_warm else intercept_init
            start = self._start(X.shape[1], coef_init, intercept_init)
            trained = self._trained(
                X, y, sample_weight=sample_weight, start=start, progress=Progress(), num_epochs=self.max_iter
            )
            self._set(trained, 0, [], X.dtype)
        self._warn_if_not_converged(has_converged=all(each.has_converged for each in trained))
        return self

    @_fit_context(prefer_skip_nested_validation=True)  # type: ignore[untyped-decorator]
    def partial_fit(self, X: Matrix, y: Matrix, classes: Matrix = None, sample_weight: Matrix = None) -> Self:  # noqa: N803
        """One epoch on these examples; steps and epochs are counted on.

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
            is_first = not hasattr(self, "coef_")
            X, y = self._checked(X, y, reset=is_first)  # noqa: N806
            _check_partial_fit_first_call(self, classes)
            check_classification_targets(y)
            start = self._start(X.shape[1], *((None, None) if is_first else (self.coef_, self.intercept_)))
            progress = Progress() if is_first else Progress(int(self.t_) - 1, self._num_epochs)
            trained = self._trained(X, y, sample_weight=sample_weight, start=start, progress=progress, num_epochs=1)
            self._set(trained, progress.epoch, [] if is_first else self.loss_curve_, X.dtype)
        return self

    def decision_function(self, X: Matrix) -> Array:  # noqa: N803
        """Signed distances times the norm of the weights: (n,) for two classes, else (n, K)."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)  # noqa: N806
        scores = _outputs(X, Model(self.coef_, self.intercept_))
        return scores.ravel() if scores.shape[1] == 1 else scores

    def predict(self, X: Matrix) -> Array:  # noqa: N803
        """The label with the highest score, (n,)."""
        scores = self.decision_function(X)
        indices = (scores > 0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
        labels: Array = self.classes_[indices]
        return labels

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Matrix) -> Array:  # noqa: N803
        """Probabilities (n, K): the logistic function, normalised over one-against-rest models, or the softmax."""
        scores = self.decision_function(X)
        if scores.ndim == 1:
            positive = expit(scores)
            return np.column_stack([1 - positive, positive])
        if self.loss == "multinomial":
            probabilities: Array = softmax(scores, axis=1)
            return probabilities
        return _normalised(expit(scores))

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

    def _start(self, num_features: int, coef_init: Matrix, intercept_init: Matrix) -> list[Model]:
        """A model for each problem."""
        num_rows = self._num_rows()
        coef = _checked_init("coef_init", coef_init, (num_rows, num_features))
        intercept = _checked_init("intercept_init", intercept_init, (num_rows,))
        if self.loss != "multinomial":
            return [Model(coef[k], intercept[k : k + 1]) for k in range(num_rows)]
        if num_rows > 1:
            return [Model(coef, intercept)]
        # Errors of a softmax sum to zero, so the two classes have opposite weights, and coef_ is their difference.
        return [Model(np.concatenate([-coef, coef]) / 2, np.concatenate([-intercept, intercept]) / 2)]

    def _set(self, trained: list[Trained], first_epoch: int, curve: list[float], dtype: np.dtype[Any]) -> None:
        coef = np.concatenate([np.atleast_2d(each.model.weights) for each in trained])
        intercept = np.concatenate([each.model.intercepts for each in trained])
        if self.loss == "multinomial" and len(self.classes_) == _BINARY:
            coef, intercept = coef[1:] - coef[:1], intercept[1:] - intercept[:1]
        self.coef_, self.intercept_ = coef.astype(dtype), intercept.astype(dtype)
        longest = max(trained, key=lambda each: each.progress.epoch)
        self.n_iter_ = longest.progress.epoch - first_epoch
        self.t_ = 1.0 + longest.progress.step
        self.loss_curve_ = [*curve, *_mean_curve([each.curve for each in trained])]
        self._num_epochs = longest.progress.epoch

    # Training -----------------------------------------------------------------------------------------------------

    def _trained(
        self,
        X: Matrix,  # noqa: N803
        y: Array,
        *,
        sample_weight: Matrix,
        start: list[Model],
        progress: Progress,
        num_epochs: int,
    ) -> list[Trained]:
        seed, weights, labels = self._seed(), self._example_weights(sample_weight, X), self._labels(y)
        problems = self._problems(y, labels)
        training, held_out = self._split(X, labels, seed)
        X_training = X if held_out is None else X[training]  # noqa: N806
        norms = squared_norms(X_training)
        trained = []
        for k, (problem, model) in enumerate(zip(problems, start, strict=True)):
            stop = None
            if held_out is not None:
                score = _accuracy_on(X[held_out], problem.targets[held_out], weights[held_out])
                stop = Patience(score, self.tol, self.n_iter_no_change)
            example_weights = (weights * problem.class_weights)[training]
            examples = examples_of(problem.targets[training], example_weights, norms, fit_intercept=self.fit_intercept)
            trained.append(
                self._train(
                    X_training,
                    examples,
                    model,
                    loss=_LOSSES[self.loss],
                    seed=problem_seed(seed, k),
                    progress=progress,
                    num_epochs=num_epochs,
                    stop=stop,
                )
            )
        return trained

    def _labels(self, y: Array) -> Array:
        """The place of each label in `classes_`."""
        unknown = np.setdiff1d(y, self.classes_)
        if len(unknown):
            raise ValueError(f"y must hold labels out of classes {self.classes_}, got {unknown}")
        return np.searchsorted(self.classes_, y)

    def _problems(self, y: Array, labels: Array) -> list[_Problem]:
        class_weight = compute_class_weight(self.class_weight, classes=self.classes_, y=y)
        if self.loss == "multinomial":
            return [_Problem(labels.astype(np.float64), class_weight[labels])]
        if len(self.classes_) == _BINARY:
            return [_Problem(np.where(labels == 1, 1.0, -1.0), class_weight[labels])]
        return [
            _Problem(np.where(labels == k, 1.0, -1.0), np.where(labels == k, class_weight[k], 1.0))
            for k in range(len(self.classes_))
        ]

    def _split(self, X: Matrix, labels: Array, seed: int) -> tuple[Array | slice, Array | None]:  # noqa: N803
        """Indices to train on and indices to hold out for early stopping."""
        if not self.early_stopping:
            return slice(None), None
        split = StratifiedShuffleSplit(test_size=self.validation_fraction, random_state=seed)
        training, held_out = next(split.split(X, labels))
        return training, held_out


def _checked_init(name: str, values: Matrix, shape: tuple[int, ...]) -> Array:
    if values is None:
        return np.zeros(shape)
    array = np.asarray(values, dtype=np.float64)
    if array.size != np.prod(shape):
        raise ValueError(f"{name} must be of shape {shape}, got {array.shape}")
    return array.reshape(shape)


def _outputs(X: Matrix, model: Model) -> Array:  # noqa: N803
    outputs: Array = safe_sparse_dot(X, np.atleast_2d(model.weights).T, dense_output=True) + model.intercepts
    return outputs


def _accuracy_on(X: Matrix, targets: Array, weights: Array) -> Callable[[Model], float]:  # noqa: N803
    def accuracy(model: Model) -> float:
        outputs = _outputs(X, model)
        right = outputs.argmax(axis=1) == targets if outputs.shape[1] > 1 else (outputs[:, 0] > 0) == (targets > 0)
        return float(np.average(right, weights=weights))

    return accuracy


def _normalised(positive: Array) -> Array:
    """Rows that sum to one; a row of zeros becomes uniform."""
    totals = positive.sum(axis=1, keepdims=True)
    uniform = np.full_like(positive, 1 / positive.shape[1])
    normalised: Array = np.divide(positive, totals, out=uniform, where=totals > 0)
    return normalised


def _mean_curve(curves: list[list[float]]) -> list[float]:
    """The mean over several models, epoch by epoch; one that has stopped counts with its last value."""
    longest = max(map(len, curves))
    padded = [curve + curve[-1:] * (longest - len(curve)) for curve in curves]
    return [float(value) for value in np.mean(padded, axis=0)]
