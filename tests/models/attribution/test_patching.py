"""Attribution: alignment by hand, patching identities in many architectures, plain hooks as an independent check."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import evenhand as eh  # noqa: E402
from evenhand.errors import DegenerateError, TextTooLongError, UsageError  # noqa: E402
from evenhand.models.attribution.cases import align, causal_cases, label_cases, masked_cases  # noqa: E402
from evenhand.models.attribution.pairs import explain_pair, site_effects  # noqa: E402
from evenhand.models.attribution.patching import (  # noqa: E402
    PatchJob,
    gradient_times_input,
    patched_scores,
    scores,
)
from evenhand.models.encoders.sites import Site  # noqa: E402

Folder = Callable[..., Path]
EQUAL = ("the man is a nurse and he likes art.", "the woman is a nurse and she likes art.")
UNEQUAL = ("the secretary zzq is nice and good", "the man is nice and good")
ONE_WORD = ("the man likes the nurse and the door", "the king likes the nurse and the door")
MODELS = [
    "GPT2LMHeadModel", "LlamaForCausalLM", "GemmaForCausalLM", "BertForMaskedLM", "AlbertForMaskedLM",
    "RobertaForMaskedLM", "DistilBertForMaskedLM", "DebertaV2ForMaskedLM", "ModernBertForMaskedLM",
    "BertForSequenceClassification",
]  # fmt: skip
NLI = {"id2label": {0: "contradiction", 1: "neutral", 2: "entailment"}}


def opened(folder: Path) -> object:
    subject = eh.open(f"hf:{folder}")
    return subject.view("labels" if "labels" in subject.offers else "likelihood")


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ([5, 6, 7], [5, 8, 9, 7], [((0, 1), (0, 1), False), ((1, 2), (1, 3), True), ((2, 3), (3, 4), False)]),
        ([1, 2, 3, 4], [1, 9, 3, 8], [((i, i + 1), (i, i + 1), i in (1, 3)) for i in range(4)]),
        ([1, 2], [1, 2], [((0, 1), (0, 1), False), ((1, 2), (1, 2), False)]),
        ([1, 1, 1], [1, 1], [((0, 1), (0, 1), False), ((1, 2), (1, 2), False), ((2, 3), (2, 2), True)]),
        ([], [4], [((0, 0), (0, 1), True)]),
    ],
)
def test_texts_are_aligned_by_their_beginning_and_their_end(
    first: list[int], second: list[int], expected: list[tuple[tuple[int, int], tuple[int, int], bool]]
) -> None:
    assert [tuple(unit) for unit in align(first, second)] == expected
    covered = [column for unit in align(first, second) for column in range(*unit.first)]
    assert covered == list(range(len(first)))


@pytest.mark.parametrize("pair", [EQUAL, UNEQUAL], ids=["equal", "unequal"])
@pytest.mark.parametrize("name", MODELS)
def test_everything_gives_the_other_score_and_nothing_gives_none(
    name: str, pair: tuple[str, str], tiny_folder: Folder
) -> None:
    result = explain_pair(opened(tiny_folder(name)), *pair)
    assert abs(result.difference) > 1e-3
    assert abs(result.nothing) < 1e-5
    assert result.whole == pytest.approx(np.full(len(result.sites), result.difference), abs=1e-5)
    assert result.carried[0] == pytest.approx(result.difference, abs=1e-5)  # all that differs in the input
    assert result.effects.shape == (4, len(result.units))


@pytest.mark.parametrize("name", MODELS)
def test_the_pair_in_the_other_order_has_the_opposite_difference(name: str, tiny_folder: Folder) -> None:
    view = opened(tiny_folder(name))
    there, back = explain_pair(view, *UNEQUAL), explain_pair(view, *UNEQUAL[::-1])
    assert there.difference == pytest.approx(-back.difference, abs=1e-5)
    assert there.gradients[0] == pytest.approx(back.gradients[1], abs=1e-5)


def test_the_score_of_a_causal_model_is_that_of_the_shared_tokens_behind_the_difference(tiny_folder: Folder) -> None:
    view = opened(tiny_folder("GPT2LMHeadModel"))
    result = explain_pair(view, *ONE_WORD)
    logs = [one.log_probabilities for one in view.token_log_probabilities(ONE_WORD)]
    ids = [one.ids for one in view.token_ids(ONE_WORD)]
    shared = 0
    while ids[0][-1 - shared] == ids[1][-1 - shared]:
        shared += 1
    assert result.scores == pytest.approx([one[-shared:].sum() for one in logs], abs=1e-4)


@pytest.mark.parametrize("pair", [ONE_WORD, ("the man likes art", "man likes art")], ids=["word", "beginning"])
def test_a_text_is_read_as_the_likelihood_reads_it_where_nothing_stands_before_it(
    pair: tuple[str, str], tiny_folder: Folder
) -> None:
    view = opened(tiny_folder("GPT2LMHeadModel"))
    view.tokenizer.init_kwargs["add_bos_token"] = False
    result = explain_pair(view, *pair)
    logs = [one.log_probabilities for one in view.token_log_probabilities(pair)]
    ids = [one.ids.tolist() for one in view.token_ids(pair)]
    _, cases, _ = causal_cases(view, [pair])
    assert [row.tolist() for row in cases[0].tokens] == ids  # the text alone
    shared = next(n for n in range(1, 99) if ids[0][-1 - n :] != ids[1][-1 - n :])
    shared = min(shared, min(map(len, ids)) - 1)  # the first token is predicted elsewhere
    assert result.scores == pytest.approx([one[-shared:].sum() for one in logs], abs=1e-4)
    assert result.whole == pytest.approx(np.full(4, result.difference), abs=1e-5)
    answers = explain_pair(view, "man", "woman", answers=("he", "she"))
    both = [view.token_log_probabilities([f"man {word}"])[0].log_probabilities for word in ("he", "she")]
    assert answers.scores[0] == pytest.approx(both[0][1] - both[1][1], abs=1e-4)


def test_the_score_of_a_masked_model_is_the_pseudo_likelihood_of_the_shared_tokens(tiny_folder: Folder) -> None:
    view = opened(tiny_folder("BertForMaskedLM"))
    result = explain_pair(view, *ONE_WORD)
    logs = [one.log_probabilities for one in view.token_log_probabilities(ONE_WORD)]
    assert result.scores == pytest.approx([np.delete(one, 1).sum() for one in logs], abs=1e-4)


def test_a_classifier_is_read_by_the_log_odds_of_a_label(tiny_folder: Folder) -> None:
    view = opened(tiny_folder("BertForSequenceClassification"))
    for column, label in enumerate(view.labels):
        result = explain_pair(view, *EQUAL, label=label)
        p = view.predict(list(EQUAL))[:, column]
        assert result.scores == pytest.approx(np.log(p / (1 - p)), abs=1e-5)
        assert (result.kind, result.label) == ("log-odds", label)


def test_a_patch_equals_a_plain_hook(tiny_folder: Folder) -> None:
    """The same patch with torch alone: the output of block 2 at one token, from one run into the other."""
    view = opened(tiny_folder("GPT2LMHeadModel"))
    rows = [torch.tensor([[*view.beginning, *view.tokenizer(text)["input_ids"]]]) for text in ONE_WORD]
    assert rows[0].shape == rows[1].shape
    changed = int((rows[0] != rows[1]).nonzero()[0, 1])
    result = explain_pair(view, *ONE_WORD)
    block, length = view.model.transformer.h[1], rows[0].shape[1]
    kept: list[torch.Tensor] = []
    with torch.no_grad():
        handle = block.register_forward_hook(
            lambda module, args, output: kept.append(output[0] if isinstance(output, tuple) else output)
        )
        view.model(rows[0])
        handle.remove()
        for column in (changed, changed + 2):

            def put(module: object, args: object, output: object, column: int = column) -> object:
                states = (output[0] if isinstance(output, tuple) else output).clone()
                states[:, column] = kept[0][:, column]
                return (states, *output[1:]) if isinstance(output, tuple) else states

            handle = block.register_forward_hook(put)
            logs = view.model(rows[1]).logits.log_softmax(-1)[0]
            handle.remove()
            asked = range(changed + 1, length)
            score = sum(float(logs[place - 1, rows[1][0, place]]) for place in asked)
            assert result.effects[2, column] == pytest.approx(score - result.scores[1], abs=1e-4)


def test_the_gradient_is_that_of_all_vectors_growing_together(tiny_folder: Folder) -> None:
    view = opened(tiny_folder("GPT2LMHeadModel"))
    model, cases, _ = causal_cases(view, [ONE_WORD])
    total = gradient_times_input(model, cases, first=True)[0].sum()
    table, step = view.model.get_input_embeddings(), 1e-3
    values = []
    for factor in (1 + step, 1 - step):
        handle = table.register_forward_hook(lambda module, args, output, factor=factor: output * factor)
        values.append(scores(model, cases, first=True)[0])
        handle.remove()
    assert total == pytest.approx((values[0] - values[1]) / (2 * step), rel=2e-2)


def test_jobs_of_several_pairs_do_not_mix(tiny_folder: Folder) -> None:
    view = opened(tiny_folder("LlamaForCausalLM"))
    pairs = [EQUAL, UNEQUAL, ONE_WORD]
    together = site_effects(view, pairs)
    for number, pair in enumerate(pairs):
        alone = site_effects(view, [pair])
        assert together.differences[number] == pytest.approx(alone.differences[0], abs=1e-4)
        assert together.effects[number] == pytest.approx(alone.effects[0], abs=1e-4, nan_ok=True)
    by_layer = explain_pair(view, *ONE_WORD)
    assert together.effects[2, :3] == pytest.approx(by_layer.carried[1:], abs=1e-4)
    parts = [place for place, site in enumerate(together.sites) if not site.startswith("layer")]
    assert np.isnan(together.effects[1, parts]).all()  # a part cannot read a text of another length
    assert np.isfinite(together.effects[[0, 2]]).all()


def test_answers_of_both_kinds_of_language_model(tiny_folder: Folder) -> None:
    causal = opened(tiny_folder("GPT2LMHeadModel"))
    result = explain_pair(causal, "the man said that", "the woman said that", answers=("he", "she"))
    first = [causal.token_log_probabilities([f"the man said that {word}"])[0] for word in ("he", "she")]
    size = len(causal.token_ids(["the man said that"])[0].ids)
    expected = first[0].log_probabilities[size] - first[1].log_probabilities[size]
    assert result.scores[0] == pytest.approx(expected, abs=1e-4)
    masked = opened(tiny_folder("BertForMaskedLM"))
    asked = "the man said that [MASK] was here"
    result = explain_pair(masked, asked, asked.replace("man", "woman"), answers=("he", "she"))
    logs = masked.filler_log_probabilities([asked.replace("[MASK]", "{}")], ["he", "she"])[0]
    assert result.scores[0] == pytest.approx(logs[0] - logs[1], abs=1e-4)


def test_what_cannot_be_explained_says_why(tiny_folder: Folder) -> None:
    causal, masked = opened(tiny_folder("GPT2LMHeadModel")), opened(tiny_folder("BertForMaskedLM"))
    with pytest.raises(UsageError, match="no token that both texts have"):
        explain_pair(causal, "the man", "the woman")
    with pytest.raises(UsageError, match="same tokens"):
        explain_pair(masked, "the man", "the man")
    with pytest.raises(UsageError, match="0 and the other 0 masks"):
        explain_pair(masked, *EQUAL, answers=("he", "she"))
    with pytest.raises(UsageError, match="2 tokens"):
        explain_pair(masked, "[MASK] man", "[MASK] woman", answers=("he", "zq"))
    with pytest.raises(UsageError, match="no labels"):
        explain_pair(causal, *EQUAL, label="x")
    with pytest.raises(UsageError, match="needs a transformer"):
        explain_pair(eh.Vectors.default(), *EQUAL)
    with pytest.raises(UsageError, match="answers are for language models"):
        explain_pair(opened(tiny_folder("BertForSequenceClassification")), *EQUAL, answers=("a", "b"))
    with pytest.raises(TextTooLongError):
        explain_pair(masked, "man" + " art" * 90, "woman" + " art" * 90)
    with pytest.raises(DegenerateError, match="no pair"):
        site_effects(causal, [("the man", "the woman")])


def test_a_changed_model_is_explained_as_it_is(tiny_folder: Folder) -> None:
    from evenhand.mitigations.maps import SoftProjection
    from evenhand.mitigations.maps.site_change import SiteChange

    subject = eh.open(f"hf:{tiny_folder('GPT2LMHeadModel')}")
    basis = np.eye(16)[:1]
    changed = SiteChange.at("layer:2", SoftProjection(basis))(subject)
    result = explain_pair(changed.view("likelihood"), *EQUAL)
    assert result.whole == pytest.approx(np.full(4, result.difference), abs=1e-5)
    assert result.scores[0] != pytest.approx(explain_pair(subject.view("likelihood"), *EQUAL).scores[0], abs=1e-3)


def test_inference_models_compare_premises_or_hypotheses(tiny_folder: Folder) -> None:
    from evenhand.models.nli.protocol import LABELS
    from evenhand.models.nli.transformer import TransformerNLI

    model = TransformerNLI(str(tiny_folder("BertForSequenceClassification", num_labels=3, **NLI)))
    for pair in (
        (("the nurse is here", "the man is here"), ("the nurse is here", "the woman is here")),
        (("the nurse zq is here", "a man is here"), ("the doctor is here", "a man is here")),
    ):
        result = explain_pair(model, *pair)
        column = LABELS.index("entailment")
        p = model.predict([one for one, _ in pair], [other for _, other in pair]).matrix[:, column]
        assert result.scores == pytest.approx(np.log(p / (1 - p)), abs=1e-4)
        assert result.whole == pytest.approx(np.full(4, result.difference), abs=1e-5)
        assert abs(result.nothing) < 1e-5


def test_cases_of_nothing_are_empty(tiny_folder: Folder) -> None:
    masked = opened(tiny_folder("BertForMaskedLM"))
    assert masked_cases(masked, [("man", "woman")])[2] == {0: "the texts share no token"}
    model, cases, _ = label_cases(opened(tiny_folder("BertForSequenceClassification")), [EQUAL])
    assert patched_scores(model, cases, [Site("layer", 1)], [PatchJob(0, 0, ())]) == pytest.approx(
        scores(model, cases, first=False), abs=1e-6
    )
