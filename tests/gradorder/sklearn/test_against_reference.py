"""The compiled loop against plain numpy: every loss, ordering, schedule, kind of matrix, weights, both algorithms."""

import itertools
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
import sgd_reference as reference

import gradorder as go
from gradorder.sklearn import OrderedSGDClassifier, OrderedSGDRegressor, compiled
from gradorder.sklearn.estimator import problem_seed
from gradorder.sklearn.training import sorting_for

ORDERINGS = {
    "random": go.Shuffled(),
    "descending": go.Descending(),
    "ascending": go.Ascending(),
    "shuffle-once": go.ShuffledOnce(),
    "flip-flop": go.FlipFlop(go.Shuffled()),
    "plackett-luce": go.PlackettLuce(),
    "sequential": go.Sequential(),
}
OBJECTS = [go.FlipFlop(go.Descending()), go.FlipFlop(go.PlackettLuce(2.0)), go.PlackettLuce(0.5), go.Descending()]
NAMED_SCHEDULES = {
    "constant": go.Constant(0.02),
    "inverse-per-step": go.InversePerStep(0.02),
    "inverse-sqrt-per-step": go.InverseSqrtPerStep(0.02),
    "inverse-per-epoch": go.InversePerEpoch(0.02),
    "inverse-sqrt-per-epoch": go.InverseSqrtPerEpoch(0.02),
}
SCHEDULES = [
    go.InversePerStep(0.02, scale=7, since=20),
    go.InverseSqrtPerStep(0.02, since=37),
    go.InversePerEpoch(0.02, since=1),
    go.InverseSqrtPerEpoch(0.02, since=2),
    lambda step, epoch: 0.02 / (1 + step % 5 + epoch),
]
REGRESSION = {"squared_error": reference.squared_error, "huber": reference.huber(0.3), "quartic": reference.quartic}
CLASSIFICATION = {
    "log_loss": reference.log_loss,
    "hinge": reference.hinge,
    "modified_huber": reference.modified_huber,
    "multinomial": reference.multinomial,
}
LOSSES = [*REGRESSION, *CLASSIFICATION]
NUM_EPOCHS = 3
SEED = 5

pytestmark = [
    pytest.mark.slow,  # it compiles every variant of the loop, unless numba's cache has them
    pytest.mark.filterwarnings("ignore:.*predicts .* for every example:UserWarning"),  # tiny data
]


def data(loss, *, weighted, num_examples=17, num_features=6, num_classes=3):
    rng = np.random.default_rng(7)
    inputs = rng.standard_normal((num_examples, num_features)) * (rng.random((num_examples, num_features)) < 0.6)
    inputs[3] = inputs[1]  # a tie
    noise = rng.standard_normal(num_examples)
    targets = 0.3 * (inputs @ rng.standard_normal(num_features) + 0.3 * noise)
    if loss in CLASSIFICATION:
        edges = np.quantile(targets, np.arange(1, num_classes if loss == "multinomial" else 2) / num_classes)
        targets = np.digitize(targets, edges)
    targets[3] = targets[1]
    weights = rng.uniform(0.2, 2, num_examples) if weighted else None
    if weighted:
        weights[3] = weights[1]
    return inputs, targets, weights


def estimator(loss, **params):
    params = {"tol": None, "max_iter": NUM_EPOCHS, "alpha": 0.05, "random_state": SEED, **params}
    if loss in REGRESSION:
        return OrderedSGDRegressor(loss, epsilon=0.3, **params)
    return OrderedSGDClassifier(loss, **params)


def reference_of(loss, inputs, targets, weights, ordering, schedule, **params):
    if loss in CLASSIFICATION and loss != "multinomial":
        targets = np.where(targets == 1, 1, -1)
    seed = np.random.RandomState(SEED).randint(2**31 - 1)
    return reference.Reference(
        inputs,
        targets,
        np.ones(len(inputs)) if weights is None else weights,
        {**REGRESSION, **CLASSIFICATION}[loss],
        schedule,
        ordering,
        num_outputs=len(np.unique(targets)) if loss == "multinomial" else 1,
        **{"l2": 0.05, **params},
        key=problem_seed(seed, 0),
    )


def assert_both_same(model, new, inputs, targets, weights, *, averages=False):
    """Dense and sparse inputs give what the reference gives, which is slow: it is asked once for both."""
    curve = [model.train_epoch() for _ in range(NUM_EPOCHS)]
    if averages:
        model.weights, model.intercepts = model.mean_weights()
    both = [new().fit(matrix, targets, sample_weight=weights) for matrix in (inputs, sp.csr_array(inputs))]
    for fitted in both:
        assert_same(fitted, model, curve)
    return both


