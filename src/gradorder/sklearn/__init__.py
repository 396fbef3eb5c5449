"""Linear models for scikit-learn, trained one example at a time in an order of your choice (Algorithms 1 and 2).

Needs the extra: `pip install "gradorder[sklearn]"`.
"""

try:
    import numba as _numba  # noqa: F401 - asked for here, so that what is missing is said in one line
    import sklearn as _sklearn  # noqa: F401
except ModuleNotFoundError as error:
    raise ImportError(f'gradorder.sklearn needs {error.name}: pip install "gradorder[sklearn]"') from None

from gradorder.sklearn.classifier import OrderedSGDClassifier as OrderedSGDClassifier
from gradorder.sklearn.regressor import OrderedSGDRegressor as OrderedSGDRegressor
