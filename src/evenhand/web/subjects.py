"""The subjects that the server was started with, and what was computed from them, kept within bounds."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache

import numpy as np

from evenhand import mitigations, subspaces, words
from evenhand.audit.plan import DEFAULT_METHODS
from evenhand.errors import EvenhandError, UsageError
from evenhand.models.nli import NLIEnsemble
from evenhand.models.vectors import Vectors
from evenhand.subjects import Subject
from evenhand.subjects.subject import VIEWS
from evenhand.subspaces import Subspace
from evenhand.web.forms import PageLimits
from evenhand.web.worker import BoundedCache
from evenhand.words import Concept

NO_METHOD = "none"
AT_EACH_END = 10  # words at an end of the axis
FREQUENT = 20_000  # rows among which they are chosen: rare words are at the ends by noise
DEFAULT_CONCEPT, DEFAULT_METHOD = "gender", DEFAULT_METHODS[0]


class ServedSubjects:
    """Subjects by an id of the page. A browser names an id; addresses come from the command line only."""

    def __init__(self, subjects: Sequence[Subject], limits: PageLimits) -> None:
        self._subjects = {f"s{number}": subject for number, subject in enumerate(subjects)}
        self._locks = {id: threading.RLock() for id in self._subjects}
        self._axes, self._ends = BoundedCache(limits.cached), BoundedCache(limits.cached)
        self._changed = BoundedCache(limits.cached, limits.cached_bytes)
        self._models = BoundedCache(limits.cached)

    @property
    def names(self) -> dict[str, str]:
        """Every subject: id and name."""
        return {id: subject.name for id, subject in self._subjects.items()}

    def offering(self, view: str) -> dict[str, str]:
        """Return id and name of the subjects that offer a view."""
        if view not in VIEWS:
            raise UsageError(f"{view!r} is not a view")
        return {id: subject.name for id, subject in self._subjects.items() if view in subject.offers}

    def subject(self, id: str) -> Subject:
        """Return a subject by its id."""
        if id not in self._subjects:
            raise UsageError("this subject is not offered", hint="choose one of the list")
        return self._subjects[id]

    @contextmanager
    def in_use(self, id: str) -> Iterator[Subject]:
        """Give one thread the use of a subject: a view is opened once, and models cannot be used by two threads."""
        subject = self.subject(id)
        with self._locks[id]:
            yield subject

    def vectors(self, id: str) -> Vectors:
        """Return the vectors of a subject."""
        with self.in_use(id) as subject:
            vectors: Vectors = subject.view("vectors")
        return vectors

    def axis(self, id: str, concept: str, method: str = NO_METHOD) -> Subspace:
        """Return the direction of a concept, learned from the vectors after a method; `none` is the original.

        It points from the mean of all other groups to that of the positive group. One pair, as she and he, would show
        nothing: a projection makes its two words equal, and every word lies at 0 of the direction it removes.
        """

        def learn() -> Subspace:
            vectors = self.changed(id, concept, method)
            return subspaces.learn(vectors, words.concept(concept), "two-means", normalise=True)

        return self._axes.get((id, concept, method), learn)

    def ends(self, id: str, concept: str) -> tuple[str, ...]:
        """Return the frequent words furthest to either end of the axis, without those that name the groups."""
        return self._ends.get((id, concept), lambda: self._find_ends(id, words.concept(concept)))

    def _find_ends(self, id: str, concept: Concept) -> tuple[str, ...]:
        vectors, direction = self.vectors(id), self.axis(id, concept.name).basis[0]
        groups = (*concept.groups.values(), *concept.names.values(), concept.specific)
        about = {word.lower() for group in groups for word in group}
        rows = [
            row for row, word in enumerate(vectors.words[:FREQUENT]) if word.isalpha() and word.lower() not in about
        ]
        order = np.argsort(vectors.unit[rows] @ direction, kind="stable").tolist()
        ends = dict.fromkeys([*order[:AT_EACH_END], *order[-AT_EACH_END:]])
        return tuple(vectors.words[rows[place]] for place in ends)

    def changed(self, id: str, concept: str, method: str) -> Vectors:
        """Return the vectors of a subject after a method; `none` is the original."""
        if method == NO_METHOD:
            return self.vectors(id)

        def fit() -> Vectors:
            before = self.vectors(id)
            return mitigations.get_vector_method(method)().fit(before, concept, seed=0)(before)

        return self._changed.get((id, concept, method), fit, size=_bytes)

    def models(self, id: str, concept: str, method: str) -> NLIEnsemble:
        """Return the inference models of a subject; those of word vectors read the vectors after the method."""
        subject = self.subject(id)
        if method == NO_METHOD or "vectors" not in subject.offers:
            with self.in_use(id):
                original: NLIEnsemble = subject.view("inference")
            return original

        def open_models() -> NLIEnsemble:
            from evenhand.subjects.embedded_nli import find_models

            after = self.changed(id, concept, method)
            models = find_models(after)
            if models is None:
                raise UsageError(f"no inference model reads {subject.name} after {method}", hint="choose no method")
            return models.ensemble(after)

        return self._models.get((id, concept, method), open_models)

    def warm_up(self) -> None:
        """Open what the explore pages ask first, so that the first answers are quick too."""
        for view in ("vectors", "inference", "likelihood"):
            for id in self.offering(view):
                with suppress(EvenhandError), self.in_use(id) as subject:  # a page that needs it says what is wrong
                    subject.view(view)
        if first := next(iter(self.offering("vectors")), ""):
            self.changed(first, DEFAULT_CONCEPT, DEFAULT_METHOD).unit  # noqa: B018 (computed once and kept)


def _bytes(vectors: Vectors) -> int:
    return 2 * int(vectors.matrix.nbytes)  # the rows of unit length are kept with the matrix


@cache
def method_choices() -> dict[str, str]:
    """Return id and title of the methods that the page fits while a reader waits, after `none`."""
    quick = [id for id in mitigations.ids("vectors") if mitigations.get(id).takes == "seconds"]
    return {NO_METHOD: "no method", **{id: mitigations.get(id).title for id in sorted(quick)}}


@cache
def concept_choices() -> dict[str, str]:
    """Return the shipped concepts."""
    return {id: id for id in words.ids("concept")}
