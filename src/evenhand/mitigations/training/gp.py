"""Gender-preserving debiasing: an encoder that keeps gender in feminine and masculine words, not in stereotypes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple, Protocol

import numpy as np

from evenhand.arrays import Matrix, Matrix64, Rows, Vector64
from evenhand.errors import UsageError, VocabularyError, require
from evenhand.mitigations.labelled_words import biased
from evenhand.mitigations.maps import Encoder
from evenhand.mitigations.maps.vectormap import Tensor
from evenhand.mitigations.method import require_two_groups
from evenhand.mitigations.registry import MITIGATIONS
from evenhand.mitigations.training.gn_glove import given_pairs, pairs_for
from evenhand.mitigations.training.ran import listed_words
from evenhand.mitigations.vector_method import VectorMethod
from evenhand.models.vectors import Coverage, Vectors

if TYPE_CHECKING:
    from evenhand.words import Concept


PUBLISHED_STEREOTYPES = ("gp-stereotype-female", "gp-stereotype-male")
PUBLISHED_NEUTRAL = "gp-neutral"
CLASSES = ("first", "second", "stereotype", "neutral")
STEREOTYPES_PER_SIDE, NEUTRAL_WORDS = 84, 1031  # the sizes of the published lists


class Lists(NamedTuple):
    """Rows of the four classes of words; the first two are aligned in pairs."""

    first: Rows
    second: Rows
    stereotype: Rows
    neutral: Rows
    coverage: Coverage


@MITIGATIONS.register("gp")
@dataclass(frozen=True)
class GP(VectorMethod):
    """Encode vectors with an autoencoder that keeps feminine and masculine words apart and stereotypes neutral.

    Kaneko & Bollegala (2019) train in three stages: an autoencoder (tanh in and out, dropout) on the whole vocabulary;
    one logistic head for each gender on the frozen encoder; then all parts on quadruples of a feminine, a masculine,
    a stereotypical and a neutral word. The last loss is the mean squared reconstruction error plus 1e-4 times the
    error of both heads and the squared projection of encoded stereotypical and neutral words on the mean difference
    of encoded pairs. After each stage the state with the lowest loss on held-out words is kept.

    Lists for gender are the released ones (222 pairs of Zhao et al. 2018, 168 stereotypes, 1,031 neutral words; all
    rows, while the released script drops the first). Other concepts of two groups use their pairs and the words most
    and least biased along their direction, unless `stereotypes` and `neutral` are given.

    What it does not do: with the published weight of 1e-4 the encoder is nearly that of a plain autoencoder, and
    clustering and classifiers find the concept as before (Dawkins 2021: v-measure 0.996). Components beyond 1 cannot
    be reconstructed by a tanh (their share is in the report), and the new vectors have another geometry and scale.

    Args:
        pairs: Counterparts (first, second); None: the published pairs for gender, else the concept's.
        stereotypes: Stereotypical words; None: the published ones for gender, else the most biased words.
        neutral: Neutral words; None: the published ones for gender, else the least biased words.
        epochs: Epochs of the autoencoder over the whole vocabulary.
        batch: Words per step of the autoencoder.
        rate: Learning rate of the autoencoder and of the heads.
        dropout: Dropout of the autoencoder's input.
        head_epochs: Epochs of the two heads.
        joint_epochs: Epochs of the joint stage.
        joint_rate: Learning rate of the joint stage.
        joint_dropout: Dropout of the joint stage.
        weight: Weight of all terms except the reconstruction in the joint stage.
        held_out: Words held out to evaluate the autoencoder; at most a tenth of the vocabulary.
        threads: Threads of torch; one gives the same bytes on every machine and is fast enough for such small layers.
        seed: Seed of initialisation, order, dropout and of the choice of neutral words.
    """

    id: ClassVar[str] = "gp"
    title: ClassVar[str] = "Gender-preserving debiasing (GP)"
    formula: ClassVar[str] = "tanh(x W + b), the encoder of an autoencoder trained with four classes of words"
    cites: ClassVar[tuple[str, ...]] = ("kaneko2019",)
    limits: ClassVar[str] = (
        "Two groups with pairs only. As published it hardly reduces bias, and it changes the geometry of all vectors. "
        "Needs torch, and minutes for a large vocabulary."
    )
    takes: ClassVar[Literal["seconds", "a minute", "minutes"]] = "minutes"

    pairs: Iterable[Sequence[str]] | None = None
    stereotypes: Iterable[str] | None = None
    neutral: Iterable[str] | None = None
    epochs: int = 314
    batch: int = 512
    rate: float = 2e-4
    dropout: float = 0.05
    head_epochs: int = 14
    joint_epochs: int = 5
    joint_rate: float = 0.1
    joint_dropout: float = 0.01
    weight: float = 1e-4
    held_out: int = 5000
    threads: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("stereotypes", "neutral"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, tuple(getattr(self, name)))
        if self.pairs is not None:
            object.__setattr__(self, "pairs", given_pairs(self.pairs))

    def _check(self, concept: Concept) -> None:
        counts = (self.epochs, self.batch, self.head_epochs, self.joint_epochs, self.threads)
        if min(counts) < 1 or not (0 <= self.dropout < 1 and 0 <= self.joint_dropout < 1):
            raise UsageError("epochs, batch and threads must be positive, dropout at least 0 and below 1")
        require_two_groups(concept, "GP")
        pairs_for(concept, self.pairs, "GP", hint="GP(pairs=[(a, b), ...])")

    def _fit(self, v: Vectors, concept: Concept) -> Encoder:
        lists = self._lists(v, concept)
        weight, bias, losses = train(v.matrix, lists, self)
        details: dict[str, object] = {
            "concept": concept.name,
            "sizes": {name: len(getattr(lists, name)) for name in CLASSES},
            "losses": losses,
            "beyond_tanh": float(np.mean(np.abs(v.matrix) > 1)),
        }
        return self._reported(Encoder(weight, bias), v, lists.coverage, details)

    def _lists(self, v: Vectors, concept: Concept) -> Lists:
        pairs = pairs_for(concept, self.pairs, "GP")
        spellings = [(v.find(a), v.find(b)) for a, b in pairs]
        complete = [(v.index[a], v.index[b]) for a, b in spellings if a is not None and b is not None]
        _, coverage = v.locate([word for pair in pairs for word in pair])
        stereotype, neutral, other_coverage = self._other_lists(v, concept)
        rows = np.array(complete, dtype=np.int64).reshape(-1, 2)
        lists = Lists(rows[:, 0], rows[:, 1], stereotype, neutral, coverage + other_coverage)
        short = [name for name in CLASSES if len(getattr(lists, name)) < 2]
        if short:
            raise VocabularyError(
                f"{v.name} has fewer than two words or pairs of: {', '.join(short)}",
                hint="set pairs, stereotypes or neutral to words that these vectors have",
            )
        return lists

    def _other_lists(self, v: Vectors, concept: Concept) -> tuple[Rows, Rows, Coverage]:
        """Return rows of stereotypical and neutral words: given, published, or the most and least biased words."""
        from evenhand.words import wordset

        stereotypes, neutral = self.stereotypes, self.neutral
        if concept.name == "gender":
            published = [word for name in PUBLISHED_STEREOTYPES for word in wordset(name)]
            stereotypes = published if stereotypes is None else stereotypes
            neutral = wordset(PUBLISHED_NEUTRAL) if neutral is None else neutral
        if stereotypes is not None and neutral is not None:
            (first, coverage), (second, neutral_coverage) = v.locate(stereotypes), v.locate(neutral)
            return first, second, coverage + neutral_coverage
        labelled = biased(
            v,
            concept,
            per_class=STEREOTYPES_PER_SIDE,
            neutral=NEUTRAL_WORDS,
            excluded=sorted(listed_words(v, concept)),
            seed=self.seed,
        )
        most, least = labelled.rows[labelled.y < 2], labelled.rows[labelled.y == 2]
        first, second = (
            rows if words is None else v.locate(words)[0] for words, rows in ((stereotypes, most), (neutral, least))
        )
        return first, second, labelled.coverage


class TorchOptimiser(Protocol):
    """What training needs of a torch optimiser."""

    def zero_grad(self) -> None:
        """Clear the gradients."""

    def step(self) -> object:
        """Update the parameters."""


HELD_OUT = 20  # words per class, as released; at most a fifth of the class
FIRST, SECOND = (1.0, 0.0, 0.0, 0.0), (0.0, 1.0, 0.0, 0.0)  # targets of the two heads for a quadruple


class GPNetwork:
    """Encoder, decoder and two heads as tensors, with their own random generator: the global seed is not used."""

    def __init__(self, dim: int, seed: int) -> None:
        self.torch = require("torch", extra="models")
        self.random = self.torch.Generator().manual_seed(seed)
        self.encoder = [self._uniform(dim, dim), self._uniform(dim, fan=dim)]
        self.decoder = [self._uniform(dim, dim), self._uniform(dim, fan=dim)]
        self.heads = [self._uniform(dim, 2), self._uniform(2, fan=dim)]

    def _uniform(self, *shape: int, fan: int | None = None) -> Tensor:
        """Return initial weights of a linear layer: uniform within 1 / sqrt(inputs)."""
        bound = (fan or shape[0]) ** -0.5
        start = (2 * self.torch.rand(*shape, generator=self.random, dtype=self.torch.float32) - 1) * bound
        return start.requires_grad_(True)

    def encode(self, x: Tensor, dropout: float = 0.0) -> Tensor:
        """Encode rows, with dropout of the input while training."""
        if dropout:
            mask = self.torch.rand(x.shape, generator=self.random) >= dropout
            x = x * mask / (1 - dropout)
        return self.torch.tanh(x @ self.encoder[0] + self.encoder[1])

    def decode(self, code: Tensor) -> Tensor:
        """Decode codes to the space of the vectors."""
        return self.torch.tanh(code @ self.decoder[0] + self.decoder[1])

    def logits(self, code: Tensor) -> Tensor:
        """Return the logits of the two heads."""
        return code @ self.heads[0] + self.heads[1]

    def permutation(self, n: int) -> Tensor:
        """Return a random order of n items."""
        return self.torch.randperm(n, generator=self.random)


def train(matrix: Matrix, lists: Lists, method: GP) -> tuple[Matrix64, Vector64, dict[str, list[float]]]:
    """Train all stages; return weight and bias of the encoder, and the held-out loss of every epoch of each stage."""
    net = GPNetwork(matrix.shape[1], method.seed)
    before = net.torch.get_num_threads()
    net.torch.set_num_threads(method.threads)
    try:
        losses = _stages(net, matrix, lists, method)
    finally:
        net.torch.set_num_threads(before)
    weight, bias = (tensor.detach().numpy().astype(np.float64) for tensor in net.encoder)
    return weight, bias, losses


def _stages(net: GPNetwork, matrix: Matrix, lists: Lists, method: GP) -> dict[str, list[float]]:
    x = net.torch.tensor(np.array(matrix, dtype=np.float32))
    parts = [x[np.array(rows)] for rows in (lists.first, lists.second, lists.stereotype, lists.neutral)]
    splits = [_split(part, min(HELD_OUT, len(part) // 5)) for part in _shuffle(parts, net)]
    held, fit = zip(*splits, strict=True)
    return {
        "autoencoder": _autoencoder(net, x, method),
        "heads": _heads(net, fit, held, method),
        "joint": _joint(net, fit, held, method),
    }


def _shuffle(parts: list[Tensor], net: GPNetwork) -> list[Tensor]:
    """Shuffle each class, both sides of the pairs in the same order."""
    order = net.permutation(len(parts[0]))
    return [parts[0][order], parts[1][order], *(part[net.permutation(len(part))] for part in parts[2:])]


def _split(rows: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """Return the first n rows and the others; all rows twice if n is 0."""
    return (rows[:n], rows[n:]) if n else (rows, rows)


def _train_keeping_best(
    net: GPNetwork, tensors: list[Tensor], epochs: int, epoch: Callable[[], None], loss: Callable[[], Tensor]
) -> list[float]:
    """Run the epochs, then restore the state with the lowest held-out loss."""
    losses: list[float] = []
    best: list[Tensor] = []
    for _ in range(epochs):
        epoch()
        with net.torch.no_grad():
            losses.append(float(loss()))
        if losses[-1] <= min(losses):
            best = [tensor.detach().clone() for tensor in tensors]
    with net.torch.no_grad():
        for tensor, value in zip(tensors, best, strict=True):
            tensor.copy_(value)
    return losses


def _autoencoder(net: GPNetwork, x: Tensor, method: GP) -> list[float]:
    """Stage 1: minimise the mean squared reconstruction error of the whole vocabulary, with dropout on the input."""
    tensors = [*net.encoder, *net.decoder]
    adam = net.torch.optim.Adam(tensors, lr=method.rate)
    shuffled = x[net.permutation(len(x))]
    held, rows = _split(shuffled, min(method.held_out, len(x) // 10))

    def epoch() -> None:
        order = net.permutation(len(rows))
        for start in range(0, len(rows), method.batch):
            batch = rows[order[start : start + method.batch]]
            _step(adam, ((net.decode(net.encode(batch, method.dropout)) - batch) ** 2).mean())

    return _train_keeping_best(
        net, tensors, method.epochs, epoch, lambda: ((net.decode(net.encode(held)) - held) ** 2).mean()
    )


def _heads(net: GPNetwork, fit: tuple[Tensor, ...], held: tuple[Tensor, ...], method: GP) -> list[float]:
    """Stage 2: train the heads alone on pairs and neutral words, with squared error as released."""
    adam = net.torch.optim.Adam(net.heads, lr=method.rate)
    with net.torch.no_grad():
        codes = [net.encode(part) for part in (fit[0], fit[1], fit[3])]
        held_codes = [net.encode(part) for part in (held[0], held[1], held[3])]
    targets = net.torch.tensor([[FIRST[i], SECOND[i]] for i in range(3)])

    def error(rows: list[Tensor]) -> Tensor:
        return sum(
            ((net.torch.sigmoid(net.logits(part)) - w) ** 2).mean() for part, w in zip(rows, targets, strict=True)
        )

    def epoch() -> None:
        for words in _tuples(net, codes):
            _step(adam, error(words))

    return _train_keeping_best(net, net.heads, method.head_epochs, epoch, lambda: error(held_codes))


def _joint(net: GPNetwork, fit: tuple[Tensor, ...], held: tuple[Tensor, ...], method: GP) -> list[float]:
    """Stage 3: minimise reconstruction and head errors and the projections of stereotypical and neutral words."""
    tensors = [*net.encoder, *net.decoder, *net.heads]
    sgd = net.torch.optim.SGD(tensors, lr=method.joint_rate)
    targets = net.torch.tensor([FIRST, SECOND]).T
    entropy = net.torch.nn.functional.binary_cross_entropy_with_logits
    directions: list[Tensor] = []

    def loss(quadruple: list[Tensor], dropout: float) -> Tensor:
        codes = [net.encode(part, dropout) for part in quadruple]
        recon = sum(((net.decode(code) - part) ** 2).mean() for code, part in zip(codes, quadruple, strict=True)) / 4
        head_error = sum(
            entropy(net.logits(code), w.expand(len(code), 2)) for code, w in zip(codes, targets, strict=True)
        )
        projection = sum(((code @ directions[-1]) ** 2).mean() for code in codes[2:])
        # The cross-entropy is a mean over the two heads of a word; dividing by 2 gives the sum of the heads' means.
        return recon + method.weight * (head_error / 2 + projection)

    def epoch() -> None:
        with net.torch.no_grad():
            directions.append((net.encode(fit[1]) - net.encode(fit[0])).mean(dim=0))
        for words in _tuples(net, list(fit)):
            _step(sgd, loss(words, method.joint_dropout))

    return _train_keeping_best(net, tensors, method.joint_epochs, epoch, lambda: loss(list(held), 0.0))


def _tuples(net: GPNetwork, parts: list[Tensor]) -> list[list[Tensor]]:
    """Return tuples of one word per class in random order, as many as the smallest class has; pairs stay together."""
    pairs = net.permutation(len(parts[0]))
    orders = [pairs, pairs, *(net.permutation(len(part)) for part in parts[2:])]
    n = min(len(part) for part in parts)
    return [[part[order[i]][None] for part, order in zip(parts, orders, strict=True)] for i in range(n)]


def _step(optimiser: TorchOptimiser, loss: Tensor) -> None:
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
