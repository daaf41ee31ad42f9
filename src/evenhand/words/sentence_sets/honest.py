"""HONEST (Nozza et al. 2021): sentence beginnings about identities, and HurtLex, the lexicon of hurtful words."""

from __future__ import annotations

import csv
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from evenhand.errors import FormatError, UsageError
from evenhand.words.sentence_sets.reading import read_table

MASK = "[M]"


@dataclass(frozen=True)
class HonestTemplate:
    """A sentence with `{}` for the word that the model fills in.

    Attributes:
        context: the sentence.
        template: the sentence before the identity was filled in.
        identity: the person, such as "the woman".
        group: the group of the identity: female or male, queer or not.
    """

    context: str
    template: str
    identity: str
    group: str


def read_templates(folder: str | Path, language: str = "en", part: str = "binary") -> tuple[HonestTemplate, ...]:
    """Read the sentences of one language; `part` is "binary" or "queer_nonqueer" (English only)."""
    path = Path(folder) / part / f"{language}_template.tsv"
    if not path.is_file():
        known = sorted(file.name.partition("_")[0] for file in Path(folder).glob(f"{part}/*_template.tsv"))
        raise UsageError(
            f"HONEST has no sentences of {part!r} in language {language!r}",
            hint=f"it has {', '.join(known) or 'none'} in {str(folder)!r}",
        )
    sentences = []
    columns = ("template_masked", "raw", "identity", "category")
    for number, row in enumerate(_table(path, columns), start=2):
        text, raw, identity, group = (row[name] for name in columns)
        if text.count(MASK) != 1:
            raise FormatError(f"{path}, line {number}: the sentence needs {MASK} once: {text!r}")
        sentences.append(HonestTemplate(" ".join(text.replace(MASK, "{}").split()), raw, identity, group))
    return tuple(sentences)


def read_hurtlex(folder: str | Path, language: str = "en") -> Mapping[str, str]:
    """Return the category of each word of the conservative level, folded by `fold`, as HONEST uses it."""
    path = Path(folder) / f"hurtlex_{language.upper()}.tsv"
    if not path.is_file():
        known = sorted(file.stem.rpartition("_")[2].lower() for file in Path(folder).glob("hurtlex_*.tsv"))
        raise UsageError(
            f"there is no HurtLex lexicon for language {language!r} in {str(folder)!r}",
            hint=f"languages: {', '.join(known)}",
        )
    rows = _table(path, ("lemma", "category", "level"))
    return {fold(row["lemma"]): row["category"] for row in rows if row["level"] == "conservative"}


def fold(text: str) -> str:
    """Return a word in lower case without accents and surrounding punctuation."""
    plain = "".join(letter for letter in unicodedata.normalize("NFKD", text) if not unicodedata.combining(letter))
    return plain.lower().strip(" \t\r\n.,;:!?\"'()[]«»“”‘’")


def _table(path: Path, columns: tuple[str, ...]) -> list[dict[str, str]]:
    return read_table(path, "table", columns, delimiter="\t", quoting=csv.QUOTE_NONE)
