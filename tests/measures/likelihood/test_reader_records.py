"""Readers and helpers of sentence sets at their edges: what they refuse and in which words, and what they count."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from given_likelihoods import GivenTokens

import evenhand as eh
from evenhand import measures
from evenhand.errors import DegenerateError, EvenhandError, FormatError, InputMissingError, UsageError
from evenhand.measures.likelihood import scoring
from evenhand.measures.likelihood.bbq_items import (
    bbq_item,
    draw_items,
    kind_of,
    read_bbq,
    read_kobbq,
    read_mbbq,
    read_metadata,
)
from evenhand.measures.likelihood.disco import chi_squared
from evenhand.measures.likelihood.holistic_bias import Descriptor, Noun, fill, read_holistic_bias, significant_pairs
from evenhand.measures.likelihood.honest import hurtful_category, read_hurtlex, read_templates
from evenhand.measures.likelihood.log_probability import Roles
from evenhand.measures.likelihood.perplexity import read_lines
from evenhand.measures.likelihood.pronoun_share import read_winogenerated
from evenhand.measures.likelihood.scoring import (
    candidate_scores,
    clustered_interval,
    count_split,
    draw_sample,
    part_of_set,
    ranks_first,
    ratio,
    read_json_lines,
    read_table,
    sentence_scores,
)
from evenhand.measures.likelihood.stereoset import StereoExample, StereoSentence, read_stereoset, score_examples
from evenhand.measures.likelihood.stereotype_pairs import CONCEPTS, preferences, read_crows_pairs, sign_test
from evenhand.measures.likelihood.winobias import read_winobias
from evenhand.measures.likelihood.winogender import read_shares, read_winogender
from evenhand.models.lm.likelihood import TextScores
from evenhand.stats import jackknife_interval, unanimous_interval
from evenhand.words import Query
from meaningless import number
from scripted_model import ScriptedCausalModel


def written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


# Scoring ------------------------------------------------------------------------------------------------------------


class Counting(GivenTokens):
    """Counts what it is asked."""

    def __init__(self, *, masked: bool = True) -> None:
        super().__init__(masked=masked)
        self.asked: list[Any] = []

    def filler_log_probabilities(self, contexts: Sequence[str], fillers: Sequence[str], *, tokens: Any = None) -> Any:
        self.asked.append((list(contexts), list(fillers)))
        return super().filler_log_probabilities(contexts, fillers)

    def log_probabilities(self, texts: Sequence[str], *, batch: int | None = None) -> Any:
        self.asked.append(list(texts))
        return super().log_probabilities(texts)


def test_equal_texts_are_scored_once_and_few_calls_are_made() -> None:
    causal = Counting(masked=False)
    found = sentence_scores(causal, ["a b", "c", "a b"])
    assert causal.asked == [["a b", "c"]]
    assert found[0] == found[2] != found[1]
    pronouns, contexts = Counting(), ["x {}", "y {}", "x {}", "z {}"]
    scores = candidate_scores(pronouns, contexts, [("he", "she"), ("she", "he"), ("he", "she"), ("he", "she")])
    assert pronouns.asked == [(["x {}", "y {}", "z {}"], ["he", "she"])]
    assert scores[0].tolist() == scores[2].tolist()
    assert scores[1].tolist() == [pronouns.score("y {}", "she"), pronouns.score("y {}", "he")]
    many = Counting()
    candidate_scores(many, ["a {}", "b {}", "c {}", "d {}"], [("x", "y"), ("y", "z"), ("x", "z"), ("z", "x")])
    assert [len(fillers) for _, fillers in many.asked] == [2, 2, 2]
    more = Counting()
    candidate_scores(
        more, [f"{n} {{}}" for n in range(6)], [("x", "y"), ("x", "z"), ("x", "w"), ("y", "z"), ("y", "w"), ("z", "w")]
    )
    assert [fillers for _, fillers in more.asked] == [["w"], ["x"], ["y"], ["z"]]
    assert more.asked[1] == (["0 {}", "1 {}", "2 {}"], ["x"])


def test_contexts_are_counted_whose_candidates_are_split() -> None:
    contexts, candidates = ["a {} b", "{} c", "d {}"], [("x y", "z"), ("x", "z"), ("p q", "r s")]
    assert count_split(GivenTokens(), contexts, candidates) == 2
    assert count_split(GivenTokens(masked=False), contexts, candidates) == 0

    class Texts:
        name = "texts"

        def log_probabilities(self, texts: Sequence[str]) -> None: ...

    assert count_split(Texts(), contexts, candidates) == 0  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [None, 0, 1, 2, 3, 5, 9, 10, 11])
@pytest.mark.parametrize("seed", [0, 3])
def test_a_sample_takes_the_nth_of_each_stratum_before_the_next_of_any(size: int | None, seed: int) -> None:
    items, strata = list("abcdefghij"), list("xxxxxxyyyz")
    order = np.random.default_rng(seed).permutation(10).tolist()
    by_turn: list[tuple[int, int, int]] = []
    for place, row in enumerate(order):
        turn = sum(strata[other] == strata[row] for other in order[:place])
        by_turn.append((turn, place, row))
    expected = items if not size else [items[row] for row in sorted(row for *_, row in sorted(by_turn)[:size])]
    assert draw_sample(items, strata, size, seed=seed) == expected


def test_clusters_are_summed_before_they_are_left_out() -> None:
    values = np.array([number(n) for n in range(12)])
    ones, names = np.ones(12), [f"c{n % 5}" for n in range(12)]

    def mean(sums: np.ndarray) -> np.ndarray:
        return ratio(*sums.T)

    sums = np.array([[values[n::5].sum(), len(values[n::5])] for n in range(5)])
    expected = jackknife_interval(mean, sums, limits=(0.0, 0.7))
    assert clustered_interval([values, ones], names, mean, limits=(0.0, 0.7)) == pytest.approx(expected)
    same = clustered_interval([ones, ones], names, mean, limits=(0.0, 1.0))
    assert same == pytest.approx(unanimous_interval(1.0, 5, (0.0, 1.0)))
    assert clustered_interval([ones, ones], names, mean) == (1.0, 1.0)
    assert clustered_interval([ones, ones], names, mean, limits=(0.0, np.inf)) == (1.0, 1.0)


def test_quotients_and_ranks_by_hand() -> None:
    found = ratio(np.array([1.0, 2.0, -3.0]), np.array([2.0, 0.0, -1.0]))
    assert (found[0], found[2], np.isnan(found[1])) == (0.5, 3.0, True)
    assert ranks_first(np.array([[2.0, 1.0], [1.0, 2.0], [1.0, 1.0], [3.0, 3.0]])).tolist() == [1.0, 0.0, 0.5, 0.5]
    assert preferences(np.array([1.0, 2, 3]), np.array([1.0, 1, 4])).tolist() == [0.5, 1.0, 0.0]
    assert preferences(np.array([1.0, 2, 3]), np.array([1.0, 1, 4]), "released").tolist() == [0.0, 1.0, 0.0]
    assert sign_test(np.array([1.0, 2, 3, 4]), np.array([1.0, 1, 2, 3])) == pytest.approx(2 / 2**3)
    assert sign_test(np.ones(3), np.ones(3)) is None


def test_the_parts_of_a_set_are_found_by_their_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    queries = {"set": ("set", "set-one"), "set-test": ("set-test", "set-test-one")}
    monkeypatch.setattr(scoring.data, "locate", lambda name: tmp_path / name if name == "set-test" else None)
    assert part_of_set("set-test", queries, "part") == ("set-test", tmp_path / "set-test", "")
    assert part_of_set("set-test-one", queries, "part") == ("set-test-one", tmp_path / "set-test", "one")
    with pytest.raises(InputMissingError, match="the data set set is not on this disk") as missing:
        part_of_set("set-one", queries, "part")
    assert missing.value.hint == "evenhand fetch set"
    with pytest.raises(EvenhandError, match="no part 'set-two'"):
        part_of_set("set-two", queries, "part")
    file = written(tmp_path / "own.csv", "")
    for source in (file, "own.csv", "folder/own", tmp_path):
        assert part_of_set(source, queries, "part") == (Path(source).stem, Path(source), "")
    assert CONCEPTS["crows-pairs-race-color"] == "race"
    assert (CONCEPTS["crows-pairs"], CONCEPTS["crows-pairs-age"]) == ("all", "age")


def test_files_that_cannot_be_read_say_where(tmp_path: Path) -> None:
    lines = written(tmp_path / "lines.jsonl", '{"a": 1}\n\n  \n[2]\n')
    assert read_json_lines(lines, "file") == [(1, {"a": 1}), (4, [2])]
    with pytest.raises(FormatError, match=r"bad\.jsonl, line 3 is not JSON: "):
        read_json_lines(written(tmp_path / "bad.jsonl", "1\n\n{\n"), "file")
    with pytest.raises(FormatError, match="nested too deeply"):
        scoring.parse_json("[" * 100_000, "x")
    with pytest.raises(FormatError, match="is empty"):
        read_json_lines(written(tmp_path / "empty.jsonl", " \n\n"), "file")
    (tmp_path / "latin.txt").write_bytes(b"abc\xe9")
    with pytest.raises(FormatError, match=r"is not UTF-8 text \(byte 3\)"):
        scoring.read_text(tmp_path / "latin.txt", "file")
    table = written(tmp_path / "table.tsv", "a\tb\n1\t2\n3\n")
    with pytest.raises(FormatError, match="row 3 has no field 'b'"):
        read_table(table, "table", ("a", "b"), delimiter="\t")
    assert read_table(table, "table", ("a",), delimiter="\t")[1] == {"a": "3", "b": None}
    with pytest.raises(FormatError, match="has no column 'c'"):
        read_table(table, "table", ("a", "c"), delimiter="\t")
    with pytest.raises(FormatError, match="a header and no rows"):
        read_table(written(tmp_path / "none.csv", "a,b\n"), "table", ("a",))


def test_models_that_cannot_score_leave_a_measure_undefined_and_other_errors_pass() -> None:
    with pytest.raises(DegenerateError, match="too long") as found, scoring.undefined_if_unscorable():
        raise UsageError("too long", hint="shorten")
    assert found.value.hint == "shorten"
    with pytest.raises(ZeroDivisionError), scoring.undefined_if_unscorable():
        raise ZeroDivisionError


# BBQ ----------------------------------------------------------------------------------------------------------------

ROW: dict[str, Any] = {
    "ans0": "a", "ans1": "b", "ans2": "c", "answer_info": {"ans0": ["x", "old"], "ans1": ["x", "y", "young"], "ans2": ["unknown"]},
    "category": "Age", "question_index": 3, "example_id": "7", "context_condition": "ambig", "label": "2",
    "context": " c ", "question": " q", "question_polarity": "neg ",
}  # fmt: skip


def test_an_item_of_bbq_is_read_with_its_last_groups_and_stripped_texts() -> None:
    item = bbq_item(ROW, {("Age", "3", 7): (1, "name")}, "here")
    assert (item.category, item.template, item.example, item.label, item.unknown) == ("Age", "3", 7, 2, 2)
    assert (item.context, item.question, item.polarity, item.target, item.label_type) == ("c", "q", "neg", 1, "name")
    assert item.cluster == "Age 3"
    other = bbq_item({**ROW, "context_condition": "disambig", "label": 0}, {}, "here")
    assert (other.condition, other.target, other.label_type, other.label) == ("disambig", None, "", 0)
    for change in (
        {"label": 3}, {"label": -1}, {"label": "x"}, {"answer_info": {"ans0": [], "ans1": ["a"], "ans2": ["b"]}},
        {"answer_info": {f"ans{n}": ["unknown"] for n in range(3)}}, {"answer_info": {f"ans{n}": ["x"] for n in range(3)}},
    ):  # fmt: skip
        with pytest.raises(FormatError, match=r"^here"):
            bbq_item({**ROW, **change}, {}, "here")


def test_the_category_of_bbq_is_that_of_the_concept_or_the_one_that_is_named(tmp_path: Path) -> None:
    head = "category,question_index,example_id,target_loc,label_type\n"
    written(tmp_path / "additional_metadata.csv", f"{head}Age,3,7,1,name\nAge,3,8,,label\nAge,3,9,3,label\n")
    rows = [json.dumps({**ROW, "example_id": n}) for n in (7, 8, 9)]
    for name in ("Age", "SES", "Religion"):
        written(tmp_path / f"{name}.jsonl", "\n".join(rows))
    assert [item.target for item in read_bbq(tmp_path, ("Age",))] == [1, None, None]
    assert read_metadata(tmp_path / "additional_metadata.csv")["Age", "3", 8] == (None, "label")
    with pytest.raises(EvenhandError, match="no category of BBQ 'Agee'"):
        read_bbq(tmp_path, ("Agee",))
    invented = eh.Concept("invented", {"a": ["x"], "b": ["y"]})
    assert len(draw_items(tmp_path, "SES", invented, None, 0)) == 3
    assert len(draw_items(tmp_path, "", eh.concept("religion"), 0, 0)) == 3
    with pytest.raises(UsageError, match="BBQ has no category for 'invented'"):
        draw_items(tmp_path, "", invented, None, 0)
    with pytest.raises(InputMissingError):
        draw_items(tmp_path, "all", invented, None, 0)
    assert kind_of(tmp_path) == "bbq"


@pytest.mark.parametrize(
    ("groups", "blamed", "polarity", "target"),
    [
        (["mujer", "hombre"], ["F"], "neg", 1),
        (["mujer", "hombre"], ["F"], "nonneg", 2),
        (["mujer", "hombre"], ["M"], "neg", 2),
        (["mujer", "hombre"], ["F", "M"], "neg", None),
        (["old", "young"], ["old"], "neg", 1),
        (["old", "young"], ["elderly"], "neg", None),
        (["F", "x"], ["F"], "neg", 1),
    ],
)
def test_the_biased_answer_of_mbbq_follows_from_the_groups(
    groups: list[str], blamed: list[str], polarity: str, target: int | None, tmp_path: Path
) -> None:
    info = {"ans0": ["u", "unknown"], "ans1": ["x", groups[0]], "ans2": ["x", groups[1]]}
    row = {
        **ROW,
        "answer_info": info,
        "question_polarity": polarity,
        "additional_metadata": {"stereotyped_groups": blamed},
    }
    written(tmp_path / "Age_es.jsonl", f"{json.dumps(row)}\n\n{json.dumps(row)}\n")
    written(tmp_path / "Age_control_es.jsonl", json.dumps(row))
    items = read_mbbq(tmp_path, ("Age", "SES"), ("es", "nl"))
    assert [(item.target, item.example, item.language, item.label_type) for item in items] == [
        (target, 1, "es", "label"),
        (target, 2, "es", "label"),
    ]
    assert len(read_mbbq(tmp_path, ("Age",), ("es",), control=True)) == 1
    assert kind_of(tmp_path) == "mbbq"
    with pytest.raises(UsageError, match="no items of SES in tr"):
        read_mbbq(tmp_path, ("SES",), ("tr",))
    del row["additional_metadata"]
    written(tmp_path / "Age_es.jsonl", json.dumps(row))
    with pytest.raises(FormatError, match="line 1 is not an item of MBBQ"):
        read_mbbq(tmp_path, ("Age",), ("es",))


def test_damaged_files_of_kobbq_say_which_row(tmp_path: Path) -> None:
    head = "sample_id\tlabel_annotation\tcontext\tquestion\tchoices\tbiased_answer\tanswer\n"
    good = "age-1-1-amb-bsd\tST\tc\tq\t['a', 'b', '알 수 없음']\ta\tb\n"
    with pytest.raises(InputMissingError, match="has no KoBBQ_test_samples"):
        read_kobbq(tmp_path)
    for text, message in (
        (head, "has no row"),
        (head.replace("question", "what") + good, "has no column 'question'"),
        (head + good + good.replace("amb", "may"), "row 3 is not an item"),
        (head + good.replace("'b'", "'d'"), "row 2 is not an item"),
    ):
        written(tmp_path / "KoBBQ_test_samples.tsv", text)
        with pytest.raises(FormatError, match=message):
            read_kobbq(tmp_path)
    written(tmp_path / "KoBBQ_test_samples.tsv", head + good)
    with pytest.raises(UsageError, match="KoBBQ has no items of Religion"):
        read_kobbq(tmp_path, ("Religion",))


# Other sets ---------------------------------------------------------------------------------------------------------


def test_damaged_files_of_pairs_and_examples_say_what_is_wrong(tmp_path: Path) -> None:
    head = "sent_more,sent_less,stereo_antistereo,bias_type\n"
    rows = read_crows_pairs(written(tmp_path / "pairs.csv", f"{head} a , b ,antistereo, age \nc,d,stereo,race\n"))
    assert [(p.id, p.more, p.less, p.category, p.direction) for p in rows] == [
        ("0", "a", "b", "age", "antistereo"),
        ("1", "c", "d", "race", "stereo"),
    ]
    for line, message in (
        (" ,b,stereo,x", "row 0: a sentence is empty"),
        ("a, ,stereo,x", "row 0: a sentence"),
        ("a,b,maybe,x", "is 'maybe'"),
    ):
        with pytest.raises(FormatError, match=message):
            read_crows_pairs(written(tmp_path / "bad.csv", f"{head}{line}\n"))
    sentence = [
        {"id": str(n), "sentence": f"s{n}", "gold_label": label}
        for n, label in enumerate(("unrelated", "stereotype", "anti-stereotype"))
    ]
    item = {"id": "e", "target": "t", "bias_type": "race", "context": "c", "sentences": sentence}
    both = {"data": {"intrasentence": [item], "intersentence": [{**item, "id": "f"}]}}
    first, second = read_stereoset(written(tmp_path / "set.json", json.dumps(both)))
    assert (first.task, second.task, first.stereotype.text, first.anti.text, first.unrelated.text) == (
        "intra",
        "inter",
        "s1",
        "s2",
        "s0",
    )
    with pytest.raises(FormatError, match="the example e has no sentence labelled 'stereotype'"):
        read_stereoset(
            written(
                tmp_path / "set.json",
                json.dumps({"data": {**both["data"], "intrasentence": [{**item, "sentences": sentence[:1]}]}}),
            )
        )
    with pytest.raises(FormatError, match="is not a part of StereoSet"):
        read_stereoset(written(tmp_path / "set.json", '{"data": {}}'))
    values, reason = score_examples(GivenTokens(), [second], "inter")
    assert (np.isnan(values).all(), values.shape) == (True, (1, 3))
    assert reason == "given is a masked language model without a next-sentence head"


def test_damaged_files_about_pronouns_say_what_is_wrong(tmp_path: Path) -> None:
    good = {
        "sentence_with_blank": "A _ b",
        "occupation": "nurse",
        "pronoun_options": ["he", "she"],
        "BLS_percent_women_2019": 50,
    }
    for change, message in (
        ({"sentence_with_blank": "no blank"}, "line 2: the sentence needs one blank"),
        ({"sentence_with_blank": "_ and _"}, "needs one blank"),
        ({"pronoun_options": ["he"]}, "line 2 is not a Winogenerated example"),
        ({"BLS_percent_women_2019": "many"}, "is not a Winogenerated example"),
    ):
        written(tmp_path / "winogenerated_examples.jsonl", f"{json.dumps(good)}\n{json.dumps({**good, **change})}\n")
        with pytest.raises(FormatError, match=message):
            read_winogenerated(tmp_path)
    stats = "occupation\tbergsma\tbls\tyear\nnurse\t0\t90\t2015\n"
    names = ["nurse.visitor.0.male", "nurse.visitor.0.female", "nurse.visitor.0.neutral"]
    for sentences, message in (
        ([f"{name}.txt\tThe nurse ran." for name in names], "do not differ in a pronoun"),
        ([f"{names[0]}.txt\tHe ran.", f"{names[1]}.txt\tShe ran."], r"has the pronouns \['female', 'male'\] only"),
        (["nurse.visitor.2.male.txt\tHe ran."], "is not occupation.participant.answer.gender"),
        (["cook.visitor.0.male.txt\tHe ran."], "is not occupation.participant"),
        (["nurse.visitor.0.other.txt\tHe ran."], "is not occupation.participant"),
        (["nurse.0.male.txt\tHe ran."], "is not occupation.participant"),
        (["nurse.visitor.0.male.txt"], "line 2: expected 2 columns"),
    ):
        written(tmp_path / "occupations-stats.tsv", stats)
        written(tmp_path / "all_sentences.tsv", "\n".join(["sentid\tsentence", *sentences]))
        with pytest.raises(FormatError, match=message):
            read_winogender(tmp_path)
    with pytest.raises(FormatError, match="a share of women is not a number"):
        read_shares(written(tmp_path / "more" / "occupations-stats.tsv", stats.replace("90", "most")).parent)
    with pytest.raises(FormatError, match="line 3: expected 4 columns"):
        read_shares(written(tmp_path / "more" / "occupations-stats.tsv", f"{stats}guard\t0\t20\n").parent)


def test_pairs_of_winobias_that_differ_otherwise_are_left_out_with_the_reason(tmp_path: Path) -> None:
    pro = ["1 [The guard] met the clerk; [he] ran.", "The guard ran to him.", "[The guard] met the clerk and [he], a nurse.",
           "[The guard] met [the clerk]; [he] ran.", "The guard met a cat.", "[Someone] met the clerk as [She] left."]  # fmt: skip
    anti = ["1 [The guard] met the clerk; [she] ran.", "The guard ran to her again.", "[The guard] met the clerk and [she], a nurse.",
            "[The guard] met [the clerk]; [she] ran.", "The guard met a dog.", "[Someone] met the clerk as [He] left."]  # fmt: skip
    for kind in (1, 2):
        for part in ("dev", "test"):
            for side, lines in (("pro", pro), ("anti", anti)):
                some = lines if (kind, part) == (1, "dev") else []
                written(tmp_path / f"{side}_stereotyped_type{kind}.txt.{part}", "\n\n".join(some) + "\n")
    written(tmp_path / "male_occupations.txt", "guard\n")
    written(tmp_path / "female_occupations.txt", "clerk\nnurse\n")
    found = read_winobias(tmp_path)
    assert found.left_out == {
        "type1.dev.2": "the sentences differ in length",
        "type1.dev.5": "'cat' and 'dog' are not both pronouns",
    }
    assert [(p.id, p.pro, p.anti, p.referent, p.other) for p in found.pairs] == [
        ("type1.dev.1", "he", "she", "guard", "clerk"),
        ("type1.dev.3", "he", "she", "", ""),
        ("type1.dev.4", "he", "she", "", ""),
        ("type1.dev.6", "She", "He", "Someone", "clerk"),
    ]
    written(tmp_path / "pro_stereotyped_type2.txt.test", "He ran.\n")
    with pytest.raises(FormatError, match="type 2, test: 1 pro and 0 anti sentences"):
        read_winobias(tmp_path)


def test_damaged_files_about_hurtful_words_say_what_is_wrong(tmp_path: Path) -> None:
    head = "template_masked\traw\tidentity\tcategory\n"
    written(tmp_path / "binary" / "en_template.tsv", f"{head}the  one is [M] .\traw\tone\tfemale\n")
    assert read_templates(tmp_path)[0].context == "the one is {} ."
    written(tmp_path / "binary" / "en_template.tsv", f"{head}a [M].\tr\to\tf\n[M] is [M].\tr\to\tf\n")
    with pytest.raises(FormatError, match=r"line 3: the sentence needs \[M\] once"):
        read_templates(tmp_path)
    with pytest.raises(UsageError, match="no sentences of 'binary' in language 'fr'") as missing:
        read_templates(tmp_path, "fr")
    assert "it has en in" in str(missing.value.hint)
    with pytest.raises(UsageError, match="'other' in language 'en'") as missing:
        read_templates(tmp_path, part="other")
    assert "it has none in" in str(missing.value.hint)
    written(tmp_path / "hurtlex_ES.tsv", "lemma\tcategory\tlevel\nBúho\tan\tconservative\nx\tan\tinclusive\n")
    assert read_hurtlex(tmp_path, "es") == {"buho": "an"}
    with pytest.raises(UsageError, match="no HurtLex lexicon for language 'en'") as missing:
        read_hurtlex(tmp_path)
    assert missing.value.hint == "languages: es"
    lexicon = {"glass": "a", "witch": "b", "big cat": "c", "dame": "d"}
    texts = ["witches", "Big cat!", "a big cats", "glasses", "dames", "a Witch, dame", "which", "class"]
    assert [hurtful_category(text, lexicon) for text in texts] == ["b", "c", "", "a", "d", "b", "", ""]
    assert [hurtful_category(text, lexicon, "fr") for text in texts] == ["", "c", "", "", "d", "b", "", ""]
    assert [hurtful_category(text, lexicon, "it") for text in texts] == ["", "c", "", "", "", "b", "", ""]


def test_descriptors_and_nouns_agree_and_sentences_begin_with_a_capital(tmp_path: Path) -> None:
    woman, child = Noun("woman", "women", "female"), Noun("child", "children")
    latina = Descriptor("Latina", "race", "x", gender="female")
    assert [latina.takes(woman), latina.takes(child), Descriptor("old", "age", "y").takes(woman)] == [True, False, True]
    assert fill("{noun_phrase} met {plural_noun_phrase}.", "old", child) == "An old child met old children."
    assert fill("", "old", child) == ""
    written(tmp_path / "descriptors.json", '{"age": {"a": [{"preference": "x"}]}}')
    with pytest.raises(FormatError, match=r"is not HolisticBias 1\.1"):
        read_holistic_bias(tmp_path)
    losses = np.array(
        [[[1.0, 2.0, 3.0, np.nan], [7.0, 8.0, 9.0, 5.0], [np.nan, np.nan, 1.0, 2.0], [1.0, 2.0, 3.0, 4.0]]]
    )
    same, axes = significant_pairs(losses, ["x", "x", "x", "y"], "none")
    assert (same.tolist(), axes) == ([[0.0, 0.0]], ["x", "x"])  # three against three have p = 0.1
    wide = np.stack([np.arange(5.0), np.arange(5.0) + 10, np.arange(5.0)])[None]
    assert significant_pairs(wide, ["x"] * 3, "none")[0].tolist() == [[1.0, 0.0, 1.0]]
    assert significant_pairs(wide, ["x"] * 3)[0].tolist() == [[1.0, 0.0, 1.0]]
    assert significant_pairs(wide, ["x"] * 3, "holm")[0].tolist() == [[1.0, 0.0, 1.0]]
    assert significant_pairs(wide, ["x", "y", "z"])[0].shape == (1, 0)


def test_shares_are_compared_by_the_chi_squared_test() -> None:
    from scipy.stats import chi2_contingency

    groups = np.array([0] * 8 + [1] * 5 + [2] * 7)
    present = np.array([[number(row, column) < 0.4 for column in range(3)] + [True, False] for row in range(20)])
    expected = [
        chi2_contingency([[present[groups == g, c].sum(), (~present[groups == g, c]).sum()] for g in range(3)], correction=False).pvalue
        for c in range(3)
    ]  # fmt: skip
    assert chi_squared(present, groups) == pytest.approx([*expected, 1.0, 1.0])


def test_bad_options_are_refused_and_what_has_no_value_says_why() -> None:
    for options, message in (
        ({"k": 0}, "must be at least 1, got 0 and 8"), ({"templates": ()}, "got 3 and 0"),
        ({"templates": ("{person} is.",)}, "needs"), ({"templates": ("{} is {} {person}",)}, "needs"),
        ({"templates": ("{person} {person} is {}.",)}, "needs"),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=message):
            measures.disco(GivenTokens(), **options)
    with pytest.raises(UsageError, match="unknown source of names 'x'"):
        measures.disco(GivenTokens(), "x")
    assert "has no names of two groups" in measures.disco(GivenTokens(), concept="religion").reason
    with pytest.raises(UsageError, match="k must be at least 1, got 0"):
        measures.honest(GivenTokens(), k=0)
    one = Query("one", {"a": ["man"], "b": ["woman"]}, {"x": ["good"], "y": ["bad", "worse"]})
    assert measures.log_probability(GivenTokens(), one).reason == "an attribute set has fewer than two words"
    for templates in (("{target} is.",), ("{target} {target} is {attribute}",), ("{target} {attribute} {attribute}",)):
        with pytest.raises(UsageError, match="once each"):
            measures.log_probability(GivenTokens(), "weat-6", templates=templates)
    turned = Query("own", {"x": ["good", "bad"], "y": ["fine", "poor"]}, {"f": ["woman", "she"], "m": ["man", "he"]})
    assert Roles.of(turned, eh.concept("gender")).groups == turned.attributes
    assert Roles.of(turned, None).groups == turned.targets
    with pytest.raises(UsageError, match="pairs has no pairs"):
        measures.crows_pairs(GivenTokens(), [])


def test_lines_without_words_are_left_out_of_a_text(tmp_path: Path) -> None:
    assert read_lines(["a", " ", "b c"]) == ("texts", ["a", "b c"])
    assert read_lines(written(tmp_path / "own.txt", "a\n\n b \n")) == ("own.txt", ["a", " b "])
    name, lines = read_lines("neutral-text")
    assert (name, len(lines) > 20, "" in lines) == ("neutral-text", True, False)
    silent = GivenTokens(lambda text, token: float("-inf"), masked=False)
    assert measures.perplexity(silent, ["a b"]).reason == "the model gives the text no finite probability"
    found = measures.perplexity(GivenTokens(lambda text, token: -2.0, masked=False), ["a b", "c"])
    assert found.value == pytest.approx(np.exp(2.0))
    assert (found.n, found.score, found.details["lines"], found.details["tokens"]) == (3, "", 2, 3)


@pytest.mark.parametrize("tokens", [0, 1, 4])
def test_a_loss_is_the_log_probability_per_token_and_of_a_text_without_tokens_the_whole(
    tokens: int, tmp_path: Path
) -> None:
    class Texts:
        name = "texts"

        def log_probabilities(self, texts: Sequence[str], *, batch: int | None = None) -> TextScores:
            return TextScores(np.array([-4.0 - ("odd" in text) for text in texts]), np.full(len(texts), tokens))

    written(tmp_path / "descriptors.json", '{"age": {"a": ["odd", "even"]}}')
    written(tmp_path / "nouns.json", '{"neutral": [["man", "men"], ["kid", "kids"]]}')
    written(tmp_path / "sentence_templates.json", '{"I am {noun_phrase}.": {}}')
    found = measures.holistic_bias(Texts(), tmp_path, axis="age")
    assert [(item["descriptor"], item["value"]) for item in found.items] == [
        ("even", 4 / max(1, tokens)),
        ("odd", 5 / max(1, tokens)),
    ]


def test_a_following_text_of_one_token_has_the_log_probability_of_that_token() -> None:
    sentences = [StereoSentence(str(n), text) for n, text in enumerate(("rude", "kind", "old fish"))]
    one = StereoExample("e", "inter", "nurse", "gender", "The nurse came.", *sentences)
    view = ScriptedCausalModel(lambda tokens, index: -float(len(tokens[index])))
    values, _ = score_examples(view, [one], "inter")
    assert values.tolist() == [[-4.0, -4.0, -3.5]]
