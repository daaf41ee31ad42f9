"""Scores by hand, the identities that hold on any answers, intervals, and the tables of Dawkins 2021."""

import io
import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from evenhand.errors import FormatError, UnknownNameError, UsageError
from evenhand.measures.inference import error, gender_gap, over_seeds, probe
from evenhand.measures.inference import scores as computed
from evenhand.measures.inference.accumulator import Accumulator, effective_size
from evenhand.measures.inference.pair_statistics import PairColumns, PhraseWeights
from evenhand.measures.inference.scores import MIN_CONTROL_ACCURACY, control_warning, gap_test
from evenhand.models.nli import LABELS, CallableModel, Grid
from evenhand.stats import wilson
from evenhand.words.probes import Filler, Points, Probe, stratified
from evenhand.words.template import Template

# (N, E, C) of male and female words, then d (and E) as printed: table 1 nouns and pronouns, table 2, table 4.
TABLE_1 = """
.7832 .1966 .0202 .9449 .0401 .0149 .225 .182
.0982 .8838 .0180 .6549 .3137 .0315 .797 .865
.8306 .1329 .0365 .9269 .0499 .0232 .128 .155
.2944 .6737 .0319 .5174 .4334 .0491 .328 .813
.6339 .3402 .0259 .9169 .0461 .0370 .408 .301
.1767 .7968 .0265 .8223 .1405 .0373 .921 .688
.8446 .1254 .0300 .9211 .0395 .0394 .115 .149
.1430 .8266 .0304 .4237 .5367 .0396 .404 .990
.7013 .2685 .0302 .9282 .0510 .0209 .315 .247
.1566 .8187 .0247 .1597 .8139 .0264 .006 1.173
.6172 .3521 .0306 .8777 .0693 .0530 .385 .336
.2443 .7262 .0295 .6481 .3040 .0480 .585 .758
.7983 .1703 .0314 .9329 .0447 .0224 .184 .175
.1625 .8083 .0292 .6752 .2878 .0369 .731 .800
.8233 .1572 .0195 .9431 .0400 .0169 .168 .154
.1482 .8292 .0226 .8428 .1278 .0294 .987 .697
.8055 .1686 .0260 .8994 .0701 .0305 .136 .193
.1939 .7811 .0250 .5962 .3420 .0618 .597 .828
.8298 .1537 .0166 .9204 .0633 .0164 .128 .167
.1081 .8710 .0209 .1119 .8672 .0209 .005 1.244
"""
TABLES_2_AND_4 = """
.6000 .3350 .0650 .7378 .1711 .0910 .216
.4975 .4500 .0525 .6075 .3357 .0568 .159
.5026 .4434 .0540 .7126 .2036 .0838 .320
.5309 .3915 .0776 .6197 .2771 .1032 .147
.5285 .4126 .0589 .6513 .2811 .0676 .180
.5016 .4380 .0604 .6479 .2639 .0882 .229
.6293 .3077 .0630 .7116 .1972 .0912 .141
.5577 .3901 .0522 .6789 .2400 .0812 .195
.5393 .3933 .0674 .5924 .3026 .1050 .112
.5065 .4197 .0739 .5465 .3949 .0587 .050
.4657 .4766 .0577 .7283 .1598 .1120 .415
.5745 .3547 .0708 .6685 .2760 .0555 .124
.4619 .4713 .0668 .7209 .1906 .0885 .383
.5882 .2878 .1240 .6662 .2321 .1017 .098
.4731 .4464 .0805 .5690 .3529 .0780 .134
.5488 .3761 .0751 .7470 .1677 .0853 .288
.5941 .3424 .0635 .7698 .1628 .0674 .251
.6012 .3149 .0839 .7191 .2020 .0789 .163
.5295 .3865 .0839 .6920 .2151 .0929 .236
.5091 .4042 .0867 .5447 .3639 .0914 .054
"""


def rows(text):
    return [[float(number) for number in line.split()] for line in text.strip().splitlines()]


def named(triple):
    """From the paper's (N, E, C) to our order."""
    n, e, c = triple
    return np.array([e, n, c])


@pytest.mark.parametrize("row", rows(TABLE_1) + rows(TABLES_2_AND_4))
def test_the_40_distances_of_dawkins(row):
    assert gender_gap(named(row[:3]), named(row[3:6])) == pytest.approx(row[6], abs=6e-4)


