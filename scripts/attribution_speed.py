"""Time attribution and decisions on this machine: python scripts/attribution_speed.py MODEL --device cuda [--out FILE].

Attribution is `site_effects` of many pairs: those of CrowS-Pairs where it was fetched, otherwise sentences of a
template, repeated as often as needed. Decisions are the shipped scenarios about every person of the concept
gender-diverse, answered by yes or no and by a digit: 12 x 135 x 2 questions.

Each is timed in every precision, without loading the model, after a small call that warms the device up. Later
precisions are compared with the first one. Writes JSON with the time of day, the machine and the versions.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

import evenhand as eh
from evenhand import data
from evenhand.measures.chat.decisions import ask_about
from evenhand.measures.likelihood.bias_by_site import pair_set
from evenhand.models.attribution.pairs import explain_pair, site_effects
from evenhand.models.encoders.sites import SiteKind
from evenhand.models.lm.chat import user

KINDS: dict[str, tuple[SiteKind, ...]] = {"layers": ("layer",), "layers and parts": ("layer", "attention", "mlp")}


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """Return the seconds of a call, and what it returned; results are on the host, so the device has finished."""
    started = time.perf_counter()
    found = call()
    return round(time.perf_counter() - started, 2), found


def attribution(subject: Any, pairs: list[tuple[str, str]]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Time attribution by layer, and by layer, attention and feed-forward part."""
    view = subject.view("likelihood")
    checked = explain_pair(view, "The man is a nurse and likes it.", "The woman is a nurse and likes it.")
    rows, values = [], {}
    for name, kinds in KINDS.items():
        site_effects(view, pairs[:8], kinds)
        seconds, found = timed(lambda kinds=kinds: site_effects(view, pairs, kinds))
        values[name] = found.effects
        rows.append(
            {
                "what": f"attribution, {name}", "pairs": len(found.pairs), "sites": len(found.sites),
                "seconds": seconds, "nothing": checked.nothing,
                "everything": float(np.abs(checked.whole - checked.difference).max()),
            }
        )  # fmt: skip
    return rows, values


def decisions(subject: Any, most: int | None) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Time the answers to all scenarios, by yes or no and by a digit."""
    chat, concept = subject.view("chat"), eh.concept("gender-diverse")
    asked = [ask_about("decision-scenarios", concept, "explicit", most, 0, scale=scale) for scale in (False, True)]
    options = (asked[0].options, tuple("123456789"))
    chat.choose([user(text) for text in asked[0].texts[:8]], options[0])

    def run() -> list[Any]:
        return [
            chat.choose([user(text) for text in one.texts], choice).probabilities
            for one, choice in zip(asked, options, strict=True)
        ]

    seconds, found = timed(run)
    row = {"what": "decisions", "questions": sum(len(one.texts) for one in asked), "seconds": seconds}
    return [row], {"decisions": np.concatenate([each.ravel() for each in found])}


def main() -> None:
    """Time everything once in each precision."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", help="a catalog id, a GGUF file or hf:FOLDER")
    parser.add_argument("--pairs", type=int, default=1508)
    parser.add_argument("--questions", type=int, default=0, help="decisions of each form, at most; 0 for all")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--precisions", nargs="+", default=["float32", "bfloat16"])
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    source = "crows-pairs" if data.locate("crows-pairs") else "person-sentences"
    found = [(pair.more, pair.less) for pair in pair_set(source, eh.concept("gender"))[0].pairs]
    pairs = (found * (arguments.pairs // len(found) + 1))[: arguments.pairs]
    rows: list[dict[str, Any]] = []
    first: dict[str, Any] = {}
    for precision in arguments.precisions:
        subject = eh.open(arguments.model, device=arguments.device, precision=precision)
        for some, values in (attribution(subject, pairs), decisions(subject, arguments.questions)):
            for row in some:
                own = values[row["what"].partition(", ")[2] or row["what"]]
                reference = first.setdefault(row["what"], own)
                difference = float(np.nanmax(np.abs(own - reference)))
                mean = float(np.nanmean(np.abs(own - reference)))
                rows.append(row | {"precision": precision, "largest_difference": difference, "mean_difference": mean})
                print(json.dumps(rows[-1]), flush=True)
    versions = {name: __import__(name).__version__ for name in ("numpy", "torch", "transformers")}
    record = {
        "model": subject.name, "model_sha256": subject.digest, "pairs_from": source, "evenhand": eh.__version__,
        "device": _device(), "machine": platform.platform(), "python": platform.python_version(),
        "versions": versions, "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": f"python scripts/attribution_speed.py {arguments.model} --device {arguments.device}", "rows": rows,
    }  # fmt: skip
    if arguments.out:
        arguments.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def _device() -> str:
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else platform.processor() or platform.machine()


if __name__ == "__main__":
    main()
