"""What the regressor and the classifier share: parameters, data as it is trained on, a fit that is all or nothing."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, RealNotInt, StrOptions
from sklearn.utils.validation import _check_sample_weight, validate_data

from gradorder.orderings import Ordering
from gradorder.sklearn import compiled, order_rules, step_sizes
from gradorder.sklearn.compiled import Array, Examples, Rule
from gradorder.sklearn.training import Model, Progress, Trained, Training

Matrix = Any
"""What scikit-learn takes: an array, a data frame, a sparse matrix."""

_LARGEST_SEED = 2**31 - 1


class OrderedLinearModel(BaseEstimator):  # type: ignore[misc] # scikit-learn has no types
    """Parameters and data of both estimators."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "ordering": [StrOptions(set(order_rules.NAMED)), Ordering],
        "batch_size": [Interval(Integral, 1, None, closed="left"), Interval(RealNotInt, 0, 1, closed="right"), None],
        "keep": [Interval(Real, 0, 1, closed="right")],
        "start_epoch": [Interval(Integral, 0, None, closed="left")],
        "schedule": [StrOptions(set(step_sizes.NAMED)), callable, None],
        "eta0": [Interval(Real, 0, None, closed="neither"), None],
        "penalty": [StrOptions({"l2"}), None],
        "alpha": [Interval(Real, 0, None, closed="left")],
        "fit_intercept": ["boolean"],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left"), None],
        "early_stopping": ["boolean"],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
        "warm_start": ["boolean"],
    }

    def __sklearn_tags__(self) -> Any:  # noqa: ANN401 - scikit-learn has no types
        """Sparse input is welcome."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

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
        if order_rules.ordering_of(self.ordering)[1]:
            raise ValueError(
                f"ordering must not be FlipFlop for partial_fit, which has no epoch before it, got {self.ordering!r}"
            )

    def _train(
        self,
        X: Matrix,  # noqa: N803
        examples: Examples,
        model: Model,
        *,
        loss: int,
        seed: int,
        progress: Progress,
        num_epochs: int,
        stop: Callable[[Model], bool] | None = None,
    ) -> Trained:
        num_examples = X.shape[0]
        ordering, flips = order_rules.ordering_of(self.ordering)
        order_rules.check(ordering, num_examples, float(self.keep), int(self.start_epoch))
        default = step_sizes.default_eta0(_curvature(loss, examples), _largest_square(examples))
        sizes = step_sizes.step_sizes_of(self.schedule, self.eta0, default, num_examples)
        rule = Rule(
            loss=loss,
            epsilon=float(getattr(self, "epsilon", 0.0)),
            alpha=float(self.alpha) if self.penalty else 0.0,
            fit_intercept=bool(self.fit_intercept),
            order=order_rules.order_code(ordering),
            flip_flop=flips,
            batch_size=self._batch_size(num_examples),
            keep=float(self.keep),
            start_epoch=int(self.start_epoch),
            key=np.uint64(seed),
            tol=-np.inf if self.tol is None or stop else float(self.tol),
            patience=int(self.n_iter_no_change),
            **step_sizes.formula_of(sizes)._asdict(),
        )
        return Training(X, examples, model, rule, ordering, sizes, progress).run(num_epochs, stop)

    def _batch_size(self, num_examples: int) -> int:
        if self.batch_size is None:
            return 0
        if isinstance(self.batch_size, Integral):
            return min(int(self.batch_size), num_examples)
        return compiled.num_kept(float(self.batch_size), num_examples)

    def _warn_if_not_converged(self, *, has_converged: bool) -> None:
        if self.tol is not None and not has_converged:
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


def problem_seed(seed: int, problem: int) -> int:
    """The seed of one of the models of a fit, 64 bits."""
    return int(np.random.SeedSequence((seed, problem)).generate_state(1, np.uint64)[0])


def _curvature(loss: int, examples: Examples) -> float:
    """The second derivative of a regression loss by the prediction, of the quartic loss where the prediction is 0.

    Zero for the losses of the classifiers: their gradients are bounded, and they do not diverge.
    """
    if loss == compiled.QUARTIC:
        return 12.0 * float(np.max(np.square(examples.targets))) + 2.0
    return 1.0 if loss in {compiled.SQUARED_ERROR, compiled.HUBER} else 0.0


def _largest_square(examples: Examples) -> float:
    return float(np.max(examples.weights * (examples.squared_norms + 1.0)))
