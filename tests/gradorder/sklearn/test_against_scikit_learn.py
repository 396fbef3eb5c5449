"""Where both do the same, both must give the same: scikit-learn's SGD without shuffling, constant steps."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import SGDClassifier, SGDRegressor

from gradorder.sklearn import OrderedSGDClassifier, OrderedSGDRegressor

pytestmark = pytest.mark.slow  # it compiles several variants of the loop, unless numba's cache has them

RNG = np.random.default_rng(3)
INPUTS = RNG.standard_normal((300, 11))
TARGETS = INPUTS @ RNG.standard_normal(11) + RNG.standard_normal(300)
LABELS = np.digitize(TARGETS, [-1.5, 1.5])
EXAMPLE_WEIGHTS = RNG.uniform(0.1, 2, 300)


def pair(loss, **params):
    ours, theirs = (
        (OrderedSGDRegressor, SGDRegressor)
        if loss in {"squared_error", "huber"}
        else (OrderedSGDClassifier, SGDClassifier)
    )
    params = {"eta0": 0.004, "alpha": 0.01, "tol": None, "max_iter": 7, **params}
    return (
        ours(loss, ordering="sequential", schedule="constant", **params),
        theirs(loss, shuffle=False, learning_rate="constant", **params),
    )


def assert_same(ours, theirs, rtol=1e-10, *, counts=True):
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=rtol, atol=1e-13)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, rtol=rtol, atol=1e-13)
    assert ours.coef_.shape == theirs.coef_.shape
    assert ours.intercept_.shape == theirs.intercept_.shape
    assert ours.t_ == theirs.t_
    assert ours.n_iter_ == theirs.n_iter_ or not counts


@pytest.mark.parametrize("weights", [None, EXAMPLE_WEIGHTS], ids=["", "weighted"])
@pytest.mark.parametrize("penalty", ["l2", "l1", "elasticnet", None])
@pytest.mark.parametrize("loss", ["squared_error", "huber", "log_loss", "hinge", "modified_huber"])
def test_the_same_weights(loss, penalty, weights):
    targets = TARGETS if loss in {"squared_error", "huber"} else TARGETS > 0
    ours, theirs = pair(loss, penalty=penalty)
    ours.fit(INPUTS, targets, sample_weight=weights)
    theirs.fit(INPUTS, targets, sample_weight=weights)
    assert_same(ours, theirs)
    np.testing.assert_allclose(ours.predict(INPUTS), theirs.predict(INPUTS))


@pytest.mark.parametrize("loss", ["log_loss", "hinge", "modified_huber"])
def test_one_class_against_the_rest(loss):
    ours, theirs = (each.fit(INPUTS, LABELS) for each in pair(loss, class_weight={0: 2.0, 1: 1.0, 2: 0.5}))
    assert_same(ours, theirs)
    np.testing.assert_allclose(ours.decision_function(INPUTS), theirs.decision_function(INPUTS))
    if loss != "hinge":
        np.testing.assert_allclose(ours.predict_proba(INPUTS), theirs.predict_proba(INPUTS))
    if loss == "log_loss":
        np.testing.assert_allclose(ours.predict_log_proba(INPUTS), theirs.predict_log_proba(INPUTS))


def test_balanced_classes():
    assert_same(*(each.fit(INPUTS, TARGETS > 1) for each in pair("log_loss", class_weight="balanced")))


def test_sparse_rows_without_intercept():
    """With one scikit-learn learns the intercept of sparse data a hundred times slower; here it does not matter."""
    sparse = sp.csr_matrix(np.where(np.abs(INPUTS) > 1, INPUTS, 0))
    for loss, targets in [("squared_error", TARGETS), ("log_loss", TARGETS > 0)]:
        for penalty in ("l2", "l1", "elasticnet"):
            assert_same(*(each.fit(sparse, targets) for each in pair(loss, fit_intercept=False, penalty=penalty)))


@pytest.mark.parametrize("average", [True, 1, 450, 10_000])
@pytest.mark.parametrize("loss", ["squared_error", "hinge"])
def test_the_same_average(loss, average):
    targets = TARGETS if loss == "squared_error" else LABELS
    assert_same(*(each.fit(INPUTS, targets) for each in pair(loss, average=average)))


def test_the_average_of_parts():
    """Scikit-learn's classifiers lose their last intercept between the parts."""
    ours, theirs = pair("squared_error", average=100)
    for begin in range(0, 300, 60):
        for each in (ours, theirs):
            each.partial_fit(INPUTS[begin : begin + 60], TARGETS[begin : begin + 60])
        assert_same(ours, theirs)
    ours, _ = pair("hinge", average=100, max_iter=3)
    at_once = clone(ours).fit(INPUTS, LABELS)
    for _ in range(3):
        ours.partial_fit(INPUTS, LABELS, classes=[0, 1, 2])
    assert_same(ours, at_once, counts=False)


