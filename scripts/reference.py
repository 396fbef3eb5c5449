# ruff: noqa: INP001 - a script: run by path
"""Write the tables of docs/reference.md and docs/troubleshooting.md, between `<!-- NAME -->` and `<!-- end -->`.

    python scripts/reference.py

The tables of orderings, scores and selections come from docstrings, the costs from results/, the messages from the
`raise` and `warn` calls of the library. Only the causes and remedies are written here, in `REMEDIES`.
"""

import ast
import csv
import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradorder import errors, orderings, scores, selection
from gradorder.orderings import Ordering
from gradorder.selection import Selection

ROOT = Path(__file__).resolve().parent.parent
LIBRARY = ROOT / "src" / "gradorder"
DOCUMENTS = tuple(ROOT / "docs" / name for name in ("reference.md", "troubleshooting.md"))

_PART = re.compile(r"(?P<start><!-- (?P<name>[a-z_]+) -->\n).*?(?P<end><!-- end -->)", flags=re.DOTALL)
_HEAD = ("name", "what it does", "needs", "cost", "when")
_SCORES = (scores.Loss, scores.LogitError, scores.LastLayerBound, scores.GradientNorm)  # cheapest first


def main() -> None:
    """Write all tables."""
    for path in DOCUMENTS:
        path.write_text(filled(path.read_text()))


def filled(text: str) -> str:
    """Return the text with every table written anew."""
    return _PART.sub(lambda found: f"{found['start']}\n{TABLES[found['name']]()}\n\n{found['end']}", text)


# The reference ------------------------------------------------------------------------------------------------------


def orderings_table() -> str:
    """Return one row per ordering."""
    return _table(_HEAD, [_ordering_row(each) for each in _rules(orderings, Ordering)])


def scores_table() -> str:
    """Return one row per score."""
    return _table(_HEAD, [_row(each, "scores") for each in _SCORES])


def selections_table() -> str:
    """Return one row per selection."""
    return _table(_HEAD, [_row(each, "selection") for each in _rules(selection, Selection)])


def _rules(module: Any, base: type) -> list[type]:  # noqa: ANN401 - a module
    classes = [getattr(module, name) for name in module.__all__]
    return [each for each in classes if issubclass(each, base) and not inspect.isabstract(each)]


def _row(kind: type, page: str, needs: str | None = None) -> list[str]:
    name = kind.__name__
    link = f"[{name}](api/{page}.md#gradorder.{name})"
    parts = [needs or paragraph(kind, "Needs"), paragraph(kind, "Cost"), paragraph(kind, "When")]
    return [link, _first_line(kind), *(_sentence(part) for part in parts)]


def paragraph(kind: type, title: str) -> str:
    """Return the paragraph of a class's docstring that begins with this title."""
    found = re.search(rf"^{title}: (.+?)(?:\n\n|\Z)", inspect.getdoc(kind) or "", flags=re.MULTILINE | re.DOTALL)
    if found is None:
        raise ValueError(f"the docstring of {kind.__name__} must have a paragraph {title!r}")
    return " ".join(found[1].split())


def _first_line(kind: type) -> str:
    return (inspect.getdoc(kind) or "").split("\n")[0]


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]


def _ordering_row(kind: type[Ordering]) -> list[str]:
    if "\nNeeds: " in (inspect.getdoc(kind) or ""):
        return _row(kind, "orderings")
    needs_scores: object = kind.needs_scores
    if not isinstance(needs_scores, bool):
        raise TypeError(f"{kind.__name__} must say in its docstring what it needs: that depends on its arguments")
    return _row(kind, "orderings", "Scores." if needs_scores else "Nothing.")


# Costs --------------------------------------------------------------------------------------------------------------


def sampler_costs() -> str:
    """Return the cost of ordering an epoch, from results/sampler.csv."""
    rows = [
        [f"{int(row['examples']):,}", row["time_ratio"], row["memory_ratio"], f"{row['step_microseconds']} µs"]
        for row in _csv("sampler.csv")
        if row["time_ratio"]  # the other rows hold planning only
    ]
    return _table(("examples", "time, ordered / random", "peak memory, ordered / random", "`step(losses)`"), rows)


def score_costs() -> str:
    """Return the cost of scoring a batch, from results/scores.csv."""
    names = [each.__name__ for each in _SCORES]
    rows = [[row["model"], *(row[name] for name in names)] for row in _csv("scores.csv")]
    return _table(("model", *(f"`{name}`" for name in names)), rows)


def _csv(name: str) -> list[dict[str, str]]:
    with (ROOT / "results" / name).open(newline="") as file:
        return list(csv.DictReader(file))


# Troubleshooting ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Message:
    """A message of the library.

    Args:
        place: the module and the function that gives it, for example "sampler.notices.no_scores".
        kind: "warning", or the name of the error class.
        text: the message, with dots for the parts that vary.
    """

    place: str
    kind: str
    text: str


def warnings_table() -> str:
    """Return every warning, with its cause and remedy."""
    return _remedies_table(each for each in messages() if each.kind == "warning")


