"""Train the biLM of an ELMo model: predict each word from the words before it, and from the words after it."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain, islice
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from evenhand.arrays import Rows
from evenhand.errors import DegenerateError, FormatError, UsageError, shown
from evenhand.files import MAX_RECORD, existing, limited_lines, open_bytes, record_too_long, writing
from evenhand.models.device import resolve_precision, torch_device
from evenhand.models.encoders.elmo.encoder import Elmo
from evenhand.models.encoders.elmo.files import SENTENCE_END, SENTENCE_START, ElmoOptions, character_ids
from evenhand.models.encoders.elmo.network import ElmoNetwork, reversed_positions
from evenhand.models.model_files import JSONObject

UNKNOWN = "<unk>"
SPECIAL = (SENTENCE_START, SENTENCE_END, UNKNOWN)  # the first word ids
START, END, OTHER = range(3)
JITTER = 0.2  # lengths grow by up to this share before sorting: batches are mixed, padding hardly increases


@dataclass(frozen=True, eq=False)
class SentenceCorpus:
    """Sentences as one array of word ids; sentence i has `lengths[i]` words from `starts[i]` on.

    `words` begins with the boundaries of sentences and `<unk>`; the others follow by falling frequency.
    """

    words: tuple[str, ...]
    ids: Rows
    starts: Rows
    lengths: Rows
    name: str = "sentences"
    sha256: str = ""

    @classmethod
    def of(
        cls, sentences: Iterable[Sequence[str]], *, words: Sequence[str] | None = None, name: str = "sentences"
    ) -> SentenceCorpus:
        """Number the words of sentences; words that are not in a given list become `<unk>`."""
        rows = [tuple(sentence) for sentence in sentences if sentence]
        if not rows:
            raise FormatError(f"{name}: no sentences", hint="write one sentence per line, words separated by spaces")
        if words is None:
            counts = Counter(chain.from_iterable(rows))
            for word in SPECIAL:
                counts.pop(word, None)
            words = (*SPECIAL, *(word for word, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))))
        index = {word: number for number, word in enumerate(words)}
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        ids = np.fromiter((index.get(word, OTHER) for row in rows for word in row), np.int64, int(lengths.sum()))
        digest = hashlib.sha256(np.concatenate([ids, lengths]).tobytes()).hexdigest()
        return cls(tuple(words), ids, np.cumsum(lengths) - lengths, lengths, name, digest)

    @classmethod
    def read(cls, path: Path, *, words: Sequence[str] | None = None, most: int | None = None) -> SentenceCorpus:
        """Read a text file, compressed or not, with a sentence of space-separated words in each line.

        Args:
            path: the file.
            words: number the words by this list.
            most: read at most this many sentences.
        """
        with open_bytes(path, kept=True) as stream:
            kept = islice(limited_lines(stream, MAX_RECORD), most or None)
            lines = (_words_of(line, f"{path}, line {number}") for number, line in enumerate(kept, start=1))
            return cls.of(lines, words=words, name=path.name)

    def __len__(self) -> int:
        return len(self.lengths)

    def sentence(self, number: int) -> list[str]:
        """Return the words of a sentence."""
        start = self.starts[number]
        return [self.words[word] for word in self.ids[start : start + self.lengths[number]]]

    def to_dict(self) -> dict[str, object]:
        """Return name, counts and digest."""
        return {
            "name": self.name,
            "sentences": len(self),
            "tokens": len(self.ids),
            "words": len(self.words),
            "sha256": self.sha256,
        }


def _words_of(line: bytes | None, where: str) -> list[str]:
    if line is None:
        raise record_too_long(where, MAX_RECORD)
    try:
        return line.decode().split()
    except UnicodeDecodeError as error:
        raise FormatError(f"{where}: not UTF-8 text", hint="convert the file first") from error


class SentenceBatches:
    """The sentences of a corpus on a device, in batches of similar length with at most `tokens` tokens."""

    def __init__(self, corpus: SentenceCorpus, *, tokens: int, device: torch.device) -> None:
        self.corpus, self.tokens, self.device = corpus, tokens, device
        self.ids, self.starts, self.lengths = (
            torch.as_tensor(array, device=device) for array in (corpus.ids, corpus.starts, corpus.lengths)
        )

    def order(self, seed: int, epoch: int) -> list[Rows]:
        """Return the sentences of each batch of an epoch."""
        rng = np.random.default_rng([seed, epoch])
        lengths = self.corpus.lengths
        order = np.argsort(lengths * (1 + JITTER * rng.random(len(lengths))), kind="stable")
        batches = list(self._cut(order))
        return [batches[number] for number in rng.permutation(len(batches))]

    def in_order(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Yield all sentences, shortest first."""
        for batch in self._cut(np.argsort(self.corpus.lengths, kind="stable")):
            yield self.batch(batch)

    def _cut(self, order: Rows) -> Iterator[Rows]:
        """Yield batches; jitter leaves sentences a little longer than those after them."""
        longest, start = np.maximum.accumulate(self.corpus.lengths[order]) + 2, 0
        while start < len(order):
            stop = start + max(
                1, int(self.tokens // longest[min(start + self.tokens // longest[start], len(order)) - 1])
            )
            yield order[start:stop]
            start = stop

    def batch(self, sentences: Rows) -> tuple[torch.Tensor, torch.Tensor]:
        """Return (sentences, longest + 2) word ids with boundaries and END as padding, and lengths with boundaries."""
        rows = torch.as_tensor(sentences, device=self.device)
        lengths = self.lengths[rows]
        positions = torch.arange(int(self.corpus.lengths[sentences].max()), device=self.device)
        inside = positions < lengths[:, None]
        words = torch.where(inside, self.ids[torch.where(inside, self.starts[rows][:, None] + positions, 0)], END)
        edge = words.new_full((len(words), 1), END)
        return torch.cat([torch.full_like(edge, START), words, edge], 1), lengths + 2


Progress = Callable[[int, int, str], None]
METADATA = "evenhand-elmo-training"
# Filters up to width 5; the published model has 2,048 filters up to width 7.
SMALL = ElmoOptions(cells=768, projection=256, filters=((1, 32), (2, 32), (3, 64), (4, 128), (5, 256)), highways=1)


@dataclass(frozen=True)
class BiLMSettings:
    """Everything that decides the result of training beside data, sizes and seed.

    Attributes:
        vocabulary: number of words that are predicted; all others are one class. Any word can be read.
        samples: words drawn for the sampled softmax of a batch; 0 computes the full softmax.
        tokens: tokens in a batch, padding included.
        epochs: passes over the sentences.
        learning_rate: largest rate of Adam, reached after `warmup` steps, from where it falls linearly to zero.
        warmup: steps.
        dropout: of the inputs of each layer and of the softmax.
        clip: largest norm of the gradient.
    """

    vocabulary: int = 60_000
    samples: int = 8_192
    tokens: int = 16_384
    epochs: int = 10
    learning_rate: float = 2e-3
    warmup: int = 300
    dropout: float = 0.1
    clip: float = 1.0

    def __post_init__(self) -> None:
        for name in ("vocabulary", "tokens", "epochs", "warmup"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.samples < 0 or not 0 <= self.dropout < 1 or not self.learning_rate > 0 or not self.clip > 0:
            raise UsageError(
                "samples must not be negative, dropout in [0, 1), learning_rate and clip positive, got "
                f"samples={self.samples}, dropout={self.dropout}, learning_rate={self.learning_rate}, clip={self.clip}"
            )


class BiLM(nn.Module):  # type: ignore[misc]
    """An ELMo network with a softmax over words that both directions share, as in the published model."""

    def __init__(self, options: ElmoOptions, words: int, dropout: float) -> None:
        super().__init__()
        self.network = ElmoNetwork(options)
        self.network.dropout.p = dropout
        self.weight = nn.Parameter(torch.zeros(words, options.projection))
        self.bias = nn.Parameter(torch.zeros(words))

    def initialise(self, seed: int) -> None:
        """Fill all parameters from a seed."""
        self.network.initialise(seed)
        generator = torch.Generator().manual_seed(seed + 1)
        with torch.no_grad():
            sd = 1 / math.sqrt(self.weight.shape[1])
            self.weight.copy_(torch.randn(self.weight.shape, generator=generator) * sd)
            self.bias.zero_()

    def outputs(self, characters: torch.Tensor, words: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Return the last layer's outputs before each predicted word: (2, tokens - 1, sentences, projection)."""
        distinct, places = words.unique(return_inverse=True)
        vectors = self.network.characters(characters[distinct].long())
        reversal = reversed_positions(lengths, words.shape[1])
        top = self.network.both_directions(functional.embedding(places, vectors), reversal)[-1]
        dropped: torch.Tensor = self.network.dropout(top[:, :-1])
        return dropped

    def targets(self, words: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the next word of each output, in reading order of each direction, and a mask of those that count."""
        reversal = reversed_positions(lengths, words.shape[1])
        both = torch.stack([words, words.gather(1, reversal)]).transpose(1, 2)[:, 1:]
        known = torch.where(both < len(self.bias), both, OTHER)
        inside = torch.arange(1, words.shape[1], device=words.device)[:, None] < lengths
        return known, inside.expand_as(known)

    def losses(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return the negative log-probability of each target under the full softmax."""
        logits = functional.linear(outputs.flatten(0, -2), self.weight, self.bias)
        flat = functional.cross_entropy(logits.float(), targets.flatten(), reduction="none")
        return flat.view(targets.shape)

    def sampled_losses(self, outputs: torch.Tensor, targets: torch.Tensor, samples: int) -> torch.Tensor:
        """Return the losses with a sampled sum over the other words.

        Words are drawn by a log-uniform law of their rank, and each is divided by its expected number of draws, so that
        the expectation of the sum is that of the full softmax. The target enters once, as it is.
        """
        flat, wanted = outputs.flatten(0, -2), targets.flatten()
        span = math.log(len(self.bias) + 1)
        drawn = (torch.rand(samples, device=flat.device) * span).exp().sub(1).long().clamp(max=len(self.bias) - 1)

        def expected(words: torch.Tensor) -> torch.Tensor:
            """Return the logarithm of the expected number of draws of a word."""
            return ((words + 2) / (words + 1)).log().log() + math.log(samples / span)

        true = (flat * functional.embedding(wanted, self.weight)).sum(-1).float() + self.bias[wanted]
        others = functional.linear(flat, self.weight[drawn], self.bias[drawn] - expected(drawn))
        others = others.masked_fill(wanted[:, None] == drawn, -torch.inf)
        return (torch.logaddexp(true, others.float().logsumexp(-1)) - true).view(targets.shape)


class BiLMTraining:
    """A training in progress: model, optimiser, position and history."""

    def __init__(
        self,
        corpus: SentenceCorpus,
        valid: SentenceCorpus,
        options: ElmoOptions,
        settings: BiLMSettings,
        *,
        seed: int,
        device: torch.device,
        half: bool,
    ) -> None:
        if valid.words != corpus.words:
            raise UsageError(
                "the validation sentences are numbered by other words", hint="read them with words=corpus.words"
            )
        self.corpus, self.valid, self.settings, self.seed, self.device, self.half = (
            corpus, valid, settings, seed, device, half,
        )  # fmt: skip
        self.model = BiLM(options, min(settings.vocabulary, len(corpus.words)), settings.dropout)
        self.model.initialise(seed)
        self.model.to(device)
        # SPECIAL words are the boundaries of sentences, and `<unk>`, which is spelt.
        self.characters = torch.as_tensor(character_ids(corpus.words, options.longest_word), device=device)
        self.optimiser = torch.optim.Adam(
            self.model.parameters(), lr=settings.learning_rate, betas=(0.9, 0.99), fused=device.type == "cuda"
        )
        self.batches = SentenceBatches(corpus, tokens=settings.tokens, device=device)
        self.epoch_steps = len(self.batches.order(seed, 0))
        self.step, self.seconds = 0, 0.0
        self.history: list[dict[str, float]] = []

    @property
    def steps(self) -> int:
        """Number of steps of all epochs; epochs differ by a few batches, and a shorter one ends early."""
        return self.settings.epochs * self.epoch_steps

    def identity(self) -> dict[str, object]:
        """Return what must be the same to resume."""
        return {
            "corpus": self.corpus.sha256,
            "options": self.model.network.options.to_dict(),
            "settings": asdict(self.settings),
            "seed": self.seed,
        }

    def train(self, limit: float, checkpoint: Path | None, save_every: float, progress: Progress | None) -> None:
        """Train to the end of the last epoch or of the time."""
        began = saved = checked = time.perf_counter()
        earlier, total, counted = self.seconds, torch.zeros((), device=self.device), 0
        while self.step < self.steps and self.seconds < limit:
            epoch, first = divmod(self.step, self.epoch_steps)
            for batch in self.batches.order(self.seed, epoch)[first : self.epoch_steps]:
                done = max(self.step / self.steps, self.seconds / limit)
                total += self._step(batch, (1 - done) * min(1.0, (self.step + 1) / self.settings.warmup))
                counted += 1
                self.step += 1
                now = time.perf_counter()
                self.seconds = earlier + now - began
                if self.seconds >= limit:
                    break
                if now - checked > 1:
                    loss, checked = float(total) / counted, now
                    self._require_finite(loss)
                    if progress:
                        progress(self.step, self.steps, f"epoch {epoch + 1}, loss {loss:.3f}")
                if checkpoint and now - saved > save_every:
                    save_checkpoint(self, checkpoint)
                    saved = time.perf_counter()
            else:
                self.step = (epoch + 1) * self.epoch_steps
            loss = float(total) / max(counted, 1)
            self._require_finite(loss)
            self.history.append({"epoch": epoch + 1, "step": self.step, "loss": loss, "seconds": self.seconds})
            total, counted = torch.zeros((), device=self.device), 0
        if checkpoint:
            save_checkpoint(self, checkpoint)

    def _step(self, batch: np.ndarray, share: float) -> torch.Tensor:
        """Take one step with a share of the learning rate; return the loss."""
        self.model.train()
        for group in self.optimiser.param_groups:
            group["lr"] = self.settings.learning_rate * share
        words, lengths = self.batches.batch(batch)
        with self.autocast():
            outputs = self.model.outputs(self.characters, words, lengths)
            targets, inside = self.model.targets(words, lengths)
            samples = self.settings.samples
            losses = (
                self.model.sampled_losses(outputs, targets, samples) if samples else self.model.losses(outputs, targets)
            )
        loss = (losses * inside).sum() / inside.sum()
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.clip, foreach=True)
        self.optimiser.step()
        return loss.detach()

    def autocast(self) -> torch.autocast:
        """Compute products in bfloat16 if set; parameters stay in single precision."""
        return torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.half)

    @torch.no_grad()  # type: ignore[untyped-decorator,unused-ignore]
    def perplexities(self) -> dict[str, float]:
        """Return the perplexity of each direction on the validation sentences under the full softmax."""
        self.model.eval()
        sums, count = torch.zeros(2, dtype=torch.float64, device=self.device), 0
        for words, lengths in SentenceBatches(
            self.valid, tokens=self.settings.tokens // 4, device=self.device
        ).in_order():
            with self.autocast():
                outputs = self.model.outputs(self.characters, words, lengths)
                targets, inside = self.model.targets(words, lengths)
                for way in range(2):
                    sums[way] += (self.model.losses(outputs[way], targets[way]) * inside[way]).sum().double()
            count += int((lengths - 1).sum())
        forward, backward = (sums / count).exp().tolist()
        return {"forward": forward, "backward": backward}

    def _require_finite(self, loss: float) -> None:
        if not math.isfinite(loss):
            raise DegenerateError(
                f"the loss is {loss} near step {self.step}: training diverged",
                hint=f"lower the learning rate (now {self.settings.learning_rate:g})",
            )


@dataclass(frozen=True, eq=False)
class TrainedBiLM:
    """A trained model with its record."""

    elmo: Elmo
    manifest: Mapping[str, object]


def train_bilm(
    corpus: SentenceCorpus,
    valid: SentenceCorpus,
    *,
    options: ElmoOptions = SMALL,
    settings: BiLMSettings | None = None,
    seed: int = 0,
    device: str = "auto",
    precision: str = "auto",
    time_limit: float | None = None,
    checkpoint: Path | None = None,
    save_every: float = 120.0,
    progress: Progress | None = None,
) -> TrainedBiLM:
    """Train a biLM on sentences; each sentence begins in the state zero.

    Args:
        corpus: training sentences.
        valid: validation sentences, numbered by the words of `corpus`.
        options: sizes of the model.
        settings: see `BiLMSettings`.
        seed: seed of weights, order, dropout and sampled words.
        device: auto, cpu, cuda or cuda:N.
        precision: float32, or bfloat16 for products on a GPU.
        time_limit: seconds, those before a resume included. The learning rate falls to zero within them.
        checkpoint: file to resume from if it exists, and to write to.
        save_every: seconds between checkpoints.
        progress: called with steps done, total steps and a line of text.
    """
    target = torch_device(device)
    half = resolve_precision(precision, target, supported=("float32", "bfloat16")) == "bfloat16"
    chosen = settings or BiLMSettings()
    gpus = [target] if target.type == "cuda" else []
    with torch.random.fork_rng(devices=gpus):
        torch.manual_seed(seed)
        training = BiLMTraining(corpus, valid, options, chosen, seed=seed, device=target, half=half)
        if checkpoint and checkpoint.exists():
            load_checkpoint(training, checkpoint)
        training.train(math.inf if time_limit is None else time_limit, checkpoint, save_every, progress)
    perplexities = training.perplexities()
    tokens = int(corpus.lengths.sum())
    manifest = {
        **training.identity(),
        "train": corpus.to_dict(),
        "valid": valid.to_dict(),
        "vocabulary": len(training.model.bias),
        "epochs": training.step / training.epoch_steps,
        "steps": training.step,
        "seconds": training.seconds,
        "tokens_per_second": training.step / training.epoch_steps * tokens / max(training.seconds, 1e-9),
        "history": training.history,
        "valid_perplexity": perplexities,
        "precision": "bfloat16" if half else "float32",
        "device": torch.cuda.get_device_name(target) if gpus else "cpu",
    }
    return TrainedBiLM(Elmo(training.model.network), manifest)


def save_checkpoint(training: BiLMTraining, path: Path) -> None:
    """Write everything the next step depends on; the previous file is replaced when the new one is complete."""
    from safetensors.torch import save as to_bytes

    tensors = {f"model.{name}": tensor for name, tensor in training.model.state_dict().items()}
    for index, entries in training.optimiser.state_dict()["state"].items():
        tensors |= {f"optimiser.{index}.{key}": value for key, value in entries.items()}
    tensors["random.cpu"] = torch.get_rng_state()
    if training.device.type == "cuda":
        tensors["random.cuda"] = torch.cuda.get_rng_state(training.device)
    about = {
        "identity": training.identity(),
        "step": training.step,
        "seconds": training.seconds,
        "history": training.history,
    }
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    with writing(path) as out:
        out.write(to_bytes(plain, metadata={METADATA: json.dumps(about)}))


def load_checkpoint(training: BiLMTraining, path: Path) -> None:
    """Bring a new training to the state of a checkpoint.

    Raises:
        UsageError: If the checkpoint belongs to another training.
        FormatError: If the file is damaged or not a checkpoint.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(existing(path, what="checkpoint"), framework="pt") as file:
            about: JSONObject = json.loads((file.metadata() or {})[METADATA])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
        _require_same(about["identity"], json.loads(json.dumps(training.identity())), path)
        training.model.load_state_dict(
            {name.removeprefix("model."): tensor for name, tensor in tensors.items() if name.startswith("model.")}
        )
        state: dict[int, dict[str, torch.Tensor]] = {}
        for name, tensor in tensors.items():
            kind, _, rest = name.partition(".")
            if kind == "optimiser":
                index, _, key = rest.partition(".")
                state.setdefault(int(index), {})[key] = tensor
        groups = training.optimiser.state_dict()["param_groups"]
        training.optimiser.load_state_dict({"state": state, "param_groups": groups})
        torch.set_rng_state(tensors["random.cpu"])
        if training.device.type == "cuda" and "random.cuda" in tensors:
            torch.cuda.set_rng_state(tensors["random.cuda"], training.device)
        training.step, training.seconds, training.history = about["step"], about["seconds"], about["history"]
    except UsageError:
        raise
    except (SafetensorError, KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise FormatError(
            f"{path}: not a checkpoint of a biLM, or damaged ({error})", hint="delete it to train from the start"
        ) from error


def _require_same(stored: Mapping[str, object], current: Mapping[str, object], path: Path) -> None:
    if differing := sorted(name for name in current if stored.get(name) != current[name]):
        then, now = (shown(values.get(differing[0])) for values in (stored, current))
        raise UsageError(
            f"{path}: checkpoint of another training: {differing[0]} was {then}, is {now}",
            hint="use the same data and settings, or another checkpoint",
        )
