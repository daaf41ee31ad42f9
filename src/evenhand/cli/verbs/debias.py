"""`evenhand debias`: fit methods to a subject, apply them and write the result; or compare all methods."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenhand.cli.options import (
    ConceptOption,
    Json,
    Only,
    Opening,
    Overwrite,
    Seed,
    SkipBad,
    SubjectArgument,
    invocation,
    with_groups,
)
from evenhand.cli.terminal import escape, note, notes_on_stderr, plain_table, progress, show, show_json
from evenhand.errors import EvenhandError, UsageError, counted
from evenhand.outputs import output_file, require_run_folder

if TYPE_CHECKING:
    from evenhand.audit import Tradeoff
    from evenhand.audit.manifest import Invocation
    from evenhand.mitigations import Mitigation
    from evenhand.subjects import Change, Subject
    from evenhand.words import Concept

MINUTES = "minutes of training: name it in an audit"
SHOWN = 12  # most frequent swaps


@with_groups
def debias(
    context: typer.Context,
    subject: SubjectArgument,
    *,
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            "-o",
            help="Where to write: a vector file or table, whose suffix says the format; for a model a folder.",
            show_default=False,
        ),
    ],
    method: Annotated[
        str,
        typer.Option(
            "--method",
            "-m",
            help="A method, or several in order: hard.misp; at a site: leace@layer:4.",
            show_default=False,
        ),
    ] = "",
    sweep: Annotated[
        bool, typer.Option("--sweep", help="Try all methods but the slow gp and rank them; OUT is then a folder.")
    ] = False,
    option: Annotated[
        list[str] | None,
        typer.Option("--set", help="A parameter of the method, such as k=2 or inlp.iterations=20.", show_default=False),
    ] = None,
    concept: ConceptOption = "gender",
    save_map: Annotated[
        Path | None,
        typer.Option("--save-map", help="Also write the fitted map or change.", show_default=False),
    ] = None,
    site: Annotated[
        str | None,
        typer.Option(
            "--site",
            help="Where in a model: embeddings, layer:N, attention:N, mlp:N, pooled; `show hf:FOLDER` lists them.",
            show_default="embeddings",
        ),
    ] = None,
    decoder: Annotated[
        str | None,
        typer.Option(
            "--decoder",
            help="untied: an output layer that shares the word table keeps the original. tied: it changes too.",
            show_default="untied",
        ),
    ] = None,
    hook: Annotated[
        bool,
        typer.Option(
            "--hook", help="Keep a map beside the weights if it cannot be folded into them; only evenhand applies it."
        ),
    ] = False,
    opening: Annotated[
        Opening,
        Only(
            *("device", "case", "format", "allow_pickle", "group", "label", "prediction", "score", "threshold"),
            *("positive", "texts", "text_column", "positive_label"),
        ),
    ],
    field: Annotated[
        str | None,
        typer.Option(help="Corpora: field with the text, or several with commas.", show_default="text"),
    ] = None,
    documents: Annotated[
        str | None,
        typer.Option(help="Corpora: whether a plain text file or each line is a document.", show_default="file"),
    ] = None,
    skip_bad: SkipBad = False,
    overwrite: Overwrite = False,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Remove a concept from vectors, a model or a corpus and write the result, or compare all methods."""
    from evenhand import words
    from evenhand.mitigations.method import apply_methods, chain_report, check_methods, composed

    _refuse_contradictions(method, sweep=sweep, given={"--set": option, "--save-map": save_map, "--site": site})
    about = words.concept(concept)
    methods = parse_methods(method, option or [], site) if method else []
    for one in methods:
        one.check_concept(about)
    if sweep:
        require_run_folder(out)
    with output_file(out, sources=[subject], overwrite=overwrite), output_file(save_map, overwrite=overwrite):
        (opened,) = opening.subjects([subject], field=field, documents=documents, skip_bad=skip_bad or None)
        if sweep:
            compare_all(opened, out, concept=concept, seed=seed, started=invocation(context), as_json=as_json)
            return
        saving = _saving({"--site": site, "--decoder": decoder, "--hook": hook}, opened)
        check_methods(methods, opened, about)
        alone = next((one for one in methods if one.trains_stored_weights), None) if len(methods) > 1 else None
        if save_map and alone:
            raise UsageError(
                f"{alone.id} cannot be combined with other methods in one map", hint="apply the methods one by one"
            )
        _check_output(opened, methods, out, saving)
        with _at_work(out):
            changed, changes = apply_methods(methods, opened, about, seed=seed)
            written = changed.save(out, **saving)
            if save_map:
                composed(changes).save(save_map)
    if as_json:
        reports = [dict(change.report) for change in changes]
        report = chain_report(changes)
        show_json({"out": str(out), "seed": seed, **written.to_dict(), "report": report, "reports": reports})
    else:
        show_changes(changes)
        show_written(written.to_dict(), changes)
    note(f"wrote {out}, seed {seed}")


