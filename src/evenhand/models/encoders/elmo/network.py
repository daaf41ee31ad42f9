"""The ELMo network in torch: character CNN, highway layers, and biLSTM layers with projection and clipping."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import nn
from torch.nn import functional

from evenhand.models.encoders.elmo.files import CHARACTERS, PADDING, ElmoOptions

FORGET_BIAS = 1.0
CARRY_BIAS = -2.0  # a new highway layer passes most of its input through


class LSTMState(NamedTuple):
    """Output and cells of both directions after a token: (2, sentences, ...)."""

    output: torch.Tensor
    cells: torch.Tensor


class _LayerRun(NamedTuple):
    """What a layer computes: its outputs with the skip connection, without it, and its cells."""

    sums: torch.Tensor
    outputs: torch.Tensor
    cells: torch.Tensor


class HighwayLayer(nn.Module):  # type: ignore[misc]
    """x -> g relu(A x + a) + (1 - g) x with the gate g = sigmoid(C x + c).

    The files call the gate "carry", although it opens the transformed part.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.carry, self.transform = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (words, width) to the same shape."""
        return torch.lerp(x, self.transform(x).relu(), self.carry(x).sigmoid())


class CharacterCNN(nn.Module):  # type: ignore[misc]
    """Map character ids (words, longest) to token vectors (words, projection)."""

    def __init__(self, options: ElmoOptions) -> None:
        super().__init__()
        self.activation = torch.relu if options.activation == "relu" else torch.tanh
        self.embedding = nn.Parameter(torch.zeros(CHARACTERS, options.character_dim))
        self.convolutions = nn.ModuleList(
            nn.Conv1d(options.character_dim, number, width) for width, number in options.filters
        )
        self.highways = nn.ModuleList(HighwayLayer(options.features) for _ in range(options.highways))
        self.projection = nn.Linear(options.features, options.projection)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Return one vector per word; the maximum over positions comes before the activation."""
        characters = functional.embedding(self._trim(ids), self.embedding)
        x = torch.cat([self.activation(self._features(characters, layer)) for layer in self.convolutions], 1)
        for highway in self.highways:
            x = highway(x)
        out: torch.Tensor = self.projection(x)
        return out

    def _trim(self, ids: torch.Tensor) -> torch.Tensor:
        """Return the ids without columns that only repeat windows of padding, which do not change the maximum."""
        used = int((ids != PADDING + 1).any(0).sum())
        return ids[:, : used + max(layer.kernel_size[0] for layer in self.convolutions)]

    @staticmethod
    def _features(characters: torch.Tensor, layer: nn.Conv1d) -> torch.Tensor:
        """Return the maximum of a convolution over all positions; few channels are faster as one product."""
        windows = characters.unfold(1, layer.kernel_size[0], 1)
        words, positions = windows.shape[:2]
        sums = functional.linear(windows.reshape(words * positions, -1), layer.weight.flatten(1), layer.bias)
        return sums.view(words, positions, -1).amax(1)


