import importlib
import pickle
import sys
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.base import clone
from sklearn.datasets import load_digits, make_classification
from sklearn.linear_model import LogisticRegression, SGDClassifier, SGDRegressor

import gradorder as go
from gradorder.sklearn import OrderedSGDClassifier, OrderedSGDRegressor

RNG = np.random.default_rng(0)
INPUTS = RNG.standard_normal((200, 5))
TARGETS = INPUTS @ RNG.standard_normal(5) + 0.5 * RNG.standard_normal(200)
ESTIMATORS = [
    (OrderedSGDRegressor(tol=None, max_iter=3, random_state=0, ordering="random"), TARGETS),
    (OrderedSGDClassifier(tol=None, max_iter=3, random_state=0, ordering="random"), TARGETS > 0),
]
both = pytest.mark.parametrize(("estimator", "targets"), ESTIMATORS, ids=["regressor", "classifier"])


# Divergence -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ordering", ["descending", "random", "plackett-luce"])
@pytest.mark.parametrize("params", [{}, {"batch_size": 20, "keep": 0.5}], ids=str)
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_divergence_is_an_error_that_names_the_learning_rate(ordering, params, make):
    estimator = OrderedSGDRegressor("quartic", ordering=ordering, eta0=7.25, schedule="constant", **params)
    with pytest.raises(ValueError, match=r"diverged.*7\.25.*eta0"):
        estimator.fit(make(INPUTS), TARGETS)
    assert not hasattr(estimator, "coef_")


@pytest.mark.parametrize("ordering", ["descending", "plackett-luce"])
@pytest.mark.parametrize("params", [{}, {"batch_size": 20, "keep": 0.5}], ids=str)
def test_scores_that_are_not_finite(ordering, params):
    model = OrderedSGDRegressor(ordering=ordering, schedule=go.Constant(0.5), **params)
    with pytest.raises(ValueError, match=r"diverged.*step 0 \(epoch 0\).*0\.5 "):
        model.fit(INPUTS, TARGETS, coef_init=np.full(5, 1.7e308))


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize(("place", "step"), [(7, 8), (199, 199)], ids=["in the middle", "at the last step"])
def test_divergence_is_found_at_the_next_step(place, step, make):
    inputs, targets = INPUTS.copy(), np.zeros(200)
    inputs[place], targets[place] = 1e150, 1e150  # the update is too large for a float, the prediction is not
    model = OrderedSGDRegressor("quartic", ordering="sequential", schedule=go.Constant(0.5), tol=None, max_iter=1)
    with pytest.raises(ValueError, match=rf"diverged.* at step {step} \(epoch 0\)"):
        model.fit(make(inputs), targets)


@both
def test_a_fit_that_fails_changes_nothing(estimator, targets):
    fitted = clone(estimator).fit(INPUTS, targets)
    before = {name: np.copy(value) for name, value in vars(fitted).items() if name not in estimator.get_params()}
    if isinstance(fitted, OrderedSGDRegressor):
        wrong = np.where(np.arange(200) == 100, 1e200, INPUTS[:, 0])[:, None]
        fitted.set_params(loss="quartic", eta0=1.0)
    else:
        wrong = INPUTS[:, :1]
        fitted.set_params(eta0=1e308, penalty=None)
    for method in (fitted.fit, fitted.partial_fit):
        with pytest.raises(ValueError, match=r"diverged|features"):
            method(wrong * 9, targets)
    after = {name: value for name, value in vars(fitted).items() if name not in estimator.get_params()}
    assert before.keys() == after.keys()
    for name, value in before.items():
        np.testing.assert_array_equal(value, after[name])


# Randomness -------------------------------------------------------------------------------------------------------


@both
def test_randomness_is_the_seeds(estimator, targets):
    def coef(seed):
        return clone(estimator).set_params(random_state=seed).fit(INPUTS, targets).coef_

    np.testing.assert_array_equal(coef(1), coef(1))
    np.testing.assert_array_equal(coef(1), coef(np.random.RandomState(1)))
    assert not np.array_equal(coef(1), coef(2))
    assert not np.array_equal(coef(None), coef(None))


# Early stopping ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["squared_error", "log_loss", "hinge", "multinomial"])
def test_early_stopping_looks_at_held_out_examples(loss):
    is_regressor = loss == "squared_error"
    targets = TARGETS if is_regressor else np.digitize(TARGETS, [-1, 1] if loss == "multinomial" else [0])
    make = OrderedSGDRegressor if is_regressor else OrderedSGDClassifier
    estimator = make(loss, early_stopping=True, n_iter_no_change=3, random_state=0, validation_fraction=0.25)
    estimator.fit(INPUTS, targets)
    assert 3 < estimator.n_iter_ < 1000
    assert estimator.t_ == 1 + estimator.n_iter_ * 150
    assert estimator.score(INPUTS, targets) > 0.7
    patient = clone(estimator).set_params(n_iter_no_change=10).fit(INPUTS, targets)
    assert patient.n_iter_ >= estimator.n_iter_ + 7


