"""Records that `evenhand show` prints for a probe and for the embedded models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evenhand.words.probes import Filler, Probe
    from evenhand.words.template import Template


def probe_record(name: str) -> dict[str, Any]:
    """Return templates, fillers, counts, source, expected label and an example."""
    from evenhand.words import probes
    from evenhand.words.probes.catalog import variants

    probe, parts = probes.probe(name), name.split("+")
    others = variants(parts[0]) if parts[0] in probes.ids() else ()
    phrases, premises, hypotheses = probe.shape
    example = probe.pair(probe.n_pairs // 2)
    return {
        "kind": "probe",
        "id": name,
        "pairs": f"{premises:,} x {hypotheses:,} x {phrases:,} = {probe.n_pairs:,} (premise x hypothesis x phrases)",
        "example": {"premise": example.premise, "hypothesis": example.hypothesis},
        "expected label": probe.expected,
        "premise": _side(probe.premise),
        "hypothesis": _side(probe.hypothesis),
        "gap": _gap(probe),
        "templates": [_template(template, probe) for template in probe.templates],
        "surface": {key: value for key, value in vars(probe.surface).items() if value},
        "variants": [f"{name}+{variant}" for variant in others if variant not in parts],
        "controls": list(probe.controls),
        "note": probe.note,
        "source": probe.source.reference if probe.source else "",
        "bibtex": probe.citation,
    }


def models_record(name: str) -> dict[str, Any]:
    """Return training vectors, accuracy and model card of the embedded models of one condition."""
    from evenhand.models.nli import embedded
    from evenhand.subjects.nli_models import EMBEDDED

    condition: Any = EMBEDDED[name]
    return {
        "kind": "models",
        "id": f"embedded:{condition}",
        "trained on": embedded.TRAINED_ON[condition],
        "accuracy": {
            f"seed {seed}, {data}": share
            for seed, config in zip(embedded.SEEDS, embedded.settings(condition), strict=True)
            for data, share in dict(config.get("accuracy", {})).items()  # type: ignore[call-overload]
        },
        "card": embedded.card(),
    }


def _side(fillers: tuple[Filler, ...]) -> dict[str, Any]:
    """Return the words of a side by group, each group with its size."""
    groups: dict[str, list[str]] = {}
    for filler in fillers:
        groups.setdefault(filler.group or "all", []).append(filler.word)
    return {f"{group} ({len(words)})": words for group, words in groups.items()}


def _gap(probe: Probe) -> str:
    if probe.contrast:
        return " minus ".join(probe.contrast)
    return "between the two groups that differ most" if len(probe.groups) > 1 else "none: there is one group"


def _template(template: Template, probe: Probe) -> dict[str, Any]:
    from evenhand.words.probes.phrases import DETERMINER

    fillers = {f"{slot} ({len(words)})": list(words) for slot, words in template.fillers.items()}
    front, mark, back = template.text.partition("{" + probe.differs + "}")
    text = DETERMINER.sub(lambda match: probe.surface.determiner_for(match[1]) + " ", front) + mark + back
    return {"text": probe.surface.end(text), "phrases": template.size, "differs": probe.differs, **fillers}
