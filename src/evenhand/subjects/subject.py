"""`Subject`: something that can be audited, and the views it offers to measures."""

from __future__ import annotations

import hashlib
import json
import os
import re
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, Self, TypeVar, get_args, runtime_checkable

from evenhand.corpus.readers.source import TextSource
from evenhand.engines import Engine
from evenhand.errors import UsageError, unknown_name
from evenhand.registry import Registry

if TYPE_CHECKING:
    from evenhand.models.endpoint.views import Demand
    from evenhand.subjects.transformer_subjects import TransformerPart

ViewName = Literal[
    "vectors", "sentences", "likelihood", "inference", "labels", "text", "generation", "chat", "outcomes"
]  # fmt: skip
AWD_LSTM = "awd-lstm"  # the kind that the config.json of `evenhand lm train` names
VIEWS: tuple[ViewName, ...] = get_args(ViewName)
ON_ENGINE: tuple[ViewName, ...] = ("sentences", "likelihood", "labels", "inference")  # of models that workers load
PARTS = {
    "vectors": "word vectors",
    "transformer": "a transformer",
    "text": "the text of a corpus",
    "outcomes": "decisions",
    "prompt": "a prompt",
}  # in words
# Packages whose releases change numbers. numpy may change the stream of random numbers that a seed gives, and scipy and
# scikit-learn the solvers that classifiers and tests use. Readers of files (polars, safetensors, gensim) give the same
# content or fail, and the content is hashed.
NUMERICS = ("numpy", "scipy", "scikit-learn")
# torch changes kernels, transformers the code of models and their defaults, tokenizers where texts are cut.
MODEL_NUMERICS = (*NUMERICS, "torch", "transformers", "tokenizers")


class Change(Protocol):
    """A fitted method: a frozen function from a subject to the changed subject, of the same kind.

    A change acts on one part of a subject: a table of vectors, a transformer, the documents of a text. It can be called
    on every subject that has the part.
    """

    acts_on: ClassVar[str]
    """The part of a subject that it changes, one of `Subject.changeable`: vectors, transformer, text, outcomes."""

    @property
    def report(self) -> Mapping[str, Any]:
        """What the method says about the fit: method, params, concept, what was removed."""

    @property
    def digest(self) -> str:
        """Hash of everything that decides what the change does; the report is not included."""

    def __call__(self, subject: AnySubject, /) -> AnySubject:
        """Return the changed subject; the given one stays as it is."""

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the change; raise `UsageError` where it cannot be stored."""

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Change:
        """Read what `save` wrote; raise `FormatError` if the file is damaged or something else."""


class Written(Protocol):
    """What `Subject.save` wrote."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""


@dataclass(frozen=True)
class TextView:
    """A stream of documents, from files, from memory or from a model.

    `counting` are options of `corpus.bias` about words (tokenizer, window), and `about` describes where the text comes
    from, such as the settings of the model that wrote it.
    """

    name: str
    source: TextSource
    counting: Mapping[str, Any] = field(default_factory=dict)
    about: Mapping[str, Any] = field(default_factory=dict)


@runtime_checkable
class PromptWriter(Protocol):
    """What the view `generation` offers: a model that continues texts."""

    name: str

    def continuations(
        self, prompts: Sequence[str], *, samples: int, tokens: int, temperature: float = 1.0, seed: int = 0
    ) -> list[list[str]]:
        """Return `samples` continuations of each prompt, without the prompt.

        The i-th continuation of every prompt uses the same random numbers, which depend on the seed and i alone, so
        that prompts which mean the same to the model are continued in the same way.
        """


