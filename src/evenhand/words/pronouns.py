"""The counterparts of pronouns: `her` is him or his, `his` is her or hers. The words around it decide.

The decision is a linear model of the word before and the two words after, with the weights of
`words/data/pronouns.toml`. They were learned from him and his, which tell the object from the possessive. Positive
scores mean an object. Constructions that are too rare for weights have rules: elected her president, a friend of his
called, his alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache

from evenhand.words.catalog import ids, wordset

SPLIT = re.compile(r"(\w+)")
LOOKAHEAD = 4  # words after a pronoun that may decide
CONTEXT = 200  # characters on each side of a pronoun that hold the deciding words
INDEPENDENT = -0.5
"""Threshold on the score of the words after `his`: above it no noun follows (the book is his)."""
UNCERTAIN = 1.0
"""Decisions with a smaller absolute score are counted as uncertain."""
OPENING = frozenset("\"“'‘([<*`#")  # marks that may stand between a possessive and its noun
COUNTED = {"a", "an", "another", "any", "few", "many", "no", "one", "several", "some", "three", "two"}
COUNTED |= {"that", "these", "this", "those"}  # determiners of a noun with `of his`
ARTICLES = ("a", "an", "the", "its", "my", "our", "their", "your")
BEGIN_NO_NOUN_PHRASE = ("auxiliary", "preposition", "conjunction", "pronoun")
GROUP = {"her": "female", "hers": "female", "him": "male", "his": "male"}
OTHER = {"her": ("his", "him"), "hers": ("his",), "his": ("her", "hers"), "him": ("her",)}


@cache
def weights() -> dict[str, float]:
    """Return the weight of each feature."""
    shipped = wordset("pronoun-context")
    return dict(zip(shipped.words, shipped.scores["weight"], strict=True))


@cache
def word_classes(side: str) -> dict[str, tuple[str, ...]]:
    """Return the classes of each listed word that may stand before (`previous`) or after (`next`) the pronoun."""
    prefix = f"pronoun-{side}-"
    lists = {id.removeprefix(prefix): wordset(id).words for id in ids("wordset") if id.startswith(prefix)}
    if side == "previous":
        lists["preposition"] = wordset("pronoun-next-preposition").words
    classes: dict[str, tuple[str, ...]] = {}
    for name, members in lists.items():
        for word in members:
            classes[word] = (*classes.get(word, ()), name)
    return classes


def counterpart(text: str, start: int, stop: int) -> str:
    """Return the pronoun of the other gender, in lower case, for her, hers, him or his in a text.

    Args:
        text: the text.
        start: the first character of the pronoun.
        stop: one past its last character.

    >>> counterpart("I saw her.", 6, 9), counterpart("with her mother", 5, 8), counterpart("It is his.", 6, 9)
    ('him', 'his', 'hers')
    """
    word = text[start:stop].lower()
    before = SPLIT.split(text[max(0, start - CONTEXT) : start])
    parts = [*before, text[start:stop], *SPLIT.split(text[stop : stop + CONTEXT])]
    if word == "her":
        return "him" if is_object(parts, len(before))[0] else "his"
    if word == "his":
        return "hers" if is_independent(parts, len(before))[0] else "her"
    return OTHER[word][0]


def is_object(parts: Sequence[str], position: int) -> tuple[bool, bool]:
    """Return whether `her` at a position means him, and whether that is uncertain.

    Args:
        parts: a text as separators and words in turn, separators first.
        position: where the pronoun is in `parts`.
    """
    if _has_office(parts, position):
        return True, False
    known = weights()
    total = known["intercept"] + sum(known.get(feature, 0.0) for feature in _features(parts, position))
    return total > 0, abs(total) < UNCERTAIN


def is_independent(parts: Sequence[str], position: int) -> tuple[bool, bool]:
    """Return whether `his` at a position means hers, and whether that is uncertain; see `is_object`.

    It does if no noun phrase can follow: at the end of a phrase, or before a word that begins none. A finite verb
    begins none after a friend of his, that dog of his.
    """
    after = [feature for feature in _features(parts, position) if feature.startswith("next")]
    if "next:boundary" in after:
        return True, False
    if _is_alone(parts, position) or _is_double_genitive(parts, position):
        return True, False
    begins_none = any(f"next-class:{name}" in after for name in BEGIN_NO_NOUN_PHRASE)
    if not begins_none or "next:being" in after:
        return False, False
    total = weights()["intercept"] - INDEPENDENT + sum(weights().get(feature, 0.0) for feature in after)
    return total > 0, abs(total) < UNCERTAIN


def _features(parts: Sequence[str], position: int) -> Iterator[str]:
    """Yield the features of a pronoun; "his or her book" counts as "his book"."""
    before = parts[position - 2].lower() if position > 1 and not parts[position - 1].strip() else "none"
    yield f"previous:{before}"
    of_previous = word_classes("previous").get(before, ())
    yield from (f"previous-class:{name}" for name in of_previous)
    end = _end_of_alternatives(parts, position)
    separator = parts[end + 1]
    if parts[position - 1].rstrip().endswith("[") and separator.lstrip().startswith("]"):
        separator = separator.replace("]", "", 1)  # [her] stands for a word of the source
    if end + 2 >= len(parts) or _closes(separator):
        yield "next:boundary"
        return
    mark, after = separator.strip(), parts[end + 2]
    if mark in ("/", "&"):
        yield "next:slash"
    if parts[end + 3].startswith(("-", " @-@")):  # WikiText writes on @-@ screen
        yield "next:hyphenated"
        return
    word = after.lower()
    yield f"next:{word}"
    of_next = word_classes("next").get(word)
    if of_next:
        yield from (f"next-class:{name}" for name in of_next)
        return
    yield "next-class:open"
    yield from (f"next-ending:{word[-length:]}" for length in (1, 2, 3) if len(word) > length + 2)
    if after[0].isdigit():
        yield "next:number"
    elif after[0].isupper() and parts[position][0].islower():  # in a headline every word has a capital
        yield "next:capital"
    yield from (f"previous-class-before-open:{name}" for name in of_previous)
    second = parts[end + 4].lower() if end + 4 < len(parts) and not parts[end + 3].strip() else ""
    known = word_classes("next").get(second, ())
    yield f"second:{second if known else 'open' if second else 'boundary'}"
    kind = known[0] if known else "open" if second else "boundary"
    yield from (f"previous-class-and-second:{name}:{kind}" for name in of_previous)


def _words_after(parts: Sequence[str], position: int) -> list[str]:
    """Return up to `LOOKAHEAD` words of the same phrase after a pronoun, in lower case."""
    words: list[str] = []
    for index in range(position + 2, min(position + 2 + 2 * LOOKAHEAD, len(parts)), 2):
        if parts[index - 1].strip():
            break
        words.append(parts[index].lower())
    return words


def _begins_no_noun(word: str) -> bool:
    return bool(set(word_classes("next").get(word, ())) & {*BEGIN_NO_NOUN_PHRASE, "adverb"}) or word[0].isdigit()


def _has_office(parts: Sequence[str], position: int) -> bool:
    """Return whether the name of an office without a determiner follows: they elected her president in May."""
    if position < 2 or parts[position - 1].strip() or parts[position - 2].lower() not in listed("appointing-verbs"):
        return False
    after = _words_after(parts, position)
    modifiers = next((n for n, word in enumerate(after) if word not in listed("office-modifiers")), len(after))
    offices = [word in listed("offices") for word in after]
    for last in (modifiers, modifiers - 1):  # a modifier can be an office itself: chief, general
        if 0 <= last < len(after) and offices[last]:
            return last + 1 == len(after) or _begins_no_noun(after[last + 1])
    return False


def _is_alone(parts: Sequence[str], position: int) -> bool:
    """Return whether `alone` follows and is no adjective: the decision was his alone."""
    after = _words_after(parts, position)
    return after[:1] == ["alone"] and (len(after) == 1 or _begins_no_noun(after[1]))


def _is_double_genitive(parts: Sequence[str], position: int) -> bool:
    """Return whether a verb follows a noun with `of his`: a friend of his called, that dog of his barked."""
    if position < 6 or any(parts[index].strip() for index in (position - 1, position - 3)):
        return False
    before = [parts[index].lower() for index in range(position - 2, max(0, position - 10), -2)]
    if before[0] != "of" or before[1] in COUNTED or not COUNTED & set(before[2:4]):
        return False
    after = _words_after(parts, position)
    if not after or after[0] in word_classes("next"):
        return False
    if after[0] in listed("finite-verbs"):
        return True
    if after[0].endswith("ed"):
        return len(after) == 1 or after[1] in word_classes("next")
    return len(after) > 1 and after[1] in ARTICLES


@cache
def listed(name: str) -> frozenset[str]:
    """Return the words of a shipped list."""
    return frozenset(wordset(name).words)


def _closes(separator: str) -> bool:
    """Return whether a phrase ends at a separator."""
    mark = separator.strip()
    if not mark or mark in ("-", "/", "&"):
        return False
    return not separator[0].isspace() or not set(mark) - {" "} <= OPENING


def _end_of_alternatives(parts: Sequence[str], position: int) -> int:
    """Return where "his or her", "her/his" ends, or the position itself if the pronoun stands alone."""
    if position + 2 >= len(parts):
        return position
    others = OTHER[parts[position].lower()]
    if parts[position + 1].strip() == "/" and parts[position + 2].lower() in others:
        return position + 2
    joined = position + 4 < len(parts) and not parts[position + 1].strip() and not parts[position + 3].strip()
    if joined and parts[position + 2].lower() in ("or", "and") and parts[position + 4].lower() in others:
        return position + 4
    return position
