"""Every table that is computed without a text gives numbers of the rows and columns that the paper prints."""

from __future__ import annotations

import pytest

from evenhand import reproduce
from evenhand.reproduce.inputs import PaperInputs

FROM_TEXT = {"ethayarajh2019/table-2", *(f"bordia2019/table-{number}" for number in (1, 2, 3, 5, 6, 7, 8))}
MINUTES = {"dawkins2021/table-6"}
NEEDS_GIVEN_MODELS = {"dev2019/table-9"}  # its claim is about projected models, of which none is embedded
WITHOUT_NUMBERS = {"ethayarajh2019/section-4"}


@pytest.fixture(scope="module")
def inputs() -> PaperInputs:
    return PaperInputs(sample=300)


@pytest.mark.parametrize(
    "id",
    [
        pytest.param(id, marks=pytest.mark.slow) if id in MINUTES else id
        for id in reproduce.COMPUTED
        if id not in FROM_TEXT
    ],
)
def test_the_numbers_are_those_that_the_paper_prints(id: str, inputs: PaperInputs) -> None:
    found = reproduce.beside(id, inputs)
    (computed,) = [series for series in found.series if not series.recorded]
    assert found.missing == ()
    assert bool(computed.values) == (id not in WITHOUT_NUMBERS)
    assert bool(computed.values) or computed.table
    assert {key for key in computed.values if key not in found.item.published()} == set()
    assert all(value.interval is None or value.interval[0] <= value.value <= value.interval[1] or value.n
               for value in computed.values.values())  # fmt: skip
    if found.item.expect and computed.values and id not in NEEDS_GIVEN_MODELS:
        assert found.holds[computed.name] in ("yes", "no", "unclear")


@pytest.mark.parametrize("id", sorted(FROM_TEXT - {"ethayarajh2019/table-2"}))
def test_a_text_that_is_absent_is_named_with_the_command_that_fetches_it(
    id: str, inputs: PaperInputs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evenhand.reproduce.bordia2019.locate", lambda name: None)
    (message,) = reproduce.beside(id, inputs).missing
    assert "evenhand fetch" in message
