"""The neighbours of a word before and after a method."""

from __future__ import annotations

from evenhand.errors import UsageError, VocabularyError
from evenhand.models.vectors import Vectors
from evenhand.web.explore.vector_form import BeforeAfter, vector_example
from evenhand.web.fields import FormFields
from evenhand.web.offered import OfferedSubjects


def example(offered: OfferedSubjects, fields: FormFields) -> dict[str, str]:
    """Return an occupation."""
    return vector_example(offered) | {"word": "nurse", "count": "12"}


def answer(offered: OfferedSubjects, fields: FormFields) -> dict[str, object]:
    """Return the neighbours on both sides, with their position on the axis before the method."""
    chosen = BeforeAfter.chosen(offered, fields)
    asked = fields.text("word", most=fields.limits.word)
    if not asked:
        raise UsageError("name a word", hint="type one of the vocabulary")
    word = chosen.before.find(asked)
    if word is None:
        raise VocabularyError(f"{asked!r} is not in {chosen.before.name}", hint="check the spelling")
    count = fields.number("count", 12, least=1, most=min(fields.limits.neighbours, len(chosen.before) - 1))
    before = _neighbours(chosen, chosen.before, word, count)
    after = _neighbours(chosen, chosen.after, word, count) if chosen.after is not None else []
    shared = {line[0] for line in before} & {line[0] for line in after}
    row = [chosen.before.index[word]]
    return {
        "chosen": chosen,
        "word": word,
        "before": before,
        "after": after,
        "shared": shared,
        "position": (chosen.positions(row)[0], next(iter(chosen.positions_after(row) or ()), None)),
    }


def _neighbours(chosen: BeforeAfter, vectors: Vectors, word: str, count: int) -> list[tuple[str, float, float]]:
    near = vectors.most_similar(word, k=count)
    positions = chosen.positions([chosen.before.index[name] for name, _ in near])
    return [(name, cosine, position) for (name, cosine), position in zip(near, positions, strict=True)]
