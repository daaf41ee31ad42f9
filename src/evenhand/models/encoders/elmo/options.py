"""The options of an ELMo model, published as a JSON file beside its weights, and words as character ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import FormatError, UsageError, shown
from evenhand.models.model_files import read_json

CHARACTERS = 262  # 256 bytes, four marks of words and sentences, the padding of words, and the padding of sentences
MOST_LAYERS = 1000
LONGEST_WORD = 1000  # bytes; every word takes this much memory
ACTIVATIONS = ("relu", "tanh")
SENTENCE_START, SENTENCE_END = "<S>", "</S>"
# Ids 0 to 255 are bytes. All ids are stored plus 1, because 0 is the padding of sentences.
START_OF_SENTENCE, END_OF_SENTENCE, START_OF_WORD, END_OF_WORD, PADDING = range(256, 261)
CharacterIds = NDArray[np.int16]
BOUNDARIES = {SENTENCE_START: [START_OF_SENTENCE], SENTENCE_END: [END_OF_SENTENCE]}


@dataclass(frozen=True)
class ElmoOptions:
    """Sizes of an ELMo model; the defaults are those of the published model `2x4096_512_2048cnn_2xhighway`.

    Attributes:
        cells: cells of an LSTM in each direction.
        projection: width of a token vector and of each direction's output.
        layers: number of biLSTM layers.
        cell_clip: limit of the absolute value of a cell.
        projection_clip: limit of the absolute value of an output.
        character_dim: dimensions of a character vector.
        filters: width and number of the filters of each convolution.
        highways: number of highway layers.
        activation: `relu` or `tanh`, after the maximum over positions.
        longest_word: bytes of a word that are read, two marks included.
    """

    cells: int = 4096
    projection: int = 512
    layers: int = 2
    cell_clip: float = 3.0
    projection_clip: float = 3.0
    character_dim: int = 16
    filters: tuple[tuple[int, int], ...] = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))
    highways: int = 2
    activation: str = "relu"
    longest_word: int = 50

    @property
    def features(self) -> int:
        """Number of all filters."""
        return sum(number for _, number in self.filters)

    @property
    def dim(self) -> int:
        """Dimensions of a layer: both directions together."""
        return 2 * self.projection

    @classmethod
    def load(cls, path: Path) -> ElmoOptions:
        """Read an options file.

        Raises:
            FormatError: If an option is missing, has the wrong type, or describes a model that is not supported.
        """
        content = read_json(path)
        try:
            return cls.from_dict(content)
        except FormatError as error:
            raise FormatError(f"{path}: {error.message}", hint=error.hint) from error

    @classmethod
    def from_dict(cls, content: Mapping[str, object]) -> ElmoOptions:
        """Return the options that a JSON object in the published layout holds."""
        lstm, cnn = (_section(content, name) for name in ("lstm", "char_cnn"))
        if lstm.get("use_skip_connections") is not True:
            raise FormatError(
                f"lstm.use_skip_connections is {shown(lstm.get('use_skip_connections'))}, expected true",
                hint="models without skip connections are not supported",
            )
        characters = cnn.get("n_characters")
        if characters != CHARACTERS:
            raise FormatError(
                f"char_cnn.n_characters is {shown(characters)}, expected {CHARACTERS}",
                hint="261 is the value for training; set it to 262 to use the trained weights",
            )
        activation = cnn.get("activation")
        if activation not in ACTIVATIONS:
            raise FormatError(f"char_cnn.activation is {shown(activation)}, expected {' or '.join(ACTIVATIONS)}")
        options = cls(
            cells=_positive(lstm, "lstm", "dim"),
            projection=_positive(lstm, "lstm", "projection_dim"),
            layers=_positive(lstm, "lstm", "n_layers", MOST_LAYERS),
            cell_clip=_limit(lstm, "cell_clip"),
            projection_clip=_limit(lstm, "proj_clip"),
            character_dim=_positive(_section(cnn, "embedding", "char_cnn."), "char_cnn.embedding", "dim"),
            filters=_filters(cnn.get("filters")),
            highways=_positive(cnn, "char_cnn", "n_highway", MOST_LAYERS),
            activation=str(activation),
            longest_word=_positive(cnn, "char_cnn", "max_characters_per_token", LONGEST_WORD),
        )
        widest = max(width for width, _ in options.filters)
        if options.longest_word < max(widest, 3):
            raise FormatError(
                f"char_cnn.max_characters_per_token is {options.longest_word}, less than the widest filter ({widest})"
            )
        return options

    def to_dict(self) -> dict[str, object]:
        """Return the options in the published layout."""
        return {
            "lstm": {
                "use_skip_connections": True,
                "projection_dim": self.projection,
                "cell_clip": self.cell_clip,
                "proj_clip": self.projection_clip,
                "dim": self.cells,
                "n_layers": self.layers,
            },
            "char_cnn": {
                "activation": self.activation,
                "filters": [list(pair) for pair in self.filters],
                "n_highway": self.highways,
                "embedding": {"dim": self.character_dim},
                "n_characters": CHARACTERS,
                "max_characters_per_token": self.longest_word,
            },
        }


def _section(content: Mapping[str, object], name: str, where: str = "") -> Mapping[str, object]:
    section = content.get(name)
    if not isinstance(section, dict):
        raise FormatError(
            f"{where}{name} is {shown(section)}, expected an object",
            hint="an ELMo options file has the objects lstm and char_cnn",
        )
    return cast(Mapping[str, object], section)


def _positive(section: Mapping[str, object], where: str, name: str, most: int | None = None) -> int:
    value = section.get(name)
    if type(value) is not int or value < 1:
        raise FormatError(f"{where}.{name} is {shown(value)}, expected a positive integer")
    if most is not None and value > most:
        raise FormatError(f"{where}.{name} is {value:,}, and at most {most:,} is supported")
    return value


def _limit(section: Mapping[str, object], name: str) -> float:
    value = section.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e300:
        raise FormatError(f"lstm.{name} is {shown(value)}, expected a positive number")
    return float(value)


def _filters(value: object) -> tuple[tuple[int, int], ...]:
    pairs = value if isinstance(value, list) else []
    good = [
        isinstance(pair, list) and len(pair) == 2 and all(type(number) is int and number > 0 for number in pair)
        for pair in pairs
    ]
    if not good or not all(good):
        raise FormatError(f"char_cnn.filters is {shown(value)}, expected a list of [width, number] pairs")
    return tuple((pair[0], pair[1]) for pair in pairs)


def character_ids(words: Sequence[str], longest: int = 50) -> CharacterIds:
    """Return a (words, longest) array of ids.

    A word is its UTF-8 bytes between two marks, cut to `longest - 2` bytes; case matters. `<S>` and `</S>` are the
    boundaries of sentences.

    >>> character_ids(["he"], 6).tolist()
    [[259, 105, 102, 260, 261, 261]]
    """
    rows = np.full((len(words), longest), PADDING, dtype=np.int16)
    for row, word in zip(rows, words, strict=True):
        if not word:
            raise UsageError("a word is empty", hint="leave empty words out of the sentences")
        inner = BOUNDARIES.get(word)
        if inner is None:
            inner = list(word.encode("utf-8", "ignore")[: longest - 2])  # a lone surrogate has no bytes
        row[: len(inner) + 2] = [START_OF_WORD, *inner, END_OF_WORD]
    return rows + np.int16(1)
