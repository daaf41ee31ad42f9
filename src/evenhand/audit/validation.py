"""Check a record against `schema.json`, so that every reader of an audit can rely on its types.

Only the keywords that `schema.json` uses are implemented; a record of hostile content is refused, not repaired.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from importlib import resources
from typing import Any

from evenhand.errors import FormatError, shown

Schema = Mapping[str, Any]
Check = Callable[[Any, Any, Schema, str], Iterator[str]]
ANNOTATIONS = frozenset({"$schema", "$defs", "title", "description"})
DIGEST = "sha256"  # the entry of a stored record that holds the digest of the others
# What reading JSON of unknown content can raise.
UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)
TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "null": (type(None),),
}


@functools.cache
def record_schema() -> Schema:
    """Return the schema of `audit.json`."""
    schema: Schema = json.loads((resources.files("evenhand.audit") / "schema.json").read_text(encoding="utf-8"))
    return schema


def content_digest(content: object) -> str:
    """Return the SHA-256 of plain data, whatever the order of its keys and the layout of its file."""
    content = json.loads(json.dumps(content, allow_nan=False))  # as a file gives it back: every key is a text
    return hashlib.sha256(
        json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
    ).hexdigest()


def refuse_constant(name: str) -> None:
    """Raise for NaN and Infinity, which Python reads as JSON and the standard does not know."""
    raise ValueError(f"{name} is not JSON")


def require_valid(record: object, part: Schema | None = None) -> None:
    """Raise `FormatError` that names the first value which does not follow the schema, or a part of it."""
    problem = next(problems(record, record_schema() if part is None else part), None)
    if problem:
        raise FormatError(f"not a valid audit record: {problem}", hint="run the audit again")


def problems(value: Any, schema: Schema, where: str = "record") -> Iterator[str]:
    """Yield what is wrong with a value."""
    for keyword, argument in schema.items():
        if keyword not in ANNOTATIONS:
            yield from CHECKS[keyword](value, argument, schema, where)


def _type(value: Any, names: str | list[str], schema: Schema, where: str) -> Iterator[str]:
    wanted = [names] if isinstance(names, str) else names
    if not any(_is(value, name) for name in wanted):
        yield f"{where} is {shown(value)}, expected {' or '.join(wanted)}"


def _is(value: object, name: str) -> bool:
    if name in ("integer", "number"):  # True is an int, and JSON as Python reads it may hold NaN and infinity
        return isinstance(value, TYPES[name]) and not isinstance(value, bool) and _is_finite(value)
    return isinstance(value, TYPES[name])


def _is_finite(value: Any) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer beyond the range of floating point
        return False


def _const(value: Any, expected: object, schema: Schema, where: str) -> Iterator[str]:
    if value != expected:
        yield f"{where} is {shown(value)}, expected {shown(expected)}"


def _enum(value: Any, choices: list[object], schema: Schema, where: str) -> Iterator[str]:
    if value not in choices:
        yield f"{where} is {shown(value)}, expected one of {', '.join(map(str, choices))}"


def _bound(value: Any, limit: float, schema: Schema, where: str, *, lowest: bool) -> Iterator[str]:
    if _is(value, "number") and (value < limit if lowest else value > limit):
        yield f"{where} is {shown(value)}, {'below' if lowest else 'above'} {limit}"


def _size(value: Any, limit: int, schema: Schema, where: str, *, kind: type, lowest: bool) -> Iterator[str]:
    if not isinstance(value, (list, str)) or not isinstance(value, kind):
        return
    if len(value) < limit if lowest else len(value) > limit:
        yield f"{where} has the length {len(value)}, expected {'at least' if lowest else 'at most'} {limit}"


def _pattern(value: Any, pattern: str, schema: Schema, where: str) -> Iterator[str]:
    if isinstance(value, str) and not re.search(pattern, value):
        yield f"{where} is {shown(value)}, which does not match {pattern}"


def _required(value: Any, names: list[str], schema: Schema, where: str) -> Iterator[str]:
    if isinstance(value, dict):
        yield from (f"{where} has no {name!r}" for name in names if name not in value)


def _properties(value: Any, parts: Mapping[str, Schema], schema: Schema, where: str) -> Iterator[str]:
    if isinstance(value, dict):
        for name, part in parts.items():
            if name in value:
                yield from problems(value[name], part, f"{where}.{name}")


def _others(value: Any, allowed: bool | Schema, schema: Schema, where: str) -> Iterator[str]:
    if isinstance(value, dict):
        for name in value.keys() - schema.get("properties", {}).keys():
            if allowed is False:
                yield f"{where} has an unknown entry {shown(name)}"
            elif isinstance(allowed, dict):
                yield from problems(value[name], allowed, f"{where}.{shown(name)}")


def _items(value: Any, part: Schema, schema: Schema, where: str) -> Iterator[str]:
    if isinstance(value, list):
        for number, item in enumerate(value):
            yield from problems(item, part, f"{where}[{number}]")


def _one_of(value: Any, parts: list[Schema], schema: Schema, where: str) -> Iterator[str]:
    if sum(next(problems(value, part), None) is None for part in parts) != 1:
        yield f"{where} is {shown(value)}, which has none of the allowed forms"


def _if(value: Any, condition: Schema, schema: Schema, where: str) -> Iterator[str]:
    holds = next(problems(value, condition), None) is None
    yield from problems(value, schema.get("then" if holds else "else", {}), where)


def _ref(value: Any, address: str, schema: Schema, where: str) -> Iterator[str]:
    yield from problems(value, record_schema()["$defs"][address.rpartition("/")[2]], where)


def _nothing(value: Any, argument: object, schema: Schema, where: str) -> Iterator[str]:
    return iter(())


CHECKS: dict[str, Check] = {
    "type": _type,
    "const": _const,
    "enum": _enum,
    "minimum": functools.partial(_bound, lowest=True),
    "maximum": functools.partial(_bound, lowest=False),
    "minItems": functools.partial(_size, kind=list, lowest=True),
    "maxItems": functools.partial(_size, kind=list, lowest=False),
    "minLength": functools.partial(_size, kind=str, lowest=True),
    "pattern": _pattern,
    "required": _required,
    "properties": _properties,
    "additionalProperties": _others,
    "items": _items,
    "oneOf": _one_of,
    "if": _if,
    "then": _nothing,  # read by `if`
    "else": _nothing,
    "$ref": _ref,
}
