"""`evenhand show`: details of a measure, method, probe, model, word list or data set."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenhand.cli.options import Json
from evenhand.cli.screens.terminal import escape, show_json, show_plain
from evenhand.cli.screens.terminal import show as print_out
from evenhand.errors import UnknownNameError, UsageError, unknown_name

if TYPE_CHECKING:
    from evenhand.measures import Info
    from evenhand.mitigations import Mitigation

MOST_WORDS = 40  # of a long list, unless --json is given


def show(
    name: Annotated[
        str,
        typer.Argument(
            help="Any id of `evenhand list`, a file with a probe of yours, or the folder of a run.", show_default=False
        ),
    ],
    tables: Annotated[
        bool, typer.Option("--tables", help="Print every number of a run, not only the findings.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show details of a measure, method, probe, model, word list or data set, or the findings of a run."""
    if (Path(name) / "audit.json").is_file():
        _show_run(Path(name), tables, as_json)
        return
    if tables:
        raise UsageError(f"--tables is for the folder of a run, which {name!r} is not", hint="leave it out")
    record = _find(name)
    if as_json:
        show_json(record)
        return
    for key, value in record.items():
        if value in ("", None, [], {}, ()):
            continue
        text = value if isinstance(value, str) else _plain(value)
        print_out(f"[bold]{key}[/]")
        (show_plain if key == "bibtex" else print_out)(text if key == "bibtex" else escape(text))
        print_out("")


def _show_run(folder: Path, tables: bool, as_json: bool) -> None:
    from evenhand.audit import Audit
    from evenhand.report.terminal import audit_summary, audit_tables

    audit = Audit.load(folder)
    if as_json:
        show_json(audit.to_dict())
    else:
        print_out(*(audit_tables if tables else audit_summary)(audit))


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        # The source of a list is shown once, for the whole record, not again for each of its parts.
        kept = {
            key: item for key, item in value.items() if key not in ("source", "bibtex") and item not in ("", [], {})
        }
        return "\n".join(f"{key}: {_plain(item)}" for key, item in kept.items())
    if isinstance(value, list | tuple):
        joined = [" – ".join(map(str, item)) if isinstance(item, list | tuple) else _plain(item) for item in value]
        if len(joined) > MOST_WORDS:
            joined = [*joined[:MOST_WORDS], f"and {len(joined) - MOST_WORDS:,} more (all with --json)"]
        return ("\n" if any("\n" in item for item in joined) else ", ").join(joined)
    return str(value)


def _find(name: str) -> dict[str, Any]:
    from evenhand import data, measures, mitigations, words
    from evenhand.cli.screens.probe import models_record, probe_record
    from evenhand.mitigations.registry import MITIGATIONS
    from evenhand.subjects.nli_models import EMBEDDED
    from evenhand.words import probes
    from evenhand.words.document import SUFFIXES

    if name.startswith("hf:"):
        return _model(name)
    if name in measures.ids():
        return _measure(measures.info(name))
    methods = [entry.id for entry in mitigations.listing()]  # warns of one of another package that fails
    if name in methods or name in MITIGATIONS:
        return _method(mitigations.get(name))
    own = name.partition("#")[0].lower().endswith(SUFFIXES)
    if own or name.partition(probes.catalog.VARIANT)[0] in probes.ids():
        return probe_record(name)
    if name in EMBEDDED:
        return models_record(name)
    if name == "glove-embedded":
        return _embedded()
    if name in data.catalog():
        return {"kind": "data set", **_entry(data.get(name))}
    loaders = {kind: getattr(words, kind) for kind in words.KINDS}
    for kind, load in loaders.items():
        if name in words.ids(kind):
            record = load(name)
            return {"kind": kind, **record.to_dict(), "citation": record.citation}
    lists = (id_ for kind in loaders for id_ in words.ids(kind))
    known = [*measures.ids(), *methods, *probes.ids(), *EMBEDDED, *data.catalog(), *lists]
    raise _unknown(name, known)


def _unknown(name: str, known: Iterable[str]) -> UnknownNameError:
    if "/" in name:  # no id has one
        hint = "`show` takes the folder of an audit, or a name that `list` prints"
        return UnknownNameError(f"there is no saved audit {name}", hint=hint)
    return unknown_name("measure, method, probe, model, word list or data set", name, known)


def _model(address: str) -> dict[str, Any]:
    """Return the sites of a Hugging Face model, and whether a linear map can be folded there."""
    from evenhand.models.encoders.folding import why_not_foldable
    from evenhand.models.encoders.sites import sites_of
    from evenhand.models.huggingface import TITLES
    from evenhand.subjects import open_subject

    subject = open_subject(address, device="cpu")
    if subject.network is None:
        raise UsageError(f"{address} is {subject.title}, which has no sites")
    transformer = subject.network.transformer
    sites = {}
    for site, place in sites_of(transformer.model):
        reason = why_not_foldable(transformer, site)
        about = f"{place.width} coordinates, {'of' if place.side == 'output' else 'read by'} {', '.join(place.names)}"
        folds = f"hook only: {reason.partition(': ')[2]}" if reason else "a linear map can be folded"
        sites[str(site)] = f"{about}; {folds}"
    return {
        "kind": TITLES[transformer.kind],
        "name": subject.name,
        "class": type(transformer.model).__name__,
        "offers": list(subject.offers),
        "sites": sites,
        "notes": list(transformer.notes),
    }


def _method(method: type[Mitigation]) -> dict[str, Any]:
    return {
        "kind": "method",
        "id": method.id,
        "title": method.title,
        "formula": method.formula,
        "explanation": inspect.cleandoc(method.__doc__ or "").split("\n\nArgs:")[0].split("\n\n    Args:")[0],
        "parameters": {f"{p.name} ({p.type}, default {p.default})": p.doc for p in method.parameters()},
        "what it does not do": method.limits,
        "bibtex": method.bibtex(),
    }


def _measure(info: Info) -> dict[str, Any]:
    from evenhand.data.citations import bibtex

    return {
        "kind": "measure",
        "id": info.id,
        "title": info.title,
        "formula": info.formula,
        "reading": info.reading,
        "better": info.better,
        "groups": info.groups,
        "what it does not tell you": info.limits,
        "asked by default": list(info.default_queries()),
        "bibtex": "\n\n".join(bibtex(key) for key in info.cites),
    }


def _entry(entry: Any) -> dict[str, Any]:
    from evenhand import data

    record = asdict(entry)
    record["sources"] = [str(source) for source in entry.sources]
    here = data.locate(entry.id)
    return {**record, "here": str(here) if here else "no: evenhand fetch " + entry.id}


def _embedded() -> dict[str, Any]:
    import json
    from importlib import resources

    text = (resources.files("evenhand.data") / "embedded" / "glove.json").read_text(encoding="utf-8")
    return {"kind": "vectors", "id": "glove-embedded", **json.loads(text)}
