"""The estimators refuse what the sampler refuses, and what only a sampler can serve."""

import numpy as np
import pytest

import gradorder as go
from gradorder.sklearn import OrderedSGDClassifier, OrderedSGDRegressor

INPUTS = np.arange(80.0).reshape(40, 2) / 80
TARGETS = INPUTS @ [1.0, -2.0]
CLASSES = np.arange(40) % 2
SHARED = {
    "draws with keep": ({"ordering": go.WithReplacement(), "keep": 0.5}, "labels and keep.*WithReplacement"),
    "a part too small": (
        {"ordering": go.Revisiting(go.Descending(), every=8), "keep": 0.05},
        r"keep.*0.125.*Revisiting\(.*0.05",
    ),
    "a part too small, backwards": (
        {"ordering": go.FlipFlop(go.Revisiting(go.Descending(), every=5)), "keep": 0.1},
        r"keep.*0.333",
    ),
    "prunes by itself": ({"ordering": go.InfoBatch(10), "keep": 0.5}, "keep.*InfoBatch"),
    "learns, with keep": ({"ordering": go.GradientBalancing(), "keep": 0.5}, "keep.*GradientBalancing"),
}
ONLY_A_SAMPLER = {
    "weighted by pruning": ({"ordering": go.InfoBatch(10)}, "equal weights.*OrderedSampler"),
    "unbiased": ({"ordering": go.FlipFlop(go.PlackettLuce(unbiased=True)), "keep": 0.5}, "equal weights"),
    "by losses": ({"ordering": go.FlipFlop(go.Unlearned())}, "Unlearned.*losses.*'recommended'"),
    "by losses inside": (
        {"ordering": go.Revisiting(go.Undecided(go.PlackettLuce()), every=4)},
        "Undecided.*losses.*'recommended'",
    ),
    "learns": ({"ordering": go.GradientBalancing()}, "gradients.*GradientBalancing"),
}


@pytest.mark.parametrize("name", SHARED | ONLY_A_SAMPLER)
@pytest.mark.parametrize("batch_size", [1, 10])
@pytest.mark.parametrize("make", [OrderedSGDRegressor, OrderedSGDClassifier])
def test_estimators_refuse(make, batch_size, name):
    settings, message = (SHARED | ONLY_A_SAMPLER)[name]
    estimator = make(batch_size=batch_size, **settings)
    with pytest.raises(ValueError, match=message):
        estimator.fit(INPUTS, TARGETS if make is OrderedSGDRegressor else CLASSES)
    assert not hasattr(estimator, "coef_")


@pytest.mark.parametrize("name", SHARED)
def test_the_sampler_refuses_the_same(name):
    settings, message = SHARED[name]
    with pytest.raises(ValueError, match=message):
        go.OrderedSampler(40, 10, **settings)


def test_what_they_need_not_refuse_they_take():
    for ordering, keep in [
        (go.WithReplacement(), 1.0),
        (go.Revisiting(go.Descending(), every=8), 0.125),
        (go.Revisiting(go.PlackettLuce(), every=4), 0.5),
    ]:
        OrderedSGDRegressor(batch_size=10, ordering=ordering, keep=keep, max_iter=3, tol=None).fit(INPUTS, TARGETS)


LABELS = np.arange(40) % 3  # with 2 features: coef_ is (3, 2)


@pytest.mark.parametrize(
    ("classes", "start", "message"),
    [
        (LABELS, {"coef_init": np.arange(6.0).reshape(2, 3)}, r"coef_init.*\(3, 2\).*\(2, 3\)"),
        (LABELS, {"coef_init": np.arange(6.0)}, r"coef_init.*\(3, 2\).*\(6,\)"),
        (LABELS, {"coef_init": np.full((3, 2), np.nan)}, "coef_init.*nan"),
        (CLASSES, {"coef_init": [1.0, -np.inf]}, "coef_init.*-inf"),
        (CLASSES, {"intercept_init": np.nan}, "intercept_init.*nan"),
    ],
)
def test_where_no_fit_can_start(classes, start, message):
    with pytest.raises(ValueError, match=message):
        OrderedSGDClassifier(max_iter=1, tol=None).fit(INPUTS, classes, **start)


def test_a_vector_to_start_from_may_lie_or_stand():
    fits = [
        OrderedSGDRegressor(max_iter=1, tol=None, random_state=0).fit(INPUTS, TARGETS, coef_init=start)
        for start in ([1.0, 2.0], [[1.0, 2.0]], [[1.0], [2.0]])
    ]
    for each in fits[1:]:
        np.testing.assert_array_equal(each.coef_, fits[0].coef_)


@pytest.mark.parametrize("size", [-0.001, np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("make", [OrderedSGDRegressor, OrderedSGDClassifier])
def test_a_step_size_that_is_none_is_refused_with_its_step(make, size):
    estimator = make(schedule=lambda step, epoch: size if step == 45 else 0.0)
    with pytest.raises(ValueError, match=rf"schedule.*{size}.*step 45 \(epoch 1\)"):
        estimator.set_params(max_iter=3, tol=None).fit(INPUTS, CLASSES)
    assert not hasattr(estimator, "coef_")


@pytest.mark.parametrize("make", [OrderedSGDRegressor, OrderedSGDClassifier])
def test_held_out_examples_need_a_weight(make):
    weights = np.r_[np.ones(1), np.zeros(39)]
    estimator = make(early_stopping=True, random_state=0)
    with pytest.raises(ValueError, match=r"sample_weight.*4.*early_stopping"):
        estimator.fit(INPUTS, CLASSES, sample_weight=weights)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("shuffle", False, "sequential"),
        ("verbose", 1, "loss_curve_"),
        ("n_jobs", 2, "GridSearchCV"),
        ("learning_rate", "optimal", "schedule"),
        ("power_t", 0.5, "schedule"),
    ],
)
@pytest.mark.parametrize("make", [OrderedSGDRegressor, OrderedSGDClassifier])
def test_a_parameter_of_scikit_learn_says_what_to_write_instead(make, name, value, message):
    with pytest.raises(TypeError, match=f"no parameter {name}.*{message}"):
        make(**{name: value})
