"""NLI models over word vectors: their base class, how sentences are looked up in the vectors, and their files."""

from __future__ import annotations

import json
import os
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, lru_cache
from itertools import chain
from pathlib import Path
from typing import ClassVar, NamedTuple, TypeAlias, TypedDict

import numpy as np
from numpy.typing import ArrayLike

from evenhand.arrays import Matrix, Rows, unit_rows
from evenhand.errors import FormatError, UsageError, shown
from evenhand.files import existing, writing
from evenhand.models.device import resolve_device
from evenhand.models.model_files import parse_metadata, read_header, read_tensor
from evenhand.models.nli.backend import Array, backend
from evenhand.models.nli.protocol import LABELS, Probabilities, require_equal_lengths
from evenhand.models.tokenizing import split_words
from evenhand.models.vectors import Vectors
from evenhand.registry import Registry

Forward: TypeAlias = Callable[[Rows, Rows], Matrix]
"""From (pairs, length) word numbers of premises and hypotheses to (pairs, 3) probabilities."""


class LookupOptions(TypedDict, total=False):
    """How words are looked up in the vectors, and the name of the model."""

    lower: bool
    normalise: bool
    name: str


class ModelOverVectors:
    """An NLI model over word vectors.

    A subclass registers itself in `NLI_MODELS` under its `kind`, and implements the forward pass (`_probabilities`) and
    `shapes`.

    Args:
        arrays: The weights by their names in the model file. `oov` has vectors for out-of-vocabulary words as rows.
        vectors: The word vectors.
        lower: Look words up in lower case, as Dev et al. 2020 do.
        normalise: Scale vectors to unit length, as the code that Dawkins 2021 builds on does.
        device: Where it runs: cpu, cuda, or a full backend name: numpy, torch, torch:cuda:1.
        workers: Number of threads that evaluate probes; all cores by default.
        name: The name of the model; its kind by default.

    Raises:
        FormatError: If an array is missing, has the wrong shape or holds NaN or infinity.
        UsageError: If the vectors have another dimension than those that the model was trained on.
    """

    kind: ClassVar[str]
    """The kind of model that its file names."""
    needs_torch: ClassVar[bool] = False

    def __init__(
        self,
        arrays: Mapping[str, ArrayLike],
        vectors: Vectors,
        *,
        lower: bool = True,
        normalise: bool = False,
        device: str = "cpu",
        workers: int | None = None,
        name: str = "",
    ) -> None:
        given = {key: np.ascontiguousarray(array, dtype=np.float32) for key, array in arrays.items()}
        require_axes(given, {"oov": 2})
        self.arrays = check_arrays(given, self.shapes(given))
        self.oov, self.vectors, self.name = self.arrays["oov"], vectors, name or self.kind
        if self.oov.shape[1] != vectors.dim:
            raise UsageError(
                f"the model reads vectors of dimension {self.oov.shape[1]}, and {vectors.name} has {vectors.dim}",
                hint="use the vectors it was trained on, or a mitigated version of them",
            )
        self.lower, self.normalise = lower, normalise
        self.backend = backend(backend_name(device, numpy=not self.needs_torch), workers=workers)
        self.lookup = Lookup(vectors, len(self.oov), lower)

    @classmethod
    def shapes(cls, arrays: Mapping[str, Matrix]) -> dict[str, tuple[int, ...]]:
        """Return the shape that each array must have, given those that say the sizes of the network."""
        return {name: array.shape for name, array in arrays.items()}

    @classmethod
    def load(cls, path: str | os.PathLike[str], vectors: Vectors, *, device: str = "cpu") -> ModelOverVectors:
        """Read a model of this kind, over the vectors it was trained on or others of the same dimension."""
        file = read_model_file(Path(path), kind=cls.kind)
        return build(file, vectors, path=Path(path), device=device)

    def save(self, path: str | os.PathLike[str], *, dtype: str = "float32", **metadata: object) -> Path:
        """Write weights and settings as safetensors; `metadata` joins the settings. The vectors are not saved."""
        settings = {"lower": self.lower, "normalise": self.normalise, "name": self.name, "vectors": self.vectors.name}
        config = {**settings, **metadata}
        return write_model_file(Path(path), kind=self.kind, arrays=self.arrays, config=config, dtype=dtype)

    def __getstate__(self) -> dict[str, object]:
        # The copy in another process puts the weights on its own device.
        return {name: value for name, value in vars(self).items() if name != "weights_on_device"}

    def table(self, rows: Sequence[int]) -> Matrix:
        """Return the vectors of some rows; rows beyond the vocabulary are those of out-of-vocabulary words."""
        return table(self.vectors, np.asarray(rows, dtype=np.int64), self.oov, normalise=self.normalise)

    def out_of_vocabulary(self, words: Iterable[str]) -> tuple[str, ...]:
        """Return the words that have no vector, and phrases that contain such a word."""
        return tuple(word for word in words if not all(map(self.lookup.known, split_words(word))))

    def predict(self, premises: Sequence[str], hypotheses: Sequence[str], *, batch: int = 512) -> Probabilities:
        """Return the probabilities of each pair, evaluated in batches of equal length without padding."""
        require_equal_lengths(premises, hypotheses)
        rows = [[self.lookup.sentence(text) for text in texts] for texts in (premises, hypotheses)]
        buckets: dict[tuple[int, int], list[int]] = defaultdict(list)
        for pair, (p, h) in enumerate(zip(*rows, strict=True)):
            if not p or not h:
                raise UsageError(f"pair {pair} has an empty sentence: {premises[pair]!r}, {hypotheses[pair]!r}")
            buckets[len(p), len(h)].append(pair)
        matrix = np.empty((len(premises), len(LABELS)), np.float32)
        words = np.unique(np.fromiter(chain.from_iterable(chain(*rows)), np.int64))
        with self.backend.worker():
            forward = self._forward(words)
            for bucket in buckets.values():
                for start in range(0, len(bucket), batch):
                    pairs = bucket[start : start + batch]
                    sides = (np.searchsorted(words, np.array([side[pair] for pair in pairs])) for side in rows)
                    matrix[pairs] = forward(*sides)
        return Probabilities(matrix)

    def _forward(self, words: Rows) -> Forward:
        """Return the function from pairs of one length to their probabilities; the words are rows of the table."""
        vectors, put = self.table(words.tolist()), self.backend.put
        return lambda premise, hypothesis: self.backend.get(
            self._probabilities(put(vectors[premise]), put(vectors[hypothesis]))
        )

    def _probabilities(self, premise: Array, hypothesis: Array) -> Array:
        """Return (pairs, 3) probabilities for token vectors of shape (pairs, length, dim)."""
        raise NotImplementedError


