"""Which output of a classifier means what, as far as its configuration tells."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from evenhand.errors import FormatError
from evenhand.models.nli.protocol import LABELS

STEMS = {"entail": "entailment", "neutral": "neutral", "contradict": "contradiction"}
STEM = re.compile("|".join(STEMS))
NEGATED = re.compile(f"(?:not|non|no)(?:{STEM.pattern})")  # "not_entailment", once its signs are taken out
REMEDY = 'labels=("contradiction", "neutral", "entailment"), or --labels c,n,e (nli eval: --outputs), as its card says'


def labels_of(config: Any, *, where: str) -> tuple[str, ...]:
    """The three labels in the order of the model's outputs; an error where the names do not tell it.

    Published models have them in every order, and a guess would turn entailment into contradiction unnoticed.
    """
    refuse_other_counts(config, where=where)
    by_place = dict(getattr(config, "id2label", None) or {})
    by_name = {int(place): name for name, place in (getattr(config, "label2id", None) or {}).items()}
    told = [order for order in (_order(by_place), _order(by_name)) if order]
    if len(set(told)) == 1:
        return told[0]
    if told:
        problem = f"id2label says {', '.join(told[0])}, label2id says {', '.join(told[1])}"
    else:
        problem = f"its labels are {', '.join(map(str, by_place.values()))}"
    raise FormatError(f"{where}: which output means what cannot be told: {problem}", hint=f"say it: {REMEDY}")


def refuse_other_counts(config: Any, *, where: str) -> None:
    """An error for a classifier with other than three outputs."""
    count = int(getattr(config, "num_labels", 0))
    if count == len(LABELS):
        return
    named = ", ".join(map(str, (getattr(config, "id2label", None) or {}).values()))
    why = "neutral and contradiction are one label there, and the scores need them apart" if count == 2 else ""
    raise FormatError(
        f"{where}: the model has {count} labels ({named}), not {len(LABELS)}" + (f": {why}" if why else ""),
        hint=f"take a model that was trained on {', '.join(LABELS)}, as on SNLI or MultiNLI",
    )


def _order(names: Mapping[Any, Any]) -> tuple[str, ...] | None:
    """The labels by place, where each of the three is named by exactly one place."""
    placed = {int(place): meaning(str(name)) for place, name in names.items()}
    order = tuple(placed.get(place, "") for place in range(len(LABELS)))
    return order if len(placed) == len(LABELS) and sorted(order) == sorted(LABELS) else None


def meaning(name: str) -> str:
    """The label that a name speaks of, or nothing: "LABEL_2: Entailment" is entailment, "not_entailment" is not.

    >>> meaning("MNLI-CONTRADICTION"), meaning("non-entailment"), meaning("LABEL_0")
    ('contradiction', '', '')
    """
    letters = re.sub(r"[^a-z]", "", name.lower())
    found = set(STEM.findall(letters))
    return STEMS[found.pop()] if len(found) == 1 and not NEGATED.search(letters) else ""