def assert_same(fitted, model, curve):
    np.testing.assert_allclose(np.atleast_2d(fitted.coef_), model.weights, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(fitted.intercept_, model.intercepts, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(fitted.loss_curve_, curve, rtol=1e-9)
    assert fitted.t_ == 1 + model.num_steps
    assert fitted.n_iter_ == NUM_EPOCHS


def compare(loss, ordering, schedule, *, weighted, **params):
    problem = data(loss, weighted=weighted)
    eta0 = 0.02 if isinstance(schedule, str) else None
    new = partial(estimator, loss, ordering=ordering, schedule=schedule, eta0=eta0, **params)
    ordering = ORDERINGS[ordering] if isinstance(ordering, str) else ordering
    schedule = NAMED_SCHEDULES[schedule] if isinstance(schedule, str) else schedule
    assert_both_same(reference_of(loss, *problem, ordering, schedule, **params), new, *problem)


ALGORITHMS = [{}, {"keep": 0.4, "start_epoch": 1}, {"batch_size": 5, "keep": 0.5}, {"batch_size": 9, "start_epoch": 2}]


WAYS = list(itertools.product([False, True], ALGORITHMS))
"""Whether examples are weighted, and the algorithm."""


@pytest.mark.parametrize("ordering", ORDERINGS)
@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_ordering_and_schedule(loss, ordering):
    """Each with one of the WAYS in turn: every loss, ordering and schedule meets each of them."""
    turn = LOSSES.index(loss) + list(ORDERINGS).index(ordering)
    for number, schedule in enumerate(NAMED_SCHEDULES):
        weighted, params = WAYS[(turn + number) % len(WAYS)]
        compare(loss, ordering, schedule, weighted=weighted, **params)


@pytest.mark.parametrize("loss", LOSSES)
def test_objects(loss):
    for number, (ordering, schedule) in enumerate(itertools.product(OBJECTS, SCHEDULES)):
        compare(loss, ordering, schedule, weighted=True, **ALGORITHMS[number % len(ALGORITHMS)])


PENALTIES = {
    "l1": ({"penalty": "l1", "alpha": 0.3}, {"l1": 0.3, "l2": 0.0}),
    "elasticnet": ({"penalty": "elasticnet", "alpha": 0.4, "l1_ratio": 0.75}, {"l1": 0.3, "l2": 0.1}),
}


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("loss", LOSSES)
def test_the_l1_penalty(loss, penalty):
    problem = data(loss, weighted=True)
    ours, theirs = PENALTIES[penalty]
    for ordering, params in itertools.product(["random", "descending"], [{}, {"batch_size": 5, "keep": 0.5}]):
        schedule = go.Constant(0.01 if loss == "quartic" else 0.05)
        new = partial(estimator, loss, ordering=ordering, schedule=schedule, **ours, **params)
        model = reference_of(loss, *problem, ORDERINGS[ordering], schedule, **theirs, **params)
        for fitted in assert_both_same(model, new, *problem):
            assert (fitted.coef_ == 0).any() or loss == "quartic"  # whose steps are too short for it


@pytest.mark.parametrize("penalty", ["l2", *PENALTIES])
@pytest.mark.parametrize("loss", LOSSES)
def test_the_average(loss, penalty):
    problem = data(loss, weighted=True)
    ours, theirs = PENALTIES.get(penalty, ({}, {}))
    num_steps = NUM_EPOCHS * len(problem[0])
    for average, ordering in [(True, "random"), (1, "descending"), (20, "sequential"), (52, "random")]:
        schedule = go.Constant(0.01 if loss == "quartic" else 0.05)
        new = partial(estimator, loss, ordering=ordering, schedule=schedule, average=average, **ours)
        model = reference_of(loss, *problem, ORDERINGS[ordering], schedule, **theirs, average=int(average))
        assert_both_same(model, new, *problem, averages=average <= num_steps)


def test_a_scale_that_underflows_does_not_change_the_average():
    for loss in ("hinge", "multinomial"):
        problem = data(loss, weighted=False)
        new = partial(estimator, loss, ordering="sequential", schedule=go.Constant(0.9), alpha=0.7, average=True)
        model = reference_of(loss, *problem, go.Sequential(), go.Constant(0.9), l2=0.7)
        assert_both_same(model, new, *problem, averages=True)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_no_intercept_and_no_penalty(dtype):
    losses = LOSSES if dtype is np.float64 else ["hinge"]  # each new type of data is compiled for, a loss is not
    for loss, sparse in itertools.product(losses, [False, True]):
        inputs, targets, _ = data(loss, weighted=False)
        inputs = inputs.astype(dtype)
        fitted = estimator(loss, ordering="descending", schedule=go.Constant(0.02), fit_intercept=False, penalty=None)
        fitted.fit(sp.csr_matrix(inputs) if sparse else inputs, targets)
        model = reference_of(loss, inputs, targets, None, go.Descending(), go.Constant(0.02), fit_intercept=False)
        model.l2 = 0
        for _ in range(NUM_EPOCHS):
            model.train_epoch()
        np.testing.assert_allclose(
            np.atleast_2d(fitted.coef_), model.weights, rtol=1e-9 if dtype is np.float64 else 1e-5
        )
        assert fitted.coef_.dtype == dtype
        assert not fitted.intercept_.any()


def test_a_step_that_shrinks_the_weights_to_nothing():
    for loss, sparse in itertools.product(["huber", *CLASSIFICATION], [False, True]):
        inputs, targets, _ = data(loss, weighted=False)
        fitted = estimator(loss, ordering="sequential", schedule=go.InverseSqrtPerStep(3.0), alpha=0.7)
        fitted.fit(sp.csr_matrix(inputs) if sparse else inputs, targets)
        model = reference_of(loss, inputs, targets, None, go.Sequential(), go.InverseSqrtPerStep(3.0))
        model.l2 = 0.7
        assert_same(fitted, model, [model.train_epoch() for _ in range(NUM_EPOCHS)])


@pytest.mark.parametrize("params", [{}, {"keep": 0.5}, {"batch_size": 20, "keep": 0.5}], ids=str)
@pytest.mark.parametrize("ordering", ["descending", "ascending", "random"])
def test_different_examples_with_equal_scores(ordering, params):
    """All scores are sqrt(7) at first, so that the order of ties decides."""
    rng = np.random.default_rng(0)
    inputs, targets = rng.choice([-1.0, 1.0], (20, 6)), rng.integers(0, 2, 20)
    fitted = estimator("hinge", ordering=ordering, schedule=go.Constant(0.02), max_iter=1, **params).fit(
        inputs, targets
    )
    model = reference_of("hinge", inputs, targets, None, ORDERINGS[ordering], go.Constant(0.02), **params)
    model.train_epoch()
    np.testing.assert_allclose(fitted.coef_, model.weights, rtol=1e-12)


def argsorted(scores, *, descending):
    return compiled.argsort(np.asarray(scores, dtype=np.float64), descending, sorting_for(len(scores)))


SCORES = {
    "random": np.random.default_rng(0).random(5000),
    "many ties": np.random.default_rng(0).integers(0, 20, 5000) / 7,
    "all equal": np.full(700, 0.1),
    "zeros and tiny": np.r_[np.zeros(10), 5e-324, 0.0, 1e-300, np.zeros(500), 1e300],
    "last bits only, one far away": np.r_[1.0 + np.random.default_rng(0).integers(0, 5000, 5000) * 2.0**-52, 1e-9],
    "reversed in the last bits": np.r_[1.0 + np.arange(5000)[::-1] * 2.0**-52, 1e9],
    "huge span": 10.0 ** np.random.default_rng(0).uniform(-300, 300, 6000),
    "one": np.array([3.0]),
    "two": np.array([1.0, 2.0]),
}


@pytest.mark.parametrize("descending", [True, False])
@pytest.mark.parametrize("scores", SCORES.values(), ids=SCORES)
def test_the_sort_is_the_librarys(scores, descending):
    ordering = go.Descending() if descending else go.Ascending()
    expected = ordering(scores, epoch=0, generator=None).numpy()
    np.testing.assert_array_equal(argsorted(scores, descending=descending), expected)


@pytest.mark.parametrize("num", [1, 2, 3, 100, 1000])
def test_the_shuffle_is_the_references(num):
    for key, epoch in [(0, 0), (1, 0), (0, 1), (2**64 - 1, 12345)]:
        order = np.empty(num, dtype=np.int64)
        compiled.shuffle(order, np.uint64(key), epoch)
        np.testing.assert_array_equal(order, reference.shuffled(num, key, epoch))
        np.testing.assert_array_equal(np.sort(order), np.arange(num))


def test_the_shuffle_is_uniform():
    counts = np.zeros((5, 5))
    order = np.empty(5, dtype=np.int64)
    for epoch in range(20_000):
        compiled.shuffle(order, np.uint64(3), epoch)
        counts[order, np.arange(5)] += 1
    assert np.abs(counts / 20_000 - 0.2).max() < 5 * np.sqrt(0.2 * 0.8 / 20_000)
