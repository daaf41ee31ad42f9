"""Changes of structure: a file of JSON stays JSON, with one value replaced, removed, repeated or moved.

Mutations of bytes hardly ever get past a JSON parser. These do, and also reach the JSON inside the metadata of
safetensors files.
"""

from __future__ import annotations

import json
import random
from typing import Any

HOSTILE: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 3, 10**6, 2**31, 2**63, 2**64, -(2**63), 10**400, 0.5, -0.0, 1e308, 1e-320,
    float("nan"), float("inf"), "", "a", "0", "1", "\ud800", "\x1b[31m", "\u202e", "..", "/etc/passwd", "A" * 300,
    [], {}, [[]], [0], [None], {"": None}, ["a", "a"], [[[[[[]]]]]], "{}", "[]", "null",
)  # fmt: skip


def mutate_json(data: bytes, choose: random.Random) -> bytes | None:
    """Return the bytes with one value of one JSON line changed; None if no line is JSON.

    Bytes behind a zero byte are the tensors of a safetensors file, which stay.
    """
    head, zero, body = data.partition(b"\0")
    lines = head.split(b"\n")
    order = [number for number, line in enumerate(lines) if line.strip()]
    choose.shuffle(order)
    for number in order[:4]:
        try:
            value = json.loads(lines[number])
            for _ in range(choose.choice((1, 1, 1, 2, 4))):
                value = _changed(value, choose)
            lines[number] = json.dumps(value, ensure_ascii=choose.random() < 0.8).encode("utf-8", "surrogatepass")
        except (ValueError, RecursionError):
            continue
        return b"\n".join(lines) + zero + body
    try:  # one value over several lines
        return json.dumps(_changed(json.loads(head), choose)).encode() + zero + body
    except (ValueError, RecursionError):
        return None


def _changed(value: Any, choose: random.Random) -> Any:
    """Return the value with one of its parts changed, more often a deep one than the value itself."""
    if choose.random() < 0.92 and value:
        if isinstance(value, dict):
            return _changed_object(value, choose)
        if isinstance(value, list):
            return _changed_list(value, choose)
        if isinstance(value, str):
            return _changed_text(value, choose)
    if isinstance(value, int | float) and abs(value) < 1e300 and choose.random() < 0.4:
        return value + choose.choice((-1, 1, 0.5, 255))
    return choose.choice(HOSTILE)


def _changed_object(value: dict[str, Any], choose: random.Random) -> dict[str, Any]:
    key, action = choose.choice(list(value)), choose.random()
    if action < 0.12:
        return {name: item for name, item in value.items() if name != key}
    if action < 0.2:
        return {(str(choose.choice(HOSTILE)) if name == key else name): item for name, item in value.items()}
    if action < 0.28:
        return {**value, key: value[choose.choice(list(value))]}
    return {**value, key: _changed(value[key], choose)}


def _changed_list(value: list[Any], choose: random.Random) -> list[Any]:
    place, action = choose.randrange(len(value)), choose.random()
    if action < 0.15:
        return value[:place] + value[place + 1 :]
    if action < 0.3:
        return value[:place] + [value[place]] * choose.choice((2, 3)) + value[place + 1 :]
    return [*value[:place], _changed(value[place], choose), *value[place + 1 :]]


def _changed_text(value: str, choose: random.Random) -> Any:
    """Change the JSON inside a text, as metadata hold it; put something hostile into any other."""
    if value[0] in "{[":
        try:
            return json.dumps(_changed(json.loads(value), choose))
        except (ValueError, RecursionError):
            return choose.choice(HOSTILE)
    if choose.random() < 0.6:
        return choose.choice(HOSTILE)
    place = choose.randrange(len(value))
    return value[:place] + str(choose.choice(HOSTILE))[:20] + value[place + choose.randrange(2) :]
