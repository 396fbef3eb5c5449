"""What the regressor and the classifier share: parameters, data as it is trained on, a fit that is all or nothing."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, RealNotInt, StrOptions
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from gradorder.checks import part_of
from gradorder.orderings import Ordering
from gradorder.sklearn import learning_rates, orders
from gradorder.sklearn.compiled import Array, Rule
from gradorder.sklearn.training import (
    Model,
    Progress,
    Trained,
    Training,
    examples_of,
    first_averaged,
    squared_norms,
)

Matrix = Any
"""What scikit-learn takes: an array, a data frame, a sparse matrix."""

_LARGEST_SEED = 2**31 - 1

_INSTEAD = {
    "shuffle": "the order is random by default; write ordering='sequential' for shuffle=False",
    "verbose": "loss_curve_ has the objective of each epoch after the fit",
    "n_jobs": "a fit runs on one thread; write GridSearchCV(..., n_jobs=...) to fit several models at once",
    "learning_rate": "leave it out for a learning rate that suits the data, as 'optimal' does, or write schedule=",
    "power_t": "write schedule='inverse-sqrt-per-step', or a function of step and epoch",
}
"""Parameters of scikit-learn's SGD, and what to write here."""


@dataclass(frozen=True)
class Problem:
    """One model to train: all of a regressor, binary or softmax classifier, else one class against the rest."""

    targets: Array
    weights: Array
    """One per example."""
    stop: Callable[[Model], bool] | None = None
    """Early stopping: asked after each epoch."""


@dataclass(frozen=True)
class SoFar:
    """What training goes on from."""

    model: Model
    average: Model | None = None
    progress: Progress = Progress(step=0, epoch=0)  # noqa: RUF009 - a tuple
    curve: list[float] = field(default_factory=list)
    rows: learning_rates.SeenRows = learning_rates.SeenRows()  # noqa: RUF009 - a tuple
    """That the model was trained on."""
    is_stream: bool = False
    """Whether others may follow, as in `partial_fit`."""