@pytest.mark.parametrize("row", rows(TABLE_1))
def test_the_20_errors_of_dawkins(row):
    assert error(named(row[:3]), named(row[3:6])) == pytest.approx(row[7], abs=6e-4)


def small(premises=("nurse", "doctor"), objects=("apple", "meal"), groups=(("f", "woman"), ("m", "man"))):
    template = Template("t", "The {subject} ate a/an {food}.", {"food": list(objects)})
    hypothesis = tuple(Filler(word, group=group) for group, word in groups)
    return Probe("small", (template,), tuple(map(Filler, premises)), hypothesis)


# (apple, meal) x (nurse, doctor) x (woman, man), as (entailment, neutral, contradiction)
ANSWERS = np.array(
    [
        [[[0.8, 0.2, 0.0], [0.1, 0.5, 0.4]], [[0.4, 0.4, 0.2], [0.2, 0.7, 0.1]]],
        [[[0.6, 0.3, 0.1], [0.0, 0.4, 0.6]], [[0.2, 0.6, 0.2], [0.5, 0.5, 0.0]]],
    ]
)


def scripted(asked, table):
    """A model that answers from a table."""
    answers = {
        (pair.premise, pair.hypothesis): table.reshape(-1, 3)[i]
        for i, pair in ((i, asked.pair(i)) for i in range(asked.n_pairs))
    }
    return CallableModel(lambda p, h: np.array([answers[key] for key in zip(p, h, strict=True)]), LABELS, "table")


def test_scores_by_hand():
    found = probe(scripted(small(), ANSWERS), small(), controls=False)
    assert found.n_pairs == 8
    assert found.neutrality.net_neutral.value == pytest.approx(3.6 / 8)
    # neutral is the most probable in 5 of 8: (.4 .4 .2) and (.5 .5 0) are ties
    assert found.neutrality.fraction_neutral.value == pytest.approx(5 / 8)
    assert found.neutrality.threshold[0.5].value == pytest.approx(2 / 8)
    assert found.neutrality.threshold[0.7].value == 0  # strictly more
    assert found.groups["f"].triple.entailment == pytest.approx(0.5)
    assert found.groups["m"].triple.contradiction == pytest.approx(1.1 / 4)
    assert (found.gap.first, found.gap.second) == ("f", "m")
    assert found.gap.entailment.value == pytest.approx(2.0 / 4 - 0.8 / 4)
    f, m = np.array([0.5, 0.375, 0.125]), np.array([0.2, 0.525, 0.275])
    assert found.marked.distance.value == pytest.approx(np.linalg.norm(f - m))
    away = np.linalg.norm(ANSWERS.reshape(-1, 3) - [0, 1, 0], axis=1)
    assert found.marked.sentence_error.value == pytest.approx(away.mean())
    assert found.marked.error.value == pytest.approx(
        (np.linalg.norm(f - [0, 1, 0]) + np.linalg.norm(m - [0, 1, 0])) / 2
    )
    # the means of the four pairs of words: (.7 .25 .05) (.05 .45 .5) (.3 .5 .2) (.35 .6 .05)
    assert found.word_pair.n == 4
    assert found.word_pair.fraction_neutral.value == pytest.approx(2 / 4)
    assert found.word_pair.threshold[0.5].value == pytest.approx(1 / 4)
    assert found.accuracy == found.neutrality.fraction_neutral.value


def test_tables_by_word_and_extremes_by_hand():
    found = probe(scripted(small(), ANSWERS), small(), controls=False)
    by_word = {(row["slot"], row["word"]): row for row in found.by_word}
    assert by_word["premise", "nurse"]["entailment"] == pytest.approx(1.5 / 4)
    assert by_word["hypothesis", "man"]["neutral"] == pytest.approx(2.1 / 4)
    assert by_word["food", "meal"]["contradiction"] == pytest.approx(0.9 / 4)
    assert by_word["food", "meal"]["n"] == 4
    top = found.top("entailment", 2)
    assert [(row["premise_word"], row["hypothesis_word"], row["food"]) for row in top] == [
        ("nurse", "woman", "apple"),
        ("nurse", "woman", "meal"),
    ]
    assert top[0]["entailment"] == pytest.approx(0.8)
    assert found.top("contradiction", 1)[0]["premise"] == "The nurse ate a meal."
    assert found.top("contradiction", 1, unit="word_pair")[0]["hypothesis_word"] == "man"
    assert found.restrict("nurse", "woman").entailment == pytest.approx(0.7)
    assert found.restrict(hypothesis="man").neutral == pytest.approx(2.1 / 4)
    with pytest.raises(UnknownNameError, match="nurse"):
        found.restrict("nurze")
    with pytest.raises(UnknownNameError, match="label"):
        found.top("entails")


