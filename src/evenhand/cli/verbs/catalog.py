"""`evenhand list` and `evenhand show`: what there is, one line each, and the details of one of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evenhand.cli.options import Json, KeyEnv, open_subjects
from evenhand.cli.terminal import escape, show_json, show_plain, show_records
from evenhand.cli.terminal import show as print_out
from evenhand.errors import UnknownNameError, UsageError, unknown_name

if TYPE_CHECKING:
    from evenhand.data import CatalogEntry
    from evenhand.measures import Info
    from evenhand.mitigations import Mitigation
    from evenhand.words.probes import Filler, Probe
    from evenhand.words.template import Template


def listing(
    kind: Annotated[
        str,
        typer.Argument(
            help="measures, methods, probes, models, concepts, queries, wordsets, pairs, tables, templates, data or "
            "formats."
        ),
    ] = "measures",
    as_json: Json = False,
) -> None:
    """List measures, methods, probes, models, word lists, data sets or file formats."""
    if kind not in KINDS:
        raise unknown_name("list", kind, KINDS)
    rows = KINDS[kind]()
    if as_json:
        show_json(rows)
        return
    more = "" if kind == "formats" else "; `evenhand show ID` tells more about one"
    show_records(rows, f"{len(rows)} {kind}{more}.")


def _measures() -> list[dict[str, object]]:
    from evenhand import measures
    from evenhand.measures.registry import ARROWS

    found = [measures.info(name) for name in measures.ids()]
    return [{"id": i.id, "better": ARROWS[i.better], "family": i.family, "title": i.title} for i in found]


def _methods() -> list[dict[str, object]]:
    from evenhand import mitigations

    return [{"id": entry.id, "title": entry.title, "citation": entry.citation} for entry in mitigations.listing()]


def _probes() -> list[dict[str, object]]:
    from evenhand.words import probes

    found = probes.listing()
    return [{"id": one.id, "pairs": one.pairs, "varies": one.varies, "source": one.source} for one in found]


def _models() -> list[dict[str, object]]:
    from evenhand.subjects import embedded_nli as embedded
    from evenhand.subjects.embedded_nli import TRAINED_ON

    return [
        {"id": f"embedded:{name}", "kind": "NLI", "seeds": len(embedded.SEEDS), "trained on": text}
        for name, text in TRAINED_ON.items()
    ]


def _data() -> list[dict[str, object]]:
    from evenhand import data

    entries = data.catalog().values()
    return [{"id": e.id, "kind": e.kind, "here": "yes" if data.locate(e.id) else "", "title": e.title} for e in entries]


def _formats() -> list[dict[str, object]]:
    from evenhand.models.vectors.formats import FORMATS

    return [
        {"id": f.id, "suffixes": " ".join(f.suffixes), "written": "yes" if f.write else "", "title": f.title}
        for f in FORMATS.values()
    ]


def _first_sentence(text: str) -> str:
    return text.partition(". ")[0].partition("; ")[0]


def _words(kind: str) -> Callable[[], list[dict[str, object]]]:
    def rows() -> list[dict[str, object]]:
        from evenhand import words

        return [
            {
                "id": entry.id,
                "size": entry.size,
                "source": entry.source.title if entry.source else "",
                "note": _first_sentence(entry.note),
            }
            for entry in words.listing(kind)
        ]

    return rows


KINDS: dict[str, Callable[[], list[dict[str, object]]]] = {
    "measures": _measures,
    "methods": _methods,
    "probes": _probes,
    "models": _models,
    "concepts": _words("concept"),
    "queries": _words("query"),
    "wordsets": _words("wordset"),
    "pairs": _words("pairs"),
    "tables": _words("table"),
    "templates": _words("template"),
    "data": _data,
    "formats": _formats,
}


MOST_WORDS = 40  # of a long list, unless --json is given


def show(
    name: Annotated[
        str,
        typer.Argument(
            help="Any id of `evenhand list`, a file with a probe of yours, the folder of a run, or openai:URL.",
            show_default=False,
        ),
    ],
    tables: Annotated[
        bool, typer.Option("--tables", help="Print every number of a run, not only the findings.")
    ] = False,
    key_env: KeyEnv = None,
    as_json: Json = False,
) -> None:
    """Show details of a measure, method, probe, model, word list or data set, the findings of a run, or a server."""
    if (Path(name) / "audit.json").is_file():
        _show_run(Path(name), tables, as_json)
        return
    if tables:
        raise UsageError(f"--tables is for the folder of a run, which {name!r} is not", hint="leave it out")
    if "://" in name:
        record = open_subjects([name], key_env=key_env)[0].describe()
    elif key_env:
        raise UsageError(f"--key-env is for the address of a server, which {name!r} is not", hint="leave it out")
    else:
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


def _plain(value: object) -> str:
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


def _find(name: str) -> dict[str, object]:
    from evenhand import data, measures, mitigations, words
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
        return _probe(name)
    if name in EMBEDDED:
        return _models_of(name)
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


def _model(address: str) -> dict[str, object]:
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


def _method(method: type[Mitigation]) -> dict[str, object]:
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


def _measure(info: Info) -> dict[str, object]:
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


def _entry(entry: CatalogEntry) -> dict[str, object]:
    from evenhand import data

    record = asdict(entry)
    record["sources"] = [str(source) for source in entry.sources]
    here = data.locate(entry.id)
    return {**record, "here": str(here) if here else "no: evenhand fetch " + entry.id}


def _embedded() -> dict[str, object]:
    import json
    from importlib import resources

    text = (resources.files("evenhand.data") / "embedded" / "glove.json").read_text(encoding="utf-8")
    return {"kind": "vectors", "id": "glove-embedded", **json.loads(text)}


def _probe(name: str) -> dict[str, object]:
    """Return templates, fillers, counts, source, expected label and an example."""
    from evenhand.words import probes
    from evenhand.words.probes.catalog import variants

    probe, parts = probes.probe(name), name.split("+")
    others = variants(parts[0]) if parts[0] in probes.ids() else ()
    phrases, premises, hypotheses = probe.shape
    example = probe.pair(probe.n_pairs // 2)
    return {
        "kind": "probe",
        "id": name,
        "pairs": f"{premises:,} x {hypotheses:,} x {phrases:,} = {probe.n_pairs:,} (premise x hypothesis x phrases)",
        "example": {"premise": example.premise, "hypothesis": example.hypothesis},
        "expected label": probe.expected,
        "premise": _side(probe.premise),
        "hypothesis": _side(probe.hypothesis),
        "gap": _gap(probe),
        "templates": [_template(template, probe) for template in probe.templates],
        "surface": {key: value for key, value in vars(probe.surface).items() if value},
        "variants": [f"{name}+{variant}" for variant in others if variant not in parts],
        "controls": list(probe.controls),
        "note": probe.note,
        "source": probe.source.reference if probe.source else "",
        "bibtex": probe.citation,
    }


def _models_of(name: str) -> dict[str, object]:
    """Return training vectors, accuracy and model card of the embedded models of one condition."""
    from evenhand.subjects import embedded_nli as embedded
    from evenhand.subjects.nli_models import EMBEDDED

    condition = EMBEDDED[name]
    return {
        "kind": "models",
        "id": f"embedded:{condition}",
        "trained on": embedded.TRAINED_ON[condition],
        "accuracy": {
            f"seed {seed}, {data}": share
            for seed, config in zip(embedded.SEEDS, embedded.settings(condition), strict=True)
            for data, share in dict(config.get("accuracy", {})).items()  # type: ignore[call-overload]
        },
        "card": embedded.card(),
    }


def _side(fillers: tuple[Filler, ...]) -> dict[str, object]:
    """Return the words of a side by group, each group with its size."""
    groups: dict[str, list[str]] = {}
    for filler in fillers:
        groups.setdefault(filler.group or "all", []).append(filler.word)
    return {f"{group} ({len(words)})": words for group, words in groups.items()}


def _gap(probe: Probe) -> str:
    if probe.contrast:
        return " minus ".join(probe.contrast)
    return "between the two groups that differ most" if len(probe.groups) > 1 else "none: there is one group"


def _template(template: Template, probe: Probe) -> dict[str, object]:
    from evenhand.words.probes.phrases import DETERMINER

    fillers = {f"{slot} ({len(words)})": list(words) for slot, words in template.fillers.items()}
    front, mark, back = template.text.partition("{" + probe.differs + "}")
    text = DETERMINER.sub(lambda match: probe.surface.determiner_for(match[1]) + " ", front) + mark + back
    return {"text": probe.surface.end(text), "phrases": template.size, "differs": probe.differs, **fillers}
