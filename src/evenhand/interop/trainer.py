"""`AuditCallback`: audit a model every N steps of a `transformers.Trainer`, and log the numbers beside the loss."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self

from transformers import TrainerCallback

from evenhand.audit import Audit, Plan
from evenhand.errors import UsageError
from evenhand.interop.trackers import PREFIX, metric_names
from evenhand.subjects import Subject, open_subject

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase, Trainer, TrainerControl, TrainerState, TrainingArguments

SHARDED = ("deepspeed", "fsdp")


class AuditCallback(TrainerCallback):  # type: ignore[misc]  # transformers is not typed here
    """Audit the model while it is trained.

    The first process writes model and tokenizer to a temporary folder and audits that, so the training is not touched.
    The values are in `state.log_history`. Callbacks of a Trainer cannot log to its trackers: `attach(trainer)` adds the
    callback and logs through the Trainer, to all of them.

    Args:
        every: steps between two audits; the end of the training is audited too.
        measures: measure ids; empty for every measure that the model can answer.
        concept: what is measured.
        limit: the most items that a measure asks. A small number keeps the training short and the intervals wide.
        folder: where each record is written, as `step-500`; `evenhand compare` reads them.
        tokenizer: the model's tokenizer, if the Trainer has none.
        seed: seed of every audit: the same questions at every step, which are compared unit by unit.

    Attributes:
        audits: the record of each audited step.
    """

    def __init__(
        self,
        *,
        every: int = 500,
        measures: Sequence[str] = (),
        concept: str | Path = "gender",
        limit: int | None = 50,
        folder: str | Path | None = None,
        tokenizer: PreTrainedTokenizerBase | None = None,
        seed: int = 0,
    ) -> None:
        if every < 1:
            raise UsageError(f"`every={every}` is less than one step", hint="audit every 500 steps, for example")
        self.every, self.measures, self.concept, self.limit = every, tuple(measures), concept, limit
        self.folder = Path(folder) if folder is not None else None
        self.tokenizer, self.seed = tokenizer, seed
        self.audits: dict[int, Audit] = {}
        self._plan: Plan | None = None
        self._log: Callable[[dict[str, float]], object] | None = None

    def attach(self, trainer: Trainer) -> Self:
        """Add the callback to a Trainer and log through it."""
        trainer.add_callback(self)
        self._log = trainer.log
        return self

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **given: object
    ) -> None:
        """Make the plan, so that what cannot be asked is said before the training; refuse sharded models."""
        for option in SHARDED:
            if getattr(args, option, None):
                raise UsageError(
                    f"a model trained with {option} is sharded, and cannot be audited by a callback",
                    hint="audit its checkpoints: evenhand audit hf:CHECKPOINT",
                )
        if state.is_world_process_zero:
            self._plan = Plan.default(
                [self._subject(given)], methods=(), only=self.measures, concept=self.concept, seed=self.seed,
                limit=self.limit,
            )  # fmt: skip

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **given: object
    ) -> None:
        """Audit the model if it is due."""
        if state.global_step % self.every == 0:
            due = control.should_log
            self._audit(state, given)
            control.should_log = due  # logging the audit takes it back, and the loss of this step would be lost

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **given: object
    ) -> None:
        """Audit the model at the end."""
        if state.global_step not in self.audits:
            self._audit(state, given)

    def _subject(self, given: Mapping[str, object]) -> Subject:
        """Return the model as a subject; a Trainer gives model and tokenizer to every event."""
        tokenizer = self.tokenizer if self.tokenizer is not None else given.get("processing_class")
        if tokenizer is None:
            raise UsageError("the Trainer has no tokenizer", hint="pass `tokenizer=` to AuditCallback")
        return open_subject((given["model"], tokenizer))

    def _audit(self, state: TrainerState, given: Mapping[str, object]) -> None:
        if not state.is_world_process_zero:
            return
        folder = self.folder / f"step-{state.global_step}" if self.folder is not None else None
        audit = Audit.run([self._subject(given)], plan=self._plan, folder=folder)
        if folder is not None:
            audit.save(folder)
        self.audits[state.global_step] = audit
        values = metric_names(audit, PREFIX)
        if self._log is not None:
            self._log(values)
        else:
            state.log_history.append({**values, "step": state.global_step})
