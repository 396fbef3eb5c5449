"""An upper bound on the distance to the optimum after an epoch, as the paper puts it together."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Bound:
    """||x_{k+1} - x*||^2 <= distance - first_order + second_order - strong_convexity + epsilon_term.

    Args:
        distance: ||x_k - x*||^2.
        first_order: 2 ||x_k - x*|| sum_i a_i ||M_i||, what the order of the examples is chosen by.
        second_order: what the epoch's own movement may cost.
        strong_convexity: what strong convexity gives.
        epsilon_term: what f_i(x_k) - f_i(x*) falls short of ||M_i|| ||x_k - x*||.
        measured: ||x_{k+1} - x*||^2, the left-hand side.
        rounding: what float64 may be wrong by.
    """

    distance: float
    first_order: float
    second_order: float
    strong_convexity: float
    epsilon_term: float
    measured: float
    rounding: float

    @property
    def right_hand_side(self) -> float:
        """The bound itself."""
        gains = self.first_order + self.strong_convexity
        return self.distance - gains + self.second_order + self.epsilon_term

    @property
    def slack(self) -> float:
        """How far the bound is above what was measured; below 0 it is no bound."""
        return self.right_hand_side - self.measured

    @property
    def holds(self) -> bool:
        """Whether it bounds what was measured."""
        return self.slack >= -self.rounding
