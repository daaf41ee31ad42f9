"""`evenhand debias hf:FOLDER --method cda-tuning`: train a language model further and write it as a folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from evenhand.cli.terminal import escape, note, progress, show, show_json
from evenhand.errors import UsageError

if TYPE_CHECKING:
    from evenhand.mitigations import Mitigation
    from evenhand.words import Concept


def train_model(
    address: str,
    methods: Sequence[Mitigation],
    concept: Concept,
    out: Path,
    *,
    device: str | None,
    save: Path | None,
    seed: int,
    as_json: bool,
) -> bool:
    """Train a model with one of the methods that train, and write it; return False if no method does."""
    from evenhand.mitigations import FineTuning, SelfDebias
    from evenhand.subjects.opening import kind_of_address, parse_address

    if any(isinstance(method, SelfDebias) for method in methods):
        raise UsageError(
            "self-debias changes predictions, not weights: there is nothing to write",
            hint="measure it: `evenhand audit hf:FOLDER --method self-debias`",
        )
    trained = [method for method in methods if isinstance(method, FineTuning)]
    if not trained:
        return False
    kind = kind_of_address(parse_address(address))
    if kind.kind in ("vectors", "corpus"):
        raise UsageError(
            f"{trained[0].id} trains a language model further, and {address} is {kind.title}",
            hint="name hf:FOLDER; for vectors use linear, hard or another method of `evenhand list methods`",
        )
    if len(methods) > 1 or save:
        raise UsageError(f"{trained[0].id} stands alone and has no map", hint="train first, then change the new folder")
    method = replace(trained[0], seed=seed, device=device or trained[0].device)
    with progress("training") as bar:
        change = method.train(parse_address(address).path, out, concept, progress=bar)
    history = change.report["training"]["history"]
    if as_json:
        show_json({"out": str(out), "seed": seed, "report": dict(change.report)})
    else:
        show(
            f"[bold]{escape(method.id)}[/]: {method.steps:,} steps, training loss {history[0]['loss']:.3f} at first, "
            f"{history[-1]['loss']:.3f} at last"
        )
        show(
            "[dim]Compare with `--method fine-tuning` for the same number of steps: training alone changes a model.[/]"
        )
    note(f"wrote {out}, seed {seed}")
    return True
