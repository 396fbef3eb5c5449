"""Lightning on one and two processes: batches and weights of plain torch; its lengths, its checkpoints, its traps."""

import tempfile
import textwrap
from functools import cache
from pathlib import Path

import processes
import pytest
import reference_run as reference
import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from torch.utils.data import BatchSampler, DataLoader

import gradorder as go
from gradorder.integrations.lightning import OrderedTrainer, OrderedTraining, sampler_of

processes.preload("lightning.pytorch", "gradorder.integrations.lightning")
pytestmark = pytest.mark.filterwarnings("ignore")  # Lightning's own, about loggers, workers and deprecations


class Module(LightningModule):
    def __init__(self, *, wraps=False, schedules=False, start_epoch=1, **loading):
        super().__init__()
        self.model = reference.new_model()
        self.data = reference.data()
        self.settings = reference.SETTINGS | {"start_epoch": start_epoch}
        self.wraps, self.schedules, self.loading = wraps, schedules, loading
        self.lengths = [0] * reference.EPOCHS
        self.batches, self.num_validations, self.scheduler = [], [0] * reference.EPOCHS, None

    def forward(self, inputs):
        return self.model(inputs)

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=reference.LR, momentum=0.9)
        if not self.schedules:
            return optimizer
        total = self.trainer.estimated_stepping_batches
        self.scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=total + 1)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": self.scheduler, "interval": "step"}}

    def train_dataloader(self):
        self.sampler = go.OrderedSampler(self.data, reference.BATCH, **self.settings)
        if self.wraps:
            return DataLoader(self.data, batch_sampler=BatchSampler(self.sampler, 2, drop_last=False))
        return DataLoader(self.data, self.sampler.loader_batch_size, sampler=self.sampler, **self.loading)

    def val_dataloader(self):
        return DataLoader(self.data, 8)

    def validation_step(self, batch, batch_idx):
        if batch_idx == 0:
            self.num_validations[self.current_epoch] += 1

    def training_step(self, batch, batch_idx):
        losses = reference.losses(self, batch)
        self.batches.append((self.current_epoch, batch[2].tolist()))
        self.lengths[self.current_epoch] = self.trainer.num_training_batches
        return {"loss": losses.mean() * self.sampler.loss_scale, "scores": losses.detach()}


class SaveEveryStep(Callback):
    def __init__(self, folder):
        self.folder, self.saved = folder, []

    def on_train_batch_end(self, trainer, *args):
        path = self.folder / f"{len(self.saved)}.ckpt"
        trainer.save_checkpoint(path)
        self.saved.append(path)


def fit(module, *, score=None, checkpoint=None, callbacks=(), trainer_class=OrderedTrainer, **settings):
    trainer = trainer_class(
        accelerator="cpu",
        devices=torch.distributed.get_world_size() if torch.distributed.is_initialized() else 1,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        callbacks=[OrderedTraining(score, batch_size=9), *callbacks],
        **{"max_epochs": reference.EPOCHS, "enable_checkpointing": False, **settings},
    )
    trainer.fit(module, ckpt_path=checkpoint)
    return trainer


def weights(module):
    return [parameter.detach().clone() for parameter in module.model.parameters()]


def score(module, batch):
    return go.gradient_norms(module, batch, reference.losses)


@cache
def expected(*, rescores):
    return reference.train(rescores=rescores)


class Recommended(Module):
    """All but the last five examples are learned."""

    epochs = reference.EPOCHS

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=reference.LR)
        self.scheduler = go.ProgressLR(optimizer, sampler_of(self.trainer), lambda progress: 1 - progress)
        return [optimizer], [{"scheduler": self.scheduler, "interval": "step"}]

    def train_dataloader(self):
        self.sampler = go.recommended(self.data, reference.BATCH, epochs=self.epochs)
        return self.sampler.loader(self.data)

    def training_step(self, batch, batch_idx):
        self.rates = [*getattr(self, "rates", []), self.scheduler.get_last_lr()[0]]
        learned = torch.where(batch[2] < len(self.data) - 5, 0.01, 2.0)
        return super().training_step(batch, batch_idx) | {"scores": learned}