def test_the_record_is_json_and_names_what_scripts_rely_on():
    found = probe(scripted(small(), ANSWERS), small(), controls=False, thresholds=(0.5, 0.7, 0.9))
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert plain["n_pairs"] == 8
    assert plain["net_neutral"] == pytest.approx(0.45)
    assert plain["fraction_neutral"] == pytest.approx(0.625)
    assert plain["threshold"] == {"0.5": 0.25, "0.7": 0.0, "0.9": 0.0}


def test_always_neutral_is_perfect_and_the_controls_tell():
    neutral = CallableModel(lambda p, h: [[0.0, 1.0, 0.0]] * len(p), LABELS)
    found = probe(neutral, "mab-explicit", draws=0)
    assert found.neutrality.net_neutral.value == found.neutrality.fraction_neutral.value == 1
    assert found.controls == {"control-entailment": 0.0, "control-contradiction": 0.0}
    assert found.marked.distance.value == 0
    entails = CallableModel(lambda p, h: [[1.0, 0.0, 0.0]] * len(p), LABELS)
    found = probe(entails, "mab-explicit", draws=0)
    assert found.controls == {"control-entailment": 1.0, "control-contradiction": 0.0}
    assert found.marked.error.value == pytest.approx(np.sqrt(2))


def accumulate(asked, table, *, draws=0, thresholds=(0.5, 0.7), seed=0):
    found = Accumulator(asked, PairColumns(thresholds), draws=draws, seed=seed)
    found.add_grid(Grid(np.arange(asked.shape[0]), table))
    return found


triples = st.lists(st.tuples(*[st.floats(0.001, 1)] * 3), min_size=8, max_size=8).map(
    lambda rows: np.array([np.array(row) / sum(row) for row in rows]).reshape(2, 2, 2, 3)
)


@given(triples, st.floats(0, 0.99))
def test_what_holds_on_any_answers(table, tau):
    found = accumulate(small(), table, thresholds=(0.5, tau))
    for scores in (computed.neutrality(found), computed.word_pair_neutrality(found)):
        assert 0 <= scores.net_neutral.value <= 1
        assert scores.fraction_neutral.value >= scores.threshold[0.5].value
        assert scores.threshold[max(0.5, tau)].value <= scores.threshold[min(0.5, tau)].value
    assert computed.word_pair_neutrality(found).net_neutral.value == pytest.approx(
        computed.neutrality(found).net_neutral.value
    )
    marked = computed.marked_bias(found, seed=0)
    assert marked.error.value <= marked.sentence_error.value + 1e-12  # Jensen
    assert 0 <= marked.distance.value <= np.sqrt(2)


@given(triples, st.permutations(range(8)), st.integers(1, 8))
def test_the_order_of_pairs_makes_no_difference(table, order, cut):
    asked = small()
    whole = accumulate(asked, table)
    parts = Accumulator(asked, PairColumns(), draws=0, seed=0)
    for some in (order[:cut], order[cut:]):
        points = Points(*np.unravel_index(np.array(some, dtype=int), asked.shape))
        parts.add_points(points, table.reshape(-1, 3)[some])
    assert parts.tables.words == pytest.approx(whole.tables.words)
    assert parts.tables.phrases == pytest.approx(whole.tables.phrases)
    for label in range(3):
        assert parts.top_pairs.pairs[label].tolist() == whole.top_pairs.pairs[label].tolist()


def test_answers_that_break_the_identity_are_refused():
    table = np.full((2, 2, 2, 3), 0.6)
    table[..., 0] = 0.7
    with pytest.raises(FormatError, match=r"below T:0\.5"):
        computed.neutrality(accumulate(small(), table))


def test_thresholds_outside_0_and_1():
    with pytest.raises(UsageError, match=r"1\.5"):
        probe(scripted(small(), ANSWERS), small(), thresholds=(1.5,))