# The models of the package are registered when `evenhand.models.nli` is imported.
NLI_MODELS: Registry[type[ModelOverVectors]] = Registry(
    "kind of NLI model", ("evenhand.models.nli",), group="evenhand.nli_models"
)


MOST_SENTENCES = 1 << 16  # whose rows are kept
TokenRows = tuple[int, ...]


@lru_cache(maxsize=2)
def _known_rows(lookup: tuple[object, ...]) -> tuple[dict[str, int], dict[str, TokenRows]]:
    """Return the rows of tokens and of sentences that were looked up: models and stages of an audit share them.

    The key holds all that decides a row: the words, how they are found, and the number of spare rows.
    """
    return {}, {}


class Lookup:
    """Rows of tokens in a table: the vectors, followed by spare rows for out-of-vocabulary words.

    An out-of-vocabulary word always gets the same spare row (CRC-32 of its spelling). Published code draws one at
    random for each occurrence, so its answers differ between runs.
    """

    def __init__(self, vectors: Vectors, spare: int, lower: bool = True) -> None:
        self.vectors, self.spare, self.lower = vectors, spare, lower

    @cached_property
    def _known(self) -> tuple[dict[str, int], dict[str, TokenRows]]:
        return _known_rows((self.vectors.words, self.vectors.case, self.vectors.language, self.spare, self.lower))

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.vectors, self.spare, self.lower)

    def known(self, word: str) -> bool:
        """Return whether the vectors have the word."""
        return self._find(word) is not None

    def row(self, word: str) -> int:
        """Return the row of a token."""
        known, _ = self._known
        if word not in known:
            spelling = self._find(word)
            # The spelling keeps its case, with `lower` too: trained models depend on this assignment. Lone surrogates,
            # which JSON can contain, have no UTF-8 form.
            spare = len(self.vectors) + zlib.crc32(word.encode(errors="surrogatepass")) % max(self.spare, 1)
            known[word] = self.vectors.index[spelling] if spelling is not None else spare
        return known[word]

    def rows(self, words: Iterable[str]) -> TokenRows:
        """Return the rows of tokens."""
        return tuple(map(self.row, words))

    def sentence(self, text: str) -> TokenRows:
        """Return the rows of a sentence's tokens."""
        _, known = self._known
        if (rows := known.get(text)) is None:
            if len(known) >= MOST_SENTENCES:
                known.clear()
            rows = known[text] = self.rows(split_words(text))
        return rows

    def _find(self, word: str) -> str | None:
        return self.vectors.find(word.lower() if self.lower else word)


