"""A server with two small runs, and a client that speaks as a browser of the same site."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import evenhand as eh

if TYPE_CHECKING:  # the modules of tests skip themselves where the extra [web] is not installed
    from starlette.testclient import TestClient

    from evenhand.web.application import WebSite
    from evenhand.web.server import RequestGuard

ADDRESS = "http://127.0.0.1"


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory, glove: eh.Vectors) -> Path:
    """A folder with two runs that differ in their methods, and one that is damaged."""
    folder = tmp_path_factory.mktemp("runs")
    eh.Audit.run(glove, methods=["linear"], measures=["weat", "direct-bias"]).save(folder / "one")
    eh.Audit.run(glove, methods=["linear", "span"], measures=["weat"], queries=["weat-6", "weat-7"]).save(
        folder / "two"
    )
    (folder / "damaged").mkdir()
    (folder / "damaged" / "audit.json").write_text('{"schema": 2')
    return folder


@pytest.fixture(scope="session")
def app(runs: Path) -> RequestGuard:
    from evenhand.subjects import open_subject
    from evenhand.web import create_app

    return create_app([open_subject("glove-embedded")], [runs])


@pytest.fixture(scope="session")
def site(app: RequestGuard) -> WebSite:
    return app.app.state.site


@pytest.fixture(scope="session")
def client(app: RequestGuard) -> Iterator[TestClient]:
    from starlette.testclient import TestClient

    with TestClient(app, base_url=ADDRESS, raise_server_exceptions=False) as opened:
        yield opened
