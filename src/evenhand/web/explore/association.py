"""The reader's own word sets in WEAT, before and after a method."""

from __future__ import annotations

from functools import cache

from evenhand import words
from evenhand.errors import UsageError
from evenhand.measures import Measurement
from evenhand.measures.association.weat import weat
from evenhand.web.explore.dot_plot import dot_plot
from evenhand.web.explore.vector_form import BeforeAfter, vector_example
from evenhand.web.fields import FormFields
from evenhand.web.offered import OfferedSubjects
from evenhand.words import Query

SETS = {"x": "first target", "y": "second target", "a": "first attribute", "b": "second attribute"}
DEFAULT = "weat-6"
LEAST = 2  # words of a target set: with one the effect size is always 2 or -2


@cache
def query_choices() -> dict[str, str]:
    """Return the shipped queries that WEAT can ask."""
    fitting = {id: words.query(id) for id in words.ids("query")}
    return {
        id: f"{id}: {' / '.join(group.name for group in query.targets)} with "
        f"{' / '.join(group.name for group in query.attributes)}"
        for id, query in fitting.items()
        if query.arity == (2, 2)
    }


def example(offered: OfferedSubjects, fields: FormFields) -> dict[str, str]:
    """Return the sets of the query that was chosen, or of careers and families."""
    query = words.query(fields.choice("query", query_choices(), DEFAULT))
    sets = dict(zip(SETS, (*query.targets, *query.attributes), strict=True))
    names = {f"{id}_name": group.name for id, group in sets.items()}
    return vector_example(offered) | names | {id: " ".join(group) for id, group in sets.items()} | {"query": DEFAULT}


def answer(offered: OfferedSubjects, fields: FormFields) -> dict[str, object]:
    """Return effect size and p-value on both sides, and the association of each target word."""
    chosen = BeforeAfter.chosen(offered, fields)
    query = _query(fields)
    before = weat(chosen.before, query)
    after = weat(chosen.after, query, reference=chosen.before) if chosen.after is not None else None
    return {
        "chosen": chosen,
        "query": query,
        "stages": [(name, m) for name, m in (("original", before), (chosen.method, after)) if m is not None],
        "plot": _plot(query, before, after),
        "missing": before.coverage.missing,
    }


def _query(fields: FormFields) -> Query:
    sets: dict[str, tuple[str, list[str]]] = {}
    for id, what in SETS.items():
        name = fields.text(f"{id}_name", most=fields.limits.word) or what
        members = fields.words(id)
        if len(members) < (LEAST if id in "xy" else 1):
            raise UsageError(
                f"the {what} set ({name}) has too few words", hint="give at least two words for each target"
            )
        sets[id] = (name, members)
    for one, other in (("x", "y"), ("a", "b")):
        if sets[one][0] == sets[other][0]:
            raise UsageError(f"two sets are called {sets[one][0]!r}", hint="give them different names")
    return Query("your sets", targets=dict([sets["x"], sets["y"]]), attributes=dict([sets["a"], sets["b"]]))


def _plot(query: Query, before: Measurement, after: Measurement | None) -> object:
    """Return the association of each target word, sorted; None where it is undefined."""
    if before.value is None:
        return None
    items = sorted(before.items, key=lambda item: -float(item["value"]))
    later = {(item["word"], item.get("set")): float(item["value"]) for item in after.items} if after else {}
    places = [(item["word"], item.get("set")) for item in items]
    complete = bool(later) and all(place in later for place in places)
    return dot_plot(
        [str(item["word"]) for item in items],
        [float(item["value"]) for item in items],
        [later[place] for place in places] if complete else None,
        poles=(query.attributes[0].name, query.attributes[1].name),
    )
