"""Exact per-example gradient norms; `definition` says what they are, with a worked example."""

from gradorder.norms.definition import gradient_norms as gradient_norms
from gradorder.norms.explain import explain_norms as explain_norms
from gradorder.norms.isolation import per_example_gradients as per_example_gradients
from gradorder.norms.observe import observe_gradient_norms as observe_gradient_norms
