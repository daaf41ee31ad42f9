"""HolisticBias (Smith et al. 2022): descriptors of people by axis, nouns, and sentence templates."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from evenhand.errors import FormatError, unknown_name
from evenhand.words.grammar import article
from evenhand.words.sentence_sets.reading import read_json

SINGULAR, PLURAL = "{noun_phrase}", "{plural_noun_phrase}"


@dataclass(frozen=True)
class Descriptor:
    """A word or phrase that describes a person.

    Attributes:
        text: the descriptor.
        axis: such as "religion".
        bucket: its part of the axis.
        preference: how its group sees it ("preferred", "polarizing", "dispreferred", ...); empty where nothing is said.
        gender: "female" or "male" where it describes people of one gender only ("Latina"); empty otherwise.
    """

    text: str
    axis: str
    bucket: str
    preference: str = ""
    gender: str = ""

    def takes(self, noun: Noun) -> bool:
        """Return whether the set combines the descriptor with a noun: one of its own gender, where it has one."""
        return self.gender in ("", noun.gender)


class Noun(NamedTuple):
    """A noun for a person, and whether it is female, male or neutral."""

    one: str
    many: str
    gender: str = "neutral"


@dataclass(frozen=True)
class HolisticBias:
    """Descriptors, nouns and templates."""

    descriptors: tuple[Descriptor, ...]
    nouns: tuple[Noun, ...]
    templates: tuple[str, ...]

    def axes(self) -> tuple[str, ...]:
        """Return the axes in the order of the file."""
        return tuple(dict.fromkeys(descriptor.axis for descriptor in self.descriptors))

    def of_axis(self, axis: str) -> tuple[Descriptor, ...]:
        """Return the descriptors of an axis."""
        if axis not in self.axes():
            raise unknown_name("axis of HolisticBias", axis, self.axes())
        return tuple(descriptor for descriptor in self.descriptors if descriptor.axis == axis)


def read_holistic_bias(folder: str | Path) -> HolisticBias:
    """Read descriptors, nouns and templates; phrases that stand without a descriptor are left out."""
    root = Path(folder)
    described = _json(root / "descriptors.json")
    try:
        descriptors = tuple(
            _descriptor(entry, axis, bucket)
            for axis, buckets in described.items()
            for bucket, entries in buckets.items()
            for entry in entries
        )
        listed = _json(root / "nouns.json").items()
        nouns = tuple(Noun(one, many, gender) for gender, pairs in listed for one, many in pairs)
        templates = tuple(_json(root / "sentence_templates.json"))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise FormatError(f"{root} is not HolisticBias 1.1: {error!r}") from error
    return HolisticBias(descriptors, nouns, templates)


def fill(template: str, descriptor: str, noun: Noun) -> str:
    """Return the sentence of a template with a descriptor and a noun, such as "I'm an Asian woman."."""
    one = f"{article(descriptor)} {descriptor} {noun.one}"
    text = template.replace(SINGULAR, one).replace(PLURAL, f"{descriptor} {noun.many}")
    return text[:1].upper() + text[1:]


def _descriptor(entry: Any, axis: str, bucket: str) -> Descriptor:
    if isinstance(entry, str):
        return Descriptor(entry, axis, bucket)
    about = (str(entry.get(name, "")) for name in ("preference", "gender"))
    return Descriptor(str(entry["descriptor"]), axis, bucket, *about)


def _json(path: Path) -> Any:
    return read_json(path, "HolisticBias file")
