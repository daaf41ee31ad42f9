"""From an address or an object to the subject it means."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import overload

from evenhand import data
from evenhand.errors import InputMissingError, UsageError
from evenhand.subjects.objects import open_live
from evenhand.subjects.subject import SUBJECTS, Address, AnySubject, Subject, folder_kind

HUGGING_FACE = "hf"  # a scheme that several kinds share; the config of the folder says which it is
HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")  # name, or organisation/name
REMOTE = ("http", "https", "s3", "gs", "file", "memory")


@overload
def open_subject(source: AnySubject, **options: object) -> AnySubject: ...
@overload
def open_subject(source: object, **options: object) -> Subject: ...
def open_subject(source: object, **options: object) -> Subject:
    """Open anything that can be audited.

    Args:
        source: an address (a vector file or catalog id, `hf:FOLDER`, `elmo:FOLDER`, a GGUF file, an evenhand NLI model
            or language model, a prediction file, `corpus:PATH`), `Vectors`, an NLI model, a pipeline of transformers, a
            SentenceTransformer, (model, tokenizer), a polars or pandas data frame, an object with `predict_proba` over
            texts, or a subject, which is returned as it is.
        **options: options of the kind of subject, such as `device` for a model or `documents` for a corpus.

    Raises:
        InputMissingError: If there is nothing at the address.
        UsageError: If the address is of no known kind, of two kinds at once, or an option does not apply.
    """
    if isinstance(source, Subject):
        return source
    if not isinstance(source, str | Path):
        if live := open_live(source, open_subject, **options):
            return live
        wrapped = (kind.from_object(source, **options) for kind in SUBJECTS.values())
        subject = next((each for each in wrapped if each is not None), None)
        if subject is None:
            raise UsageError(f"{type(source).__name__} cannot be audited", hint=f"open {accepted()}")
        return subject
    address = parse_address(str(source))
    kind = kind_of_address(address, labels=options.get("labels") is not None)
    unknown = sorted(name for name, value in options.items() if value is not None and name not in kind.options)
    if unknown:
        verb = "does" if len(unknown) == 1 else "do"
        raise UsageError(
            f"{address.text} is {kind.title}; {' and '.join(unknown)} {verb} not apply",
            hint=f"its options are {', '.join(kind.options) or 'none'}",
        )
    subject = kind.from_address(address, **options)
    listed = {name: ";".join(value) for name, value in options.items() if name == "group" and isinstance(value, list)}
    subject.opened_with = {name: value for name, value in {**options, **listed}.items() if value is not None}
    return subject


def _hub_hint(address: Address) -> str:
    """Say how to open a model of the Hugging Face Hub, where the text looks like the id of one."""
    looks_like_id = (
        HUB_ID.fullmatch(address.rest) and not address.path.parent.is_dir()
        if "/" in address.rest
        else (HUB_ID.fullmatch(address.rest) and not address.path.suffix)
    )
    if not looks_like_id:
        return ""
    return (
        "; a model of the Hugging Face Hub is downloaded to a folder first: "
        f"`hf download {address.rest} --local-dir FOLDER`, then open hf:FOLDER"
    )


@lru_cache(maxsize=4)
def reopen(address: str, options: tuple[tuple[str, object], ...], name: str) -> Subject:
    """Open an address in another process; the last few are kept."""
    subject = open_subject(address, **dict(options))
    subject.name = name
    return subject


def absolute_address(text: str) -> str:
    """Return an address that means the same in another working folder."""
    address = parse_address(text)
    if not address.path.exists() or str(address.path) != str(Path(address.rest).expanduser()):
        return text  # a catalog id, or several files
    where = str(address.path.absolute())
    return f"{address.scheme}:{where}" if address.scheme else where


def parse_address(text: str) -> Address:
    """Split an address into scheme and rest, and find the local copy of a catalog entry."""
    if not text.strip():
        raise UsageError("the address is empty", hint=f"name {accepted()}")
    head, colon, tail = text.partition(":")
    scheme, rest = (head, tail) if colon and (head == HUGGING_FACE or _kind_of_scheme(head)) else ("", text)
    entry = data.catalog().get(rest) if not Path(rest).exists() else None
    if entry is None or entry.kind == "vectors":  # vectors are fetched by the loader, which names what is missing
        return Address(text, scheme, rest, Path(rest).expanduser(), entry.kind if entry else "")
    location = data.locate(rest)
    if location is None:
        raise InputMissingError(f"{rest} is in the catalog but not on this disk", hint=f"run `evenhand fetch {rest}`")
    return Address(text, scheme, rest, location, entry.kind)


def _kind_of_scheme(scheme: str) -> str:
    """Return the id of the kind that a scheme names, or an empty string."""
    if scheme in SUBJECTS:
        return scheme
    return next((id for id in SUBJECTS.ids() if scheme in SUBJECTS.get(id).schemes), "")


def accepted() -> str:
    """Return what can be opened, in words."""
    return ", ".join(dict.fromkeys(kind.opens for kind in SUBJECTS.values() if kind.opens))


def kind_of_address(address: Address, *, labels: bool = False) -> type[Subject]:
    """Return the kind of subject that an address names in front of its colon, or is recognised as.

    With `labels`, a text classifier is an NLI model: its caller names the order of the three labels.
    """
    if address.scheme and address.scheme != HUGGING_FACE:
        return SUBJECTS.get(_kind_of_scheme(address.scheme))
    if labels and folder_kind(address) == "text-classifier":
        return SUBJECTS.get("nli")
    reasons = {id: reason for id in SUBJECTS.ids() if (reason := SUBJECTS.get(id).recognise(address))}
    if len(reasons) == 1:
        return SUBJECTS.get(next(iter(reasons)))
    if reasons:
        both = "; ".join(f"{SUBJECTS.get(id).title} ({reason})" for id, reason in reasons.items())
        schemes = " or ".join(f"{id}:{address.rest}" for id in reasons)
        raise UsageError(f"{address.text} could be several things: {both}", hint=f"say which: {schemes}")
    if not address.path.exists() and "*" not in address.rest and not address.rest.startswith(REMOTE):
        raise InputMissingError(
            f"{address.text!r} is neither a file, a folder nor a catalog id",
            hint="check the path, or see `evenhand fetch --list` for catalog ids" + _hub_hint(address),
        )
    if any(address.path.glob("*.onnx")) if address.path.is_dir() else address.named(".onnx"):
        raise UsageError(
            f"{address.text!r} is an ONNX model, which must be converted first",
            hint=f"evenhand convert {address.rest} FOLDER, then open hf:FOLDER",
        )
    looked_for = "a folder needs config.json; text files need corpus: in front" if address.path.is_dir() else accepted()
    raise UsageError(f"{address.text!r} is not something evenhand can open", hint=f"expected {looked_for}")
