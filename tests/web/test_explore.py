"""What the explore pages answer is what the library computes."""

import re
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("starlette", reason="the extra [web] is not installed")

from starlette.testclient import TestClient

import evenhand as eh
from evenhand import subspaces
from evenhand.models.nli.protocol import LABELS
from evenhand.subjects import open_subject
from evenhand.subjects.embedded_nli import embedded
from evenhand.web import create_app, explore_sentences, explore_vectors
from evenhand.web.application import WebSite
from evenhand.web.explore import TOOLS
from evenhand.web.forms import FormFields, PageLimits
from evenhand.web.subjects import AT_EACH_END, method_choices

pytestmark = pytest.mark.xdist_group("page")  # one process makes the runs and opens the server


def fields(**values: str) -> FormFields:
    return FormFields(list(values.items()), PageLimits())


@pytest.mark.parametrize("tool", TOOLS)
def test_every_page_shows_its_example(client: TestClient, tool: str) -> None:
    answer = client.get(f"/explore/{tool}")
    assert answer.status_code == 200
    assert TOOLS[tool].title in answer.text
    assert 'role="alert"' not in answer.text


def test_the_axis_gives_cosines_with_the_direction(site: WebSite, glove: eh.Vectors) -> None:
    result = explore_vectors.axis_answer(site.served, fields(words="nurse engineer zzzz", method="linear"))
    concept = eh.concept("gender")
    assert [line[0] for line in result["table"]] == ["nurse", "engineer"]
    for column, vectors in ((1, glove), (2, eh.mitigations.LinearProjection().fit(glove, concept)(glove))):
        direction = subspaces.two_means(vectors, *concept.groups.values(), normalise=True).basis[0]
        expected = [vectors[word] @ direction / np.linalg.norm(vectors[word]) for word in ("nurse", "engineer")]
        assert [line[column] for line in result["table"]] == pytest.approx(expected, abs=1e-5)
        assert abs(expected[0]) > 0.05  # the axis that is learned again shows what the projection left
    assert result["missing"] == ("zzzz",)
    assert result["chosen"].poles == ("female", "male")


def test_the_axis_page_says_how_far_words_spread_and_whether_they_stay_in_place(site: WebSite) -> None:
    result = explore_vectors.axis_answer(site.served, fields(words=explore_vectors.OCCUPATIONS, method="linear"))
    before, after = (np.array([line[column] for line in result["table"]]) for column in (1, 2))
    assert result["spread"] == pytest.approx((before.std(), after.std()))
    assert result["agreement"] == pytest.approx(np.corrcoef(before, after)[0, 1])
    assert result["agreement"] > 0.5  # the projection moves no word to the other side
    assert (
        explore_vectors.axis_answer(site.served, fields(words="nurse engineer", method="linear"))["agreement"] is None
    )


def test_an_axis_that_cannot_be_learned_again_is_said(client: TestClient, site: WebSite) -> None:
    result = explore_vectors.axis_answer(site.served, fields(words="nurse engineer", method="span"))
    assert [line[2] for line in result["table"]] == [None, None]
    text = client.get("/explore/axis?words=nurse&method=span").text
    assert "After span the axis cannot be learned again" in text
    assert "/explore/neighbours?" in text
    assert client.get("/explore/neighbours?word=nurse&method=span").status_code == 200


def test_the_picture_shows_every_word_before_and_after(site: WebSite) -> None:
    answer = explore_vectors.axis_answer(site.served, fields(words="nurse engineer", method="linear"))
    svg, description = answer["picture"]
    assert all(f">{text}<" in svg for text in ("nurse", "engineer", "original", "linear"))
    assert description == "Position of 2 words between male and female: original, linear"


def test_without_words_the_axis_shows_its_ends(site: WebSite) -> None:
    words = [line[0] for line in explore_vectors.axis_answer(site.served, fields(words="", method="none"))["table"]]
    assert len(words) == 2 * AT_EACH_END
    assert not {"she", "he", "woman", "man"} & set(words)


def test_neighbours_are_those_of_the_vectors(site: WebSite, glove: eh.Vectors) -> None:
    result = explore_vectors.neighbours_answer(site.served, fields(word="Nurse", method="hard", count="5"))
    after = eh.mitigations.get("hard")().fit(glove, "gender", seed=0)(glove)
    assert [line[0] for line in result["before"]] == [word for word, _ in glove.most_similar("nurse", k=5)]
    assert [line[0] for line in result["after"]] == [word for word, _ in after.most_similar("nurse", k=5)]


