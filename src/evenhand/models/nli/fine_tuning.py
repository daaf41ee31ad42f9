"""Fine-tune an encoder for natural language inference, with or without a map at its word-piece table.

The set-up is that of Dev et al. (2020): a linear layer on the last layer's [CLS] vector, AdamW with warm-up and linear
decay, dropout inside the encoder and none on the classifier. Their map is a projection of the word-piece vectors,
before positions, segments and LayerNorm are added. They call it a constraint on what the inner layers receive, so it
acts on the looked-up vectors during training, and the table itself is trained like all other weights. At the end the
map is folded into the table, which gives the same function without the map.

The classes of transformers have a dense layer and an activation before their last layer. A linear classifier is stored
in them by a dense layer that keeps the vector where the activation is a straight line: near 0 for tanh, far on the
positive side for ReLU and GELU. So the result loads anywhere.
"""

# ruff: noqa: E402
from __future__ import annotations

import contextlib
import copy
import json
import platform
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from evenhand.errors import FormatError, UsageError, few, require, unknown_name

require("torch", extra="models")  # first: its error names the command that installs torch

import torch

from evenhand.arrays import Rows
from evenhand.files import sha256_of, write_text
from evenhand.models.encoders.folding import fold
from evenhand.models.encoders.hooks import SiteMap, TensorMap, hooked
from evenhand.models.encoders.sites import Site
from evenhand.models.encoders.transformer import Transformer, load_model
from evenhand.models.huggingface import load_tokenizer, quiet
from evenhand.models.huggingface_folder import resolve_folder
from evenhand.models.nli.labelled_pairs import LabelledPairs, require_several_labels
from evenhand.models.nli.protocol import LABELS
from evenhand.models.nli.tokenised_pairs import DevicePairs, TokenisedPairs, cut_by_length, length_limit
from evenhand.models.training import AdamWSettings, Training, adamw, device_name, seeded
from evenhand.outputs import replacing_folder
from evenhand.progress import Progress
from evenhand.version import __version__

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase


MapTime = Literal["train+test", "test"]
WHEN: tuple[MapTime, ...] = ("train+test", "test")
SITE = "embeddings"
RECORD = "training.json"
CONFIG_KEY = "evenhand_training"
DEV_BATCHES = 4  # batches without gradients take a fraction of the memory


@dataclass(frozen=True, kw_only=True)
class FineTuningSettings(AdamWSettings):
    """Everything that decides the result, apart from encoder, pairs, map and seed.

    Attributes:
        epochs: passes over the pairs.
        batch: pairs in a batch.
        tokens: the largest number of tokens in a batch, padding included.
        longest: tokens of a pair; longer ones are truncated.
        dropout: rate inside the encoder.
        head: `linear` is a linear layer on [CLS]; `own` is the head of the model's class (for BERT with a tanh).
    """

    epochs: int = 3
    batch: int = 48
    tokens: int = 16_384
    longest: int = 128
    dropout: float = 0.1
    head: Head = "linear"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_at_least(1, "epochs", "batch", "tokens", "longest")
        self.require_rates("dropout")
        if self.head not in ("linear", "own"):
            raise unknown_name("head", self.head, ("linear", "own"))


