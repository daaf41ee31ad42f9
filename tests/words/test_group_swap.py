"""Counterparts of group words in a text."""

import pytest

import evenhand as eh
from evenhand.words.group_swap import GroupSwap


@pytest.mark.parametrize(
    ("text", "group", "other"),
    [
        ("She opened the door.", "female", "He opened the door."),
        ("Her dog bit her.", "female", "His dog bit him."),
        ("I saw him, and his book is there.", "male", "I saw her, and her book is there."),
        ("The book is his.", "male", "The book is hers."),
        ("I told her that it was hers.", "female", "I told him that it was his."),
        ("Critics praised her for her role.", "female", "Critics praised him for his role."),
        ("They asked her whether it rained.", "female", "They asked him whether it rained."),
        ("A friend of his from Rome left.", "male", "A friend of hers from Rome left."),
        ("THE MEN left an uncle.", "male", "THE WOMEN left an aunt."),
        ("A waitress met an actress.", "female", "A waiter met an actor."),
        ("The king's men", "male", "The queen's women"),
        ("SHE LEFT HER HOUSE.", "female", "HE LEFT HIS HOUSE."),
        ("A man at King's College saw Spider-Man.", "male", "A woman at King's College saw Spider-Man."),
        ("Mr. King met the King.", "male", "Mrs. King met the Queen."),
    ],
)
def test_gender(text: str, group: str, other: str) -> None:
    found = GroupSwap(eh.concept("gender")).versions(text)
    assert (found.group, [version for _, version in found.others]) == (group, [other])


def test_both_groups_are_exchanged() -> None:
    found = GroupSwap(eh.concept("gender")).versions("He said she was his aunt.")
    assert (found.group, found.others) == ("", (("", "She said he was her uncle."),))


def test_texts_without_a_group_word_have_no_versions() -> None:
    swap = GroupSwap(eh.concept("gender"))
    assert swap.versions("Nobody sheltered the heroic manuscript.") is None
    assert swap.versions("Queen's University invited the X-Men.") is None


def test_more_groups_have_a_version_each() -> None:
    swap = GroupSwap(eh.concept("religion"))
    found = swap.versions("A Muslim entered the mosque.")
    assert found.group == "islam"
    assert dict(found.others) == {
        "judaism": "A Jew entered the synagogue.",
        "christianity": "A Christian entered the church.",
    }
    assert swap.versions("A Muslim met a Jew.") is None


def test_articles_and_phrases_of_own_concepts() -> None:
    own = eh.Concept("city", {"a": ["old town", "Rome"], "b": ["harbour", "Oslo"]})
    swap = GroupSwap(own)
    assert swap.versions("I saw an old town in Rome.").others == (("b", "I saw a harbour in Oslo."),)
    assert swap.versions("A harbour").others == (("a", "An old town"),)
    with pytest.raises(eh.EvenhandError, match=r"have no counterparts: its groups have 1, 2 words"):
        GroupSwap(eh.Concept("x", {"a": ["one"], "b": ["two", "three"]}))
