"""The parameters of a method: their descriptions, and values parsed from text such as `--set key=value`."""

from __future__ import annotations

import re
import types
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Union, get_args, get_origin, get_type_hints

from evenhand.errors import UsageError, shown, unknown_name
from evenhand.mitigations.selection import SELECTORS, ExceptListed, Selector

if TYPE_CHECKING:
    from evenhand.mitigations.method import Mitigation

TRUE, FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")
SECTION = re.compile(r"^Args:\n(?P<body>(?:[ ]{4}.*\n?|\n)+)", re.MULTILINE)
ENTRY = re.compile(r"^ {4}(?P<name>\w+): (?P<text>.*(?:\n {8}.*)*)", re.MULTILINE)


@dataclass(frozen=True)
class Parameter:
    """One parameter of a method."""

    name: str
    type: str
    """The values it takes, in words: "integer or none"."""
    default: object
    doc: str
    """One line from the `Args` section of the class docstring."""


def parameters_of(method: type[Mitigation]) -> tuple[Parameter, ...]:
    """Return the parameters of a method, in the order of its fields; those that all methods have come last."""
    docs, hints = _docs(method), _hints(method)
    return tuple(
        Parameter(
            field.name,
            _describe(hints[field.name]),
            None if field.default is MISSING else field.default,
            docs.get(field.name, ""),
        )
        for field in sorted(fields(method), key=lambda field: field.kw_only is True)
    )


def parse_parameters(method: type[Mitigation], values: Mapping[str, object]) -> dict[str, Any]:
    """Return the values as the types of the method's fields; text is parsed, other values stay as they are.

    Raises:
        UnknownNameError: the method has no such parameter.
        UsageError: the text is not a value of the parameter's type.
    """
    hints, names = _hints(method) if values else {}, [field.name for field in fields(method)]
    parsed = {}
    for name, value in values.items():
        if name == "site" and name not in names:
            raise UsageError(f"{method.id} does not act at one site of a transformer, so site={value!r} does not apply")
        if name not in names:
            raise unknown_name(f"parameter of {method.id}", name, names)
        parsed[name] = _parse(value, hints[name], f"{method.id}: {name}") if isinstance(value, str) else value
    return parsed


def check_choices(method: Mitigation) -> None:
    """Raise `UsageError` if a parameter that takes one of several names has another value."""
    for name, hint in _hints(type(method)).items():
        named = all(get_origin(one) is Literal or one is types.NoneType for one in _members(hint))
        value, choices = getattr(method, name), _choices(hint)
        if named and choices and value is not None and value not in choices:
            *most, last = choices
            raise UsageError(f"unknown {name} {value!r}", hint=f"use {', '.join(most)} or {last}")


@cache
def _hints(method: type[Mitigation]) -> dict[str, object]:
    from evenhand.words import Concept, Recipe, WordSet

    late = {"Concept": Concept, "Recipe": Recipe, "WordSet": WordSet}  # imported for type checking only
    hints = get_type_hints(method, localns=late)
    return {name: hint for name, hint in hints.items() if get_origin(hint) is not ClassVar}


def _docs(method: type[Mitigation]) -> dict[str, str]:
    """Return the text of each parameter from the `Args` sections of the class and its bases."""
    docs: dict[str, str] = {}
    for base in reversed(method.__mro__):
        indented = re.sub(r"^ {4}", "", base.__doc__ or "", flags=re.MULTILINE)
        section = SECTION.search(indented + "\n")
        for entry in ENTRY.finditer(section["body"]) if section else ():
            docs[entry["name"]] = " ".join(entry["text"].split())
    return docs


def _members(hint: object) -> tuple[object, ...]:
    """Return the members of a union, or the type itself."""
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _choices(hint: object) -> tuple[str, ...]:
    """Return the words that a `Literal` in the type accepts."""
    return tuple(choice for one in _members(hint) if get_origin(one) is Literal for choice in get_args(one))


def _item(hint: object) -> object:
    """Return the type of the items where the type accepts a list, or None."""
    return next((get_args(one)[0] for one in _members(hint) if _is_list(one)), None)


def _is_list(hint: object) -> bool:
    return get_origin(hint) in (Iterable, Sequence, tuple)


def _is_selector(hint: object) -> bool:
    return any(isinstance(one, type) and issubclass(one, Selector) for one in _members(hint))


def _parse(text: str, hint: object, what: str) -> object:
    """Return the first reading of the text that the type accepts."""
    members, item = _members(hint), _item(hint)
    if types.NoneType in members and text.lower() == "none":
        return None
    if text in _choices(hint):
        return text
    if bool in members and text.lower() in TRUE + FALSE:
        return text.lower() in TRUE
    for number in (int, float):
        if number in members:
            try:
                return number(text)
            except ValueError:
                continue
    if _is_selector(hint):
        return _selector(text, what)
    if item is not None and ("," in text or str not in members):
        return tuple(_parse_item(part.strip(), item, hint, what) for part in text.split(",") if part.strip())
    if str in members:
        return text
    raise _wrong(text, hint, what)


def _parse_item(text: str, item: object, hint: object, what: str) -> object:
    if item is float:
        try:
            return float(text)
        except ValueError:
            raise _wrong(text, hint, what) from None
    if item is str:
        return text
    pair = tuple(word.strip() for word in text.split(":"))
    if len(pair) != 2 or not all(pair):
        raise _wrong(text, hint, what)
    return pair


def _selector(text: str, what: str) -> Selector:
    """Return the rule of this name; `except-listed:ID` takes the id or file of a word set, or a list of words."""
    name, _, words = text.partition(":")
    if name not in SELECTORS:
        raise UsageError(f"{what} is not a rule for words: {shown(text)}", hint=f"use {', '.join(SELECTORS)}")
    if SELECTORS[name] is not ExceptListed:
        return SELECTORS[name]()
    if not words:
        raise UsageError(f"{what}: except-listed needs words", hint="except-listed:king,queen, or a word set or file")
    return ExceptListed(tuple(words.split(",")) if "," in words else words)


def _wrong(text: str, hint: object, what: str) -> UsageError:
    return UsageError(f"{what} takes {_describe(hint)}, got {shown(text)}")


def _describe(hint: object) -> str:
    """Return a type in words."""
    names = {bool: "true or false", int: "an integer", float: "a number", str: "a name", types.NoneType: "none"}
    parts = list(_choices(hint))
    for one in _members(hint):
        if one in names:
            parts.append(names[one])
        elif _is_selector(one):
            parts.append("a rule for words (" + ", ".join(SELECTORS) + ")")
        elif _is_list(one):
            item = get_args(one)[0]
            parts.append({str: "words a,b,c", float: "numbers 1,2,3"}.get(item, "pairs a:b,c:d"))
    return " or ".join(dict.fromkeys(parts))
