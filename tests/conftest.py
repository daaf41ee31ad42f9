"""Shared by all tests: a private cache, no network, repeatable examples."""

import gc
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

import evenhand as eh
from evenhand.engines import RayEngine
from evenhand.files import cache_folder
from evenhand.models.vectors import cache
from tiny_transformers import save_tiny

# No wall time is ever asserted: a slow machine is not a bug. Examples are the same on every run, so that a red
# build can be repeated; HYPOTHESIS_PROFILE=search looks further.
settings.register_profile("repeat", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("search", deadline=None, max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeat"))


def pytest_collection_finish() -> None:
    """Leave what the imports made out of later garbage collections, each of which would go through all of it."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def private_cache(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """No test reaches the network, and none touches the user's cache but those that look for fetched data there."""
    monkeypatch.setenv("EVENHAND_OFFLINE", "1")
    if request.node.get_closest_marker("data") is None:
        monkeypatch.setenv("EVENHAND_CACHE", str(tmp_path_factory.mktemp("cache")))
    yield cache_folder()
    cache.settle()


@pytest.fixture(scope="session")
def glove() -> eh.Vectors:
    """The embedded vectors."""
    return eh.Vectors.default()


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder of real data sets, where there is one."""
    given = os.environ.get("EVENHAND_DATA")
    if not given:
        pytest.skip("EVENHAND_DATA is not set")
    return Path(given)


@pytest.fixture(scope="session")
def ray_engine() -> Iterator[RayEngine]:
    """A cluster of two cores on this machine, for all tests that need one."""
    pytest.importorskip("ray")
    engine = RayEngine(workers=2)
    yield engine
    engine.close()


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Return a function that saves a tiny random transformer once for all tests: `tiny_folder("BertForMaskedLM")`."""
    made: dict[str, Path] = {}

    def folder(class_name: str, **options: object) -> Path:
        key = f"{class_name} {sorted(options.items())}"
        if key not in made:
            made[key] = save_tiny(tmp_path_factory.mktemp("tiny") / class_name.lower(), class_name, **options)
        return made[key]

    return folder
