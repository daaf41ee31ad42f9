"""Settings of the tests of the command line."""

import pytest


@pytest.fixture(autouse=True)
def few_controls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask few of the pairs by which a probe checks a model: they take most of its time, and other tests ask all."""
    monkeypatch.setattr("evenhand.measures.inference.run_probe.CONTROL_PAIRS", 100)
