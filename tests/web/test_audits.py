"""An audit that the page starts runs in its own process, arrives cell by cell, and can be stopped."""

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="the extra [web] is not installed")

from starlette.testclient import TestClient

import evenhand as eh
from evenhand.errors import UsageError
from evenhand.measures import numbers
from evenhand.subjects import open_subject
from evenhand.web import PageLimits, create_app
from evenhand.web.application import WebSite
from evenhand.web.audits import AuditJobs, AuditRequest, new_folder, run_audit
from evenhand.web.worker import BusyError

PATIENCE = 120.0  # seconds; a crowded machine is not a bug


@pytest.fixture
def own(tmp_path: Path) -> Iterator[TestClient]:
    app = create_app([open_subject("glove-embedded")], [tmp_path / "runs"])
    with TestClient(app, base_url="http://127.0.0.1") as client:
        yield client


def site_of(client: TestClient) -> WebSite:
    return client.app.app.state.site


def wait(jobs: AuditJobs, id: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while jobs.get(id).state == "running" and time.monotonic() < deadline:
        time.sleep(0.05)


@pytest.mark.slow
def test_an_audit_is_started_followed_and_saved(own: TestClient, tmp_path: Path, glove: eh.Vectors) -> None:
    site = site_of(own)
    form = {"token": site.token, "subject": "s0", "concept": "gender", "method": ["linear"], "measure": ["direct-bias"]}
    page = own.post("/audits", data=form)
    assert "is running" not in page.text
    assert 'http-equiv="refresh"' in page.text  # without JavaScript
    id = page.url.path.rpartition("/")[2]
    assert own.post("/audits", data=form).status_code == 503  # one at a time
    events = own.get(f"/audits/{id}/events").text  # ends with the audit
    assert '"state": "done"' in events
    text = own.get(f"/audits/{id}").text
    assert "See the findings" in text
    (run,) = site.runs.listing()
    audit = site.runs.audit(run)
    assert audit.stage_names == ("original", "linear")
    expected = eh.Audit.run(glove, methods=["linear"], measures=["direct-bias"])
    assert audit.labels == expected.labels
    for label in audit.labels:
        assert audit.get(label).value == pytest.approx(expected.get(label).value)
        assert label in text
    assert run.folder.parent == tmp_path / "runs"


def test_an_audit_is_stopped(own: TestClient) -> None:
    site = site_of(own)
    form = {"token": site.token, "subject": "s0", "measure": ["clustering", "recoverability", "neighbours"]}
    id = own.post("/audits", data=form).url.path.rpartition("/")[2]
    text = own.post(f"/audits/{id}/cancel", data={"token": site.token}).text
    assert "Stopped" in text
    assert site.audits.running is None
    assert own.post(f"/audits/{id}/cancel", data={"token": site.token}).status_code == 200


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ({"subject": "/etc/passwd", "measure": "weat"}, "not offered"),
        ({"measure": []}, "Tick at least one"),
        ({"measure": ["weat"], "method": ["bam", "hard", "inlp", "leace", "linear"]}, "at most 4"),
        ({"measure": ["weat"], "method": ["gp"]}, "not offered"),
        ({"measure": ["weat"], "concept": "zodiac"}, "not offered"),
        ({"measure": ["crows-pairs"]}, "can answer"),
    ],
)
def test_wrong_forms_start_nothing(own: TestClient, form: dict[str, object], message: str) -> None:
    answer = own.post("/audits", data={"token": site_of(own).token, **form})
    assert answer.status_code == 400
    assert message in answer.text
    assert site_of(own).audits.running is None


def request(folder: Path, **changes: object) -> AuditRequest:
    content = {"methods": (), "measures": ("direct-bias",), "concept": "gender", **changes}
    return AuditRequest("glove-embedded", {}, "glove-embedded", folder=folder, **content)


class Sent(list[tuple[str, object]]):
    """The sending end of a pipe that keeps what is sent."""

    send = list.append


def test_cells_are_sent_and_the_run_is_saved(
    tmp_path: Path, glove: eh.Vectors, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("signal.signal", lambda *_: None)  # this process keeps its own handler
    sent = Sent()
    run_audit(sent, request(tmp_path / "run", measures=("ripa",), methods=("linear",)))
    cells = [content for kind, content in sent if kind == "cell"]
    audit = eh.Audit.load(tmp_path / "run")
    assert [(stage, [label for label, _ in rows]) for stage, rows in cells] == [
        ("original", ["ripa"]),
        ("linear", ["ripa"]),
    ]
    value, rest = cells[0][1][0][1]
    assert value == numbers.number(audit.get("ripa").value)
    assert rest == numbers.interval(audit.get("ripa"))
    assert audit.get("ripa").value == eh.measures.ripa(glove, audit.get("ripa").query).value
    assert sent[-1] == ("done", "")


def test_an_audit_that_fails_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("signal.signal", lambda *_: None)  # this process keeps its own handler
    sent = Sent()
    run_audit(sent, request(tmp_path / "run", measures=("crows-pairs",)))
    ((kind, message),) = sent
    assert kind == "failed"
    assert "needs the view" in message


def test_an_audit_has_a_time_limit(tmp_path: Path) -> None:
    jobs = AuditJobs(PageLimits(audit_seconds=0.01))
    job = jobs.start(request(tmp_path / "run"))
    with pytest.raises(BusyError):
        jobs.start(request(tmp_path / "other"))
    wait(jobs, job.id)
    assert job.state == "failed"
    assert "the limit here" in job.message


def test_folders_are_named_after_the_subject() -> None:
    folder = new_folder(Path("runs"), "hf:../evil model", "gender")
    assert folder.parent == Path("runs")
    assert folder.name.startswith("hf----evil-model-gender-20")


def test_cells_are_followed_in_one_process_only() -> None:
    from evenhand.audit import Plan
    from evenhand.audit.runner import run

    subject = open_subject("glove-embedded")
    plan = Plan.default([subject], methods=["linear"], only=["direct-bias"])
    seen: list[tuple[str, str, str]] = []
    run([subject], plan, arrived=lambda name, stage, question, cell: seen.append((name, stage, question.measure)))
    assert set(seen) == {("glove-embedded", stage, "direct-bias") for stage in ("original", "linear")}
    with pytest.raises(UsageError, match="single job"):
        run([subject], plan, jobs=2, arrived=lambda *_: None)


def test_measures_of_what_a_subject_does_are_ticked(tiny_folder: Callable[..., Path], tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="the extra [models] is not installed")
    folder = tiny_folder("BertForSequenceClassification", id2label={0: "no", 1: "yes"}, label2id={"no": 0, "yes": 1})
    subject = open_subject(f"hf:{folder}")
    assert subject.title == "a text classifier"
    with TestClient(create_app([subject], [tmp_path]), base_url="http://127.0.0.1") as client:
        text = client.get("/audits/new").text
    assert re.findall(r'name="measure" value="([^"]+)" checked', text) == ["counterfactual"]
