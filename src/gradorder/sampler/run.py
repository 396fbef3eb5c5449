"""One run: its epochs one after another, and what it has learned from training so far."""

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, final

import torch

from gradorder import checks
from gradorder.errors import StepError
from gradorder.orderings.learner import Learner
from gradorder.ranks import Ranks
from gradorder.sampler.current import CurrentEpoch, Iteration
from gradorder.sampler.history import History, Recorder
from gradorder.sampler.memory import ScoreMemory
from gradorder.sampler.notices import Notices
from gradorder.sampler.planner import EpochPlanner
from gradorder.sampler.state import SamplerState
from gradorder.sampler.steps import StepCounts

Scores = torch.Tensor | Callable[[], torch.Tensor]
"""One number per example of the data set, or a function that computes them when they are needed."""


class Begun(NamedTuple):
    """A loader that began, and the epoch that it began."""

    current: CurrentEpoch
    iteration: Iteration


@final
class Run:
    """What changes while a sampler is used: the current epoch, remembered scores, what was learned, and what was said.

    Args:
        planner: plans its epochs; never changes.
        ranks: the processes that share it.
    """

    def __init__(self, planner: EpochPlanner, ranks: Ranks) -> None:
        self.planner = planner
        self.ranks = ranks
        self.memory = ScoreMemory(planner.num_examples, ranks)
        self.steps = StepCounts(planner)
        self.history: Recorder | None = None  # unless it is asked for
        self.epoch: CurrentEpoch | None = None  # planned when first needed
        self._learner = planner.ordering.learner(planner.num_examples)
        self.notices = Notices()
        self._is_stepped = False
        self.begun: Begun | None = None  # the last of all

    def current(self) -> CurrentEpoch:
        """The epoch under way; at first epoch 0, without scores."""
        if self.epoch is None:
            self.epoch = CurrentEpoch(self.planner.plan(0, None), 0)
        return self.epoch

    @property
    def num_consumed(self) -> int:
        """Batches of the epoch that `step` has counted or, where it was never called, that were handed out."""
        current = self.current()
        return current.place.consumed if self._is_stepped else current.iteration.handed

    # ---------------------------------------------------------------- planning

    def enter(self, epoch: int, given: Scores | None) -> None:
        """Plan this epoch; where it is the current one, only if there are scores and nothing of it was consumed."""
        before = self.epoch
        if before is not None and before.is_resuming and epoch < before.plan.epoch:
            raise ValueError(
                f"epoch must be at least {before.plan.epoch}, where load_state_dict goes on, got {epoch}: does a "
                "framework count epochs by itself? see gradorder.integrations"
            )
        is_new = before is None or epoch != before.plan.epoch
        replans = before is None or is_new or (given is not None and before.place.consumed == 0)
        if self.ranks.is_connected:
            order = 0 if before is None or replans else before.plan.fingerprint
            kind = 0 if given is None else 1 + callable(given)
            self.ranks.agree("what set_epoch is called for", epoch=epoch, replans=replans, scores=kind, order=order)
        self.epoch = self._plan(epoch, given, ended=before if is_new else None) if replans else before
        self.steps.enter(self.current().plan)

    def _plan(self, epoch: int, given: Scores | None, ended: CurrentEpoch | None) -> CurrentEpoch:
        with self.ranks.failing_together(f"planning epoch {epoch}"):
            self.memory.settle()
            doubtful = None if ended is None else ended.doubtful(is_over=True)
            if doubtful is not None:
                self.memory.forget(doubtful)
            if self.history is not None:
                self.history.settle(doubtful)
            fresh, used = self._scores_for(epoch, given)
            learner = self._learner if ended is None else self._learner_after(ended)
            plan = self.planner.plan(epoch, used, learner.order())
        if self.ranks.is_connected:
            self.ranks.agree(f"the order of epoch {epoch}", order=plan.fingerprint)
        # Without `step` nobody knows what was used; a resumed run counts what was handed out before.
        if ended is not None and self._is_stepped and 0 < ended.place.consumed < ended.plan.num_batches:
            num_forgotten = 0 if doubtful is None else len(doubtful)
            self.notices.left_early(ended.plan.epoch, ended.place.consumed, ended.plan.num_batches, num_forgotten)
        if fresh is not None:
            self.memory.restore(fresh)
        self._learner = learner
        again = None if used is None or self.planner.replayed_epoch(epoch + 1) is None else used.clone()
        return CurrentEpoch(plan, self.planner.ordering.source_epoch(epoch), source_scores=again)

    def _scores_for(self, epoch: int, given: Scores | None) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        """The scores to remember, and those that order this epoch."""
        is_scored = self.planner.needs_scores(epoch)
        source = self.planner.replayed_epoch(epoch)
        replayed = self.epoch if self.epoch is not None and self.epoch.source_epoch == source else None
        if callable(given):
            given = given() if is_scored and replayed is None else None
        fresh = None if given is None else checks.finite_scores(given, self.planner.num_examples).cpu()
        if replayed is not None:
            return fresh, replayed.source_scores
        if not is_scored:
            return fresh, None
        return fresh, self.memory.known() if fresh is None else fresh

    def _learner_after(self, ended: CurrentEpoch) -> Learner:
        """What has learned from this epoch: a copy, so that a plan that fails changes nothing."""
        learner, epoch = copy.copy(self._learner), ended.plan.epoch
        is_due = ended.iteration.issued > 0 and self.planner.is_ordered(epoch)
        learner.end_epoch(epoch, len(ended.plan.sequence), is_due=is_due)
        return learner

    # ---------------------------------------------------------------- handing out

    def batches(self, current: CurrentEpoch) -> Iterator[list[int]]:
        """The only loop over batches. One counts as issued when its first example is taken.

        Nothing changes before that: some loaders make an iterator and throw it away. An iterator keeps the epoch that
        it was made for, also when another one is planned.
        """
        iteration = self._begin(current) if current is self.epoch else Iteration()
        self.begun = Begun(current, iteration)
        for batch in current.plan.batches(iteration.issued):
            self._check_alone(current, iteration)
            iteration.issued += 1
            yield batch

    def deliver(self, begun: Begun) -> None:
        """Training gets the next batch of this loader."""
        begun.iteration.deliver()
        self._check_alone(*begun)

    def _check_alone(self, current: CurrentEpoch, iteration: Iteration) -> None:
        if iteration is not current.iteration and current is self.epoch and self._is_stepped:
            raise StepError(
                f"two loaders iterate over one sampler at the same time: another one began epoch "
                f"{current.plan.epoch} after batch {iteration.issued} was handed out here, so nobody knows which "
                "of them step counts for. Give the second one a sampler of its own"
            )

    def _begin(self, current: CurrentEpoch) -> Iteration:
        """What is odd about an epoch is said when it begins: until then scores may still be given for it."""
        epoch, num_steps = current.plan.epoch, current.plan.num_batches
        expected = self.steps.surprise(current.plan)
        if expected is not None:
            self.notices.steps_changed(epoch, num_steps, expected)
        elif self.planner.needs_scores(epoch) and self.memory.is_empty:
            keep = self.planner.fraction(epoch)
            if keep < 1 or epoch > 0:  # in epoch 0 the losses may be about to come
                self.notices.no_scores(epoch, self.planner.ordering, keep)
        self.steps.enter(current.plan)
        return current.begin()

    # ---------------------------------------------------------------- consuming

    def step(
        self,
        scores: torch.Tensor | None,
        indices: Sequence[int] | torch.Tensor | None,
        gradients: torch.Tensor | None,
        margins: torch.Tensor | None = None,
    ) -> None:
        """Count a batch, remember its scores and learn from its gradients."""
        if margins is not None and (self.history is None or scores is None):
            raise ValueError("margins are for the history, beside the losses: call record_history() and give both")
        current = self.current()
        epoch = current.plan.epoch
        batch, examples = current.next_examples(indices)
        if indices is None and current.iteration.is_out_of_step:
            self.notices.step_missing(epoch, batch)
            if gradients is not None:
                raise StepError(f"step was not called for every batch before batch {batch} of epoch {epoch}")
            scores = None
        where = f"given to step for batch {batch} of epoch {epoch}"
        is_due = self.planner.is_ordered(epoch)
        rows = self._learner.checked(f"gradients {where}", gradients, examples, is_due=is_due)
        if margins is not None:
            margins = checks.per_example(f"margins {where}", margins, len(examples)).detach()
        values = None if scores is None else torch.as_tensor(scores).detach()
        if values is not None:
            self.memory.remember(examples, checks.per_example(f"scores {where}", values, len(examples)))
        self._is_stepped = True
        if current.consume(is_verified=indices is not None):
            self._learner.begin_epoch()
        self._learner.learn(examples, rows)
        if self.history is not None and values is not None:
            self.history.note(epoch, examples, values, margins, lambda: current.doubtful(is_over=True))
        if current.is_repeated:
            self.notices.epoch_repeated(epoch)

    # ---------------------------------------------------------------- state

    @property
    def _visits_are_sure(self) -> bool:
        """Whether what `step` was told of the epoch belongs to its examples, as far as can be known now."""
        return len(self.current().doubtful(is_over=True)) == 0

    def seen(self) -> History | None:
        """What is known of every example, where it is recorded."""
        return None if self.history is None else self.history.columns(is_sure=self._visits_are_sure)

    def state(self) -> SamplerState:
        """The place in the run, the same on all processes. What may belong to other examples stays out of it."""
        current, consumed, is_sure = self.current(), self.num_consumed, self._visits_are_sure
        plan, doubtful = current.plan, current.doubtful(is_over=False)
        if self.ranks.is_connected:
            place = {"epoch": plan.epoch, "consumed": consumed, "order": plan.fingerprint, "is_sure": is_sure}
            self.ranks.agree("the place in the run", **place)
        self.memory.settle()
        if len(doubtful):
            self.notices.doubtful_left_out(plan.epoch, len(doubtful))
        return SamplerState(
            num_examples=self.planner.num_examples,
            batch_size=self.planner.batch_size,
            seed=self.planner.seed,
            epoch=plan.epoch,
            consumed=consumed,
            is_stepped=self._is_stepped,
            sequence=plan.sequence,
            planned_steps=self.steps.state(),
            source_epoch=current.source_epoch,
            source_scores=current.source_scores,
            remembered_scores=self.memory.known_without(doubtful),
            weights=plan.weights,
            learned=self._learner.state(),
            history={} if self.history is None else self.history.state(is_sure=is_sure),
        )

    def load(self, state: SamplerState) -> None:
        """Go on there."""
        plan = self.planner.plan_of(state.epoch, state.sequence, state.weights)
        learner = self.planner.ordering.learner(self.planner.num_examples)
        learner.load(state.learned)
        place = Iteration.starting_at(state.consumed)
        if state.history:
            self.history = Recorder.from_state(state.history, self.planner.num_examples, self.ranks)
        elif self.history is not None:
            self.history = Recorder(self.planner.num_examples, self.ranks, self.history.learned_below)
        self._learner = learner
        self.memory.restore(state.remembered_scores)
        self._is_stepped = state.is_stepped
        self.steps.load(state.planned_steps)
        self.epoch = CurrentEpoch(plan, state.source_epoch, state.source_scores, place, is_loaded=True)
