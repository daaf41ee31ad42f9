"""What `evenhand debias hf:FOLDER` shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from evenhand.cli.terminal import escape, note, show
from evenhand.errors import counted

if TYPE_CHECKING:
    from evenhand.mitigations import SiteChange
    from evenhand.models.encoders.saving import SavedModel


def show_changed_model(changes: Sequence[SiteChange], saved: SavedModel) -> None:
    """Show where each method acts, what it was fitted on, and where its map went."""
    for change in changes:
        report = change.report
        removed = report.get("rank_removed", 0)
        most = max(removed) if isinstance(removed, list) else removed
        each = " at each" if isinstance(removed, list) else ""
        sites = ", ".join(change.sites)
        show(f"[bold]{report.get('method')}[/] at {escape(sites)}: {counted(int(most), 'direction')} removed{each}")
        show(f"[dim]fitted on {escape(_examples(report.get('examples', {})))}[/]")
    for site, names in saved.folded.items():
        show(f"{escape(site)}: folded into {escape(', '.join(names))}")
    for site in saved.hooked:
        show(f"{escape(site)}: kept beside the weights")
    for text in saved.notes:
        note(f"note: {text}")
    show("[dim]Less measured bias is not the absence of bias: `evenhand compare BEFORE AFTER` shows what is left.[/]")


def _examples(examples: Mapping[str, Any]) -> str:
    """Return in words what a method was fitted on."""
    if "sentence_pairs" in examples:
        return f"{examples['sentence_pairs']:,} sentence pairs of {examples['source']}"
    if "sentences" in examples:
        return f"{sum(examples['sentences'].values()):,} sentences of {examples['source']}"
    words = f"{examples.get('words', 0):,} words"
    if examples.get("contexts"):
        words += f" in {examples['contexts']} sentences each"
    split, lost = (len(examples.get(name, ())) for name in ("words_averaged_over_pieces", "words_without_tokens"))
    words += f", {split} of them averaged over pieces" if split else ""
    return words + (f", {counted(lost, 'list word')} without tokens" if lost else "")
