"""Train a large biLM on one GPU in minutes, with the checks that tell whether its gender direction is worth removing.

    python scripts/elmo_bilm.py --data DATA --work WORK --out OUT [--seconds 540] [--try tie=0 tie=1] [--tiny]

DATA is what elmo_texts.py writes. --try trains each variant of the settings for --trial seconds, and goes on with the
one whose token vectors have the larger cosine. WORK keeps the checkpoint: the same command trains on from there, with a
new cycle of the learning rate; --start takes only the weights of the network, from a folder. OUT gets log.jsonl (a line
a minute), bilm.json and the weights in 6 to 7 bits a number (see elmo_pack.py); the last line is about the packed
weights. Training and text are described in `Settings` and elmo_texts.py; the network is evenhand's ElmoNetwork, whose
expensive parts are computed by elmo_kernels.py. Sentences begin in the state zero, as evenhand reads them.

The check, in each line: the cosine of he - she with the first principal component of the nine other pairs of words,
and the singular values of those pairs, on token vectors (layer 0), and on means over sentences of layers 1 and 2.
Published for ELMo's token vectors: .60, and .46 .32 .29.
"""

import argparse
import json
import lzma
import math
import platform
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from bilm_training import END, OTHER, SPECIAL, START, BiLM
from elmo_kernels import LSTMLayer, SampledLoss, fused
from elmo_pack import load_packed, write_packed
from elmo_texts import Text, unpack
from torch.nn import functional

import evenhand as eh
from evenhand import subspaces
from evenhand.files import write_text
from evenhand.models.encoders.elmo.encoder import Elmo, average_vectors, word_vectors
from evenhand.models.encoders.elmo.files import ElmoOptions, character_ids
from evenhand.models.encoders.elmo.network import CharacterCNN

PAIR = ("he", "she")
# The nine pairs of the paper's stability tables, names with the capital that ELMo expects.
GENDERED = (
    *(("man", "woman"), ("himself", "herself"), ("John", "Mary"), ("father", "mother"), ("boy", "girl")),
    *(("son", "daughter"), ("his", "her"), ("guy", "gal"), ("male", "female")),
)
FILTERS = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512))
LARGE = ElmoOptions(cells=2048, projection=512, filters=FILTERS, highways=2)
TINY = ElmoOptions(cells=64, projection=32, filters=((1, 16), (2, 16), (3, 32)), highways=1)
CORRECTION = 64
WRONG = 0.1  # relative difference between the kernels and the network; products in bfloat16 differ by .01
SHORT = 12  # bytes; longer words are read apart, so that few words set the number of positions


@dataclass(frozen=True)
class Settings:
    """What decides the result beside data, sizes and time.

    Attributes:
        vocabulary: number of words that are predicted; all others are one class. Any word can be read.
        samples: words drawn for the sampled softmax; all tokens of a batch share them.
        tokens: tokens in a batch, padding included.
        learning_rate: largest rate of AdamW, reached after `warmup` steps, from where it falls as half a cosine.
        end: share of it that is left at the end.
        decay: weight decay.
        dropout: of the inputs of each layer and of the softmax.
        clip: largest norm of the gradient.
        tie: a word's row of the softmax is a linear map of its token vector and of `CORRECTION` numbers of its own, as
            in the CNN softmax of Jozefowicz et al. 2016. Otherwise it is free, as in the published ELMo.
    """

    vocabulary: int = 60_000
    samples: int = 8_192
    tokens: int = 40_960
    learning_rate: float = 1.5e-3
    warmup: int = 400
    end: float = 0.0
    decay: float = 0.01
    dropout: float = 0.25
    clip: float = 1.0
    tie: bool = False


SMALL = {"vocabulary": 3_000, "samples": 256, "tokens": 1_024, "warmup": 20, "learning_rate": 3e-3}


