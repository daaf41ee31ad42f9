"""Transformers in subjects: the part that models are made of, and the subject that has nothing else."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, cast, get_args

from evenhand.errors import EvenhandWarning, UsageError
from evenhand.models.device import PRECISIONS, device_kind, resolve_device, resolve_precision
from evenhand.models.encoders.classifier import Classifier, TextClassifier
from evenhand.models.encoders.prepared_folder import prepared
from evenhand.models.encoders.sentences import SentenceEncoder, TransformerSentences
from evenhand.models.encoders.transformer import Transformer
from evenhand.models.huggingface_folder import ModelKind, classifier_labels, model_kind, unnamed_labels
from evenhand.models.lm.likelihood import MaskedLikelihood
from evenhand.models.vectors import Vectors
from evenhand.subjects.subject import (
    MODEL_NUMERICS,
    ON_ENGINE,
    SUBJECTS,
    Address,
    Change,
    ViewName,
    describe_change,
    files_digest,
    folder_kind,
)
from evenhand.subjects.tables import TextLabeller

if TYPE_CHECKING:
    from evenhand.models.encoders.folding import Decoder
    from evenhand.models.encoders.saving import SavedModel
    from evenhand.models.outcomes import Outcomes


class ModelChange(Change, Protocol):
    """A fitted change of a transformer, such as a map at a place inside it."""

    def apply_to(self, transformer: Transformer) -> Transformer:
        """Return the changed transformer; the given one stays as it is."""

    def change_table(self, vectors: Vectors) -> Vectors:
        """Return the input table, as word vectors, after the change."""


class TransformerPart:
    """A stored transformer with changes, loaded when a view first needs it.

    Args:
        source: the folder or file of the model.
        load: loads model and tokenizer as they are stored.
        device: where it runs.
        precision: how precisely.

    Attributes:
        changes: the changes applied so far, first to last.
    """

    def __init__(self, source: Path, load: Callable[[], Transformer], *, device: str, precision: str) -> None:
        self.source, self.device, self.precision = source, device, precision
        self.changes: tuple[ModelChange, ...] = ()
        self._load = load
        self._before: TransformerPart | None = None

    @cached_property
    def transformer(self) -> Transformer:
        """Model and tokenizer, after all changes."""
        return self._load() if self._before is None else self.changes[-1].apply_to(self._before.transformer)

    @cached_property
    def table(self) -> Vectors:
        """The input table as word vectors, after all changes; read without loading the model."""
        from evenhand.models.encoders.input_table import input_table

        return input_table(self.source) if self._before is None else self.changes[-1].change_table(self._before.table)

    def sentences(self) -> SentenceEncoder:
        """Return the view `sentences`."""
        return TransformerSentences(self.transformer)

    @property
    def opening(self) -> dict[str, object]:
        """Where the model runs and how precisely: a GPU adds in another order than a CPU, and rounds differently."""
        return {"device": device_kind(self.device), "precision": self.precision}

    def changed(self, change: ModelChange) -> TransformerPart:
        """Return the part with one more change; this one stays as it is."""
        after = TransformerPart(self.source, self._load, device=self.device, precision=self.precision)
        after.changes, after._before = (*self.changes, change), self
        return after

    def check_output(
        self, folder: Path, *, sites: Sequence[str] = (), decoder: str = "untied", hook: bool = False
    ) -> None:
        """Raise if `save` could not write there; `sites` are those at which maps will be."""
        from evenhand.models.encoders.folding import Decoder, require_foldable
        from evenhand.models.encoders.saving import check_target

        if decoder not in get_args(Decoder):
            raise UsageError(f"`decoder={decoder}` is unknown", hint=f"use {' or '.join(get_args(Decoder))}")
        check_target(folder, self.source)
        for site in () if hook else sites:
            require_foldable(self.transformer, site)

    def save(self, folder: Path, *, decoder: str = "untied", hook: bool = False) -> SavedModel:
        """Write the changed model as a folder that plain `transformers` loads.

        The maps are folded into the weights where that is exact. Others are refused, unless `hook` is true: they are
        then kept beside the weights, where `eh.open` finds them and plain transformers does not. Trained weights take
        the place of the stored ones.

        Args:
            folder: where to write; the folder is complete or absent.
            decoder: `untied` separates an output layer that shares the word table first; `tied` changes it too.
            hook: keep maps beside the weights that cannot be folded.
        """
        from evenhand.models.encoders.saving import SavedModel, save_changed

        stored = self
        while stored._before is not None and not hasattr(stored.changes[-1], "folder"):
            stored = stored._before  # the last weights that lie on the disk
        later = self.changes[len(stored.changes) :]
        foreign = [change for change in later if not hasattr(change, "maps")]
        if foreign:
            raise UsageError(f"{foreign[0]!r} is not a map at a site, so the model cannot be saved with it")
        if stored.changes and not later:
            stored.changes[-1].save(folder)
            return SavedModel(folder, {}, (), ())
        maps = [each for change in later for each in getattr(change, "maps", ())]
        record = {"changes": [describe_change(change) for change in self.changes]}
        tied: Decoder = "tied" if decoder == "tied" else "untied"
        return save_changed(stored.transformer, maps, folder, decoder=tied, hook=hook, record=record)


def resolve(device: str | None, precision: str | None, *, supported: Sequence[str] = PRECISIONS) -> tuple[str, str]:
    """Return the device and the precision that are meant; raise `UsageError` when a subject is opened, not later."""
    where = resolve_device(device or "auto")
    return where, resolve_precision(precision or "auto", where, supported=supported)


TITLES: dict[ModelKind, str] = {
    "encoder": "a text encoder",
    "masked-lm": "a masked language model",
    "text-classifier": "a text classifier",
}


@SUBJECTS.register("encoder")
class EncoderSubject(TextLabeller):
    """A transformer that is not a causal language model.

    It offers its input word table as `vectors` and its `sentences`; a masked language model also `likelihood`, a text
    classifier also `labels`, and `outcomes` if it is opened with labelled texts.
    """

    kind = "encoder"
    title = "a text encoder"
    opens = "hf:FOLDER"
    on_engine: ClassVar[tuple[ViewName, ...]] = ON_ENGINE
    libraries: ClassVar[tuple[str, ...]] = MODEL_NUMERICS
    network: TransformerPart
    options: ClassVar[tuple[str, ...]] = ("device", "precision", "allow_pickle", *TextLabeller.text_options)

    def __init__(self, folder: Path, address: str = "", *, model_kind: ModelKind = "encoder", **options: Any) -> None:
        super().__init__(folder.name, address)
        self.folder, self.model_kind, self.title = folder, model_kind, TITLES[model_kind]
        self.likelihood_of = model_kind if model_kind == "masked-lm" else ""
        device, precision = resolve(options.get("device"), options.get("precision") or "float32")
        load = partial(Transformer.load, folder, model_kind, device=device, precision=precision)
        self.network = TransformerPart(folder, load, device=device, precision=precision)
        self.ask_texts(classifier_labels(folder) if model_kind == "text-classifier" else (), options)

    @property
    def offers(self) -> tuple[ViewName, ...]:
        """The input table, sentence vectors; a masked language model its likelihood, a classifier its labels."""
        more: dict[ModelKind, tuple[ViewName, ...]] = {"masked-lm": ("likelihood",), "text-classifier": ("labels",)}
        asked: tuple[ViewName, ...] = ("outcomes",) if self.texts else ()
        return ("vectors", "sentences", *more.get(self.model_kind, ()), *asked)

    def _open_view(self, name: ViewName) -> Vectors | SentenceEncoder | MaskedLikelihood | Classifier | Outcomes:
        if name == "outcomes":
            return self.outcomes()
        if name == "likelihood":
            from evenhand.models.lm.masked import MaskedLM, NextSentenceHead

            model = self.network.transformer
            return MaskedLM(model, next_sentence=NextSentenceHead.load(self.folder, model))
        if name == "labels":
            return TextClassifier(self.network.transformer)
        return self.network.sentences() if name == "sentences" else self.network.table

    def _content_digest(self) -> str:
        return files_digest(file for file in self.folder.iterdir() if file.is_file())

    def describe(self) -> dict[str, object]:
        """Name, hash and the kind of model."""
        return super().describe() | {"model": self.model_kind}

    @classmethod
    def recognise(cls, address: Address) -> str:
        """A Hugging Face folder whose config names an encoder, a masked LM or a text classifier."""
        title = TITLES.get(cast(ModelKind, folder_kind(address)))
        return f"its config names {title}" if title else ""

    @classmethod
    def from_address(cls, address: Address, **options: Any) -> EncoderSubject:
        """Open the folder; weights are read when a view needs them."""
        folder = prepared(address.path, allow_pickle=bool(options.pop("allow_pickle", False)))
        if names := unnamed_labels(folder):
            warnings.warn(
                f"{address.text}: its labels have no names ({', '.join(names)}), so it is read as a text classifier; "
                "for an NLI model name their order: `labels='c,n,e'`",
                EvenhandWarning,
                stacklevel=3,
            )
        return cls(folder, address.text, model_kind=model_kind(folder), **options)