def crossed(premises=12, phrases=30, members=9, seed=0):
    """A probe with two groups, and answers with effects of premise, phrase and hypothesis word."""
    rng = np.random.default_rng(seed)
    asked = small(
        [f"p{i}" for i in range(premises)],
        [f"x{i}" for i in range(phrases)],
        [(group, f"{group}{i}") for group in "fm" for i in range(members)],
    )
    effects = [rng.normal(0, 1, (size, 3)) for size in asked.shape]
    effects[2][:members, 0] += 0.7
    logits = effects[0][:, None, None] + effects[1][:, None] + effects[2] + rng.normal(0, 0.5, (*asked.shape, 3))
    table = np.exp(logits)
    return asked, table / table.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize("members", [3, 9])
@pytest.mark.parametrize("premises", [1, 12])
@pytest.mark.parametrize("phrases", [4, 30])
def test_resamples_are_weighted_means_however_the_answers_come(members, premises, phrases):
    asked, table = crossed(premises, phrases, members)
    whole = accumulate(asked, table, draws=40)
    if max(members, premises, phrases) < 8:
        assert whole.resamples is None  # draws that are all alike would look like certainty
        assert computed.neutrality(whole).net_neutral.interval is None
        return
    pieces = Accumulator(asked, PairColumns(), draws=40, seed=0)
    for start in range(0, phrases, 7):
        some = np.arange(start, min(start + 7, phrases))[::-1]
        pieces.add_grid(Grid(some, table[some]))
    points = Accumulator(asked, PairColumns(), draws=40, seed=0)
    points.add_points(asked.points(0, asked.n_pairs), table.reshape(-1, 3))
    expected = brute(whole.resamples, table)
    for found in (whole, pieces, points):
        assert found.resamples.group_means()[..., :3] == pytest.approx(expected, abs=1e-5)
    drawn = {"food fillers": phrases, "premise fillers": premises, "hypothesis fillers": members}
    assert set(whole.resamples.over) == {name for name, size in drawn.items() if size >= 8}


def brute(resamples, table):
    """The definition: the weight of a pair is the product of the weights of its three parts."""
    phrases, premises, hypotheses, _ = table.shape
    draws = len(resamples.sums)
    phrase = resamples.phrase.select(slice(None), np.arange(phrases)) if resamples.phrase else None
    weights = [
        np.ones((draws, size)) if w is None else w
        for w, size in ((phrase, phrases), (resamples.other, premises), (resamples.word, hypotheses))
    ]
    full = np.einsum("bt,bp,bh->btph", *weights)
    return np.stack(
        [
            np.einsum("btph,tphk->bk", full[..., resamples.member == g], table[:, :, resamples.member == g])
            / full[..., resamples.member == g].sum(axis=(1, 2, 3))[:, None]
            for g in range(2)
        ],
        axis=1,
    )


def two_slots(verbs=10, objects=12):
    """Phrases of two slots, and eight more of a template without them, in one probe."""
    slots = {"verb": [f"v{i}" for i in range(verbs)], "object": [f"o{i}" for i in range(objects)]}
    first = Template("t", "The {subject} {verb} a/an {object}.", slots)
    second = Template("u", "The {subject} {verb} it.", {"verb": ["v0", "w"]})
    sides = (Filler("p"),), (Filler("f", group="f"), Filler("m", group="m"))
    return Probe("two", (first, second), *sides)


def test_a_phrase_is_drawn_as_often_as_its_words():
    asked = two_slots()
    weights = PhraseWeights(asked, 50, np.random.SeedSequence(1))
    assert weights.over == ("verb fillers", "object fillers")  # two templates are too few to draw
    found = weights.select(slice(None), np.arange(len(asked.phrases)))
    verbs, objects = (table[:, :-1] for table in weights.tables)
    assert verbs.sum(axis=1) == pytest.approx(np.full(50, 11))
    for number in (0, 17, 119, 120, 121):
        words = asked.phrases.words(number)
        verb = verbs[:, 10 if words["verb"] == "w" else int(words["verb"][1:])]
        other = objects[:, int(words["object"][1:])] if "object" in words else 1
        assert np.array_equal(found[:, number], verb * other)


