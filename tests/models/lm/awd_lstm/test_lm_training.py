"""Training of word-level models: the loss, NT-ASGD, checkpoints, interrupts."""

import dataclasses
import json
import math
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from evenhand.errors import DegenerateError, FormatError, UsageError  # noqa: E402
from evenhand.models.lm import LMCorpus, LMSettings, TokenVocabulary, train  # noqa: E402
from evenhand.models.lm.awd_lstm.training import NTASGD, Schedule, TrainingState, interrupt_flag  # noqa: E402

SETTINGS = LMSettings(
    embedding=12,
    hidden=17,
    layers=2,
    batch=4,
    eval_batch=2,
    bptt=20,
    learning_rate=5.0,
    patience=1,
    dropout_input=0.2,
    dropout_output=0.1,
)
WORDS = TokenVocabulary((*"abcdefgh", "<eos>"))


@pytest.fixture(scope="module")
def corpus() -> LMCorpus:
    text = np.tile(np.arange(9, dtype=np.int32), 90)
    return LMCorpus(text, text[:200], text[:100], WORDS, name="alphabet")


def weights(trained: Any) -> list[Any]:
    return [parameter.detach() for parameter in trained.model.parameters()]


def same(one: Any, other: Any) -> bool:
    return all(torch.equal(a, b) for a, b in zip(weights(one), weights(other), strict=True))


def numbers(trained: Any) -> list[tuple[float, ...]]:
    """The history without the clock."""
    kept = ("number", "train_loss", "valid_perplexity", "regulariser", "averaging")
    return [tuple(getattr(epoch, name) for name in kept) for epoch in trained.history]


def size(model: Any) -> Any:
    """A term that any model has."""
    return 0.01 * model.encoder.weight.square().sum()


def test_a_tiny_model_learns_a_repetitive_text(corpus: LMCorpus) -> None:
    settings = dataclasses.replace(SETTINGS, weight_drop=0.1)
    trained = train(corpus, settings=settings, epochs=14, device="cpu")
    assert trained.history[0].valid_perplexity > 6
    assert min(epoch.valid_perplexity for epoch in trained.history) < 1.5
    assert not trained.model.training


def test_the_returned_model_is_the_best_on_validation(corpus: LMCorpus) -> None:
    from evenhand.models.lm import perplexity

    trained = train(corpus, settings=SETTINGS, epochs=6, device="cpu")
    best = min(trained.history, key=lambda epoch: epoch.valid_perplexity)
    assert trained.manifest["best_epoch"] == best.number
    assert perplexity(trained.model, corpus.valid, batch=2) == pytest.approx(best.valid_perplexity, rel=1e-6)


def test_the_loss_is_the_sum_of_its_parts(corpus: LMCorpus) -> None:
    """One step without dropout, beside the same loss written out."""
    settings = dataclasses.replace(
        SETTINGS,
        **dict.fromkeys(("dropout_embedding", "dropout_input", "dropout_hidden", "dropout_output", "weight_drop"), 0.0),
    )
    run, twin = (
        TrainingState(corpus, settings, seed=3, device="cpu", dtype=torch.float32, term=size) for _ in range(2)
    )
    length = run.lengths[0]
    run.advance()
    out = twin.model(twin.text[:length])
    entropy = torch.nn.functional.cross_entropy(out.logits.flatten(0, 1), twin.text[1 : length + 1].flatten())
    activation = 2 * out.raw.square().mean() + (out.raw[1:] - out.raw[:-1]).square().mean()
    (entropy + activation + size(twin.model)).backward()
    norm = torch.cat([parameter.grad.flatten() for parameter in twin.model.parameters()]).norm()
    twin.optimiser.step(5.0 * length / 20)
    assert float(run.records[2, 0]) == pytest.approx(min(1.0, settings.clip / float(norm)), rel=1e-5)
    assert float(run.records[0, 0]) == pytest.approx(float(entropy.detach()), rel=1e-6)
    for one, other in zip(run.model.parameters(), twin.model.parameters(), strict=True):
        assert torch.allclose(one, other, atol=1e-6)


def test_a_regulariser_is_recorded_and_has_an_effect(corpus: LMCorpus) -> None:
    plain = train(corpus, settings=SETTINGS, epochs=3, device="cpu")
    held = train(corpus, settings=SETTINGS, regulariser=size, epochs=3, device="cpu")
    assert [epoch.regulariser for epoch in plain.history] == [0.0] * 3
    assert all(epoch.regulariser > 0 for epoch in held.history)
    assert size(held.model) < size(plain.model)


