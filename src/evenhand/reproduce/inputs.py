"""What tables are computed from: models by row of the table, vectors, a text; answers of a model are asked once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from evenhand.errors import UsageError, unknown_name
from evenhand.reproduce.published import PaperItem

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
    answered: dict[tuple[tuple[str, ...], str], SeedsResult] = field(default_factory=dict)
    opened: dict[tuple[str, ...], NLIEnsemble] = field(default_factory=dict)

    def addresses(self, item: PaperItem, *, default: str, embedded: dict[str, str]) -> dict[str, tuple[str, ...]]:
        """Return the models of a table by row: those given, else the embedded ones.

        Args:
            item: the table.
            default: the row of a model that is given without one.
            embedded: the embedded models by row.
        """
        found: dict[str, tuple[str, ...]] = {}
        for text in self.models:
            row, address = split_row(text, item)
            found[row or default] = (*found.get(row or default, ()), address)
        return found or {row: (address,) for row, address in embedded.items()}

    def open(self, addresses: tuple[str, ...]) -> NLIEnsemble:
        """Open NLI models, once."""
        from evenhand.subjects.nli_models import open_models

        if addresses not in self.opened:
            if len(self.sources) > 1:
                raise UsageError(f"models read one set of vectors, got {len(self.sources)}")
            given = self.sources[0] if self.sources and not addresses[0].startswith("embedded") else None
            self.opened[addresses] = open_models(addresses, vectors=given, device=self.device).ensemble
        return self.opened[addresses]

    def answers(self, addresses: tuple[str, ...], probe: str) -> SeedsResult:
        """Put a probe to models, once."""
        from evenhand.measures.inference import probe_seeds
        from evenhand.words.probes import probe as find_probe

        key = addresses, probe
        sample = self.sample if self.sample and self.sample < find_probe(probe).n_pairs else None
        if key not in self.answered:
            self.answered[key] = probe_seeds(
                self.open(addresses).members, probe, condition=" ".join(addresses), seed=self.seed,
                progress=self.progress, sample=sample, controls=False,
            )  # fmt: skip
        return self.answered[key]

    def only_vectors(self, item: PaperItem) -> Vectors:
        """Return the vectors that are given, or the embedded ones."""
        from evenhand.models.vectors import Vectors

        if len(self.vectors) > 1:
            raise UsageError(f"{item.id} is computed on one set of vectors, got {len(self.vectors)}")
        return self.vectors[0] if self.vectors else Vectors.default()


def labels(item: PaperItem) -> tuple[str, ...]:
    """Return what a model can stand for: a row of the table, or a strength of the penalty among its columns."""
    return (*(item.rows or {}), *item.columns)


def split_row(text: str, item: PaperItem) -> tuple[str, str]:
    """Return row and address of a model; the row is empty if none is named."""
    known = {label.casefold(): label for label in labels(item)}
    name, equals, address = text.partition("=")
    row = known.get(name.strip().casefold(), "")
    return (row, address) if equals and row and address else ("", text)


def check_rows(models: Sequence[str], items: Sequence[PaperItem]) -> None:
    """Raise if a model names a row that no table has."""
    from pathlib import Path

    rows = {label for item in items for label in labels(item)}
    for text in models:
        name, equals, _ = text.partition("=")
        named = any(split_row(text, item)[0] for item in items)
        if equals and not named and not Path(text).exists() and "/" not in name and ":" not in name:
            raise unknown_name("row", name.strip(), rows)