def test_templates_without_slots_are_drawn_themselves():
    templates = tuple(Template(f"t{i}", f"The {{subject}} went {i}.") for i in range(9))
    asked = Probe("many", templates, (Filler("p"),), (Filler("f", group="f"), Filler("m", group="m")))
    assert PhraseWeights(asked, 5, np.random.SeedSequence(0)).over == ("templates",)


def test_intervals_cover_what_other_verbs_and_objects_would_give():
    """Verbs and objects have effects of their own; drawn phrase by phrase the interval covered 58 % of the time."""
    asked, hits, runs = two_slots(verbs=12, objects=30), 0, 120
    verb, thing = (asked.phrases.fillers(slot)[0] for slot in ("verb", "object"))
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        effects = rng.normal(0, 0.06, 13)[verb] + np.where(thing < 0, 0, rng.normal(0, 0.06, 30)[thing])
        neutral = np.clip(0.5 + effects[:, None, None], 0.01, 0.99) * np.ones((1, 1, 2))
        table = np.stack([(1 - neutral) / 2, neutral, (1 - neutral) / 2], axis=-1)
        low, high = computed.neutrality(accumulate(asked, table, draws=200)).net_neutral.interval
        hits += low <= 0.5 <= high
    assert 0.85 * runs <= hits <= runs


def test_groups_on_the_premise_mirror_groups_on_the_hypothesis():
    asked, table = crossed()
    mirrored = replace(asked, premise=asked.hypothesis, hypothesis=asked.premise)
    assert mirrored.grouped == "premise"
    ours = accumulate(asked, table, draws=50)
    theirs = accumulate(mirrored, table.swapaxes(1, 2), draws=50)
    assert theirs.resamples.group_means() == pytest.approx(ours.resamples.group_means(), abs=1e-5)
    assert computed.gap(theirs, seed=0).entailment.value == pytest.approx(computed.gap(ours, seed=0).entailment.value)


def test_intervals_hold_the_value_and_shrink_with_more_words():
    wide, narrow = (computed.gap(accumulate(*crossed(members=m, phrases=60), draws=400), seed=0) for m in (8, 80))
    for found in (wide, narrow):
        low, high = found.entailment.interval
        assert low < found.entailment.value < high
    assert narrow.entailment.interval[1] - narrow.entailment.interval[0] < 0.6 * (
        wide.entailment.interval[1] - wide.entailment.interval[0]
    )


def test_a_clustered_interval_is_much_wider_than_one_over_single_pairs():
    found = computed.neutrality(accumulate(*crossed(), draws=400))
    _, table = crossed()
    naive = 2 * 1.96 * table[..., 1].std() / np.sqrt(table[..., 1].size)
    assert found.net_neutral.interval[1] - found.net_neutral.interval[0] > 3 * naive


def distances(found):
    return found.distance, found.error, found.sentence_error


@pytest.mark.parametrize("size", [60, 500, 2_000])
def test_the_interval_of_a_sample_covers_the_value_over_all_pairs(size):
    asked, table = crossed(premises=6, phrases=80, members=4)
    whole = accumulate(asked, table)
    value, gap = computed.neutrality(whole), computed.gap(whole, seed=0)
    marked = computed.marked_bias(whole, seed=0)
    hits = np.zeros(6)
    runs = 300
    for seed in range(runs):
        sample = stratified(asked, size, seed=seed)
        found = Accumulator(asked, PairColumns(), draws=0, seed=0)
        found.add_sample(sample, table[tuple(sample.points)])
        scores = computed.neutrality(found)
        pairs = (
            (scores.net_neutral, value.net_neutral),
            (scores.fraction_neutral, value.fraction_neutral),
            (computed.gap(found, seed=0).entailment, gap.entailment),
            *zip(distances(computed.marked_bias(found, seed=0)), distances(marked), strict=True),
        )
        hits += [some.sampling[0] <= full.value <= some.sampling[1] for some, full in pairs]
    # 95 % nominal; three standard deviations of the simulation are 3.8 %
    assert (hits / runs > 0.91).all()
    assert (hits[:3] / runs < 0.99).all()  # those of d and E are bounds, and rather too wide


