"""The training loop: settings and schedule, resuming to the same bits, smaller batches when memory is full, errors."""

import json
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from evenhand.errors import DegenerateError, EvenhandError, FormatError, UnknownNameError, UsageError  # noqa: E402
from evenhand.models.training import (  # noqa: E402
    METADATA,
    AdamWSettings,
    EarlyStopping,
    Training,
    TrainingSettings,
    adamw,
    read_checkpoint,
    seeded,
    write_checkpoint,
)

SETTINGS = AdamWSettings(learning_rate=0.1, device="cpu", precision="float32")
ROWS = torch.randn(12, 3, generator=torch.Generator().manual_seed(0))


class Regression(Training):
    """Predict the sum of a row; dropout draws random numbers in every step."""

    unit = "step"

    def __init__(self, *, steps: int = 6, most: int = 100, settings: AdamWSettings = SETTINGS) -> None:
        network = torch.nn.Sequential(torch.nn.Dropout(0.3), torch.nn.Linear(3, 1))
        super().__init__(network, adamw(network.parameters(), settings), settings, total=steps)
        self.most = most  # rows that fit into memory

    def advance(self, progress) -> None:
        loss = self.gradient(len(ROWS), self._loss, row="row")
        self.require_finite(float(loss))
        self.history.append({"loss": float(loss)})
        self.update(learning_rate=self.settings.rate((self.done + 1) / self.total), clip=self.settings.clip)
        progress(self.done + 1, self.total, "")

    def _loss(self, rows: slice):
        if rows.stop - rows.start > self.most:
            torch.rand(3)  # a failed attempt draws random numbers too
            raise torch.OutOfMemoryError("full")
        return (self.network(ROWS[rows]).squeeze(1) - ROWS[rows].sum(1)).square().mean()


def trained(path: Path | None = None, progress=None, fingerprint=None, **options) -> Regression:
    with seeded("cpu", 5):
        run = Regression(**options)
        run.run(path, fingerprint or {"data": "rows"}, progress)
    return run


def weights(run: Training) -> np.ndarray:
    return np.concatenate([parameter.detach().numpy().ravel() for parameter in run.network.parameters()])


def stop_at(step: int):
    def progress(done: int, total: int, text: str) -> None:
        if done == step:
            raise KeyboardInterrupt

    return progress


# Settings and schedule ------------------------------------------------------------------------------------------------


def test_the_rate_rises_and_then_falls_to_zero() -> None:
    settings = AdamWSettings(learning_rate=2.0, warm_up=0.25)
    assert [settings.rate(done) for done in (0.0, 0.125, 0.25, 0.625, 1.0)] == [0.0, 1.0, 2.0, 1.0, 0.0]


def test_without_warm_up_the_first_rate_is_the_largest() -> None:
    assert AdamWSettings(learning_rate=1.0, warm_up=0.0).rate(0.0) == 1.0


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"learning_rate": 0.0}, "learning_rate must be positive, got 0.0\n.*3e-05"),
        ({"learning_rate": float("nan")}, "learning_rate"),
        ({"weight_decay": -1.0}, "weight_decay must not be negative"),
        ({"warm_up": 1.0}, r"warm_up must be in \[0, 1\)"),
        ({"clip": 0.0}, "clip must be positive"),
    ],
)
def test_bad_settings_are_refused(options: dict, match: str) -> None:
    with pytest.raises(UsageError, match=match):
        AdamWSettings(**options)


def test_unknown_settings_and_precisions_are_refused() -> None:
    with pytest.raises(UsageError, match=r"^train: .*epochz.*\n.*learning_rate, weight_decay, device, precision"):
        TrainingSettings.of({"epochz": 3}, function="train")
    with pytest.raises(UnknownNameError, match="int4"):
        TrainingSettings(precision="int4")
    assert TrainingSettings(precision="bf16").precision == "bfloat16"


