"""`Mitigation`: the base class of every method. A method is fitted to a subject and returns a change of it."""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, Self, TypeAlias

from evenhand.data.citations import bibtex, short_citation
from evenhand.errors import UsageError, counted, unknown_name
from evenhand.mitigations.parameters import Parameter, check_choices, parameters_of, parse_parameters
from evenhand.mitigations.selection import Selector
from evenhand.models.vectors import Vectors
from evenhand.subjects import Change, Subject, open_subject
from evenhand.subspaces import Subspace
from evenhand.subspaces.learning import ESTIMATORS
from evenhand.words import as_concept

if TYPE_CHECKING:
    from evenhand.words import Concept, Recipe

Variant: TypeAlias = Literal["paper", "released"]
"""Which definition of a method: that of the paper, or that of the released code where it differs."""
ANY_NUMBER = "use inlp, leace, hard or linear, which take any number of groups, or make a concept of two of the groups"


@dataclass(frozen=True)
class Target:
    """What a method works on.

    Attributes:
        title: in words, for messages: "word vectors".
        part: the part of a subject that the change acts on, see `Subject.changeable`.
        view: a view that the subject must offer too.
    """

    title: str
    part: str
    view: str = ""

    def accepts(self, subject: Subject) -> bool:
        """Return whether a subject is one of these."""
        return self.part in subject.changeable and (not self.view or self.view in subject.offers)


VECTORS = Target("word vectors", "vectors")
TRANSFORMER = Target("transformers", "transformer")
LANGUAGE_MODEL = Target("masked and causal language models of transformers", "transformer", "likelihood")
CORPUS = Target("corpora", "text")
CHAT = Target("chat models and servers", "prompt", "chat")


class _Citation:
    """Authors and years of the papers that a class cites."""

    def __get__(self, method: Mitigation | None, owner: type[Mitigation]) -> str:
        return "; ".join(short_citation(key) for key in owner.cites)


