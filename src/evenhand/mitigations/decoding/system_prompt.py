"""A system prompt as a mitigation: an instruction in front of every conversation, measured like any other method."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from evenhand.errors import UsageError
from evenhand.mitigations.json_change import JsonChange
from evenhand.mitigations.method import CHAT, Mitigation, Target, require_groups
from evenhand.mitigations.registry import MITIGATIONS
from evenhand.subjects.subject import Subject
from evenhand.words import Concept

PROMPT = (
    "Treat all people alike, whatever their {concept}. Do not let a name, a pronoun or any other sign of {concept} "
    "decide an answer. If the text does not say who is meant, say that it is not known."
)
CONTROL = (
    "Read the whole text before you answer. Do not let its length, its spelling or the order of its sentences decide "
    "an answer. If a question has several parts, answer the last of them."
)


@dataclass(frozen=True, eq=False)
class PromptChange(JsonChange):
    """A system prompt; called on a subject, it returns the subject with this prompt in front of every conversation.

    Only conversations change: every other view reads texts without a prompt.

    Attributes:
        system: the prompt; a prompt that the subject has already stays in front of it.
        report: what the method says.
    """

    acts_on: ClassVar[str] = "prompt"
    title: ClassVar[str] = "a system prompt"

    system: str
    report: Mapping[str, object] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if not self.system.strip():
            raise UsageError("a system prompt needs a text", hint="leave text out for that of the concept")

    def content(self) -> list[object]:
        """Return the prompt."""
        return ["system-prompt", self.system]

    def describe(self) -> dict[str, object]:
        """Return what a record keeps of the change."""
        return {"method": "system-prompt", "system": self.system, "changed_views": ["chat"], "sha256": self.digest}

    def stored(self) -> dict[str, object]:
        """Return what a record keeps."""
        return self.describe()

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> PromptChange:
        """Load a change from its file."""
        return cls._read(path, lambda about: cls(about["system"], about["report"]))


@MITIGATIONS.register("system-prompt")
@dataclass(frozen=True)
class SystemPrompt(Mitigation):
    """Put an instruction in front of every conversation: the only change that a model behind a server allows.

    Nothing is learned and no weight changes. Instructions lower the measured discrimination of some models (Tamkin et
    al. 2023); whether this one does on your model is what an audit shows. Any instruction changes the answers: the
    control is a text of about the same length that says nothing about people.

    What it does not do: change what the model knows or writes without a conversation, and bind the model. A user may
    ask it to ignore the instruction.

    Args:
        text: The instruction; None: a text that names the concept.
        control: Whether a text about something else takes its place.
    """

    id: ClassVar[str] = "system-prompt"
    title: ClassVar[str] = "System prompt"
    formula: ClassVar[str] = "P(answer | instruction, conversation)"
    cites: ClassVar[tuple[str, ...]] = ("tamkin2023",)
    limits: ClassVar[str] = (
        "Changes answers in conversations only, as far as the model follows instructions; small models hardly do. "
        "Depends on every word of the text. Takes tokens of each request."
    )
    works_on: ClassVar[tuple[Target, ...]] = (CHAT,)
    elsewhere: ClassVar[str] = "open a model with a chat template, or a server: openai:URL#MODEL"
    not_written: ClassVar[str] = "it changes the prompt, not weights"

    text: str | None = None
    control: bool = False

    def _check(self, concept: Concept) -> None:
        require_groups(concept, self.id)
        if self.text is not None and self.control:
            raise UsageError("the control has a text of its own", hint="leave text or control out")
        self._change(concept)

    def _fit_subject(self, subject: Subject, concept: Concept) -> PromptChange:
        return self._change(concept)

    def _change(self, concept: Concept) -> PromptChange:
        shipped = CONTROL if self.control else PROMPT.format(concept=concept.name)
        system = shipped if self.text is None else self.text
        params = {"text": system, "control": self.control}
        details = {"concept": concept.name, "params": params, "changed_views": ["chat"]}
        return PromptChange(system, self._about() | details)