# ------------------------------------------------------------------------------------------------ two processes


def on_two_processes(folder):
    results = {}
    for rescores in (False, True):
        module = Module(schedules=False)
        fit(module, score=score if rescores else None, strategy="ddp")
        results["batches", rescores] = module.batches, weights(module)
    module = Module(schedules=True, num_workers=1)
    saves = SaveEveryStep(folder)
    trainer = fit(module, strategy="ddp", callbacks=[saves])
    results["lengths"] = module.num_validations, module.scheduler.last_epoch, trainer.estimated_stepping_batches
    for step in (2, 5, 8):
        resumed = Module(schedules=True, num_workers=step % 2)
        fit(resumed, strategy="ddp", checkpoint=saves.saved[step])
        results["resumed", step] = module.batches[step + 1 :], resumed.batches, weights(module), weights(resumed)
    try:
        fit(Module(wraps=True), strategy="ddp")
    except RuntimeError as error:
        results["replaced"] = str(error)
    return results


@cache
def two_processes():
    with tempfile.TemporaryDirectory() as folder:
        return processes.run(on_two_processes, 2, Path(folder), timeout=150)


@pytest.mark.slow
@pytest.mark.parametrize("rescores", [False, True])
def test_two_processes_train_on_the_batches_of_plain_torch(rescores):
    ranks = [rank["batches", rescores] for rank in two_processes()]
    batches, expected_weights = expected(rescores=rescores)
    assert reference.put_together([rank[0] for rank in ranks]) == batches
    for rank in ranks:
        torch.testing.assert_close(rank[1], expected_weights, rtol=1e-9, atol=1e-12)


@pytest.mark.slow
def test_every_epoch_validates_and_the_scheduler_gets_all_its_steps():
    for rank in two_processes():
        assert rank["lengths"] == ([1] * reference.EPOCHS, sum(reference.STEPS), sum(reference.STEPS))


@pytest.mark.slow
@pytest.mark.parametrize("step", [2, 5, 8])
def test_two_processes_resume_from_the_checkpoint_of_any_step(step):
    for rank in two_processes():
        left, resumed, _, _ = rank["resumed", step]
        assert resumed == left


@pytest.mark.slow
def test_a_replaced_sampler_raises():
    for rank in two_processes():
        assert "must have an OrderedSampler, but Trainer uses it with a DistributedSampler" in rank["replaced"]


# ------------------------------------------------------------------------------------------------ one process