@dataclass(frozen=True)
class Mitigation(ABC):
    """A method with its parameters, not yet fitted. `fit` learns from a subject and returns a frozen change.

    A method is a frozen dataclass: its fields are its parameters, and fitting changes nothing in it. A subclass names
    what it `works_on` and implements `_fit_subject`, and `_check` where it cannot work with every concept. A method
    with random steps has a field `seed`. One that fits a map of vectors derives from `VectorMethod` instead.
    """

    id: ClassVar[str]
    title: ClassVar[str]
    formula: ClassVar[str] = ""
    """The map, or what it minimises, in one line."""
    cites: ClassVar[tuple[str, ...]] = ()
    """Keys of `data/references.bib`."""
    limits: ClassVar[str]
    """What the method cannot do, in a sentence or two."""
    citation = _Citation()
    definition: ClassVar[int] = 1
    """Number of the definition; increased when the same parameters give another change."""
    works_on: ClassVar[tuple[Target, ...]]
    """The kinds of subject that it can be fitted to and changes."""
    elsewhere: ClassVar[str] = "`evenhand list methods` shows what each method works on"
    """What to do with a subject that it does not work on, for messages."""
    takes: ClassVar[Literal["seconds", "a minute", "minutes"]] = "seconds"
    """About how long a fit to word vectors takes: a page fits methods of seconds, a sweep none that takes minutes."""
    not_written: ClassVar[str] = ""
    """Why a subject cannot be written after the change; empty if it can."""
    trains_stored_weights: ClassVar[bool] = False
    """Whether it can only be the first method of a chain: a changed model is in memory."""
    fixed_seed: ClassVar[bool] = False
    """Whether the seed was given as a parameter ("steering(seed=3)"), so that the seed of a run does not replace it."""

    def fit(self, subject: Subject | Vectors, concept: Concept | str, *, seed: int | None = None) -> Change:
        """Fit the method and return the change; neither the subject nor the concept are changed.

        Args:
            subject: what to learn from, and what the change is for.
            concept: the concept to remove, or its id or file.
            seed: the seed of the random steps, instead of the field `seed`; ignored by methods without random steps.

        Raises:
            UsageError: If the method cannot work with the concept or on the subject, before anything is fitted.
        """
        about, method = as_concept(concept), self.with_seed(seed)
        method.check_concept(about)
        method.check_subject(subject)
        return method._fit_subject(open_subject(subject), about)

    @abstractmethod
    def _fit_subject(self, subject: Subject, concept: Concept) -> Change:
        """Fit the method to a subject and a concept that were checked."""

    def check_subject(self, subject: Subject | Vectors) -> None:
        """Raise `UsageError` if the method does not work on this kind of subject; fits nothing."""
        if isinstance(subject, Vectors):
            title, accepted = VECTORS.title, VECTORS in self.works_on
        else:
            title, accepted = subject.title, any(target.accepts(subject) for target in self.works_on)
        if not accepted:
            kinds = " and ".join(target.title for target in self.works_on)
            behind_server = isinstance(subject, Subject) and subject.changeable == ("prompt",)
            hint = subject.instead_of_changes if isinstance(subject, Subject) and behind_server else self.elsewhere
            raise UsageError(f"{self.id} works on {kinds} only; {subject.name} is {title}", hint=hint)

    def check_concept(self, concept: Concept | str) -> None:
        """Raise `UsageError` if the method cannot work with this concept or has invalid parameters; fits nothing."""
        about = as_concept(concept)
        check_choices(self)
        self._check(about)
        selector = getattr(self, "words", None)
        if isinstance(selector, Selector):
            selector.check_concept(about)

    def _check(self, concept: Concept) -> None:  # noqa: B027 (most concepts suit most methods)
        """Check the parameters, and that the concept has the words the method needs."""

    @property
    def sites(self) -> tuple[str, ...]:
        """The sites of a transformer that need a foldable map there; empty for methods that act elsewhere."""
        return ()

    def _about(self) -> dict[str, object]:
        """Return what a report says of the method: its id, its definition, its parameters and its seed."""
        seed = {"seed": getattr(self, "seed")} if self.is_seeded() else {}  # noqa: B009 (a field of subclasses)
        return {"method": self.id, "definition": self.definition, "params": self.params(), **seed}

    @classmethod
    def is_seeded(cls) -> bool:
        """Return whether the method has random steps."""
        return any(field.name == "seed" for field in fields(cls))

    def with_seed(self, seed: int | None) -> Self:
        """Return the method with another seed.

        The method itself if it has no random steps, the seed is None, or its parameters were given with a seed.
        """
        if seed is None or self.fixed_seed:
            return self
        if seed < 0:
            raise UsageError(f"the seed must be 0 or more, got {seed}")
        return replace(self, seed=seed) if self.is_seeded() else self  # type: ignore[call-arg]  # of subclasses

    @classmethod
    def bibtex(cls) -> str:
        """Return the BibTeX entries of the papers that define the method."""
        return "\n\n".join(bibtex(key) for key in cls.cites)

    @classmethod
    def parameters(cls) -> tuple[Parameter, ...]:
        """Return name, type, default and description of every parameter."""
        return parameters_of(cls)

    @classmethod
    def with_params(cls, values: Mapping[str, object]) -> Self:
        """Return the method with these parameters; text is parsed by the type of the parameter.

        Lists are written `a,b,c` and pairs `a:b,c:d`; `none` is None.
        """
        method = cls(**parse_parameters(cls, values))
        object.__setattr__(method, "fixed_seed", "seed" in values)
        return method

    def params(self) -> dict[str, object]:
        """Return the parameters as plain data."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        for name in ("words", "site"):
            if values.get(name, "") is None:
                del values[name]  # recorded only when words are exempt, or a site was named
        return {name: _plain(value) for name, value in values.items()}


def check_methods(methods: Sequence[Mitigation], subject: Subject | Vectors, concept: Concept | str) -> None:
    """Raise `UsageError` if a chain of methods cannot work with a concept or on a subject; fits nothing."""
    for number, method in enumerate(methods):
        method.check_concept(concept)
        method.check_subject(subject)
        if number and method.trains_stored_weights:
            raise UsageError(
                f"{method.id} trains the stored weights, so it must be the first method of a chain",
                hint=f"write {method.id} first, or save the model that {methods[number - 1].id} changed and open it",
            )


def apply_methods(
    methods: Sequence[Mitigation], subject: Subject, concept: Concept | str, *, seed: int | None = None
) -> tuple[Subject, tuple[Change, ...]]:
    """Fit and apply methods in order, each on the result of the one before; all are checked before the first is fitted.

    Returns:
        The changed subject, and the changes.
    """
    check_methods(methods, subject, concept)
    changes: list[Change] = []
    for method in methods:
        change = method.fit(subject, concept, seed=seed)
        subject = change(subject)
        changes.append(change)
    return subject, tuple(changes)


def chain_report(changes: Sequence[Change]) -> dict[str, object]:
    """Return the report of one change, or that of a chain with the reports of its steps; empty without changes."""
    reports = [dict(change.report) for change in changes]
    if len(reports) < 2:
        return reports[0] if reports else {}
    return {"method": ".".join(str(report.get("method", "change")) for report in reports), "chain": reports}


def composed(changes: Sequence[Change]) -> Change:
    """Return changes that follow each other as one; raise `UsageError` if their kinds cannot be combined."""
    whole = changes[0]
    for change in changes[1:]:
        combine: Callable[[Change], Change] | None = getattr(change, "__matmul__", None)
        after = combine(whole) if combine else NotImplemented
        if after is NotImplemented:
            raise UsageError(
                f"{change!r} cannot be combined with {whole!r} in one file", hint="apply the methods one by one"
            )
        whole = after
    return whole


_state_folder: ContextVar[Path | None] = ContextVar("state_folder", default=None)


@contextmanager
def keeping_state(folder: Path) -> Iterator[None]:
    """Let methods that train keep their state in a folder meanwhile, where the same call finds it after a stop.

    The folder is removed at the end, unless an error or a stop ended the work.
    """
    token = _state_folder.set(folder)
    try:
        yield
    finally:
        _state_folder.reset(token)
    shutil.rmtree(folder, ignore_errors=True)


def state_folder() -> Path | None:
    """Return where a method may keep the state of a long fit; None where nobody would look for it."""
    return _state_folder.get()


def _plain(value: object) -> object:
    if isinstance(value, Subspace):
        return value.to_dict(basis=False)
    if isinstance(value, Selector):
        return value.to_dict()
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)


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
    elif how in ("two-means", "group-means", "classifier"):
        require_groups(concept, f"{method} by {how!r}")
    elif how == "names":
        require_names(concept, f"{method} by {how!r}")


def require_single_direction(concept: Concept, method: str, recipe: Recipe | str | None = None) -> None:
    """Raise `UsageError` if the concept has no direction, or has more than two groups and no way to choose one."""
    require_direction(concept, method, recipe)
    if recipe is None and concept.direction is None and not len(concept.pairs):
        require_two_groups(concept, method)
