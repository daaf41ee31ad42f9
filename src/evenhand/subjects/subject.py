"""`Subject`: something that can be audited, and the views it offers to measures."""

from __future__ import annotations

import hashlib
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, Self, get_args, runtime_checkable

from evenhand.corpus.readers.changed import ChangedSource, DocumentChange
from evenhand.corpus.readers.source import Corpus, ReadArguments, TextSource
from evenhand.engines import Engine
from evenhand.errors import UsageError, unknown_name
from evenhand.models.vectors import Vectors
from evenhand.registry import Registry

ViewName = Literal["vectors", "sentences", "likelihood", "inference", "labels", "text", "generation"]
AWD_LSTM = "awd-lstm"  # the kind that the config.json of `evenhand lm train` names
VIEWS: tuple[ViewName, ...] = get_args(ViewName)
# Packages whose releases change numbers. numpy may change the stream of random numbers that a seed gives, and scipy and
# scikit-learn the solvers that classifiers and tests use. Readers of files (polars, safetensors, gensim) give the same
# content or fail, and the content is hashed.
NUMERICS = ("numpy", "scipy", "scikit-learn")
# torch changes kernels, transformers the code of models and their defaults, tokenizers where texts are cut.
MODEL_NUMERICS = (*NUMERICS, "torch", "transformers", "tokenizers")


class VectorChange(Protocol):
    """A fitted change of vectors, such as a `VectorMap`."""

    def __call__(self, vectors: Vectors, /) -> Vectors:
        """Return the changed vectors."""


@dataclass(frozen=True)
class TextView:
    """A stream of documents: files, folders, globs or addresses, and how they are read.

    `options` are reader options of `corpus.bias` (documents, field, format, tokenizer); `about` describes where the
    text comes from, such as the settings of the model that wrote it; `change` is applied while the text is read.
    """

    name: str
    paths: tuple[str, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    about: Mapping[str, Any] = field(default_factory=dict)
    change: DocumentChange | None = None

    def source(self) -> TextSource:
        """Return the documents, changed where the view has a change."""
        reading = {name: value for name, value in self.options.items() if name in ReadArguments.__annotations__}
        corpus = Corpus(list(self.paths), **reading)
        return corpus if self.change is None else ChangedSource(corpus, self.change)

    @property
    def counting(self) -> dict[str, Any]:
        """The options that are about words, not about reading."""
        return {name: value for name, value in self.options.items() if name not in ReadArguments.__annotations__}


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
    changed_by_default: ClassVar[bool] = False
    """Whether an audit that names no method applies the default ones."""
    on_engine: ClassVar[tuple[ViewName, ...]] = ()
    """The views that an engine can compute; the others are computed by this process."""
    libraries: ClassVar[tuple[str, ...]] = NUMERICS
    """The packages whose releases change what is measured."""

    def __init__(self, name: str, address: str = "") -> None:
        self.name = name
        self.address = address
        self.opened_with: dict[str, Any] = {}
        """The options that `eh.open` was given; with the address they open the same subject again."""
        self.engine: Engine | None = None
        """Where views are computed, see `run_on`; None is this process."""
        self._views: dict[str, Any] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process opens the same address instead of receiving the content."""
        from evenhand.subjects.opening import absolute_address, reopen

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
    def asked_by_default(self) -> tuple[ViewName, ...]:
        """The views whose measures an audit asks without being told to."""
        return self.offers

    @abstractmethod
    def _open_view(self, name: ViewName) -> Any:
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

    def _view_on(self, engine: Engine, name: ViewName) -> Any:
        """Build a view that an engine computes, which is one of `on_engine`."""
        from evenhand.subjects.sharded_views import shard_view

        return shard_view(self, name, engine)

    @cached_property
    def digest(self) -> str:
        """Hash of the content: the same for the same content, wherever it lies."""
        return self._content_digest()

    @property
    def opening(self) -> dict[str, Any]:
        """The options in effect that decide what the views say, beside the content that `digest` hashes.

        A kind whose content shows some of its options leaves those out, and resolves names (`auto` is cpu or cuda), so
        that two ways of saying the same are equal. By default these are all options that were given.
        """
        return self._given()

    def _given(self) -> dict[str, Any]:
        """The options that were given, as a record holds them; maps and other objects are part of the content."""
        given = {name: value for name, value in self.opened_with.items() if is_plain(value)}
        return {
            name: without_secrets(str(value)) if isinstance(value, str | Path) else value
            for name, value in given.items()
        }

    @property
    def opening_digest(self) -> str:
        """Hash of everything about the subject that decides a measurement: stored results are found by it.

        It covers the content, how it was opened, the releases of the libraries that compute with it, and the engine,
        which reads texts in other batches and may have other devices.
        """
        engine = type(self.engine).__name__ if self.engine is not None else ""
        parts = [self.digest, self.opening, installed_versions(self.libraries), engine]
        return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()

    def describe(self) -> dict[str, Any]:
        """Return what a record keeps of the subject."""
        return {
            "name": self.name,
            "kind": self.kind,
            "address": without_secrets(self.address),
            "offers": list(self.offers),
            "sha256": self.digest,
            "opening": self._given() | self.opening,
        }

    def changed(self, change: Any) -> Subject:
        """Return the subject after a fitted change: a `VectorChange`, a `ModelChange` or a `DocumentChange`."""
        raise UsageError(
            f"{self.name} ({self.title}) cannot be changed by a map of word vectors",
            hint="audit it without methods: `evenhand audit --no-methods`",
        )

    @property
    def can_change(self) -> bool:
        """Whether `changed` works."""
        return type(self).changed is not Subject.changed

    @classmethod
    def recognise(cls, address: Address) -> str:
        """Return why an address is of this kind ("its name ends in .gguf"), or an empty string if it is not."""
        return ""

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


SUBJECTS: Registry[type[Subject]] = Registry("kind of subject", ("evenhand.subjects",), group="evenhand.subjects")


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
