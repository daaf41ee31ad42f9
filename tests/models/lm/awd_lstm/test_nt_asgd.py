"""The trigger on a hand-made sequence, the step by hand, the average as the plain mean."""

import pytest

torch = pytest.importorskip("torch")

from evenhand.models.lm.awd_lstm.training import NTASGD  # noqa: E402


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
