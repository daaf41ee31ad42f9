"""Gender-preserving debiasing: an encoder that keeps what feminine and masculine words are, and not stereotypes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from evenhand.arrays import Matrix, Matrix64, Rows, Vector64
from evenhand.errors import UsageError, VocabularyError, require
from evenhand.mitigations.labelled_words import biased
from evenhand.mitigations.maps import Encoder
from evenhand.mitigations.method import Mitigation
from evenhand.mitigations.registry import MITIGATIONS
from evenhand.mitigations.requirements import require_pairs, require_two_groups
from evenhand.mitigations.training.ran import listed_words
from evenhand.models.vectors import Coverage, Vectors
from evenhand.subspaces.lookup import as_pairs

if TYPE_CHECKING:
    from evenhand.words import Concept


PUBLISHED_PAIRS = "gn-glove-pairs"
PUBLISHED_STEREOTYPES = ("gp-stereotype-female", "gp-stereotype-male")
PUBLISHED_NEUTRAL = "gp-neutral"
CLASSES = ("first", "second", "stereotype", "neutral")
STEREOTYPES_PER_SIDE, NEUTRAL_WORDS = 84, 1031  # the sizes of the published lists


class Lists(NamedTuple):
    """Rows of the four classes of words; those of the first two belong together in pairs."""

    first: Rows
    second: Rows
    stereotype: Rows
    neutral: Rows
    coverage: Coverage


@MITIGATIONS.register("gp")
@dataclass(frozen=True)
class GP(Mitigation):
    """tanh(x W + b), the encoder half of an autoencoder that was nudged by four classes of words.

    Kaneko & Bollegala 2019, in three stages: an autoencoder (tanh in and out, dropout) on the whole vocabulary; one
    logistic head for each gender on the frozen encoder; then all together on quadruples of a feminine, a masculine, a
    stereotypical and a neutral word: mean squared reconstruction plus 1e-4 times (both heads tell the feminine and
    the masculine word from the others; the encoded stereotypical and neutral words have no part along the mean
    difference of encoded pairs). After each stage the state with the least loss on held-out words is kept.

    Lists for gender as released (222 pairs of Zhao et al. 2018, 168 stereotypes, 1,031 neutral words; all their rows,
    while the released script loses the first). Other concepts of two groups: their pairs, and the words most and
    least biased along their direction, unless `stereotypes` and `neutral` are given.

    What it does not do: with the published weight of 1e-4 the encoder is an autoencoder's, and clusters and
    classifiers find the concept as before (Dawkins 2021: v-measure 0.996). Components beyond 1 cannot come back from
    a tanh (their share is in the report), and the new vectors have another geometry and scale.
    """

    id: ClassVar[str] = "gp"
    title: ClassVar[str] = "Gender-preserving debiasing (GP)"
    citation: ClassVar[str] = "Kaneko & Bollegala 2019, ACL"
    limits: ClassVar[str] = (
        "Two groups with pairs only. As published it hardly reduces bias; it changes the geometry of all vectors. "
        "Needs torch, and minutes for a large vocabulary."
    )

    pairs: Iterable[Sequence[str]] | None = None
    stereotypes: Iterable[str] | None = None
    neutral: Iterable[str] | None = None
    epochs: int = 314
    """Of the autoencoder, over the whole vocabulary."""
    batch: int = 512
    rate: float = 2e-4
    dropout: float = 0.05
    head_epochs: int = 14
    joint_epochs: int = 5
    joint_rate: float = 0.1
    joint_dropout: float = 0.01
    weight: float = 1e-4
    """Of everything but the reconstruction, in the last stage."""
    held_out: int = 5000
    """Words that only judge the autoencoder; never more than a tenth of the vocabulary."""
    threads: int = 1
    """Of torch: one gives the same bytes on every machine, and layers this small gain little from more."""
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("stereotypes", "neutral"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, tuple(getattr(self, name)))
        if self.pairs is not None:
            object.__setattr__(self, "pairs", as_pairs(self.pairs))
            if not self.pairs:
                raise UsageError("pairs is empty", hint="give pairs=[(a, b), ...], or leave it out")

    def _fit(self, v: Vectors, concept: Concept) -> Encoder:
        """Train in three stages and return the encoder."""
        lists = self._lists(v, concept)
        weight, bias, losses = train(v.matrix, lists, self)
        details: dict[str, Any] = {
            "concept": concept.name,
            "sizes": {name: len(getattr(lists, name)) for name in CLASSES},
            "losses": losses,
            "beyond_tanh": float(np.mean(np.abs(v.matrix) > 1)),
        }
        return self._reported(Encoder(weight, bias), v, lists.coverage, details)

    def _check(self, concept: Concept) -> None:
        counts = (self.epochs, self.batch, self.head_epochs, self.joint_epochs, self.threads)
        if min(counts) < 1 or not (0 <= self.dropout < 1 and 0 <= self.joint_dropout < 1):
            raise UsageError("epochs, batch and threads must be positive, dropout at least 0 and below 1")
        require_two_groups(concept, "GP")
        if self.pairs is None and concept.name != "gender":
            require_pairs(concept, "GP", hint="GP(pairs=[(a, b), ...])")

    def _lists(self, v: Vectors, concept: Concept) -> Lists:
        pairs = self._pairs(concept)
        spelt = [(v.find(a), v.find(b)) for a, b in pairs]
        kept = [(v.index[a], v.index[b]) for a, b in spelt if a is not None and b is not None]
        _, coverage = v.locate([word for two in pairs for word in two])
        stereotype, neutral, found = self._others(v, concept)
        twos = np.array(kept, dtype=np.int64).reshape(-1, 2)
        lists = Lists(twos[:, 0], twos[:, 1], stereotype, neutral, coverage + found)
        short = [name for name in CLASSES if len(getattr(lists, name)) < 2]
        if short:
            raise VocabularyError(
                f"{v.name} has fewer than two words or pairs of: {', '.join(short)}",
                hint="give pairs=, stereotypes= or neutral= that these vectors have",
            )
        return lists

    def _pairs(self, concept: Concept) -> tuple[tuple[str, str], ...]:
        if self.pairs is not None:
            return as_pairs(self.pairs)
        if concept.name == "gender":
            from evenhand.words import pairs

            return tuple(pairs(PUBLISHED_PAIRS))
        return tuple(concept.pairs)

    def _others(self, v: Vectors, concept: Concept) -> tuple[Rows, Rows, Coverage]:
        """Rows of the stereotypical and of the neutral words: as given, as published, or the most and least biased."""
        from evenhand.words import wordset

        given, neutral = self.stereotypes, self.neutral
        if concept.name == "gender":
            given = [w for name in PUBLISHED_STEREOTYPES for w in wordset(name)] if given is None else given
            neutral = wordset(PUBLISHED_NEUTRAL) if neutral is None else neutral
        if given is not None and neutral is not None:
            (first, found), (second, also) = v.locate(given), v.locate(neutral)
            return first, second, found + also
        chosen = biased(
            v,
            concept,
            per_class=STEREOTYPES_PER_SIDE,
            neutral=NEUTRAL_WORDS,
            spared=listed_words(concept),
            seed=self.seed,
        )
        leaning, none = chosen.rows[chosen.y < 2], chosen.rows[chosen.y == 2]
        rows = [part if words is None else v.locate(words)[0] for words, part in ((given, leaning), (neutral, none))]
        return rows[0], rows[1], chosen.coverage


HELD_OUT = 20  # words of each class, as released; never more than a fifth of it
FIRST, SECOND = (1.0, 0.0, 0.0, 0.0), (0.0, 1.0, 0.0, 0.0)  # what the two heads should say of a quadruple


class Network:
    """Encoder, decoder and two heads as plain tensors, with a random source of their own: no global seed is touched."""

    def __init__(self, dim: int, seed: int) -> None:
        self.torch = require("torch", extra="models")
        self.random = self.torch.Generator().manual_seed(seed)
        self.encoder = [self._uniform(dim, dim), self._uniform(dim, fan=dim)]
        self.decoder = [self._uniform(dim, dim), self._uniform(dim, fan=dim)]
        self.heads = [self._uniform(dim, 2), self._uniform(2, fan=dim)]

    def _uniform(self, *shape: int, fan: int | None = None) -> Any:
        """The usual start of a linear layer: uniform within 1 / sqrt(inputs)."""
        bound = (fan or shape[0]) ** -0.5
        start = (2 * self.torch.rand(*shape, generator=self.random, dtype=self.torch.float32) - 1) * bound
        return start.requires_grad_(True)

    def encode(self, x: Any, dropout: float = 0.0) -> Any:
        """Of rows; with dropout of the input while training."""
        if dropout:
            kept = self.torch.rand(x.shape, generator=self.random) >= dropout
            x = x * kept / (1 - dropout)
        return self.torch.tanh(x @ self.encoder[0] + self.encoder[1])

    def decode(self, code: Any) -> Any:
        """Back to the space of the vectors."""
        return self.torch.tanh(code @ self.decoder[0] + self.decoder[1])

    def judge(self, code: Any) -> Any:
        """What the two heads say, before the logistic function."""
        return code @ self.heads[0] + self.heads[1]

    def shuffled(self, n: int) -> Any:
        """A random order."""
        return self.torch.randperm(n, generator=self.random)


def train(matrix: Matrix, lists: Lists, method: GP) -> tuple[Matrix64, Vector64, dict[str, list[float]]]:
    """Weight and bias of the encoder, and the held-out loss after each epoch of the three stages."""
    net = Network(matrix.shape[1], method.seed)
    before = net.torch.get_num_threads()
    net.torch.set_num_threads(method.threads)
    try:
        losses = _stages(net, matrix, lists, method)
    finally:
        net.torch.set_num_threads(before)
    weight, bias = (tensor.detach().numpy().astype(np.float64) for tensor in net.encoder)
    return weight, bias, losses


def _stages(net: Network, matrix: Matrix, lists: Lists, method: GP) -> dict[str, list[float]]:
    x = net.torch.tensor(np.array(matrix, dtype=np.float32))
    parts = [x[np.array(rows)] for rows in (lists.first, lists.second, lists.stereotype, lists.neutral)]
    cut = [_cut(part, min(HELD_OUT, len(part) // 5)) for part in _in_pairs(parts, net)]
    held, fit = zip(*cut, strict=True)
    return {
        "autoencoder": _autoencoder(net, x, method),
        "heads": _heads(net, fit, held, method),
        "joint": _joint(net, fit, held, method),
    }


def _in_pairs(parts: list[Any], net: Network) -> list[Any]:
    """Each class in random order, the two sides of the pairs in the same one."""
    order = net.shuffled(len(parts[0]))
    return [parts[0][order], parts[1][order], *(part[net.shuffled(len(part))] for part in parts[2:])]


def _cut(rows: Any, n: int) -> tuple[Any, Any]:
    """The first n and the others; all twice where n is 0."""
    return (rows[:n], rows[n:]) if n else (rows, rows)


def _keeping_best(
    net: Network, tensors: list[Any], epochs: int, epoch: Callable[[], None], loss: Callable[[], Any]
) -> list[float]:
    """Run the epochs; put back the state with the least held-out loss."""
    losses: list[float] = []
    best: list[Any] = []
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


def _autoencoder(net: Network, x: Any, method: GP) -> list[float]:
    """Stage 1: mean squared reconstruction of the whole vocabulary, dropout on the input."""
    tensors = [*net.encoder, *net.decoder]
    adam = net.torch.optim.Adam(tensors, lr=method.rate)
    shuffled = x[net.shuffled(len(x))]
    judges, rows = _cut(shuffled, min(method.held_out, len(x) // 10))

    def epoch() -> None:
        order = net.shuffled(len(rows))
        for start in range(0, len(rows), method.batch):
            some = rows[order[start : start + method.batch]]
            _step(adam, ((net.decode(net.encode(some, method.dropout)) - some) ** 2).mean())

    return _keeping_best(
        net, tensors, method.epochs, epoch, lambda: ((net.decode(net.encode(judges)) - judges) ** 2).mean()
    )


def _heads(net: Network, fit: tuple[Any, ...], held: tuple[Any, ...], method: GP) -> list[float]:
    """Stage 2: the heads alone, on pairs and neutral words, squared error as released."""
    adam = net.torch.optim.Adam(net.heads, lr=method.rate)
    with net.torch.no_grad():
        known = [net.encode(part) for part in (fit[0], fit[1], fit[3])]
        judges = [net.encode(part) for part in (held[0], held[1], held[3])]
    wanted = net.torch.tensor([[FIRST[i], SECOND[i]] for i in range(3)])

    def error(rows: list[Any]) -> Any:
        return sum(((net.torch.sigmoid(net.judge(part)) - w) ** 2).mean() for part, w in zip(rows, wanted, strict=True))

    def epoch() -> None:
        for chosen in _tuples(net, known):
            _step(adam, error(chosen))

    return _keeping_best(net, net.heads, method.head_epochs, epoch, lambda: error(judges))


def _joint(net: Network, fit: tuple[Any, ...], held: tuple[Any, ...], method: GP) -> list[float]:
    """Stage 3: reconstruction, heads, and no part of stereotypical and neutral words along the pairs' difference."""
    tensors = [*net.encoder, *net.decoder, *net.heads]
    sgd = net.torch.optim.SGD(tensors, lr=method.joint_rate)
    wanted = net.torch.tensor([FIRST, SECOND]).T
    entropy = net.torch.nn.functional.binary_cross_entropy_with_logits
    along: list[Any] = []

    def loss(quadruple: list[Any], dropout: float) -> Any:
        codes = [net.encode(part, dropout) for part in quadruple]
        recon = sum(((net.decode(code) - part) ** 2).mean() for code, part in zip(codes, quadruple, strict=True)) / 4
        judged = sum(entropy(net.judge(code), w.expand(len(code), 2)) for code, w in zip(codes, wanted, strict=True))
        stray = sum(((code @ along[-1]) ** 2).mean() for code in codes[2:])
        # The mean over a quadruple and over two heads, turned back into the sum of the two heads' means.
        return recon + method.weight * (judged / 2 + stray)

    def epoch() -> None:
        with net.torch.no_grad():
            along.append((net.encode(fit[1]) - net.encode(fit[0])).mean(dim=0))
        for chosen in _tuples(net, list(fit)):
            _step(sgd, loss(chosen, method.joint_dropout))

    return _keeping_best(net, tensors, method.joint_epochs, epoch, lambda: loss(list(held), 0.0))


def _tuples(net: Network, parts: list[Any]) -> list[list[Any]]:
    """One word of each class at a time, in random order, until the shortest class is used up; pairs stay together."""
    pairs = net.shuffled(len(parts[0]))
    orders = [pairs, pairs, *(net.shuffled(len(part)) for part in parts[2:])]
    n = min(len(part) for part in parts)
    return [[part[order[i]][None] for part, order in zip(parts, orders, strict=True)] for i in range(n)]


def _step(optimiser: Any, loss: Any) -> None:
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
