"""Train a masked or causal language model further on text, with its own objective.

Texts are joined and cut into blocks of equal length. A causal model predicts each token from those before it. A masked
model predicts 15 % of the tokens, chosen anew each time (Devlin et al. 2019). Dropout can be raised for the training
(Webster et al. 2020), and low-rank adapters can be trained instead of all weights (Hu et al. 2022).
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import json
import math
import shutil
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch

from evenhand.arrays import Rows
from evenhand.errors import DegenerateError, EvenhandError, FormatError, OutputError, UsageError, require
from evenhand.files import output_errors, partial_name, write_text
from evenhand.models.adamw import DecayingAdamW
from evenhand.models.batching import free_cache, is_out_of_memory
from evenhand.models.device import resolve_device, resolve_precision
from evenhand.models.huggingface import load_model, load_tokenizer, quiet
from evenhand.models.huggingface_folder import model_kind, resolve_folder
from evenhand.models.lm.dropout_rates import with_dropout
from evenhand.models.lm.masked_training import SpecialIds, cut_blocks, mask_blocks
from evenhand.models.lm.token_logits import logits_at
from evenhand.models.tokenizing import encode
from evenhand.models.training import (
    AdamWSettings,
    damaged_checkpoint,
    optimiser_tensors,
    read_checkpoint,
    restore_optimiser,
    write_checkpoint,
)
from evenhand.progress import Progress
from evenhand.version import __version__

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

Tensor = Any  # torch is not typed here
PRECISIONS = ("float32", "bfloat16")
# Names of the query and value projections, by architecture; some have one module for query, key and value.
QUERY_AND_VALUE = (
    ("query", "value"),
    ("q_lin", "v_lin"),
    ("q_proj", "v_proj"),
    ("query_proj", "value_proj"),
    ("q", "v"),
    ("c_attn",),
    ("Wqkv",),
    ("query_key_value",),
)
TEXTS_AT_ONCE = 1024  # texts tokenised at once
PACKAGES = {"none": ("torch", "transformers", "numpy"), "lora": ("torch", "transformers", "numpy", "peft")}
RECORD = "training.json"


@dataclass(frozen=True)
class ContinuedTrainingSettings(AdamWSettings):
    """Everything that decides the result, apart from model, texts and seed.

    Attributes:
        steps: updates.
        tokens: tokens in a batch; one that does not fit into memory is computed in parts.
        block: tokens of a block; fewer if the model reads fewer.
        masked: share of a block's tokens that a masked model has to predict.
        hidden_dropout, attention_dropout: dropout while training; None for that of the model.
        adapter: `none` trains all weights, `lora` low-rank adapters of the query and value projections, which are then
            merged into the weights.
        rank: rank of the adapters.
        device: auto, cpu, cuda or cuda:N.
        precision: of the products; weights are always float32. `auto` is bfloat16 on a GPU.
        checkpoint_every: steps from one checkpoint to the next; 0 for a tenth of the steps.
    """

    learning_rate: float = 5e-5
    steps: int = 2000
    tokens: int = 8192
    block: int = 128
    masked: float = 0.15
    hidden_dropout: float | None = None
    attention_dropout: float | None = None
    adapter: Literal["none", "lora"] = "none"
    rank: int = 8
    device: str = "auto"
    precision: str = "auto"
    checkpoint_every: int = field(default=0, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.steps < 1 or self.tokens < 1 or self.block < 8 or self.rank < 1 or self.checkpoint_every < 0:
            raise UsageError(
                "steps, tokens and rank must be at least 1, block at least 8 and checkpoint_every not negative, got "
                f"{self.steps}, {self.tokens}, {self.rank}, {self.block} and {self.checkpoint_every}"
            )
        if not 0 < self.masked < 1:
            raise UsageError(f"masked must be between 0 and 1, got {self.masked}")
        for rate in (self.hidden_dropout, self.attention_dropout):
            if rate is not None and not 0 <= rate < 1:
                raise UsageError(f"dropout must be in [0, 1), got {rate}")
        if self.adapter not in ("none", "lora"):
            raise UsageError(f"adapter must be none or lora, got {self.adapter!r}")

    def resolve(self) -> ContinuedTrainingSettings:
        """Return settings in which `auto` is replaced by the device and the precision of this machine."""
        device = resolve_device(self.device)
        return replace(self, device=device, precision=resolve_precision(self.precision, device, supported=PRECISIONS))


@dataclass(frozen=True, eq=False)
class ContinuedLM:
    """A language model after further training, on the CPU and with the dropout of the original.

    Attributes:
        history: training loss by part of the training.
        manifest: model, texts, settings, versions.
    """

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    history: tuple[Mapping[str, float], ...]
    manifest: Mapping[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON, without the weights."""
        return {**self.manifest, "history": [dict(part) for part in self.history]}

    def save(self, folder: str | Path) -> Path:
        """Write a folder that `transformers` loads, complete or absent, with `training.json`."""
        path = Path(folder)
        with output_errors(path), quiet(require("transformers", extra="models")):
            if path.exists() and (not path.is_dir() or any(path.iterdir())):
                raise OutputError(f"{path} is not an empty folder", hint="choose a new one")
            path.parent.mkdir(parents=True, exist_ok=True)
            partial = path.parent / partial_name(path)
            try:
                self.model.save_pretrained(partial)
                self.tokenizer.save_pretrained(partial)
                write_text(partial / RECORD, json.dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n")
                if path.is_dir():
                    path.rmdir()
                partial.rename(path)
            finally:
                shutil.rmtree(partial, ignore_errors=True)
        return path


def continue_training(
    source: str | Path,
    texts: Iterable[str],
    *,
    seed: int = 0,
    checkpoint: str | Path | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> ContinuedLM:
    """Train a language model further.

    Args:
        source: folder of a masked or causal language model with its tokenizer.
        texts: training texts.
        seed: decides the order of blocks, the masks and dropout.
        checkpoint: file for the state of the training; one that exists is continued from.
        progress: called with steps done, total steps and a line of text.
        **settings: see `ContinuedTrainingSettings`.

    Raises:
        UsageError: If the texts are shorter than one block, or the folder holds no language model.
    """
    try:
        options = ContinuedTrainingSettings(**settings).resolve()
    except TypeError as error:
        raise UsageError(f"continue_training: {error}", hint="see ContinuedTrainingSettings") from error
    folder = resolve_folder(source)
    kind = model_kind(folder)
    if kind not in ("masked-lm", "causal-lm"):
        raise UsageError(f"{folder} holds no masked or causal language model", hint="name the folder of one")
    tokenizer, original = load_tokenizer(folder), load_model(folder, kind).model
    special = SpecialIds.of(tokenizer) if kind == "masked-lm" else None
    window = int(getattr(original.config, "max_position_embeddings", 0) or options.block)
    block = min(options.block, window - (2 if getattr(original.config, "pad_token_id", None) else 0))
    blocks = cut_blocks(texts, tokenizer, block, special) if special else _causal_blocks(texts, tokenizer, block)
    if not len(blocks):
        raise UsageError(f"the texts are shorter than one block of {block} tokens", hint="give more text")
    start = time.monotonic()
    gpus = [torch.device(options.device)] if torch.device(options.device).type == "cuda" else []
    with torch.random.fork_rng(devices=gpus):
        torch.manual_seed(seed)
        run = _Training(original, blocks, options, special, seed)
        about = {
            "evenhand": __version__,
            "model": folder.name,
            "kind": kind,
            "blocks": len(blocks),
            "block": block,
            "sha256_of_training_tokens": hashlib.sha256(blocks.tobytes()).hexdigest(),
            "settings": asdict(options) | {"checkpoint_every": 0},
            "dropout": run.dropout,
            "seed": seed,
            "trained_parameters": sum(weight.numel() for weight in run.model.parameters() if weight.requires_grad),
            "packages": {package: version(package) for package in PACKAGES[options.adapter]},
        }
        run.train(Path(checkpoint) if checkpoint else None, about, progress or (lambda step, total, text: None))
        model = run.finished_model()
    about |= {"parts_of_a_batch": run.parts, "seconds": round(time.monotonic() - start, 1)}
    return ContinuedLM(model, tokenizer, tuple(run.history), about)


def _causal_blocks(texts: Iterable[str], tokenizer: PreTrainedTokenizerBase, block: int) -> Rows:
    """Return the texts as rows of `block` ids; the token for the end of a text stands between texts."""
    end = tokenizer.eos_token_id if tokenizer.eos_token_id is not None else tokenizer.bos_token_id
    parts: list[Rows] = []
    some: list[str] = []

    def flush() -> None:
        encoded = encode(tokenizer, some, add_special_tokens=False, verbose=False)["input_ids"] if some else []
        closing = [] if end is None else [end]
        parts.append(np.array([id for ids in encoded for id in (*ids, *closing)], dtype=np.int32))
        some.clear()

    for text in texts:
        some.append(text)
        if len(some) == TEXTS_AT_ONCE:
            flush()
    flush()
    stream = np.concatenate(parts)
    return stream[: len(stream) // block * block].reshape(-1, block)


class _Training:
    """Model, optimiser, blocks and position of one training."""

    def __init__(
        self,
        original: PreTrainedModel,
        blocks: Rows,
        settings: ContinuedTrainingSettings,
        special: SpecialIds | None,
        seed: int,
    ) -> None:
        config, self.dropout = with_dropout(original, settings.hidden_dropout, settings.attention_dropout)
        self.original, self.settings, self.special, self.seed = original, settings, special, seed
        model = type(original)(config)
        model.load_state_dict(original.state_dict())
        model.tie_weights()
        self.model = self._adapted(model.float()).to(settings.device)
        self.blocks = torch.as_tensor(blocks).to(settings.device, torch.int64)
        self.optimiser = DecayingAdamW(self.model.parameters(), settings)
        self.batch = max(1, settings.tokens // blocks.shape[1])
        self.parts = 1  # of a batch, computed one after the other
        self.step = 0
        self.history: list[dict[str, float]] = []

    def _adapted(self, model: PreTrainedModel) -> PreTrainedModel:
        if self.settings.adapter == "none":
            return model
        peft: Any = require("peft", extra="peft")
        names = {name.rpartition(".")[2] for name, _ in model.named_modules()}
        targets = next((list(group) for group in QUERY_AND_VALUE if set(group) <= names), None)
        if targets is None:
            raise FormatError(
                f"{type(model).__name__} has no query and value projections of a known name "
                f"({'; '.join(' and '.join(group) for group in QUERY_AND_VALUE)})",
                hint="use adapter=none",
            )
        rank = self.settings.rank
        return peft.get_peft_model(
            model,
            peft.LoraConfig(r=rank, lora_alpha=2 * rank, target_modules=targets, fan_in_fan_out="c_attn" in targets),
        )

    def train(self, path: Path | None, about: Mapping[str, object], progress: Progress) -> None:
        settings = self.settings
        if path and path.exists():
            self._restore(path, about)
        total, counted = torch.zeros((), device=settings.device), 0
        report, save = max(1, settings.steps // 40), settings.checkpoint_every or max(1, settings.steps // 10)
        self.model.train()
        while self.step < settings.steps:
            loss = self._add_gradient(self.blocks[self._rows(self.step)])
            self.step += 1
            self.optimiser.step(self.step / settings.steps)
            total += loss
            counted += 1
            at_checkpoint = bool(path) and self.step % save == 0
            if counted == report or self.step == settings.steps or at_checkpoint:
                mean = float(total) / counted
                if not math.isfinite(mean):
                    raise DegenerateError(
                        f"the loss became {mean} by step {self.step}", hint=f"lower the rate {settings.learning_rate:g}"
                    )
                self.history.append({"step": self.step, "loss": mean})
                total, counted = torch.zeros_like(total), 0
            if path and at_checkpoint:
                standing = {"step": self.step, "history": self.history}
                write_checkpoint(path, self._tensors(), about, standing)
            progress(self.step, settings.steps, f"loss {self.history[-1]['loss']:.3f}" if self.history else "")

    def _rows(self, step: int) -> Tensor:
        """Return the blocks of a step; each block is used once before any is used again."""
        count, first = len(self.blocks), step * self.batch
        wanted = range(first, first + self.batch)
        orders = {epoch: self._order(epoch) for epoch in {number // count for number in wanted}}
        rows = [int(orders[number // count][number % count]) for number in wanted]
        return torch.tensor(rows, device=self.blocks.device)

    def _order(self, epoch: int) -> Rows:
        if getattr(self, "_cached_order", (None,))[0] != epoch:
            order = np.random.default_rng([self.seed, 1, epoch]).permutation(len(self.blocks))
            self._cached_order: tuple[int | None, Rows] = (epoch, order)
        return self._cached_order[1]

    def _add_gradient(self, blocks: Tensor) -> Tensor:
        """Add the gradient of a batch and return its loss; a batch that does not fit into memory is halved."""
        examples = self._examples(blocks)
        while True:
            random = self._random_state()
            try:
                parts = zip(*(torch.tensor_split(tensor, self.parts) for tensor in examples), strict=True)
                return torch.stack([self._add_part(*part, share=len(part[0]) / len(blocks)) for part in parts]).sum()
            except RuntimeError as error:
                if not is_out_of_memory(error):
                    raise
                if self.parts >= len(blocks):
                    raise EvenhandError(
                        f"a single block of {blocks.shape[1]:,} tokens does not fit into memory",
                        hint="use a smaller block, adapter=lora or another device",
                    ) from error
            # The failed attempt left gradients of some parts and drew from the random numbers of dropout.
            self.optimiser.optimiser.zero_grad(set_to_none=True)
            self._set_random_state(random)
            free_cache()
            self.parts = min(2 * self.parts, len(blocks))

    def _add_part(self, ids: Tensor, positions: Tensor, labels: Tensor, *, share: float) -> Tensor:
        """Add the gradient of some rows of a batch and return their part of its loss."""
        rows = torch.arange(len(ids), device=ids.device)[:, None].expand_as(positions).flatten()
        with self._autocast():
            model = self.model.get_base_model() if self.settings.adapter == "lora" else self.model
            logits = logits_at(model, rows, positions.flatten(), input_ids=ids).logits
        loss = torch.nn.functional.cross_entropy(logits.float(), labels.flatten()) * share
        loss.backward()
        return loss.detach()

    def _examples(self, blocks: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the inputs, and the positions and labels of the tokens to predict, each with a row per block."""
        if self.special is None:
            ids, labels = blocks[:, :-1], blocks[:, 1:]
            return ids, torch.arange(ids.shape[1], device=ids.device).expand_as(ids), labels
        number = int(np.random.default_rng([self.seed, 2, self.step]).integers(1 << 31))
        generator = torch.Generator(blocks.device).manual_seed(number)
        return mask_blocks(blocks, self.special, self.settings.masked, generator)

    def _random_state(self) -> dict[str, Tensor]:
        state = {"random.cpu": torch.get_rng_state()}
        if torch.device(self.settings.device).type == "cuda":
            state["random.cuda"] = torch.cuda.get_rng_state(self.settings.device)
        return state

    def _set_random_state(self, state: Mapping[str, Tensor]) -> None:
        torch.set_rng_state(state["random.cpu"])
        if "random.cuda" in state:
            torch.cuda.set_rng_state(state["random.cuda"], self.settings.device)

    def _autocast(self) -> contextlib.AbstractContextManager[object]:
        half = self.settings.precision == "bfloat16"
        kind = torch.device(self.settings.device).type
        context: contextlib.AbstractContextManager[object] = torch.autocast(kind, dtype=torch.bfloat16, enabled=half)
        return context

    def finished_model(self) -> PreTrainedModel:
        """Return the trained weights in a model with the configuration of the original."""
        trained = self.model.merge_and_unload() if self.settings.adapter == "lora" else self.model
        model = type(self.original)(copy.deepcopy(self.original.config))
        model.load_state_dict({name: tensor.cpu() for name, tensor in trained.state_dict().items()})
        model.tie_weights()
        return model.eval()

    def _tensors(self) -> dict[str, Tensor]:
        tensors = {f"now.{name}": parameter for name, parameter in self.model.named_parameters()}
        return tensors | optimiser_tensors(self.optimiser.optimiser) | self._random_state()

    def _restore(self, path: Path, about: Mapping[str, object]) -> None:
        standing, tensors = read_checkpoint(path, about)
        try:
            with torch.no_grad():
                for name, parameter in self.model.named_parameters():
                    parameter.copy_(tensors[f"now.{name}"])
            restore_optimiser(self.optimiser.optimiser, tensors)
            self._set_random_state(tensors)
            self.step, self.history = int(standing["step"]), [dict(part) for part in standing["history"]]
        except (KeyError, TypeError, RuntimeError) as error:
            raise damaged_checkpoint(path, error) from error
