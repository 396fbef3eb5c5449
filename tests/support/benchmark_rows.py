"""Rows of the benchmark, written by hand."""

from gradorder_lab.benchmark.rows import BenchmarkRun

_ABOUT = {"settings": "{}", "loss": 0.3, "place": 0, "machine": "", "versions": "{}", "commit": "", "revision": 5}


def row(method, budget, seed, accuracy=90.0, *, task="rings", cost=1.0, step_size=0.1, validates=False):
    """Plain training costs 4000 of everything and a second; seeds are a tenth of a point apart."""
    counts = ("example_gradients", "forward_passes", "backward_passes", "steps")
    numbers = dict.fromkeys(counts, round(4000 * budget * cost))
    seconds = {"processor_seconds": budget * cost, "wall_seconds": 2 * budget * cost}
    chosen = {"task": task, "method": method, "step_size": step_size, "budget": budget}
    shifted = accuracy + 0.1 * (seed - 1)
    return BenchmarkRun(**_ABOUT, **numbers, **seconds, **chosen, seed=seed, validates=validates, accuracy=shifted)


def rows_of(method, accuracies, seeds=3, **settings):
    """One for every budget of `accuracies` and seed."""
    return [row(method, budget, seed, accuracies[budget], **settings) for budget in accuracies for seed in range(seeds)]