def errors_table() -> str:
    """Return every message of the library's own errors and of `RuntimeError`, with its cause and remedy."""
    return _remedies_table(each for each in messages() if each.kind != "warning")


def _remedies_table(shown: Iterable[Message]) -> str:
    rows = [[_quoted(each), *REMEDIES[each.place]] for each in shown]
    return _table(("message", "cause", "what to do"), rows)


def _quoted(message: Message) -> str:
    """Return the beginning of the message, which is enough to recognise it."""
    words = message.text.split()
    text = re.sub(r"([_*])", r"\\\1", " ".join(words[:_NUM_WORDS])) + (" …" if len(words) > _NUM_WORDS else "")
    return text if message.kind == "warning" else f"`{message.kind}`: {text}"


def messages() -> list[Message]:
    """Return the warnings and errors of the library, from its source."""
    found = []
    for path in sorted(LIBRARY.rglob("*.py")):
        module = ".".join(path.relative_to(LIBRARY).with_suffix("").parts)
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                found += [Message(f"{module}.{node.name}", kind, text) for kind, text in _messages_of(node)]
    return [each for each in dict.fromkeys(found) if each.place not in INTERNAL]


def _messages_of(function: ast.FunctionDef) -> Iterator[tuple[str, str]]:
    """Yield the kind and the text of every message of this function. A message that is passed on has no text."""
    for node in ast.walk(function):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            kind = getattr(node.exc.func, "id", "")
            if kind in ERRORS:
                yield from _with_text(kind, node.exc.args[0])
        elif isinstance(node, ast.Call) and (argument := _warned(node)) is not None:
            yield from _with_text("warning", argument)
        elif isinstance(node, ast.Assign) and function.name == "of" and getattr(node.targets[0], "id", "") == "message":
            yield from _with_text("NonFiniteScoresError", node.value)  # its class builds the message


def _warned(call: ast.Call) -> ast.expr | None:
    """Return the message of a call that warns."""
    name = ast.unparse(call.func)
    if name == "self._warn":
        return call.args[1]
    return call.args[0] if name in {"warn", "warnings.warn"} else None


def _with_text(kind: str, message: ast.expr) -> Iterator[tuple[str, str]]:
    parts = message.values if isinstance(message, ast.JoinedStr) else [message]
    text = "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in parts)
    if re.search("[a-z]", text):
        yield kind, " ".join(text.split())


_NUM_WORDS = 14
ERRORS = {name for name, value in vars(errors).items() if inspect.isclass(value)} | {"RuntimeError"}
INTERNAL = {"norms.isolation._vectorized"}
"""Places of messages that the library itself catches."""