def table(vectors: Vectors, rows: Rows, spare: Matrix, *, normalise: bool) -> Matrix:
    """Return the vectors of some rows; rows beyond the vocabulary are taken from `spare`."""
    known = rows < len(vectors)
    matrix = np.empty((len(rows), vectors.dim), np.float32)
    matrix[known] = vectors.matrix[rows[known]]
    matrix[~known] = spare[rows[~known] - len(vectors)]
    return unit_rows(matrix).astype(np.float32) if normalise else matrix


def load(
    path: str | os.PathLike[str], vectors: Vectors, *, device: str = "auto", name: str | None = None
) -> ModelOverVectors:
    """Load a model that `save` wrote.

    Args:
        path: The model file.
        vectors: The vectors it was trained on, or others of the same dimension.
        device: `auto` (a GPU if torch finds one), `cpu` (numpy if the model does not need torch), `cuda`, or a full
            backend name: numpy, torch, torch:cuda:1.
        name: A new name for the model.
    """
    return build(read_model_file(Path(path)), vectors, path=Path(path), device=device, name=name)


def build(
    file: ModelFile, vectors: Vectors, *, path: Path, device: str = "auto", name: str | None = None
) -> ModelOverVectors:
    """Build the model from the contents of a file; `path` is for error messages."""
    with errors_name(path):
        options = lookup_options(file.config)
        if file.kind not in NLI_MODELS:
            known = ", ".join(NLI_MODELS.ids())
            raise FormatError(f"unknown kind of model {file.kind!r}", hint=f"known kinds: {known}")
        options["name"] = str(name or file.config.get("name") or path.stem)
        return NLI_MODELS.get(file.kind)(file.arrays, vectors, device=device, **options)


def backend_name(device: str = "auto", *, numpy: bool = True) -> str:
    """Return the backend for a device, for a model that can run on numpy or not."""
    if device == "auto":
        device = resolve_device(device)
    library = device.partition(":")[0]
    if library == "torch" or (library == "numpy" and numpy):
        return device
    if device in ("cpu", "numpy"):
        return "numpy" if numpy else "torch"
    return f"torch:{device}"


FORMAT = 1
METADATA = "evenhand-nli"


class ModelFile(NamedTuple):
    """The contents of a file: kind of model, arrays and settings."""

    kind: str
    arrays: dict[str, Matrix]
    config: dict[str, object]


def write_model_file(
    path: Path, *, kind: str, arrays: Mapping[str, Matrix], config: Mapping[str, object], dtype: str = "float32"
) -> Path:
    """Write the arrays in the given precision; `config` goes into the metadata."""
    from safetensors.numpy import save as to_bytes

    metadata = {"format": FORMAT, "kind": kind, "labels": list(LABELS), "config": dict(config)}
    tensors = {name: np.ascontiguousarray(array, dtype=dtype) for name, array in arrays.items()}
    with writing(path) as out:
        out.write(to_bytes(tensors, metadata={METADATA: json.dumps(metadata, sort_keys=True)}))
    return path


def read_model_file(path: Path, *, kind: str | None = None) -> ModelFile:
    """Read a model file; float16 and bfloat16 arrays are widened to float32.

    Raises:
        FormatError: If the file is damaged, not an evenhand NLI model, or a model of another kind.
    """
    headers = read_header(existing(path, what="model file"))
    metadata = _read_metadata(path)
    file = ModelFile(
        str(metadata["kind"]),
        {name: read_tensor(info, name) for name, info in headers.items()},
        _checked_config(path, metadata["config"]),
    )
    version, labels = metadata["format"], metadata["labels"]
    if version != FORMAT or labels != list(LABELS) or file.kind != (kind or file.kind):
        expected = f"{kind or file.kind!r} of format {FORMAT} with the labels {', '.join(LABELS)}"
        raise FormatError(
            f"{path}: a {file.kind!r} of format {shown(version)} with the labels {shown(labels)}, expected {expected}"
        )
    return file