@dataclass(frozen=True)
class Batch:
    """Sentences in both directions, as places in a list of distinct words; the second reads each from its end."""

    distinct: list[torch.Tensor]  # ids of the words, short ones and long ones
    places: torch.Tensor  # (2, tokens, sentences)
    targets: torch.Tensor  # (2, tokens - 1, sentences) word ids; those out of the vocabulary are OTHER
    target_places: torch.Tensor  # those of OTHER and of drawn words are right only if the softmax is tied
    drawn: torch.Tensor  # ids of the words of the sampled softmax
    drawn_places: torch.Tensor
    weights: torch.Tensor  # 1 / number of tokens that count, or 0 for padding
    tokens: int


class Corpus:
    """Texts as word ids, in batches of sentences of similar length."""

    def __init__(self, texts: list[Text], words: list[str], settings: Settings, device: torch.device) -> None:
        self.ids = np.concatenate([text.ids for text in texts])
        self.lengths = np.concatenate([text.lengths for text in texts])
        self.starts = np.cumsum(self.lengths) - self.lengths
        self.words, self.settings, self.device = words, settings, device
        bytes_of = np.fromiter((len(word.encode()) for word in words), np.int64, len(words))
        self.short = bytes_of <= SHORT
        self.short[: len(SPECIAL)] = True

    def __len__(self) -> int:
        return len(self.lengths)

    def sentence(self, number: int) -> list[str]:
        """The words of a sentence."""
        return [self.words[word] for word in self.ids[self.starts[number] :][: self.lengths[number]]]

    def batches(self, rng: np.random.Generator | None) -> Iterator[Batch]:
        """Yield all sentences once; without a generator, shortest first."""
        noise = 1 + 0.2 * rng.random(len(self)) if rng else 1
        order = np.argsort(self.lengths * noise, kind="stable")
        longest, cuts, start = np.maximum.accumulate(self.lengths[order]) + 2, [0], 0
        while start < len(order):
            fitting = min(start + self.settings.tokens // longest[start], len(order)) - 1
            start += max(1, int(self.settings.tokens // longest[fitting]))
            cuts.append(min(start, len(order)))
        numbers = rng.permutation(len(cuts) - 1) if rng else range(len(cuts) - 1)
        for number in numbers:
            yield self.batch(order[cuts[number] : cuts[number + 1]], rng)

    def batch(self, sentences: np.ndarray, rng: np.random.Generator | None = None) -> Batch:
        """Return some sentences with their boundaries, and words drawn by a log-uniform law of their rank."""
        lengths = self.lengths[sentences]
        positions = np.arange(int(lengths.max()) + 2)
        inside = positions < lengths[:, None] + 2
        where = np.where(inside, self.starts[sentences][:, None] + positions - 1, 0).clip(0, len(self.ids) - 1)
        words = np.where(inside, self.ids[where], END)
        words[:, 0] = START
        words[np.arange(len(words)), lengths + 1] = END
        back = lengths[:, None] + 1 - positions
        both = np.stack([words, np.take_along_axis(words, np.where(back >= 0, back, positions), 1)]).transpose(0, 2, 1)
        vocabulary, samples = self.settings.vocabulary, self.settings.samples if rng else 0
        drawn = np.exp((rng or np.random.default_rng(0)).random(samples) * math.log(vocabulary + 1)) - 1
        drawn = np.minimum(drawn.astype(np.int64), vocabulary - 1)
        targets = np.where(both < vocabulary, both, OTHER)[:, 1:]
        counts = np.bincount(words.ravel(), minlength=len(self.words))
        if self.settings.tie:
            counts[drawn] += 1
            counts[OTHER] += 1
        used = np.flatnonzero(counts)
        distinct = [used[self.short[used]], used[~self.short[used]]]
        place = np.zeros(len(self.words), np.int64)
        place[np.concatenate(distinct)] = np.arange(len(used))
        counted = np.broadcast_to(inside.T[1:], targets.shape)
        weights = counted.astype(np.float32) / counted.sum()

        def send(array: np.ndarray) -> torch.Tensor:
            tensor = torch.from_numpy(np.ascontiguousarray(array))
            pinned = tensor.pin_memory() if self.device.type == "cuda" and len(tensor) else tensor
            return pinned.to(self.device, non_blocking=True)

        return Batch(
            distinct=[send(part) for part in distinct],
            places=send(place[both]),
            targets=send(targets.astype(np.int64)),
            target_places=send(place[targets]),
            drawn=send(drawn),
            drawn_places=send(place[drawn]),
            weights=send(weights),
            tokens=int(lengths.sum()),
        )


class Model(BiLM):
    """evenhand's biLM, computed by the kernels."""

    def __init__(self, options: ElmoOptions, settings: Settings, words: list[str], device: torch.device) -> None:
        super().__init__(options, min(settings.vocabulary, len(words)), settings.dropout)
        self.settings = settings
        self.initialise(0)
        self.tied = self.lift = None
        if settings.tie:
            self.weight = torch.nn.Parameter(torch.zeros(len(self.bias), CORRECTION))
            self.tied = torch.nn.Linear(options.projection, options.projection, bias=False)
            self.lift = torch.nn.Linear(CORRECTION, options.projection, bias=False)
        self.half = device.type == "cuda"
        self.characters = torch.as_tensor(character_ids(words, options.longest_word), device=device)
        self.to(device)

    @property
    def kind(self) -> torch.dtype:
        """The precision of products."""
        return torch.bfloat16 if self.half else torch.float32

    def token_vectors(self, ids: torch.Tensor, longest: int) -> torch.Tensor:
        """Return the token vectors of words of at most so many bytes."""
        cnn: CharacterCNN = self.network.characters
        widest = max(layer.kernel_size[0] for layer in cnn.convolutions)
        characters = self.characters[ids, : min(longest + 2 + widest, self.characters.shape[1])]
        with torch.autocast(self.characters.device.type, torch.bfloat16, enabled=self.half):
            embedded = functional.embedding(characters.long(), cnn.embedding)
            x = torch.cat([cnn.activation(cnn._features(embedded, layer)) for layer in cnn.convolutions], 1)
            for highway in cnn.highways:
                x = highway(x)
            return cnn.projection(x).to(self.kind)

    def vectors(self, distinct: list[torch.Tensor]) -> torch.Tensor:
        """Return the token vectors of short and long words."""
        return torch.cat(
            [
                self.token_vectors(ids, longest)
                for ids, longest in zip(distinct, (SHORT, self.characters.shape[1]), strict=True)
                if len(ids)
            ]
        )

    def layers_of(self, batch: Batch, vectors: torch.Tensor) -> list[torch.Tensor]:
        """Return the outputs of each layer, (2, tokens, sentences, projection), in reading order."""
        y, outputs = functional.embedding(batch.places, vectors), []
        for number, layer in enumerate(self.network.layers):
            inputs = self.network.dropout(y)
            parameters = (p.to(self.kind) for p in (layer.weight, layer.bias, layer.projection))
            out = LSTMLayer.apply(inputs, *parameters, layer.cell_clip, layer.projection_clip)
            y = out + inputs if number else out
            outputs.append(y)
        return outputs

    def tied_rows(self, ids: torch.Tensor, vectors: torch.Tensor) -> torch.Tensor:
        """Return the rows of the softmax of words with these token vectors, if it is tied."""
        own = functional.embedding(ids.clamp(max=len(self.bias) - 1), self.weight)
        rows: torch.Tensor = self.tied(vectors.float()) + self.lift(own)
        return rows

    def loss(self, batch: Batch) -> torch.Tensor:
        """Return the mean loss under the sampled softmax.

        A drawn word is divided by its expected number of draws, so that the expectation of the sum is that of the full
        softmax; the target enters once, as it is.
        """
        vectors = self.vectors(batch.distinct)
        top = self.network.dropout(self.layers_of(batch, vectors)[-1][:, :-1]).reshape(-1, vectors.shape[1])
        span, drawn, targets = math.log(len(self.bias) + 1), batch.drawn, batch.targets.flatten()
        expected = ((drawn + 2) / (drawn + 1)).log().log() + math.log(len(drawn) / span)
        if self.settings.tie:
            known = self.tied_rows(torch.cat(batch.distinct), vectors)
            rows, wanted = (
                functional.embedding(at, known) for at in (batch.drawn_places, batch.target_places.flatten())
            )
        else:
            rows, wanted = (functional.embedding(at, self.weight) for at in (drawn, targets))
        true = (top.float() * wanted).sum(-1) + self.bias.index_select(0, targets)
        biases = self.bias.index_select(0, drawn) - expected
        loss: torch.Tensor = SampledLoss.apply(
            top, rows.to(self.kind), biases, true, drawn, targets, batch.weights.flatten()
        )
        return loss

    @torch.no_grad()
    def perplexity(self, corpus: Corpus, most: int) -> float:
        """Return the perplexity of both directions under the full softmax, on at most so many sentences."""
        self.eval()
        table = self.weight
        if self.settings.tie:
            parts = torch.arange(len(table), device=table.device).split(4_096)
            table = torch.cat([self.tied_rows(ids, self.token_vectors(ids, self.characters.shape[1])) for ids in parts])
        total, count = 0.0, 0
        order = np.linspace(0, len(corpus) - 1, min(most, len(corpus))).astype(int)
        order = order[np.argsort(corpus.lengths[order], kind="stable")]
        for part in np.array_split(order, max(1, len(order) // 250)):
            batch = corpus.batch(part)
            top = self.layers_of(batch, self.vectors(batch.distinct))[-1][:, :-1].reshape(-1, table.shape[1])
            for x, target, weight in zip(
                *(y.split(4_096) for y in (top, batch.targets.flatten(), batch.weights.flatten())), strict=True
            ):
                losses = functional.cross_entropy(x.float() @ table.T + self.bias, target, reduction="none")
                inside = weight > 0
                total, count = total + float((losses * inside).sum()), count + int(inside.sum())
        return math.exp(total / count)


def directions(model: Model, sentences: list[list[str]]) -> dict[str, Any]:
    """Compare he - she with the other pairs, on each layer."""
    elmo = Elmo(model.network)
    wanted = [*PAIR, *(word for pair in GENDERED for word in pair)]
    present = {word for sentence in sentences for word in sentence}
    averages = average_vectors(elmo, [word for word in wanted if word in present], sentences)
    by_layer = {"0": word_vectors(elmo, wanted)}
    by_layer |= {str(number): vectors for number, vectors in enumerate(averages) if number}
    found = {}
    for layer, vectors in by_layer.items():
        pairs = [pair for pair in GENDERED if all(word in vectors for word in pair)]
        result = subspaces.stability(vectors, pairs, subspaces.pair(vectors, *PAIR))
        differences = np.array([vectors[a].astype(np.float64) - vectors[b] for a, b in pairs])
        he_she = vectors[PAIR[0]].astype(np.float64) - vectors[PAIR[1]]
        sizes = np.linalg.norm(differences, axis=1) * np.linalg.norm(he_she)
        found[layer] = {
            "cosine": round(result.cosine, 4),
            "ratios": [round(ratio, 3) for ratio in result.ratios],
            "pairs": len(pairs),
            "with_pairs": [round(float(c), 2) for c in differences @ he_she / sizes],
        }
    return found


def sentences_with(corpus: Corpus, each: int) -> list[list[str]]:
    """Up to so many sentences with each word of the pairs."""
    index = {word: number for number, word in enumerate(corpus.words)}
    of = np.repeat(np.arange(len(corpus)), corpus.lengths)
    chosen: set[int] = set()
    for word in {*PAIR, *(word for pair in GENDERED for word in pair)}:
        if word in index:
            found = np.unique(of[corpus.ids == index[word]])
            chosen.update(found[:: max(1, len(found) // each)][:each].tolist())
    return [corpus.sentence(number) for number in sorted(chosen)]


class Training:
    """Model, optimiser, and what was done so far."""

    def __init__(self, model: Model, settings: Settings, device: torch.device) -> None:
        self.model, self.settings, self.device = model, settings, device
        self.optimiser = torch.optim.AdamW(
            model.parameters(),
            lr=settings.learning_rate,
            betas=(0.9, 0.99),
            eps=1e-7,
            weight_decay=settings.decay,
            fused=device.type == "cuda",
        )
        self.step, self.tokens, self.seconds, self.epoch = 0, 0, 0.0, 0

    def train(self, corpus: Corpus, limit: float, report: Any, every: float, checkpoint: Path | None) -> bool:
        """Train for so many seconds with one cycle of the learning rate; False if the loss is not finite any more."""
        corpus.settings = self.settings
        began, first, losses = time.perf_counter(), self.step, list[torch.Tensor]()
        earlier, told, started, paused = self.seconds, began, self.tokens, 0.0
        while True:
            for batch in corpus.batches(np.random.default_rng([self.epoch, 7])):
                now = time.perf_counter()
                done = min(1.0, (now - began) / limit)
                share = self.settings.end + (1 - self.settings.end) * (1 + math.cos(math.pi * done)) / 2
                losses.append(self._step(batch, share * min(1.0, (self.step - first + 1) / self.settings.warmup)))
                self.step, self.tokens = self.step + 1, self.tokens + batch.tokens
                if self.step % 8 == 0:
                    losses[-1].item()  # the queue of the GPU stays short, and the clock true
                now = time.perf_counter()
                self.seconds = earlier + now - began
                if now - told > every or now - began > limit:
                    loss = float(torch.stack(losses[-200:]).mean())
                    if not math.isfinite(loss):
                        return False
                    rate = (self.tokens - started) / (now - began - paused)
                    report(self, loss=round(loss, 3), rate=round(rate), share=round(share, 3))
                    if checkpoint:
                        self.save(checkpoint)
                    told, losses = time.perf_counter(), []
                    paused += told - now
                    if now - began > limit:
                        return True
            self.epoch += 1

    def _step(self, batch: Batch, share: float) -> torch.Tensor:
        self.model.train()
        for group in self.optimiser.param_groups:
            group["lr"] = self.settings.learning_rate * share
        self.optimiser.zero_grad(set_to_none=True)
        loss = self.model.loss(batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.clip, foreach=True)
        self.optimiser.step()
        return loss.detach()

    def save(self, path: Path) -> None:
        """Write a checkpoint with numbers of 16 bits."""
        state = {name: tensor.half().cpu() for name, tensor in self.model.state_dict().items()}
        moments = {
            index: {name: value.bfloat16().cpu() if value.dim() else value.cpu() for name, value in entries.items()}
            for index, entries in self.optimiser.state_dict()["state"].items()
        }
        done = {name: getattr(self, name) for name in ("step", "tokens", "seconds", "epoch")}
        partial = path.with_suffix(".partial")
        torch.save({"model": state, "moments": moments, "done": done, "settings": asdict(self.settings)}, partial)
        partial.replace(path)

    def load(self, path: Path) -> None:
        """Go on from a checkpoint."""
        stored = torch.load(path, map_location="cpu", weights_only=True)
        self.model.load_state_dict({name: tensor.float() for name, tensor in stored["model"].items()})
        moments = {
            index: {name: value.float().to(self.device) if value.dim() else value for name, value in entries.items()}
            for index, entries in stored["moments"].items()
        }
        groups = self.optimiser.state_dict()["param_groups"]
        self.optimiser.load_state_dict({"state": moments, "param_groups": groups})
        for name, value in stored["done"].items():
            setattr(self, name, value)
        self.epoch += 1  # the rest of the pass that was cut off is left out


def self_check(model: Model, corpus: Corpus) -> dict[str, float]:
    """Compare the outputs of the kernels with those of evenhand's network in single precision, on some sentences."""
    model.eval()
    batch = corpus.batch(np.arange(8))
    with torch.no_grad():
        tops = model.layers_of(batch, model.vectors(batch.distinct))
        sentences = [corpus.sentence(number) for number in range(8)]
        elmo = Elmo(model.network)
        expected = elmo.vectors(sentences)
    worst: dict[str, float] = {}
    for number, top in enumerate(tops, start=1):
        forward, backward = top.float().cpu().numpy()
        errors = []
        for place, words in enumerate(sentences):
            read = (forward[1 : len(words) + 1, place], backward[len(words) : 0 : -1, place])
            reference = expected[place][number]
            errors.append(np.abs(np.concatenate(read, -1) - reference).max() / np.abs(reference).max())
        worst[f"layer {number}"] = float(max(errors))
    return worst


class Reports:
    """Writes a line with perplexities and directions for a training, into a file and on the screen."""

    def __init__(self, path: Path, corpus: Corpus, valid: dict[str, Corpus], sentences: int) -> None:
        self.path, self.corpus, self.valid, self.began = path, corpus, valid, time.perf_counter()
        self.sentences = sentences
        self.few, self.many = (sentences_with(corpus, max(1, each)) for each in (sentences // 25, sentences * 2 // 5))

    def __call__(self, training: Training, *, full: bool = False, **more: Any) -> dict[str, Any]:
        """Report; `full` uses more sentences."""
        model, most = training.model, self.sentences * (4 if full else 1)
        line = {
            "clock": round(time.perf_counter() - self.began, 1),
            "seconds": round(training.seconds, 1),
            "step": training.step,
            "tokens": training.tokens,
            "passes": round(training.tokens / len(self.corpus.ids), 2),
            "tie": model.settings.tie,
            **more,
            "perplexity": {name: round(model.perplexity(text, most), 2) for name, text in self.valid.items()},
            "directions": directions(model, self.many if full else self.few),
        }
        with self.path.open("a") as log:
            log.write(json.dumps(line) + "\n")
        brief = {layer: found["cosine"] for layer, found in line["directions"].items()}
        print(json.dumps({**line, "directions": brief}), flush=True)
        return line


def variants(given: argparse.Namespace, words: int) -> list[Settings]:
    """The settings to try, or the only ones."""
    chosen = {name: getattr(given, name) for name in asdict(Settings()) if getattr(given, name) is not None}
    base = replace(Settings(), **{**(SMALL if given.tiny else {}), **chosen})
    base = replace(base, vocabulary=min(base.vocabulary, words))
    kinds = {name: type(value) for name, value in asdict(base).items()}
    found = []
    for text in given.variants or [""]:
        pairs = [part.split("=") for part in text.split(",") if part]
        found.append(replace(base, **{name: kinds[name](float(value)) for name, value in pairs}))
    return found


def begin(given: argparse.Namespace, corpus: Corpus, report: Reports, device: torch.device) -> Training:
    """The training to go on with: that of the checkpoint, the better one of the variants, or a new one."""
    options, checkpoint = TINY if given.tiny else LARGE, given.work / "bilm.pt"
    tries = variants(given, len(corpus.words))
    if checkpoint.exists():
        stored = torch.load(checkpoint, map_location="cpu", weights_only=True)["settings"]
        shape = {name: stored[name] for name in ("vocabulary", "tie")}
        settings = replace(tries[0], **shape)
        training = Training(Model(options, settings, corpus.words, device), settings, device)
        training.load(checkpoint)
        return training
    best: tuple[float, Training] | None = None
    for settings in tries:
        torch.manual_seed(0)
        training = Training(Model(options, settings, corpus.words, device), settings, device)
        if given.start:
            weights = Elmo.load(given.start, device="cpu").network.state_dict()
            training.model.network.load_state_dict(weights)
        corpus.settings = settings
        checked = self_check(training.model, corpus)
        print(json.dumps({"settings": asdict(settings), "self_check": checked}), flush=True)
        if not max(checked.values()) < WRONG:
            raise SystemExit("the kernels do not compute evenhand's network")
        line = report(training, what="start")
        if len(tries) > 1:
            if not training.train(corpus, given.trial, report, given.every, None):
                print(json.dumps({"what": "the loss is not finite", "settings": asdict(settings)}), flush=True)
                continue
            line = report(training, what="trial", full=True)
        cosine = line["directions"]["0"]["cosine"]
        if best is None or cosine > best[0]:
            best = cosine, training
    if best is None:
        raise SystemExit("no variant could be trained: lower the learning rate")
    return best[1]


def main() -> None:
    """Train, report, and write the weights."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument(
        "--seconds", type=float, default=540.0, help="from the start of the command to the end of training"
    )
    parser.add_argument("--every", type=float, default=60.0, help="seconds between reports")
    parser.add_argument("--try", dest="variants", nargs="*", help="settings such as tie=1 or tie=1,learning_rate=2e-3")
    parser.add_argument("--trial", type=float, default=60.0, help="seconds of each trial")
    parser.add_argument("--sentences", type=int, default=1_000, help="of each held-out text, for a report")
    parser.add_argument("--start", type=Path, help="folder with the weights of a network to begin from")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--tiny", action="store_true")
    for name, value in asdict(Settings()).items():
        kind = {"action": argparse.BooleanOptionalAction} if isinstance(value, bool) else {"type": type(value)}
        parser.add_argument(f"--{name.replace('_', '-')}", dest=name, default=None, **kind)
    given = parser.parse_args()
    began, device = time.perf_counter(), torch.device(given.device)
    torch.set_float32_matmul_precision("high")
    for folder in (given.work, given.out):
        folder.mkdir(parents=True, exist_ok=True)

    words = lzma.decompress((given.data / "words.txt.xz").read_bytes()).decode().split("\n")
    texts = {path.name.split(".")[0]: unpack(path.read_bytes()) for path in sorted(given.data.glob("*.ids.xz"))}
    some = variants(given, len(words))[0]
    corpus = Corpus([t for name, t in texts.items() if name.startswith("train")], words, some, device)
    valid = {name: Corpus([t], words, some, device) for name, t in texts.items() if name.startswith("valid")}
    report = Reports(given.out / "log.jsonl", corpus, valid, given.sentences)
    loaded = time.perf_counter() - began
    training = begin(given, corpus, report, device)
    model, checkpoint = training.model, given.work / "bilm.pt"
    about = {
        "options": model.network.options.to_dict(),
        "settings": asdict(training.settings),
        "weights": sum(parameter.numel() for parameter in model.network.parameters()),
        "sentences": len(corpus),
        "tokens": len(corpus.ids),
        "words": len(words),
        "input": json.loads((given.data / "manifest.json").read_text()),
        "device": torch.cuda.get_device_name() if device.type == "cuda" else "cpu",
        "versions": {"python": platform.python_version(), "torch": torch.__version__, "evenhand": eh.__version__},
        "kernels": "triton" if fused(model.weight) else "torch",
        "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "seconds_to_load": round(loaded, 1),
        "frequent": [word for word in words[len(SPECIAL) :] if word.isalpha()][:2_000],
    }
    print(json.dumps({name: about[name] for name in ("weights", "tokens", "words", "kernels", "settings")}), flush=True)
    left = max(1.0, given.seconds - (time.perf_counter() - began))
    if not training.train(corpus, left, report, given.every, checkpoint):
        print("the loss is not finite: back to the last checkpoint", flush=True)
        training.load(checkpoint)
    before = report(training, what="as trained", full=True)
    network = {name: tensor.float().cpu().numpy() for name, tensor in model.network.state_dict().items()}
    about["files"] = write_packed(given.out, network)
    packed = load_packed(given.out)
    model.network.load_state_dict({name: torch.from_numpy(array) for name, array in packed.items()})
    after = report(training, what="packed", full=True)
    about |= {"as_trained": before, "packed": after, "self_check": self_check(model, corpus)}
    about["log"] = [json.loads(line) for line in (given.out / "log.jsonl").read_text().splitlines()]
    write_text(given.out / "bilm.json", json.dumps(about, indent=1) + "\n")
    print(json.dumps({"files": about["files"], "self_check": about["self_check"]}), flush=True)


if __name__ == "__main__":
    main()