REMEDIES: Mapping[str, tuple[str, str]] = {
    "checks.map_style_length": (
        "The dataset is a stream or has no length, so its examples have no indices to order.",
        "Add `__len__`, or make it a list if it fits into memory. Otherwise select within each batch (`KeepHardest`).",
    ),
    "errors.of": (
        "The loss of some examples is NaN or infinite. `num_bad` and `first_indices` of the error say which.",
        "Look at these examples. Lower the learning rate, clip gradients, or check the inputs.",
    ),
    "integrations.grpo._warn_of_gradients": (
        "The loss has a term, such as a KL penalty, that gives a gradient to groups with equal rewards.",
        "Accept that such prompts are skipped, or use `Shuffled`.",
    ),
    "integrations.grpo._warn_of_checkpoints": (
        "`save_steps` is not a multiple of the generation cycle.",
        "Use the multiple that the message names.",
    ),
    "integrations.grpo._init_training_state": (
        "The checkpoint was saved in the middle of a generation cycle.",
        "Nothing, or choose `save_steps` as a multiple of the cycle in the next run.",
    ),
    "integrations.lightning.sampler_of": (
        "Lightning replaced the sampler, or the sampler is inside a `batch_sampler`.",
        "Return `sampler.loader(...)` from `train_dataloader`, and do not use `overfit_batches`.",
    ),
    "integrations.lightning._check_epochs": (
        "The sampler and the `Trainer` were given different numbers of epochs.",
        "Give both the same number, or `max_epochs=-1` so that the sampler ends the run.",
    ),
    "integrations.lightning._loader_of": (
        "`train_dataloader` returns several loaders.",
        "Return one loader, the sampler's.",
    ),
    "integrations.lightning._check_reloaded": (
        "Lightning calls `train_dataloader` again, and it builds a new sampler each time.",
        "Build the sampler once in `setup()`, or set `reload_dataloaders_every_n_epochs=0`.",
    ),
    "integrations.transformers._sampler": (
        "The sampler of the trainer was read before `train()`.",
        "Read it in a callback, or after training.",
    ),
    "integrations.transformers.training_step": (
        "A subclass overrides `compute_loss` and does not call the trainer's own.",
        "Call `super().compute_loss(...)`, or pass the loss as `compute_loss_func`.",
    ),
    "norms.definition._warn_once": (
        "The model uses an operation without a rule, so every example is differentiated alone.",
        "Accept the time, replace the operation, or use a forward-only score. `go.explain_norms` names it.",
    ),
    "norms.observe.norms": (
        "`seen.norms` was read too early.",
        "Wrap the losses by `seen.losses(losses)`, call `backward()`, then read the norms.",
    ),
    "norms.observe.batch_gradient_norm": (
        "The gradient of the batch was not recorded.",
        "Use `observe_gradient_norms(model, batch_gradient=True)`.",
    ),
    "orderings.gradient_balancing.end_epoch": (
        "The epoch ended early, or some steps passed no gradients.",
        "Pass `gradients=` in every step and finish the epoch. Otherwise the old order is used again.",
    ),
    "ranks.agree": (
        "The processes were called with different epochs, datasets or seeds.",
        "Build the sampler with the same arguments on all processes, and call `set_epoch` on all of them.",
    ),
    "ranks.failing_together": (
        "Another process failed. This one stops too, so that it does not hang.",
        "Read the error of the process that the message names.",
    ),
    "sampler.memory.remember": (
        "`num_replicas` is larger than 1, but there is no process group of that size.",
        "Call `torch.distributed.init_process_group` before you build the sampler, or pass scores to `set_epoch`.",
    ),
    "sampler.notices.no_scores": (
        "The ordering needs scores, and none were given.",
        "Call `sampler.step(losses.detach())` in every step and use `start_epoch=1`, or pass scores to `set_epoch`.",
    ),
    "sampler.notices.steps_changed": (
        "An epoch without scores is complete, so it is longer than planned.",
        "As above; or ask `num_steps` after `set_epoch`.",
    ),
    "sampler.notices.scores_discarded": (
        "`step` was not called exactly once per batch, so losses and examples may not match.",
        "Call `step` for every batch, without losses for a batch that you skip.",
    ),
    "sampler.notices.beyond_the_end": (
        "You train more epochs than the sampler was built for.",
        "Build the sampler with the right `epochs`, or loop over `sampler.run()`.",
    ),
    "sampler.notices.epoch_repeated": (
        "`set_epoch` is missing, so every epoch has the same order.",
        "Loop over `sampler.run()`, or call `sampler.set_epoch(epoch)` before each epoch.",
    ),
    "sampler.notices.length_varies": (
        "A learning-rate schedule was built from `len(loader)`, but later epochs are shorter.",
        "Use `go.ProgressLR`, with `go.one_cycle()` or `go.warmup_cosine()` if you need a warm-up.",
    ),
    "sampler.notices.floor": (
        "The losses include label smoothing or a penalty, so no loss is close to zero.",
        "Train on that loss, and give `step` the plain loss of each example.",
    ),
    "sampler.plan.num_steps": (
        "The default decides at the start of each epoch how many examples it visits.",
        "Use `go.ProgressLR` for the learning rate, or `go.recommended(..., budget=...)` for a fixed number of steps.",
    ),
    "sampler.position.next_batch": (
        "`weights`, `weigh` or `loss_scale` was used after the last batch of the epoch.",
        "Use them between receiving a batch and its `step`.",
    ),
    "sampler.position.check_step": (
        "`step` was called more often than batches were delivered.",
        "Call it once per batch. Use `sampler.loader(dataset)`, or pass the sampler to your `DataLoader`.",
    ),
    "sampler.position._check_indices": (
        "The indices given to `step` are not those of the next batch.",
        "Call `step` for every batch, in the order of the loader.",
    ),
    "sampler.sampler._check_world_size": (
        "The sampler was built before the process group.",
        "Build it after `torch.distributed.init_process_group`.",
    ),
    "sampler.sampler._check_is_latest": (
        "Two loops iterate over loaders of one sampler.",
        "Use `sampler.evaluation_loader(dataset)` for evaluation, and one sampler per training loop.",
    ),
    "sklearn.classifier._warn_if_one_class": (
        "The classifier learned nothing: the learning rate or the order does not suit the data.",
        "Try the changes that the message names, one at a time.",
    ),
    "sklearn.estimator._warn_if_not_converged": (
        "The loss still improved by more than `tol` when `max_iter` was reached.",
        "Use a larger `max_iter`, or `tol=None` for a fixed number of epochs.",
    ),
}
"""Place -> cause and remedy."""


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(_cell(cell) for cell in line)} |" for line in lines)


_TYPESET = ((r"\|\|_2", "‖₂"), (r"\|\|", "‖"), (r"\|", "&#124;"), (r"_i\b", "ᵢ"), (r"\^2\b", "²"))


def _cell(text: str) -> str:
    for plain, shown in _TYPESET:
        text = re.sub(plain, shown, text)
    return text


TABLES: Mapping[str, Callable[[], str]] = {
    "orderings": orderings_table,
    "scores": scores_table,
    "selections": selections_table,
    "sampler_costs": sampler_costs,
    "score_costs": score_costs,
    "warnings": warnings_table,
    "errors": errors_table,
}

if __name__ == "__main__":
    main()
