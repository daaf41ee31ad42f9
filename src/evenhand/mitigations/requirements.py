"""Checks of what a method needs from a concept, made before anything is fitted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenhand.errors import UsageError, counted, unknown_name
from evenhand.subspaces.learning import ESTIMATORS

if TYPE_CHECKING:
    from evenhand.words import Concept, Recipe

ANY_NUMBER = "use inlp, leace, hard or linear, which take any number of groups, or make a concept of two of the groups"


def require_pairs(concept: Concept, method: str, *, hint: str = "add pairs=[(a, b), ...] to the concept") -> None:
    """Raise `UsageError` if the concept has no pairs."""
    if not len(concept.pairs):
        raise UsageError(f"{method} needs pairs of counterparts; concept {concept.name!r} has none", hint=hint)


def require_two_groups(concept: Concept, method: str, *, hint: str = ANY_NUMBER) -> None:
    """Raise `UsageError` unless the concept has exactly two groups."""
    if len(concept.groups) != 2:
        groups = counted(len(concept.groups), "group")
        raise UsageError(f"{method} needs exactly two groups; concept {concept.name!r} has {groups}", hint=hint)


def require_groups(concept: Concept, method: str) -> None:
    """Raise `UsageError` if the concept has fewer than two groups."""
    if len(concept.groups) < 2:
        raise UsageError(
            f"{method} compares groups; concept {concept.name!r} has one group only",
            hint='add a second one: groups={"a": [...], "b": [...]}',
        )


def require_names(concept: Concept, method: str) -> None:
    """Raise `UsageError` if the concept has no first names for two groups."""
    if len(concept.names) < 2:
        raise UsageError(
            f"{method} needs first names of two groups; concept {concept.name!r} has names for {len(concept.names)}",
            hint='add names={"a": [...], "b": [...]}, or use the words of the groups',
        )


def require_direction(concept: Concept, method: str, recipe: Recipe | str | None = None) -> None:
    """Raise `UsageError` if the concept lacks the words from which `subspaces.learn` estimates its direction."""
    chosen = recipe or concept.direction
    if chosen is None:
        if not len(concept.pairs):
            require_groups(concept, method)
        return
    how, words = (chosen, ()) if isinstance(chosen, str) else (chosen.how, chosen.words)
    if how not in ESTIMATORS:
        raise unknown_name("way to learn a direction", how, ESTIMATORS)
    if how in ("pairs", "span") or (how == "pair" and not words):
        require_pairs(concept, f"{method} by {how!r}")
    elif how in ("two-means", "classifier"):
        require_groups(concept, f"{method} by {how!r}")
    elif how == "names":
        require_names(concept, f"{method} by {how!r}")


def require_single_direction(concept: Concept, method: str, recipe: Recipe | str | None = None) -> None:
    """Raise `UsageError` if the concept has no direction, or has more than two groups and no way to choose one."""
    require_direction(concept, method, recipe)
    if recipe is None and concept.direction is None and not len(concept.pairs):
        require_two_groups(concept, method)