def test_a_sparse_model_predicts_the_same():
    for loss, targets in [("squared_error", TARGETS), ("hinge", LABELS)]:
        ours, theirs = (each.fit(INPUTS, targets) for each in pair(loss, penalty="l1", alpha=0.1))
        before, dense = ours.predict(INPUTS), ours.coef_
        for each in (ours, theirs):
            assert sp.issparse(each.sparsify().coef_)
        assert 0 < ours.coef_.nnz == theirs.coef_.nnz < np.prod(ours.coef_.shape)
        np.testing.assert_allclose(ours.predict(INPUTS), before)
        np.testing.assert_allclose(ours.predict(sp.csr_array(INPUTS)), before)
        np.testing.assert_array_equal(ours.densify().coef_, dense)
        ours.sparsify().partial_fit(INPUTS, targets)  # which scikit-learn does not do
        assert not sp.issparse(ours.coef_)


def test_partial_fit_counts_on():
    ours, theirs = pair("squared_error")
    for begin in range(0, 300, 60):
        ours.partial_fit(INPUTS[begin : begin + 60], TARGETS[begin : begin + 60])
        theirs.partial_fit(INPUTS[begin : begin + 60], TARGETS[begin : begin + 60])
    assert_same(ours, theirs)
    ours, theirs = pair("hinge")
    for begin in range(0, 300, 60):
        ours.partial_fit(INPUTS[begin : begin + 60], LABELS[begin : begin + 60], classes=[0, 1, 2])
        theirs.partial_fit(INPUTS[begin : begin + 60], LABELS[begin : begin + 60], classes=[0, 1, 2])
    assert_same(ours, theirs)


def stops_by_the_objective():
    """Whether scikit-learn's tol is of the objective, as ours is: that of 1.6 is of the loss without the penalty.

    All losses are zero here, while the penalty goes on falling.
    """
    model = SGDRegressor(alpha=0.1, learning_rate="constant", eta0=0.1, tol=1e-3, max_iter=40)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(np.zeros((10, 1)), np.zeros(10), coef_init=[10.0])
    return model.n_iter_ > 20


@pytest.mark.parametrize("penalty", ["l2", None])
@pytest.mark.parametrize("loss", ["squared_error", "log_loss"])
@pytest.mark.parametrize("tol", [1e-2, 1e-3, 1e-5])
def test_it_stops_in_the_same_epoch(loss, tol, penalty):
    if penalty is not None and not stops_by_the_objective():
        pytest.skip("this scikit-learn stops by the loss without the penalty")
    targets = TARGETS if loss == "squared_error" else LABELS
    ours, theirs = (each.fit(INPUTS, targets) for each in pair(loss, tol=tol, max_iter=1000, penalty=penalty))
    assert_same(ours, theirs)
    assert 5 < ours.n_iter_ < 1000
    assert len(ours.loss_curve_) == ours.n_iter_


def test_it_warns_where_scikit_learn_warns():
    for estimator in pair("squared_error", tol=1e-9, max_iter=3):
        with pytest.warns(ConvergenceWarning, match="max_iter"):
            estimator.fit(INPUTS, TARGETS)


def test_float32():
    ours, theirs = (each.fit(INPUTS.astype(np.float32), TARGETS.astype(np.float32)) for each in pair("squared_error"))
    assert_same(ours, theirs, rtol=1e-4)
    assert ours.coef_.dtype == theirs.coef_.dtype == np.float32
    assert ours.predict(INPUTS.astype(np.float32)).dtype == np.float32


@pytest.mark.parametrize("name", ["coef_init", "intercept_init"])
def test_where_to_start(name):
    value = {"coef_init": np.ones(11), "intercept_init": np.array([2.0])}[name]
    assert_same(*(each.fit(INPUTS, TARGETS, **{name: value}) for each in pair("squared_error")))
    value = {"coef_init": np.ones((3, 11)), "intercept_init": np.ones(3)}[name]
    assert_same(*(each.fit(INPUTS, LABELS, **{name: value}) for each in pair("hinge")))
    for estimator in (pair("squared_error")[0], pair("hinge")[0]):
        with pytest.raises(ValueError, match=f"{name} must be"):
            estimator.fit(INPUTS, LABELS, **{name: np.ones(7)})


def test_warm_start_goes_on_from_the_last_model():
    ours, theirs = pair("squared_error", warm_start=True)
    for _ in range(3):
        ours.fit(INPUTS, TARGETS)
        theirs.fit(INPUTS, TARGETS)
    assert_same(ours, theirs)
    multinomial = OrderedSGDClassifier(
        "multinomial", ordering="sequential", schedule="constant", tol=None, max_iter=4, warm_start=True
    )
    at_once = OrderedSGDClassifier("multinomial", ordering="sequential", schedule="constant", tol=None, max_iter=8)
    for labels in (LABELS, TARGETS > 0):
        multinomial.__dict__.pop("coef_", None)
        multinomial.fit(INPUTS, labels).fit(INPUTS, labels)
        at_once.fit(INPUTS, labels)
        np.testing.assert_allclose(multinomial.coef_, at_once.coef_, rtol=1e-12)
