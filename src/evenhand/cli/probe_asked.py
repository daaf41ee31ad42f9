"""Which pairs `evenhand probe` asks about: a probe, some of its words only, another surface form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from evenhand.errors import UsageError, unknown_name

if TYPE_CHECKING:
    from evenhand.words.probes import Probe

RELEASED = "released"


def asked(which: str, *, only: list[str], surface: str | None) -> Probe:
    """The probe of that id or file, restricted and rewritten as the options say."""
    from evenhand.words.probes import probe

    found = probe(which)
    if only:
        chosen = dict(_pair(text, "--only", "premise=nurse,doctor") for text in only)
        found = found.restrict(**{slot: [word.strip() for word in words.split(",")] for slot, words in chosen.items()})
    return _written(found, surface) if surface else found


def _written(found: Probe, text: str) -> Probe:
    """`released`, or choices such as `articles=letter,case=lower`."""
    from evenhand.words.probes import RELEASED as AS_RELEASED
    from evenhand.words.probes.surface import CHOICES

    if text == RELEASED:
        return found.written(AS_RELEASED)
    choices: dict[str, Any] = dict(_pair(part, "--surface", "articles=letter,case=lower") for part in text.split(","))
    for name in choices:
        if name not in CHOICES:
            raise unknown_name("choice of --surface", name, CHOICES)
    return found.written(**choices)


def _pair(text: str, option: str, example: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip() or not value:
        raise UsageError(f"{option} {text}: no name and value", hint=f"write {option} {example}")
    return name.strip(), value
