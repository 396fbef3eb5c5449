"""The compiled training loop: losses, scores, orders and updates, one example at a time (Algorithms 1 and 2).

The slow and obvious version of the same is `reference.py`. A data set is `rows`: a C-contiguous matrix (n, d), or the
three arrays of a CSR matrix as a tuple, and `examples` (n, 4). What depends on the kind of rows and of the model is
chosen when numba compiles for them (`overload`), the rest is shared. Functions take few arrays and many small ones
are avoided: both are what compiling costs.
"""

from gradorder.sklearn.compiled.decorators import Array as Array
from gradorder.sklearn.compiled.decorators import MatrixRows as MatrixRows
from gradorder.sklearn.compiled.epochs import CONVERGED as CONVERGED
from gradorder.sklearn.compiled.epochs import DIVERGED as DIVERGED
from gradorder.sklearn.compiled.epochs import FINISHED as FINISHED
from gradorder.sklearn.compiled.epochs import Plan as Plan
from gradorder.sklearn.compiled.epochs import begin_epoch as begin_epoch
from gradorder.sklearn.compiled.epochs import end_epoch as end_epoch
from gradorder.sklearn.compiled.epochs import num_kept as num_kept
from gradorder.sklearn.compiled.epochs import run_epochs as run_epochs
from gradorder.sklearn.compiled.epochs import scores_of as scores_of
from gradorder.sklearn.compiled.epochs import settle as settle
from gradorder.sklearn.compiled.epochs import train_part as train_part
from gradorder.sklearn.compiled.models import Full as Full
from gradorder.sklearn.compiled.models import Plain as Plain
from gradorder.sklearn.compiled.rule import ASCENDING as ASCENDING
from gradorder.sklearn.compiled.rule import CONSTANT as CONSTANT
from gradorder.sklearn.compiled.rule import DESCENDING as DESCENDING
from gradorder.sklearn.compiled.rule import GIVEN_ORDER as GIVEN_ORDER
from gradorder.sklearn.compiled.rule import GIVEN_SIZES as GIVEN_SIZES
from gradorder.sklearn.compiled.rule import HINGE as HINGE
from gradorder.sklearn.compiled.rule import HUBER as HUBER
from gradorder.sklearn.compiled.rule import INVERSE_PER_EPOCH as INVERSE_PER_EPOCH
from gradorder.sklearn.compiled.rule import INVERSE_PER_STEP as INVERSE_PER_STEP
from gradorder.sklearn.compiled.rule import INVERSE_SQRT_PER_EPOCH as INVERSE_SQRT_PER_EPOCH
from gradorder.sklearn.compiled.rule import INVERSE_SQRT_PER_STEP as INVERSE_SQRT_PER_STEP
from gradorder.sklearn.compiled.rule import LOG_LOSS as LOG_LOSS
from gradorder.sklearn.compiled.rule import MODIFIED_HUBER as MODIFIED_HUBER
from gradorder.sklearn.compiled.rule import MULTINOMIAL as MULTINOMIAL
from gradorder.sklearn.compiled.rule import QUARTIC as QUARTIC
from gradorder.sklearn.compiled.rule import SEQUENTIAL as SEQUENTIAL
from gradorder.sklearn.compiled.rule import SHUFFLED as SHUFFLED
from gradorder.sklearn.compiled.rule import SHUFFLED_ONCE as SHUFFLED_ONCE
from gradorder.sklearn.compiled.rule import SQUARED_ERROR as SQUARED_ERROR
from gradorder.sklearn.compiled.rule import Rule as Rule
from gradorder.sklearn.compiled.shuffling import shuffle as shuffle
from gradorder.sklearn.compiled.sorting import Sorting as Sorting
from gradorder.sklearn.compiled.sorting import sorting_for as sorting_for
