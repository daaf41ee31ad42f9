"""Estimate the subspace of a concept, by its published recipe or by a default for its words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from evenhand.errors import UsageError, unknown_name
from evenhand.models.vectors import Vectors
from evenhand.subspaces.differences import names, pair, pairs, span
from evenhand.subspaces.groups import classifier, grammatical, group_means, nouns, social, two_means, words
from evenhand.subspaces.subspace import Subspace

if TYPE_CHECKING:
    from evenhand.words import Concept, Recipe


@dataclass(frozen=True)
class EstimationPlan:
    """An estimator with its words and options, and the reason for the choice."""

    how: str
    chosen: str
    words: tuple[str, ...] = ()
    options: Mapping[str, bool | int] = field(default_factory=dict)


def learn(
    v: Vectors,
    concept: Concept,
    recipe: Recipe | str | None = None,
    *,
    k: int | None = None,
    centre: bool | None = None,
    normalise: bool | None = None,
) -> Subspace:
    """Estimate the subspace of a concept.

    `recipe` is a `Recipe`, or the name of an estimator ("pair", "pairs", "span", "two-means", "group-means", "words",
    "classifier", "names") to apply to the concept's words with its default options. In languages with grammatical
    gender, "grammatical" is the direction of inanimate nouns and "social" the concept's pairs without it. By default,
    the concept's published direction is used; without one, its pairs (first principal direction); without pairs, the
    means of its positive group and of all other groups. `params["chosen"]` records the choice. `k`, `centre` and
    `normalise` override the recipe.
    """
    plan = _plan(concept, recipe)
    overrides = {"k": k, "centre": centre, "normalise": normalise}
    plan = replace(
        plan, options={**plan.options, **{name: value for name, value in overrides.items() if value is not None}}
    )
    learned = _estimator(plan.how)(v, concept, plan)
    named = any(learned.poles) and plan.how != "grammatical"  # whose poles are genders of nouns, not groups of people
    return replace(
        learned,
        poles=(_poles(concept) or learned.poles) if named else learned.poles,
        params={**learned.params, "concept": concept.name, "chosen": plan.chosen},
    )


def _plan(concept: Concept, recipe: Recipe | str | None) -> EstimationPlan:
    if isinstance(recipe, str):
        return EstimationPlan(recipe, chosen="asked for")
    if recipe is not None:
        return _from_recipe(recipe, "asked for")
    if concept.direction is not None:
        return _from_recipe(concept.direction, "published")
    if len(concept.pairs):
        return EstimationPlan("pairs", chosen="no published direction: the concept's pairs")
    return EstimationPlan("two-means", chosen="no published direction and no pairs: the means of its groups")


def _from_recipe(recipe: Recipe, chosen: str) -> EstimationPlan:
    options = {"k": recipe.k, "centre": recipe.centre, "normalise": recipe.normalise}
    return EstimationPlan(recipe.how, chosen, tuple(recipe.words), options)


def _pair(v: Vectors, concept: Concept, plan: EstimationPlan) -> Subspace:
    both = plan.words or next(iter(_pairs_of(concept)))
    if len(both) != 2:
        raise UsageError(f"a direction from one pair needs (positive, negative), got {both!r}")
    return pair(v, both[0], both[1], **_options(plan, "normalise"))


def _pairs(v: Vectors, concept: Concept, plan: EstimationPlan) -> Subspace:
    return pairs(v, _pairs_of(concept), **_options(plan, "k", "centre", "normalise"))


def _span(v: Vectors, concept: Concept, plan: EstimationPlan) -> Subspace:
    return span(v, _pairs_of(concept), **_options(plan, "normalise"))


def _two_means(v: Vectors, concept: Concept, plan: EstimationPlan) -> Subspace:
    learned = two_means(v, *_sides(concept.groups, concept), **_options(plan, "normalise"))
    return replace(learned, poles=(concept.positive, "rest"))


def _group_means(v: Vectors, concept: Concept, plan: EstimationPlan) -> Subspace:
    return group_means(v, concept.groups, **_options(plan, "k", "normalise"))


def _classifier(v: Vectors, concept: Concept, plan: EstimationPlan) -> Subspace:
    learned = classifier(v, *_sides(concept.groups, concept), **_options(plan, "normalise"))
    return replace(learned, poles=(concept.positive, "rest"))


def _names(v: Vectors, concept: Concept, plan: EstimationPlan) -> Subspace:
    return names(v, *_sides(concept.names, concept), **_options(plan, "k", "centre", "normalise"))


def _words(v: Vectors, concept: Concept, plan: EstimationPlan) -> Subspace:
    every = plan.words or tuple(word for group in concept.groups.values() for word in group)
    learned = words(v, every, **_options(plan, "k", "centre", "normalise"))
    poles = _poles(concept)
    ends = [v.take(concept.groups[name])[0] for name in poles or ()]
    if poles is None or not all(len(rows) for rows in ends):
        return learned
    return learned.towards(ends[0].mean(axis=0) - ends[1].mean(axis=0), poles=poles)


def _grammatical(v: Vectors, concept: Concept, plan: EstimationPlan) -> Subspace:
    feminine, masculine = nouns(concept.language)
    return grammatical(v, feminine, masculine, how="means", **_options(plan, "normalise"))


def _social(v: Vectors, concept: Concept, plan: EstimationPlan) -> Subspace:
    options = {"normalise": True, **_options(plan, "normalise")}
    feminine, masculine = nouns(concept.language)
    grammar = grammatical(v, feminine, masculine, how="lda", **options)
    return social(pairs(v, _pairs_of(concept), **options), grammar)


ESTIMATORS: dict[str, Callable[[Vectors, Any, EstimationPlan], Subspace]] = {
    "pair": _pair,
    "pairs": _pairs,
    "span": _span,
    "two-means": _two_means,
    "group-means": _group_means,
    "words": _words,
    "classifier": _classifier,
    "names": _names,
    "grammatical": _grammatical,
    "social": _social,
}


def _estimator(how: str) -> Callable[[Vectors, Any, EstimationPlan], Subspace]:
    if how not in ESTIMATORS:
        raise unknown_name("estimator", how, ESTIMATORS)
    return ESTIMATORS[how]


USUAL: Mapping[str, bool | int] = {"k": 1, "centre": False, "normalise": False}


def _options(plan: EstimationPlan, *accepted: str) -> dict[str, Any]:
    """Return the options that the estimator accepts; raise `UsageError` for any other option."""
    for name, value in plan.options.items():
        if name not in accepted and value != USUAL[name]:
            raise UsageError(f"the estimator {plan.how!r} has no option {name}={value!r}")
    return {name: value for name, value in plan.options.items() if name in accepted}


def _pairs_of(concept: Concept) -> Iterable[tuple[str, str]]:
    if not len(concept.pairs):
        raise UsageError(f"concept {concept.name!r} has no pairs", hint="give it pairs=[(first, second), ...]")
    return concept.pairs


def _sides(groups: Mapping[str, Iterable[str]], concept: Concept) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the words of the positive group, and those of all other groups."""
    if len(groups) < 2 or concept.positive not in groups:
        raise UsageError(
            f"concept {concept.name!r} needs two lists of words, one for {concept.positive!r}; it has {list(groups)}",
        )
    rest = tuple(word for name, group in groups.items() if name != concept.positive for word in group)
    return tuple(groups[concept.positive]), rest


def _poles(concept: Concept) -> tuple[str, str] | None:
    """Return the pole names if the concept has exactly two groups."""
    others = [name for name in concept.groups if name != concept.positive]
    return (concept.positive, others[0]) if len(others) == 1 else None
