"""The phrases of a probe are written once, whoever asks, and few probes are kept."""

import pytest

from evenhand.words.probes import phrases, probe


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(phrases, "_WRITTEN", {})


def test_equal_probes_share_phrases_and_other_surfaces_have_their_own() -> None:
    first, again = probe("mab-explicit"), probe("mab-explicit").with_surface()
    assert first.phrases is not again.phrases
    assert first.phrases.all is again.phrases.all
    assert list(first.phrases.all) == [first.phrases[number] for number in range(len(first.phrases))]
    lower = first.with_surface(case="lower")
    assert lower.phrases.all != first.phrases.all
    assert lower.phrases.all[0].after == first.phrases.all[0].after.lower()


def test_a_part_has_the_phrases_of_its_span() -> None:
    whole = probe("mab-explicit")
    part = whole.part(3, 9)
    assert part.phrases.all == whole.phrases.all[3:9]
    assert list(part.phrases.all) == [part.phrases[number] for number in range(6)]


def test_few_probes_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(phrases, "PROBES_KEPT", 2)
    one = probe("mab-explicit")
    for surface in ("", ".", " ."):
        for case in ("natural", "lower"):
            assert one.with_surface(stop=surface, case=case).phrases.all
            assert len(phrases._WRITTEN) <= 2