@pytest.mark.slow
@pytest.mark.parametrize("workers", [{}, {"num_workers": 2}, {"num_workers": 2, "persistent_workers": True}], ids=str)
def test_one_process_with_and_without_workers(workers):
    for rescores in (False, True):
        module = Module(**workers)
        fit(module, score=score if rescores else None)
        batches, expected_weights = expected(rescores=rescores)
        assert module.batches == batches
        assert module.lengths == reference.STEPS
        torch.testing.assert_close(weights(module), expected_weights, rtol=1e-9, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("rescores", [False, True])
def test_resuming_from_the_checkpoint_of_every_step(tmp_path, rescores):
    saves = SaveEveryStep(tmp_path)
    straight = Module()
    fit(straight, score=score if rescores else None, callbacks=[saves])
    for step, checkpoint in enumerate(saves.saved):
        resumed = Module()
        fit(resumed, score=score if rescores else None, checkpoint=checkpoint)
        assert resumed.batches == straight.batches[step + 1 :], f"stopped after step {step}"
        assert all(torch.equal(a, b) for a, b in zip(weights(resumed), weights(straight), strict=True))
        first = straight.batches[step][0] + 1
        assert resumed.num_validations[first:] == [1] * (reference.EPOCHS - first)


@pytest.mark.parametrize("at_train_end", [True, False])
@pytest.mark.parametrize("rescores", [False, True])
def test_resuming_from_lightnings_own_checkpoint_of_every_epoch(tmp_path, at_train_end, rescores):
    saves = ModelCheckpoint(tmp_path, "{epoch}", save_top_k=-1, save_on_train_epoch_end=at_train_end)
    straight = Module()
    fit(straight, score=score if rescores else None, callbacks=[saves], enable_checkpointing=True)
    for epoch in range(reference.EPOCHS):
        resumed = Module()
        fit(resumed, score=score if rescores else None, checkpoint=tmp_path / f"epoch={epoch}.ckpt")
        assert resumed.batches == [batch for batch in straight.batches if batch[0] > epoch]
        assert all(torch.equal(a, b) for a, b in zip(weights(resumed), weights(straight), strict=True))
        assert resumed.num_validations[epoch + 1 :] == [1] * (reference.EPOCHS - epoch - 1)


def test_validation_within_the_epoch_and_accumulation():
    module = Module(schedules=True)
    trainer = fit(module, val_check_interval=0.5, accumulate_grad_batches=4)
    assert module.num_validations == [2] * reference.EPOCHS
    assert module.scheduler.last_epoch == trainer.estimated_stepping_batches == 2 + 1 + 1 + 1


@pytest.mark.parametrize(("chosen", "steps"), [(None, 6 + 4 + 4 + 4), (score, 4 + 4 + 4 + 4)])
def test_the_first_epoch_is_complete_without_a_score_and_counted_so(chosen, steps):
    module = Module(schedules=True, start_epoch=0)
    trainer = fit(module, score=chosen)
    assert trainer.estimated_stepping_batches == module.scheduler.last_epoch == len(module.batches) == steps


def test_limited_batches():
    module = Module(schedules=True)
    trainer = fit(module, limit_train_batches=5)
    assert [epoch for epoch, _ in module.batches] == [0] * 5 + [1] * 4 + [2] * 4 + [3] * 4
    assert trainer.estimated_stepping_batches == module.scheduler.last_epoch == 17


def test_an_interval_longer_than_a_later_epoch_is_refused():
    with pytest.raises(ValueError, match=r"val_check_interval must be at most the 4 batches of epoch 1, got 5"):
        fit(Module(), val_check_interval=5)


def test_overfitting_batches_is_refused():
    with pytest.raises(RuntimeError, match="do not use overfit_batches"):
        fit(Module(), overfit_batches=2)


def test_step_sizes_follow_the_progress_of_a_run_whose_steps_nobody_knows(tmp_path):
    module, saves = Recommended(), SaveEveryStep(tmp_path)
    fit(module, callbacks=[saves])
    lengths = [sum(epoch == one for epoch, _ in module.batches) for one in range(reference.EPOCHS)]
    assert max(lengths[1:]) < lengths[0]
    behind = [(e + k / n) / reference.EPOCHS for e, n in enumerate(lengths) for k in range(n)]
    assert module.rates == pytest.approx([reference.LR * (1 - part) for part in behind])
    assert module.lengths == lengths
    step = lengths[0] + 1
    resumed = Recommended()
    fit(resumed, checkpoint=saves.saved[step - 1])
    assert resumed.batches == module.batches[step:]
    assert resumed.rates == pytest.approx(module.rates[step:])


@pytest.mark.filterwarnings("ignore:epoch 3 is beyond the end of the run")
def test_fewer_epochs_than_are_trained_are_warned_about():
    module = Recommended()
    module.epochs = reference.EPOCHS - 1
    with pytest.warns(
        UserWarning, match=r"built with epochs=3, and the trainer has max_epochs=4: .* stays at its end, most often 0"
    ):
        fit(module)


def test_a_run_that_another_fit_goes_on_with_is_warned_about_and_its_rates_go_on():
    module = Recommended()
    trainer = Trainer(
        max_epochs=2,
        accelerator="cpu",
        devices=1,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
        num_sanity_val_steps=0,
        callbacks=[OrderedTraining()],
    )
    with pytest.warns(
        UserWarning, match=r"built with epochs=4, and the trainer has max_epochs=2: .* unless another fit goes on"
    ):
        trainer.fit(module)
    num_steps = len(module.rates)
    trainer.fit_loop.max_epochs = 4
    trainer.fit(module)
    assert module.batches[num_steps][0] == 2
    assert module.rates[num_steps] == pytest.approx(reference.LR / 2)


class Metrics(Callback):
    def __init__(self):
        self.logged = []

    def on_train_epoch_end(self, trainer, *args):
        del args
        self.logged.append({name: float(value) for name, value in trainer.callback_metrics.items()})


def test_the_logs_tell_which_part_of_the_examples_an_epoch_visits(tmp_path):
    module, metrics, saves = Module(), Metrics(), SaveEveryStep(tmp_path)
    fit(module, callbacks=[metrics, saves])
    visited = [sum(len(batch) for at, batch in module.batches if at == epoch) for epoch in range(reference.EPOCHS)]
    kept = [number / len(module.data) for number in visited]
    assert kept[0] == 1
    assert kept[1] < 1
    assert [each["gradorder/kept"] for each in metrics.logged] == pytest.approx(kept)
    assert [each["gradorder/skipped"] for each in metrics.logged] == pytest.approx([1 - part for part in kept])
    again = Metrics()
    fit(Module(), checkpoint=saves.saved[reference.STEPS[0]], callbacks=[again])  # within epoch 1
    assert again.logged == metrics.logged[1:]


def test_without_a_number_of_epochs_the_sampler_ends_the_run(tmp_path):
    module, saves = Recommended(), SaveEveryStep(tmp_path)
    module.lengths, module.num_validations = [0] * 100, [0] * 100
    trainer = fit(module, max_epochs=-1, callbacks=[saves])
    expected = go.recommended(module.data, reference.BATCH, epochs=reference.EPOCHS)
    lengths = []
    for _ in expected.run():
        batches = list(expected.loader(module.data))
        lengths.append(len(batches))
        for batch in batches:
            expected.step(torch.where(batch[2] < len(module.data) - 5, 0.01, 2.0))
    assert trainer.current_epoch == len(lengths) > reference.EPOCHS
    assert module.lengths[: len(lengths)] == lengths
    assert module.num_validations[: len(lengths)] == [1] * len(lengths)
    assert module.sampler.progress == 1
    step = len(module.batches) - 2
    resumed = Recommended()
    resumed.lengths, resumed.num_validations = [0] * 100, [0] * 100
    fit(resumed, max_epochs=-1, checkpoint=saves.saved[step - 1])
    assert resumed.batches == module.batches[step:]
    assert resumed.rates == pytest.approx(module.rates[step:])
    over = Recommended()
    over.lengths, over.num_validations = [0] * 100, [0] * 100
    fit(over, max_epochs=-1, checkpoint=saves.saved[-1])
    assert over.batches == []
    with pytest.raises(ValueError, match=r"max_epochs must be -1.*got max_epochs=4.*Use Trainer\(max_epochs=-1\)"):
        fit(Recommended(), checkpoint=saves.saved[reference.STEPS[0]])


def test_after_lightnings_own_checkpoint_of_the_last_epoch_nothing_is_left(tmp_path):
    def shuffled():
        module = Module()
        module.settings = {"ordering": go.Shuffled(), "epochs": 2}
        return module

    saves, straight = ModelCheckpoint(tmp_path, "last"), shuffled()
    fit(straight, max_epochs=-1, callbacks=[saves], enable_checkpointing=True)
    assert len(straight.batches) == 2 * 6
    resumed = shuffled()
    fit(resumed, max_epochs=-1, checkpoint=tmp_path / "last.ckpt")
    assert resumed.batches == []


def test_steps_of_the_trainer_end_a_run_before_the_sampler_does():
    module = Module()
    module.settings |= {"epochs": 1}
    fit(module, max_epochs=None, max_steps=9)  # Lightning makes max_epochs=-1 of it
    assert len(module.batches) == 9


def test_limited_batches_where_only_complete_epochs_end_the_run_are_refused():
    with pytest.raises(ValueError, match=r"limit_train_batches must be 1\.0 with max_epochs=-1.*got 3.*Set max_epochs"):
        fit(Recommended(), max_epochs=-1, limit_train_batches=3)


def test_a_schedule_of_a_run_that_the_sampler_ends_has_its_steps():
    module = Module(schedules=True)
    module.settings |= {"epochs": reference.EPOCHS}
    trainer = fit(module, max_epochs=-1)
    assert trainer.estimated_stepping_batches == module.scheduler.last_epoch == sum(reference.STEPS)

    class Cosine(Module):
        """With an infinite estimate, its learning rate would never change."""

        def configure_optimizers(self):
            optimizer = torch.optim.SGD(self.parameters(), lr=reference.LR)
            steps = self.trainer.estimated_stepping_batches
            scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=steps)
            return [optimizer], [{"scheduler": scheduler, "interval": "step"}]

    cosine = Cosine()
    cosine.settings |= {"epochs": reference.EPOCHS}
    with pytest.raises(ValueError, match=r"estimated_stepping_batches is inf, but the run will have 18 steps"):
        fit(cosine, max_epochs=-1, trainer_class=Trainer)


