"""`evenhand debias corpus:PATH`: write a corpus after a change of its text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenhand.cli.terminal import escape, note, progress, show, show_json
from evenhand.errors import UsageError, counted

if TYPE_CHECKING:
    from evenhand.mitigations import Mitigation, TextChange
    from evenhand.mitigations.text.augmentation import AugmentedCorpus
    from evenhand.words import Concept

SHOWN = 12  # most frequent swaps


def write_corpus(
    address: str,
    methods: Sequence[Mitigation],
    concept: Concept,
    out: Path,
    reading: Mapping[str, Any],
    *,
    save: Path | None,
    seed: int,
    as_json: bool,
) -> bool:
    """Fit text methods, write the changed corpus, and show what was swapped; return False if there is no corpus."""
    from evenhand.mitigations import CounterfactualAugmentation
    from evenhand.mitigations.text.augmentation import write_augmented
    from evenhand.mitigations.text.text_change import TextChain
    from evenhand.subjects.corpora import CorpusSubject
    from evenhand.subjects.opening import kind_of_address, parse_address

    options = {name: value for name, value in reading.items() if value is not None}
    if kind_of_address(parse_address(address)) is not CorpusSubject:
        if given := sorted(set(options) - {"format"}):
            name = given[0].replace("_", "-")
            raise UsageError(f"--{name} is for corpora", hint="write corpus:PATH, or leave it out")
        return False
    if not methods:
        raise UsageError("--sweep compares methods on word vectors", hint="name a method: --method cda")
    text_methods = [method for method in methods if isinstance(method, CounterfactualAugmentation)]
    if other := next((method for method in methods if method not in text_methods), None):
        raise UsageError(f"{other.id} changes {other.view}, not the text of a corpus", hint="use --method cda")
    changes: list[TextChange] = [method.fit(None, concept, seed=seed) for method in text_methods]
    fitted = changes[0] if len(changes) == 1 else TextChain(tuple(changes))
    parsed = parse_address(address)
    path = str(parsed.path) if parsed.entry_kind else parsed.rest
    fields = tuple(part.strip() for part in str(options.pop("field", "text")).split(","))
    with progress("swapping") as bar:
        result = write_augmented(fitted, path, out, fields=fields, progress=bar, **options)
    if save:
        fitted.save(save)
    if as_json:
        show_json({**result.to_dict(), "seed": seed, "report": dict(fitted.report)})
    else:
        _show(result, fitted)
    note(f"wrote {out}, seed {seed}")
    return True


def _show(result: AugmentedCorpus, change: TextChange) -> None:
    counts = result.counts
    sides = "originals and swapped forms" if change.keeps_original else "swapped forms"
    show(
        f"[bold]{escape(str(change.report['method']))}[/]: {counted(counts.documents, 'document')} in "
        f"{counted(result.files, 'file')}, {sides}; {counts.swapped.total():,} of {counts.words:,} words swapped"
    )
    for (first, second), count in counts.swapped.most_common(SHOWN):
        show(f"  {escape(first)} -> {escape(second)}  {count:,}")
    if more := len(counts.swapped) - SHOWN:
        show(f"  [dim]and {more:,} other swaps (--json lists all)[/]" if more > 0 else "")
    kept, uncertain = counts.kept.total(), counts.uncertain.total()
    show(f"{kept:,} listed words kept as parts of names, {uncertain:,} pronouns decided by a narrow margin")
    show("[dim]A swapped text can be false, and what no listed word names stays as it is.[/]")
