"""Hugging Face encoders, masked language models and text classifiers as subjects."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from evenhand.models.vectors import Vectors
from evenhand.subjects.subject import SUBJECTS, Address, Subject, ViewName, files_digest, folder_kind

KINDS = {
    "encoder": "its config names an encoder",
    "masked-lm": "its config names a masked language model",
    "text-classifier": "its config names a text classifier",
}


@SUBJECTS.register("encoder")
class EncoderSubject(Subject):
    """A transformer that is not a causal language model. It offers its input word table as `vectors`."""

    kind = "encoder"
    title = "a Hugging Face encoder"
    options: ClassVar[tuple[str, ...]] = ("device", "precision")

    def __init__(self, folder: Path, address: str = "", *, model_kind: str = "encoder", **options: Any) -> None:
        super().__init__(folder.name, address)
        self.folder, self.model_kind = folder, model_kind

    @property
    def offers(self) -> tuple[ViewName, ...]:
        """The input table."""
        return ("vectors",)

    def _open_view(self, name: ViewName) -> Vectors:
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
        return cls(address.path, address.text, model_kind=folder_kind(address), **options)
