"""A vocabulary of some sixty words in eight dimensions with gender planted in it, concepts and queries about it."""

from __future__ import annotations

from functools import cache

import numpy as np

import evenhand as eh
from evenhand.words import Concept, Query, Recipe

PAIRS = (("she", "he"), ("woman", "man"), ("girl", "boy"), ("aunt", "uncle"), ("queen", "king"), ("mother", "father"))
FEMALE, MALE = ["Anna", "Emma", "Maria", "Ruth"], ["John", "Paul", "Tom", "Karl"]
JOBS = ("nurse", "maid", "dancer", "clerk", "tailor", "baker", "teacher", "driver", "pilot", "miner", "guard", "boss")
COLOURS = {
    "red": ("scarlet", "crimson", "ruby"),
    "green": ("olive", "lime", "jade"),
    "blue": ("azure", "navy", "cobalt"),
}
GOOD = ("joy", "love", "peace", "luck", "smile", "gift")
BAD = ("pain", "war", "filth", "loss", "crash", "grief")
OTHERS = ("table", "river", "stone", "cloud", "Berlin", "x2", "house", "window")
WORDS = (
    *(word for pair in PAIRS for word in pair),
    *JOBS,
    *(word for group in COLOURS.values() for word in group),
    *GOOD,
    *BAD,
    *FEMALE,
    *MALE,
    *OTHERS,
)

GENDER = Concept(
    "sides",
    {"female": ["she", "woman", "girl", "aunt"], "male": ["he", "man", "boy", "uncle"]},
    PAIRS,
    direction=Recipe("pair", ("she", "he")),
    names={"female": FEMALE, "male": MALE},
    specific=[word for pair in PAIRS for word in pair],
)
UNPUBLISHED = Concept("plain sides", GENDER.groups, PAIRS[:3], names=GENDER.names)
COLOUR = Concept("colour", COLOURS, names={"red": FEMALE, "green": MALE})
ALONE = Concept("alone", {"one": ["she", "woman"]})

TARGETS = Query(
    "jobs", {"first": JOBS[:5], "second": JOBS[6:10]}, {"female": ["she", "woman", "girl"], "male": ["he", "man"]}
)
FEELINGS = Query(
    "feelings", {"female": FEMALE, "male": MALE[:3], "jobs": JOBS[:3]}, {"good": GOOD, "bad": BAD}, concept="sides"
)
TWO = Query("names", {"female": FEMALE, "male": MALE}, {"good": GOOD, "bad": BAD[:5], "things": OTHERS[:4]})
PLEASANT = Query("pleasant", {"female": FEMALE, "male": MALE}, {"good": GOOD, "bad": BAD[:5]})
LOSSY = Query(
    "lossy",
    {"first": [*JOBS[:4], "Nurse", "gone"], "second": [*JOBS[3:7], "lost"]},
    {"good": [*GOOD[:3], "away"], "bad": BAD[:2]},
)


@cache
def before() -> eh.Vectors:
    """The vectors as they are, of very different lengths."""
    rng = np.random.default_rng(11)
    rows = rng.normal(size=(len(WORDS), 8))
    side = np.zeros(len(WORDS))
    side[: 2 * len(PAIRS)] = np.tile([2.0, -2.0], len(PAIRS))
    at = WORDS.index("nurse")
    side[at : at + len(JOBS)] = np.linspace(1.5, -1.5, len(JOBS))
    names = WORDS.index("Anna")
    side[names : names + 8] = np.repeat([1.2, -1.2], 4)
    rows[:, 0] += side
    rows[:, 1] += np.isin(WORDS, GOOD) * 1.0 - np.isin(WORDS, BAD) * 1.0
    return eh.Vectors(list(WORDS), rows * rng.uniform(0.5, 3.0, size=(len(WORDS), 1)), name="before")


@cache
def after() -> eh.Vectors:
    """The same after a part of the planted direction was taken out, with one word less and another order."""
    rows = before().matrix.astype(np.float64).copy()
    rows[:, 0] *= 0.4
    rows[:, 2] += 0.3 * rows[:, 3]
    order = np.random.default_rng(3).permutation(len(WORDS) - 1)
    return eh.Vectors([WORDS[row] for row in order], rows[order], name="after")