@dataclass(frozen=True, eq=False)
class FineTunedNLI:
    """A classifier after its last epoch, on the CPU, with the map folded in.

    Attributes:
        model: a `...ForSequenceClassification` of transformers with the labels entailment, neutral, contradiction.
        history: training loss and development accuracy of each epoch.
        manifest: data, encoder, map, settings, versions.
    """

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    seed: int
    history: tuple[Mapping[str, float], ...]
    manifest: Mapping[str, object]

    @property
    def dev_accuracy(self) -> float:
        """The accuracy on the development pairs after the last epoch; with a map for test time only, before it."""
        return float(self.history[-1]["dev_accuracy"])

    def to_dict(self) -> dict[str, object]:
        """Return plain data for JSON, without the weights."""
        history = [dict(entry) for entry in self.history]
        return {"seed": self.seed, "dev_accuracy": self.dev_accuracy, "history": history, **self.manifest}

    def save(self, folder: str | Path, *, dtype: str = "float32") -> Path:
        """Write a folder that `transformers` loads; `training.json` and the configuration say how it was trained."""
        if dtype not in ("float32", "float16"):
            raise UsageError(f"dtype must be float32 or float16, got {dtype!r}")
        path, number = Path(folder), torch.float16 if dtype == "float16" else torch.float32
        with replacing_folder(path, keep_others=True) as partial, quiet(require("transformers", extra="models")):
            setattr(self.model.config, CONFIG_KEY, _short(self.to_dict()))
            self.model.save_pretrained(partial, state_dict=_converted(self.model, number))
            self.tokenizer.save_pretrained(partial)
            write_text(partial / RECORD, json.dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n")
        return path


def fine_tune(
    body: str | Path,
    pairs: LabelledPairs | TokenisedPairs,
    dev: LabelledPairs | TokenisedPairs,
    *,
    seed: int = 0,
    change: TensorMap | None = None,
    when: MapTime = "train+test",
    checkpoint: Path | None = None,
    progress: Progress | None = None,
    **settings: object,
) -> FineTunedNLI:
    """Fine-tune an encoder on labelled pairs.

    The weights are those after the last epoch, as in the paper: the learning rate falls to 0, so an earlier epoch is
    not a finished training. On a CPU, training is reproducible bit for bit, also after an interruption.

    What it does not tell you: bias scores differ by several points between seeds. Train at least five.

    Args:
        body: folder of an encoder with its tokenizer.
        pairs: training pairs.
        dev: development pairs, evaluated after each epoch. Use other pairs for the final accuracy.
        seed: decides the new layer, the order of pairs, and dropout.
        change: a map for the word-piece table, such as a fitted `VectorMap`.
        when: `train+test` applies the map to every looked-up vector during training; `test` only afterwards.
        checkpoint: a file, written after every epoch. The same call resumes from it.
        progress: called with steps done, total steps and a line of text.
        **settings: see `FineTuningSettings`: epochs, batch, tokens, longest, learning_rate, weight_decay, warm_up,
            clip, dropout, head, device, precision.
    """
    options = FineTuningSettings.of(settings, function="fine_tune").resolve()
    _check(pairs, seed, change, when)
    folder = resolve_folder(body)
    tokenizer = load_tokenizer(folder)
    start = time.perf_counter()
    with seeded(options.device, seed):
        network = TrainableClassifier(build_classifier(folder, dropout=options.dropout), options.head)
        longest = min(options.longest, length_limit(network.model, tokenizer))
        data = [part if isinstance(part, TokenisedPairs) else TokenisedPairs.of(part, tokenizer, longest=longest)
                for part in (pairs, dev)]  # fmt: skip
        _check_tokens(network.model, tokenizer, data[0])
        run = NLIFineTuning(network, data[0], data[1], options, seed, padding=int(tokenizer.pad_token_id or 0))
        fingerprint = _fingerprint(folder, data, options, seed, change, when)
        hook = hooked(network.model, SITE, change) if change is not None and when == "train+test" else None
        with hook or contextlib.nullcontext():
            run.run(checkpoint, fingerprint, progress)
    model = network.stored().cpu().eval()
    if change is not None:
        model = fold_into_table(model, tokenizer, change)
    record = _manifest(fingerprint, data, options, change, when, time.perf_counter() - start)
    return FineTunedNLI(model, tokenizer, seed, tuple(run.history), record)


def fold_into_table(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, change: TensorMap) -> PreTrainedModel:
    """Return a classifier whose word-piece table is mapped; all other weights are shared with the given one."""
    transformer = Transformer("classifier", "nli-classifier", model, tokenizer, "cpu", "float32")
    return fold(transformer, SiteMap(Site.parse(SITE), change)).transformer.model


class NLIFineTuning(Training):
    """A classifier in training; a batch holds pairs of similar length."""

    settings: FineTuningSettings

    def __init__(
        self,
        network: TrainableClassifier,
        pairs: TokenisedPairs,
        dev: TokenisedPairs,
        settings: FineTuningSettings,
        seed: int,
        *,
        padding: int,
    ) -> None:
        network.to(settings.device)
        super().__init__(network, adamw(network.parameters(), settings), settings, total=settings.epochs)
        self.seed = seed
        self.pairs = DevicePairs(pairs, settings.device, padding=padding)
        self.dev = DevicePairs(dev, settings.device, padding=padding)

    def advance(self, progress: Progress) -> None:
        """Train for an epoch and evaluate on the development pairs."""
        settings, lengths = self.settings, self.pairs.data.ids.lengths
        batches = cut_by_length(lengths, pairs=settings.batch, tokens=settings.tokens, seed=(self.seed, self.done))
        total = torch.zeros((), device=settings.device)
        text = f"epoch {self.done + 1}/{self.total}"
        text += f", dev {self.history[-1]['dev_accuracy']:.1%}" if self.history else ""
        self.network.train()
        for step, rows in enumerate(batches, start=1):
            total += len(rows) * self.gradient(len(rows), partial(self._loss, rows), row="pair")
            share = (self.done + step / len(batches)) / self.total
            self.update(learning_rate=settings.rate(share), clip=settings.clip)
            progress(self.done * len(batches) + step, self.total * len(batches), text)
        loss = float(total) / len(lengths)
        self.require_finite(loss, of=f" of seed {self.seed}")
        self.history.append({"epoch": self.done + 1, "loss": loss, "dev_accuracy": self.accuracy()})

    def _loss(self, rows: Rows, part: slice) -> torch.Tensor:
        batch = self.pairs.batch(rows[part])
        with self.autocast():
            logits = self.network(batch.inputs)
        return torch.nn.functional.cross_entropy(logits.float(), batch.labels)

    def accuracy(self) -> float:
        """Return the share of development pairs that are classified correctly."""
        settings, lengths = self.settings, self.dev.data.ids.lengths
        correct = torch.zeros((), dtype=torch.int64, device=settings.device)
        self.network.eval()
        with torch.inference_mode(), self.autocast():
            for rows in cut_by_length(lengths, pairs=settings.batch * DEV_BATCHES, tokens=settings.tokens):
                batch = self.dev.batch(rows)
                correct += (self.network(batch.inputs).argmax(-1) == batch.labels).sum()
        return int(correct) / len(lengths)


def _converted(model: PreTrainedModel, number: torch.dtype) -> dict[str, torch.Tensor]:
    """Return the weights in a number format; indices stay as they are."""
    weights = model.state_dict().items()
    return {name: tensor.to(number) if tensor.is_floating_point() else tensor for name, tensor in weights}


def _check(pairs: LabelledPairs | TokenisedPairs, seed: int, change: TensorMap | None, when: str) -> None:
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise UsageError(f"the seed must be a non-negative integer, got {seed!r}")
    if when not in WHEN:
        raise unknown_name("time of the change", when, WHEN)
    if change is not None and change.needs_words and when == "train+test":
        raise UsageError(
            f"{change!r} depends on the word, so the table could not be trained under it",
            hint='use when="test", or a method that maps every vector the same way, such as linear or leace',
        )
    if isinstance(pairs, LabelledPairs):
        require_several_labels(pairs)


def _check_tokens(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, pairs: TokenisedPairs) -> None:
    """Raise an error for a tokenizer without [CLS] at the start, or with ids beyond the table."""
    first = tokenizer.cls_token_id
    if first is None or int(pairs.ids.ids[0]) != int(first):
        raise UsageError(
            f"the tokenizer {type(tokenizer).__name__} puts no classification token before a pair",
            hint="use an encoder such as BERT, whose texts begin with [CLS]",
        )
    rows = int(model.get_input_embeddings().weight.shape[0])
    if int(pairs.ids.ids.max()) >= rows:
        raise UsageError(
            f"the tokenizer gives the id {int(pairs.ids.ids.max()):,}, but the model has {rows:,} embeddings",
            hint="use the model's own tokenizer",
        )


def _fingerprint(
    folder: Path,
    data: list[TokenisedPairs],
    settings: FineTuningSettings,
    seed: int,
    change: TensorMap | None,
    when: MapTime,
) -> dict[str, object]:
    """Return what must be the same to resume from a checkpoint."""
    body = {"config_sha256": sha256_of(folder / "config.json")}
    body |= {path.name: sha256_of(path) for path in sorted(folder.glob("*.safetensors"))}
    sources = {"train": data[0].about["sha256"], "dev": data[1].about["sha256"]}
    applied = change.digest if change is not None and when == "train+test" else ""
    return {"body": body, **sources, "seed": seed, "change": applied, **asdict(settings)}


def _manifest(
    fingerprint: Mapping[str, object],
    data: list[TokenisedPairs],
    settings: FineTuningSettings,
    change: TensorMap | None,
    when: MapTime,
    seconds: float,
) -> dict[str, object]:
    return {
        "evenhand": __version__,
        "body": fingerprint["body"],
        "settings": asdict(settings),
        "data": {"train": data[0].about, "dev": data[1].about},
        "change": None
        if change is None
        else {"map": repr(change), "sha256": change.digest, "site": SITE, "when": when},
        "tokens": int(data[0].ids.lengths.sum()),
        "seconds": round(seconds, 2),
        "device": device_name(settings.device),
        "packages": {
            "python": platform.python_version(),
            **{name: version(name) for name in ("torch", "transformers", "numpy")},
        },
    }


def _short(record: Mapping[str, Any]) -> dict[str, object]:
    """Return the part of the manifest that is stored in the model's configuration."""
    kept = {name: record[name] for name in ("evenhand", "seed", "dev_accuracy", "change", "settings")}
    return {**kept, "train": record["data"]["train"], "task": "natural language inference"}


Head = Literal["linear", "own"]
SCALE = 2.0**-12  # tanh(x) = x to 1e-7 for |x| < .001, and half precision still resolves x
SHIFT = 2.0**6  # beyond the range of any normalised vector; GELU(x) = x there
INITIAL_SCALE = 0.02  # standard deviation of new weights, as in BERT
DROPOUTS = ("hidden_dropout_prob", "attention_probs_dropout_prob", "dropout", "attention_dropout")
CLASSIFIER_DROPOUTS = ("classifier_dropout", "seq_classif_dropout")


class HeadLayers(NamedTuple):
    """Where a class keeps its dense layer and its last layer, and the activation between them."""

    dense: str
    last: str
    activation: Literal["tanh", "relu", "gelu"]


HEADS: dict[str, HeadLayers] = {
    "bert": HeadLayers("bert.pooler.dense", "classifier", "tanh"),
    "roberta": HeadLayers("classifier.dense", "classifier.out_proj", "tanh"),
    "xlm-roberta": HeadLayers("classifier.dense", "classifier.out_proj", "tanh"),
    "camembert": HeadLayers("classifier.dense", "classifier.out_proj", "tanh"),
    "mpnet": HeadLayers("classifier.dense", "classifier.out_proj", "tanh"),
    "distilbert": HeadLayers("pre_classifier", "classifier", "relu"),
    "electra": HeadLayers("classifier.dense", "classifier.out_proj", "gelu"),
}


class TrainableClassifier(torch.nn.Module):  # type: ignore[misc]  # torch has no types here
    """A classifier of transformers, with a linear layer on [CLS] in place of its own head, or with its own."""

    def __init__(self, model: PreTrainedModel, head: Head) -> None:
        super().__init__()
        self.model = model
        self.linear: torch.nn.Linear | None = None
        if head == "linear":
            layers = head_layers(model)
            self.linear = torch.nn.Linear(int(model.config.hidden_size), len(LABELS))
            torch.nn.init.normal_(self.linear.weight, std=INITIAL_SCALE)
            torch.nn.init.zeros_(self.linear.bias)
            for name in (layers.dense, layers.last):
                model.get_submodule(name).requires_grad_(False)

    def forward(self, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        """Return the logits."""
        if self.linear is None:
            return self.model(**inputs).logits
        return self.linear(self.model.base_model(**inputs).last_hidden_state[:, 0])

    def stored(self) -> PreTrainedModel:
        """Return the classifier, with the linear layer stored in its own head."""
        if self.linear is not None:
            store_linear(self.model, self.linear.weight.detach(), self.linear.bias.detach())
        return self.model


def head_layers(model: PreTrainedModel) -> HeadLayers:
    """Return where the class of a model keeps its head.

    Raises:
        UsageError: If no linear layer can be stored in the class.
    """
    kind = str(model.config.model_type)
    if kind not in HEADS:
        raise UsageError(
            f"a linear layer on [CLS] cannot be stored in {type(model).__name__}; known types are {', '.join(HEADS)}",
            hint='use head="own" to train the head of the class',
        )
    return HEADS[kind]


@torch.no_grad()  # type: ignore[untyped-decorator,unused-ignore]
def store_linear(model: PreTrainedModel, weight: torch.Tensor, bias: torch.Tensor) -> None:
    """Set the head of a classifier so that its logits are those of a linear layer on the first vector."""
    layers = head_layers(model)
    dense, last = model.get_submodule(layers.dense), model.get_submodule(layers.last)
    identity = torch.eye(dense.weight.shape[0], device=weight.device, dtype=dense.weight.dtype)
    if layers.activation == "tanh":
        dense.weight.copy_(identity * SCALE)
        dense.bias.zero_()
        last.weight.copy_(weight / SCALE)
        last.bias.copy_(bias)
    else:
        dense.weight.copy_(identity)
        dense.bias.fill_(SHIFT)
        last.weight.copy_(weight)
        last.bias.copy_(bias - SHIFT * weight.double().sum(1).to(bias.dtype))
    model.requires_grad_(True)


def build_classifier(folder: str | Path, *, dropout: float) -> PreTrainedModel:
    """Return a classifier of sentence pairs with the weights of an encoder and a new head, in float32.

    Args:
        folder: an encoder, or a model with another head, which is left out.
        dropout: the rate inside the encoder; the classification layer has none.

    Raises:
        FormatError: If the encoder does not fit into a classifier of its type.
    """
    transformers = require("transformers", extra="models")
    body = load_model(folder, "encoder").model
    config = _classifier_config(body.config, dropout)
    with quiet(transformers):
        try:
            model = transformers.AutoModelForSequenceClassification.from_config(config)
        except ValueError as error:  # no such class for this type
            raise FormatError(
                f"{folder}: transformers has no classifier for {config.model_type} models", hint="use an encoder"
            ) from error
    missing, surplus = model.base_model.load_state_dict(body.state_dict(), strict=False)
    lost = [name for name in missing if not name.startswith("pooler.")]
    unknown = [name for name in surplus if not name.startswith("pooler.")]
    if lost or unknown:
        raise FormatError(
            f"{folder}: {type(body).__name__} does not fit into {type(model).__name__}: {few([*lost, *unknown])}",
            hint="use a BERT-like encoder",
        )
    return model.float()


def _classifier_config(config: PretrainedConfig, dropout: float) -> PretrainedConfig:
    changed = copy.deepcopy(config)
    changed.num_labels = len(LABELS)
    changed.id2label = dict(enumerate(LABELS))
    changed.label2id = {label: index for index, label in enumerate(LABELS)}
    changed.problem_type = "single_label_classification"
    for names, rate in ((DROPOUTS, dropout), (CLASSIFIER_DROPOUTS, 0.0)):
        for name in names:
            if hasattr(changed, name):
                setattr(changed, name, rate)
    return changed