def _refuse_contradictions(method: str, *, sweep: bool, given: dict[str, object]) -> None:
    """Raise an error unless there is either a method or a sweep, which has no options of a method."""
    if sweep == bool(method):
        raise UsageError("name a method, or ask for --sweep", hint="`evenhand list methods` shows them")
    names = [name for name, value in given.items() if value] if sweep else []
    if names:
        raise UsageError(
            f"{', '.join(names)} needs --method", hint="a sweep tries every method with its own parameters"
        )


def _saving(given: dict[str, object], subject: Subject) -> dict[str, object]:
    """Return the options of `Subject.save`; raise if options of a model are given for something else."""
    names = [name for name, value in given.items() if value]
    if subject.network is None:
        if names:
            raise UsageError(f"{', '.join(names)} applies to a model, and {subject.name} is {subject.title}")
        return {}
    return {"decoder": given["--decoder"] or "untied", "hook": given["--hook"]}


def _check_output(subject: Subject, methods: Sequence[Mitigation], out: Path, saving: dict[str, object]) -> None:
    """Raise if the result cannot be written: that should not cost a long fit."""
    for method in methods:
        if method.not_written:
            raise UsageError(
                f"{method.id} {method.not_written}: there is nothing to write",
                hint=f"measure it: `evenhand audit {subject.address} --method {method.id}`",
            )
    sites = [site for method in methods for site in method.sites]
    parts = [target.part for method in methods for target in method.works_on if target.accepts(subject)]
    subject.check_output(out, sites=sites, parts=parts, **saving)


@contextmanager
def _at_work(out: Path) -> Iterator[None]:
    """Show how far the work is, warnings as notes; keep the state of a training beside the output."""
    from evenhand.mitigations.method import keeping_state
    from evenhand.progress import followed

    state = out.parent / f".{out.name}.training"
    with notes_on_stderr(), progress("debias") as bar, followed(bar), keeping_state(state):
        yield


def show_changes(changes: Sequence[Change]) -> None:
    """Show what each method did, by what it reports."""
    for change in changes:
        report = dict(change.report)
        for step in report.get("chain", [report]):
            name = f"[bold]{escape(str(step.get('method', 'method')))}[/]"
            if "training" in step:
                _show_training(name, step)
            elif "site" in step or "sites" in step:
                _show_at_site(name, step)
            elif "rank_removed" in step:
                _show_map(name, step)
            elif "decisions_changed" in step:
                _show_decisions(name, step)


def show_written(written: Mapping[str, Any], changes: Sequence[Change]) -> None:
    """Show what was written, and what a reader must not conclude from it."""
    if "swaps" in written:
        _show_swaps(written, changes)
        return
    for site, names in written.get("folded", {}).items():
        show(f"{escape(site)}: folded into {escape(', '.join(names))}")
    for site in written.get("hooked", ()):
        show(f"{escape(site)}: kept beside the weights")
    for text in written.get("notes", ()):
        note(f"note: {text}")
    show("[dim]Less measured bias is not the absence of bias: `evenhand compare BEFORE AFTER` shows what is left.[/]")


def _show_map(name: str, report: Mapping[str, Any]) -> None:
    removed, missing = report["rank_removed"], len(report.get("words_missing", ()))
    kept, changed = report.get("variance_kept"), report.get("words_changed")
    about = "about " if "measured_on" in report else ""
    show(
        f"{name}: {counted(int(removed), 'direction')} removed"
        + (f", {about}{changed:,} words changed" if changed is not None else "")
        + (f", variance {100 * kept:.1f} % of before" if kept is not None else "")
        + f", {counted(missing, 'list word')} missing"
    )


def _show_decisions(name: str, report: Mapping[str, Any]) -> None:
    accuracy = report["accuracy"]
    show(
        f"{name}: a true positive rate of {report['true_positive_rate']:.3f} and a false positive rate of "
        f"{report['false_positive_rate']:.3f} for every group of {escape(str(report['concept']))}; "
        f"{report['decisions_changed']:,} of {report['rows']:,} decisions changed, accuracy {accuracy['before']:.3f} "
        f"before, {accuracy['after']:.3f} after"
    )


def _show_at_site(name: str, report: Mapping[str, Any]) -> None:
    removed = report.get("rank_removed", 0)
    most, each = (max(removed), " at each") if isinstance(removed, list) else (removed, "")
    sites = ", ".join(report.get("sites", [report.get("site", "")]))
    show(f"{name} at {escape(sites)}: {counted(int(most), 'direction')} removed{each}")
    show(f"[dim]fitted on {escape(_examples(report.get('examples', {})))}[/]")


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


def _show_training(name: str, report: Mapping[str, Any]) -> None:
    history, steps = report["training"]["history"], report["params"]["steps"]
    first, last = history[0]["loss"], history[-1]["loss"]
    show(f"{name}: {steps:,} steps, training loss {first:.3f} at first, {last:.3f} at last")
    show("[dim]Compare with `--method fine-tuning` for the same number of steps: training alone changes a model.[/]")