def test_a_run_whose_sampler_was_started_needs_no_number_of_epochs():
    class Started(Recommended):
        def train_dataloader(self):
            loader = super().train_dataloader()
            self.sampler.start_run()
            return loader

    with pytest.raises(ValueError, match=r"max_epochs must be -1"):
        fit(Started())


# ------------------------------------------------------------------------------------------------ refusals


def test_a_plain_trainer_whose_estimate_a_scheduler_may_have_used_is_refused():
    with pytest.raises(
        ValueError, match=r"estimated_stepping_batches is 24, but the run will have 18 steps.*OrderedTra"
    ):
        fit(Module(schedules=True), trainer_class=Trainer)
    fit(Module(), trainer_class=Trainer)  # no scheduler that counts steps


def test_a_reloaded_loader_with_a_new_sampler_is_refused():
    with pytest.raises(RuntimeError, match=r"sampler must stay the same.*reload_dataloaders_every_n_epochs=0"):
        fit(Module(), reload_dataloaders_every_n_epochs=1)


def test_a_reloaded_loader_with_the_same_sampler_changes_nothing():
    class Reloading(Module):
        def train_dataloader(self):
            if not hasattr(self, "sampler"):
                return super().train_dataloader()
            return DataLoader(self.data, self.sampler.loader_batch_size, sampler=self.sampler)

    module = Reloading()
    fit(module, reload_dataloaders_every_n_epochs=1)
    assert module.batches == expected(rescores=False)[0]


