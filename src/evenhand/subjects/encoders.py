"""Hugging Face encoders, masked language models and text classifiers as subjects."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from evenhand.models.classifier import Classifier, TextClassifier
from evenhand.models.encoders.protocol import SentenceEncoder
from evenhand.models.encoders.sentences import TransformerSentences
from evenhand.models.huggingface import Kind, model_kind
from evenhand.models.transformer import Transformer
from evenhand.models.vectors import Vectors
from evenhand.subjects.subject import SUBJECTS, Address, Subject, ViewName, files_digest, folder_kind

KINDS = {
    "encoder": "its config names an encoder",
    "masked-lm": "its config names a masked language model",
    "text-classifier": "its config names a text classifier",
}


@SUBJECTS.register("encoder")
class EncoderSubject(Subject):
    """A transformer that is not a causal language model.

    It offers its input word table as `vectors` and its `sentences`; a text classifier also its `labels`.
    """

    kind = "encoder"
    title = "a Hugging Face encoder"
    options: ClassVar[tuple[str, ...]] = ("device", "precision")

    def __init__(self, folder: Path, address: str = "", *, model_kind: Kind = "encoder", **options: Any) -> None:
        super().__init__(folder.name, address)
        self.folder, self.model_kind = folder, model_kind
        self._device, self._precision = options.get("device") or "auto", options.get("precision") or "float32"

    @cached_property
    def transformer(self) -> Transformer:
        """Model and tokenizer, loaded when a view first needs them."""
        return Transformer.load(self.folder, self.model_kind, device=self._device, precision=self._precision)

    @property
    def offers(self) -> tuple[ViewName, ...]:
        """The input table and sentence vectors; of a classifier also the labels."""
        return ("vectors", "sentences", "labels") if self.model_kind == "text-classifier" else ("vectors", "sentences")

    def _open_view(self, name: ViewName) -> Vectors | SentenceEncoder | Classifier:
        if name == "labels":
            return TextClassifier(self.transformer)
        if name == "sentences":
            return TransformerSentences(self.transformer)
        from evenhand.models.input_table import input_table

        return input_table(self.folder)

    def _content_digest(self) -> str:
        return files_digest(file for file in self.folder.iterdir() if file.is_file())

    def describe(self) -> dict[str, Any]:
        """Name, hash and the kind of model."""
        return super().describe() | {"model": self.model_kind}

    @classmethod
    def recognise(cls, address: Address) -> str:
        """A Hugging Face folder whose config names an encoder, a masked LM or a text classifier."""
        return KINDS.get(folder_kind(address), "")

    @classmethod
    def from_address(cls, address: Address, **options: Any) -> EncoderSubject:
        """Open the folder; weights are read when a view needs them."""
        return cls(address.path, address.text, model_kind=model_kind(address.path), **options)
