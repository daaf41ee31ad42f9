"""The order of a classifier's labels, from its configuration."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from evenhand.errors import FormatError
from evenhand.models.nli.protocol import LABELS

if TYPE_CHECKING:
    from transformers import PretrainedConfig

STEMS = {"entail": "entailment", "neutral": "neutral", "contradict": "contradiction"}
STEM = re.compile("|".join(STEMS))
NEGATED = re.compile(f"(?:not|non|no)(?:{STEM.pattern})")  # "not_entailment", without punctuation
REMEDY = 'labels=("contradiction", "neutral", "entailment"), or --labels c,n,e (nli eval: --outputs)'


def read_label_order(config: PretrainedConfig, *, where: str) -> tuple[str, ...]:
    """Return the three labels in the order of the model's outputs.

    Published models use every order, and a wrong guess would silently exchange entailment and contradiction.

    Raises:
        FormatError: If the names of the labels do not determine the order.
    """
    require_three_labels(config, where=where)
    by_index = dict(getattr(config, "id2label", None) or {})
    by_name = {int(index): name for name, index in (getattr(config, "label2id", None) or {}).items()}
    orders = [order for order in (_order(by_index), _order(by_name)) if order]
    if len(set(orders)) == 1:
        return orders[0]
    if orders:
        problem = f"id2label says {', '.join(orders[0])}, label2id says {', '.join(orders[1])}"
    else:
        problem = f"its labels are {', '.join(map(str, by_index.values()))}"
    raise FormatError(
        f"{where}: the order of its labels is unknown: {problem}",
        hint=f"look it up in the model card and pass {REMEDY}",
    )


def require_three_labels(config: PretrainedConfig, *, where: str) -> None:
    """Raise `FormatError` for a classifier with other than three outputs."""
    count = int(getattr(config, "num_labels", 0))
    if count == len(LABELS):
        return
    names = ", ".join(map(str, (getattr(config, "id2label", None) or {}).values()))
    reason = "it does not distinguish neutral from contradiction" if count == 2 else ""
    raise FormatError(
        f"{where}: the model has {count} labels ({names}), not {len(LABELS)}" + (f": {reason}" if reason else ""),
        hint=f"use a model trained on {', '.join(LABELS)}, such as on SNLI or MultiNLI",
    )


def _order(names: Mapping[int, str]) -> tuple[str, ...] | None:
    """Return the labels by index, if each of the three is named exactly once."""
    labels = {int(index): meaning(str(name)) for index, name in names.items()}
    order = tuple(labels.get(index, "") for index in range(len(LABELS)))
    return order if len(labels) == len(LABELS) and sorted(order) == sorted(LABELS) else None


def meaning(name: str) -> str:
    """Return the label that a name means, or "": "LABEL_2: Entailment" is entailment, "not_entailment" is not.

    >>> meaning("MNLI-CONTRADICTION"), meaning("non-entailment"), meaning("LABEL_0")
    ('contradiction', '', '')
    """
    letters = re.sub(r"[^a-z]", "", name.lower())
    stems = set(STEM.findall(letters))
    return STEMS[stems.pop()] if len(stems) == 1 and not NEGATED.search(letters) else ""
