"""The parts of the regulariser and of its callback: limits, places, texts in records, what a Trainer may do."""

from __future__ import annotations

import hashlib
import math
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

torch = pytest.importorskip("torch")

from evenhand.errors import FormatError, UsageError, VocabularyError  # noqa: E402
from evenhand.models.lm.regulariser import (  # noqa: E402
    BiasRegulariser,
    check_where,
    distinct_weights,
    same,
    smallest_k,
    token_pairs,
)

PAIRS = [(0, 1), (2, 3), (4, 5)]


def table(rows: int = 12, dim: int = 5) -> Any:
    return torch.randn(rows, dim, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def model(get: Any = None, **parts: Any) -> Any:
    """Stands for a model: with the methods of transformers, or with the names of word-level models."""
    if get is not None:
        parts |= {"get_input_embeddings": lambda: get, "get_output_embeddings": lambda: None}
    return SimpleNamespace(**parts)


def test_a_record_shows_every_parameter() -> None:
    term = BiasRegulariser(PAIRS, strength=0.25, share=0.75, normalise=True, reduction="mean", detach=False)
    text = "pairs=3, strength=0.25, share=0.75, normalise=True, reduction=mean, detach=False, variant=paper"
    assert term.extra_repr() == text
    rows = hashlib.sha256(b"([0, 2, 4], [1, 3, 5])").hexdigest()[:8]
    assert term.on("output").description == f"BiasRegulariser({text}, where=output, rows={rows})"
    assert BiasRegulariser(PAIRS).on().where == "input"
    other = BiasRegulariser([(1, 0), *PAIRS[1:]]).on("output")
    assert other.description.partition("rows=")[2] != f"{rows})"


def test_arguments_at_their_limits() -> None:
    for strength in (0.0, 3):
        assert BiasRegulariser([(0, 1)], strength=strength).strength == strength
    assert BiasRegulariser([(0, 1)], share=1.0).share == 1.0
    for wrong in ({"strength": math.inf}, {"strength": math.nan}, {"share": 1.01}, {"share": math.nan}, {"share": 0.0}):
        with pytest.raises(UsageError, match=next(iter(wrong))):
            BiasRegulariser([(0, 1)], **wrong)
    for pairs, named in (([(0, 1), (2, -1)], r"\(0, 1\)|\(2, -1\)"), ([(0, 1), (4, 4)], r"\(4, 4\)")):
        with pytest.raises(UsageError, match=named):
            BiasRegulariser(pairs)


def test_the_last_row_of_a_table_can_be_that_of_a_pair() -> None:
    weight = table(6)
    assert BiasRegulariser([(0, 5)])(weight) > 0
    with pytest.raises(UsageError, match="row 6 is beyond the table, which has 6 rows"):
        BiasRegulariser([(0, 6)])(weight)
    with pytest.raises(UsageError, match="row 7 is beyond"):
        BiasRegulariser([(0, 5)], exempt=[7])(weight)
    for shape in ((6,), (6, 5, 1)):
        with pytest.raises(UsageError, match="rows and columns"):
            BiasRegulariser([(0, 1)])(torch.zeros(shape))


def test_the_number_of_directions_is_that_of_the_last_call() -> None:
    for detach in (True, False):
        term = BiasRegulariser(PAIRS, share=0.9, detach=detach)
        assert term.k == 0
        term(table())
        assert term.k > 0
        term(table() * math.nan)
        assert term.k == 0
    for share, k in ((0.5, 1), (0.500001, 2), (0.9, 2), (1.0, 3)):
        assert smallest_k(torch.tensor([5.0, 4.0, 1.0]).double().numpy(), share) == k


def test_a_row_of_zeros_has_no_cosine() -> None:
    weight = table()
    weight[9] = 0
    found = BiasRegulariser(PAIRS, normalise=True)
    squares = found._row_energies(weight, None)
    assert squares[9] == 0
    assert float(found(weight)) == pytest.approx(float(squares[6:].sum()))


def test_words_of_lost_pairs_are_named_and_spared() -> None:
    index = {"she": 0, "he": 1, "uncle": 2, "king": 3, "table": 4, "chair": 5}
    pairs = [("she", "he"), ("aunt", "uncle"), ("king", "queen"), ("x", "y")]
    term = BiasRegulariser.from_words(iter(pairs), index, exempt=[5], share=0.75)
    assert term.lost == (("aunt", "uncle"), ("king", "queen"), ("x", "y"))
    assert (term.first.tolist(), term.second.tolist(), term.spared.tolist()) == ([0], [1], [0, 1, 2, 3, 5])
    assert term.share == 0.75
    with pytest.raises(VocabularyError, match=r"none of the 5 pairs is in the vocabulary \(a-b, c-d, e-f, g-h\)"):
        BiasRegulariser.from_words([*zip("aceg", "bdfh", strict=True), ("i", "j")], index)


def test_the_copy_for_the_host_is_made_where_there_is_one_table(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = torch.nn.Embedding(12, 5), torch.nn.Linear(5, 12)
    asked: list[Any] = []
    monkeypatch.setattr(BiasRegulariser, "expect", lambda self, weight: asked.append(weight))
    term = BiasRegulariser(PAIRS)
    term.on("both").expect(model(encoder=one, decoder=other))
    assert asked == []
    term.on("input").expect(model(encoder=one, decoder=other))
    assert len(asked) == 1
    assert asked[0] is one.weight


def test_a_table_is_used_once_and_only_while_it_is_the_same() -> None:
    weight = table()
    term = BiasRegulariser(PAIRS)
    term.expect(weight)
    pending = term._pending
    assert pending is not None
    assert pending[:2] == (id(weight), weight._version)
    differences = (weight[[0, 2, 4]] - weight[[1, 3, 5]]) / 2
    torch.testing.assert_close(torch.tensor(pending[2].wait()), differences @ differences.T)
    used: list[Any] = []
    term._row_energies = lambda one, gram: used.append(gram) or torch.zeros(12)  # type: ignore[method-assign,assignment]
    term.energy(weight)
    term.energy(weight)
    assert used == [pending[2], None]


def test_tables_are_found_by_methods_or_names() -> None:
    embedding, linear = torch.nn.Embedding(12, 5), torch.nn.Linear(5, 12)
    assert distinct_weights(model(encoder=embedding, decoder=linear), "both")[1] is linear.weight
    assert distinct_weights(model(embedding, encoder=linear), "input")[0] is embedding.weight
    for broken in (
        model(torch.nn.LayerNorm(4)),  # its weight is no matrix
        model(),
        model(encoder=SimpleNamespace(weight=None)),
    ):
        with pytest.raises(FormatError, match="a SimpleNamespace has no matrix of input embeddings"):
            distinct_weights(broken, "input")
    with pytest.raises(FormatError, match="no matrix of output embeddings"):
        distinct_weights(model(embedding), "both")
    for where in ("input", "output", "both"):
        assert check_where(where) == where  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="unknown place 'x'"):
        check_where("x")  # type: ignore[arg-type]


def test_views_of_the_same_numbers_are_the_same() -> None:
    numbers = torch.zeros(4, 3)
    assert same(numbers, numbers)
    assert same(numbers, numbers.view(4, 3))
    assert not same(numbers, numbers.clone())
    assert not same(numbers, numbers[:2])
    assert not same(torch.zeros(0, 3), torch.zeros(0, 3))
    empty = torch.zeros(0)
    assert same(empty, empty)


def test_rows_of_words_in_both_forms() -> None:
    class Tokenizer:
        unk_token_id = 9
        ids: ClassVar[dict[str, list[int]]] = {
            "she": [1],
            "he": [2],
            " she": [3],
            " he": [4],
            "aunt": [5],
            "uncle": [9],
            " aunt": [6, 7],
        }

        def encode(self, text: str) -> list[int]:
            return self.ids.get(text, [8, 8])

    from evenhand.models.lm import regulariser

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(regulariser, "encode_one", lambda tokenizer, text: tokenizer.encode(text))
        tokenizer: Any = Tokenizer()
        found = token_pairs([("she", "he"), ("aunt", "uncle"), ("he", "she")], tokenizer)
        assert found.pairs == ((1, 2), (3, 4), (2, 1), (4, 3))
        assert found.alone == {1, 2, 3, 4, 5}
        assert found.lost == (("aunt", "uncle"),)
        listed = token_pairs("bordia2019-cnn-dm", tokenizer)
        assert (1, 2) in listed.pairs or (2, 1) in listed.pairs
        with pytest.raises(VocabularyError, match="none of the 1 pairs has two words that are single tokens"):
            token_pairs([("aunt", "uncle")], tokenizer)


# The callback --------------------------------------------------------------------------------------------------------


@pytest.fixture
def callback() -> Any:
    pytest.importorskip("transformers")
    from evenhand.models.lm.trainer_callback import BiasRegulariserCallback

    return BiasRegulariserCallback([("she", "he")], strength=0.5)


def test_the_weight_of_the_term_is_checked_once(callback: Any) -> None:
    callback.on_step_begin(None, None, None)
    with pytest.raises(UsageError, match="does not use the loss of the model's output"):
        callback.on_pre_optimizer_step(None, None, None)
    callback._weights = [torch.tensor(0.25)] * 2
    with pytest.raises(UsageError, match=r"a weight of 0\.5 instead of 1\n.*multiply strength by 2"):
        callback.on_pre_optimizer_step(None, None, None)
    callback.on_pre_optimizer_step(None, None, None)  # later updates are not checked
    assert callback._checked
    callback._checked, callback._weights = False, [torch.tensor(0.0)]
    with pytest.raises(UsageError, match=r"a weight of 0 instead of 1\n.*use `regularised`"):
        callback.on_pre_optimizer_step(None, None, None)
    callback._checked, callback._weights = False, [torch.tensor(0.5), torch.tensor(0.5004)]
    callback.on_pre_optimizer_step(None, None, None)
    callback._checked, callback._weights = False, [torch.tensor(1.002)]
    with pytest.raises(UsageError, match="instead of 1"):
        callback.on_pre_optimizer_step(None, None, None)


def test_only_lines_with_a_loss_are_logged(callback: Any) -> None:
    state = SimpleNamespace(log_history=[{}, {}])
    for value, logs, logged in (
        (None, {"loss": 1.0}, False),
        (2.0, {"eval_loss": 1.0}, False),
        (2.0, {"loss": 1.0}, True),
    ):
        callback._value = None if value is None else torch.tensor(value)
        callback.on_log(None, state, None, logs)
        assert ("bias_penalty" in logs) is logged
    assert state.log_history == [{}, {"bias_penalty": 2.0}]
    callback.on_log(None, state, None, None)


@pytest.mark.parametrize(("divided", "processes", "expected"), [(False, 4, 3.5), (True, 1, 3.5), (True, 4, 2.0)])
def test_the_term_is_added_to_the_loss_of_a_training_model(
    callback: Any, divided: bool, processes: int, expected: float
) -> None:
    term = torch.tensor(2.0, requires_grad=True)
    callback.regulariser = SimpleNamespace(on=lambda where: lambda model: term * 1.0)
    callback._due, callback._processes = True, processes
    inputs = {"num_items_in_batch": 3} if divided else {}
    training = SimpleNamespace(training=True)
    loss = torch.tensor(1.5)
    found = callback._add(training, None, inputs, {"loss": loss})
    assert found["loss"].item() == pytest.approx(expected)
    found["loss"].backward()
    assert [float(weight) for weight in callback._weights] == [pytest.approx(1 / processes if divided else 1.0)]
    assert callback._value.item() == 2.0
    again = callback._add(training, None, inputs, {"loss": loss})
    assert again["loss"].item() == pytest.approx(1.5 if divided else 3.5)  # once for all batches, or once for each
    callback._due = True
    assert callback._add(training, None, inputs, {"loss": None, "logits": 1}) == {"loss": None, "logits": 1}
    callback._due = True
    first, second = callback._add(training, None, inputs, (loss, "logits"))
    assert (first.item(), second) == (pytest.approx(expected), "logits")
    callback._due = True
    assert callback._add(SimpleNamespace(training=False), None, inputs, "as it is") == "as it is"
    callback.regulariser = None
    assert callback._add(training, None, inputs, "as it is") == "as it is"


@pytest.mark.parametrize(
    ("options", "processes", "checked"),
    [({}, 1, False), ({"average_tokens_across_devices": True}, 3, False), ({"fp16": True}, 1, True)],
)
def test_a_training_begins(callback: Any, options: dict[str, bool], processes: int, checked: bool) -> None:
    from evenhand.models.lm import trainer_callback

    network = torch.nn.Module()
    network.encoder = torch.nn.Embedding(6, 3)
    rows = SimpleNamespace(pairs=((0, 1),), alone=frozenset({0, 1, 2}), lost=(("a", "b"),))
    with pytest.MonkeyPatch.context() as patch:
        asked: list[Any] = []
        patch.setattr(trainer_callback, "token_pairs", lambda pairs, tokenizer: asked.append(tokenizer) or rows)
        for _ in range(2):  # a training that failed leaves its hook
            callback.on_train_begin(
                SimpleNamespace(world_size=3, **options), None, None, model=network, processing_class="own"
            )
            assert len(network._forward_hooks) == 1
        callback.tokenizer = "given"
        callback.on_train_begin(SimpleNamespace(world_size=3), None, None, model=network, processing_class="own")
    assert asked == ["own", "own", "given"]
    assert callback.lost == callback.regulariser.lost == (("a", "b"),)
    assert callback.regulariser.spared.tolist() == [0, 1, 2]
    assert callback.regulariser.strength == 0.5
    callback.on_train_end(None, None, None)
    assert not network._forward_hooks
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trainer_callback, "token_pairs", lambda pairs, tokenizer: rows)
        callback.on_train_begin(SimpleNamespace(world_size=3, **options), None, None, model=network)
    assert (callback._processes, callback._checked) == (processes, checked)


def test_several_devices_in_one_process_are_refused(callback: Any) -> None:
    from evenhand.models.lm.trainer_callback import _check_arguments, _check_trainable

    for count in (0, 1):
        _check_arguments(SimpleNamespace(n_gpu=count))
    _check_arguments(SimpleNamespace())
    with pytest.raises(UsageError, match="hooked to 2 copies of a model"):
        _check_arguments(SimpleNamespace(n_gpu=2))
    network = SimpleNamespace(encoder=torch.nn.Embedding(6, 3), decoder=torch.nn.Linear(3, 6))
    network.encoder.weight.requires_grad_(False)
    _check_trainable(network, "both")
    with pytest.raises(UsageError, match="the input embeddings of the SimpleNamespace are frozen"):
        _check_trainable(network, "input")
