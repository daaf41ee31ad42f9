"""Further training of language models against bias: on swapped text, or with more dropout; and the control of both."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from evenhand.corpus.readers.source import Corpus
from evenhand.corpus.readers.stream import END, ReadLog
from evenhand.errors import FormatError, UsageError
from evenhand.files import existing, write_text
from evenhand.mitigations.method import LANGUAGE_MODEL, Mitigation, Target, require_groups, state_folder
from evenhand.mitigations.registry import MITIGATIONS
from evenhand.mitigations.text.cda import CounterfactualAugmentation
from evenhand.models.encoders.transformer import Transformer
from evenhand.models.huggingface_folder import model_kind, resolve_folder
from evenhand.models.vectors import Vectors
from evenhand.outputs import replacing_folder
from evenhand.progress import Progress, tell
from evenhand.subjects import Subject
from evenhand.subjects.subject import AnySubject
from evenhand.words import Concept, as_concept

if TYPE_CHECKING:
    from evenhand.models.lm.continued_training import ContinuedLM

RECORD, FORMAT = "evenhand.json", 1  # the record of every model folder that evenhand writes
# Hidden and attention dropout of Webster et al. (2020) and, for GPT-2, of Meade et al. (2022).
RAISED = {"albert": (0.05, 0.05), "causal-lm": (0.15, 0.15), "masked-lm": (0.20, 0.15)}


@dataclass(frozen=True, eq=False)
class TrainedWeights:
    """A language model trained further, as a change: the weights of a folder take the place of those of a subject.

    Attributes:
        folder: the trained model, which plain transformers loads.
        report: what the method says about the training.
    """

    acts_on: ClassVar[str] = "transformer"

    folder: Path
    report: Mapping[str, object] = field(default_factory=dict, repr=False)

    def __call__(self, subject: AnySubject) -> AnySubject:
        """Return the subject with the trained weights."""
        return subject.changed(self)

    def apply_to(self, transformer: Transformer) -> Transformer:
        """Return the trained transformer on the device of the given one."""
        return Transformer.load(
            self.folder, transformer.kind, device=transformer.device, precision=transformer.precision
        )

    def change_table(self, vectors: Vectors) -> Vectors:
        """Return the input table of the trained model."""
        from evenhand.models.encoders.input_table import input_table

        return input_table(self.folder)

    @cached_property
    def digest(self) -> str:
        """Hash of the weights."""
        hasher = hashlib.sha256()
        for path in sorted(self.folder.glob("*.safetensors")):
            with path.open("rb") as stream:
                hasher.update(hashlib.file_digest(stream, "sha256").digest())
        return hasher.hexdigest()

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Copy the trained model, with the report, as a folder that plain transformers loads too."""
        with replacing_folder(Path(path)) as folder:
            shutil.copytree(self.folder, folder, dirs_exist_ok=True)
            content = {"format": FORMAT, "sha256": self.digest, "report": dict(self.report)}
            write_text(folder / RECORD, json.dumps(content, ensure_ascii=False, indent=1) + "\n")
        return Path(path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> TrainedWeights:
        """Read a folder that `save` wrote; raise `FormatError` if it is something else or its weights were changed."""
        folder = Path(path)
        try:
            content = json.loads(existing(folder / RECORD).read_text(encoding="utf-8"))
            change, expected = cls(folder, dict(content["report"])), content["sha256"]
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise FormatError(f"{folder}: not trained weights ({error!r})", hint="write them with save()") from error
        if change.digest != expected:
            raise FormatError(f"{folder}: the weights do not match their checksum", hint="train and save them again")
        return change


@MITIGATIONS.register("fine-tuning")
@dataclass(frozen=True)
class FineTuning(Mitigation):
    """Further training on text as it is: the control of `cda-tuning` and `dropout-tuning`.

    Training alone changes a model. What a method does shows against the same number of steps on the same text without
    it. This method does not reduce bias on purpose.

    Args:
        text: File, folder or glob with the training text; a line of plain text is a document.
        field: Field with the text, in JSON lines and tables.
        steps: Number of updates.
        learning_rate: Largest learning rate, after warm-up.
        tokens: Tokens in a batch.
        block: Tokens of a block; fewer if the model reads fewer.
        adapter: `none` trains all weights; `lora` trains low-rank adapters, which need the package peft.
        rank: Rank of the adapters.
        device: Device to train on: auto, cpu, cuda or cuda:N.
        precision: Precision of the products: auto, float32 or bfloat16.
        seed: Seed of the order of blocks, of masks and of dropout.
    """

    id: ClassVar[str] = "fine-tuning"
    title: ClassVar[str] = "Fine-tuning on unchanged text (control)"
    formula: ClassVar[str] = "minimise the loss of the language model on D"
    cites: ClassVar[tuple[str, ...]] = ("webster2020", "meade2022")
    limits: ClassVar[str] = (
        "A control, not a mitigation: it shows what further training on the same text does by itself. Needs a text, "
        "and a masked or causal transformer."
    )
    works_on: ClassVar[tuple[Target, ...]] = (LANGUAGE_MODEL,)
    elsewhere: ClassVar[str] = (
        "name hf:FOLDER; for vectors use linear, hard or another method of `evenhand list methods`"
    )
    trains_stored_weights: ClassVar[bool] = True

    text: str = ""
    field: str = "text"
    steps: int = 2000
    learning_rate: float = 5e-5
    tokens: int = 8192
    block: int = 128
    adapter: Literal["none", "lora"] = "none"
    rank: int = 8
    device: str = "auto"
    precision: str = "auto"
    seed: int = 0

    def train(
        self,
        source: str | Path,
        out: str | Path,
        concept: Concept | str = "gender",
        *,
        texts: Iterable[str] | None = None,
        progress: Progress | None = None,
    ) -> TrainedWeights:
        """Train the model of a folder further and write the result as a folder.

        A stopped training is continued by the same call: its state lies beside `out`, and goes when the folder is
        complete.

        Args:
            source: folder of a masked or causal language model.
            out: folder to write; it must not exist, or be empty.
            concept: whose words are swapped; unused by methods that swap none.
            texts: training texts, instead of the field `text`.
            progress: called with (steps done, steps, loss).
        """
        about, target = as_concept(concept), Path(out)
        self.check_concept(about)
        checkpoint = target.parent / f".{target.name}.training.safetensors"
        change = self._train(resolve_folder(source), target, about, checkpoint, self.device, texts, progress)
        checkpoint.unlink(missing_ok=True)
        return change

    def _train(
        self,
        source: Path,
        target: Path,
        concept: Concept,
        checkpoint: Path,
        device: str,
        texts: Iterable[str] | None = None,
        progress: Progress | None = None,
    ) -> TrainedWeights:
        from evenhand.models.lm.continued_training import continue_training

        trained = continue_training(
            source, self._texts(concept, texts), seed=self.seed, checkpoint=checkpoint, progress=progress,
            steps=self.steps, learning_rate=self.learning_rate, tokens=self.tokens, block=self.block,
            adapter=self.adapter, rank=self.rank, device=device, precision=self.precision, **self._dropout(source),
        )  # fmt: skip
        trained.save(target)
        return TrainedWeights(target, self._training_report(trained, concept))

    def check_subject(self, subject: Vectors | Subject) -> None:
        """Raise `UsageError` unless the subject is a language model of transformers as it is stored."""
        super().check_subject(subject)
        if getattr(subject, "changes", ()):
            raise UsageError(f"{subject.name} was changed and is only in memory", hint="save it and open the folder")

    def _fit_subject(self, subject: Subject, concept: Concept) -> TrainedWeights:
        """Train further in a folder that is removed with the result.

        Where a folder for the state is known (`keeping_state`), a stopped training is continued by the same call.
        """
        network, kept = subject.require_network(), state_folder()
        folder = Path(tempfile.mkdtemp(prefix="evenhand-training-")) if kept is None else kept
        folder.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(folder / "model", ignore_errors=True)  # of a run that was stopped before the model was saved
        device = network.device if self.device == "auto" else self.device
        checkpoint = folder / "training.safetensors"
        change = self._train(network.source, folder / "model", concept, checkpoint, device, progress=tell)
        if kept is None:
            weakref.finalize(change, shutil.rmtree, folder, ignore_errors=True)
        return change

    def _check(self, concept: Concept) -> None:
        require_groups(concept, self.id)

    def _documents(self, texts: Iterable[str] | None) -> Iterator[str]:
        if texts is not None:
            yield from texts
            return
        if not self.text:
            raise UsageError(f"{self.id} needs a text to train on", hint=f"{self.id}: `text=corpus.txt`")
        corpus = Corpus(self.text, documents="line", field=self.field)
        log, rest = ReadLog(), ""
        for shard in corpus.shards():
            for fragment in corpus.fragments(shard, log):
                *whole, rest = (rest + fragment).split(END)
                yield from (text for text in whole if text.strip())

    def _texts(self, concept: Concept, texts: Iterable[str] | None) -> Iterator[str]:
        """Yield the texts that the model is trained on."""
        return self._documents(texts)

    def _dropout(self, folder: Path) -> dict[str, float]:
        """Return dropout rates other than those of the model."""
        return {}

    def _training_report(self, trained: ContinuedLM, concept: Concept) -> dict[str, object]:
        return self._about() | {"concept": concept.name, "training": json.loads(json.dumps(trained.to_dict()))}


@MITIGATIONS.register("cda-tuning")
@dataclass(frozen=True)
class CDATuning(FineTuning):
    """Further training on counterfactually augmented text.

    The model reads every document as it is and with the words of the groups swapped (see `cda`). Compare with
    `fine-tuning` for the same number of steps. It does not touch what no listed word names.
    """

    id: ClassVar[str] = "cda-tuning"
    title: ClassVar[str] = "Fine-tuning on counterfactually augmented text (CDA)"
    formula: ClassVar[str] = "minimise the loss of the language model on D + {swap(d) : d in D}"
    cites: ClassVar[tuple[str, ...]] = ("webster2020", "zmigrod2019", "meade2022")
    limits: ClassVar[str] = (
        "Balances listed words in the training text only; small and uneven effects in published comparisons. Compare "
        "with fine-tuning for the same number of steps. Needs a text, and a masked or causal transformer."
    )
    definition: ClassVar[int] = 2

    def _check(self, concept: Concept) -> None:
        CounterfactualAugmentation(seed=self.seed).check_concept(concept)

    def _texts(self, concept: Concept, texts: Iterable[str] | None) -> Iterator[str]:
        return CounterfactualAugmentation().fit(None, concept, seed=self.seed).documents(self._documents(texts))


@MITIGATIONS.register("dropout-tuning")
@dataclass(frozen=True)
class DropoutTuning(FineTuning):
    """Further training with more dropout.

    More dropout weakens associations between words, those of gender among them (Webster et al. 2020). The saved model
    has the dropout rates that it had before. It does not know of a concept, and does not target one.

    Args:
        hidden: Dropout of hidden states while training; None for 0.20 (BERT and its kin), 0.05 (ALBERT), 0.15 (causal).
        attention: Dropout of attention while training; None for 0.15, or 0.05 (ALBERT).
    """

    id: ClassVar[str] = "dropout-tuning"
    title: ClassVar[str] = "Fine-tuning with more dropout"
    formula: ClassVar[str] = "minimise the loss of the language model on D with raised dropout"
    cites: ClassVar[tuple[str, ...]] = ("webster2020", "meade2022")
    limits: ClassVar[str] = (
        "Targets no concept: it weakens associations of all kinds. Small and uneven effects in published comparisons. "
        "Compare with fine-tuning for the same number of steps. Needs a text, and a masked or causal transformer."
    )

    hidden: float | None = None
    attention: float | None = None

    def _dropout(self, folder: Path) -> dict[str, float]:
        from evenhand.models.huggingface_folder import read_config
        from evenhand.models.lm.continued_training import ATTENTION, HIDDEN

        config = read_config(folder)
        kind = "albert" if config.get("model_type") == "albert" else model_kind(folder)
        hidden, attention = RAISED.get(kind, RAISED["masked-lm"])
        rates = {}
        if self.hidden is not None or any(name in config for name in HIDDEN):
            rates["hidden_dropout"] = hidden if self.hidden is None else self.hidden
        if self.attention is not None or any(name in config for name in ATTENTION):
            rates["attention_dropout"] = attention if self.attention is None else self.attention
        return rates
