"""AdamW with warm-up and linear decay."""

import pytest

torch = pytest.importorskip("torch")

from evenhand.errors import UsageError  # noqa: E402
from evenhand.models.adamw import AdamWSettings, DecayingAdamW, optimiser_tensors, restore_optimiser  # noqa: E402


def test_the_rate_rises_and_then_falls_to_zero() -> None:
    settings = AdamWSettings(learning_rate=2.0, warm_up=0.25)
    assert [settings.rate(done) for done in (0.0, 0.125, 0.25, 0.625, 1.0)] == [0.0, 1.0, 2.0, 1.0, 0.0]


def test_without_warm_up_the_first_rate_is_the_largest() -> None:
    assert AdamWSettings(learning_rate=1.0, warm_up=0.0).rate(0.0) == 1.0


@pytest.mark.parametrize(
    "options", [{"learning_rate": 0.0}, {"learning_rate": float("nan")}, {"warm_up": 1.0}, {"clip": 0.0}]
)
def test_bad_settings_are_refused(options: dict) -> None:
    with pytest.raises(UsageError):
        AdamWSettings(**options)


def test_only_matrices_decay_and_frozen_parameters_stay() -> None:
    matrix, bias, frozen = (torch.nn.Parameter(torch.ones(shape)) for shape in ((2, 2), (2,), (2, 2)))
    frozen.requires_grad_(False)
    optimiser = DecayingAdamW([matrix, bias, frozen], AdamWSettings(learning_rate=0.5, weight_decay=0.1, warm_up=0.0))
    for parameter in (matrix, bias):
        parameter.grad = torch.zeros_like(parameter)
    optimiser.step(0.0)
    # AdamW multiplies by 1 - rate * decay; a gradient of 0 adds nothing.
    assert torch.allclose(matrix, torch.full((2, 2), 0.95))
    assert torch.equal(bias, torch.ones(2))
    assert torch.equal(frozen, torch.ones(2, 2))


def test_a_restored_optimiser_goes_on_as_the_first_would() -> None:
    def run(steps: int, state: tuple | None = None) -> tuple:
        weight = torch.nn.Parameter(torch.ones(2, 2) if state is None else state[0].clone())
        optimiser = DecayingAdamW([weight], AdamWSettings(learning_rate=0.1))
        if state is not None:
            restore_optimiser(optimiser.optimiser, state[1])
        for _ in range(steps):
            (weight**2).sum().backward()
            optimiser.step(0.5)
        return weight.detach(), {name: value.clone() for name, value in optimiser_tensors(optimiser.optimiser).items()}

    assert torch.equal(run(4)[0], run(2, run(2))[0])