def test_partial_fit_refuses_what_needs_more_than_one_epoch():
    with pytest.raises(ValueError, match="early_stopping must be False"):
        OrderedSGDRegressor(early_stopping=True).partial_fit(INPUTS, TARGETS)
    with pytest.raises(ValueError, match="FlipFlop"):
        OrderedSGDRegressor(ordering=go.FlipFlop(go.Descending())).partial_fit(INPUTS, TARGETS)
    with pytest.raises(ValueError, match="balanced"):
        OrderedSGDClassifier(class_weight="balanced").partial_fit(INPUTS, TARGETS > 0, classes=[False, True])
    with pytest.raises(ValueError, match=r"classes \[0 1\].*\[2\]"):
        OrderedSGDClassifier().partial_fit(INPUTS, np.full(200, 2), classes=[0, 1])


def test_partial_fit_counts_epochs_for_schedule_and_start():
    estimator = OrderedSGDRegressor(ordering="sequential", schedule="inverse-per-epoch", eta0=0.01, start_epoch=0)
    for _ in range(3):
        estimator.partial_fit(INPUTS, TARGETS)
    at_once = clone(estimator).set_params(tol=None, max_iter=3).fit(INPUTS, TARGETS)
    np.testing.assert_allclose(estimator.coef_, at_once.coef_, rtol=1e-12)
    np.testing.assert_allclose(estimator.loss_curve_, at_once.loss_curve_, rtol=1e-12)
    assert estimator.t_ == at_once.t_ == 601


def in_parts(estimator, targets, size, num_passes=1):
    classes = {} if isinstance(estimator, OrderedSGDRegressor) else {"classes": np.unique(targets)}
    model = clone(estimator)
    for begin in list(range(0, len(targets), size)) * num_passes:
        model.partial_fit(INPUTS[begin : begin + size], targets[begin : begin + size], **classes)
    return model


@both
def test_partial_fit_takes_the_same_steps_however_the_rows_are_cut(estimator, targets):
    estimator = clone(estimator).set_params(ordering="sequential", eta0=0.01)
    whole = in_parts(estimator, targets, 200)
    for size in (1, 3, 50):
        parts = in_parts(estimator, targets, size)
        np.testing.assert_allclose(parts.coef_, whole.coef_, rtol=1e-9)
        assert parts.t_ == whole.t_ == 201


@both
def test_partial_fit_by_default_is_as_good_as_a_fit_however_the_rows_are_cut(estimator, targets):
    good = clone(estimator).set_params(max_iter=5).fit(INPUTS, targets).score(INPUTS, targets) - 0.05
    for size in (4, 200):
        assert in_parts(estimator, targets, size, num_passes=5).score(INPUTS, targets) > good > 0.8


def test_partial_fit_never_oversteps_a_row_longer_than_those_before():
    """Nor one after it: the longest row so far limits the step."""
    model = OrderedSGDRegressor(alpha=0, fit_intercept=False)
    for length in (1.0, 1e3, 1.0):
        model.partial_fit([[length]], [length])
        assert 0 < model.coef_[0] <= 1


@both
def test_partial_fit_goes_on_after_a_pickle_and_after_a_fit(estimator, targets):
    parts, fitted = in_parts(estimator, targets, 50), clone(estimator).fit(INPUTS, targets)
    for model in (parts, fitted):
        again = pickle.loads(pickle.dumps(model)).partial_fit(INPUTS[:9], targets[:9])  # noqa: S301 - our own
        np.testing.assert_array_equal(again.coef_, model.partial_fit(INPUTS[:9], targets[:9]).coef_)
    np.testing.assert_array_equal(fitted.fit(INPUTS, targets).coef_, clone(estimator).fit(INPUTS, targets).coef_)


# Defaults -------------------------------------------------------------------------------------------------------------


def test_the_defaults_are_as_good_as_scikit_learns():
    inputs, labels = load_digits(return_X_y=True)

    def accuracy(kind):
        models = [kind(random_state=seed).fit(inputs[:1400], labels[:1400]) for seed in range(3)]
        return np.mean([model.score(inputs[1400:], labels[1400:]) for model in models])

    assert accuracy(OrderedSGDClassifier) > accuracy(SGDClassifier) > 0.8


