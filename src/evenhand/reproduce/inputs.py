"""What tables are computed from: models by row of the table, vectors, a text; answers of a model are asked once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from evenhand.errors import UsageError, unknown_name
from evenhand.reproduce.published import PaperItem, items

if TYPE_CHECKING:
    from evenhand.measures.inference import SeedsResult
    from evenhand.models.nli.protocol import NLIEnsemble
    from evenhand.models.vectors import Vectors
    from evenhand.progress import Progress

SAMPLE = 20_000


@dataclass(frozen=True)
class PaperInputs:
    """Models, vectors and a text; without them, the embedded models and vectors.

    A model is an address, or ROW=ADDRESS with a row of the table, such as "projected=model.safetensors". Several
    addresses of one row are training seeds of one model.
    """

    models: tuple[str, ...] = ()
    vectors: tuple[Vectors, ...] = ()
    sources: tuple[str, ...] = ()
    """Where the vectors come from, for models that read them."""
    corpus: str | Sequence[str] | None = None
    sample: int | None = SAMPLE
    """Pairs of a probe that are asked; None for all."""
    seed: int = 0
    device: str = "auto"
    progress: Progress | None = None
    answered: dict[tuple[tuple[str, ...], str, str], SeedsResult] = field(default_factory=dict)
    opened: dict[tuple[tuple[str, ...], str], NLIEnsemble] = field(default_factory=dict)

    def addresses(self, item: PaperItem, *, default: str, embedded: dict[str, str]) -> dict[str, tuple[str, ...]]:
        """Return the models of a table by row: those given, else the embedded ones.

        Args:
            item: the table.
            default: the row of a model that is given without one.
            embedded: the embedded models by row.
        """
        return self.by_row(item, default) or {row: (address,) for row, address in embedded.items()}

    def by_row(self, item: PaperItem, default: str) -> dict[str, tuple[str, ...]]:
        """Return the given models by row or column of a table, without those of other tables of the paper."""
        elsewhere = {label.casefold() for other in items(item.paper).values() for label in labels(other)}
        found: dict[str, tuple[str, ...]] = {}
        for text in self.models:
            row, address = split_row(text, item)
            if row or text.partition("=")[0].strip().casefold() not in elsewhere:
                found[row or default] = (*found.get(row or default, ()), address)
        return found

    def gives(self, item: PaperItem) -> bool:
        """Return whether a model of this table is given."""
        return bool(self.by_row(item, ""))

    def open(self, addresses: tuple[str, ...], without: str = "") -> NLIEnsemble:
        """Open NLI models, once; their vectors lose the direction of a concept if one is named."""
        from evenhand.subjects.nli_models import open_models

        if (key := (addresses, without)) not in self.opened:
            if len(self.sources) > 1:
                raise UsageError(f"models read one set of vectors, got {len(self.sources)}")
            given = self.sources[0] if self.sources and not addresses[0].startswith("embedded") else None
            change = partial(_projected, name=without) if without else None
            self.opened[key] = open_models(addresses, vectors=given, change=change, device=self.device).ensemble
        return self.opened[key]

    def answers(self, addresses: tuple[str, ...], probe: str, without: str = "") -> SeedsResult:
        """Put a probe to models, once."""
        from evenhand.measures.inference import probe_seeds
        from evenhand.words.probes import probe as find_probe

        key = addresses, probe, without
        sample = self.sample if self.sample and self.sample < find_probe(probe).n_pairs else None
        if key not in self.answered:
            self.answered[key] = probe_seeds(
                self.open(addresses, without).members, probe, condition=" ".join(addresses), seed=self.seed,
                progress=self.progress, sample=sample, controls=False,
            )  # fmt: skip
        return self.answered[key]

    def only_vectors(self, item: PaperItem) -> Vectors:
        """Return the vectors that are given, or the embedded ones."""
        from evenhand.models.vectors import Vectors

        if len(self.vectors) > 1:
            raise UsageError(f"{item.id} is computed on one set of vectors, got {len(self.vectors)}")
        return self.vectors[0] if self.vectors else Vectors.default()


def _projected(vectors: Vectors, name: str) -> Vectors:
    """Remove the published directions of a concept from every vector."""
    from evenhand import mitigations

    return mitigations.get_vector_method("linear").with_params({}).fit(vectors, name)(vectors)


def labels(item: PaperItem) -> tuple[str, ...]:
    """Return what a model can stand for: rows or columns of the table, but not those of a training text."""
    names = {"row": (*(item.rows or {}),), "column": item.columns, "all": ()}[item.model_is]
    return tuple(name for name in names if not name.startswith("training"))


def split_row(text: str, item: PaperItem) -> tuple[str, str]:
    """Return row and address of a model; the row is empty if none is named."""
    known = {label.casefold(): label for label in labels(item)}
    name, equals, address = text.partition("=")
    row = known.get(name.strip().casefold(), "")
    return (row, address) if equals and row and address else ("", text)


def check_rows(models: Sequence[str], wanted: Sequence[PaperItem]) -> None:
    """Raise if a model names a row or column that no table has."""
    from pathlib import Path

    rows = {label for item in wanted for label in labels(item)}
    for text in models:
        name, equals, _ = text.partition("=")
        named = any(split_row(text, item)[0] for item in wanted)
        if equals and not named and not Path(text).exists() and "/" not in name and ":" not in name:
            if not rows:
                raise UsageError(
                    f"the model {text!r} names a row, and one model is asked for all rows here",
                    hint=f"write {text.partition('=')[2]}",
                )
            raise unknown_name("row", name.strip(), rows)
