"""`SiteChange`: maps at sites of a transformer, the fitted change of a model."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from evenhand.arrays import Matrix64
from evenhand.errors import UsageError
from evenhand.mitigations.maps import VectorMap
from evenhand.mitigations.maps.store import arrays_of, build_map, describe_map, read_record, write_record
from evenhand.mitigations.maps.vectormap import steps_of
from evenhand.models.encoders.hooks import InstalledMap, SiteMap, install
from evenhand.models.encoders.sites import Site
from evenhand.models.encoders.transformer import Transformer
from evenhand.models.vectors import Vectors
from evenhand.subjects import open_subject
from evenhand.subjects.subject import AnySubject

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


When = Literal["test", "train+test"]
METADATA = "evenhand-change"
MOST_SITES = 5  # named in a representation


@dataclass(frozen=True, eq=False, repr=False)
class SiteChange:
    """Maps at sites of a transformer; called on a subject, it returns the changed subject.

    A method fitted on a transformer returns one: `linear(site="layer:4").fit(subject, "gender")`. Two changes are equal
    if they have the same sites and the same numbers.

    Attributes:
        steps: sites and maps, in the order in which they apply.
        report: what the method says about the fit.
        when: whether the model was also trained with the maps in place. Projecting at test time only, a trained model
            meets vectors that it never saw (Dev et al. 2020).
    """

    acts_on: ClassVar[str] = "transformer"

    steps: tuple[tuple[Site, VectorMap], ...]
    report: Mapping[str, object] = field(default_factory=dict)
    when: When = "test"

    def __post_init__(self) -> None:
        if not self.steps:
            raise UsageError("a change needs at least one map")

    @classmethod
    def at(cls, site: Site | str, map: VectorMap, *, when: When = "test") -> SiteChange:
        """Return the change of one map at one site."""
        return cls(((Site.parse(site), map),), {**map.report, "site": str(site), "when": when}, when)

    @property
    def maps(self) -> tuple[SiteMap, ...]:
        """The maps by site."""
        return tuple(SiteMap(site, map) for site, map in self.steps)

    @property
    def sites(self) -> tuple[str, ...]:
        """The names of the sites, each once."""
        return tuple(dict.fromkeys(str(site) for site, _ in self.steps))

    def __call__(self, subject: AnySubject) -> AnySubject:
        """Return the subject with the maps in place; all its views show them."""
        return open_subject(subject).changed(self)

    def __matmul__(self, first: SiteChange) -> SiteChange:
        if not isinstance(first, SiteChange) or first.when != self.when:
            return NotImplemented
        reports = [step for change in (first, self) for step in steps_of(change.report)]
        methods = ".".join(str(report.get("method", "maps")) for report in reports)
        steps = first.steps + self.steps
        sites = list(dict.fromkeys(str(site) for site, _ in steps))
        report = {"method": methods, "chain": reports, "sites": sites, "when": self.when}
        return SiteChange(steps, report, self.when)

    def apply_to(self, transformer: Transformer) -> Transformer:
        """Return a transformer with the maps in place, which shares the weights of the given one."""
        changed = transformer.share_weights()
        self.install(changed.model, changed.tokenizer)
        return changed

    def install(
        self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase | None = None
    ) -> tuple[InstalledMap, ...]:
        """Put the maps into a model in place, for fine-tuning with them; gradients flow through.

        Returns:
            What was installed; `remove()` of each takes it out again.
        """
        return tuple(install(model, site, map, tokenizer) for site, map in self.steps)

    def change_table(self, vectors: Vectors) -> Vectors:
        """Return the input table after the maps at `embeddings`."""
        for site, map in self.steps:
            vectors = map(vectors) if site.kind == "embeddings" else vectors
        return vectors

    def for_training(self) -> SiteChange:
        """Return the change for a model that is fine-tuned with it in place (`when="train+test"`)."""
        return replace(self, when="train+test", report={**self.report, "when": "train+test"})

    @cached_property
    def digest(self) -> str:
        """Hash of sites and maps."""
        return hashlib.sha256(repr([(str(site), map.digest) for site, map in self.steps]).encode()).hexdigest()

    def describe(self) -> dict[str, object]:
        """Return what a record keeps of the change."""
        kept = {key: self.report[key] for key in ("method", "concept", "params", "seed") if key in self.report}
        return {**kept, "sites": list(self.sites), "when": self.when, "sha256": self.digest}

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write sites, maps and report as safetensors; the file is complete or absent."""
        steps = [{"site": str(site), "map": describe_map(map)} for site, map in self.steps]
        about = {"steps": steps, "report": dict(self.report), "when": self.when, "sha256": self.digest}
        arrays = [arrays_of(map, f"{number}.") for number, (_, map) in enumerate(self.steps)]
        every = {name: array for some in arrays for name, array in some.items()}
        return write_record(Path(path), METADATA, about, every)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> SiteChange:
        """Load a change; raise `FormatError` if the file is damaged or something else."""
        return read_record(Path(path), METADATA, cls._built, "change of a model", "SiteChange.save")

    @classmethod
    def _built(cls, about: dict[str, Any], tensors: dict[str, Matrix64]) -> SiteChange:
        steps = enumerate(about["steps"])
        built = [(Site.parse(step["site"]), build_map(step["map"], tensors, f"{number}.")) for number, step in steps]
        return cls(tuple(built), about["report"], about["when"])

    def __eq__(self, other: object) -> bool:
        return self.digest == other.digest if isinstance(other, SiteChange) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        sites = ", ".join(self.sites[:MOST_SITES]) + (", ..." if len(self.sites) > MOST_SITES else "")
        by = f" by {self.report['method']}" if "method" in self.report else ""
        return f"SiteChange(at {sites}{by})"
