"""Linear regression by ordered SGD."""

from collections.abc import Callable
from numbers import Real
from typing import Any, ClassVar, Self, final

import numpy as np
from sklearn.base import RegressorMixin, _fit_context
from sklearn.metrics import r2_score
from sklearn.model_selection import ShuffleSplit
from sklearn.utils._param_validation import Interval, StrOptions
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

_LOSSES = {"squared_error": compiled.SQUARED_ERROR, "huber": compiled.HUBER, "quartic": compiled.QUARTIC}


@final
class OrderedSGDRegressor(RegressorMixin, OrderedLinearModel):  # type: ignore[misc] # scikit-learn has no types
    """Linear regression trained by SGD, one example at a time, in an order of your choice (Algorithms 1 and 2).

    As scikit-learn's `SGDRegressor`, with an order; random by default, the paper's is `ordering="descending"`. With
    r = w.x + b - y the losses are r^2 / 2 ("squared_error"), the same up to |r| = epsilon and linear beyond ("huber"),
    and r^4 + r^2 ("quartic", the paper's).

    An example's score is the exact norm of the gradient of its weighted loss at the current weights, without the
    penalty: weight_i |loss'| sqrt(||x_i||^2 + 1).

    Args:
        loss: "squared_error", "huber" or "quartic".
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
        eta0: the initial learning rate. The default is 0.1 / mean_i(s_i), s_i = weight_i (||x_i||^2 + 1), but no more
            than 1 / max_i(s_i), so that one update never overshoots; for "quartic" over 12 max y^2 + 2. A schedule
            object has its own, so leave `eta0` out then.
        penalty: "l2", alpha / 2 ||w||^2; "l1", alpha ||w||_1, which makes weights zero; "elasticnet", both, with
            `l1_ratio`; or None. The intercept has none.
        alpha: of the penalty.
        l1_ratio: of "elasticnet", the part of alpha that is the L1 penalty's.
        epsilon: of the Huber loss.
        fit_intercept: whether to have one.
        max_iter: the most epochs.
        tol: training ends when the objective has not fallen by more than this for `n_iter_no_change` epochs; None for
            exactly `max_iter` epochs.
        early_stopping: look at the R^2 of held-out examples in place of the objective.
        validation_fraction: how many to hold out.
        n_iter_no_change: see `tol`.
        random_state: a seed, a `RandomState`, or None for a new seed every time; numpy's global state is never used.
        warm_start: `fit` goes on from the last model.
        average: True for the mean of the weights after each update as `coef_`, or a number S for that of the updates
            from the S-th on; until then `coef_` is the last weights.

    Attributes:
        coef_: (d,).
        intercept_: (1,).
        n_iter_: epochs of the last fit.
        t_: one more than the number of updates.
        loss_curve_: the mean objective of each epoch as training saw it: each example's loss just before its update,
            averaged with the examples' weights, and the penalty.
        n_features_in_: d.
        feature_names_in_: the columns of a data frame.

    Example:
        >>> inputs = np.array([[0.0], [1.0], [2.0], [3.0]])
        >>> model = OrderedSGDRegressor(schedule="constant", eta0=0.1, alpha=0, tol=1e-12)
        >>> _ = model.fit(inputs, [1.0, 3.0, 5.0, 7.0])
        >>> model.predict([[4.0]]).round(2)
        array([9.])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **OrderedLinearModel._parameter_constraints,  # noqa: SLF001 - of the class itself
        "loss": [StrOptions(set(_LOSSES))],
        "epsilon": [Interval(Real, 0, None, closed="neither")],
    }

    def __init__(
        self,
        loss: str = "squared_error",
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
        epsilon: float = 0.1,
        fit_intercept: bool = True,
        max_iter: int = 1000,
        tol: float | None = 1e-3,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 5,
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
        self.epsilon = epsilon
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
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
            y: (n,).
            coef_init: (d,), where to start; zeros if not given, with `warm_start` the last model.
            intercept_init: a number, likewise.
            sample_weight: (n,), not negative.
        """
        with self._all_or_nothing():
            X, y = self._checked(X, y, reset=True, y_numeric=True)  # noqa: N806
            so_far = SoFar(self._start((X.shape[1],), coef_init, intercept_init))
            trained = self._trained(X, y, sample_weight, so_far, self.max_iter)
            self._set(trained, so_far, X.dtype)
        self._warn_if_not_converged(trained)
        return self

    @_fit_context(prefer_skip_nested_validation=True)  # type: ignore[untyped-decorator]
    def partial_fit(self, X: Matrix, y: Matrix, sample_weight: Matrix = None) -> Self:  # noqa: N803
        """One epoch on these examples; steps and epochs are counted on.

        The default learning rate depends on the rows of all calls so far, not on how they are cut into calls.

        Args:
            X: (n, d).
            y: (n,).
            sample_weight: (n,), not negative.
        """
        self._refuse_for_partial_fit()
        with self._all_or_nothing():
            X, y = self._checked(X, y, reset=not hasattr(self, "coef_"), y_numeric=True)  # noqa: N806
            so_far = self._so_far((X.shape[1],))
            self._set(self._trained(X, y, sample_weight, so_far, 1), so_far, X.dtype)
        return self

    def predict(self, X: Matrix) -> Array:  # noqa: N803
        """X w + b, of shape (n,)."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)  # noqa: N806
        return outputs_of(X, Model(self.coef_, self.intercept_)).ravel()

    def _trained(
        self,
        X: Matrix,  # noqa: N803
        y: Array,
        sample_weight: Matrix,
        so_far: SoFar,
        num_epochs: int,
    ) -> list[Trained]:
        y, weights, seed = y.astype(np.float64), self._example_weights(sample_weight, X), self._seed()
        stop = None
        if self.early_stopping:
            split = ShuffleSplit(test_size=self.validation_fraction, random_state=seed)
            training, held_out = next(split.split(X))
            score = _r2_on(X[held_out], y[held_out], held_out_weights(weights[held_out]))
            stop = Patience(score, self.tol, self.n_iter_no_change)
            X, y, weights = X[training], y[training], weights[training]  # noqa: N806
        problem = Problem(y, weights, stop)
        return self._train(X, [problem], so_far, loss=_LOSSES[self.loss], seed=seed, num_epochs=num_epochs)

    def _split(self, model: Model) -> list[Model]:
        return [Model(model.weights.reshape(-1), model.intercepts)]

    def _joined(self, models: list[Model]) -> Model:
        return models[0]


def _r2_on(X: Matrix, y: Array, weights: Array) -> Callable[[Model], float]:  # noqa: N803
    return lambda model: float(r2_score(y, outputs_of(X, model).ravel(), sample_weight=weights))
