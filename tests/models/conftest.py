from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of each test's own, so that no test finds what another has parsed."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("EVENHAND_CACHE", str(folder))
    return folder
