"""Pages about runs show what the records say."""

import json
import os
import re
from html import escape
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="the extra [web] is not installed")

from starlette.testclient import TestClient

import evenhand as eh
from evenhand.audit.record import signed
from evenhand.errors import FormatError
from evenhand.report.findings import findings
from evenhand.web import PageLimits, create_app
from evenhand.web.application import WebSite
from evenhand.web.runs import RunLibrary

pytestmark = pytest.mark.xdist_group("page")  # one process makes the runs and opens the server


def ids(site: WebSite) -> dict[str, str]:
    return {run.name: run.id for run in site.runs.listing()}


def test_the_list_shows_findings_and_says_what_is_damaged(client: TestClient, site: WebSite, runs: Path) -> None:
    text = client.get("/runs").text
    for name in ("one", "two"):
        assert escape(findings(eh.Audit.load(runs / name))[0].text) in text
        assert f'href="/runs/{ids(site)[name]}"' in text
    assert "cannot be read" in text
    assert str(runs) not in text.replace(escape(str(runs / "damaged")), "")


def test_the_first_page_leads_to_the_runs(client: TestClient) -> None:
    answer = client.get("/", follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/runs")


def test_a_run_shows_findings_card_and_charts(client: TestClient, site: WebSite, runs: Path) -> None:
    audit, id = eh.Audit.load(runs / "one"), ids(site)["one"]
    text = client.get(f"/runs/{id}").text
    for finding in findings(audit):
        assert escape(finding.text) in text
    for label in audit.labels:
        assert label in text
    pictures = re.findall(r'<img src="(/runs/[^"]+\.svg)" alt="[^"]+"', text)
    assert pictures
    answer = client.get(pictures[0])
    assert answer.headers["content-type"].startswith("image/svg+xml")
    assert "sandbox" in answer.headers["content-security-policy"]
    assert answer.text.startswith("<svg")


def test_the_report_and_the_record_are_served(client: TestClient, site: WebSite, runs: Path) -> None:
    id = ids(site)["two"]
    answer = client.get(f"/runs/{id}/report")
    assert "How to repeat it" in answer.text
    assert "script-src 'sha256-" in answer.headers["content-security-policy"]
    record = client.get(f"/runs/{id}/audit.json")
    assert record.json() == json.loads((runs / "two" / "audit.json").read_text())
    assert "attachment" in record.headers["content-disposition"]


def test_links_of_findings_lead_to_rows_of_the_report(client: TestClient, site: WebSite) -> None:
    id = ids(site)["one"]
    links = set(re.findall(rf'/runs/{id}/report#([^"]+)"', client.get(f"/runs/{id}").text))
    report = client.get(f"/runs/{id}/report").text
    assert links
    assert all(f'id="{link}"' in report for link in links)


def test_runs_are_compared(client: TestClient, site: WebSite, runs: Path) -> None:
    known = ids(site)
    text = client.get("/compare", params={"run": [known["one"], known["two"]]}).text
    value = eh.Audit.load(runs / "one").get("weat-6").value
    assert text.count(f"<b>{value:.2f}</b>") >= 2
    assert "show no significant change" in text
    assert "weat-8" not in text  # in one of them only


@pytest.mark.parametrize("query", ["", "?run=nothing", "?run=../../etc", "?run=a&run=b"])
def test_what_cannot_be_compared_is_said(client: TestClient, query: str) -> None:
    assert client.get(f"/compare{query}").status_code == 400


@pytest.mark.parametrize(
    "path",
    [
        "/runs/nothing",
        "/runs/..%2f..%2fetc",
        "/runs/%00",
        "/runs/nothing/report",
        "/runs/nothing/charts/0/0.svg",
        "/static/../limits.py",
        "/static/%2e%2e/limits.py",
        "/audits/nothing",
        "/explore/nothing",
    ],
)
def test_unknown_names_are_not_found(client: TestClient, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 404
    assert "Traceback" not in answer.text


def test_charts_that_do_not_exist_are_not_found(client: TestClient, site: WebSite) -> None:
    id = ids(site)["one"]
    for place in ("9/0", "0/99"):
        assert client.get(f"/runs/{id}/charts/{place}.svg").status_code == 404


def test_a_damaged_run_is_an_error_with_a_sentence(client: TestClient, site: WebSite) -> None:
    answer = client.get(f"/runs/{ids(site)['damaged']}")
    assert answer.status_code == 400
    assert "not a whole audit" in answer.text


def test_new_and_changed_runs_appear(tmp_path: Path, runs: Path) -> None:
    library = RunLibrary([tmp_path], PageLimits())
    assert library.listing() == []
    assert library.home == tmp_path
    (tmp_path / "new").mkdir()
    record = (runs / "one" / "audit.json").read_text()
    file = tmp_path / "new" / "audit.json"
    file.write_text(record)
    (run,) = library.listing()
    assert library.audit(run).concept == "gender"
    renamed = record.replace('"name": "gender"', '"name": "sex"')
    file.write_text(json.dumps(signed(json.loads(renamed))))
    os.utime(file, ns=(1, 1))
    (changed,) = library.listing()
    assert changed.id == run.id
    assert library.audit(changed).concept == "sex"
    file.write_text(renamed)
    os.utime(file, ns=(2, 2))
    with pytest.raises(FormatError, match="edited or damaged"):
        library.audit(library.listing()[0])


def test_a_run_named_like_markup_is_escaped(tmp_path: Path, runs: Path) -> None:
    folder = tmp_path / "<img src=x onerror=alert(1)>"
    folder.mkdir()
    (folder / "audit.json").write_text((runs / "two" / "audit.json").read_text())
    client = TestClient(create_app([], [folder]), base_url="http://127.0.0.1")
    (run,) = client.app.app.state.site.runs.listing()
    for path in ("/runs", f"/runs/{run.id}"):
        text = client.get(path).text
        assert "<img src=x" not in text
        assert "&lt;img src=x onerror=alert(1)&gt;" in text
