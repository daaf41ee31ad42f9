"""`evenhand audit`: every measure on a set of vectors, before and after each method, and one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evenhand.cli.options import AllowPickle, Case, ConceptOption, EncodingErrors, Format, Json, Seed, Vocabulary, load
from evenhand.cli.screens.terminal import audit_tables, note, progress, show, show_json


def audit(
    vectors: Annotated[
        str, typer.Argument(metavar="[VECTORS]", help="A vector file or a catalog id; default: the embedded GloVe cut.")
    ] = "glove-embedded",
    method: Annotated[
        list[str] | None,
        typer.Option(
            "--method", "-m", help="A method, or a chain like hard.misp; may be repeated.", show_default="linear, span"
        ),
    ] = None,
    no_methods: Annotated[bool, typer.Option("--no-methods", help="Only measure, do not debias.")] = False,
    measure: Annotated[
        list[str] | None, typer.Option("--measure", help="Only these measures; may be repeated.", show_default="all")
    ] = None,
    concept: ConceptOption = "gender",
    full_probes: Annotated[
        bool, typer.Option("--full-probes", help="Ask inference models about all pairs, not a sample.")
    ] = False,
    out: Annotated[
        Path,
        typer.Option("--out", "-o", help="Folder for audit.json and report.html; an interrupted audit resumes there."),
    ] = Path("runs/latest"),
    case: Case = "auto",
    format: Format = None,
    encoding_errors: EncodingErrors = "strict",
    vocabulary: Vocabulary = None,
    allow_pickle: AllowPickle = False,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Measure vectors, before and after each method; print a table, write one page."""
    from evenhand.audit import Audit
    from evenhand.audit.plan import DEFAULT_METHODS

    loaded = load(
        vectors,
        case=case,
        format=format,
        encoding_errors=encoding_errors,
        vocabulary=vocabulary,
        allow_pickle=allow_pickle,
    )
    methods = () if no_methods else tuple(method or DEFAULT_METHODS)
    with progress("audit") as bar:
        record = Audit.run(
            loaded,
            methods=methods,
            measures=measure or (),
            concept=concept,
            seed=seed,
            folder=out,
            full_probes=full_probes,
            progress=bar,
        )
    saved, page = record.save(out), record.to_html(out / "report.html")
    if as_json:
        show_json(record.to_dict())
    else:
        show(f"[bold]{loaded.name}[/]: {len(loaded):,} words x {loaded.dim}, concept {concept}, seed {seed}", "")
        show(*audit_tables(record))
    for text in record.manifest["warnings"]:
        note(f"note: {text}")
    note(f"record {saved}\nreport {page}")
