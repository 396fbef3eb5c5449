"""transformers.Trainer with a small GPT on one and two processes: batches, lengths and resumes of plain torch."""

import importlib
import tempfile
from functools import cache, partial
from pathlib import Path

import processes
import pytest
import torch
import torch.distributed as dist
from reference_run import put_together
from torch.utils.data import DataLoader, Dataset, Sampler, WeightedRandomSampler
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments

import gradorder as go
from gradorder.integrations.transformers import OrderedTrainer, causal_losses, causal_losses_of_outputs

processes.preload("gradorder.integrations.transformers")
pytestmark = pytest.mark.filterwarnings("ignore")  # transformers' own

SIZE, BATCH, EPOCHS = 23, 4, 3
ORDER = {"ordering": go.PlackettLuce(), "keep": 0.6, "start_epoch": 1}  # 6 steps, then 4
STEPS = [6, 4, 4]
LENGTH, VOCABULARY = 6, 32


class Sentences(Dataset):
    """The first token is the number of the example; three to six tokens, then padding."""

    def __init__(self):
        generator = torch.Generator().manual_seed(1)
        self.tokens = torch.randint(VOCABULARY, (SIZE, LENGTH), generator=generator)
        self.tokens[:, 0] = torch.arange(SIZE)
        self.is_token = torch.arange(LENGTH) < 3 + torch.arange(SIZE)[:, None] % 4

    def __len__(self):
        return SIZE

    def __getitem__(self, index):
        # Nothing predicts the first token; said here, because Trainer would count it in its mean over tokens.
        counts = self.is_token[index] & (torch.arange(LENGTH) > 0)
        tokens = self.tokens[index]
        return {
            "input_ids": tokens,
            "attention_mask": self.is_token[index].long(),
            "labels": tokens.where(counts, -100),
        }


def new_model():
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=VOCABULARY,
        n_positions=LENGTH,
        n_embd=8,
        n_layer=1,
        n_head=2,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=0,
        eos_token_id=0,
    )
    return GPT2LMHeadModel(config).double()


class Watched(OrderedTrainer):
    """Notes the batches."""

    def training_step(self, model, inputs, *args):
        self.batches.append((self.ordered_sampler.epoch, inputs["input_ids"][:, 0].tolist()))
        return super().training_step(model, inputs, *args)


class Rates(TrainerCallback):
    def __init__(self):
        self.rates = []

    def on_step_end(self, args, state, control, lr_scheduler=None, **kwargs):
        self.rates.append(lr_scheduler.get_last_lr()[0])


def trainer_for(
    folder,
    *,
    rescores,
    checkpoint=None,
    start_epoch=1,
    order=None,
    record=causal_losses_of_outputs,
    eval_dataset=None,
    watch=None,
    **settings,
):
    num_processes = dist.get_world_size() if dist.is_initialized() else 1
    arguments = {
        "num_train_epochs": EPOCHS,
        "per_device_train_batch_size": BATCH // num_processes,
        "learning_rate": 0.05,
        "lr_scheduler_type": "constant",
        "optim": "sgd",
        "max_grad_norm": 0.0,
        "save_strategy": "no",
        "report_to": [],
        "disable_tqdm": True,
        "use_cpu": True,
        "seed": 3,
        **settings,
    }
    chosen = {"score": go.GradientNorm(causal_losses)} if rescores else {"record": record}
    rates, model = Rates(), new_model()
    if watch is not None:
        model.register_forward_hook(watch)
    trainer = Watched(
        model,
        TrainingArguments(str(folder), **arguments),
        train_dataset=Sentences(),
        eval_dataset=eval_dataset,
        order=order or ORDER | {"start_epoch": start_epoch},
        callbacks=[rates],
        **chosen,
    )
    trainer.batches, trainer.rates = [], rates.rates
    trainer.train(resume_from_checkpoint=checkpoint and str(checkpoint))
    return trainer


def weights(model):
    return [parameter.detach().clone() for parameter in model.parameters()]


