"""The read-only page: runs are shown and compared; nothing is computed on subjects, sent or written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

from evenhand.cli import app as command
from evenhand.web import create_app

ADDRESS = "http://bias.example.org"


@pytest.fixture(scope="module")
def client(runs: Path) -> Iterator[TestClient]:
    with TestClient(create_app([], [runs], hosts=["bias.example.org"], read_only=True), base_url=ADDRESS) as opened:
        yield opened


def test_runs_are_listed_shown_and_compared(client: TestClient) -> None:
    page = client.get("/")
    assert page.url.path == "/runs"
    assert "Explore" not in page.text
    assert "New audit" not in page.text
    site = client.app.app.state.site
    ids = [run.id for run in site.runs.listing() if run.name != "damaged"]
    for path in ("", "/report", "/audit.json"):
        assert client.get(f"/runs/{ids[0]}{path}").status_code == 200
    compared = client.get("/compare", params={"run": ids[:2]})
    assert compared.status_code == 200


@pytest.mark.parametrize("path", ["/explore", "/explore/axis", "/audits/new", "/audits/1", "/audits/1/events"])
def test_pages_that_compute_are_not_there(client: TestClient, path: str) -> None:
    assert client.get(path).status_code == 404


@pytest.mark.parametrize("path", ["/audits", "/explore/axis", "/audits/1/cancel", "/runs", "/compare"])
def test_nothing_can_be_sent(client: TestClient, path: str, runs: Path) -> None:
    before = sorted(runs.rglob("*"))
    assert client.post(path, data={"token": client.app.app.state.site.token}).status_code in (404, 405)
    assert sorted(runs.rglob("*")) == before


def test_the_token_of_forms_is_on_no_page(client: TestClient) -> None:
    assert client.app.app.state.site.token not in client.get("/runs").text


def test_other_hosts_are_refused(client: TestClient) -> None:
    assert client.get("/runs", headers={"host": "evil.example"}).status_code == 421


def test_subjects_contradict_it(tmp_path: Path) -> None:
    done = CliRunner().invoke(command, ["serve", str(tmp_path), "--read-only", "--subject", "glove-embedded"])
    assert done.exit_code == 2
    assert "--read-only serves runs" in done.stderr
