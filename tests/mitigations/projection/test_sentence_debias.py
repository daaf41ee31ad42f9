"""SentenceDebias: what it refuses before anything is read; what it does is tested in `test_site_change.py`."""

from __future__ import annotations

import pytest

from evenhand.errors import UsageError
from evenhand.mitigations import get


@pytest.mark.parametrize("wrong", [{"k": 0}, {"most": 1}, {"k": 0, "most": 1}])
def test_it_needs_a_direction_and_two_sentences(wrong: dict[str, int]) -> None:
    with pytest.raises(UsageError, match="at least"):
        get("sentence-debias")(**wrong).check_concept("gender")


def test_one_direction_and_two_sentences_are_enough() -> None:
    get("sentence-debias")(k=1, most=2).check_concept("gender")
