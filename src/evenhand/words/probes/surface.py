"""Surface forms of a probe's sentences: determiner, articles, case and full stop."""

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
    """A surface form, the same for premise and hypothesis, so that only the subject differs.

    An empty `determiner` or `stop` keeps that of the template. Articles follow the sound of the next word, or its first
    letter with `articles="letter"`. With `articles="french"` all that is marked in a sentence agrees with the gender of
    its subject. `case="lower"` is the published preprocessing.
    """

    determiner: Determiner = ""
    articles: Articles = "phonetic"
    case: Casing = "natural"
    stop: Stop = ""

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            allowed = get_args(CHOICES[name])
            if value not in allowed:
                choices = ", ".join(map(repr, filter(None, allowed)))
                raise UsageError(f"surface: {name} cannot be {value!r}", hint=f"use one of {choices}")

    def determiner_for(self, original: str) -> str:
        """Return the determiner that replaces that of a template, in the same case; "" stays ""."""
        if not self.determiner or not original:
            return original
        return self.determiner if original[0].isupper() else self.determiner.lower()

    def end(self, text: str) -> str:
        """Replace the full stop of a template, if it has one."""
        return text.rstrip(". ") + self.stop if self.stop and text.endswith(".") else text

    def apply_case(self, text: str) -> str:
        """Return the text in the chosen case."""
        return text.lower() if self.case == "lower" else text


# The released code of Dev et al. (2020), also used by Dawkins (2021): "A nurse bought a SUV ."
RELEASED = Surface("A/An", "letter", "natural", " .")