class Subject(ABC):
    """Something that can be audited. It offers views, and a measure asks for one.

    Attributes:
        name: short name for tables.
        address: what `eh.open` was given, or an empty string for an object.
    """

    kind: ClassVar[str]
    title: str
    """The kind in words, for messages: "word vectors"; of a class, or more exactly of a subject."""
    options: ClassVar[tuple[str, ...]] = ()
    """Names of the keyword options that `from_address` accepts."""
    likelihood_of: str = ""
    """The kind of model behind the view `likelihood`: masked-lm, causal-lm, or empty where there is none."""
    schemes: ClassVar[tuple[str, ...]] = ()
    """What else than the id of the kind may stand in front of the colon of an address."""
    opens: ClassVar[str] = ""
    """The addresses of this kind in words, for messages: "a vector file or catalog id"."""
    instead_of_changes: str = "audit it without methods: `evenhand audit --no-methods`"
    """What to do with a subject that no change applies to, for messages."""
    changed_by_default: ClassVar[bool] = False
    """Whether an audit that names no method applies the default ones."""
    on_engine: ClassVar[tuple[ViewName, ...]] = ()
    """The views that an engine can compute; the others are computed by this process."""
    libraries: ClassVar[tuple[str, ...]] = NUMERICS
    """The packages whose releases change what is measured."""
    network: TransformerPart | None = None
    """The transformer that the views are built from, where there is one."""
    changes: tuple[Change, ...] = ()
    """The changes applied so far, first to last."""
    _before: Self | None = None

    def __init__(self, name: str, address: str = "") -> None:
        self.name = name
        self.address = address
        self.opened_with: dict[str, Any] = {}
        """The options that `eh.open` was given; with the address they open the same subject again."""
        self.engine: Engine | None = None
        """Where views are computed, see `run_on`; None is this process."""
        self._views: dict[str, Any] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process opens the same address instead of receiving the content, and applies the changes again."""
        from evenhand.subjects.opening import absolute_address, reopen

        if self._before is not None:
            return _change_again, (self.unchanged, self.changes)
        if not self.address:
            raise UsageError(f"{self.name} is only in memory", hint="save it and open the file")
        return reopen, (absolute_address(self.address), tuple(sorted(self.opened_with.items())), self.name)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, offers {', '.join(self.offers) or 'nothing'})"

    @property
    @abstractmethod
    def offers(self) -> tuple[ViewName, ...]:
        """The views this subject has."""

    @property
    def own_groups(self) -> Mapping[str, tuple[str, ...]]:
        """The groups that the subject itself names, by grouping; empty where the words of a concept name them."""
        return {}

    @property
    def asked_by_default(self) -> tuple[ViewName, ...]:
        """The views whose measures an audit asks without being told to."""
        return self.offers

    @abstractmethod
    def _open_view(self, name: ViewName) -> object:
        """Build the view with this name, which is one of `offers`."""

    @abstractmethod
    def _content_digest(self) -> str:
        """Hash of everything that decides what the views say."""

    def view(self, name: str) -> Any:
        """Return a view by name; it is built once."""
        if name not in VIEWS:
            raise unknown_name("view", name, VIEWS)
        if name not in self.offers:
            raise UsageError(
                f"{self.name} ({self.title}) does not offer the view {name!r}",
                hint=f"it offers {', '.join(self.offers) or 'no view'}",
            )
        if name not in self._views:
            where = self.engine if name in self.on_engine else None
            self._views[name] = self._open_view(name) if where is None else self._view_on(where, name)
            if folder := vars(self).get("live_folder"):  # a view may read it after the subject is gone
                weakref.finalize(self._views[name], id, folder)
        return self._views[name]

    def text(self, *, samples: int | None = None, tokens: int | None = None, seed: int = 0) -> TextView:
        """Return the view `text`: documents as they are, or as many as a model is asked to write.

        Args:
            samples: number of texts that a model writes.
            tokens: the largest number of tokens in each of them.
            seed: seed of the texts.
        """
        view: TextView = self.view("text")
        return view

    def run_on(self, engine: Engine | None) -> Self:
        """Compute the views `likelihood`, `sentences`, `labels` and `inference` of a model on an engine.

        The workers open the address, which they must be able to read. Measures give the same results as in one
        process, up to rounding: models read the texts in other batches. Subjects changed from this one use the engine
        too. Keep the engine open as long as the subject is measured.

        Args:
            engine: an engine of `evenhand.engines`; None for this process.

        Returns:
            This subject.

        Raises:
            UsageError: If no view of the subject can be computed on an engine.
        """
        if engine is not None and not any(view in self.on_engine for view in self.offers):
            raise UsageError(
                f"{self.name} is {self.title}, which is measured by this process", hint="leave the engine out"
            )
        self.engine, self._views = None if engine is None or engine.here else engine, {}
        return self

    def _view_on(self, engine: Engine, name: ViewName) -> object:
        """Build a view that an engine computes, which is one of `on_engine`."""
        from evenhand.subjects.sharded_views import shard_view

        return shard_view(self, name, engine)

    def rehearsal(self) -> tuple[Subject, Demand] | None:
        """Return a subject that invents its answers, and what it would have asked; None where asking costs nothing."""
        return None

    @property
    def tokens_spent(self) -> int:
        """Tokens that somebody bills."""
        return 0

    def change_since(self, folder: Path) -> str:
        """Return a sentence where the subject was another one when it was asked before in a folder; else nothing."""
        return ""

    @cached_property
    def digest(self) -> str:
        """Hash of the content and of every change: the same for the same content, wherever it lies."""
        content = self._content_digest()
        if not self.changes:
            return content
        return hashlib.sha256(repr([content, *(change.digest for change in self.changes)]).encode()).hexdigest()

    @property
    def opening(self) -> dict[str, object]:
        """The options in effect that decide what the views say, beside the content that `digest` hashes.

        A kind whose content shows some of its options leaves those out, and resolves names (`auto` is cpu or cuda), so
        two ways of saying the same are equal. By default these are all options that were given; of a transformer,
        where it runs and how precisely.
        """
        return self._given() if self.network is None else self.network.opening

    def _given(self) -> dict[str, object]:
        """The options that were given, as a record holds them; maps and other objects are part of the content."""
        given = {name: value for name, value in self.opened_with.items() if is_plain(value)}
        return {
            name: without_secrets(str(value)) if isinstance(value, str | Path) else value
            for name, value in given.items()
        }

    def _opened_by(self) -> dict[str, object]:
        """Return the options as a record holds them: those in effect, and others that were given."""
        return self._given() | self.opening

    @property
    def opening_digest(self) -> str:
        """Hash of everything about the subject that decides a measurement: stored results are found by it.

        It covers the content, how it was opened, the releases of the libraries that compute with it, and the engine,
        which reads texts in other batches and may have other devices.
        """
        engine = type(self.engine).__name__ if self.engine is not None else ""
        parts = [self.digest, self.opening, installed_versions(self.libraries), engine]
        return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()

    def describe(self) -> dict[str, object]:
        """Return what a record keeps of the subject."""
        plain: dict[str, object] = {
            "name": self.name,
            "kind": self.kind,
            "address": without_secrets(self.address),
            "offers": list(self.offers),
            "sha256": self.digest,
            "opening": self._opened_by(),
        }
        return plain | {"changes": [describe_change(change) for change in self.changes]} if self.changes else plain

    @property
    def changeable(self) -> tuple[str, ...]:
        """The parts that a change can act on: `transformer`, `vectors`, `text`, or one of another package."""
        return () if self.network is None else ("transformer",)

    def changed(self, change: Change) -> Self:
        """Return the subject after a fitted change; this one stays as it is."""
        if change.acts_on not in self.changeable:
            part = PARTS.get(change.acts_on, change.acts_on)
            raise UsageError(
                f"{type(change).__name__} changes {part}; {self.name} is {self.title}", hint=self.instead_of_changes
            )
        after = self._copy()
        after._before, after.changes = self, (*self.changes, change)
        after._apply(change)
        return after

    def _copy(self) -> Self:
        """Return the subject without what was computed from its content."""
        after = object.__new__(type(self))  # copy.copy would open the address again, see __reduce__
        computed = {
            name
            for kind in type(self).__mro__
            for name, value in vars(kind).items()
            if isinstance(value, cached_property)
        }
        vars(after).update({name: value for name, value in vars(self).items() if name not in computed})
        after._views = {}
        return after

    def _apply(self, change: Change) -> None:
        """Apply a change that acts on a part of this subject, which is a copy already."""
        if self.network is not None:
            self.network = self.network.changed(change)  # type: ignore[arg-type]  # it acts on a transformer

    def require_network(self) -> TransformerPart:
        """Return the transformer; raise `UsageError` if the subject has none."""
        if self.network is None:
            raise UsageError(f"{self.name} is {self.title}, not a transformer", hint="open a model: hf:FOLDER")
        return self.network

    @property
    def unchanged(self) -> Self:
        """The subject before the first change."""
        first = self
        while first._before is not None:
            first = first._before
        return first

    def check_output(self, out: Path, *, sites: Sequence[str] = (), parts: Sequence[str] = (), **options: Any) -> None:
        """Raise if `save` could not write there, before a method is fitted for minutes.

        Args:
            out: where the subject will be written.
            sites: where in a transformer the methods will act.
            parts: the parts of the subject that they will change.
            **options: the options of `save`.
        """
        if any(change.acts_on == "prompt" for change in self.changes):
            raise UsageError(f"{self.name} is changed by a prompt, which no file of a model holds", hint="audit it")
        if self.network is None:
            raise UsageError(f"{self.name} is {self.title}, which cannot be written", hint=self.instead_of_changes)
        self.network.check_output(out, sites=sites, **options)

    def save(self, out: str | os.PathLike[str], **options: Any) -> Written:
        """Write the subject with its changes, in a form that others read; the output is complete or absent.

        Word vectors are written in the format of the suffix, a corpus as the files it has, a transformer as a folder
        that plain `transformers` loads (options `decoder` and `hook`, see `TransformerPart.save`).
        """
        self.check_output(Path(out), **options)
        if self.network is None:
            raise NotImplementedError(f"{type(self).__name__} says that it can be written and does not define save")
        return self.network.save(Path(out), **options)

    @classmethod
    def recognise(cls, address: Address) -> str:
        """Return why an address is of this kind ("its name ends in .gguf"), or an empty string if it is not."""
        return ""

    @classmethod
    def from_object(cls, source: object, **options: Any) -> Subject | None:
        """Wrap an object in memory, or return None if it is not of this kind."""
        return None

    @classmethod
    def from_address(cls, address: Address, **options: Any) -> Subject:
        """Open an address that `recognise` accepts."""
        raise NotImplementedError


@dataclass(frozen=True)
class Address:
    """What a user typed: an optional kind in front of a colon, and a path, glob, URL or catalog id."""

    text: str
    scheme: str
    rest: str
    path: Path
    """Where it lies on this disk: the path typed, or that of the fetched catalog entry."""
    entry_kind: str = ""
    """Kind of the catalog entry, when the text is the id of one."""

    def named(self, *suffixes: str) -> str:
        """Return the suffix that the name ends in, compressed or not, or an empty string."""
        name = self.path.name.lower()
        for packed in (".gz", ".zst", ".bz2", ".xz"):
            name = name.removesuffix(packed)
        return next((suffix for suffix in suffixes if name.endswith(suffix)), "")


AnySubject = TypeVar("AnySubject", bound=Subject)
SUBJECTS: Registry[type[Subject]] = Registry("kind of subject", ("evenhand.subjects",), group="evenhand.subjects")


def describe_change(change: Change) -> dict[str, object]:
    """Return what a record keeps of a change."""
    describe: Callable[[], dict[str, object]] | None = getattr(change, "describe", None)
    return describe() if describe else {**change.report, "sha256": change.digest}


def join_prompts(*prompts: str) -> str:
    """Return system prompts as one, the first in front."""
    return "\n\n".join(prompt for prompt in prompts if prompt)


def _change_again(subject: Subject, changes: tuple[Change, ...]) -> Subject:
    for change in changes:
        subject = subject.changed(change)
    return subject


@cache
def installed_versions(packages: tuple[str, ...]) -> dict[str, str]:
    """Return the versions of those packages that are installed."""
    versions: dict[str, str] = {}
    for package in packages:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions


def is_plain(value: object) -> bool:
    """Return whether a record can hold an option: a number, a text or a path."""
    return isinstance(value, str | int | float | bool | Path)


SECRETS = re.compile(
    r"(?<=://)[^/@\s]+@|(?<=[?&])(?:sig|[^=&#\s]*(?:key|token|secret|signature|password|credential)[^=&#\s]*)=[^&#\s]*",
    re.IGNORECASE,
)


def without_secrets(text: str) -> str:
    """Return an address without what opens it: the user and password of a URL, and keys and tokens in its query."""
    return SECRETS.sub(lambda found: "***@" if found[0].endswith("@") else f"{found[0].partition('=')[0]}=***", text)


def files_digest(paths: Iterator[Path]) -> str:
    """Hash names and contents of files."""
    hasher = hashlib.sha256()
    for path in sorted(paths):
        hasher.update(f"{path.name}\0".encode(errors="surrogateescape"))
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                hasher.update(block)
    return hasher.hexdigest()


def folder_kind(address: Address) -> str:
    """Return the kind of model in a folder with a config.json: `awd-lstm`, or a kind of Hugging Face model.

    The result is empty for anything else, unless the address begins with hf:, which makes it an error.
    """
    from evenhand.models.huggingface_folder import ADAPTER, model_kind

    if (address.path / ADAPTER).is_file():
        from evenhand.models.encoders.prepared_folder import adapter_kind

        return adapter_kind(address.path)
    if address.scheme == "hf":
        return model_kind(address.path)
    config = address.path / "config.json"
    if not config.is_file():
        return model_kind(address.path) if (address.path / "modules.json").is_file() else ""
    try:
        kind = json.loads(config.read_text(encoding="utf-8")).get("kind")
    except (OSError, ValueError, AttributeError, RecursionError):
        kind = None
    return AWD_LSTM if kind == AWD_LSTM else model_kind(address.path)
