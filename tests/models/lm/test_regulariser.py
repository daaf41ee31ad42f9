import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenhand.errors import DegenerateError, UsageError, VocabularyError

torch = pytest.importorskip("torch")

from evenhand.models.lm.regulariser import (  # noqa: E402
    BiasRegulariser,
    distinct_weights,
    regularised,
    smallest_k,
    tied,
)

PAIRS = [(0, 1), (2, 3), (4, 5)]


def table(seed: int = 0, rows: int = 12, dim: int = 5):
    return torch.randn(rows, dim, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def by_svd(weight, pairs, *, share=0.5, k=None, normalise=False):
    """The definition, written down with numpy's SVD."""
    w = weight.detach().numpy()
    w = w / np.linalg.norm(w, axis=1, keepdims=True) if normalise else w
    c = np.array([(w[a] - w[b]) / 2 for a, b in pairs])
    _, s, vt = np.linalg.svd(c, full_matrices=False)
    if k is None:
        k = next(i + 1 for i in range(len(s)) if (s[: i + 1] ** 2).sum() / (s**2).sum() >= share)
    rest = [i for i in range(len(w)) if all(i not in pair for pair in pairs)]
    return float(((w[rest] @ vt[:k].T) ** 2).sum()), k, len(rest)


def number(value) -> float:
    return value.detach().item()


def test_by_hand() -> None:
    # One pair differs along the first axis: (1 - (-1)) / 2 = 1, so that B is that axis; N = (3, 4), (0.5, 2).
    weight = torch.tensor([[1.0, 7.0], [-1.0, 7.0], [3.0, 4.0], [0.5, 2.0]])
    assert number(BiasRegulariser([(0, 1)])(weight)) == pytest.approx(3**2 + 0.5**2)
    assert number(BiasRegulariser([(0, 1)], strength=0.1, reduction="mean")(weight)) == pytest.approx(0.1 * 9.25 / 2)
    cosines = 0.36 + 0.25 / 4.25
    assert number(BiasRegulariser([(0, 1)], normalise=True)(weight)) == pytest.approx(cosines)
    assert number(BiasRegulariser([(0, 1)], exempt=[2])(weight)) == pytest.approx(0.25)


@pytest.mark.parametrize("detach", [True, False])
@pytest.mark.parametrize("normalise", [True, False])
@pytest.mark.parametrize("share", [0.3, 0.5, 0.9, 1.0])
def test_equals_the_definition(detach: bool, normalise: bool, share: float) -> None:
    weight = table()
    expected, k, rows = by_svd(weight, PAIRS, share=share - 1e-12, normalise=normalise)
    term = BiasRegulariser(PAIRS, share=share, normalise=normalise, detach=detach)
    assert number(term(weight)) == pytest.approx(expected, rel=1e-12)
    assert term.k == k
    mean = BiasRegulariser(PAIRS, share=share, normalise=normalise, detach=detach, reduction="mean")
    assert number(mean(weight)) == pytest.approx(expected / rows, rel=1e-12)


def test_the_rule_for_k() -> None:
    assert smallest_k(np.array([3.0, 2.5, 2.0]), 0.5) == 2
    assert smallest_k(np.array([5.0, 3.0, 2.0]), 0.5) == 1  # exactly one half
    assert smallest_k(np.array([0.1] * 10), 0.3) == 3  # 0.1 + 0.1 + 0.1 is not 0.3 in binary
    assert smallest_k(np.array([1.0, 1.0, 1.0, 1.0]), 1.0) == 4


def test_the_rule_for_k_in_the_term_and_the_slip_of_the_released_code() -> None:
    squares = np.array([3.0, 2.5, 2.0])
    weight = torch.zeros(8, 3, dtype=torch.float64)
    for i, square in enumerate(squares):
        weight[2 * i, i], weight[2 * i + 1, i] = math.sqrt(square), -math.sqrt(square)
    weight[6:] = torch.tensor([[1.0, 2.0, 4.0], [1.0, 2.0, 4.0]])
    paper, released = BiasRegulariser(PAIRS), BiasRegulariser(PAIRS, variant="released")
    assert (number(paper(weight)), paper.k) == (pytest.approx(2 * (1 + 4)), 2)
    assert (number(released(weight)), released.k) == (pytest.approx(2 * 1), 1)


@pytest.mark.parametrize("normalise", [True, False])
@pytest.mark.parametrize("share", [0.3, 0.5, 0.9])
def test_gradient_through_the_subspace(normalise: bool, share: float) -> None:
    weight = table(3).requires_grad_()
    term = BiasRegulariser(PAIRS, strength=0.7, share=share, normalise=normalise, detach=False)
    assert torch.autograd.gradcheck(term, (weight,), eps=1e-6, atol=1e-7)


def test_gradient_through_a_subspace_with_two_equal_singular_values() -> None:
    """A derivative through the singular vectors themselves would be infinite here; the subspace is smooth."""
    weight = table(1, rows=9, dim=4)
    weight[:6] = 0
    for i, length in enumerate((2.0, 2.0, 0.5)):
        weight[2 * i, i], weight[2 * i + 1, i] = length, -length
    weight.requires_grad_()
    term = BiasRegulariser(PAIRS, share=0.9, detach=False)
    assert term.k == 0
    assert torch.autograd.gradcheck(term, (weight,), eps=1e-6, atol=1e-6)
    assert term.k == 2


def test_gradient_with_a_constant_subspace() -> None:
    weight = table(4).requires_grad_()
    BiasRegulariser(PAIRS, strength=0.7)(weight).backward()
    w = weight.detach().numpy()
    c = np.array([(w[a] - w[b]) / 2 for a, b in PAIRS])
    basis = np.linalg.svd(c, full_matrices=False)[2][: by_svd(weight, PAIRS)[1]]
    expected = 2 * 0.7 * w @ basis.T @ basis
    expected[:6] = 0  # the words of the pairs are left alone
    np.testing.assert_allclose(weight.grad.numpy(), expected, atol=1e-12)


@given(st.integers(0, 10_000), st.permutations(PAIRS), st.lists(st.booleans(), min_size=3, max_size=3))
@settings(max_examples=25, deadline=None)
def test_order_and_sides_of_pairs_do_not_matter(seed: int, order: list, flips: list) -> None:
    weight = table(seed)
    other = [(b, a) if flip else (a, b) for (a, b), flip in zip(order, flips, strict=True)]
    assert number(BiasRegulariser(other)(weight)) == pytest.approx(number(BiasRegulariser(PAIRS)(weight)), rel=1e-9)


@given(st.integers(0, 10_000), st.booleans(), st.booleans())
@settings(max_examples=25, deadline=None)
def test_rotation_does_not_matter(seed: int, normalise: bool, detach: bool) -> None:
    weight = table(seed)
    turn = torch.linalg.qr(table(seed + 1, 5))[0]
    term = BiasRegulariser(PAIRS, normalise=normalise, detach=detach)
    assert number(term(weight @ turn)) == pytest.approx(number(term(weight)), rel=1e-9)


@pytest.mark.parametrize("detach", [True, False])
def test_decreases_under_gradient_descent_without_changing_the_pairs(detach: bool) -> None:
    weight = table(5).requires_grad_()
    before = weight.detach().clone()
    term = BiasRegulariser(PAIRS, detach=detach)
    step = torch.optim.SGD([weight], lr=0.02)
    values = []
    for _ in range(50):
        step.zero_grad()
        value = term(weight)
        value.backward()
        step.step()
        values.append(number(value))
    assert values[-1] < 0.05 * values[0]
    assert all(later <= earlier for earlier, later in pairwise(values))
    if detach:
        assert torch.equal(weight.detach()[:6], before[:6])


def test_half_precision_is_summed_in_single_precision() -> None:
    weight = table(6).float()
    half = weight.to(torch.bfloat16)
    expected = BiasRegulariser(PAIRS)(half.float())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = BiasRegulariser(PAIRS)(half)
    assert found.dtype == torch.float32
    assert number(found) == pytest.approx(number(expected), rel=1e-6)


def test_from_words_reports_lost_pairs() -> None:
    index = {"she": 0, "he": 1, "aunt": 2, "table": 3, "chair": 4}
    term = BiasRegulariser.from_words([("she", "he"), ("aunt", "uncle"), ("queen", "king")], index)
    assert term.lost == (("aunt", "uncle"), ("queen", "king"))
    assert term.spared.tolist() == [0, 1, 2]  # aunt is gendered, with or without uncle
    with pytest.raises(VocabularyError, match=r"none of the 1 pairs.*queen-king"):
        BiasRegulariser.from_words([("queen", "king")], index)


class Tiny(torch.nn.Module):
    def __init__(self, *, share: bool) -> None:
        super().__init__()
        self.encoder = torch.nn.Embedding(12, 5, dtype=torch.float64)
        self.decoder = torch.nn.Linear(5, 12, dtype=torch.float64)
        if share:
            self.decoder.weight = self.encoder.weight


def test_one_matrix_for_input_and_output_is_counted_once() -> None:
    model, term = Tiny(share=True), BiasRegulariser(PAIRS)
    assert tied(model)
    assert {number(term.on(where)(model)) for where in ("input", "output", "both")} == {
        number(term(model.encoder.weight))
    }


def test_two_matrices_are_counted_each() -> None:
    model, term = Tiny(share=False), BiasRegulariser(PAIRS)
    one, other = (number(term(weight)) for weight in distinct_weights(model))
    assert one != other
    assert number(term.on("input")(model)) == one
    assert number(term.on("output")(model)) == other
    assert number(term.on("both")(model)) == pytest.approx(one + other)


def test_regularised_adds_the_term_to_any_loss() -> None:
    model, term = Tiny(share=False), BiasRegulariser(PAIRS, strength=0.3)
    loss = regularised(torch.nn.functional.mse_loss, term.on("input"), model)
    x, y = torch.zeros(3, dtype=torch.float64), torch.ones(3, dtype=torch.float64)
    assert number(loss(x, y)) == pytest.approx(1.0 + number(term(model.encoder.weight)))
    loss(x, y, reduction="sum").backward()
    assert model.encoder.weight.grad[:6].abs().sum() == 0
    assert model.encoder.weight.grad[6:].abs().sum() > 0


def test_adds_nothing_to_a_checkpoint() -> None:
    assert not BiasRegulariser(PAIRS).state_dict()


@pytest.mark.parametrize("detach", [True, False])
def test_nan_weights_give_nan(detach: bool) -> None:
    weight = table().requires_grad_()
    broken = weight * math.nan
    assert math.isnan(number(BiasRegulariser(PAIRS, detach=detach)(broken)))


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: BiasRegulariser([]), UsageError, "at least one pair"),
        (lambda: BiasRegulariser([(3, 3)]), UsageError, r"\(3, 3\)"),
        (lambda: BiasRegulariser([(-1, 3)]), UsageError, "numbered from 0"),
        (lambda: BiasRegulariser(PAIRS, strength=-1), UsageError, "at least 0, got -1"),
        (lambda: BiasRegulariser(PAIRS, share=0), UsageError, "share"),
        (lambda: BiasRegulariser(PAIRS, reduction="max"), UsageError, "'max'"),
        (lambda: BiasRegulariser(PAIRS, variant="mine"), UsageError, "'mine'"),
        (lambda: BiasRegulariser([(0, 99)])(table()), UsageError, "row 99 is beyond the table, which has 12"),
        (lambda: BiasRegulariser(PAIRS)(torch.zeros(3)), UsageError, "rows and columns"),
        (lambda: BiasRegulariser(PAIRS)(torch.zeros(8, 2)), DegenerateError, "same row"),
        (lambda: BiasRegulariser(PAIRS).on("middle")(Tiny(share=True)), UsageError, "'middle'"),
    ],
)
def test_bad_arguments(call, error, says) -> None:
    with pytest.raises(error, match=says):
        call()


