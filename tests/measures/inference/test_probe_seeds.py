"""Several seeds of one condition, and two conditions: by hand, and the coverage of their intervals."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import t as student

from evenhand.errors import UsageError
from evenhand.measures.inference import compare, over_seeds, probe, probe_seeds
from evenhand.measures.inference.seeds import bounds, combine_seeds, spread_of
from evenhand.models.nli import LABELS, CallableModel
from evenhand.words.probes import Filler, Probe
from evenhand.words.template import Template


def asked(premises=8, objects=8, groups=("f", "m"), members=8, name="small"):
    template = Template("t", "The {subject} ate a/an {food}.", {"food": [f"x{i}" for i in range(objects)]})
    hypothesis = tuple(Filler(f"{group}{i}", group=group) for group in groups for i in range(members))
    return Probe(name, (template,), tuple(Filler(f"p{i}") for i in range(premises)), hypothesis)


def model(shift=0.0, gap=0.0, group="f"):
    """Entailment 0.2, more by `gap` for one group; the food's number gives phrases an effect of their own."""

    def answer(premises, hypotheses):
        rows = []
        for hypothesis in hypotheses:
            own = 0.2 + shift + gap * hypothesis.split()[1].startswith(group) + 0.02 * int(hypothesis[-2])
            rows.append([own, 0.9 - own, 0.1])
        return rows

    return CallableModel(answer, LABELS, f"shift {shift}")


def test_mean_and_spread_by_hand():
    found = probe_seeds([model(0.0, 0.1), model(0.1, 0.2), model(0.2, 0.3)], asked(), draws=400)
    neutral, gap = found.scores["net_neutral"], found.scores["gap_entailment"]
    assert gap.values == pytest.approx((0.1, 0.2, 0.3))
    assert (gap.mean, gap.sd) == (pytest.approx(0.2), pytest.approx(0.1))
    assert neutral.mean == pytest.approx(
        np.mean([0.9 - 0.27 - s - g / 2 for s, g in ((0, 0.1), (0.1, 0.2), (0.2, 0.3))])
    )
    assert found.groups == ("f", "m")
    assert found.interval_over == ("food fillers", "premise fillers", "hypothesis fillers", "seeds")
    # words and phrases cancel in this gap, so that its interval is Student's over the three seeds
    reach = student.ppf(0.975, 2) * 0.1 / 3**0.5
    assert gap.interval == pytest.approx((0.2 - reach, 0.2 + reach), abs=0.015)


def test_one_model_has_the_interval_of_its_own_result():
    one = probe_seeds([model(gap=0.1)], asked(), draws=60)
    alone = probe(model(gap=0.1), asked(), draws=60)
    assert one.scores["net_neutral"].interval == pytest.approx(alone.neutrality.net_neutral.interval)
    assert one.scores["d"].interval == pytest.approx(alone.marked.distance.interval)
    assert one.scores["net_neutral"].sd is None
    assert "seeds" not in one.interval_over


def test_draws_hold_every_headline_score():
    found = probe(model(gap=0.1), asked(), draws=30, controls=False)
    assert set(found.drawn) == set(found.headline)
    assert all(len(values) == 30 for values in found.drawn.values())
    assert probe(model(), asked(), draws=0, controls=False).drawn == {}


def test_the_interval_covers_words_and_seeds():
    """value of model m = mu + w + s_m; the bootstrap knows draws of w, the models show draws of s."""
    rng, hits, runs = np.random.default_rng(0), 0, 1_500
    for _ in range(runs):
        values = 0.5 + rng.normal(0, 0.02) + rng.normal(0, 0.02, 3)
        low, high = spread_of(values, values[:, None] + rng.normal(0, 0.02, 400), (0, 1)).interval
        hits += low < 0.5 < high
    assert 0.93 < hits / runs < 0.99


def test_intervals_stay_inside_what_is_possible():
    found = spread_of([0.0, 0.9], None, (0, 1))
    assert found.interval == (0.0, 1.0)
    assert bounds("gap_entailment") == (-1, 1)
    assert bounds("d") == (0, pytest.approx(2**0.5))
    before = probe_seeds([model(gap=-0.1), model()], asked(), draws=0)
    after = probe_seeds([model(gap=0.5), model(gap=0.1)], asked(), draws=0)
    assert compare(before, after).differences["gap_entailment"].interval == (-2, 2)


def test_gaps_between_different_groups_are_not_averaged():
    three = asked(groups=("a", "b", "c"))
    found = probe_seeds([model(gap=0.1, group="a"), model(gap=0.1, group="b")], three, draws=20)
    assert found.groups is None
    assert "gap_entailment" not in found.scores
    assert "net_neutral" in found.scores
    json.dumps(found.to_dict(), allow_nan=False)