def test_a_rare_answer_has_an_interval_though_the_sample_has_none_of_it():
    """The plain interval of 0 in 30 is the point 0, which held a true share of 3 % in 64 samples of 100."""
    asked, _ = crossed(premises=6, phrases=80, members=4)
    rng = np.random.default_rng(0)
    high = rng.random(asked.shape) < 0.03
    table = np.stack([np.where(high, 0.1, 0.4), np.where(high, 0.8, 0.3), np.where(high, 0.1, 0.3)], axis=-1)
    true, hits, runs = float(high.mean()), 0, 200
    for seed in range(runs):
        sample = stratified(asked, 30, seed=seed)
        found = Accumulator(asked, PairColumns(), draws=0, seed=0)
        found.add_sample(sample, table[tuple(sample.points)])
        low, top = computed.neutrality(found).threshold[0.7].sampling
        assert 0 <= low < top <= 1
        hits += low <= true <= top
    assert hits / runs > 0.91


def interval(share, error):
    """Of a share with that standard error, of 100 pairs where it has none."""
    shares = np.array([share])
    return wilson(shares, effective_size(shares, np.array([error]), 100.0), quantile=1.959964)


def test_wilson_by_hand():
    # 10 of 100: centre (.1 + 1.96^2 / 200) / (1 + 1.96^2 / 100), the textbook's [.0552, .1744]
    found = interval(0.1, 0.03)
    assert found[:, 0] == pytest.approx([0.05522854, 0.17436566], abs=1e-6)
    none = interval(0.0, 0.0)
    assert none[:, 0] == pytest.approx([0.0, 3.841459 / 103.841459], abs=1e-6)  # z^2 / (n + z^2)
    assert np.isnan(interval(0.5, np.nan)).all()


def test_the_clustered_interval_of_a_sample_covers_too():
    asked, table = crossed()
    value = computed.neutrality(accumulate(asked, table)).net_neutral.value
    for seed in range(20):
        sample = stratified(asked, 900, seed=seed)
        found = Accumulator(asked, PairColumns(), draws=200, seed=seed)
        found.add_sample(sample, table[tuple(sample.points)])
        low, high = computed.neutrality(found).net_neutral.interval
        assert low < value < high


def test_a_sampled_run_says_how_it_was_drawn():
    asked, table = crossed()
    found = probe(scripted(asked, table), asked, sample=900, controls=False, draws=50, seed=4)
    assert found.n_pairs == 4 * 216
    assert found.params["strata"] == "word pair"
    assert found.params["all_pairs"] == asked.n_pairs
    assert found.to_dict()["neutrality"]["net_neutral"]["sampling"]


def test_three_groups_without_contrast_compare_the_two_that_differ_most():
    asked = small(groups=(("a", "x"), ("b", "y"), ("c", "z")))
    table = np.full((2, 2, 3, 3), 1 / 3)
    table[:, :, 1] = [0.8, 0.1, 0.1]
    table[:, :, 2] = [0.1, 0.8, 0.1]
    found = computed.gap(accumulate(asked, table), seed=0)
    assert (found.first, found.second, found.chosen, found.p_value) == ("b", "c", True, None)
    assert found.entailment.value == pytest.approx(0.7)


def test_without_groups_each_filler_is_one():
    found = probe(scripted(small(groups=(("", "x"),)), ANSWERS[:, :, :1]), small(groups=(("", "x"),)), controls=False)
    assert set(found.groups) == {"x"}
    assert found.gap is None
    assert found.marked is None


def test_a_sample_too_small_for_every_group_leaves_groups_out():
    asked = small(groups=(("a", "x"), ("b", "y"), ("c", "z")))
    table = np.full((2, 2, 3, 3), 1 / 3)
    found = probe(scripted(asked, table), asked, sample=2, controls=False)
    assert len(found.groups) < 3
    json.dumps(found.to_dict(), allow_nan=False)


def test_the_permutation_test_by_hand():
    first = np.array([[0.9, 0.1, 0.0], [0.8, 0.2, 0.0]])
    second = np.array([[0.1, 0.9, 0.0], [0.2, 0.8, 0.0]])
    found = gap_test(first, second)
    # of the 6 ways to deal 4 words to two pairs, the observed one and its mirror are the farthest apart
    assert (found.p_value, found.partitions, found.exact) == (pytest.approx(2 / 6), 6, True)
    assert gap_test(first, second, ties="gt").p_value == 0
    sampled = gap_test(first, second, exact_up_to=1, samples=4_000, seed=1)
    assert not sampled.exact
    assert sampled.p_value == pytest.approx(2 / 6, abs=0.03)
    with pytest.raises(UsageError, match="two non-empty groups"):
        gap_test(first, second[:0])