def test_own_sets_give_the_weat_of_the_library(client: TestClient, site: WebSite, glove: eh.Vectors) -> None:
    example = explore_vectors.association_example(site.served, fields())
    result = explore_vectors.association_answer(site.served, fields(**{**example, "method": "none"}))
    ((name, measured),) = result["stages"]
    expected = eh.measures.weat(glove, "weat-6")
    assert (name, measured.value, measured.p_value) == ("original", expected.value, expected.p_value)
    text = client.get("/explore/association").text
    assert f"{expected.p_value:.3g}" in text
    assert "exact, 12,870 partitions" in text


def test_a_published_test_fills_the_form(client: TestClient) -> None:
    text = client.get("/explore/association?query=weat-1").text
    assert "aster clover" in text
    assert 'value="Flowers"' in text


def test_sentence_pairs_give_the_probabilities_of_the_models(site: WebSite, glove: eh.Vectors) -> None:
    given = fields(
        subject="s0", premise="a/an {} slept.", hypotheses="The man slept.", fillers="engineer, nurse", method="linear"
    )
    result = explore_sentences.inference_answer(site.served, given)
    rows = dict(result["hypotheses"][0]["rows"])
    for condition, stage in (("original", "original"), ("projected", "linear")):
        models = embedded(condition, vectors=glove, device="numpy")
        expected = np.mean([m.predict(["an engineer slept."], ["The man slept."]).matrix[0] for m in models], axis=0)
        assert rows["engineer"][stage] == pytest.approx(expected.tolist(), abs=1e-5)
    assert result["notes"] == ["linear: the model was retrained on these vectors"]
    assert len(LABELS) == len(rows["nurse"]["linear"])


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("axis?words=zzzzz", "none of these words"),
        ("axis?concept=zodiac", "not offered"),
        ("axis?subject=/etc/passwd", "not offered"),
        ("axis?method=gp", "not offered"),
        ("axis?concept=religion&method=bam", "needs"),
        ("axis?words=" + "+".join(f"w{n}" for n in range(61)), "61 words"),
        ("neighbours?word=", "name a word"),
        ("neighbours?word=zzzzz", "not in glove-embedded"),
        ("neighbours?count=999", "whole number"),
        ("association?x=he", "too few words"),
        ("association?x_name=A&y_name=A", "different names"),
        ("association?query=nothing", "not offered"),
        ("inference?premise=No+blank.", "0 blanks"),
        ("inference?hypotheses=", "0 hypotheses"),
        ("inference?fillers=", "0 fillers"),
        ("contexts?word=two+words", "single word"),
        ("contexts?source=s0", "not offered"),
    ],
)
def test_what_cannot_be_answered_is_said_beside_the_form(client: TestClient, path: str, message: str) -> None:
    answer = client.get(f"/explore/{path}")
    assert answer.status_code == 400
    assert message.lower() in answer.text.lower()
    assert "<form" in answer.text


def test_what_was_typed_stays_and_is_escaped(client: TestClient) -> None:
    hostile = "\"><script>alert('1')</script>"
    text = client.get("/explore/neighbours", params={"word": hostile}).text
    assert "<script>alert" not in text
    assert 'value="&#34;&gt;&lt;script&gt;alert(' in text


def test_methods_that_train_for_minutes_are_not_offered() -> None:
    assert {"none", "linear", "hard", "leace"} <= set(method_choices())
    assert not {"gp", "ran", "gn-glove", "cda"} & set(method_choices())


def test_a_word_of_a_text_has_its_score_and_contexts(client: TestClient, site: WebSite) -> None:
    text = "the cook saw her mother and the smith saw his father and the cook sang with her sister and his cook"
    result = explore_sentences.contexts_answer(site.served, fields(source="pasted", text=text, word="cook"))
    expected = eh.corpus.bias(eh.corpus.Texts([text]), eh.concept("gender"))
    assert result["score"] == expected.scores["cook"]
    assert len(result["contexts"]) == 3
    assert ("cook", "word") in result["contexts"][0]
    assert ("her", "female") in result["contexts"][0]
    posted = client.post(
        "/explore/contexts", data={"token": site.token, "source": "pasted", "text": text, "word": "cook"}
    )
    assert f"{expected.scores['cook']:+.3f}" in posted.text


