"""The rules of all operations, one file per family.

A rule says where the examples are in the inputs of an operation, and what a shared input's gradient is for each
example. An operation without a rule proves nothing (`UnprovenError`).
"""

from gradorder.norms.operation import Rule
from gradorder.norms.rules import convolution, dimensions, indexing, layers, pointwise, products

FAMILIES = {
    "Entry by entry, softmax, losses": pointwise.RULES,
    "Dimensions": dimensions.RULES,
    "Indexing and embeddings": indexing.RULES,
    "Matrix products and attention": products.RULES,
    "Convolution": convolution.RULES,
    "Normalization and LSTM layers": layers.RULES,
}

RULES: dict[str, Rule] = {name: rule for family in FAMILIES.values() for name, rule in family.items()}