@pytest.mark.parametrize("stop", [1, 4])
def test_resumed_equals_uninterrupted_bit_for_bit(corpus: LMCorpus, tmp_path: Path, stop: int) -> None:
    once = train(corpus, settings=SETTINGS, regulariser=size, epochs=7, device="cpu")
    assert once.history[-1].averaging, "the test is to cover resuming averages"
    path = tmp_path / "c.safetensors"
    train(corpus, settings=SETTINGS, regulariser=size, epochs=stop, device="cpu", checkpoint=path)
    torch.manual_seed(99)  # torch's own random numbers must not matter
    twice = train(corpus, settings=SETTINGS, regulariser=size, epochs=7, device="cpu", checkpoint=path)
    assert same(once, twice)
    assert numbers(once) == numbers(twice)
    assert sorted(path.parent.iterdir()) == [path]


def test_stopped_within_an_epoch_it_resumes_bit_for_bit(
    corpus: LMCorpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    once = train(corpus, settings=SETTINGS, epochs=3, device="cpu")
    path = tmp_path / "c.safetensors"
    steps = {"left": 13}

    def has_time_for(self: Any, seconds: float) -> bool:
        steps["left"] -= 1
        return steps["left"] > 0

    with monkeypatch.context() as patch:
        patch.setattr(Schedule, "has_time_for", has_time_for)
        cut = train(corpus, settings=SETTINGS, epochs=3, device="cpu", checkpoint=path)
    assert cut.manifest["stopped_by"] == "time"
    assert len(cut.history) == 1
    twice = train(corpus, settings=SETTINGS, epochs=3, device="cpu", checkpoint=path)
    assert same(once, twice)
    assert numbers(once) == numbers(twice)


def test_a_time_limit_of_zero_still_writes_a_checkpoint(corpus: LMCorpus, tmp_path: Path) -> None:
    path = tmp_path / "c.safetensors"
    cut = train(corpus, settings=SETTINGS, epochs=2, device="cpu", time_limit=0.0, checkpoint=path)
    assert not cut.history
    assert path.exists()
    assert same(train(corpus, settings=SETTINGS, epochs=2, device="cpu"), _go_on(corpus, path))


def _go_on(corpus: LMCorpus, path: Path) -> Any:
    return train(corpus, settings=SETTINGS, epochs=2, device="cpu", checkpoint=path)


def test_nan_stops_training_and_names_the_step(corpus: LMCorpus, tmp_path: Path) -> None:
    path = tmp_path / "c.safetensors"
    calls = {"n": 0}

    def breaks(model: Any) -> Any:
        calls["n"] += 1
        return model.encoder.weight.sum() * (math.nan if calls["n"] == 4 else 0.0)

    with pytest.raises(DegenerateError, match=r"epoch 1, step 4") as caught:
        train(corpus, settings=SETTINGS, regulariser=breaks, epochs=2, device="cpu", checkpoint=path)
    assert "no checkpoint was written yet" in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_nan_in_a_later_epoch_names_the_checkpoint_to_resume_from(corpus: LMCorpus, tmp_path: Path) -> None:
    path = tmp_path / "c.safetensors"
    steps = len(TrainingState(corpus, SETTINGS, seed=1111, device="cpu", dtype=torch.float32, term=None).lengths)
    calls = {"n": 0, "bad": steps + 3}

    def breaks(model: Any) -> Any:
        calls["n"] += 1
        return model.encoder.weight.sum() * (math.inf if calls["n"] == calls["bad"] else 0.0)

    with pytest.raises(DegenerateError, match=r"epoch 2, step 3") as caught:
        train(corpus, settings=SETTINGS, regulariser=breaks, epochs=3, device="cpu", checkpoint=path)
    assert str(path) in str(caught.value)
    calls["bad"] = 0
    twice = train(corpus, settings=SETTINGS, regulariser=breaks, epochs=3, device="cpu", checkpoint=path)
    once = train(corpus, settings=SETTINGS, regulariser=breaks, epochs=3, device="cpu")
    assert same(once, twice)


def test_an_interrupt_leaves_the_checkpoint_of_the_last_epoch(corpus: LMCorpus, tmp_path: Path) -> None:
    path = tmp_path / "c.safetensors"
    steps = len(TrainingState(corpus, SETTINGS, seed=1111, device="cpu", dtype=torch.float32, term=None).lengths)
    calls = {"n": 0}

    def interrupted(model: Any) -> Any:
        calls["n"] += 1
        if calls["n"] == steps + 2:
            raise KeyboardInterrupt
        return 0 * model.encoder.weight.sum()

    with pytest.raises(KeyboardInterrupt, match=r"epoch 2.*c\.safetensors"):
        train(corpus, settings=SETTINGS, regulariser=interrupted, epochs=3, device="cpu", checkpoint=path)
    twice = train(corpus, settings=SETTINGS, regulariser=interrupted, epochs=3, device="cpu", checkpoint=path)
    assert [epoch.number for epoch in twice.history] == [1, 2, 3]


@pytest.mark.parametrize("step", [3, 0])
def test_ctrl_c_saves_the_current_step(corpus: LMCorpus, tmp_path: Path, monkeypatch: Any, step: int) -> None:
    """Within an epoch or during validation: the resumed training equals an uninterrupted one."""
    path = tmp_path / "c.safetensors"
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    plain = TrainingState.advance if step else TrainingState.finish_epoch

    def pressed(run: TrainingState, *args: Any) -> Any:
        if (run.epoch, run.step) == (2, step or len(run.lengths)):
            signal.raise_signal(signal.SIGINT)
        return plain(run, *args)

    options = {"settings": SETTINGS, "epochs": 2, "device": "cpu"}
    try:
        with monkeypatch.context() as patch:
            patch.setattr(TrainingState, plain.__name__, pressed)
            with pytest.raises(
                KeyboardInterrupt, match=r"interrupted in epoch \d; run again to resume from .*c\.safet"
            ):
                train(corpus, **options, checkpoint=path, save_every=math.inf)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    once, twice = train(corpus, **options), train(corpus, **options, checkpoint=path)
    assert same(once, twice)
    assert numbers(once) == numbers(twice)


def test_a_second_ctrl_c_interrupts_at_once() -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with interrupt_flag() as asked:
            signal.raise_signal(signal.SIGINT)
            assert asked()
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_handler_of_another_program_stays_in_place() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with interrupt_flag() as asked:
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
            assert not asked()
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_checkpoint_of_another_training_is_refused(corpus: LMCorpus, tmp_path: Path) -> None:
    path = tmp_path / "c.safetensors"
    train(corpus, settings=SETTINGS, epochs=1, device="cpu", checkpoint=path)
    with pytest.raises(UsageError, match="seed was 1111, is 7"):
        train(corpus, settings=SETTINGS, epochs=1, device="cpu", checkpoint=path, seed=7)
    with pytest.raises(UsageError, match="regulariser was ''"):
        train(corpus, settings=SETTINGS, epochs=1, device="cpu", checkpoint=path, regulariser=size)
    with pytest.raises(UsageError, match="settings was"):
        train(corpus, settings=LMSettings(embedding=8, hidden=8, batch=4), epochs=1, device="cpu", checkpoint=path)


@pytest.mark.parametrize("content", [b"", b"nonsense", b"\x08\x00\x00\x00\x00\x00\x00\x00{}      "])
def test_a_broken_checkpoint_is_named(corpus: LMCorpus, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "c.safetensors"
    path.write_bytes(content)
    with pytest.raises(FormatError, match=r"c\.safetensors"):
        train(corpus, settings=SETTINGS, epochs=1, device="cpu", checkpoint=path)
    assert path.read_bytes() == content


def test_the_manifest_is_plain_data(corpus: LMCorpus) -> None:
    manifest = train(corpus, settings=SETTINGS, epochs=1, device="cpu").manifest
    kept = json.loads(json.dumps(manifest, allow_nan=False))
    assert kept["corpus"]["tokens"] == {"train": 810, "valid": 200, "test": 100}
    assert kept["seed"] == 1111
    assert kept["settings"]["learning_rate"] == 5.0
    assert kept["history"][0]["tokens_per_second"] > 0


def test_early_stopping_ends_after_an_epoch(corpus: LMCorpus) -> None:
    cut = train(corpus, settings=SETTINGS, epochs=9, device="cpu", stop=lambda history: len(history) == 2)
    assert (len(cut.history), cut.manifest["stopped_by"]) == (2, "stop")


def test_progress_is_reported(corpus: LMCorpus) -> None:
    told: list[tuple[int, int, str]] = []
    train(corpus, settings=SETTINGS, epochs=2, device="cpu", progress=lambda *what: told.append(what))
    assert told[-1][2].startswith("epoch 3, valid perplexity")


def test_unknown_device_and_precision_are_named(corpus: LMCorpus) -> None:
    with pytest.raises(UsageError, match="'abacus'"):
        train(corpus, device="abacus")
    with pytest.raises(UsageError, match="'fp8'"):
        train(corpus, device="cpu", precision="fp8")
    with pytest.raises(UsageError, match="bfloat16 is not supported on cpu"):
        train(corpus, device="cpu", precision="bf16")
    with pytest.raises(UsageError, match="seed must be"):
        train(corpus, settings=SETTINGS, device="cpu", seed=-3)
    with pytest.raises(UsageError, match="810 tokens are too few for 700 columns"):
        train(corpus, settings=dataclasses.replace(SETTINGS, batch=700), device="cpu")


def made(*values: float, patience: int = 2, clip: float = 1e9, decay: float = 0.0) -> NTASGD:
    parameters = [torch.nn.Parameter(torch.tensor([value])) for value in values]
    return NTASGD(parameters, weight_decay=decay, clip=clip, patience=patience)


def stepped(optimiser: NTASGD, gradients: list[float], rate: float = 1.0) -> list[float]:
    for parameter, gradient in zip(optimiser.parameters, gradients, strict=True):
        parameter.grad = torch.tensor([gradient])
    optimiser.step(rate)
    return [float(parameter.detach()) for parameter in optimiser.parameters]


def test_averaging_starts_when_a_loss_is_worse_than_the_best_before_the_last_n() -> None:
    optimiser = made(0.0, patience=2)
    begun = []
    for loss in (5.0, 4.0, 4.5, 4.2, 4.1, 3.9, 4.05):
        optimiser.observe(loss)
        begun.append(optimiser.averaging)
    # 4.5: nothing lies before the last two. 4.2 is better than 5. 4.1 is worse than min(5, 4).
    assert begun == [False, False, False, False, True, True, True]


def test_a_steady_descent_never_averages() -> None:
    optimiser = made(0.0, patience=1)
    for loss in range(20, 0, -1):
        optimiser.observe(float(loss))
    assert not optimiser.averaging


def test_a_step_by_hand() -> None:
    assert stepped(made(1.0, decay=0.1), [2.0], rate=0.5) == [pytest.approx(1 - 0.5 * (2 + 0.1 * 1))]
    # A gradient (3, 4) of norm 5 is cut to norm 1.
    assert stepped(made(0.0, 0.0, clip=1.0), [3.0, 4.0]) == [
        pytest.approx(-0.6, abs=1e-5),
        pytest.approx(-0.8, abs=1e-5),
    ]


def test_a_step_returns_the_share_that_clipping_left() -> None:
    optimiser = made(0.0, 0.0, clip=1.0)
    for gradient, left in ((3.0, 0.2), (0.3, 1.0)):
        for parameter, part in zip(optimiser.parameters, (gradient, gradient * 4 / 3), strict=True):
            parameter.grad = torch.full_like(parameter, part)
        assert float(optimiser.step(1.0)) == pytest.approx(left)


def test_gradients_are_cleared() -> None:
    optimiser = made(1.0)
    stepped(optimiser, [1.0])
    assert optimiser.parameters[0].grad is None


def test_the_average_is_the_mean_of_the_iterates_after_the_trigger() -> None:
    optimiser = made(0.0, patience=1)
    stepped(optimiser, [100.0])
    for loss in (1.0, 2.0, 3.0):
        optimiser.observe(loss)
    iterates = [stepped(optimiser, [float(gradient)])[0] for gradient in (1, -5, 3, 8, -2, 7)]
    mean = sum(iterates) / len(iterates)
    assert float(optimiser.averages[0]) == pytest.approx(mean, rel=1e-6)
    before = optimiser.parameters[0].detach().clone()
    with optimiser.averaged_weights():
        assert float(optimiser.parameters[0].detach()) == pytest.approx(mean, rel=1e-6)
    assert torch.equal(optimiser.parameters[0], before)


def test_without_averages_the_weights_are_used() -> None:
    optimiser = made(3.0)
    with optimiser.averaged_weights():
        assert float(optimiser.parameters[0].detach()) == 3.0


def test_an_error_while_averages_are_in_use_restores_the_weights() -> None:
    optimiser = made(0.0, patience=1)
    for loss in (1.0, 2.0, 3.0):
        optimiser.observe(loss)
    stepped(optimiser, [1.0])
    last = stepped(optimiser, [1.0])
    with pytest.raises(RuntimeError), optimiser.averaged_weights():
        raise RuntimeError
    assert [float(parameter.detach()) for parameter in optimiser.parameters] == last
