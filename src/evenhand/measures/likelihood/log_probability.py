"""Log-probability bias: does an attribute make one group more probable than another? (Kurita et al. 2019)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from evenhand.arrays import Matrix64, Vector64
from evenhand.errors import DegenerateError, UsageError, VocabularyError
from evenhand.measures.association.weat import effect_size, effect_size_interval
from evenhand.measures.call import Call, measure
from evenhand.measures.measurement import Measurement
from evenhand.measures.registry import Info
from evenhand.models.lm.likelihood import Likelihood, MaskedLikelihood, filler_tokens
from evenhand.models.vectors import Coverage
from evenhand.stats.permutation import permutation_test
from evenhand.stats.units import effect_size_units
from evenhand.words import Concept, Query, WordSet
from evenhand.words.catalog import query as as_query

WordPieces = Literal["skip", "product"]
TARGET, ATTRIBUTE = "{target}", "{attribute}"
# The paper asks about pleasantness with a form of to be, and about interests with verbs of liking.
PLEASANTNESS = ("{target} is {attribute}.", "{target} are {attribute}.")
INTERESTS = ("{target} likes {attribute}.", "{target} like {attribute}.", "{target} is interested in {attribute}.")
LEAST = 2  # attribute words in a set, without which there is no spread

LOG_PROBABILITY_INFO = Info(
    id="log-probability",
    title="Log-probability bias score",
    takes="query",
    better="zero",
    null=0.0,
    formula=(
        "d = (mean_A b - mean_B b) / sd_{A u B} b, b(w) = a(X, w) - a(Y, w), a(G, w) = log sum_{t in G} "
        "P(mask = t | w shown) - log sum_{t in G} P(mask = t | w masked)"
    ),
    reading=(
        "0: attributes of both kinds raise the probability of both groups alike. Above 0: the first attributes favour "
        "the first group, compared with the second attributes. Between -2 and 2 for sets of equal size."
    ),
    limits=(
        "It depends on the templates, which are few and stiff, and on the words of a group that are single tokens; "
        "others are left out. The effect size says nothing about how probable the group words are."
    ),
    cites=("kurita2019", "caliskan2017"),
    queries=("weat-6", "weat-7", "weat-8", "weat-3", "weat-4", "weat-5", "weat-10"),
    view="likelihood",
    arity=(2, 2),
    one_against_rest=True,
    needs="masked-lm",
    definition=2,
    in_tradeoff=True,
)


@measure(LOG_PROBABILITY_INFO)
def log_probability(
    call: Call,
    view: Likelihood,
    query: Query | str,
    *,
    concept: Concept | None = None,
    templates: Sequence[str] = (),
    pieces: WordPieces = "skip",
    ddof: int = 0,
    seed: int = 0,
) -> Measurement:
    """Measure how attributes change the probability of two groups at a masked position.

    The groups are the two sets of the query that hold words of the concept, the attributes are the other two. The
    probability of a group is the sum over its words. The prior is taken at the position of the group word, with as many
    masks for the attribute as it has tokens. (The released code reads the prior at another position.)

    Args:
        view: a masked language model, or the `likelihood` view of a subject.
        query: two target and two attribute sets; an id, a file or a `Query`.
        concept: decides which sets are the groups; the targets without one, or where neither side has words of it.
        templates: sentences with `{target}` and `{attribute}`; by default those of the paper, "{target} is
            {attribute}." for pleasant and unpleasant words and "{target} likes {attribute}." for others.
        pieces: what is done with group words of several tokens. `skip` leaves them out and counts them, because their
            probability is not that of a single mask. `product` uses as many masks as tokens and multiplies.
        ddof: of the standard deviation; the released code uses 1.
        seed: seed of the permutation test.

    Returns:
        The effect size, with the score of each attribute word in `items`. Attributes are the units of the interval and
        of the permutation test.

    What it does not tell you: how the model treats words outside the templates. See `evenhand show log-probability`.
    """
    asked = as_query(query)
    if asked.arity != (2, 2):
        raise UsageError(f"{asked.name or 'the query'} has {asked.arity} sets", hint="give two targets, two attributes")
    roles = Roles.of(asked, concept)
    chosen = tuple(templates) or roles.templates
    if bad := [text for text in chosen if text.count(TARGET) != 1 or text.count(ATTRIBUTE) != 1]:
        raise UsageError(f"the template {bad[0]!r} needs {TARGET} and {ATTRIBUTE} once each")
    call.describe(asked, params={"templates": list(chosen)})
    if not isinstance(view, MaskedLikelihood):
        raise DegenerateError(f"log-probability is defined for masked language models, and {view.name} is none")
    groups = [_usable(view, words, chosen, pieces) for words in roles.groups]
    lost = tuple(word for words, used in zip(roles.groups, groups, strict=True) for word in words if word not in used)
    call.coverage = Coverage(tuple(word for used in groups for word in used), lost)
    for words, used in zip(roles.groups, groups, strict=True):
        if not used:
            raise VocabularyError(f"no word of {words.name} is a single token of {view.name}")
    if min(len(words) for words in roles.attributes) < LEAST:
        raise DegenerateError("an attribute set has fewer than two words")
    attributes = list(dict.fromkeys(word for words in roles.attributes for word in words))
    biases = np.mean([_biases(view, template, groups, attributes) for template in chosen], axis=0)
    scores = dict(zip(attributes, biases.tolist(), strict=True))
    first, second = (np.array([scores[word] for word in words]) for words in roles.attributes)
    value = effect_size(first, second, ddof)
    if value is None:
        raise DegenerateError("the scores of the attributes do not vary")
    names = [words.name for words in (*roles.groups, *roles.attributes)]
    near, far = (names[2], names[3]) if value >= 0 else (names[3], names[2])
    return call.measurement(
        value,
        len(attributes),
        interval=effect_size_interval(first, second, ddof=ddof),
        units=(effect_size_units("word", roles.attributes[0], roles.attributes[1], first, second, ddof=ddof),),
        p_value=permutation_test(first, second, alternative="two-sided", seed=seed).p_value,
        reading=f"{near} words favour {names[0]}, {far} words {names[1]}, compared with each other; 0 is ideal",
        items=tuple(
            {"word": word, "value": scores[word], "set": words.name} for words in roles.attributes for word in words
        ),
        details={"mean": {names[2]: float(first.mean()), names[3]: float(second.mean())}},
    )


@dataclass(frozen=True)
class Roles:
    """Which sets of a query are the groups, and which the attributes."""

    groups: tuple[WordSet, ...]
    attributes: tuple[WordSet, ...]

    @classmethod
    def of(cls, query: Query, concept: Concept | None) -> Roles:
        """Take the side with more words of the concept as the groups; the targets if neither has any."""
        sets = [*concept.groups.values(), *concept.names.values()] if concept else []
        own = {word.lower() for words in sets for word in words}
        targets, attributes = (
            sum(word.lower() in own for words in side for word in words) for side in (query.targets, query.attributes)
        )
        if attributes > targets:
            return cls(query.attributes, query.targets)
        return cls(query.targets, query.attributes)

    @property
    def templates(self) -> tuple[str, ...]:
        """The paper's templates for these attributes."""
        pleasant = any("pleasant" in words.name.lower() for words in self.attributes)
        return PLEASANTNESS if pleasant else INTERESTS