def test_only_matrices_decay_and_frozen_parameters_stay() -> None:
    class Parts(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.matrix, self.bias, self.frozen = (
                torch.nn.Parameter(torch.ones(shape)) for shape in ((2, 2), (2,), (2, 2))
            )
            self.frozen.requires_grad_(False)

    class OneStep(Training):
        def advance(self, progress) -> None:
            for parameter in (self.network.matrix, self.network.bias):
                parameter.grad = torch.zeros_like(parameter)
            self.update(learning_rate=0.5, clip=1.0)

    parts, settings = Parts(), AdamWSettings(weight_decay=0.1, device="cpu")
    OneStep(parts, adamw(parts.parameters(), settings), settings, total=1).run(None, {})
    # AdamW multiplies by 1 - rate * decay; a gradient of 0 adds nothing.
    assert torch.allclose(parts.matrix, torch.full((2, 2), 0.95))
    assert torch.equal(parts.bias, torch.ones(2))
    assert torch.equal(parts.frozen, torch.ones(2, 2))


# Stop and resume ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [1, 3, 6])
def test_resumed_is_uninterrupted(tmp_path: Path, step: int) -> None:
    whole, path = trained(), tmp_path / "c.safetensors"
    with pytest.raises(KeyboardInterrupt, match=f"stopped in step {step}; "):
        trained(path, stop_at(step))
    torch.rand(7)  # random numbers in between change nothing
    resumed = trained(path)
    assert np.array_equal(weights(whole), weights(resumed))
    assert whole.history == resumed.history
    assert trained(path, stop_at(1)).history == whole.history  # finished: no step is taken


def test_an_interrupted_training_says_what_is_saved(tmp_path: Path) -> None:
    path = tmp_path / "c.safetensors"
    with pytest.raises(KeyboardInterrupt, match=r"because no place for one was given$"):
        trained(None, stop_at(2))
    with pytest.raises(KeyboardInterrupt, match=r"because no step was finished$"):
        trained(path, stop_at(1))
    with pytest.raises(KeyboardInterrupt, match=r"c\.safetensors holds step 2; rerun the same command to resume$"):
        trained(path, stop_at(3))


def test_another_training_and_damaged_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "c.safetensors"
    trained(path, steps=3)
    with pytest.raises(UsageError, match="belongs to another training run: data was 'rows', is 'others'"):
        trained(path, fingerprint={"data": "others"})
    with pytest.raises(UsageError, match="has 3 steps, but steps is 2"):
        trained(path, steps=2)
    stored = read_checkpoint(path, {"data": "rows"})
    for tensors, state in (({}, stored.state), (stored.tensors, {"done": "many"}), (stored.tensors, {"done": 1})):
        write_checkpoint(path, tensors, {"data": "rows"}, state)
        with pytest.raises(FormatError, match="not an evenhand checkpoint, or damaged"):
            trained(path)
    for metadata in ("[]", json.dumps({"format": 9, "fingerprint": {}, "state": {}}), "{", '{"format": 1}'):
        from safetensors.torch import save_file

        save_file(stored.tensors, path, metadata={METADATA: metadata})
        with pytest.raises(FormatError, match="not an evenhand checkpoint, or damaged"):
            trained(path)


def test_divergence_is_an_error_that_names_the_step() -> None:
    settings = AdamWSettings(learning_rate=1e30, warm_up=0.0, device="cpu", precision="float32")
    with pytest.raises(DegenerateError, match=r"the loss is (nan|inf) in step \d.*\n.*lower the learning rate"):
        trained(steps=50, settings=settings)


# Memory ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("most", [1, 5, 6])
def test_a_batch_that_does_not_fit_is_computed_in_parts(most: int) -> None:
    run, whole = Regression(most=most), Regression()
    run.network.load_state_dict(whole.network.state_dict())
    for one in (run, whole):
        one.network.eval()  # without dropout the parts add up to the whole
        one.loss = one.gradient(len(ROWS), one._loss, row="row")
    assert run.parts == {1: 12, 5: 4, 6: 2}[most]
    assert run.loss.item() == pytest.approx(whole.loss.item(), rel=1e-5)
    for found, expected in zip(run.network.parameters(), whole.network.parameters(), strict=True):
        assert found.grad.numpy() == pytest.approx(expected.grad.numpy(), rel=1e-4, abs=1e-6)


def test_failed_attempts_leave_no_trace_in_the_random_numbers() -> None:
    first, second = trained(most=6), trained(most=6)
    assert first.parts == 2
    assert np.array_equal(weights(first), weights(second))
    halves = Regression(most=6)
    halves.parts = 2
    with seeded("cpu", 5):
        expected = Regression(most=6)
        expected.parts = 2
        expected.run(None, {})
    assert np.array_equal(weights(first), weights(expected))


def test_a_row_that_does_not_fit_is_an_error() -> None:
    with pytest.raises(EvenhandError, match="a single row does not fit into memory"):
        trained(most=0)


# Patience -------------------------------------------------------------------------------------------------------------


def test_members_stop_one_by_one() -> None:
    stopping = EarlyStopping(2)
    improved = [stopping.record(epoch, np.array(pair), 2).tolist() for epoch, pair in
                enumerate([(0.5, 0.5), (0.4, 0.6), (0.3, 0.7), (0.9, 0.7)], start=1)]  # fmt: skip
    assert improved == [[True, True], [False, True], [False, True], [False, False]]
    assert stopping.best.tolist() == [0.5, 0.7]
    assert stopping.best_epoch.tolist() == [1, 3]
    assert stopping.done.tolist() == [True, False]
    again = EarlyStopping.from_dict(json.loads(json.dumps(stopping.to_dict())))
    assert again.to_dict() == stopping.to_dict()