def is_model_file(path: Path) -> bool:
    """Return whether a safetensors file names an evenhand NLI model in its metadata; tensors are not read."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            return METADATA in (file.metadata() or {})
    except (SafetensorError, OSError):
        return False


def _read_metadata(path: Path) -> dict[str, object]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            text = (file.metadata() or {}).get(METADATA)
    except SafetensorError as error:
        raise FormatError(
            f"{path}: not a complete safetensors file ({error})", hint="write or fetch it again"
        ) from error
    if text is None:
        raise FormatError(
            f"{path}: holds tensors but is not an evenhand NLI model", hint="write models with save(path)"
        )
    metadata = parse_metadata(path, text)
    missing = [key for key in ("format", "kind", "labels", "config") if key not in metadata]
    if missing:
        raise FormatError(f"{path}: the metadata lacks {', '.join(missing)}", hint="write models with save(path)")
    if not isinstance(metadata["kind"], str):
        raise FormatError(f"{path}: the kind of model is {shown(metadata['kind'])}, expected text")
    return metadata


def _checked_config(path: Path, config: object) -> dict[str, object]:
    """Return the settings; `words` describes the training vectors and the methods applied to them."""
    if not isinstance(config, dict):
        raise FormatError(f"{path}: its config is not an object, got {shown(config)}")
    words = config.get("words")
    history = words.get("history", []) if isinstance(words, dict) else None
    steps = isinstance(history, list) and all(isinstance(step, dict) for step in history)
    if words is not None and not steps:
        raise FormatError(
            f"{path}: words in its config is not a description of vectors, got {shown(words)}",
            hint="write models with save(path)",
        )
    return config


@contextmanager
def errors_name(path: Path) -> Iterator[None]:
    """Add the name of the file to format errors."""
    try:
        yield
    except FormatError as error:
        raise FormatError(f"{path}: {error.message}", hint=error.hint) from error


def lookup_options(config: Mapping[str, object]) -> LookupOptions:
    """Return how words are looked up, as the config says."""
    values = {name: config.get(name) for name in ("lower", "normalise")}
    for name, value in values.items():
        if not isinstance(value, bool):
            problem = f"{name} is {shown(value)}, not true or false" if name in config else f"{name!r} is missing"
            raise FormatError(f"its config is not valid: {problem}", hint="write models with save(path)")
    return {"lower": bool(values["lower"]), "normalise": bool(values["normalise"])}


def require_axes(arrays: Mapping[str, Matrix], axes: Mapping[str, int]) -> None:
    """Raise `FormatError` unless the named arrays are there, have so many axes and are not empty."""
    for name, count in axes.items():
        if name not in arrays:
            raise FormatError(f"the weights lack the array {name!r}")
        if arrays[name].ndim != count or not arrays[name].size:
            raise FormatError(f"the array {name!r} has the shape {arrays[name].shape}, expected {count} axes")


def check_arrays(arrays: Mapping[str, Matrix], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Matrix]:
    """Return the arrays that a model has; raise `FormatError` if one is missing or cannot be used."""
    for name, shape in shapes.items():
        if name not in arrays:
            raise FormatError(f"the weights lack the array {name!r}")
        check_array(name, arrays[name], shape)
    return {name: arrays[name] for name in shapes}


def draw_arrays(shapes: Mapping[str, tuple[int, ...]], factors: Mapping[str, float], seed: int) -> dict[str, Matrix]:
    """Return random weights of these shapes, some of them multiplied by factors; for tests and benchmarks."""
    rng = np.random.default_rng(seed)
    arrays = {name: rng.normal(0, np.sqrt(1.5 / shape[-1]), shape) for name, shape in shapes.items()}
    for name, factor in factors.items():
        arrays[name] *= factor
    return {name: array.astype(np.float32) for name, array in arrays.items()}


def check_array(name: str, array: Matrix, shape: tuple[int, ...]) -> None:
    """Raise `FormatError` unless an array has the expected shape and finite values."""
    if array.shape != shape:
        raise FormatError(f"the array {name!r} has the shape {array.shape}, expected {shape}")
    if not np.isfinite(array).all():
        raise FormatError(f"the array {name!r} holds NaN or infinity", hint="training diverged: train again")