@cache
def plain(*, rescores):
    """The same training in plain torch."""
    data, model = Sentences(), new_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    sampler = go.OrderedSampler(data, BATCH, seed=3, **ORDER)
    loader = DataLoader(data, sampler.loader_batch_size, sampler=sampler)
    score = go.GradientNorm(causal_losses)
    batches = []
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch, scores=(lambda: go.score_dataset(model, data, score)) if rescores else None)
        for batch in loader:
            model.train()
            losses = causal_losses(model, batch)
            num_tokens = (batch["labels"] != -100).sum(1)
            optimizer.zero_grad()
            (losses * num_tokens / num_tokens.sum()).sum().backward()  # Trainer's mean is that over tokens
            optimizer.step()
            batches.append((epoch, batch["input_ids"][:, 0].tolist()))
            sampler.step(None if rescores else losses.detach())
    return batches, weights(model)


# ------------------------------------------------------------------------------------------------ two processes


def on_two_processes(folder):
    results = {}
    for rescores in (False, True):
        trainer = trainer_for(folder, rescores=rescores)
        results[rescores] = trainer.batches, weights(trainer.model)
    straight = trainer_for(folder, rescores=False, save_strategy="steps", save_steps=1, lr_scheduler_type="linear")
    results["lengths"] = straight.state.global_step, straight.state.max_steps, straight.rates[-1]
    for step in (2, 6, 8):
        checkpoint = folder / f"checkpoint-{step}"
        resumed = trainer_for(folder, rescores=False, checkpoint=checkpoint, lr_scheduler_type="linear")
        is_same = all(torch.equal(a, b) for a, b in zip(weights(resumed.model), weights(straight.model), strict=True))
        results["resumed", step] = straight.batches[step:], resumed.batches, is_same
    return results


@cache
def two_processes():
    with tempfile.TemporaryDirectory() as folder:
        return processes.run(on_two_processes, 2, Path(folder), timeout=200)


@pytest.mark.slow
@pytest.mark.parametrize("rescores", [False, True])
def test_two_processes_train_on_the_batches_of_plain_torch(rescores):
    ranks = [rank[rescores] for rank in two_processes()]
    batches, expected = plain(rescores=rescores)
    assert put_together([rank[0] for rank in ranks]) == batches
    for rank in ranks:
        torch.testing.assert_close(rank[1], expected, rtol=1e-5, atol=1e-7)


