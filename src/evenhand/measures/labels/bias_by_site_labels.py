"""Bias by site of a classifier: at which layers its answers about two groups are told apart."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from evenhand.arrays import Vector64
from evenhand.errors import DegenerateError
from evenhand.measures.call import Call, measure
from evenhand.measures.labels.counterfactual import TEMPLATE, case_set
from evenhand.measures.likelihood.bias_by_site import SITE_LIMITS, SITE_READING, SiteParts, measure_sites, template_p
from evenhand.measures.likelihood.scoring import draw_sample
from evenhand.measures.measurement import Measurement
from evenhand.measures.registry import Info
from evenhand.models.encoders.classifier import Classifier, label_index, unit_of
from evenhand.words import Concept, Template, as_concept

INFO = Info(
    id="bias-by-site-labels",
    title="Bias by site of a classifier",
    takes="text",
    better="zero",
    null=0.0,
    formula=(
        "mean over pairs of s(first) - s(second), s the log-odds of a label; at a site: sum of sign(d) (s(second with "
        "the activations of first) - s(second)) over sum of |d|, d the difference"
    ),
    reading=(
        "The value is the whole difference in log-odds, or in points of a regression head: above 0, the label is more "
        f"probable for the first group. {SITE_READING}"
    ),
    limits=f"{SITE_LIMITS} Two groups are compared: the first two of the concept.",
    cites=("vig2020", "meng2022", "garg2019"),
    queries=(TEMPLATE,),
    view="labels",
    on_request=True,
    charts=("bias-by-site",),
)


@measure(INFO)
def bias_by_site_labels(
    call: Call,
    view: Classifier,
    texts: str | Path | Template | Sequence[str] = TEMPLATE,
    *,
    concept: Concept | str = "gender",
    label: str | None = None,
    parts: SiteParts = "all",
    sample: int | None = None,
    seed: int = 0,
) -> Measurement:
    """Measure how much of the difference between texts about two groups each layer of a classifier carries.

    Args:
        view: a classifier that is a transformer, or the `labels` view of a subject; also a regression head.
        texts: as in `counterfactual`: a template with the free slot `{person}`, a text file, or a list of texts, whose
            group words are replaced.
        concept: whose first two groups are compared.
        label: the label whose log-odds are compared; the last label by default.
        parts: `layers`: the output of every layer; `all`: also what its attention and its feed-forward part read.
        sample: how many pairs are compared, spread over the phrases; None or 0 for all.
        seed: seed of the sample; nothing else is drawn at random.

    Returns:
        The mean difference. `items` has for each site its share of the differences, with an interval over phrases or
        texts. The p-value exchanges the groups of the words in which texts differ.

    What it does not tell you: what the activations mean. See `evenhand show bias-by-site-labels`.
    """
    cases = case_set(texts, as_concept(concept))
    first, second = cases.groups[:2]
    fitting = [case for case in cases.cases if {0, 1} <= set(case.groups)]
    name = view.labels[label_index(view, label)]
    call.describe(cases.name, scores="", positive=first, params={"label": name, "labels": list(view.labels)})
    if not fitting:
        raise DegenerateError(f"no text has a version about {first} and one about {second}")
    asked = draw_sample(fitting, [case.row or case.cluster for case in fitting], sample, seed=seed)
    pairs = [(case.texts[case.groups.index(0)], case.texts[case.groups.index(1)]) for case in asked]
    sentences = [case.cluster for case in asked]
    clusters = {"phrase": [case.row for case in asked], "sentence": sentences} if asked[0].row else {"text": sentences}

    def test(kept: Sequence[int], differences: Vector64) -> float:
        return template_p([pairs[row] for row in kept], differences, [sentences[row] for row in kept])

    def says(value: float) -> str:
        what = f"the score of {name} is" if unit_of(view) == "score" else f"the log-odds of {name} are"
        return f"{what} {abs(value):.3f} {'higher' if value >= 0 else 'lower'} for {first} than for {second}"

    return measure_sites(call, view, pairs, clusters, test, says, parts=parts, label=label)