def _show_swaps(written: Mapping[str, Any], changes: Sequence[Change]) -> None:
    name = ".".join(str(change.report.get("method", "change")) for change in changes)
    originals = all(getattr(change, "keeps_original", False) for change in changes)
    show(
        f"[bold]{escape(name)}[/]: {counted(written['documents'], 'document')} in {counted(written['files'], 'file')}, "
        f"{'originals and swapped forms' if originals else 'swapped forms'}; {written['swapped']:,} of "
        f"{written['words']:,} words swapped"
    )
    swaps = list(written["swaps"].items())
    for swap, count in swaps[:SHOWN]:
        show(f"  {escape(swap)}  {count:,}")
    if len(swaps) > SHOWN:
        show(f"  [dim]and {len(swaps) - SHOWN:,} other swaps (--json lists all)[/]")
    kept, uncertain = (sum(written[name].values()) for name in ("kept_in_names", "uncertain_pronouns"))
    show(f"{kept:,} listed words kept as parts of names, {uncertain:,} pronouns decided by a narrow margin")
    show("[dim]A swapped text can be false, and what no listed word names stays as it is.[/]")


def parse_methods(chain: str, options: list[str], site: str | None = None) -> list[Mitigation]:
    """Return the methods of a chain with their parameters; `method.key=value` sets one of several methods.

    `site` is where the methods act that name no site themselves.
    """
    from evenhand import mitigations
    from evenhand.audit.plan import at_site, split_chain, step_parts

    steps = [step_parts(step) for step in split_chain(at_site(chain, site) if site else chain)]
    ids = [id for id, _ in steps]
    given: dict[str, dict[str, str]] = {id: {} for id in ids}
    for text in options:
        name, sign, value = text.partition("=")
        id, dot, key = name.partition(".")
        if not sign or (dot and id not in given):
            raise UsageError(f"--set {text} is not a parameter", hint="write --set key=value or --set method.key=value")
        if not dot and len(ids) > 1:
            raise UsageError(f"--set {text}: which method?", hint=f"write --set {ids[0]}.{text}")
        given[id if dot else ids[0]][(key if dot else name).strip()] = value
    return [mitigations.get(id).with_params({**own, **given[id]}) for id, own in steps]


def compare_all(subject: Subject, folder: Path, *, concept: str, seed: int, started: Invocation, as_json: bool) -> None:
    """Run the audit of all methods, print the ranking, write record and page."""
    from evenhand import measures, mitigations, words
    from evenhand.audit import Audit, tradeoffs
    from evenhand.audit.plan import concept_queries

    about = words.concept(concept)
    ids = [entry.id for entry in mitigations.listing("vectors")]
    slow = dict.fromkeys(slow_methods(), MINUTES)
    fitting, unfit = _fitting([id for id in ids if id not in slow], about, subject)
    on_vectors = [measures.info(name) for name in measures.ids() if measures.info(name).view == "vectors"]
    compared = [info for info in on_vectors if info.in_tradeoff or info.family == "quality"]
    asked = [info.id for info in compared if concept_queries(info, about)]
    with progress("sweep") as bar:
        audit = Audit.run(
            subject,
            methods=fitting,
            measures=asked,
            concept=concept,
            seed=seed,
            folder=folder,
            skip_failing=True,
            progress=bar,
            invocation=started,
        )
    places = tradeoffs(audit)
    skipped = unfit | dict(audit.manifest["skipped"]) | slow
    saved, page = audit.save(folder), audit.to_html(folder / "report.html")
    if as_json:
        show_json({"ranking": [asdict(place) for place in places], "skipped": skipped, "record": str(saved)})
    else:
        _show_ranking(places, skipped)
    note(f"record {saved}\nreport {page}")


def slow_methods() -> list[str]:
    """Return the methods that a sweep leaves out."""
    from evenhand import mitigations

    return [id for id in mitigations.ids("vectors") if mitigations.get(id).takes == "minutes"]


def _fitting(methods: list[str], concept: Concept, subject: Subject) -> tuple[list[str], dict[str, str]]:
    """Separate the methods that can work with a concept from those that cannot, with the reasons."""
    from evenhand import mitigations
    from evenhand.mitigations.method import TRANSFORMER, VECTORS

    if not (VECTORS.accepts(subject) or TRANSFORMER.accepts(subject)):
        raise UsageError(
            f"--sweep compares methods on {VECTORS.title} and {TRANSFORMER.title}; {subject.name} is {subject.title}",
            hint="name a method: --method cda",
        )
    unfit: dict[str, str] = {}
    for id in methods:
        try:
            mitigations.get(id)().check_concept(concept)
        except EvenhandError as error:
            unfit[id] = error.message
    return [id for id in methods if id not in unfit], unfit


def _show_ranking(places: list[Tradeoff], skipped: dict[str, str]) -> None:
    table = plain_table("method", "bias left", "quality kept", "not beaten", "measures", left=["method"])
    for place in places:
        shares = (f"{100 * place.bias_left:.0f} %", f"{100 * place.quality_kept:.0f} %")
        table.add_row(place.method, *shares, "yes" if place.on_the_front else "", str(place.measures_used))
    show(table)
    for method, why in skipped.items():
        show(f"[dim]not run: {escape(f'{method}: {why}')}[/]")
    show(
        "[dim]Shares of the original, averaged over the measures that are defined after the method. "
        "A share hides which bias is left: read the report.[/]"
    )
