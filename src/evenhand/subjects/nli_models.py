"""NLI models as subjects: our model files, prediction files, Hugging Face classifiers and the embedded models."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, cast

from evenhand import data
from evenhand.engines import Engine
from evenhand.errors import EvenhandError, InputMissingError, UsageError
from evenhand.files import MAX_RECORD
from evenhand.models.device import device_kind, resolve_device
from evenhand.models.encoders.elmo.files import locate_files
from evenhand.models.encoders.sentences import SentenceEncoder
from evenhand.models.nli import NLIEnsemble, NLIModel
from evenhand.models.nli.elmo import KIND as ELMO_KIND
from evenhand.models.nli.over_vectors import ModelFile, is_model_file
from evenhand.models.nli.protocol import RecordedModel
from evenhand.models.vectors import Vectors
from evenhand.subjects.subject import (
    MODEL_NUMERICS,
    ON_ENGINE,
    SUBJECTS,
    Address,
    Change,
    Subject,
    ViewName,
    files_digest,
    folder_kind,
)
from evenhand.subjects.transformer_subjects import TransformerPart

if TYPE_CHECKING:
    from evenhand.models.encoders.elmo.encoder import Elmo, RowMap
    from evenhand.models.encoders.transformer import Transformer
    from evenhand.models.nli.elmo import ElmoNLI
    from evenhand.models.nli.transformer import TransformerNLI
    from evenhand.subjects.embedded_nli import Condition


VectorsFunction: TypeAlias = Callable[[Vectors], Vectors]
"""A map of vectors."""
DEFAULT_VECTORS = "glove-embedded"
AT_TEST_TIME = "the vectors are mapped at test time only: the models were not trained on vectors mapped this way"
PERHAPS_AT_TEST_TIME = "the vectors are mapped at test time only, unless the models were trained so: no file says"
TRAINED_SO = "the models were trained on vectors mapped by the same map"
OTHER_VECTORS = "the embedded models read vectors that they were not trained on"


class VectorsForModels:
    """The vectors or the ELMo model that models read, loaded when the first needs them, with notes on how they fit."""

    def __init__(self, source: str, change: VectorsFunction | None) -> None:
        self.source, self.change = source, change
        self.notes: list[str] = []
        self._vectors: Vectors | None = None
        self._elmo: Elmo | None = None

    @property
    def digest(self) -> str:
        """Hash of what was read; empty when no model reads any vectors."""
        if self._elmo is not None:
            return self._elmo.digest
        if self._vectors is None:
            return ""
        from evenhand.subjects.vectors import VectorsSubject

        read = VectorsSubject(self._vectors)
        return f"{read.digest} {read.opening}"

    def load(self) -> Vectors:
        """Return the vectors, mapped where a map was given."""
        if self._vectors is None:
            loaded = Vectors.load(self.source)
            self._vectors = self.change(loaded) if self.change else loaded
        return self._vectors

    def for_embedded(self) -> Vectors:
        """Return the vectors for the embedded models, which were trained on the embedded vectors."""
        self.notes += [AT_TEST_TIME] if self.change else []
        self.notes += [OTHER_VECTORS] if self.source != DEFAULT_VECTORS else []
        return self.load()

    def for_model(self, config: dict[str, object]) -> Vectors:
        """Return the vectors for a model whose file may name the methods its training vectors had gone through."""
        vectors, trained = self.load(), config.get("words")
        if not isinstance(trained, dict) or "history" not in trained:
            self.notes += [PERHAPS_AT_TEST_TIME] if self.change else []
            return vectors
        steps = _plain(vectors.history)
        if _plain(trained["history"]) == steps:
            self.notes += [TRAINED_SO] if self.change else []
            if trained.get("name", vectors.name) != vectors.name:
                self.notes.append(f"a model was trained on the vectors {trained['name']} and reads {vectors.name}")
        elif steps:
            self.notes.append(AT_TEST_TIME)
        else:
            methods = ", ".join(str(step.get("method", "a map")) for step in trained["history"])
            self.notes.append(
                f"a model was trained on vectors after {methods} and reads others: give the same `change=`"
            )
        return vectors

    def model_over_elmo(self, file: ModelFile, path: Path, device: str) -> ElmoNLI:
        """Build a model over the ELMo model that is named, or that lies beside the file or one folder above.

        A map acts on the token vectors, before the language model.
        """
        from evenhand.models.encoders.elmo.encoder import EMBEDDINGS, Elmo
        from evenhand.models.nli.elmo import ElmoNLI

        if self._elmo is None:
            where = "cpu" if device in ("numpy", "torch") else device.removeprefix("torch:")
            self._elmo = Elmo.load(self._elmo_folder(file, path), device=where)
            if self.change is not None:
                self._elmo = self._elmo.with_maps({EMBEDDINGS: cast("RowMap", self.change)})
        elmo, trained = self._elmo, file.config.get("elmo_maps")
        if file.config.get("elmo_sha256", elmo.weights_digest) != elmo.weights_digest:
            self.notes.append(f"a model was trained over another ELMo model than {elmo.name}")
        if trained == elmo.map_digests:
            self.notes += [TRAINED_SO] if self.change else []
        elif self.change:
            self.notes.append(AT_TEST_TIME if isinstance(trained, dict) else PERHAPS_AT_TEST_TIME)
        elif trained:
            sites = ", ".join(trained) if isinstance(trained, dict) else "a site"
            self.notes.append(
                f"a model was trained over ELMo with maps at {sites} and reads it without: give `change=`"
            )
        return ElmoNLI.build(file, elmo, path=path)

    def _elmo_folder(self, file: ModelFile, path: Path) -> Path:
        from evenhand.subjects.opening import parse_address

        if self.source != DEFAULT_VECTORS:
            return parse_address(self.source).path
        name = str(file.config.get("elmo") or "elmo")
        candidates = [folder / name for folder in (path.absolute().parent, path.absolute().parent.parent)]
        found = next((folder for folder in candidates if locate_files(folder) is not None), None)
        if found is None and name in data.catalog():
            found = data.locate(name)
        if found is None:
            raise InputMissingError(
                f"{path} reads the ELMo model {name!r}, and neither {candidates[0]} nor {candidates[1]} holds one",
                hint="name its folder: `vectors=FOLDER`",
            )
        return found

    def require_used(self) -> None:
        """Raise if vectors or a map were given that no model reads."""
        given = [
            name
            for name, present in (("`change=`", self.change), ("`vectors=`", self.source != DEFAULT_VECTORS))
            if present
        ]
        if given and self._vectors is None and self._elmo is None:
            raise UsageError(
                f"{' and '.join(given)} has no effect: none of the models reads word vectors",
                hint="leave it out; .safetensors models and the embedded models read vectors",
            )


def _plain(history: Any) -> Any:
    """Return a history as JSON gives it back, where tuples and numpy numbers have become plain data."""
    from evenhand.models.vectors.formats.format import as_json

    return json.loads(as_json(list(history)))


EMBEDDED: Mapping[str, Condition] = {
    "embedded": "original",
    "embedded:original": "original",
    "embedded:projected": "projected",
}
LETTERS = {"e": "entailment", "n": "neutral", "c": "contradiction"}


@SUBJECTS.register("nli")
class NLISubject(Subject):
    """One NLI model, or several training seeds of one.

    It offers `inference`, and `vectors` where it reads some. One Hugging Face folder also offers `sentences` and can be
    changed.
    """

    kind = "nli"
    title = "an NLI model"
    opens = "an evenhand NLI model, predictions"
    instead_of_changes = "for models over word vectors give the map: `evenhand probe MODEL --map MAP`"
    on_engine: ClassVar[tuple[ViewName, ...]] = ON_ENGINE
    libraries: ClassVar[tuple[str, ...]] = MODEL_NUMERICS
    options: ClassVar[tuple[str, ...]] = ("vectors", "change", "device", "labels", "allow_pickle")

    def __init__(
        self,
        models: Sequence[NLIModel | RecordedModel],
        *,
        name: str = "",
        address: str = "",
        note: str = "",
        digest: str = "",
        folder: Path | None = None,
    ) -> None:
        self.ensemble = NLIEnsemble(tuple(models), note)
        super().__init__(name or self.ensemble.name, address)
        self._given_digest = digest
        model: Transformer | None = getattr(self._member, "transformer", None) if folder is not None else None
        if folder is not None and model is not None:
            self.network = TransformerPart(folder, lambda: model, device=model.device, precision=model.precision)

    @classmethod
    def from_object(cls, source: object, **options: Any) -> NLISubject | None:
        """Wrap an NLI model, or several as an ensemble; `digest` names the content."""
        digest = str(options.get("digest", ""))
        if isinstance(source, NLIEnsemble):
            return cls(source.members, note=source.note, digest=digest)
        return cls((source,), digest=digest) if isinstance(source, NLIModel) else None

    @property
    def _member(self) -> TransformerNLI:
        """The only model, which is a transformer."""
        (member,) = self.ensemble.members
        return cast("TransformerNLI", member)

    @property
    def offers(self) -> tuple[ViewName, ...]:
        """Inference; vectors where every member reads the same ones."""
        if self.network is not None:
            return ("inference", "vectors", "sentences")
        return ("inference",) if self._vectors() is None else ("inference", "vectors")

    @property
    def opening(self) -> dict[str, object]:
        """What computes the answers; labels, vectors and maps are part of the digest."""
        return {"device": ", ".join(sorted({place for model in self.ensemble.members if (place := _place(model))}))}

    def _apply(self, change: Change) -> None:
        from evenhand.models.nli.transformer import TransformerNLI

        super()._apply(change)
        if self.network is not None:
            changed = TransformerNLI(self.network.transformer, labels=self._member.labels)
            self.ensemble = NLIEnsemble((changed,), self.ensemble.note)

    def _vectors(self) -> Vectors | None:
        if self.network is not None:
            return self.network.table
        tables = {id(table): table for model in self.ensemble.members if (table := getattr(model, "vectors", None))}
        only = next(iter(tables.values())) if len(tables) == 1 else None
        return only if isinstance(only, Vectors) else None

    def _open_view(self, name: ViewName) -> NLIEnsemble | Vectors | SentenceEncoder:
        if name == "sentences" and self.network is not None:
            return self.network.sentences()
        vectors = self._vectors() if name == "vectors" else None
        return self.ensemble if vectors is None else vectors

    def _view_on(self, engine: Engine, name: ViewName) -> object:
        return replace(self.ensemble, engine=engine) if name == "inference" else super()._view_on(engine, name)

    def _content_digest(self) -> str:
        if self._given_digest:
            return self._given_digest
        raise UsageError(
            f"{self.name} is a model in memory and has no digest",
            hint="give one: eh.open(model, digest='a name that changes when the model does')",
        )

    def describe(self) -> dict[str, object]:
        """Name, members and what is known of the vectors they read."""
        return super().describe() | {
            "models": [model.name for model in self.ensemble.members],
            "note": self.ensemble.note,
        }

    @classmethod
    def recognise(cls, address: Address) -> str:
        """Our model files, the embedded models, predictions, and Hugging Face classifiers with NLI labels."""
        if address.text in EMBEDDED:
            return "it names the embedded models"
        if address.named(".safetensors") and address.path.is_file() and is_model_file(address.path):
            return "its metadata names an evenhand NLI model"
        if folder_kind(address) == "nli-classifier":
            return "its config names an NLI classifier"
        return "it holds predictions" if has_predictions(address) else ""

    @classmethod
    def from_address(cls, address: Address, **options: Any) -> NLISubject:
        """Open one model."""
        return open_models([address.text], **options)


def open_models(
    addresses: Sequence[str],
    *,
    vectors: str | None = None,
    change: VectorsFunction | None = None,
    device: str = "auto",
    labels: str | None = None,
    max_record: int = MAX_RECORD,
    allow_pickle: bool = False,
) -> NLISubject:
    """Open several training seeds of one model as one subject.

    Args:
        addresses: model files, `hf:FOLDER`, prediction files, `embedded` or `embedded:projected`.
        vectors: the vectors that models over vectors read, or the folder of the ELMo model that models over ELMo read.
        change: a fitted map that is applied to the vectors first.
        device: where models run.
        labels: order of the outputs of a Hugging Face classifier, such as "c,n,e".
        max_record: longest line or row of a prediction file in bytes.
        allow_pickle: read pickled weights of Hugging Face folders, tensors alone.
    """
    if device != "numpy":
        resolve_device(device)  # refuses what is none, also where no model computes
    named, addresses = addresses, [_prepared(address, allow_pickle) for address in addresses]
    reader = VectorsForModels(vectors or DEFAULT_VECTORS, change)
    models = [model for address in addresses for model in _models(address, reader, device, labels, max_record)]
    reader.require_used()
    if labels and not any(map(_is_hugging_face, addresses)):
        raise UsageError(f"`labels={labels}` applies to a Hugging Face model, and none was given")
    name = ", ".join(
        f"embedded:{EMBEDDED[text]}" if text in EMBEDDED else Path(_without_scheme(text)).name for text in addresses
    )
    digest = hashlib.sha256(repr([_file_digest(text) for text in addresses] + [reader.digest, labels]).encode())
    return NLISubject(
        models, name=name, address=" ".join(named), note="; ".join(dict.fromkeys(reader.notes)),
        digest=digest.hexdigest(), folder=Path(_without_scheme(addresses[0])) if _is_one_folder(addresses) else None,
    )  # fmt: skip


def _place(model: NLIModel | RecordedModel) -> str:
    """Return what computes the answers of a model: numpy, torch on a device, with a precision; nothing for a file."""
    if backend := getattr(model, "backend", None):
        return "numpy" if backend.name == "numpy" else f"torch {device_kind(backend.name)}"
    if on_device := getattr(model, "device_model", None):
        return f"torch {device_kind(on_device.device)} {on_device.precision}"
    elmo = getattr(model, "elmo", None)
    return f"torch {device_kind(elmo.device)}" if elmo else ""


def _prepared(text: str, allow_pickle: bool) -> str:
    """Return the address of a Hugging Face folder with its adapter merged or its weights converted, or the address."""
    from evenhand.models.encoders.prepared_folder import prepared

    path = Path(_without_scheme(text))
    ready = path if text in EMBEDDED else prepared(path, allow_pickle=allow_pickle)
    return text if ready == path else f"hf:{ready}"


def _without_scheme(text: str) -> str:
    for scheme in ("nli:", "hf:"):
        text = text.removeprefix(scheme)
    return text


def _file_digest(text: str) -> str:
    if text in EMBEDDED:
        return text
    path = Path(_without_scheme(text))
    return files_digest(iter([file for file in path.glob("*") if file.is_file()] if path.is_dir() else [path]))


def _is_one_folder(addresses: Sequence[str]) -> bool:
    return len(addresses) == 1 and addresses[0] not in EMBEDDED and _is_hugging_face(addresses[0])


def _is_hugging_face(text: str) -> bool:
    return text.startswith("hf:") or (Path(_without_scheme(text)) / "config.json").is_file()


def _models(
    text: str, reader: VectorsForModels, device: str, labels: str | None, max_record: int
) -> tuple[NLIModel | RecordedModel, ...]:
    text = text.removeprefix("nli:")
    if text in EMBEDDED:
        from evenhand.subjects.embedded_nli import embedded

        return embedded(EMBEDDED[text], vectors=reader.for_embedded(), device=device)
    if _is_hugging_face(text):
        from evenhand.models.nli.transformer import from_text

        return (from_text(text, device=device, labels=parse_labels(labels) if labels else None),)
    path = Path(text)
    if path.name.lower().endswith(PREDICTIONS):
        from evenhand.models.nli import PredictionsFile

        return (PredictionsFile(path, max_record=max_record),)
    if path.name.lower().endswith(".safetensors"):
        from evenhand.models.nli.over_vectors import build
        from evenhand.models.nli.over_vectors import read_model_file as read_file

        file = read_file(path)
        if file.kind == ELMO_KIND:
            return (reader.model_over_elmo(file, path, device),)
        return (build(file, reader.for_model(file.config), path=path, device=device),)
    raise UsageError(
        f"{text!r} is not a model file",
        hint="give a .safetensors model, hf:FOLDER, predictions as .jsonl or .csv, or embedded"
        + ("; name a probe as `probe=`" if text.lower().endswith((".toml", ".json")) else ""),
    )


PREDICTIONS = tuple(name + packed for name in (".jsonl", ".csv") for packed in ("", ".gz", ".zst", ".bz2", ".xz"))


def has_predictions(address: Address) -> bool:
    """Whether a .jsonl or .csv file holds probabilities of the three labels, judged by its first line."""
    from evenhand.files import open_bytes

    if not address.named(".jsonl", ".csv") or not address.path.is_file():
        return False
    try:
        with open_bytes(address.path) as file:
            first = file.readline(1 << 16).lower()
    except (OSError, ValueError, EOFError, EvenhandError):
        return False
    return all(label in first for label in (b"entailment", b"neutral", b"contradiction"))


def parse_labels(text: str | Sequence[str]) -> tuple[str, ...]:
    """Parse `c,n,e` or the three names, in the order of the model's outputs."""
    parts = text.split(",") if isinstance(text, str) else text
    names = [str(part).strip().lower() for part in parts]
    order = tuple(LETTERS.get(name, name) for name in names)
    if sorted(order) != sorted(LETTERS.values()):
        raise UsageError(f"{text!r} is not an order of labels", hint="name each once, such as `labels='c,n,e'`")
    return order
