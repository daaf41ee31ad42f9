import itertools
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand.errors import UsageError
from evenhand.words import Template, article

FOOD = Template("food", "A/An {subject} {verb} a/an {food}.", {"verb": ["ate", "cooked"], "food": ["apple", "meal"]})


def test_expansion_in_order_with_articles():
    assert list(FOOD.expand(subject="actor")) == [
        "An actor ate an apple.",
        "An actor ate a meal.",
        "An actor cooked an apple.",
        "An actor cooked a meal.",
    ]
    assert FOOD.slots == ("subject", "verb", "food")
    assert FOOD.free == ("subject",)
    assert FOOD.size == 4


def test_a_keyword_may_hold_several_words_or_narrow_a_slot():
    sentences = list(FOOD.expand(subject=["nurse", "actor"], verb="ate"))
    assert sentences[0] == "A nurse ate an apple."
    assert len(sentences) == 4


def test_expansion_is_lazy():
    pool = [f"w{n}" for n in range(10_000)]
    huge = Template("huge", "{a} {b} {c} {d}", dict.fromkeys("abcd", pool))
    assert huge.size == 10**16
    assert list(itertools.islice(huge.expand(), 2)) == ["w0 w0 w0 w0", "w0 w0 w0 w1"]


@pytest.mark.parametrize(
    ("word", "letter", "phonetic"),
    [
        ("honest person", "a", "an"),
        ("university", "an", "a"),
        ("union", "an", "a"),
        ("unimportant", "an", "an"),
        ("uninvited", "an", "an"),
        ("unidentified", "an", "an"),
        ("unanimous", "an", "a"),
        ("umbrella", "an", "an"),
        ("urologist", "an", "a"),
        ("urban", "an", "an"),
        ("usher", "an", "an"),
        ("utensil", "an", "a"),
        ("utter", "an", "an"),
        ("European", "an", "a"),
        ("eulogy", "an", "a"),
        ("Ugandan", "an", "a"),
        ("ugly", "an", "an"),
        ("one-armed", "an", "a"),
        ("onerous", "an", "an"),
        ("house", "a", "a"),
        ("honorary", "a", "an"),
        ("Honolulu", "a", "a"),
        ("hourly", "a", "an"),
        ("FBI", "a", "an"),
        ("US", "an", "a"),
        ("X-ray", "a", "an"),
        ("T-shirt", "a", "a"),
        ("U-turn", "an", "a"),
        ("8-year-old", "a", "an"),
        ("18-year-old", "a", "an"),
        ("180-page", "a", "a"),
        ("\u00e9lite", "a", "an"),
        ("'apple'", "a", "an"),
        ("honest", "a", "an"),
        ("ukrainian", "an", "a"),
        ("SUV", "a", "an"),
        ("headphones", "a", ""),
        ("uzbekistani", "an", "an"),
        ("urchin", "an", "an"),
        ("VIP", "a", "a"),
        ("TV", "a", "a"),
        ("nurse", "a", "a"),
        ("Apple", "an", "an"),
    ],
)
def test_the_two_article_rules(word, letter, phonetic):
    assert article(word, "letter") == letter
    assert article(word, "phonetic") == phonetic


@pytest.mark.parametrize(
    ("rule", "sentence"),
    [
        ("letter", "A honest person bought a headphones ."),
        ("phonetic", "An honest person bought headphones ."),
    ],
)
def test_the_rule_decides_every_article_of_a_sentence(rule, sentence):
    made = Template("t", "A/An {quality} person bought a/an {thing} .", articles=rule)
    assert made.fill(quality="honest", thing="headphones") == sentence


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"text": "no slot here"}, "no slot"),
        ({"text": "{a} {"}, "stray brace"),
        ({"text": "{a}", "fillers": {"b": ["x"]}}, "'b'"),
        ({"text": "{a}", "fillers": {"a": []}}, "empty"),
        ({"text": "{a}", "articles": "guess"}, "unknown article rule 'guess'"),
    ],
)
def test_a_template_without_sense_is_refused(arguments, said):
    with pytest.raises(UsageError, match=said):
        Template("t", **arguments)


def test_missing_unknown_and_empty_fillings_are_refused():
    with pytest.raises(UsageError, match=r"missing \['food', 'verb'\]"):
        FOOD.fill(subject="nurse")
    with pytest.raises(UsageError, match=r"missing \['subject'\]"):
        FOOD.expand()
    with pytest.raises(UsageError, match=r"not a slot \['colour'\]"):
        FOOD.expand(subject="nurse", colour="red")
    with pytest.raises(UsageError, match="the slot 'subject' has no word"):
        FOOD.expand(subject=[])


def test_a_template_pickles():
    assert pickle.loads(pickle.dumps(FOOD)) == FOOD


@given(st.lists(st.sampled_from(["nurse", "actor", "heir"]), min_size=1, max_size=3))
def test_the_number_of_sentences_is_the_product(subjects):
    assert len(list(FOOD.expand(subject=subjects))) == FOOD.size * len(subjects)
