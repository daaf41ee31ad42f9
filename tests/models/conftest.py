from __future__ import annotations

from pathlib import Path

import pytest

from evenhand.files import cache_folder


@pytest.fixture(autouse=True)
def own_cache(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A cache folder of each test's own, so that no test finds what another has parsed, but for tests of real data."""
    if request.node.get_closest_marker("data") is not None:
        return cache_folder()
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("EVENHAND_CACHE", str(folder))
    return folder
