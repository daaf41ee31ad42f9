"""Train a masked or causal language model further on text, with its own objective.

Texts are joined and cut into blocks of equal length. A causal model predicts each token from those before it. A masked
model predicts 15 % of the tokens, chosen anew each time (Devlin et al. 2019). Dropout can be raised for the training
(Webster et al. 2020), and low-rank adapters can be trained instead of all weights (Hu et al. 2022).
"""

from __future__ import annotations

import copy
import hashlib
import json
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from evenhand.arrays import Rows
from evenhand.errors import FormatError, OutputError, UsageError, few, require
from evenhand.files import output_errors, partial_name, write_text
from evenhand.models.encoders.transformer import load_model
from evenhand.models.huggingface import load_tokenizer, quiet
from evenhand.models.huggingface_folder import model_kind, resolve_folder
from evenhand.models.lm.forward import logits_at
from evenhand.models.tokenizing import Tokenize, encode, save_tokenizer, sentence_tokenizer
from evenhand.models.training import AdamWSettings, Training, adamw, seeded
from evenhand.progress import Progress
from evenhand.version import __version__

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

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
KEPT, RANDOM = 0.1, 0.1  # shares of the tokens chosen to be predicted that stay, and that become others
# Names of dropout rates in configurations, by architecture.
HIDDEN = ("hidden_dropout_prob", "dropout", "mlp_dropout", "embedding_dropout", "resid_pdrop", "embd_pdrop")
ATTENTION = ("attention_probs_dropout_prob", "attention_dropout", "attn_pdrop")
PACKAGES = {"none": ("torch", "transformers", "numpy"), "lora": ("torch", "transformers", "numpy", "peft")}
RECORD = "training.json"


@dataclass(frozen=True, kw_only=True)
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
    checkpoint_every: int = field(default=0, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_at_least(1, "steps", "tokens", "rank")
        self.require_at_least(8, "block")
        self.require_at_least(0, "checkpoint_every")
        self.require_rates("hidden_dropout", "attention_dropout")
        if not 0 < self.masked < 1:
            raise UsageError(f"masked must be between 0 and 1, got {self.masked}")
        if self.adapter not in ("none", "lora"):
            raise UsageError(f"adapter must be none or lora, got {self.adapter!r}")


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
                save_tokenizer(self.tokenizer, partial)
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
    options = ContinuedTrainingSettings.of(settings, function="continue_training").resolve()
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
    with seeded(options.device, seed):
        run = ContinuedTraining(original, blocks, options, special, seed)
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
            "trained_parameters": sum(weight.numel() for weight in run.network.parameters() if weight.requires_grad),
            "packages": {package: version(package) for package in PACKAGES[options.adapter]},
        }
        run.run(Path(checkpoint) if checkpoint else None, about, progress)
        model = run.finished_model()
    about |= {"parts_of_a_batch": run.parts, "seconds": round(time.monotonic() - start, 1)}
    return ContinuedLM(model, tokenizer, tuple(run.history), about)


class SpecialIds(NamedTuple):
    """The special tokens that blocks need, and the size of the vocabulary."""

    first: int
    last: int
    mask: int
    never: tuple[int, ...]
    size: int

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerBase) -> SpecialIds:
        """Return those of a tokenizer.

        Raises:
            UsageError: If it has no mask token or no tokens around a text.
        """
        ids = (tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.mask_token_id)
        if None in ids:
            names = [role for role, number in zip(("[CLS]", "[SEP]", "[MASK]"), ids, strict=True) if number is None]
            raise UsageError(f"the tokenizer has no {few(names)}", hint="use an encoder such as BERT")
        return cls(*ids, tuple(sorted(set(tokenizer.all_special_ids))), len(tokenizer))


