"""Train a masked language model on the body of an encoder that was published without one.

The head is that of the model's class: a dense layer, LayerNorm, and a decoder whose matrix is the encoder's word table.
The body is trained as well. Texts are joined and cut into blocks of equal length. Each time a block is used, another
15 % of its tokens are chosen: of these 80 % are masked, 10 % replaced at random, 10 % kept (Devlin et al. 2019).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import platform
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from evenhand.arrays import Rows
from evenhand.errors import DegenerateError, FormatError, UsageError, few, require
from evenhand.files import write_text
from evenhand.models.encoders.transformer import load_model
from evenhand.models.huggingface import load_tokenizer, quiet
from evenhand.models.huggingface_folder import resolve_folder
from evenhand.models.lm.continued_training import Masked, SpecialIds, cut_blocks, mask_blocks
from evenhand.models.training import AdamWSettings, adamw, device_name, seeded
from evenhand.outputs import replacing_folder
from evenhand.progress import Progress
from evenhand.version import __version__

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

HEADS = ("cls", "lm_head")  # where classes of transformers keep the head of a masked model
VALIDATION_SEED = 20_191_015  # the same masks before and after training, and for every seed
RECORD, CARD = "training.json", "README.md"


@dataclass(frozen=True, kw_only=True)
class MaskedTrainingSettings(AdamWSettings):
    """Everything that decides the result, apart from encoder, texts and seed.

    Attributes:
        steps: updates; fewer if the time limit ends first.
        batch: blocks in a batch.
        block: tokens of a block, special tokens included.
        masked: share of a block's tokens that the model has to predict.
    """

    learning_rate: float = 5e-4
    steps: int = 4000
    batch: int = 256
    block: int = 128
    masked: float = 0.15

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.steps < 1 or self.batch < 1 or self.block < 8:
            raise UsageError(
                f"steps and batch must be at least 1 and block at least 8, got {self.steps}, {self.batch}, {self.block}"
            )
        if not 0 < self.masked < 1:
            raise UsageError(f"masked must be between 0 and 1, got {self.masked}")


class MaskedScore(NamedTuple):
    """Mean loss and accuracy at the masked tokens of the validation blocks."""

    loss: float
    accuracy: float


@dataclass(frozen=True, eq=False)
class TrainedMaskedLM:
    """A masked language model after training, on the CPU.

    Attributes:
        name: for its card and reports; never that of a published model.
        before, after: scores on the validation text with the untrained and with the trained head.
        history: training loss by part of the training.
        manifest: encoder, texts, settings, versions.
    """

    name: str
    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    before: MaskedScore
    after: MaskedScore
    history: tuple[Mapping[str, float], ...]
    manifest: Mapping[str, Any]

    def to_dict(self) -> dict[str, object]:
        """Return plain data for JSON, without the weights."""
        scores = {"before": self.before._asdict(), "after": self.after._asdict()}
        return {"name": self.name, **scores, "history": [dict(part) for part in self.history], **self.manifest}

    def card(self) -> str:
        """Return the model card: what the model is, what it was trained on, and how well it predicts."""
        about = self.manifest
        texts = "; ".join(f"{name}: {count:,} blocks" for name, count in about["blocks"].items())
        return (
            f"# {self.name}\n\n"
            f"A masked language model that evenhand trained on the body of `{about['body']['name']}`, which was "
            "published without a masked-language-model head. The head is new; its decoder is tied to the word table; "
            "the body was trained with it. It is not one of the published BERT models, and it was trained briefly.\n\n"
            f"- data: {about['data']} ({texts} of {about['settings']['block']} tokens)\n"
            f"- training: {about['steps']:,} steps of {about['settings']['batch']} blocks, seed {about['seed']}, "
            f"{about['seconds']:.0f} s on {about['device']}\n"
            f"- loss at masked tokens of the validation text: {self.before.loss:.3f} before, {self.after.loss:.3f} "
            f"after (perplexity {math.exp(self.after.loss):.1f})\n"
            f"- accuracy at masked tokens: {self.before.accuracy:.1%} before, {self.after.accuracy:.1%} after\n"
        )

    def save(self, folder: str | Path, *, dtype: str = "float32") -> Path:
        """Write a folder that `transformers` loads, with a model card and `training.json`."""
        if dtype not in ("float32", "float16"):
            raise UsageError(f"dtype must be float32 or float16, got {dtype!r}")
        with replacing_folder(Path(folder), keep_others=True) as new, quiet(require("transformers", extra="models")):
            self.model.to(getattr(torch, dtype)).save_pretrained(new)
            self.model.float()
            self.tokenizer.save_pretrained(new)
            write_text(new / CARD, self.card())
            write_text(new / RECORD, json.dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n")
        return Path(folder)


def train_masked_lm(
    body: str | Path,
    texts: Iterable[str],
    validation: Iterable[str],
    *,
    name: str,
    data: str,
    seed: int = 0,
    time_limit: float | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> TrainedMaskedLM:
    """Train a masked-language-model head and the body below it.

    Args:
        body: folder of an encoder with its tokenizer.
        texts: training texts.
        validation: texts for the scores before and after.
        name: name of the new model.
        data: what the texts are, for the model card.
        seed: decides the new head, the order of blocks, the masks and dropout.
        time_limit: seconds; the learning rate then falls to 0 by that time, or by `steps`, whichever comes first.
        progress: called with steps done, total steps and a line of text.
        **settings: see `MaskedTrainingSettings`.

    Raises:
        FormatError: If the encoder has no class with a masked-language-model head.
        UsageError: If the texts are shorter than one batch, or the tokenizer has no mask token.
    """
    options = MaskedTrainingSettings.of(settings, function="train_masked_lm").resolve()
    folder = resolve_folder(body)
    tokenizer = load_tokenizer(folder)
    special = SpecialIds.of(tokenizer)
    blocks = [cut_blocks(part, tokenizer, options.block, special) for part in (texts, validation)]
    for what, part in zip(("training", "validation"), blocks, strict=True):
        if not len(part):
            raise UsageError(f"the {what} texts are shorter than one block of {options.block} tokens")
    start = time.monotonic()
    with seeded(options.device, seed):
        run = _MaskedRun(build_masked_lm(folder), blocks, options, special)
        before = run.score()
        done = run.train(start, time_limit, progress or (lambda step, total, text: None))
        after = run.score()
    about = {
        "evenhand": __version__,
        "body": {"name": folder.name, "sha256": _digest(folder)},
        "data": data,
        "blocks": {"training": len(blocks[0]), "validation": len(blocks[1])},
        "sha256_of_training_tokens": hashlib.sha256(blocks[0].tobytes()).hexdigest(),
        "settings": asdict(options),
        "seed": seed,
        "steps": done,
        "tokens": done * options.batch * options.block,
        "seconds": round(time.monotonic() - start, 1),
        "device": device_name(options.device),
        "python": platform.python_version(),
        "packages": {package: version(package) for package in ("torch", "transformers", "numpy")},
    }
    return TrainedMaskedLM(name, run.model.cpu().eval(), tokenizer, before, after, tuple(run.history), about)


def build_masked_lm(folder: Path) -> PreTrainedModel:
    """Return a masked language model with the weights of an encoder and a new head, in float32."""
    transformers: Any = require("transformers", extra="models")
    body = load_model(folder, "encoder").model
    with quiet(transformers):
        try:
            model = transformers.AutoModelForMaskedLM.from_config(body.config)
        except ValueError as error:
            raise FormatError(
                f"{folder}: transformers has no masked language model for {body.config.model_type} models",
                hint="use a BERT-like encoder",
            ) from error
    missing, surplus = model.base_model.load_state_dict(body.state_dict(), strict=False)
    lost = [name for name in (*missing, *surplus) if not name.startswith("pooler.")]
    if lost:
        raise FormatError(f"{folder}: {type(body).__name__} does not fit into {type(model).__name__}: {few(lost)}")
    model.tie_weights()
    find_head(model)
    return model.float()


def find_head(model: PreTrainedModel) -> Tensor:
    """Return the module that maps hidden states to logits.

    Raises:
        FormatError: If the class keeps it under an unknown name.
    """
    name = next((name for name in HEADS if hasattr(model, name)), None)
    if name is None:
        raise FormatError(
            f"{type(model).__name__} has no head under the names {', '.join(HEADS)}", hint="use BERT, RoBERTa or MPNet"
        )
    return getattr(model, name)


class _MaskedRun:
    """Model, optimiser and blocks of one training."""

    def __init__(
        self, model: PreTrainedModel, blocks: Sequence[Rows], settings: MaskedTrainingSettings, special: SpecialIds
    ) -> None:
        self.model, self.settings, self.special = model.to(settings.device), settings, special
        self.train_blocks, self.valid_blocks = (torch.as_tensor(b).to(settings.device, torch.int64) for b in blocks)
        self.optimiser = adamw(model.parameters(), settings)
        self.history: list[Mapping[str, float]] = []

    def train(self, start: float, limit: float | None, progress: Progress) -> int:
        settings, device = self.settings, self.settings.device
        generator = torch.Generator(device).manual_seed(int(torch.randint(1 << 31, (1,))))
        order = torch.empty(0, dtype=torch.int64, device=device)
        total, counted, report = torch.zeros((), device=device), 0, max(1, settings.steps // 40)
        started, step, done = time.monotonic(), 0, 0.0
        self.model.train()
        while step < settings.steps and done < 1.0:
            if len(order) < settings.batch:
                more = torch.randperm(len(self.train_blocks), generator=generator, device=device)
                order = torch.cat([order, more])
            rows, order = order[: settings.batch], order[settings.batch :]
            loss, _ = self._loss(mask_blocks(self.train_blocks[rows], self.special, settings.masked, generator))
            loss.backward()
            step += 1
            done = step / settings.steps
            if limit is not None:
                done = max(done, (time.monotonic() - started) / max(1e-9, limit - (started - start)))
            self._update(settings.rate(min(1.0, done)))
            total += loss.detach()
            counted += 1
            if counted == report or step == settings.steps or done >= 1.0:
                mean = float(total) / counted
                if not math.isfinite(mean):
                    raise DegenerateError(
                        f"the loss became {mean} by step {step}", hint=f"lower the rate {settings.learning_rate:g}"
                    )
                self.history.append({"step": step, "loss": mean, "seconds": round(time.monotonic() - started, 1)})
                total, counted = torch.zeros_like(total), 0
            progress(step, settings.steps, f"loss {self.history[-1]['loss']:.3f}" if self.history else "")
        return step

    def _update(self, rate: float) -> None:
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.clip)
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)

    def score(self) -> MaskedScore:
        settings = self.settings
        generator = torch.Generator(settings.device).manual_seed(VALIDATION_SEED)
        loss, right, count = 0.0, 0, 0
        self.model.eval()
        with torch.inference_mode():
            for blocks in self.valid_blocks.split(settings.batch):
                masked = mask_blocks(blocks, self.special, settings.masked, generator)
                mean, logits = self._loss(masked)
                loss += float(mean) * masked.labels.numel()
                right += int((logits.argmax(-1) == masked.labels.flatten()).sum())
                count += masked.labels.numel()
        return MaskedScore(loss / count, right / count)

    def _loss(self, masked: Masked) -> tuple[Tensor, Tensor]:
        with self._autocast():
            states = self.model.base_model(input_ids=masked.ids).last_hidden_state
            index = masked.positions[:, :, None].expand(-1, -1, states.shape[-1])
            logits = find_head(self.model)(states.gather(1, index).flatten(0, 1))
        return torch.nn.functional.cross_entropy(logits.float(), masked.labels.flatten()), logits

    def _autocast(self) -> contextlib.AbstractContextManager[object]:
        half = self.settings.precision == "bfloat16"
        kind = torch.device(self.settings.device).type
        return torch.autocast(kind, dtype=torch.bfloat16, enabled=half)  # type: ignore[no-any-return]


def _digest(folder: Path) -> str:
    """Return the SHA-256 of the weights files, in the order of their names."""
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*.safetensors")):
        with path.open("rb") as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()