def _usable(view: MaskedLikelihood, words: WordSet, templates: tuple[str, ...], pieces: WordPieces) -> list[str]:
    """Return the words of a group that are scored: all, or those that are single tokens in every template."""
    listed = list(words)
    if pieces == "product":
        return listed
    contexts = [_context(template, view.mask_token) for template in templates]
    forms = [_capitalised(word, contexts[0]) for word in listed]
    single = (filler_tokens(view, contexts, forms) == 1).all(axis=0)
    return [word for word, kept in zip(listed, single, strict=True) if kept]


def _biases(view: MaskedLikelihood, template: str, groups: list[list[str]], attributes: list[str]) -> Vector64:
    """Return log P(first group) - log P(second group), with the attribute shown less with it masked."""
    shown = [_context(template, word) for word in attributes]
    spots = template.replace(TARGET, view.mask_token).replace(ATTRIBUTE, "{}")
    tokens = filler_tokens(view, [spots], attributes)[0].tolist()
    masks = {count: _context(template, " ".join([view.mask_token] * count)) for count in sorted(set(tokens))}
    contexts = [*shown, *masks.values()]
    sums = [_group_sums(view, contexts, words) for words in groups]
    rows = {count: len(shown) + place for place, count in enumerate(masks)}
    differences = sums[0] - sums[1]
    return np.asarray(differences[: len(shown)] - differences[[rows[count] for count in tokens]])


def _group_sums(view: MaskedLikelihood, contexts: list[str], words: list[str]) -> Vector64:
    """Return the logarithm of the summed probabilities of words in each context."""
    logs: Matrix64 = view.filler_log_probabilities(contexts, [_capitalised(word, contexts[0]) for word in words])
    return np.asarray(np.logaddexp.reduce(logs, axis=1))


def _context(template: str, attribute: str) -> str:
    """Return a template with the attribute filled in and a blank for the target."""
    return template.replace(ATTRIBUTE, attribute).replace(TARGET, "{}")


def _capitalised(word: str, context: str) -> str:
    """Return a word with a capital letter at the beginning of a sentence."""
    return word[:1].upper() + word[1:] if context.startswith("{}") else word
