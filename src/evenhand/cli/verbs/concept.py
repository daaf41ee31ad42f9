"""`evenhand concept`: check, show, list and export concepts, shipped ones and your own."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evenhand.cli.options import CaseOption, Json, Overwrite, Seed, load
from evenhand.cli.terminal import escape, note, show, show_json, show_records
from evenhand.errors import counted, few
from evenhand.files import require_folder
from evenhand.outputs import remember, require_replaceable

if TYPE_CHECKING:
    from evenhand.models.vectors import Vectors
    from evenhand.words import Concept, Flaw

PROBLEMS = 3
Reference = Annotated[
    str, typer.Argument(metavar="CONCEPT", help='An id, a file, file#id, or "gender x race".', show_default=False)
]


def check(
    concepts: Annotated[
        list[str],
        typer.Argument(metavar="CONCEPT", help='Ids, files, file#id, or "gender x race".', show_default=False),
    ],
    vectors: Annotated[
        str | None,
        typer.Option("--vectors", help="Also look the words up in these vectors: a file or a catalog id."),
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 3 for notes too, not only for problems.")] = False,
    case: CaseOption = None,
    as_json: Json = False,
) -> None:
    """Check the words of concepts.

    Problems: characters that only look right (mixed alphabets, invisible and direction marks), words in two groups,
    words on both sides of the pairs, and groups of which the vectors have less than half. Notes: groups of one word or
    of unequal sizes, missing words, unbalanced frequencies (by the order of the vectors), no source, no limits.

    Exit codes: 0 nothing found (or notes only), 2 misuse, 3 problems found, 4 a file is missing or cannot be read.
    """
    from evenhand.words import check_concept

    table = load(vectors, case=case) if vectors else None
    find, rank = (table.find, table.index) if table is not None else (None, None)
    records: list[object] = []
    every: list[Flaw] = []
    for concept in concepts:
        found = load_leniently(concept)
        flaws = check_concept(found, find=find, rank=rank)
        every += flaws
        if as_json:
            records.append(_record(found, flaws, table))
        else:
            _show_flaws(found, flaws, table)
    if as_json:
        show_json(records[0] if len(records) == 1 else records)
    if any(flaw.level == "problem" for flaw in every) or (strict and every):
        raise typer.Exit(PROBLEMS)


def show_concept(concept: Reference, as_json: Json = False) -> None:
    """Show the groups, pairs, source and limits of a concept, or the cells of an intersection."""
    from evenhand.words import concept as find_concept

    found = find_concept(concept)
    if as_json:
        show_json({"concept": found.name, **found.to_dict()})
        return
    show(f"[bold]{escape(found.name)}[/]  ({escape(found.language)}, positive: {escape(str(found.positive))})")
    for part, groups in (
        ("groups", found.groups),
        ("names", found.names),
        ("adjectives", found.adjectives),
        ("nouns", found.nouns),
    ):
        for name, words in groups.items():
            show(f"[dim]{part}[/] [bold]{escape(name)}[/] ({len(words)}): {escape(few(words, most=40))}")
    if len(found.pairs):
        show(f"[dim]pairs[/] ({len(found.pairs)}): {escape(few(map(' – '.join, found.pairs), most=20))}")
    if found.source:
        show(f"[dim]source[/] {escape(found.source.reference)}")
    show(f"[dim]limits[/] {escape(found.limits or 'not stated')}")


def list_concepts(as_json: Json = False) -> None:
    """List the shipped concepts with their language, groups and sizes."""
    from evenhand import words

    rows = [_row(words.concept(id)) for id in words.ids("concept")]
    if as_json:
        show_json(rows)
        return
    show_records(rows, 'Two concepts are crossed by "gender x race"; `evenhand concept show ID` prints the words.')


def export(
    concept: Annotated[
        str, typer.Argument(metavar="CONCEPT", help="An id or a file of a concept, or the id of a probe.")
    ],
    out: Annotated[Path, typer.Argument(help="Folder for the tasks; others are kept.", show_default=False)],
    sample: Annotated[int, typer.Option("--sample", help="The most rows of a task; 0 for all.")] = 500,
    overwrite: Overwrite = False,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Write a concept, or a probe, as tasks that lm-eval runs: decisions about people, and pairs for inference."""
    from evenhand.interop.logs.lm_eval import write_lm_eval_tasks

    require_folder(out / "task.yaml")
    with tempfile.TemporaryDirectory() as empty:  # the names of the files, and errors, before any is replaced
        for file in write_lm_eval_tasks(concept, empty, sample=sample, seed=seed):
            require_replaceable(out / file.name, overwrite=overwrite)
    written = write_lm_eval_tasks(concept, out, sample=sample, seed=seed)
    for file in written:
        remember(file)
    if as_json:
        show_json({"tasks": {file.stem: str(file) for file in written}})
        return
    for file in written:
        show(f"{escape(file.stem)}  {escape(str(file))}")
    note(f"run them with `lm_eval run --include_path {out} --tasks {','.join(file.stem for file in written)}`")


VERBS = {"check": check, "show": show_concept, "list": list_concepts, "export": export}


def load_leniently(reference: str) -> Concept:
    """Load a concept with all its characters, and without the warnings that the check repeats."""
    import warnings

    from evenhand.errors import EvenhandWarning
    from evenhand.words import concept as find_concept
    from evenhand.words.characters import accepting_all_characters

    with accepting_all_characters(), warnings.catch_warnings():
        warnings.simplefilter("ignore", EvenhandWarning)
        return find_concept(reference)


def _row(concept: Concept) -> dict[str, object]:
    sizes = ", ".join(f"{name} {len(words)}" for name, words in concept.groups.items())
    source = concept.source.title if concept.source else ""
    row: dict[str, object] = {"id": concept.name, "language": concept.language, "groups": sizes}
    return row | {"pairs": len(concept.pairs), "source": source}


def _record(concept: Concept, flaws: tuple[Flaw, ...], table: Vectors | None) -> dict[str, object]:
    from evenhand.words.concept_check import median_ranks

    record: dict[str, object] = {"concept": concept.name, "language": concept.language}
    record |= {"passed": not any(flaw.level == "problem" for flaw in flaws)}
    record |= {"groups": {name: len(words) for name, words in concept.groups.items()}}
    if table is not None:
        found = {name: sum(table.find(w) is not None for w in words) for name, words in concept.groups.items()}
        record |= {"vectors": table.name, "found": found, "median_rank": median_ranks(concept, table.find, table.index)}
    return record | {"flaws": [flaw.to_dict() for flaw in flaws]}


def _show_flaws(concept: Concept, flaws: tuple[Flaw, ...], table: Vectors | None) -> None:
    sizes = ", ".join(f"{name} {len(words)}" for name, words in concept.groups.items())
    against = f", looked up in {table.name}" if table is not None else ""
    show(f"[bold]{escape(concept.name)}[/] ({escape(concept.language)}): {escape(sizes)}{escape(against)}")
    for flaw in flaws:
        mark = "[bold]problem[/]" if flaw.level == "problem" else "note   "
        show(f"{mark} {escape(flaw.where)}: {escape(flaw.message)}")
    count = sum(flaw.level == "problem" for flaw in flaws)
    show(f"{counted(count, 'problem')}, {counted(len(flaws) - count, 'note')}")