def test_the_default_finds_rare_positives():
    """3% positives that overlap with the others: the hinge loss is smallest if none is predicted."""
    inputs, labels = make_classification(10_000, weights=[0.97], flip_y=0.01, random_state=7)

    def num_found(model):
        return int(model.fit(inputs, labels).predict(inputs)[labels == 1].sum())

    exact = num_found(LogisticRegression(C=1e4, max_iter=500))
    assert num_found(OrderedSGDClassifier(random_state=0)) >= exact / 2 > 0
    with pytest.warns(UserWarning, match="predicts 0 for every example"):  # so that this test could fail
        assert num_found(OrderedSGDClassifier("hinge", random_state=0)) == 0


def test_one_outlier_does_not_spoil_a_regression():
    """Where scikit-learn's default step is too long for the longest row."""
    inputs, targets = INPUTS.copy(), TARGETS.copy()
    inputs[7] *= 20
    targets[7] = inputs[7] @ np.linalg.lstsq(INPUTS, TARGETS, rcond=None)[0]
    model = OrderedSGDRegressor(random_state=0).fit(inputs, targets)
    assert model.score(INPUTS, TARGETS) > 0.7
    assert SGDRegressor(random_state=0).fit(inputs, targets).score(INPUTS, TARGETS) < 0


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_a_model_that_predicts_one_class_is_no_surprise(make):
    labels = np.where(np.arange(200) < 5, "rare", "common")
    with pytest.warns(UserWarning, match=r"predicts 'common' for every example.*ordering='random'"):
        OrderedSGDClassifier(eta0=1e-6, random_state=0, tol=None, max_iter=2).fit(make(INPUTS), labels)
    with pytest.warns(UserWarning, match="predicts 0 for every example"):
        OrderedSGDClassifier("multinomial", random_state=0).fit(make(np.zeros((90, 2))), np.arange(90) // 50)


# Parameters -------------------------------------------------------------------------------------------------------


def test_a_schedule_has_its_own_first_step():
    OrderedSGDRegressor(schedule=go.Constant(0.01), eta0=0.01).fit(INPUTS, TARGETS)
    with pytest.raises(ValueError, match=r"eta0.*Constant\(a=0.01\).*0.02"):
        OrderedSGDRegressor(schedule=go.Constant(0.01), eta0=0.02).fit(INPUTS, TARGETS)


def test_the_default_step_suits_data_on_any_scale():
    for scale in (1e-3, 1, 1e3, 1e6):
        inputs = scale * INPUTS + 5 * scale
        for loss in ("squared_error", "huber", "quartic"):
            model = OrderedSGDRegressor(loss, tol=None, max_iter=5).fit(inputs, TARGETS)
            assert np.isfinite(model.coef_).all()


@pytest.mark.parametrize(
    ("name", "value"),
    [("keep", 0.0), ("keep", 1.1), ("batch_size", 0), ("batch_size", 1.5), ("start_epoch", -1), ("ordering", "sorted"),
     ("schedule", "adaptive"), ("eta0", 0), ("penalty", "l3"), ("alpha", -1), ("l1_ratio", 1.5), ("average", -1),
     ("max_iter", 0), ("loss", "poisson")],
)  # fmt: skip
def test_a_wrong_parameter_is_named(name, value):
    for estimator in (OrderedSGDRegressor(), OrderedSGDClassifier()):
        with pytest.raises(ValueError, match=f"'{name}' parameter.*Got {value!r}"):
            estimator.set_params(**{name: value}).fit(INPUTS, TARGETS > 0)


def test_an_ordering_of_ones_own_is_checked():
    class Wrong(go.Ordering):
        needs_scores = False

        def order(self, request):
            return go.Order(torch.arange(request.num_examples) + 1)

    with pytest.raises(ValueError, match="got indices from 1 to 200"):
        OrderedSGDRegressor(ordering=Wrong()).fit(INPUTS, TARGETS)


def test_a_batch_size_may_be_a_fraction():
    params = {"tol": None, "max_iter": 2, "random_state": 0, "keep": 0.18}
    by_fraction = OrderedSGDRegressor(batch_size=0.3, **params).fit(INPUTS, TARGETS)
    by_count = OrderedSGDRegressor(batch_size=60, **params).fit(INPUTS, TARGETS)
    np.testing.assert_array_equal(by_fraction.coef_, by_count.coef_)
    assert by_fraction.t_ == 1 + 2 * (3 * 11 + 4)  # ceil(0.18 * 60) of three batches, ceil(0.18 * 20) of the last


# scikit-learn's ways ----------------------------------------------------------------------------------------------


def test_probabilities_exist_where_the_loss_has_them():
    assert hasattr(OrderedSGDClassifier("log_loss"), "predict_proba")
    assert hasattr(OrderedSGDClassifier("multinomial"), "predict_log_proba")
    assert hasattr(OrderedSGDClassifier("modified_huber"), "predict_proba")
    assert not hasattr(OrderedSGDClassifier("hinge"), "predict_proba")
    assert not hasattr(OrderedSGDClassifier("hinge"), "predict_log_proba")


@pytest.mark.filterwarnings(
    "ignore:scipy.optimize. The `disp` and `iprint` options:DeprecationWarning"
)  # by 1.6 itself
@pytest.mark.parametrize("num_classes", [2, 4])
def test_multinomial_finds_the_softmax_regression(num_classes):
    inputs, labels = make_classification(
        400, 6, n_informative=4, n_classes=num_classes, n_clusters_per_class=1, class_sep=0.5, random_state=0
    )
    ours = OrderedSGDClassifier(
        "multinomial", alpha=0.05, schedule=go.InversePerStep(0.05, scale=400), tol=None, max_iter=1500, random_state=0,
        ordering="random",
    ).fit(inputs, labels)  # fmt: skip
    theirs = LogisticRegression(C=1 / (0.05 * 400), tol=1e-10, max_iter=5000).fit(inputs, labels)
    if num_classes == 2:  # two weight vectors w and -w: coef_ is 2 w, and the penalty that of both, half as strong
        theirs = LogisticRegression(C=2 / (0.05 * 400), tol=1e-10, max_iter=5000).fit(inputs, labels)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=2e-3)
    np.testing.assert_allclose(ours.predict_proba(inputs), theirs.predict_proba(inputs), atol=2e-3)
    assert ours.decision_function(inputs).shape == ((400,) if num_classes == 2 else (400, num_classes))


