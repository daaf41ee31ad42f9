"""The NLI model of Dev et al. 2020 over ELMo. It needs torch, which is imported when a model is made."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from evenhand.arrays import Matrix, Rows
from evenhand.errors import UsageError, require
from evenhand.models.device import run_in_batches
from evenhand.models.encoders.elmo.encoder import Elmo, TokenTable
from evenhand.models.nli.backend import backend
from evenhand.models.nli.over_vectors import (
    ModelFile,
    check_arrays,
    errors_name,
    read_model_file,
    require_axes,
    write_model_file,
)
from evenhand.models.nli.protocol import LABELS, Grid, Probabilities, pairwise_grids, require_equal_lengths
from evenhand.models.tokenizing import split_words
from evenhand.words.probes import Probe

if TYPE_CHECKING:
    from torch import Tensor

    from evenhand.models.nli.factorised import EncodedSentences, PairWeights
    from evenhand.models.nli.networks import ElmoNLINetwork

KIND = "elmo-bilstm"
PAIRS_AT_ONCE = 1_024
GPU_TOKENS, CPU_TOKENS = 131_072, 4_096  # encoded at once


class ElmoNLI:
    """A BiLSTM and decomposable attention over a frozen ELMo model.

    One scalar mix of ELMo's layers feeds the BiLSTM; its states are concatenated with a second mix. Premise and
    hypothesis attend to each other by dot products of these rows, and the rest is the model over word vectors with
    wider layers (`BiLSTM`). Words keep their case.

    Args:
        arrays: weights by name.
        elmo: the ELMo model; its maps are part of the model's input.
        name: for results.

    References:
        Dev, Li, Phillips & Srikumar (2020), On Measuring and Mitigating Biased Inferences of Word Embeddings, AAAI.
    """

    def __init__(self, arrays: Mapping[str, ArrayLike], elmo: Elmo, *, name: str = KIND) -> None:
        self.elmo, self.name = elmo, name
        self.arrays = {key: np.ascontiguousarray(array, np.float32) for key, array in arrays.items()}
        self.network = _network(self.arrays, elmo)

    def __repr__(self) -> str:
        return f"ElmoNLI({self.name!r}, hidden {self.network.hidden}, over {self.elmo.name!r})"

    def __getstate__(self) -> dict[str, object]:
        # The copy in another process puts the weights on its own device.
        return {name: value for name, value in vars(self).items() if name != "pair_weights"}

    def with_elmo(self, elmo: Elmo) -> ElmoNLI:
        """Return the trained weights over another ELMo model, such as one with a map at test time only."""
        return ElmoNLI(self.arrays, elmo, name=self.name)

    @property
    def mix_shares(self) -> Matrix:
        """The shares of the layers in the two mixes."""
        powers = np.exp(self.arrays["scores"])
        shares: Matrix = powers / powers.sum(-1, keepdims=True)
        return shares

    def save(self, path: str | os.PathLike[str], *, dtype: str = "float32", **metadata: object) -> Path:
        """Write the weights as safetensors; `metadata` is added to that of the file.

        The ELMo model and its maps are not saved, but their names and digests are, so a reader can tell others.
        """
        digests = {"elmo_sha256": self.elmo.weights_digest, "elmo_maps": self.elmo.map_digests}
        config = {"name": self.name, "elmo": self.elmo.name, **digests, **metadata}
        return write_model_file(Path(path), kind=KIND, arrays=self.arrays, config=config, dtype=dtype)

    @classmethod
    def load(cls, path: str | os.PathLike[str], elmo: Elmo) -> ElmoNLI:
        """Read a model, over the ELMo model it was trained on or one of the same size."""
        return cls.build(read_model_file(Path(path), kind=KIND), elmo, path=Path(path))

    @classmethod
    def build(cls, file: ModelFile, elmo: Elmo, *, path: Path) -> ElmoNLI:
        """Build the model from the contents of a file; `path` is for error messages."""
        with errors_name(path):
            return cls(file.arrays, elmo, name=str(file.config.get("name") or path.stem))

    def predict(self, premises: Sequence[str], hypotheses: Sequence[str]) -> Probabilities:
        """Return the probabilities of each pair; ELMo reads each distinct sentence once."""
        torch = require("torch", extra="models")
        require_equal_lengths(premises, hypotheses)
        distinct = {text: number for number, text in enumerate(dict.fromkeys((*premises, *hypotheses)))}
        sentences = [split_words(text) for text in distinct]
        for text, words in zip(distinct, sentences, strict=True):
            if not words:
                raise UsageError(f"the sentence {text!r} has no words", hint="leave empty sentences out")
        lengths = np.fromiter(map(len, sentences), np.int64, len(sentences))
        starts = np.cumsum(lengths) - lengths
        rows = self.elmo.flat_vectors(sentences)
        sides = [np.array([distinct[text] for text in texts], np.int64) for texts in (premises, hypotheses)]
        matrix = np.empty((len(premises), len(LABELS)), np.float32)

        def compute(batch: Rows) -> None:
            inputs, masks = [], []
            for side in sides:
                index, mask = _padded(starts[side[batch]], lengths[side[batch]])
                inputs.append(rows[torch.as_tensor(index, device=rows.device)][None].float())
                masks.append(torch.as_tensor(mask, device=rows.device)[None])
            with torch.inference_mode():
                matrix[batch] = self.network(*inputs, *masks)[0].float().softmax(-1).cpu().numpy()

        longest = lengths[sides[0]] + lengths[sides[1]]
        run_in_batches(longest, compute, tokens=PAIRS_AT_ONCE * 20)
        return Probabilities(matrix)

    def grids(self, probe: Probe) -> Iterator[Grid]:
        """Yield the whole probe, encoding every distinct sentence once."""
        from evenhand.models.nli.factorised import (
            ON_CPU,
            ON_GPU,
            BlockEvaluator,
            PairKernel,
            evaluate_sentences,
            is_separable,
            probe_sentences,
        )

        if not is_separable(probe):
            yield from pairwise_grids(self, probe)
            return
        sizes = ON_GPU._replace(tokens=GPU_TOKENS) if self.elmo.device.type == "cuda" else ON_CPU
        numbers: dict[str, int] = {}  # of words, as they occur

        def look_up(text: str) -> tuple[int, ...]:
            return tuple(numbers.setdefault(word, len(numbers)) for word in split_words(text))

        tokens = probe_sentences(probe, look_up, null=False, subjects=sizes.subjects)
        names = list(numbers)
        table = self.elmo.token_table(names)
        order = [table.rows[names[row]] for row in tokens.rows]
        evaluator = BlockEvaluator(ProbeEncoding(self, table, order).phrases, PairKernel(self.pair_weights), sizes)
        yield from evaluate_sentences(evaluator, tokens, probe)

    @cached_property
    def pair_weights(self) -> PairWeights:
        """The layers after the states, on the device."""
        from evenhand.models.nli.factorised import PairWeights

        return PairWeights(self.arrays, backend(f"torch:{self.elmo.device}", workers=1), inside=".layers")


class ProbeEncoding:
    """Encodes phrases with the subjects of a group; all sentences of a call have the same length."""

    def __init__(self, model: ElmoNLI, table: TokenTable, order: Sequence[int]) -> None:
        self.model, self.table, self.torch = model, table, model.pair_weights.backend.xp
        self.order = np.array(order, np.int64)
        (matrix, self.bias), _ = model.pair_weights.compare
        self.own, self.other = matrix.chunk(2)

    def phrases(self, before: Rows, after: Rows) -> Callable[[Rows], EncodedSentences]:
        """Return what encodes the phrases with every subject; see `factorised.BlockEvaluator`."""
        return partial(self._encode, before, after)

    def _encode(self, before: Rows, after: Rows, subjects: Rows) -> EncodedSentences:
        from evenhand.models.nli.factorised import EncodedSentences

        phrases, count = len(before), len(subjects)
        parts = [np.repeat(before, count, 0), np.tile(subjects, (phrases, 1)), np.repeat(after, count, 0)]
        rows = self.order[np.concatenate(parts, 1)]
        step = max(1, (GPU_TOKENS if self.model.elmo.device.type == "cuda" else CPU_TOKENS) // rows.shape[1])
        states = self.torch.cat([self._states(rows[start : start + step]) for start in range(0, len(rows), step)])
        shaped = states.view(phrases, count, rows.shape[1], -1).transpose(1, 2)
        return EncodedSentences(shaped, shaped @ self.own + self.bias, shaped @ self.other)

    def _states(self, rows: Rows) -> Tensor:
        ids = self.torch.as_tensor(rows, device=self.model.elmo.device)
        lengths = self.torch.full((len(rows),), rows.shape[1], device=ids.device)
        layers = self.model.elmo.batch_layers(self.table, ids, lengths)
        inside = self.torch.ones(1, *ids.shape, dtype=self.torch.bool, device=ids.device)
        states: Tensor = self.model.network.encode(self.torch.cat(layers, -1)[None].float(), inside)[0]
        return states


def _padded(starts: Rows, lengths: Rows) -> tuple[Rows, np.ndarray]:
    """Return (sentences, longest) rows, 0 for padding, and a mask of the words."""
    positions = np.arange(lengths.max())
    mask = positions < lengths[:, None]
    return np.where(mask, starts[:, None] + positions, 0), mask


def _network(arrays: Mapping[str, Matrix], elmo: Elmo) -> ElmoNLINetwork:
    """Return a stack of one member with these weights.

    Raises:
        FormatError: If an array is missing, has the wrong shape or holds NaN or infinity.
        UsageError: If the weights belong to an ELMo model of another size.
    """
    torch = require("torch", extra="models")
    from evenhand.models.nli.networks import ElmoNLINetwork

    require_axes(arrays, {"scores": 2, "lstm.input": 3, "output.weight": 2})
    layers, dim = arrays["scores"].shape[1], arrays["lstm.input"].shape[2]
    if (layers, dim) != (elmo.layers + 1, elmo.dim):
        raise UsageError(
            f"the model reads {layers} layers of dimension {dim}, and {elmo.name} has {elmo.layers + 1} of {elmo.dim}",
            hint="use the ELMo model it was trained on",
        )
    hidden, states = arrays["output.weight"].shape[1], arrays["lstm.input"].shape[1] // 2
    network = ElmoNLINetwork(1, dim, hidden, layers=layers, states=states)
    parameters = dict(network.named_parameters())
    checked = check_arrays(arrays, {name: tuple(part.shape[1:]) for name, part in parameters.items()})
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(torch.from_numpy(checked[name])[None])
    network.to(elmo.device)
    network.eval()
    return network
