"""How the sentences of a probe are written: determiner, articles, capitals, full stop."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal, get_args

from evenhand.errors import UsageError
from evenhand.words.articles import Articles

Determiner = Literal["", "The", "A/An"]
Casing = Literal["natural", "lower"]
Stop = Literal["", ".", " ."]
CHOICES = {"determiner": Determiner, "articles": Articles, "case": Casing, "stop": Stop}


@dataclass(frozen=True)
class Surface:
    """One way to write a probe; the same for premise and hypothesis, so that only the subject differs.

    An empty `determiner` or `stop` leaves what the template has. Articles go by the sound of the word unless "letter"
    is asked for. `case="lower"` is what the published preprocessing makes of every sentence.
    """

    determiner: Determiner = ""
    articles: Articles = "phonetic"
    case: Casing = "natural"
    stop: Stop = ""

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            allowed = get_args(CHOICES[name])
            if value not in allowed:
                shown = ", ".join(map(repr, filter(None, allowed)))
                raise UsageError(f"surface: {name} cannot be {value!r}", hint=f"use one of {shown}")

    def determined(self, written: str) -> str:
        """The determiner in front of a subject, where the template has one."""
        if not self.determiner or not written:
            return written
        return self.determiner if written[0].isupper() else self.determiner.lower()

    def stopped(self, text: str) -> str:
        """The template with the full stop asked for; a template without one stays without."""
        return text.rstrip(". ") + self.stop if self.stop and text.endswith(".") else text

    def cased(self, text: str) -> str:
        """The text in the case asked for."""
        return text.lower() if self.case == "lower" else text


# The released code of Dev et al. (2020), which Dawkins (2021) shares: "A nurse bought a SUV ."
RELEASED = Surface("A/An", "letter", "natural", " .")
