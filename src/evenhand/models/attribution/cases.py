"""What attribution asks of a model: the two inputs of a pair, how their tokens are aligned, and the score that is read.

Two inputs are aligned by their common beginning and their common end. What lies between is compared token by token if
both have as many tokens there, and as one unit otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from evenhand.arrays import Rows, Vector64
from evenhand.errors import TextTooLongError, UsageError
from evenhand.models.encoders.classifier import TextClassifier, label_index
from evenhand.models.lm.causal import CausalLM
from evenhand.models.lm.masked import MaskedLM
from evenhand.models.tokenizing import Ids, check_ids, encode, encode_one, encode_texts

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from evenhand.models.nli.transformer import TransformerNLI

ScoreKind = Literal["log-probability", "log-odds", "score"]


class AlignedUnit(NamedTuple):
    """Columns of the first input that stand for columns of the second, the last excluded."""

    first: tuple[int, int]
    second: tuple[int, int]
    changed: bool

    @property
    def is_block(self) -> bool:
        """Whether the two sides have different numbers of tokens."""
        return self.first[1] - self.first[0] != self.second[1] - self.second[0]


@dataclass(frozen=True, eq=False)
class ModelInput:
    """One input of a model, and which predictions make its score.

    The score of a language model is the sum over the asked columns of weight times log P(target). That of a classifier
    is read from its logits.
    """

    ids: Rows
    types: Rows | None
    columns: Rows
    targets: Rows
    weights: Vector64

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, eq=False)
class PatchCase:
    """Two aligned inputs; a pair has one case, or one for every masked token, whose scores are added."""

    pair: int
    first: ModelInput
    second: ModelInput
    units: tuple[AlignedUnit, ...]
    tokens: tuple[Rows, Rows]
    """The tokens of both inputs, nothing masked."""


@dataclass(frozen=True, eq=False)
class ExplainedModel:
    """A network with what attribution must know of it.

    Attributes:
        name: for reports.
        model: the network.
        tokenizer: its tokenizer.
        device: where it runs.
        window: the largest number of tokens that it reads.
        causal: whether a token sees only those before it, so that padding behind a text changes nothing.
        padding: the id that fills the end of shorter inputs.
        kind: what the score is.
        label: column of the logits of a classifier; -1 for a language model.
        label_name: the label.
        exclusive: whether the labels of a classifier exclude each other.
    """

    name: str
    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    device: str
    window: int
    causal: bool
    padding: int
    kind: ScoreKind
    label: int = -1
    label_name: str = ""
    exclusive: bool = True


def align(first: Sequence[int] | Rows, second: Sequence[int] | Rows) -> tuple[AlignedUnit, ...]:
    """Return the units of two rows of tokens, in order.

    >>> [(unit.first, unit.second, unit.changed) for unit in align([5, 6, 7], [5, 8, 9, 7])]
    [((0, 1), (0, 1), False), ((1, 2), (1, 3), True), ((2, 3), (3, 4), False)]
    """
    one, other = [int(token) for token in first], [int(token) for token in second]
    most = min(len(one), len(other))
    start = next((i for i in range(most) if one[i] != other[i]), most)
    end = next((i for i in range(most - start) if one[-1 - i] != other[-1 - i]), most - start)
    inner = (len(one) - end - start, len(other) - end - start)
    units = [AlignedUnit((i, i + 1), (i, i + 1), False) for i in range(start)]
    if inner[0] == inner[1]:
        units += [AlignedUnit((i, i + 1), (i, i + 1), one[i] != other[i]) for i in range(start, start + inner[0])]
    else:
        units.append(AlignedUnit((start, start + inner[0]), (start, start + inner[1]), True))
    for i in range(end):
        a, b = len(one) - end + i, len(other) - end + i
        units.append(AlignedUnit((a, a + 1), (b, b + 1), False))
    return tuple(units)


def causal_cases(
    view: CausalLM, pairs: Sequence[tuple[str, str]], answers: tuple[str, str] | None = None
) -> tuple[ExplainedModel, list[PatchCase], dict[int, str]]:
    """Return the cases of a causal model, and why pairs have none.

    The score is the log-probability of the tokens that both texts have behind the first token that differs: those
    before it are predicted from the same text. With two answers, it is log P(first answer) - log P(second answer) for
    the token behind the text. The texts are read as the likelihood reads them. Where the tokenizer puts nothing before
    a text, its first token is predicted in a reading of its own, which no activation of the text reaches: a token that
    both texts have and that begins one of them is not scored.
    """
    model = ExplainedModel(
        view.name, view.model, view.tokenizer, view.device, view.window, True, view.beginning[0],
        "log-odds" if answers else "log-probability",
    )  # fmt: skip
    cases, lost = [], {}
    for number, texts in enumerate(pairs):
        read = [[*view.reading.before, *encode_one(view.tokenizer, text)] or view.beginning for text in texts]
        rows = [np.array(ids, dtype=np.int64) for ids in read]
        units = align(*rows)
        if answers is None:
            begin = next((place for place, unit in enumerate(units) if unit.changed), len(units))
            shared = [unit for unit in units[begin:] if not unit.changed and min(unit.first[0], unit.second[0]) > 0]
            if not shared:
                lost[number] = "no token that both texts have follows the first difference"
                continue
            asked = [[unit.first[0] - 1 for unit in shared], [unit.second[0] - 1 for unit in shared]]
            targets = [ids[np.array(columns) + 1] for ids, columns in zip(rows, asked, strict=True)]
            inputs = [_language_input(*each) for each in zip(rows, asked, targets, strict=True)]
        else:
            choices = [[_next_token(view, text, answer) for answer in answers] for text in texts]
            inputs = [_contrast(ids, len(ids) - 1, words) for ids, words in zip(rows, choices, strict=True)]
        cases.append(PatchCase(number, inputs[0], inputs[1], units, (rows[0], rows[1])))
    return model, cases, lost


def _next_token(view: CausalLM, text: str, answer: str) -> int:
    """Return the first token of an answer behind a text."""
    ids, whole = (encode_one(view.tokenizer, each) for each in (text, f"{text} {answer.strip()}"))
    if whole[: len(ids)] != ids or len(whole) == len(ids):
        raise UsageError(f"the tokenizer joins {answer!r} to the end of {text!r}", hint="end the text with a word")
    return whole[len(ids)]


def _language_input(ids: Rows, columns: Sequence[int], targets: Rows) -> ModelInput:
    """Return an input whose score is the sum of the log-probabilities of targets."""
    return ModelInput(ids, None, np.array(columns, dtype=np.int64), targets, np.ones(len(columns)))


def _contrast(ids: Rows, column: int, choices: Sequence[int]) -> ModelInput:
    """Return an input whose score is the log-probability of one token less that of another, predicted at a column."""
    return ModelInput(ids, None, np.full(2, column), np.array(choices, dtype=np.int64), np.array([1.0, -1.0]))


def masked_cases(
    view: MaskedLM, pairs: Sequence[tuple[str, str]], answers: tuple[str, str] | None = None
) -> tuple[ExplainedModel, list[PatchCase], dict[int, str]]:
    """Return the cases of a masked model, and why pairs have none.

    The score is the sum over the tokens that both texts have of log P(token | text with this token masked). With two
    answers, it is log P(first answer) - log P(second answer) at the mask of the text.
    """
    transformer = view.transformer
    tokenizer, mask = transformer.tokenizer, int(transformer.tokenizer.mask_token_id)
    model = ExplainedModel(
        view.name, transformer.model, tokenizer, transformer.device, transformer.window, False,
        tokenizer.pad_token_id or 0, "log-odds" if answers else "log-probability",
    )  # fmt: skip
    choices = [] if answers is None else [_only_token(tokenizer, answer) for answer in answers]
    encoded = [encode_texts(tokenizer, texts) for texts in pairs]
    cases: list[PatchCase] = []
    lost: dict[int, str] = {}
    for number, both in enumerate(encoded):
        rows = [np.concatenate([text.before, text.ids, text.after]) for text in both]
        units = align(*rows)
        if choices:
            places = [np.flatnonzero(ids == mask) for ids in rows]
            if any(len(place) != 1 for place in places):
                raise UsageError(
                    f"a text has {len(places[0])} and the other {len(places[1])} masks",
                    hint=f"write {tokenizer.mask_token} once in each, where the answer goes",
                )
            inputs = [_contrast(ids, int(place[0]), choices) for ids, place in zip(rows, places, strict=True)]
            cases.append(PatchCase(number, inputs[0], inputs[1], units, (rows[0], rows[1])))
            continue
        special = set(range(len(both[0].before))) | set(range(len(rows[0]) - len(both[0].after), len(rows[0])))
        shared = [unit for unit in units if not unit.changed and unit.first[0] not in special]
        if not shared:
            lost[number] = "the texts share no token"
        for unit in shared:
            inputs = []
            for ids, column in zip(rows, (unit.first[0], unit.second[0]), strict=True):
                hidden = ids.copy()
                hidden[column] = mask
                inputs.append(_language_input(hidden, [column], ids[[column]]))
            cases.append(PatchCase(number, inputs[0], inputs[1], units, (rows[0], rows[1])))
    return model, cases, lost


def _only_token(tokenizer: PreTrainedTokenizerBase, answer: str) -> int:
    ids = encode_one(tokenizer, answer)
    if len(ids) != 1:
        raise UsageError(f"the answer {answer!r} has {len(ids)} tokens; a mask stands for one", hint="use other words")
    return ids[0]


def label_cases(
    view: TextClassifier, pairs: Sequence[tuple[str, str]], label: str | None = None
) -> tuple[ExplainedModel, list[PatchCase], dict[int, str]]:
    """Return the cases of a classifier: the score is the log-odds of a label, or the score of a regression head."""
    column = label_index(view, label)
    transformer = view.transformer
    model = ExplainedModel(
        view.name, transformer.model, transformer.tokenizer, transformer.device, transformer.window, False,
        transformer.tokenizer.pad_token_id or 0, "score" if view.unit == "score" else "log-odds", column,
        view.labels[column], view.exclusive,
    )  # fmt: skip
    read = (encode(transformer.tokenizer, list(texts), verbose=False)["input_ids"] for texts in pairs)
    return model, [_label_case(number, rows, (None, None)) for number, rows in enumerate(read)], {}


def inference_cases(
    view: TransformerNLI, pairs: Sequence[tuple[tuple[str, str], tuple[str, str]]], label: str | None = None
) -> tuple[ExplainedModel, list[PatchCase], dict[int, str]]:
    """Return the cases of an inference model: pairs of (premise, hypothesis), scored by the log-odds of a label."""
    name = label or "entailment"
    if name not in view.labels:
        raise UsageError(f"{view.name} has no label {name!r}", hint=f"use {', '.join(view.labels)}")
    tokenizer, inner = view.tokenizer, view.device_model
    model = ExplainedModel(
        view.name, inner.model, tokenizer, str(inner.device), view.limit, False, tokenizer.pad_token_id or 0,
        "log-odds", view.labels.index(name), name,
    )  # fmt: skip
    cases = []
    for number, both in enumerate(pairs):
        read = encode(tokenizer, *(list(side) for side in zip(*both, strict=True)), verbose=False)
        cases.append(_label_case(number, read["input_ids"], read.get("token_type_ids") or (None, None)))
    return model, cases, {}


def _label_case(number: int, rows: Sequence[Ids], types: Sequence[Ids | None]) -> PatchCase:
    """Return the case of a pair whose score is read from logits of labels."""
    nothing = np.zeros(0, dtype=np.int64)
    first, second = (
        ModelInput(_row(ids), None if kinds is None else _row(kinds), nothing, nothing, np.zeros(0))
        for ids, kinds in zip(rows, types, strict=True)
    )
    return PatchCase(number, first, second, align(*rows), (first.ids, second.ids))


def _row(ids: Ids) -> Rows:
    return np.array(ids, dtype=np.int64)


def check_lengths(model: ExplainedModel, cases: Sequence[PatchCase]) -> None:
    """Raise `TextTooLongError` for an input that is longer than the model reads, or an error for ids it lacks."""
    longest = max((len(side) for case in cases for side in (case.first, case.second)), default=0)
    if longest > model.window:
        raise TextTooLongError(
            f"a text has {longest:,} tokens, and {model.name} reads {model.window:,}", hint="use shorter texts"
        )
    for case in cases:
        for side in (case.first, case.second):
            check_ids(side.ids, model.model, model.name)
