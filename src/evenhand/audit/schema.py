"""The types of everything an audit stores: the record, its cells and stages; and of the plans it reads.

One reader checks all of them, so no other code meets a value of another type. What is of the wrong type is refused
with one sentence, not repaired.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Callable
from typing import Annotated, Any, Literal, get_type_hints

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from evenhand.errors import FormatError, shown

SCHEMA = 3
DIGEST = "sha256"  # the entry of a stored record that holds the digest of the others
# What reading JSON of unknown content can raise.
UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)

Count = Annotated[int, Meta(ge=0, le=10**15)]
Number = Annotated[float, Meta(ge=-1.7e308, le=1.7e308)]
Share = Annotated[float, Meta(ge=0, le=1)]
Interval = tuple[Number, Number] | None


class CoverageEntry(Struct):
    """How many words were asked and found, and which were not."""

    asked: Count
    found: Annotated[int, Meta(ge=0, le=10_000_000)]
    missing: list[str]
    respelt: dict[str, str]


class UnitsEntry(Struct, forbid_unknown_fields=True):
    """What a value is estimated from, by kind of unit; two values are compared on the units they share."""

    statistic: str
    unit: str
    count: Count
    factor: Number
    names: list[str] | None  # None where many units are summed into blocks
    columns: list[Annotated[list[Number], Meta(min_length=2)]]


class MeasurementEntry(Struct, forbid_unknown_fields=True, kw_only=True):
    """One score of one question."""

    measure: str
    query: str
    score: str
    model: str
    status: Literal["ok", "undefined"]
    reason: str
    value: Number | None
    interval: Interval
    p_value: Share | None
    n: Count
    positive: str
    reading: str
    note: str
    coverage: CoverageEntry
    details: dict[str, Any]
    params: dict[str, Any]
    seed: int | None
    definition: Annotated[int, Meta(ge=1)]
    items: list[dict[str, Any]]
    units: list[UnitsEntry] = []

    def __post_init__(self) -> None:
        """A value is there exactly if the status says so."""
        if (self.value is None) != (self.status == "undefined"):
            raise ValueError(f"the status is {self.status} and the value is {self.value}")
        if self.status == "undefined" and not self.reason:
            raise ValueError("there is no value and no reason")


class ResultEntry(MeasurementEntry, forbid_unknown_fields=True, kw_only=True):
    """One score of one question on one stage of one subject."""

    subject: str
    stage: str
    label: Annotated[str, Meta(pattern="^[^,]+$")]
    variant: str
    options: dict[str, Any]
    only_query: bool


class CellEntry(Struct, forbid_unknown_fields=True):
    """A stored cell."""

    measurements: list[MeasurementEntry]
    warnings: list[str]


class FittedStageEntry(Struct):
    """A stored stage: the report of the method, which has entries of its own."""

    warnings: list[str]


class SubjectEntry(Struct):
    """What was audited. A kind of subject may say more."""

    name: str
    kind: str
    address: str
    offers: list[str]
    sha256: str
    opening: dict[str, Any] = {}
    model: str = ""
    words: Count | UnsetType = UNSET
    dimensions: Count | UnsetType = UNSET
    compared_with: SubjectEntry | UnsetType = UNSET


class EffectiveEntry(Struct):
    """The plan, and how it was computed."""

    seed: int
    methods: list[str] = []
    concept: str = ""


class ArgumentsEntry(Struct):
    """How a run was started."""

    given: dict[str, Any]
    effective: EffectiveEntry
    command: str = ""
    call: str = ""
    no_command: str = ""


class ConceptEntry(Struct):
    """The words of the concept, and the digest of their content."""

    name: str
    digest: str
    limits: str | dict[str, Any] = ""


class ManifestEntry(Struct):
    """What ran: versions, subjects, concept, arguments."""

    run: str
    created: str
    evenhand: str
    arguments: ArgumentsEntry
    subjects: Annotated[list[SubjectEntry], Meta(min_length=1)]
    concept: ConceptEntry
    python: str
    packages: dict[str, str]
    status: Literal["done"]
    seconds: Annotated[float, Meta(ge=0)]
    warnings: list[str]
    skipped: dict[str, str]
    cells_computed: Count


class FindingEntry(Struct, forbid_unknown_fields=True):
    """A sentence on what the audit shows, derived from its results."""

    kind: Literal["bias", "change", "left", "cost", "unmeasured"]
    text: str
    subject: str
    stage: str
    label: str
    value: Number | None
    interval: Interval
    p_value: Share | None
    reading: str
    evidence: str = ""


class StageEntry(Struct, forbid_unknown_fields=True):
    """A subject as it came, or after a method."""

    name: str
    subject: str
    report: dict[str, Any]


class AuditEntry(Struct, forbid_unknown_fields=True, kw_only=True):
    """What `Audit.save` writes as audit.json."""

    schema: Literal[3]
    sha256: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
    manifest: ManifestEntry
    headline: str = ""
    findings: Annotated[list[FindingEntry], Meta(max_length=10)] = []
    stages: Annotated[list[StageEntry], Meta(min_length=1)]
    results: list[ResultEntry]


def require_valid(content: object, kind: type[Struct] = AuditEntry) -> None:
    """Raise `FormatError` that names the first value of another type than the structure has."""
    if problem := type_problem(content, kind):
        raise FormatError(f"not a valid audit record: {problem}", hint="run the audit again")


def type_problem(content: object, kind: object, where: str = "record") -> str:
    """Return what does not have its type in plain data, and where; empty if all is right."""
    try:
        msgspec.convert(content, kind, strict=True)
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at `$")
        return f"{where}{path.rstrip('`')}: {message[:1].lower()}{message[1:]}".removeprefix(": ")
    except (OverflowError, RecursionError, UnicodeError) as error:
        return f"{where}: {error}"
    return ""


def option_problem(function: Callable[..., object], name: str, value: object) -> str:
    """Return what is wrong with an option of a measure; empty if the function takes it, or its type is not plain."""
    parameters = inspect.signature(function).parameters
    if name not in parameters:
        known = [each for each, one in parameters.items() if one.kind is inspect.Parameter.KEYWORD_ONLY]
        return f"there is no option {shown(name)}; it has {', '.join(known) or 'none'}"
    try:
        return type_problem(value, get_type_hints(function)[name], "")
    except (NameError, TypeError, KeyError):  # names imported for the type checker only, classes of other packages
        return ""


def record_schema() -> dict[str, object]:
    """Return the JSON schema of `audit.json`, for readers in other languages."""
    return msgspec.json.schema(AuditEntry)


def content_digest(content: object) -> str:
    """Return the SHA-256 of plain data, whatever the order of its keys and the layout of its file."""
    content = json.loads(json.dumps(content, allow_nan=False))  # as a file gives it back: every key is a text
    return hashlib.sha256(
        json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
    ).hexdigest()


def read_json(text: str | bytes) -> Any:
    """Return JSON as plain data; NaN and Infinity, which Python reads and the standard does not know, raise."""

    def refuse(name: str) -> None:
        raise ValueError(f"{name} is not JSON")

    return json.loads(text, parse_constant=refuse)
