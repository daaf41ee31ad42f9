"""Bias by site with given effects: what language models, classifiers and inference models record of the same numbers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import evenhand as eh
from evenhand import measures
from evenhand.measures.likelihood import bias_by_site as module
from evenhand.measures.likelihood.bias_by_site import _half, pair_set
from evenhand.measures.likelihood.stereotype_pairs import StereotypePair
from evenhand.models.attribution.pairs import SiteEffects
from evenhand.models.nli import LABELS, CallableModel, NLIEnsemble
from meaningless import Judging, number, plain
from recorded_numbers import check_whole

SITES = ("layer:0", "layer:1", "layer:2", "attention:1", "mlp:1")


class Given:
    """Stands for a network: the effects are those of hashes, one way for all pairs if they are large."""

    name = "given"

    def __init__(self, *, large: float = 0.0, left_out: Sequence[int] = (), decay: float = 1.0) -> None:
        self.large, self.left_out, self.decay = large, left_out, decay

    def effects(
        self, view: object, pairs: Sequence[Any], kinds: Sequence[str], *, label: str | None = None
    ) -> SiteEffects:
        kept = [row for row in range(len(pairs)) if row not in self.left_out]
        differences = np.array([self.large + number(pairs[row], label) - 0.5 for row in kept])
        sites = [site for site in SITES if site.partition(":")[0] in kinds]
        shares = {"layer:0": 1.0, "layer:1": 1 - 0.4 * self.decay, "layer:2": 1 - 0.7 * self.decay}
        columns = [[shares.get(site, 0.2) + number(site, row) / 5 for site in sites] for row in kept]
        effects = differences[:, None] * np.array(columns).reshape(len(kept), len(sites))
        effects[1::3, 3:] = np.nan
        if self.decay < 0:
            effects[:, 1] = np.nan
        lost = {row: f"pair {row} is too long" for row in self.left_out}
        return SiteEffects(np.array(kept, dtype=np.int64), differences, tuple(sites), effects, lost)


PAIRS = [
    StereotypePair(str(n), f"Women in {n} fail{'s' * (n % 3)}", f"Men in {n} fail", ("gender", "age")[n % 2])
    for n in range(11)
]
TEXTS = ["She is a nurse.", "The man is old.", "My mother said so.", "The boys left.", "A king and a queen."]


@pytest.mark.filterwarnings("ignore")
def test_whole_records_are_the_recorded_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    found: dict[str, Any] = {}

    def ask(name: str, given: Given, measure: Any, *args: object, **options: object) -> None:
        monkeypatch.setattr(module, "site_effects", given.effects)
        found[name] = measure(*args, **options)

    of_pairs, judge, score = measures.bias_by_site, Judging(), Judging(unit="score")
    model = NLIEnsemble((CallableModel(lambda p, h: np.tile([0.2, 0.5, 0.3], (len(p), 1)), LABELS, "one"),))
    view: Any = Given()
    ask("pairs", Given(large=0.6), of_pairs, view, PAIRS)
    ask("pairs, certain", Given(large=5.0, left_out=(2, 4)), of_pairs, view, PAIRS, parts="layers")
    ask("pairs, certain, all", Given(large=-5.0, decay=0.1), of_pairs, view, PAIRS)
    ask("pairs, undecided", Given(), of_pairs, view, PAIRS, sample=6, seed=2)
    ask("pairs, few", Given(large=1.0), of_pairs, view, PAIRS[:2])
    ask("pairs, none at a layer", Given(large=2.0, decay=-1), of_pairs, view, PAIRS)
    ask("template", Given(large=5.0), of_pairs, view, sample=9, concept="race")
    ask("template, all", Given(), of_pairs, view, parts="layers")
    ask("labels", Given(large=5.0), measures.bias_by_site_labels, judge, sample=12, label="no")
    ask("labels, texts", Given(large=-1.0), measures.bias_by_site_labels, score, TEXTS)
    ask(
        "labels, three groups",
        Given(),
        measures.bias_by_site_labels,
        judge,
        concept="religion",
        parts="layers",
        sample=5,
    )
    ask("labels, nobody", Given(), measures.bias_by_site_labels, judge, ["It rains.", "A king and a queen."])
    ask("inference", Given(large=5.0), measures.bias_by_site_inference, model, sample=40)
    ask(
        "inference, less",
        Given(large=-5.0, left_out=(0,)),
        measures.bias_by_site_inference,
        model,
        sample=25,
        label="neutral",
        parts="layers",
        seed=3,
    )
    ask(
        "inference, no difference",
        Given(large=0.0),
        measures.bias_by_site_inference,
        model,
        "nationality-polarity",
        sample=9,
    )
    asked, frames = pair_set("person-sentences", eh.concept("gender"))
    found["pair set"] = {"name": asked.name, "pairs": asked.pairs, "frames": frames}
    check_whole("cases of bias by site", json.loads(json.dumps(plain(found))))


def test_the_layer_that_hands_over_is_the_first_below_one_half() -> None:
    def items(**values: float | None) -> list[Any]:
        return [{"word": name.replace("_", ":"), "value": value} for name, value in values.items()]

    assert _half(items(layer_0=1.0, layer_1=0.5, layer_2=0.49, layer_3=0.1)) == "layer:2"
    assert _half(items(layer_0=0.6, mlp_1=0.1, layer_1=None)) == ""
    assert _half(items(layer_0=0.0)) == "layer:0"


def test_pairs_without_any_difference_have_no_value(monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = SiteEffects(np.arange(3), np.zeros(3), ("layer:0",), np.zeros((3, 1)), {})
    monkeypatch.setattr(module, "site_effects", lambda *args, **options: nothing)
    found = measures.bias_by_site(Given(), PAIRS[:3])  # type: ignore[arg-type]
    assert found.reason == "no pair has a difference, so no site carries one"