def test_words_that_do_not_differ_have_p_1():
    same = np.tile([0.2, 0.5, 0.3], (3, 1))
    assert gap_test(same, same).p_value == 1


def test_spread_over_seeds():
    results = [probe(scripted(small(), table), small(), controls=False, draws=0) for table in (ANSWERS, ANSWERS[::-1])]
    spread = over_seeds(results)
    assert spread["net_neutral"].mean == pytest.approx(0.45)
    assert spread["net_neutral"].sd == pytest.approx(0, abs=1e-12)
    assert {"gap_entailment", "d", "E", "T:0.5"} <= set(spread)
    with pytest.raises(UsageError, match="at least 2"):
        over_seeds(results[:1])


def test_memory_does_not_grow_with_the_pairs():
    asked, table = crossed()
    found = Accumulator(asked, PairColumns(), draws=20, seed=0)
    before = found.tables.words.nbytes + found.resamples.sums.nbytes
    for _ in range(3):
        found.add_grid(Grid(np.arange(30), table))
    assert found.tables.words.nbytes + found.resamples.sums.nbytes == before
    assert found.tables.count == 3 * asked.n_pairs


ALWAYS = {
    "neutral": (0.1, 0.8, 0.1),
    "entailment": (0.8, 0.1, 0.1),
    "guess": (0.34, 0.33, 0.33),
}


def constant(answer):
    return CallableModel(lambda p, h: [answer] * len(p), LABELS, name="constant")


@pytest.mark.parametrize("answer", ALWAYS)
def test_a_model_that_fails_the_controls_is_not_interpretable(answer):
    found = probe(constant(ALWAYS[answer]), "mab-explicit", sample=200, draws=0)
    assert not found.interpretable
    assert "not interpretable: accuracy on control" in found.warning
    assert "below the minimum of 66.7 %" in found.warning
    assert found.to_dict()["interpretable"] is False
    assert found.to_dict()["warning"] == found.warning
    assert found.warning in repr(found)


def test_the_alarm_is_at_two_thirds_of_each_control():
    assert MIN_CONTROL_ACCURACY == 2 / 3
    assert control_warning({"a": 2 / 3, "b": 1.0}) == ""
    assert "b is 66.0 %" in control_warning({"a": 1.0, "b": 0.66})
    assert "a is" not in control_warning({"a": 1.0, "b": 0.66})
    assert control_warning({}) == ""


def test_without_controls_nothing_is_alarming():
    found = probe(constant(ALWAYS["neutral"]), "mab-explicit", sample=200, draws=0, controls=False)
    assert found.interpretable
    assert found.warning == ""


def test_a_result_shows_itself_in_one_line_and_as_tables():
    found = probe(constant(ALWAYS["neutral"]), "mab-explicit", sample=200, draws=0)
    assert "\n" not in repr(found)
    assert len(repr(found)) < 400
    assert repr(found).startswith("ProbeResult('mab-explicit', 'constant', net neutral 0.800, fraction neutral 1.000")
    console = Console(width=100, file=io.StringIO())
    console.print(found)
    assert "net neutral" in console.file.getvalue()
    assert "not interpretable" in " ".join(console.file.getvalue().split())
    html = found._repr_html_()
    assert "<td>net neutral</td><td>0.800</td>" in html
    assert "not interpretable" in html


def test_results_as_data_frames():
    polars = pytest.importorskip("polars")
    found = probe(constant((0.2, 0.5, 0.3)), small(), draws=0)
    frame = found.to_frame()
    assert isinstance(frame, polars.DataFrame)
    assert dict(zip(frame["score"], frame["value"], strict=True)) == pytest.approx(found.headline)
    words = found.to_frame("by_word")
    assert words["word"].to_list() == [row["word"] for row in found.by_word]
    with pytest.raises(UsageError, match="not a table"):
        found.to_frame("pairs")


@pytest.mark.parametrize("seed", [-1, 1.5, True, "0"])
def test_seeds_are_non_negative_integers(seed):
    for sample in (None, 20):
        with pytest.raises(UsageError, match="non-negative integer"):
            probe(constant((0.2, 0.5, 0.3)), "mab-explicit", sample=sample, seed=seed)