@pytest.mark.slow
def test_two_processes_take_all_steps_of_the_schedule():
    for rank in two_processes():
        assert rank["lengths"] == (sum(STEPS), sum(STEPS), 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("step", [2, 6, 8])
def test_two_processes_resume_without_skipping(step):
    for rank in two_processes():
        left, resumed, is_same = rank["resumed", step]
        assert resumed == left
        assert is_same


# ------------------------------------------------------------------------------------------------ one process


@pytest.mark.parametrize("rescores", [False, True])
def test_one_process_trains_on_the_batches_of_plain_torch(tmp_path, rescores):
    trainer = trainer_for(tmp_path, rescores=rescores, dataloader_num_workers=0 if rescores else 2)
    batches, expected = plain(rescores=rescores)
    assert trainer.batches == batches
    torch.testing.assert_close(weights(trainer.model), expected, rtol=1e-5, atol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("rescores", [False, True])
def test_resuming_from_the_checkpoint_of_every_step(tmp_path, rescores):
    settings = {"rescores": rescores, "lr_scheduler_type": "linear"}
    straight = trainer_for(tmp_path, save_strategy="steps", save_steps=1, **settings)
    assert straight.rates[-1] == 0.0
    for step in range(1, sum(STEPS) + 1):
        resumed = trainer_for(tmp_path, checkpoint=tmp_path / f"checkpoint-{step}", **settings)
        assert resumed.batches == straight.batches[step:], f"stopped after step {step}"
        assert resumed.state.global_step == sum(STEPS)
        assert all(torch.equal(a, b) for a, b in zip(weights(resumed.model), weights(straight.model), strict=True))


def test_evaluating_after_every_step_changes_nothing(tmp_path):
    trainer = trainer_for(tmp_path, rescores=False, eval_strategy="steps", eval_steps=1, eval_dataset=Sentences())
    batches, expected = plain(rescores=False)
    assert trainer.batches == batches
    torch.testing.assert_close(weights(trainer.model), expected, rtol=1e-5, atol=1e-7)
    assert len([entry for entry in trainer.state.log_history if "eval_loss" in entry]) == sum(STEPS)


def test_losses_are_recorded_from_the_pass_that_trains(tmp_path):
    passes = []
    trainer_for(tmp_path, rescores=False, watch=lambda *_: passes.append(1), gradient_accumulation_steps=2)
    assert len(passes) == sum(STEPS)


def test_the_sampler_of_a_function(tmp_path):
    def order(dataset, batch_size):
        return go.recommended(dataset, batch_size, epochs=EPOCHS, budget=0.8, seed=5)

    trainer = trainer_for(tmp_path, rescores=False, order=order)
    assert trainer.ordered_sampler.seed == 5
    assert [epoch for epoch, _ in trainer.batches] == [0] * 6 + [1] * 3 + [2] * 6
    assert trainer.state.global_step == trainer.state.max_steps == 15


def test_accumulation_counts_steps_and_takes_the_rest(tmp_path):
    trainer = trainer_for(tmp_path, rescores=False, gradient_accumulation_steps=4, lr_scheduler_type="linear")
    assert [epoch for epoch, _ in trainer.batches] == [0] * 6 + [1] * 4 + [2] * 4
    assert trainer.state.global_step == trainer.state.max_steps == 2 + 1 + 1
    assert trainer.rates[-1] == 0.0


@pytest.mark.parametrize(("rescores", "steps"), [(False, 6 + 4 + 4), (True, 4 + 4 + 4)])
def test_the_first_epoch_is_complete_without_a_score_and_counted_so(tmp_path, rescores, steps):
    trainer = trainer_for(tmp_path, rescores=rescores, start_epoch=0, lr_scheduler_type="linear")
    assert trainer.state.global_step == len(trainer.batches) == steps
    assert trainer.rates[-1] == 0.0


@pytest.mark.parametrize(("settings", "steps"), [({"max_steps": 9}, 9), ({"num_train_epochs": 1.5}, 6 + 2)])
def test_a_part_of_an_epoch(tmp_path, settings, steps):
    trainer = trainer_for(tmp_path, rescores=False, **settings)
    assert trainer.batches == plain(rescores=False)[0][:steps]


def test_a_checkpoint_of_another_trainer_is_refused(tmp_path):
    trainer_for(tmp_path, rescores=False, save_strategy="epoch")
    (tmp_path / "checkpoint-6" / "ordered_sampler.pt").unlink()
    with pytest.raises(FileNotFoundError, match=r"must contain ordered_sampler\.pt"):
        trainer_for(tmp_path, rescores=False, checkpoint=tmp_path / "checkpoint-6")


@pytest.mark.parametrize(
    ("ordering", "message"),
    [
        (go.PlackettLuce(unbiased=True), "ordering must not weight its examples with Trainer.*got .*PlackettLuce"),
        (go.InfoBatch(epochs=3), "ordering must not weight its examples with Trainer.*got .*InfoBatch"),
        (go.GradientBalancing(), "gradients must be given to every step with GradientBalancing"),
    ],
    ids=str,
)
def test_weights_and_gradients_are_refused(tmp_path, monkeypatch, ordering, message):
    monkeypatch.setitem(ORDER, "ordering", ordering)
    if not isinstance(ordering, go.PlackettLuce):
        monkeypatch.delitem(ORDER, "keep")
    with pytest.raises(ValueError, match=message):
        trainer_for(tmp_path, rescores=False)


def learned(batch, outputs):
    """All but the last five examples."""
    del outputs
    return torch.where(batch["input_ids"][:, 0] < SIZE - 5, 0.01, 2.0)


def without_a_budget(folder, **settings):
    return trainer_for(folder, rescores=False, record=learned, order=partial(go.recommended, epochs=EPOCHS), **settings)


def test_step_sizes_follow_the_progress_of_a_run_whose_steps_nobody_knows(tmp_path):
    trainer = without_a_budget(tmp_path, lr_scheduler_type="linear")
    lengths = [sum(epoch == one for epoch, _ in trainer.batches) for one in range(EPOCHS)]
    assert lengths[0] == 6
    assert max(lengths[1:]) < 6
    expected = [0.05 * (1 - (e + (k + 1) / n) / EPOCHS) for e, n in enumerate(lengths) for k in range(n)]
    assert trainer.rates == pytest.approx(expected)


@pytest.mark.parametrize("step", [3, 6, 8])
def test_such_a_run_is_resumed_where_it_was(tmp_path, step):
    straight = without_a_budget(tmp_path, lr_scheduler_type="cosine", save_strategy="steps", save_steps=1)
    resumed = without_a_budget(
        tmp_path / "again", lr_scheduler_type="cosine", checkpoint=tmp_path / f"checkpoint-{step}"
    )
    assert resumed.batches == straight.batches[step:]
    assert resumed.rates == pytest.approx(straight.rates[step:])


def test_max_steps_end_such_a_run_and_are_what_step_sizes_count(tmp_path):
    trainer = without_a_budget(tmp_path, lr_scheduler_type="linear", max_steps=8)
    assert len(trainer.batches) == 8
    assert trainer.rates == pytest.approx([0.05 * (1 - step / 8) for step in range(1, 9)])


def test_a_part_of_such_an_epoch_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"num_train_epochs must be whole with OrderedSampler.*Unlearned.*, got 1\.5"):
        without_a_budget(tmp_path, num_train_epochs=1.5)


@pytest.mark.parametrize("epochs", [EPOCHS - 1, EPOCHS + 1])
@pytest.mark.parametrize("is_function", [True, False])
def test_other_epochs_than_the_trainers_are_refused(tmp_path, epochs, is_function):
    order = partial(go.recommended, epochs=epochs) if is_function else ORDER | {"epochs": epochs}
    message = f"order must make a sampler with epochs=3, as num_train_epochs is 3, got epochs={epochs}"
    with pytest.raises(ValueError, match=message):
        trainer_for(tmp_path, rescores=False, order=order)


def test_the_logs_tell_which_part_of_the_examples_an_epoch_visits(tmp_path):
    trainer = trainer_for(tmp_path, rescores=False, logging_steps=1, eval_strategy="epoch", eval_dataset=Sentences())
    training = [entry for entry in trainer.state.log_history if "loss" in entry]
    kept = [1.0] * 6 + [14 / SIZE] * 8
    assert [entry["gradorder/kept"] for entry in training] == kept
    assert [entry["gradorder/skipped"] for entry in training] == [1 - part for part in kept]
    assert not any("gradorder/kept" in entry for entry in trainer.state.log_history if "loss" not in entry)


def started(dataset, batch_size):
    sampler = go.recommended(dataset, batch_size, epochs=EPOCHS)
    sampler.start_run()
    return sampler


def until_its_end(folder, **settings):
    return trainer_for(folder, rescores=False, record=learned, order=started, lr_scheduler_type="linear", **settings)


def expected_run():
    """The batches of `sampler.run()`, and the progress after each of them."""
    data, sampler = Sentences(), go.recommended(SIZE, BATCH, epochs=EPOCHS)
    batches, progress = [], []
    for epoch in sampler.run():
        for examples in sampler.loader(collate_fn=list):
            sampler.step(learned({"input_ids": data.tokens[examples]}, None))
            batches.append((epoch, examples))
            progress.append(sampler.progress)
    return batches, progress


@pytest.mark.parametrize("accumulation", [1, 3])
def test_a_run_that_the_sampler_ends_is_that_of_plain_torch(tmp_path, accumulation):
    settings = {"save_strategy": "steps", "save_steps": 100, "gradient_accumulation_steps": accumulation}
    trainer = until_its_end(tmp_path, **settings)
    batches, progress = expected_run()
    assert batches[-1][0] >= EPOCHS  # more epochs than the trainer's, each of them shorter
    assert trainer.batches == batches
    assert trainer.rates[-1] == 0.0
    if accumulation == 1:
        assert trainer.rates == pytest.approx([0.05 * (1 - part) for part in progress])
    assert trainer.state.max_steps == trainer.state.global_step
    assert (tmp_path / f"checkpoint-{trainer.state.global_step}").exists()  # as Trainer saves after its last step


def test_a_run_that_the_sampler_ends_may_have_more_steps_than_complete_epochs(tmp_path, monkeypatch):
    monkeypatch.setattr(Watched, "_num_updates", lambda self, epoch: 1)
    assert until_its_end(tmp_path).batches == expected_run()[0]


@pytest.mark.parametrize("left", [0, 1, 4])
def test_a_run_that_the_sampler_ends_is_resumed_to_the_same_end(tmp_path, left):
    straight = until_its_end(tmp_path, save_strategy="steps", save_steps=1)
    step = straight.state.global_step - left
    resumed = until_its_end(tmp_path, checkpoint=tmp_path / f"checkpoint-{step}")
    assert resumed.batches == straight.batches[step:]
    assert resumed.rates == pytest.approx(straight.rates[step:])
    with pytest.raises(ValueError, match=r"order must call start_run\(\)"):
        without_a_budget(tmp_path, checkpoint=tmp_path / f"checkpoint-{step}")


def test_a_run_has_one_end(tmp_path):
    with pytest.raises(ValueError, match=r"max_steps must not be given if order calls start_run.*got 8"):
        until_its_end(tmp_path, max_steps=8)
    without_a_budget(tmp_path, save_strategy="steps", save_steps=3)
    with pytest.raises(ValueError, match=r"order must not call start_run\(\)"):
        until_its_end(tmp_path, checkpoint=tmp_path / "checkpoint-3")


def test_a_run_of_unknown_length_saves_its_last_step(tmp_path):
    trainer = without_a_budget(tmp_path, save_strategy="steps", save_steps=100)
    assert trainer.state.max_steps == trainer.state.global_step < EPOCHS * 6
    assert (tmp_path / f"checkpoint-{trainer.state.global_step}").exists()


def test_with_max_steps_epochs_are_not_compared(tmp_path):
    trainer = trainer_for(tmp_path, rescores=False, max_steps=22)
    assert trainer.batches[-1][0] == 4  # more than the 3 that num_train_epochs is if not given
    assert trainer.ordered_sampler.epochs is None


def test_what_the_trainer_asks_for_a_function_must_do(tmp_path):
    with pytest.raises(ValueError, match="order must make a sampler with drop_last=True, as dataloader_drop_last is T"):
        without_a_budget(tmp_path, dataloader_drop_last=True)
    with pytest.raises(ValueError, match="order must make a sampler with seed=data_seed=7, got 0"):
        without_a_budget(tmp_path, data_seed=7)
    order = partial(go.recommended, epochs=EPOCHS, drop_last=True, seed=7)
    trainer = trainer_for(tmp_path, rescores=False, order=order, dataloader_drop_last=True, data_seed=7)
    assert len(trainer.batches[0][1]) == BATCH


def test_causal_losses_are_those_of_the_model():
    model, batch = new_model(), torch.utils.data.default_collate([Sentences()[i] for i in range(5)])
    batch["labels"] = batch["labels"].clone()
    batch["labels"][1, 3:] = -100
    for i in range(5):
        one = {name: value[i : i + 1] for name, value in batch.items()}
        torch.testing.assert_close(causal_losses(model, batch)[i], model(**one).loss.double())


# ------------------------------------------------------------------------------------------------ refusals


def test_nothing_to_order_by_is_refused_at_the_start(tmp_path):
    with pytest.raises(ValueError, match="score or record must be given"):
        trainer_for(tmp_path, rescores=False, record=None)
    trainer = trainer_for(tmp_path, rescores=False, record=None, order={"ordering": go.Shuffled()})
    assert trainer.state.global_step == EPOCHS * 6


@pytest.mark.parametrize("strategy", ["group_by_length", "sequential"])
def test_another_sampling_strategy_is_refused(tmp_path, strategy):
    with pytest.raises(ValueError, match=f'train_sampling_strategy must be "random".*got "{strategy}"'):
        trainer_for(tmp_path, rescores=False, train_sampling_strategy=strategy)


class Twice(Sampler):
    """What it is called says nothing; as long as the dataset, so that only its indices tell."""

    def __iter__(self):
        return iter([index // 2 for index in range(SIZE)])

    def __len__(self):
        return SIZE


class Longer(Twice):
    def __len__(self):
        return 4 * SIZE


@pytest.mark.parametrize("sampler", [Twice(), Longer(), WeightedRandomSampler(torch.ones(SIZE), SIZE)])
def test_a_trainer_whose_own_sampler_repeats_examples_is_refused(tmp_path, sampler):
    class Repeating(Trainer):
        def get_train_dataloader(self):
            return self.accelerator.prepare(DataLoader(self.train_dataset, BATCH, sampler=sampler))

    class Ordered(OrderedTrainer, Repeating):
        pass

    arguments = TrainingArguments(str(tmp_path), report_to=[], use_cpu=True)
    trainer = Ordered(new_model(), arguments, train_dataset=Sentences(), order={"ordering": go.Shuffled()})
    state = torch.get_rng_state()
    with pytest.raises(ValueError, match=r"Ordered cannot have an order.*repeats examples"):
        trainer.get_train_dataloader()
    assert torch.equal(torch.get_rng_state(), state)


def trained_as(trainer_class, folder, **settings):
    arguments = TrainingArguments(str(folder), num_train_epochs=1, report_to=[], use_cpu=True, disable_tqdm=True)
    trainer = trainer_class(new_model(), arguments, train_dataset=Sentences(), **settings)
    trainer.train()
    return trainer


class OwnLoss(OrderedTrainer):
    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        return model(**inputs).loss


def test_a_loss_of_ones_own_that_nothing_is_recorded_of_is_refused(tmp_path):
    with pytest.raises(RuntimeError, match=r"OwnLoss\.compute_loss must call super\(\)"):
        trained_as(OwnLoss, tmp_path, order=ORDER, record=causal_losses_of_outputs)
    trainer = trained_as(OwnLoss, tmp_path, order={"ordering": go.Shuffled()})  # there is nothing to record
    assert trainer.state.global_step == trainer.state.max_steps


def test_the_output_that_is_recorded_is_that_of_the_pass_with_gradients(tmp_path):
    class WithReference(Trainer):
        """Calls the model again as its own reference, as preference training with adapters does."""

        def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
            loss = model(**inputs).loss
            with torch.no_grad():
                model(**{**inputs, "input_ids": torch.zeros_like(inputs["input_ids"])})
            return loss

    class Ordered(OrderedTrainer, WithReference):
        pass

    seen = []
    trained_as(
        Ordered,
        tmp_path,
        order={"ordering": go.Shuffled()},
        record=lambda batch, outputs: seen.append(outputs.logits.requires_grad) or outputs.logits[:, 0, 0],
    )
    assert seen == [True] * len(seen)


# ------------------------------------------------------------------------------------------------ resume


def test_the_position_in_epochs_goes_on_after_a_resume(tmp_path, monkeypatch):
    positions = []
    monkeypatch.setattr(
        Rates, "on_step_end", lambda self, args, state, *others, **kwargs: positions.append(state.epoch)
    )
    trainer_for(tmp_path, rescores=False, save_strategy="steps", save_steps=1)
    straight = list(positions)
    assert straight == pytest.approx([1 / 6 * k for k in range(1, 7)] + [1 + k / 4 for k in range(1, 9)])
    for step in (3, 8):
        positions.clear()
        trainer = trainer_for(tmp_path, rescores=False, checkpoint=tmp_path / f"checkpoint-{step}")
        assert positions == pytest.approx(straight[step:])
        assert trainer.state.epoch == EPOCHS


def test_a_loop_that_takes_other_arguments_is_refused_at_import(monkeypatch):
    loop = importlib.import_module("gradorder.integrations.transformers_loop")
    monkeypatch.setattr(Trainer, "_run_epoch", lambda self, epoch: None)
    with pytest.raises(ImportError, match=r"extends Trainer\._run_epoch\(.*steps_in_epoch"):
        loop._check_loop()