def test_two_conditions_are_compared_seed_by_seed():
    before = probe_seeds([model(0.0, 0.1), model(0.1, 0.2)], asked(), condition="before", draws=60)
    after = probe_seeds([model(0.05), model(0.15)], asked(), condition="after", draws=60)
    found = compare(before, after)
    assert found.differences["gap_entailment"].values == pytest.approx((-0.1, -0.2))
    shift = found.differences["net_neutral"]
    assert shift.values == pytest.approx((0.0, 0.05))
    same = compare(before, before).differences
    assert all(spread.mean == 0 and spread.interval == (0, 0) for spread in same.values())
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert plain["after"]["condition"] == "after"
    assert plain["differences"]["gap_entailment"]["mean"] == pytest.approx(-0.15)


def test_what_cannot_be_compared():
    one, two = (probe_seeds([model()] * n, asked(), draws=0) for n in (1, 2))
    with pytest.raises(UsageError, match="seed by seed"):
        compare(one, two)
    with pytest.raises(UsageError, match="same pairs"):
        compare(one, probe_seeds([model()], asked(), draws=0, sample=100))
    with pytest.raises(UsageError, match="same pairs"):
        compare(one, probe_seeds([model()], asked(premises=9), draws=0))


def test_what_is_no_set_of_seeds():
    with pytest.raises(UsageError, match="no results"):
        probe_seeds([], asked())
    results = [probe(model(), asked(name=name), draws=0) for name in ("one", "two")]
    with pytest.raises(UsageError, match="different probes"):
        over_seeds(results)
    results = [probe(model(), asked(premises=size), draws=0) for size in (8, 9)]
    with pytest.raises(UsageError, match="different vocabularies"):
        combine_seeds(results)
    renamed = replace(asked(), premise=tuple(Filler(f"q{i}") for i in range(8)))
    with pytest.raises(UsageError, match="different vocabularies"):  # as many, but others
        combine_seeds([probe(model(), some, draws=0) for some in (asked(), renamed)])


def test_the_record_has_means_first_and_every_model():
    found = probe_seeds([model(0.0), model(0.1)], asked(), condition="c", draws=20).to_dict()
    assert found["condition"] == "c"
    assert found["n_pairs"] == 8 * 8 * 16
    assert found["net_neutral"] == pytest.approx(np.mean([one["net_neutral"] for one in found["models"]]))
    assert set(found["threshold"]) == {"0.5", "0.7"}
    assert found["scores"]["net_neutral"]["min"] < found["scores"]["net_neutral"]["max"]
    json.dumps(found, allow_nan=False)


def test_progress_runs_over_all_models():
    told = []
    probe_seeds([model(), model()], asked(), draws=0, progress=lambda *where: told.append(where))
    assert told[-1] == (16, 16, "small, 2 of 2")
    assert [done for done, _, _ in told] == sorted(done for done, _, _ in told)


def test_a_sample_says_where_the_mean_over_all_pairs_lies():
    models = [model(0.0), model(0.2)]
    whole = probe_seeds(models, asked(), draws=0).scores["net_neutral"]
    assert whole.sampling is None
    assert "sampling" not in whole.to_dict()
    hits = 0
    for seed in range(60):
        low, high = probe_seeds(models, asked(), sample=400, draws=0, seed=seed).scores["net_neutral"].sampling
        hits += low < whole.mean < high
        assert high - low < 0.03
    assert hits >= 52  # 57 expected


def test_progress_of_a_sample(monkeypatch):
    monkeypatch.setattr("evenhand.measures.inference.accumulator.PAIRS_AT_ONCE", 100)
    told = []
    probe(model(), asked(), sample=256, draws=0, controls=False, progress=lambda *where: told.append(where))
    assert told == [(100, 256, "small"), (200, 256, "small"), (256, 256, "small")]


def test_seeds_show_themselves_and_raise_the_alarm_of_any_member():
    neutral = CallableModel(lambda p, h: [[0.1, 0.8, 0.1]] * len(p), LABELS, name="always-neutral")
    found = probe_seeds([neutral, neutral], "mab-explicit", sample=200, draws=0)
    assert not found.interpretable
    assert found.warning.startswith("always-neutral: not interpretable")
    assert found.to_dict()["interpretable"] is False
    assert "\n" not in repr(found)
    assert repr(found).startswith("SeedsResult('mab-explicit', '2 models', net neutral 0.800")
    assert found.warning.split(";")[0] in found._repr_html_()
    assert found.__rich__().row_count == len(found.scores)
    pytest.importorskip("polars")
    frame = found.to_frame()
    assert frame["value"].to_list() == [spread.mean for spread in found.scores.values()]
    assert frame["sd"].to_list() == [spread.sd for spread in found.scores.values()]