class Manual(Module):
    def __init__(self, *, returns):
        super().__init__()
        self.automatic_optimization = False
        self.returns = returns

    def training_step(self, batch, batch_idx):
        outputs = super().training_step(batch, batch_idx)
        optimizer = self.optimizers()
        optimizer.zero_grad()
        self.manual_backward(outputs["loss"])
        optimizer.step()
        return outputs if self.returns else None


def test_manual_optimization_that_returns_nothing_is_refused():
    with pytest.raises(ValueError, match=r"training_step must return scores.*returned nothing.*manual optimization"):
        fit(Manual(returns=False))
    module = Manual(returns=True)
    fit(module)
    assert module.batches == expected(rescores=False)[0]


def test_a_batch_that_is_skipped_as_lightning_documents_needs_no_scores():
    class Skipping(Module):
        def training_step(self, batch, batch_idx):
            outputs = super().training_step(batch, batch_idx)
            return None if batch_idx == 2 else outputs

    module = Skipping()
    fit(module)
    assert len(module.batches) == sum(reference.STEPS)


def test_without_scores_plain_shuffling_needs_none():
    class Shuffling(Module):
        def training_step(self, batch, batch_idx):
            return super().training_step(batch, batch_idx)["loss"]

    module = Shuffling()
    module.settings = {"ordering": go.Shuffled()}
    fit(module)
    assert len(module.batches) == 6 * reference.EPOCHS


def test_the_example_of_the_docstring_runs(tmp_path):
    """Its class, written out and completed."""
    lines = OrderedTraining.__doc__.split("::\n")[1].split("trainer = ")[0]
    names = {"LightningModule": Module, "go": go}
    exec(textwrap.dedent(lines), names)  # noqa: S102 - our own docstring
    module = names["Classifier"]()
    fit(module)
    assert module.num_validations == [1] * reference.EPOCHS
