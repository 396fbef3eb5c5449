import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from gradorder.sklearn import OrderedSGDClassifier, OrderedSGDRegressor


def declared_by_scikit_learn_for_its_own_sgd(estimator):
    reason = "a zero weight still takes a step of the schedule, and a repeated example is visited twice"
    return {
        "check_sample_weight_equivalence_on_dense_data": reason,
        "check_sample_weight_equivalence_on_sparse_data": reason,
    }


CHECKS = parametrize_with_checks(
    [OrderedSGDRegressor(), OrderedSGDClassifier()], expected_failed_checks=declared_by_scikit_learn_for_its_own_sgd
)
NAMES, CASES = CHECKS.args


@pytest.mark.filterwarnings("ignore:.*predicts .* for every example:UserWarning")  # theirs are hopeless data
@pytest.mark.parametrize(NAMES, list(CASES), **CHECKS.kwargs)  # of scikit-learn 1.6 a generator: pytest 9 wants a list
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)
