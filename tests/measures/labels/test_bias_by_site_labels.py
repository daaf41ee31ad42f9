"""Bias by site of classifiers: the value from predictions, a share by plain hooks, sources, and what has no value."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import evenhand as eh  # noqa: E402
from evenhand.audit import Audit, Plan  # noqa: E402
from evenhand.errors import EvenhandError, UsageError  # noqa: E402
from evenhand.measures.labels.bias_by_site_labels import bias_by_site_labels  # noqa: E402
from evenhand.report.charts import figures  # noqa: E402

Folder = Callable[..., Path]
TEXTS = [
    "the woman is a nurse",
    "the man likes the art",
    "my mother was here",
    "the door is good",
    "the king likes art",
]


@pytest.fixture
def subject(tiny_folder: Folder) -> eh.Subject:
    return eh.open(f"hf:{tiny_folder('BertForSequenceClassification')}", device="cpu", precision="float32")


def log_odds(p: np.ndarray) -> np.ndarray:
    return np.log(p / (1 - p))


def test_the_value_is_that_of_the_predictions_and_a_share_that_of_plain_hooks(subject: eh.Subject) -> None:
    view = subject.view("labels")
    found = bias_by_site_labels(view, TEXTS, label="LABEL_0")
    pairs = [
        ("the woman is a nurse", "the man is a nurse"), ("the woman likes the art", "the man likes the art"),
        ("my mother was here", "my father was here"), ("the queen likes art", "the king likes art"),
    ]  # fmt: skip
    odds = [log_odds(view.predict(list(side))[:, 0]) for side in zip(*pairs, strict=True)]
    differences = odds[0] - odds[1]
    assert found.n == 4
    assert found.value == pytest.approx(differences.mean(), abs=1e-5)
    assert (found.positive, found.params["label"]) == ("female", "LABEL_0")
    shares = {item["word"]: item["value"] for item in found.items}
    assert len(shares) == 9
    model, tokenizer = view.transformer.model, view.transformer.tokenizer
    for number, layer in enumerate(model.base_model.encoder.layer, start=1):
        moved = 0.0
        for pair, difference, before in zip(pairs, differences, odds[1], strict=True):
            first, second = (tokenizer(text, return_tensors="pt") for text in pair)
            changed = (first["input_ids"] != second["input_ids"])[0]
            kept: list[torch.Tensor] = []
            logits = []
            for inputs in (first, second):

                def hook(module: object, args: object, output: object, kept: list = kept, at=changed) -> object:
                    states = output[0] if isinstance(output, tuple) else output
                    if not kept:
                        kept.append(states.clone())
                        return output
                    states = torch.where(at[None, :, None], kept[0], states)
                    return (states, *output[1:]) if isinstance(output, tuple) else states

                handle = layer.register_forward_hook(hook)
                with torch.no_grad():
                    logits.append(model(**inputs).logits[0].double().numpy())
                handle.remove()
            patched = logits[1][0] - np.log(np.exp(logits[1][1:]).sum())
            moved += np.sign(difference) * (patched - before)
        assert shares[f"layer:{number}"] == pytest.approx(moved / np.abs(differences).sum(), abs=1e-4)
    assert shares["layer:3"] == pytest.approx(0, abs=1e-5)  # the decision is read from another token


def test_exchanged_groups_have_the_opposite_value(subject: eh.Subject) -> None:
    view, gender = subject.view("labels"), eh.concept("gender")
    back = eh.Concept("back", groups=dict(gender.groups), pairs=gender.pairs, positive="male")
    values = [bias_by_site_labels(view, TEXTS, concept=about, parts="layers").value for about in (gender, back)]
    assert values[0] == pytest.approx(-values[1], abs=1e-6)


def test_templates_are_clustered_and_no_site_is_named_by_chance(subject: eh.Subject) -> None:
    found = bias_by_site_labels(subject.view("labels"), sample=24, parts="layers")
    assert found.n == 24
    assert [each.unit for each in found.units] == ["phrase", "sentence"]
    assert ("no site is named" in found.reading) == (found.p_value >= 0.05)
    assert all(item["interval"][0] <= item["value"] <= item["interval"][1] for item in found.items)


def test_an_audit_asks_it_by_name_and_draws_it(subject: eh.Subject) -> None:
    assert "bias-by-site-labels" not in {q.measure for q in Plan.default([subject], methods=()).questions}
    plan = Plan.default([subject], methods=(), only=["bias-by-site-labels"], limit=4)
    audit = Audit.run(subject, plan=plan)
    (figure,) = figures(audit, audit.subjects[0], ["bias-by-site"])
    assert len(figure.table) == 9
    with pytest.raises(UsageError, match="needs the view 'likelihood'") as error:
        Plan.default([subject], methods=(), only=["bias-by-site"])
    assert error.value.hint == "for labels: bias-by-site-labels"


def test_what_has_no_value_says_why(subject: eh.Subject) -> None:
    view = subject.view("labels")
    assert "no text has a version" in bias_by_site_labels(view, ["the door is good"]).reason
    with pytest.raises(UsageError, match="parts must be layers or all, got 'some'"):
        bias_by_site_labels(view, TEXTS, parts="some")  # type: ignore[arg-type]
    with pytest.raises(EvenhandError, match="no label of"):
        bias_by_site_labels(view, TEXTS, label="toxic")

    class Rule:
        name, labels, exclusive = "rule", ("no", "yes"), True

        def predict(self, texts: list[str], *, tokens: int | None = None) -> None: ...

    assert "needs a transformer" in bias_by_site_labels(Rule(), TEXTS).reason
