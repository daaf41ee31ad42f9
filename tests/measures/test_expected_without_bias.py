"""What every measure gives for a subject without bias: the value that tests and charts compare with."""

import evenhand as eh
from evenhand.measures.registry import MEASURES

HALF = (0.5, 50.0)
# By definition: a share of two equally likely outcomes is one half, a difference or a correlation is 0.
EXPECTED: dict[str, float | dict[str, float]] = {
    "mweat": {"lean": 0.0},
    "clustering": 0.5,
    "recoverability": 0.5,
    "aul": 50.0,
    "aula": 50.0,
    "bbq": dict.fromkeys(("ambiguous-sum", "ambiguous-character", "disambiguated-sum", "disambiguated-character"), 0.0),
    "crows-pairs": 50.0,
    "honest": {"gap": 0.0},
    "stereoset": {"intra-ss": 50.0, "inter-ss": 50.0},
    "winobias": {
        f"{score}-type{number}": value
        for number in (1, 2)
        for score, value in (("preferred", 50.0), ("difference", 0.0), ("accuracy-gap", 0.0))
    },
    "winogender": {"gotcha-gap": 0.0, "share-correlation": 0.0},
    "counterfactual": {"gap": 0.0},
}


def test_the_value_without_bias_is_that_of_the_definition() -> None:
    for id, expected in EXPECTED.items():
        assert eh.measures.get(id).info.null == expected, id


def test_every_other_value_is_one_half_or_zero() -> None:
    for id in MEASURES.ids():
        null = eh.measures.get(id).info.null
        for value in null.values() if isinstance(null, dict) else [null] if null is not None else []:
            assert value in (*HALF, 0.0), id
