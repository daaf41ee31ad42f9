"""What `evenhand show` tells of a probe and of the embedded models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evenhand.words.probes import Filler, Probe
    from evenhand.words.template import Template


def probe_record(name: str) -> dict[str, Any]:
    """Templates, fillers, counts, source, expected answer and an example."""
    from evenhand.words import probes
    from evenhand.words.probes.catalog import variants

    found, chosen = probes.probe(name), name.split("+")
    known = variants(chosen[0]) if chosen[0] in probes.ids() else ()
    phrases, premises, hypotheses = found.shape
    example = found.pair(found.n_pairs // 2)
    return {
        "kind": "probe",
        "id": name,
        "pairs": f"{premises:,} x {hypotheses:,} x {phrases:,} = {found.n_pairs:,} (premise x hypothesis x phrases)",
        "example": {"premise": example.premise, "hypothesis": example.hypothesis},
        "expected answer": found.expected,
        "premise": _side(found.premise),
        "hypothesis": _side(found.hypothesis),
        "gap": _gap(found),
        "templates": [_template(template, found) for template in found.templates],
        "surface": {key: value for key, value in vars(found.surface).items() if value},
        "variants": [f"{name}+{variant}" for variant in known if variant not in chosen],
        "controls": list(found.controls),
        "note": found.note,
        "source": found.source.reference if found.source else "",
        "bibtex": found.citation,
    }


def models_record(name: str) -> dict[str, Any]:
    """The embedded models of one condition: what they were trained on, how good they are, and their card."""
    from evenhand.models.nli import embedded
    from evenhand.subjects.embedded_nli import TRAINED_ON
    from evenhand.subjects.nli_models import EMBEDDED

    condition: Any = EMBEDDED[name]
    return {
        "kind": "models",
        "id": f"embedded:{condition}",
        "trained on": TRAINED_ON[condition],
        "accuracy": {
            f"seed {number}, {data}": share
            for number, found in zip(embedded.SEEDS, embedded.settings(condition), strict=True)
            for data, share in found.get("accuracy", {}).items()
        },
        "card": embedded.card(),
    }


def _side(fillers: tuple[Filler, ...]) -> dict[str, Any]:
    """The words of a side by group, each group with its size."""
    groups: dict[str, list[str]] = {}
    for filler in fillers:
        groups.setdefault(filler.group or "all", []).append(filler.word)
    return {f"{group} ({len(words)})": words for group, words in groups.items()}


def _gap(found: Probe) -> str:
    if found.contrast:
        return " minus ".join(found.contrast)
    return "between the two groups that differ most" if len(found.groups) > 1 else "none: there is one group"


def _template(template: Template, found: Probe) -> dict[str, Any]:
    from evenhand.words.probes.phrases import DETERMINER

    fillers = {f"{slot} ({len(words)})": list(words) for slot, words in template.fillers.items()}
    front, mark, back = template.text.partition("{" + found.differs + "}")
    text = DETERMINER.sub(lambda given: found.surface.determined(given[1]) + " ", front) + mark + back
    return {"text": found.surface.stopped(text), "phrases": template.size, "differs": found.differs, **fillers}