@pytest.mark.filterwarnings("ignore:OrderedSGDClassifier predicts")  # labels that nothing tells apart
def test_sparse_rows_are_never_made_dense():
    sparse = sp.random_array((300, 3_000_000), density=1e-5, format="csr", rng=np.random.default_rng(0))
    labels = np.arange(300) % 2
    OrderedSGDClassifier(tol=None, max_iter=1).fit(sparse[:, :100_000], labels)  # compiled before memory is counted
    tracemalloc.start()
    model = OrderedSGDClassifier(tol=None, max_iter=3).fit(sparse, labels)
    model.predict(sparse)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 300e6  # a few vectors of 24 MB; dense would be 7.2 GB


def test_csr_with_repeated_entries_is_summed_and_left_alone():
    repeated = sp.csr_matrix((RNG.random(600), np.tile([0, 0, 1], 200), np.arange(0, 601, 3)), shape=(200, 3))
    assert not repeated.has_canonical_format
    num_entries = repeated.nnz
    model = clone(ESTIMATORS[0][0]).set_params(ordering="descending").fit(repeated, TARGETS)
    dense = clone(ESTIMATORS[0][0]).set_params(ordering="descending").fit(repeated.toarray(), TARGETS)
    np.testing.assert_allclose(model.coef_, dense.coef_, rtol=1e-12)
    assert repeated.nnz == num_entries


def test_input_is_neither_changed_nor_copied():
    inputs = RNG.standard_normal((20_000, 50))
    targets, before = inputs[:, 0], inputs.copy()
    OrderedSGDRegressor(tol=None, max_iter=1).fit(inputs[:10], targets[:10])
    tracemalloc.start()
    OrderedSGDRegressor(tol=None, max_iter=1).fit(inputs, targets)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    np.testing.assert_array_equal(inputs, before)
    assert peak < inputs.nbytes / 2


# The paper's rule -------------------------------------------------------------------------------------------------


def test_recommended_is_random_reshuffling_in_fit_and_partial_fit():
    for name in ("fit", "partial_fit"):
        coefs = [
            getattr(OrderedSGDRegressor(ordering=ordering, tol=None, max_iter=3, random_state=0), name)(
                INPUTS, TARGETS
            ).coef_
            for ordering in ("recommended", go.Shuffled(), "sequential")
        ]
        np.testing.assert_array_equal(coefs[0], coefs[1])
        assert not np.array_equal(coefs[0], coefs[2])


# The extra --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", ["numba", "sklearn"])
def test_without_the_extra_one_line_says_what_to_install(missing, monkeypatch):
    for name in [name for name in sys.modules if name.startswith(("gradorder.sklearn", f"{missing}."))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ImportError, match=rf'needs {missing}.*pip install "gradorder\[sklearn\]"') as raised:
        importlib.import_module("gradorder.sklearn")
    assert raised.value.__suppress_context__