def cut_blocks(texts: Iterable[str], tokenizer: PreTrainedTokenizerBase, block: int, special: SpecialIds) -> Rows:
    """Return the texts as rows of `block` ids, each between [CLS] and [SEP]; texts are separated by [SEP].

    What does not fill the last row is left out.
    """
    stream = _stream(texts, sentence_tokenizer(tokenizer), [special.last])
    inner = block - 2
    rows = stream[: len(stream) // inner * inner].reshape(-1, inner)
    return np.pad(rows, ((0, 0), (1, 1)), constant_values=((0, 0), (special.first, special.last)))


def _causal_blocks(texts: Iterable[str], tokenizer: PreTrainedTokenizerBase, block: int) -> Rows:
    """Return the texts as rows of `block` ids; the token for the end of a text stands between texts."""
    end = tokenizer.eos_token_id if tokenizer.eos_token_id is not None else tokenizer.bos_token_id

    def tokenize(some: Sequence[str]) -> list[list[int]]:
        ids: list[list[int]] = encode(tokenizer, some, add_special_tokens=False, verbose=False)["input_ids"]
        return ids

    stream = _stream(texts, tokenize, [] if end is None else [end])
    return stream[: len(stream) // block * block].reshape(-1, block)


def _stream(texts: Iterable[str], tokenize: Tokenize, closing: Sequence[int]) -> Rows:
    """Return the ids of all texts one behind the other, each followed by some more."""
    parts, every = [np.empty(0, dtype=np.int32)], iter(texts)
    while some := list(islice(every, TEXTS_AT_ONCE)):
        parts.append(np.array([id for ids in tokenize(some) for id in (*ids, *closing)], dtype=np.int32))
    return np.concatenate(parts)


class Masked(NamedTuple):
    """Blocks with masks, the positions that were chosen, and the ids that stood there."""

    ids: Tensor
    positions: Tensor
    labels: Tensor


def mask_blocks(blocks: Tensor, special: SpecialIds, share: float, generator: torch.Generator) -> Masked:
    """Choose the same number of tokens in every block, never special ones, and hide them."""
    count = max(1, round(share * (blocks.shape[1] - 2)))
    draws = torch.rand(blocks.shape, generator=generator, device=blocks.device)
    draws[torch.isin(blocks, torch.tensor(special.never, device=blocks.device))] = -1.0
    positions = draws.topk(count, dim=1).indices
    labels = blocks.gather(1, positions)
    kind = torch.rand(labels.shape, generator=generator, device=blocks.device)
    others = torch.randint(special.size, labels.shape, generator=generator, device=blocks.device)
    shown = torch.where(kind < KEPT, labels, torch.where(kind < KEPT + RANDOM, others, special.mask))
    return Masked(blocks.scatter(1, positions, shown), positions, labels)


def with_dropout(
    model: PreTrainedModel, hidden: float | None, attention: float | None
) -> tuple[PretrainedConfig, dict[str, float]]:
    """Return a configuration with other dropout rates, and all its rates by name.

    Raises:
        FormatError: If the configuration has no rate of the kind.
    """
    config = copy.deepcopy(model.config)
    for names, rate, what in ((HIDDEN, hidden, "hidden"), (ATTENTION, attention, "attention")):
        present = [name for name in names if isinstance(getattr(config, name, None), int | float)]
        if rate is not None and not present:
            raise FormatError(
                f"{config.model_type} models have no {what} dropout (none of {', '.join(names)})",
                hint=f"leave {what} dropout out",
            )
        for name in present if rate is not None else ():
            setattr(config, name, rate)
    rates = {name: float(getattr(config, name)) for name in (*HIDDEN, *ATTENTION) if _is_rate(config, name)}
    return config, rates


def _is_rate(config: PretrainedConfig, name: str) -> bool:
    return isinstance(getattr(config, name, None), int | float)


class ContinuedTraining(Training):
    """A language model in training, one batch of blocks a step."""

    unit = "step"
    settings: ContinuedTrainingSettings

    def __init__(
        self,
        original: PreTrainedModel,
        blocks: Rows,
        settings: ContinuedTrainingSettings,
        special: SpecialIds | None,
        seed: int,
    ) -> None:
        config, self.dropout = with_dropout(original, settings.hidden_dropout, settings.attention_dropout)
        self.original, self.special, self.seed = original, special, seed
        model = type(original)(config)
        model.load_state_dict(original.state_dict())
        model.tie_weights()
        network = _with_adapter(model.float(), settings).to(settings.device)
        super().__init__(network, adamw(network.parameters(), settings), settings, total=settings.steps)
        self.blocks = torch.as_tensor(blocks).to(settings.device, torch.int64)
        self.batch = max(1, settings.tokens // blocks.shape[1])
        self.loss, self.counted = torch.zeros((), device=settings.device), 0  # since the last entry of the history

    def advance(self, progress: Progress) -> None:
        """Train on one batch."""
        settings, step = self.settings, self.done + 1
        self.network.train()
        examples = self._examples(self.blocks[self._rows(self.done)])
        row = f"block of {self.blocks.shape[1]:,} tokens"
        self.loss += self.gradient(len(examples[0]), partial(self._loss, examples), row=row)
        self.counted += 1
        self.update(learning_rate=settings.rate(step / self.total), clip=settings.clip)
        if self.counted == max(1, self.total // 40) or step == self.total or (self.path and self._saves_after(step)):
            mean = float(self.loss) / self.counted
            self.require_finite(mean)
            self.history.append({"step": step, "loss": mean})
            self.loss, self.counted = torch.zeros_like(self.loss), 0
        progress(step, self.total, f"loss {self.history[-1]['loss']:.3f}" if self.history else "")

    def checkpoint_is_due(self) -> bool:
        """Return whether the next checkpoint is due after the steps done."""
        return self._saves_after(self.done)

    def _saves_after(self, step: int) -> bool:
        return step % (self.settings.checkpoint_every or max(1, self.total // 10)) == 0

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

    def _examples(self, blocks: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the inputs, and the positions and labels of the tokens to predict, each with a row per block."""
        if self.special is None:
            ids, labels = blocks[:, :-1], blocks[:, 1:]
            return ids, torch.arange(ids.shape[1], device=ids.device).expand_as(ids), labels
        number = int(np.random.default_rng([self.seed, 2, self.done]).integers(1 << 31))
        generator = torch.Generator(blocks.device).manual_seed(number)
        return mask_blocks(blocks, self.special, self.settings.masked, generator)

    def _loss(self, examples: tuple[Tensor, Tensor, Tensor], part: slice) -> Tensor:
        """Return the mean loss of some rows of a batch."""
        ids, positions, labels = (tensor[part] for tensor in examples)
        rows = torch.arange(len(ids), device=ids.device)[:, None].expand_as(positions).flatten()
        with self.autocast():
            model = self.network.get_base_model() if self.settings.adapter == "lora" else self.network
            logits = logits_at(model, rows, positions.flatten(), input_ids=ids).logits
        return torch.nn.functional.cross_entropy(logits.float(), labels.flatten())

    def finished_model(self) -> PreTrainedModel:
        """Return the trained weights in a model with the configuration of the original."""
        trained = self.network.merge_and_unload() if self.settings.adapter == "lora" else self.network
        model = type(self.original)(copy.deepcopy(self.original.config))
        model.load_state_dict({name: tensor.cpu() for name, tensor in trained.state_dict().items()})
        model.tie_weights()
        return model.eval()


def _with_adapter(model: PreTrainedModel, settings: ContinuedTrainingSettings) -> PreTrainedModel:
    """Return the model, with low-rank adapters if they are what is trained."""
    if settings.adapter == "none":
        return model
    peft = require("peft", extra="peft")
    names = {name.rpartition(".")[2] for name, _ in model.named_modules()}
    targets = next((list(group) for group in QUERY_AND_VALUE if set(group) <= names), None)
    if targets is None:
        raise FormatError(
            f"{type(model).__name__} has no query and value projections of a known name "
            f"({'; '.join(' and '.join(group) for group in QUERY_AND_VALUE)})",
            hint="use adapter=none",
        )
    return peft.get_peft_model(
        model,
        peft.LoraConfig(
            r=settings.rank, lora_alpha=2 * settings.rank, target_modules=targets, fan_in_fan_out="c_attn" in targets
        ),
    )