@pytest.mark.parametrize("options", [{}, {"normalise": True}, {"detach": False}, {"variant": "released"}])
def test_expect_does_not_change_the_result(options):
    weight = torch.randn(30, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(3), requires_grad=True)
    term = BiasRegulariser([(0, 1), (2, 3), (4, 5)], **options)
    plain = term(weight)
    term.expect(weight)
    early = term(weight)
    assert torch.equal(early, plain)
    assert torch.equal(*(torch.autograd.grad(value, weight)[0] for value in (early, plain)))


def test_expect_for_other_weights_is_ignored():
    weight = torch.randn(30, 6, generator=torch.Generator().manual_seed(3))
    term = BiasRegulariser([(0, 1), (2, 3), (4, 5)])
    term.expect(weight)
    weight.add_(torch.randn(30, 6, generator=torch.Generator().manual_seed(4)))  # as an optimiser does
    assert torch.equal(term(weight), BiasRegulariser([(0, 1), (2, 3), (4, 5)])(weight))
    term.expect(weight)
    other = weight.flip(0)
    assert torch.equal(term(other), BiasRegulariser([(0, 1), (2, 3), (4, 5)])(other))


def test_every_public_name_of_the_language_models_resolves() -> None:
    from evenhand.models import lm
    from evenhand.models.lm.causal import CausalLM

    names = [name for name in lm.__all__ if name != "BiasRegulariserCallback"]  # its module needs transformers
    assert all(callable(getattr(lm, name)) for name in names)
    assert lm.CausalLM is CausalLM
    pytest.importorskip("transformers")
    assert lm.BiasRegulariserCallback.__name__ == "BiasRegulariserCallback"
