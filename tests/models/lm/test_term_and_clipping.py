"""What the term does by itself under the published optimiser: the arithmetic of reproductions/bordia2019.md.

The optimiser takes steps of rate 30 with gradients clipped to a norm of 0.25, so that no step is longer than 7.5.
"""

from itertools import pairwise

import pytest

torch = pytest.importorskip("torch")

from evenhand.models.lm import BiasRegulariser  # noqa: E402
from evenhand.models.lm.awd_lstm.training import NTASGD  # noqa: E402

RATE, CLIP = 30.0, 0.25
PAIRS = [(0, 1), (2, 3), (4, 5)]


def trace(strength: float, steps: int = 400, **options) -> tuple[list[float], torch.Tensor]:
    """||N B||^2 (or the sum of squared cosines) at every step, and the table at the end."""
    table = torch.nn.Parameter(torch.empty(3000, 50).uniform_(-0.2, 0.2, generator=torch.Generator().manual_seed(1)))
    term = BiasRegulariser(PAIRS, strength=strength, **options)
    optimiser = NTASGD([table], weight_decay=0.0, clip=CLIP, patience=5)
    found = []
    for _ in range(steps):
        energy = term.energy(table)
        (strength * energy).backward()
        optimiser.step(RATE)
        found.append(float(energy.detach()))
    return found, table.detach()


def late(found: list[float]) -> float:
    return sum(found[-100:]) / 100


@pytest.mark.parametrize("strength", [0.01, 0.03])
def test_as_printed_a_weak_term_removes_the_component(strength: float) -> None:
    """A step multiplies it by 1 - 60 lambda, which is below 1 in size up to lambda = 1/30."""
    found, _ = trace(strength)
    assert late(found) < 1e-6 < found[0]


@pytest.mark.parametrize("strength", [0.04, 0.1, 1.0])
def test_as_printed_a_strong_term_never_stops_overshooting(strength: float) -> None:
    """The component is thrown from one side of zero to the other, 7.5 a step; the two lengths add up to 7.5."""
    found, _ = trace(strength)
    assert (RATE * CLIP) ** 2 / 4 * 0.99 <= late(found) <= (RATE * CLIP) ** 2 / 2
    lengths = [value**0.5 for value in found[-100:]]
    assert all(abs(one + other - RATE * CLIP) < 0.01 for one, other in pairwise(lengths))


def test_as_released_rows_grow_until_the_term_is_satisfied() -> None:
    """The gradient of a cosine is perpendicular to its row: a step too long makes the row longer, the next one milder.

    It is over when 1 - 60 lambda / |row|^2 is below 1 in size: at |row|^2 = 30 lambda.
    """
    found, table = trace(0.1, normalise=True, variant="released")
    _, before = trace(0.1, steps=0, normalise=True, variant="released")
    lengths = table[6:].norm(dim=1).median()
    assert lengths.square() > 30 * 0.1 > before[6:].norm(dim=1).median().square()
    assert late(found) < 1e-3 * found[0]


def test_as_released_gradients_through_the_direction_stretch_the_gendered_rows() -> None:
    options = {"normalise": True, "variant": "released"}
    _, constant = trace(0.1, **options)
    _, through = trace(0.1, **options, detach=False)
    assert constant[:6].norm(dim=1).max() < 1
    assert through[:6].norm(dim=1).min() > 10
    assert abs(through[6:].norm(dim=1).median() - constant[6:].norm(dim=1).median()) < 0.5