def test_a_corpus_of_the_command_line_is_searched(tmp_path: Path) -> None:
    lines = ["The cook saw her mother.", "The smith saw his father.", "His cook met her smith."] * 5
    (tmp_path / "text.txt").write_text("\n".join(lines))
    client = TestClient(create_app([open_subject(f"corpus:{tmp_path}/text.txt")]), base_url="http://localhost")
    text = client.get("/explore/contexts?word=smith&source=s0").text
    assert "occurs 10 times" in text
    assert str(tmp_path) not in text
    assert "started without word vectors" in client.get("/explore/axis").text
    assert client.get("/", follow_redirects=False).headers["location"] == "/explore"


def test_a_corpus_that_is_too_large_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("she ran " * 1000)
    app = create_app([open_subject(f"corpus:{tmp_path}/text.txt")], limits=PageLimits(corpus_bytes=1 << 10))
    assert "larger than" in TestClient(app, base_url="http://localhost").get("/explore/contexts?word=ran").text


@pytest.mark.parametrize("model", ["BertForMaskedLM", "GPT2LMHeadModel"])
def test_blanks_are_filled_by_a_language_model(tiny_folder: Callable[..., Path], model: str) -> None:
    pytest.importorskip("torch")
    subject = open_subject(f"hf:{tiny_folder(model)}", device="cpu")
    client = TestClient(create_app([subject]), base_url="http://localhost")
    text = client.get("/explore/blanks", params={"sentence": "the nurse said {} was here", "fillers": "she, he"}).text
    view = subject.view("likelihood")
    logs = view.filler_log_probabilities(["the nurse said {} was here"], ["she", "he"])[0]
    shares = np.exp(logs) / np.exp(logs).sum()
    found = dict(re.findall(r'<th scope="row">(\w+)</th><td><b>([\d.]+) %', text))
    assert {word: float(share) for word, share in found.items()} == pytest.approx(
        {"she": 100 * shares[0], "he": 100 * shares[1]}, abs=0.051
    )
    assert ("masked model" in text) == (model == "BertForMaskedLM")
    with pytest.raises(eh.EvenhandError, match="blanks"):
        explore_sentences.blanks_answer(
            client.app.app.state.site.served, fields(subject="s0", sentence="none", fillers="she")
        )


def test_a_slow_answer_is_asked_for_again_by_the_browser(monkeypatch: pytest.MonkeyPatch) -> None:
    may_end = threading.Event()
    app = create_app([open_subject("glove-embedded")], limits=PageLimits(seconds=0.01))
    monkeypatch.setattr(app.app.state.site.served, "changed", lambda *_: may_end.wait(30))
    answer = TestClient(app, base_url="http://localhost").get("/explore/axis?words=nurse")
    may_end.set()
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == answer.headers["refresh"] == "5"
    assert "longer than 0.01 seconds" in answer.text
    assert ">nurse</textarea>" in answer.text


def test_a_subject_is_used_by_one_thread_at_a_time(site: WebSite) -> None:
    order: list[str] = []

    def use() -> None:
        with site.served.in_use("s0"):
            order.append("second")

    thread = threading.Thread(target=use)
    with site.served.in_use("s0"):
        thread.start()
        thread.join(0.05)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]


def test_every_class_of_a_drawing_has_a_rule(client: TestClient) -> None:
    rules = client.get("/static/page.css").text + client.get("/static/report.css").text
    for tool in TOOLS.values():
        drawn = re.findall(r'<(?:svg|rect|circle|line) [^>]*class="([^"]+)"', client.get(f"/explore/{tool.id}").text)
        own = {name for names in drawn for name in names.split()} - {"marks", "background"}
        missing = [name for name in own if not re.search(rf"\.{re.escape(name)}\b", rules)]
        assert not [name for name in missing if not name.startswith(("mark-", "role-"))], tool.id


@pytest.mark.parametrize("model", ["BertForMaskedLM", "GPT2LMHeadModel"])
def test_a_pair_is_explained_with_both_charts(tiny_folder: Callable[..., Path], model: str) -> None:
    pytest.importorskip("torch")
    subject = open_subject(f"hf:{tiny_folder(model)}", device="cpu")
    client = TestClient(create_app([subject]), base_url="http://localhost")
    asked = {"first": "the man is a nurse and he likes art", "second": "the woman is a nurse and she likes art"}
    text = client.get("/explore/attribution", params=asked).text
    assert text.count('role="img"') == 2
    assert "man | woman" in text
    assert "activations of no token move it by 0" in text
    same = client.get("/explore/attribution", params={"first": "the man is here", "second": "the man is here"})
    assert same.status_code == 400
    three = client.get("/explore/attribution", params={**asked, "answers": "he, she, they"})
    assert "3 answers" in three.text