class ElmoLSTMLayer(nn.Module):  # type: ignore[misc]
    """Both directions of one layer: an LSTM whose output is projected and fed back.

    With gates i, j, f, o = [x; h] W + b,
    c = clip(sigmoid(f + 1) c + sigmoid(i) tanh(j)) and h = clip((sigmoid(o) tanh(c)) P).
    torch's LSTM orders its gates otherwise and does not clip.
    """

    def __init__(self, options: ElmoOptions) -> None:
        super().__init__()
        self.inputs, cells = options.projection, options.cells
        self.cell_clip, self.projection_clip = options.cell_clip, options.projection_clip
        self.weight = nn.Parameter(torch.zeros(2, 2 * options.projection, 4 * cells))
        self.bias = nn.Parameter(torch.zeros(2, 4 * cells))
        self.projection = nn.Parameter(torch.zeros(2, cells, options.projection))

    def forward(
        self, x: torch.Tensor, start: LSTMState | None = None, *, keep_cells: bool = False
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Return the outputs for (2, tokens, sentences, projection) inputs, and the cells if they are to be kept."""
        _, tokens, sentences, inputs = x.shape
        cells = self.projection.shape[1]
        offset = torch.zeros(4, cells, device=x.device)
        offset[2] = FORGET_BIAS
        bias = (self.bias + offset.flatten())[:, None]
        gates = torch.baddbmm(bias.to(x.dtype), x.flatten(1, 2), self.weight[:, :inputs].to(x.dtype))
        # Cast once: autocast would cast the matrices again for every token.
        recurrent, projection = self.weight[:, inputs:].to(x.dtype), self.projection.to(x.dtype)
        output, cell = start or self.zeros(sentences, x)
        outputs, all_cells = [], []
        for sums in gates.view(2, tokens, sentences, -1).unbind(1):
            i, j, f, o = torch.baddbmm(sums, output, recurrent).chunk(4, -1)
            cell = (f.sigmoid() * cell + i.sigmoid() * j.tanh()).clamp(-self.cell_clip, self.cell_clip)
            output = torch.bmm((o.sigmoid() * cell.tanh()).to(x.dtype), projection)
            output = output.clamp(-self.projection_clip, self.projection_clip)
            outputs.append(output)
            if keep_cells:
                all_cells.append(cell)
        return torch.stack(outputs, 1), torch.stack(all_cells, 1) if keep_cells else None

    def zeros(self, sentences: int, like: torch.Tensor) -> LSTMState:
        """Return the state before the first token."""
        _, cells, projection = self.projection.shape
        # Cells are sums over a whole sentence: they stay in single precision.
        kind = torch.promote_types(like.dtype, torch.float32)
        return LSTMState(
            like.new_zeros(2, sentences, projection), torch.zeros(2, sentences, cells, dtype=kind, device=like.device)
        )


class ElmoNetwork(nn.Module):  # type: ignore[misc]
    """Token vectors from characters, and the layers of the biLM over them."""

    def __init__(self, options: ElmoOptions) -> None:
        super().__init__()
        self.options = options
        self.characters = CharacterCNN(options)
        self.layers = nn.ModuleList(ElmoLSTMLayer(options) for _ in range(options.layers))
        self.dropout = nn.Dropout(0.0)  # between layers, in training

    def both_directions(self, x: torch.Tensor, reversal: torch.Tensor) -> list[torch.Tensor]:
        """Return the outputs of each layer, (2, tokens, sentences, projection), for (sentences, tokens, projection).

        The second direction reads the sentences reversed, and its outputs are in that order. A layer after the first
        adds its input to its output; the recurrence does not see the sum.
        """
        return [run.sums for run in self._run(x, reversal, None, keep_cells=False)]

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> list[torch.Tensor]:
        """Return the vectors of each layer, (sentences, tokens, 2 projection), token vectors first.

        `x` holds token vectors (sentences, tokens, projection), padded at the end. Sentences begin in the state zero.
        """
        reversal = reversed_positions(lengths, x.shape[1])
        return [torch.cat([x, x], -1), *(_join(y, reversal) for y in self.both_directions(x, reversal))]

    def stateful(
        self, x: torch.Tensor, lengths: torch.Tensor, states: Sequence[LSTMState] | None
    ) -> tuple[list[torch.Tensor], list[LSTMState]]:
        """Return the vectors of each layer as `forward`, for sentences that begin in given states, and the last states.

        Both published programs carry the state of each row of a batch over to the next batch.
        """
        reversal = reversed_positions(lengths, x.shape[1])
        last = (lengths - 1).view(1, 1, -1, 1)
        layers, finals = [torch.cat([x, x], -1)], []
        for run in self._run(x, reversal, states, keep_cells=True):
            layers.append(_join(run.sums, reversal))
            at = (y.gather(1, last.expand(2, 1, -1, y.shape[-1])).squeeze(1) for y in (run.outputs, run.cells))
            finals.append(LSTMState(*at))
        return layers, finals

    def _run(
        self, x: torch.Tensor, reversal: torch.Tensor, states: Sequence[LSTMState] | None, *, keep_cells: bool
    ) -> list[_LayerRun]:
        y = torch.stack([x, gather_tokens(x, reversal)]).transpose(1, 2)
        runs = []
        for number, layer in enumerate(self.layers):
            inputs = self.dropout(y)
            outputs, cells = layer(inputs, states[number] if states else None, keep_cells=keep_cells)
            y = outputs + inputs if number else outputs
            runs.append(_LayerRun(y, outputs, cells))
        return runs

    def initialise(self, seed: int) -> None:
        """Fill all parameters from a seed; the same values on any device."""
        generator = torch.Generator().manual_seed(seed)

        def normal(parameter: torch.Tensor, sd: float) -> None:
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * sd)

        with torch.no_grad():
            cnn = self.characters
            cnn.embedding.copy_(torch.rand(cnn.embedding.shape, generator=generator) * 2 - 1)
            cnn.embedding[0] = 0
            for convolution in cnn.convolutions:
                normal(convolution.weight, 1 / math.sqrt(convolution.weight[0].numel()))
                convolution.bias.zero_()
            for highway in cnn.highways:
                for linear in (highway.carry, highway.transform):
                    normal(linear.weight, 1 / math.sqrt(linear.in_features))
                    linear.bias.zero_()
                highway.carry.bias.fill_(CARRY_BIAS)
            normal(cnn.projection.weight, 1 / math.sqrt(cnn.projection.in_features))
            cnn.projection.bias.zero_()
            for layer in self.layers:
                normal(layer.weight, math.sqrt(2 / sum(layer.weight.shape[1:])))
                normal(layer.projection, math.sqrt(2 / sum(layer.projection.shape[1:])))
                layer.bias.zero_()


def reversed_positions(lengths: torch.Tensor, tokens: int) -> torch.Tensor:
    """Return the (sentences, tokens) positions that reverse each sentence; padding stays where it is."""
    positions = torch.arange(tokens, device=lengths.device)
    back = lengths[:, None] - 1 - positions
    return torch.where(back >= 0, back, positions)


def gather_tokens(x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    """Return (sentences, tokens, width) with the tokens of each sentence in another order."""
    return x.gather(1, positions[..., None].expand(-1, -1, x.shape[-1]))


def _join(outputs: torch.Tensor, reversal: torch.Tensor) -> torch.Tensor:
    forward, backward = outputs.transpose(1, 2)
    return torch.cat([forward, gather_tokens(backward, reversal)], -1)
