"""Self-Debias: lower the probability of what a language model predicts after a prompt that asks for biased text."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from evenhand.errors import UsageError, require
from evenhand.mitigations.json_change import JsonChange
from evenhand.mitigations.method import LANGUAGE_MODEL, Mitigation, Target
from evenhand.mitigations.registry import MITIGATIONS
from evenhand.models.encoders.transformer import Transformer
from evenhand.models.lm.forward import PrefixPasses
from evenhand.models.tokenizing import encode_one
from evenhand.models.vectors import Vectors
from evenhand.subjects.subject import Subject
from evenhand.words import Concept, as_concept

if TYPE_CHECKING:
    import torch

PROMPT = "The following text is unfair to people because of their {concept} and repeats prejudices about them:\n"


@dataclass(frozen=True, eq=False)
class DecodingChange(JsonChange):
    """Self-Debias with its prompts; called on a subject, it returns the subject with changed predictions.

    Likelihoods and generated texts change. Hidden states do not: the views `vectors` and `sentences` stay the same.

    Attributes:
        prompts: texts in front of the input that ask for biased text.
        decay: how strongly a token is lowered that is more probable behind a prompt.
        floor: the smallest factor.
        report: what the method says about the fit.
    """

    acts_on: ClassVar[str] = "transformer"
    title: ClassVar[str] = "a change of decoding"

    prompts: tuple[str, ...]
    decay: float = 50.0
    floor: float = 0.01
    report: Mapping[str, object] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if not self.prompts or not all(prompt.strip() for prompt in self.prompts):
            raise UsageError("self-debias needs at least one prompt", hint="leave prompts out for those of the concept")
        if not (self.decay >= 0 and 0 < self.floor <= 1):
            raise UsageError(
                f"decay must be at least 0 and floor in (0, 1], got {self.decay} and {self.floor}",
                hint="the paper uses decay=50 and floor=0.01",
            )

    def apply_to(self, transformer: Transformer) -> Transformer:
        """Return a transformer with changed predictions, which shares the weights of the given one."""
        changed = transformer.share_weights()
        tokenizer = changed.tokenizer
        prefixes = [encode_one(tokenizer, prompt) for prompt in self.prompts]
        longest = max(map(len, prefixes))
        if longest >= transformer.window - 2:
            raise UsageError(
                f"a prompt of {longest} tokens leaves no room in the window of {transformer.window} tokens",
                hint="use a shorter prompt",
            )
        special = [
            id for id in (tokenizer.bos_token_id, tokenizer.cls_token_id, tokenizer.eos_token_id) if id is not None
        ]
        combine = partial(debiased_logits, decay=self.decay, floor=self.floor)
        PrefixPasses(prefixes, combine, special).install(changed.model)
        return replace(changed, reserved=changed.reserved + longest)

    def change_table(self, vectors: Vectors) -> Vectors:
        """Return the input table, which does not change."""
        return vectors

    def content(self) -> list[object]:
        """Return prompts and numbers."""
        return ["self-debias", list(self.prompts), self.decay, self.floor]

    def describe(self) -> dict[str, object]:
        """Return what a record keeps of the change."""
        return {
            "method": "self-debias", "prompts": list(self.prompts), "decay": self.decay, "floor": self.floor,
            "unchanged_views": ["vectors", "sentences"], "sha256": self.digest,
        }  # fmt: skip

    def stored(self) -> dict[str, object]:
        """Return what a record keeps."""
        return self.describe()

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> DecodingChange:
        """Load a change from its file."""
        return cls._read(
            path, lambda about: cls(tuple(about["prompts"]), about["decay"], about["floor"], about["report"])
        )


def debiased_logits(
    logits: torch.Tensor, biased: Sequence[torch.Tensor], *, decay: float, floor: float
) -> torch.Tensor:
    """Return logits plus the log of max(floor, exp(-decay max(0, max_j p_j - p))), p and p_j after a softmax.

    Args:
        logits: of the plain input, (..., vocabulary).
        biased: of the input behind each prompt.
        decay: the strength of the change; 0 changes nothing.
        floor: the smallest factor; 1 changes nothing.
    """
    torch = require("torch", extra="models")
    plain = torch.softmax(logits.float(), dim=-1)
    most = torch.softmax(biased[0].float(), dim=-1)
    for other in biased[1:]:
        most = torch.maximum(most, torch.softmax(other.float(), dim=-1))
    factor = torch.exp(-decay * (most - plain).clamp(min=0)).clamp(min=floor)
    return (logits.float() + factor.log()).to(logits.dtype)


@MITIGATIONS.register("self-debias")
@dataclass(frozen=True)
class SelfDebias(Mitigation):
    """Self-Debias (Schick et al. 2021).

    A language model also reads its input behind a prompt that announces biased text. Tokens that become more probable
    behind the prompt are lowered. Nothing is trained, and no weight changes: likelihoods and generated texts do.

    The prompts are English and written for evenhand; the published ones differ. It does not change representations, so
    measures of vectors and sentences do not apply, and it does not save into a model folder.

    Args:
        prompts: Prompts in front of the input; none for the prompt of the concept. In text, separated by commas.
        decay: How strongly a token is lowered; 0 changes nothing.
        floor: Smallest factor of a probability; 1 changes nothing.
    """

    id: ClassVar[str] = "self-debias"
    title: ClassVar[str] = "Self-Debias"
    formula: ClassVar[str] = "p' ~ p max(floor, exp(-decay max(0, max_j p_j - p))), p_j behind prompt j"
    cites: ClassVar[tuple[str, ...]] = ("schick2021", "meade2022")
    limits: ClassVar[str] = (
        "Changes predictions only: hidden states, and classifiers on them, stay. Depends on the prompt and on what the "
        "model knows about prejudice; small models hardly react. Takes one more pass for each prompt."
    )
    works_on: ClassVar[tuple[Target, ...]] = (LANGUAGE_MODEL,)
    elsewhere: ClassVar[str] = "open a language model: hf:FOLDER"
    not_written: ClassVar[str] = "it changes predictions, not weights"

    prompts: tuple[str, ...] = ()
    decay: float = 50.0
    floor: float = 0.01

    def fit(
        self, subject: Subject | Vectors | None, concept: Concept | str, *, seed: int | None = None
    ) -> DecodingChange:
        """Return the change for a concept; nothing is learned from the model.

        Args:
            subject: the language model that is to be changed, or None.
            concept: the concept that the prompt names, or its id or file.
            seed: ignored; there are no random steps.
        """
        about = as_concept(concept)
        self.check_concept(about)
        if subject is not None:
            self.check_subject(subject)
        return self._change(about)

    def _fit_subject(self, subject: Subject, concept: Concept) -> DecodingChange:
        return self._change(concept)

    def _change(self, concept: Concept) -> DecodingChange:
        prompts = tuple(self.prompts) or (PROMPT.format(concept=concept.name),)
        params = self.params() | {"prompts": list(prompts)}
        details = {"concept": concept.name, "params": params, "unchanged_views": ["vectors", "sentences"]}
        return DecodingChange(prompts, self.decay, self.floor, self._about() | details)

    def _check(self, concept: Concept) -> None:
        if len(concept.groups) < 2:
            raise UsageError(
                f"{self.id} needs a concept of groups; {concept.name!r} has one", hint="add a second group"
            )
        DecodingChange(tuple(self.prompts) or (PROMPT,), self.decay, self.floor)
