"""Which fillers of a probe a model knows, and the probe without the others."""

from __future__ import annotations

from evenhand.errors import VocabularyError
from evenhand.models.nli.protocol import Vocabulary
from evenhand.models.vectors import Coverage
from evenhand.words.probes import Probe

MOST_LOST = 0.2


def covered(probe: Probe, model: object, *, force: bool = False) -> tuple[Probe, Coverage]:
    """The probe restricted to fillers that the model has vectors for, and the account of the others.

    More than a fifth lost in any slot is another probe under the same name, hence an error unless forced; a slot with
    nothing left always is.
    """
    slots = slot_words(probe)
    if not isinstance(model, Vocabulary):
        return probe, Coverage(tuple(dict.fromkeys(word for words in slots.values() for word in words)))
    lost = {slot: set(model.lost(words)) for slot, words in slots.items()}
    for slot, words in slots.items():
        share = len(lost[slot]) / len(words)
        if share == 1 or (share > MOST_LOST and not force):
            shown = ", ".join(sorted(lost[slot])[:8])
            raise VocabularyError(
                f"{probe.name}: {len(lost[slot])} of {len(words)} {slot} fillers are not in the vocabulary: {shown}",
                hint="use a model, or vectors, that know them" + ("" if share == 1 else ", or force=True (--force)"),
            )
    left = {slot: [word for word in words if word not in lost[slot]] for slot, words in slots.items() if lost[slot]}
    account = Coverage(
        tuple(dict.fromkeys(word for slot, words in slots.items() for word in words if word not in lost[slot])),
        tuple(dict.fromkeys(word for slot, words in slots.items() for word in words if word in lost[slot])),
    )
    return (probe.restrict(**left) if left else probe), account


def slot_words(probe: Probe) -> dict[str, tuple[str, ...]]:
    """The distinct fillers of both sides and of every slot of the templates."""
    found: dict[str, dict[str, None]] = {
        "premise": dict.fromkeys(filler.word for filler in probe.premise),
        "hypothesis": dict.fromkeys(filler.word for filler in probe.hypothesis),
    }
    for template in probe.templates:
        for slot, words in template.fillers.items():
            found.setdefault(slot, {}).update(dict.fromkeys(words))
    return {slot: tuple(words) for slot, words in found.items()}
