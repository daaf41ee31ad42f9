"""What is wrong with plain data, in a sentence."""

from __future__ import annotations

import pytest

from evenhand.audit.schema import (
    Count,
    Interval,
    MeasurementEntry,
    Number,
    Share,
    content_digest,
    option_problem,
    read_json,
    require_valid,
    type_problem,
)
from evenhand.errors import FormatError
from made_audits import measured


@pytest.mark.parametrize(
    ("kind", "right", "wrong"),
    [
        (Count, (0, 10**15), (-1, 10**15 + 1, 1.5, True)), (Share, (0.0, 1.0, 0.5), (-0.001, 1.001)),
        (Number, (-1.7e308, 1.7e308), (1.75e308, -1.75e308)), (Interval, (None, [0.0, 1.0]), ([0.0], [0.0, 1.0, 2.0])),
    ],
)  # fmt: skip
def test_numbers_have_bounds(kind: object, right: tuple[object, ...], wrong: tuple[object, ...]) -> None:
    assert [type_problem(value, kind) for value in right] == [""] * len(right)
    assert all(type_problem(value, kind) for value in wrong)


def test_a_value_and_its_status_go_together() -> None:
    plain = measured("weat", 1.0, 0.5).to_dict()
    require_valid(plain, MeasurementEntry)
    assert type_problem(measured("weat", None).to_dict(), MeasurementEntry) == ""
    cases = (
        ({"value": None}, "the status is ok and the value is None"), ({"status": "undefined"}, "the status is undefined"),
        ({"value": None, "status": "undefined", "reason": ""}, "there is no value and no reason"),
    )  # fmt: skip
    for change, message in cases:
        with pytest.raises(FormatError, match=message):
            require_valid({**plain, **change}, MeasurementEntry)
    with pytest.raises(FormatError, match=r"not a valid audit record: record.n: expected `int`"):
        require_valid({**plain, "n": "8"}, MeasurementEntry)


def test_the_place_of_a_problem_is_named() -> None:
    assert type_problem([1, "a"], list[int], "numbers") == "numbers[1]: expected `int`, got `str`"
    assert type_problem("a", int, "") == "expected `int`, got `str`"
    assert type_problem({"a": [1.5]}, dict[str, list[int]]).startswith("record[...][0]: expected `int`")


def option(function: object, name: str, value: object) -> str:
    return option_problem(function, name, value)  # type: ignore[arg-type]


def test_options_of_functions() -> None:
    def measure(view: object, *, size: int = 3, way: str = "a", thing: Unknown = None) -> None:  # type: ignore[name-defined]  # noqa: F821
        """A function whose last parameter has a type that cannot be found."""

    def known(view: object, *, size: int = 3) -> None: ...

    def bare(view: object) -> None: ...

    assert option(known, "size", 4) == ""
    assert option(known, "size", "x") == "expected `int`, got `str`"
    assert option(known, "seize", 4) == "there is no option 'seize'; it has size"
    assert option(bare, "size", 4) == "there is no option 'size'; it has none"
    assert option(measure, "size", "x") == ""


def test_json_of_files_has_no_infinity_and_its_digest_no_order() -> None:
    assert read_json('{"a": [1, null]}') == {"a": [1, None]}
    for text in ("NaN", "[Infinity]", "-Infinity"):
        with pytest.raises(ValueError, match="is not JSON"):
            read_json(text)
    assert (
        content_digest({"a": 1, "b": [2]}) == content_digest({"b": (2,), "a": 1}) != content_digest({"a": 1, "b": [3]})
    )
    assert content_digest({1: "x"}) == content_digest({"1": "x"})
    with pytest.raises(ValueError, match="not JSON compliant"):
        content_digest([float("nan")])