class OrderedLinearModel(BaseEstimator, ABC):  # type: ignore[misc] # scikit-learn has no types
    """Parameters and data of both estimators."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "ordering": [StrOptions(set(orders.NAMED)), Ordering],
        "batch_size": [Interval(Integral, 1, None, closed="left"), Interval(RealNotInt, 0, 1, closed="right"), None],
        "keep": [Interval(Real, 0, 1, closed="right")],
        "start_epoch": [Interval(Integral, 0, None, closed="left")],
        "schedule": [StrOptions(set(learning_rates.NAMED)), callable, None],
        "eta0": [Interval(Real, 0, None, closed="neither"), None],
        "penalty": [StrOptions({"l2", "l1", "elasticnet"}), None],
        "alpha": [Interval(Real, 0, None, closed="left")],
        "l1_ratio": [Interval(Real, 0, 1, closed="both")],
        "fit_intercept": ["boolean"],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left"), None],
        "early_stopping": ["boolean"],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
        "warm_start": ["boolean"],
        "average": [Interval(Integral, 0, None, closed="left"), "boolean"],
    }

    coef_: Matrix
    intercept_: Array

    def __new__(cls, *args: object, **params: object) -> Self:  # noqa: ARG004 - those of __init__
        """Say what to write instead of the parameters that scikit-learn's SGD has and these estimators do not."""
        for name in params.keys() & _INSTEAD.keys():
            raise TypeError(f"{cls.__name__} has no parameter {name}: {_INSTEAD[name]}")
        instance: Self = super().__new__(cls)
        return instance

    def __sklearn_tags__(self) -> Any:  # noqa: ANN401 - scikit-learn has no types
        """Sparse input is welcome."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def sparsify(self) -> Self:
        """Store `coef_` as a CSR matrix with a row for each output, which saves memory where most weights are zero."""
        check_is_fitted(self)
        self.coef_ = sp.csr_matrix(np.atleast_2d(_dense(self.coef_)))
        return self

    def densify(self) -> Self:
        """Store `coef_` as an array again."""
        check_is_fitted(self)
        self.coef_ = self._joined(self._split(Model(_dense(self.coef_), self.intercept_))).weights
        return self

    def _checked(self, X: Matrix, y: Matrix, *, reset: bool, **y_rule: Any) -> tuple[Matrix, Array]:  # noqa: ANN401, N803
        X, y = validate_data(  # noqa: N806
            self,
            X,
            y,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            order="C",
            accept_large_sparse=False,
            reset=reset,
            **y_rule,
        )
        if sp.issparse(X) and not X.has_canonical_format:
            X = X.copy()  # noqa: N806
            X.sum_duplicates()
        return X, y

    def _example_weights(self, sample_weight: Matrix, X: Matrix) -> Array:  # noqa: N803
        weights: Array = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        return weights

    def _seed(self) -> int:
        """One number from `random_state`; where that is None a new one, numpy's global state left alone."""
        if self.random_state is None:
            return int(np.random.SeedSequence().generate_state(1)[0])
        return int(check_random_state(self.random_state).randint(_LARGEST_SEED))

    def _refuse_for_partial_fit(self) -> None:
        if self.early_stopping:
            raise ValueError("early_stopping must be False for partial_fit, which is one epoch, got True")
        if orders.ordering_of(self.ordering)[1]:
            raise ValueError(
                f"ordering must not be FlipFlop for partial_fit, which has no epoch before it, got {self.ordering!r}"
            )

    # Between coef_ and the models that are trained ----------------------------------------------------------------

    @abstractmethod
    def _split(self, model: Model) -> list[Model]:
        """A model for each problem from one as in `coef_` and `intercept_`."""

    @abstractmethod
    def _joined(self, models: list[Model]) -> Model:
        """The other way round."""

    def _start(self, shape: tuple[int, ...], coef_init: Matrix, intercept_init: Matrix) -> Model:
        """Where `fit` starts; `shape` is that of `coef_`."""
        is_warm = self.warm_start and hasattr(self, "coef_")
        coef_init = _dense(self.coef_) if coef_init is None and is_warm else coef_init
        intercept_init = self.intercept_ if intercept_init is None and is_warm else intercept_init
        num_outputs = shape[:-1] or (1,)
        return Model(
            _checked_init("coef_init", coef_init, shape), _checked_init("intercept_init", intercept_init, num_outputs)
        )

    def _so_far(self, shape: tuple[int, ...]) -> SoFar:
        """Where `partial_fit` goes on."""
        if not hasattr(self, "coef_"):
            return SoFar(Model(np.zeros(shape), np.zeros(shape[:-1] or 1)), is_stream=True)
        model = Model(_dense(self.coef_), self.intercept_)
        progress = Progress(int(self.t_) - 1, self._num_epochs)
        return SoFar(self._unaveraged or model, model, progress, self.loss_curve_, self._rows, is_stream=True)

    def _set(self, trained: list[Trained], so_far: SoFar, dtype: np.dtype[Any]) -> None:
        last = self._joined([each.model for each in trained])
        shown = self._joined([each.average or each.model for each in trained])
        self.coef_, self.intercept_ = (each.astype(dtype) for each in shown)
        self._unaveraged = last if any(each.average for each in trained) else None
        longest = max(trained, key=lambda each: each.progress.epoch)
        self.n_iter_ = longest.progress.epoch - so_far.progress.epoch
        self.t_ = 1.0 + longest.progress.step
        self.loss_curve_ = [*so_far.curve, *_mean_curve([each.curve for each in trained])]
        self._num_epochs = longest.progress.epoch

    # Training -----------------------------------------------------------------------------------------------------

    def _train(
        self,
        X: Matrix,  # noqa: N803
        problems: list[Problem],
        so_far: SoFar,
        *,
        loss: int,
        seed: int,
        num_epochs: int,
    ) -> list[Trained]:
        """All problems on the same rows."""
        norms = squared_norms(X)
        averages = self._split(so_far.average) if so_far.average else [None] * len(problems)
        trained = []
        for k, (problem, model, average) in enumerate(zip(problems, self._split(so_far.model), averages, strict=True)):
            examples = examples_of(problem.targets, problem.weights, norms, fit_intercept=self.fit_intercept)
            self._rows = so_far.rows.and_then(loss, examples)  # the same for every problem
            rates = learning_rates.learning_rates_of(
                self.schedule, self.eta0, self._rows.eta0(loss), None if so_far.is_stream else len(examples)
            )
            rule, ordering = self._rule(len(examples), loss, problem_seed(seed, k), rates)
            if problem.stop:
                rule = rule._replace(tol=-np.inf)
            training = Training(X, examples, model, average, rule, ordering, rates, so_far.progress)
            trained.append(training.run(num_epochs, problem.stop))
        return trained

    def _rule(
        self, num_examples: int, loss: int, key: int, rates: learning_rates.LearningRates
    ) -> tuple[Rule, Ordering]:
        ordering, flips = orders.ordering_of(self.ordering)
        orders.check(ordering, num_examples, float(self.keep), int(self.start_epoch), flips=flips)
        alpha = float(self.alpha) if self.penalty else 0.0
        l1_ratio = {"l1": 1.0, "elasticnet": float(self.l1_ratio)}.get(self.penalty, 0.0)
        rule = Rule(
            loss=loss,
            epsilon=float(getattr(self, "epsilon", 0.0)),
            l2=alpha * (1 - l1_ratio),
            l1=alpha * l1_ratio,
            fit_intercept=bool(self.fit_intercept),
            order=orders.order_code(ordering),
            flip_flop=flips,
            batch_size=self._batch_size(num_examples),
            keep=float(self.keep),
            start_epoch=int(self.start_epoch),
            first_averaged=first_averaged(self.average),
            key=np.uint64(key),
            tol=-np.inf if self.tol is None else float(self.tol),
            patience=int(self.n_iter_no_change),
            **learning_rates.formula_of(rates)._asdict(),
        )
        return rule, ordering

    def _batch_size(self, num_examples: int) -> int:
        if self.batch_size is None:
            return 0
        if isinstance(self.batch_size, Integral):
            return min(int(self.batch_size), num_examples)
        return part_of(float(self.batch_size), num_examples)

    def _warn_if_not_converged(self, trained: list[Trained]) -> None:
        if self.tol is not None and not all(each.has_converged for each in trained):
            warnings.warn(
                f"{type(self).__name__} did not converge within max_iter={self.max_iter} epochs: "
                "use a larger max_iter, or tol=None to train for just so many",
                ConvergenceWarning,
                stacklevel=3,
            )

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """A fit that fails leaves the estimator as it was."""
        before = dict(self.__dict__)
        try:
            yield
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise


class Patience:
    """Early stopping: no progress of more than `tol` on held-out examples for so many epochs."""

    def __init__(self, score: Callable[[Model], float], tol: float | None, num_epochs: int) -> None:
        self.score, self.tol, self.num_epochs = score, -np.inf if tol is None else tol, num_epochs
        self.best, self.num_without_progress = -np.inf, 0

    def __call__(self, model: Model) -> bool:
        """Whether to stop with this model."""
        score = self.score(model)
        has_progress = not score < self.best + self.tol
        self.num_without_progress = 0 if has_progress else self.num_without_progress + 1
        self.best = max(self.best, score)
        return self.tol > -np.inf and self.num_without_progress >= self.num_epochs


def held_out_weights(weights: Array) -> Array:
    """The sample weights of held-out examples, which have no score where all are zero."""
    if not weights.any():
        raise ValueError(
            f"sample_weight must not be zero for all {len(weights)} examples that early_stopping holds out: "
            "leave out examples of weight zero, or use a larger validation_fraction"
        )
    return weights


def problem_seed(seed: int, problem: int) -> int:
    """The seed of one of the models of a fit, 64 bits."""
    return int(np.random.SeedSequence((seed, problem)).generate_state(1, np.uint64)[0])


def outputs_of(X: Matrix, model: Model) -> Array:  # noqa: N803
    """X W^T + b, (n, K)."""
    weights = model.weights if sp.issparse(model.weights) else np.atleast_2d(model.weights)
    outputs: Array = safe_sparse_dot(X, weights.T, dense_output=True) + model.intercepts
    return outputs


def _dense(coef: Matrix) -> Array:
    dense: Array = coef.toarray() if sp.issparse(coef) else coef
    return dense


def _checked_init(name: str, values: Matrix, shape: tuple[int, ...]) -> Array:
    if values is None:
        return np.zeros(shape)
    array = np.asarray(values, dtype=np.float64)
    if _longer_than_one(array.shape) != _longer_than_one(shape):
        raise ValueError(f"{name} must be of shape {shape}, got {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite, got {array[~np.isfinite(array)][0]}")
    return array.reshape(shape)


def _longer_than_one(shape: tuple[int, ...]) -> list[int]:
    """A vector may lie or stand; a matrix may not."""
    return [length for length in shape if length != 1]


def _mean_curve(curves: list[list[float]]) -> list[float]:
    """The mean over several models, epoch by epoch; one that has stopped counts with its last value."""
    longest = max(map(len, curves))
    padded = [curve + curve[-1:] * (longest - len(curve)) for curve in curves]
    return [float(value) for value in np.mean(padded, axis=0)]
