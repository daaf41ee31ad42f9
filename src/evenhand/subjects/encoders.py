"""Hugging Face encoders, masked language models and text classifiers as subjects."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, ClassVar, cast

from evenhand.errors import EvenhandWarning
from evenhand.models.encoders.classifier import Classifier, TextClassifier
from evenhand.models.encoders.prepared_folder import prepared
from evenhand.models.encoders.sentences import SentenceEncoder
from evenhand.models.encoders.transformer import Transformer
from evenhand.models.huggingface_folder import ModelKind, model_kind, unnamed_labels
from evenhand.models.lm.likelihood import MaskedLikelihood
from evenhand.models.vectors import Vectors
from evenhand.subjects.subject import SUBJECTS, Address, ViewName, files_digest, folder_kind
from evenhand.subjects.transformer_subject import TransformerSubject, resolve

TITLES: dict[ModelKind, str] = {
    "encoder": "a text encoder",
    "masked-lm": "a masked language model",
    "text-classifier": "a text classifier",
}


@SUBJECTS.register("encoder")
class EncoderSubject(TransformerSubject):
    """A transformer that is not a causal language model.

    It offers its input word table as `vectors` and its `sentences`; a masked language model also `likelihood`, a text
    classifier also `labels`.
    """

    kind = "encoder"
    title = "a text encoder"
    options: ClassVar[tuple[str, ...]] = ("device", "precision", "allow_pickle")

    def __init__(self, folder: Path, address: str = "", *, model_kind: ModelKind = "encoder", **options: Any) -> None:
        super().__init__(folder.name, address)
        self.folder, self.model_kind, self.title = folder, model_kind, TITLES[model_kind]
        self.likelihood_of = model_kind if model_kind == "masked-lm" else ""
        self._device, self._precision = resolve(options.get("device"), options.get("precision") or "float32")

    def _load(self) -> Transformer:
        return Transformer.load(self.folder, self.model_kind, device=self._device, precision=self._precision)

    @property
    def offers(self) -> tuple[ViewName, ...]:
        """The input table, sentence vectors; a masked language model its likelihood, a classifier its labels."""
        more: dict[ModelKind, tuple[ViewName, ...]] = {"masked-lm": ("likelihood",), "text-classifier": ("labels",)}
        return ("vectors", "sentences", *more.get(self.model_kind, ()))

    def _open_view(self, name: ViewName) -> Vectors | SentenceEncoder | MaskedLikelihood | Classifier:
        if name == "likelihood":
            from evenhand.models.lm.masked import MaskedLM, NextSentenceHead

            return MaskedLM(self.transformer, next_sentence=NextSentenceHead.load(self.folder, self.transformer))
        if name == "labels":
            return TextClassifier(self.transformer)
        return self._sentences() if name == "sentences" else self._input_table()

    def _stored_table(self) -> Vectors:
        from evenhand.models.encoders.input_table import input_table

        return input_table(self.folder)

    def _content_digest(self) -> str:
        return files_digest(file for file in self.folder.iterdir() if file.is_file())

    def describe(self) -> dict[str, Any]:
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
