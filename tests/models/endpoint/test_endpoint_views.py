"""What a server can do is found by asking, and its answers become views."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("httpx")
pytest.importorskip("tenacity")

from evenhand.errors import EvenhandError, TextTooLongError, UsageError
from evenhand.models.endpoint.client import Client, EndpointError, keeping_answers
from evenhand.models.endpoint.server import echo_body, echoed_tokens, first_tokens, inspect_server
from evenhand.models.endpoint.views import RemoteChat, RemoteLikelihood, RemoteModel, RemoteWriter
from evenhand.models.lm.chat import Chat, user
from evenhand.subjects.endpoint import EndpointSubject
from scripted_server import Asked, Reply, chat_reply, echo_reply, models, serving

YES = {"Yes": 0.5, " yes": 0.1, "No": 0.25, "no.": 0.05, "The": 0.06}


def completion(asked: Asked) -> Reply:
    return Reply({"choices": [{"text": f" {asked.body['prompt'][-3:]}"}], "usage": {}})


def chat(asked: Asked) -> Reply:
    return chat_reply("Yes", YES if asked.body.get("logprobs") else None)


def words(tokens: list[str], i: int) -> float:
    return -float(len(tokens[i])) - 0.25 * len(tokens[i - 1])


VLLM = {
    "/v1/models": models("m", max_model_len=64),
    "/v1/chat/completions": chat,
    "/v1/completions": lambda asked: echo_reply(asked, words) if asked.body.get("echo") else completion(asked),
}


def test_a_server_like_vllm_offers_everything() -> None:
    with serving(VLLM) as server:
        found = inspect_server(Client(server.base))
    assert (found.model, found.chat, found.top, found.completion, found.echo, found.context) == (
        "m",
        True,
        5,
        True,
        True,
        64,
    )
    assert dict(found.missing) == {}


def ignored_echo(asked: Asked) -> Reply:
    """llama.cpp: `echo` is accepted, and the log-probability is that of the token it wrote."""
    return Reply({"choices": [{"text": " a", "logprobs": {"content": [{"token": " a", "logprob": -1.2}]}}]})


def constant_echo(asked: Asked) -> Reply:
    return echo_reply(asked, lambda tokens, i: 0.0)


def other_prompt(asked: Asked) -> Reply:
    logs = {"tokens": ["some", " other", " words", " here", " end"], "token_logprobs": [None, -1.0, -2.0, -1.0, -3.0]}
    return Reply({"choices": [{"text": "x", "logprobs": logs}]})


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (ignored_echo, "does not return log-probabilities of the prompt"),
        (constant_echo, "do not depend on the prompt"),
        (other_prompt, "do not spell the prompt"),
        (lambda asked: Reply({"error": {"message": "echo is not supported"}}, 400), "echo is not supported"),
    ],
)
def test_an_echo_that_is_none_is_not_believed(answer, reason: str) -> None:
    routes = VLLM | {"/v1/completions": lambda asked: answer(asked) if asked.body.get("echo") else completion(asked)}
    with serving(routes) as server:
        found = inspect_server(Client(server.base))
    assert not found.echo
    assert found.likelihood == ""
    assert reason in found.missing["likelihood"]


def test_a_server_without_log_probabilities_counts_answers() -> None:
    def sampled(asked: Asked) -> Reply:
        return chat_reply("No, never." if asked.body.get("seed", 0) % 4 == 0 else "Yes!")

    with serving({"/v1/models": models("m"), "/v1/chat/completions": sampled}) as server:
        client = Client(server.base)
        found = inspect_server(client)
        assert (found.chat, found.top, found.completion) == (True, 0, False)
        assert "without log-probabilities" in found.missing["log-probabilities"]
        choices = RemoteChat(RemoteModel(client, found, "d")).choose([user("?")], ["yes", "no"], samples=40)
    assert choices.read_from == "sampled answers"
    assert choices.samples == 40
    assert choices.probabilities.sum() + choices.none.sum() == pytest.approx(1)
    assert 0.5 < choices.probabilities[0, 0] < 1


def test_choices_are_summed_over_spellings_and_the_rest_is_kept() -> None:
    with serving(VLLM) as server:
        client = Client(server.base)
        view = RemoteChat(RemoteModel(client, inspect_server(client), "d", system="Be fair."))
        assert isinstance(view, Chat)
        choices = view.choose([user("Is it?")], ["yes", "no"])
        assert server.posts("chat/completions")[-1].body["messages"][0] == {"role": "system", "content": "Be fair."}
    assert choices.probabilities[0] == pytest.approx([0.6, 0.3])
    assert choices.none[0] == pytest.approx(0.1)
    assert choices.among_options()[0] == pytest.approx([2 / 3, 1 / 3])


def test_echoed_log_probabilities_are_those_of_the_words() -> None:
    with serving(VLLM) as server:
        client = Client(server.base)
        view = RemoteLikelihood(RemoteModel(client, inspect_server(client), "d"))
        scores = view.token_log_probabilities(["She is kind", ""])
        assert scores[0].log_probabilities[1:] == pytest.approx([-3 - 0.75, -5 - 0.75])
        assert math.isnan(scores[0].log_probabilities[0])
        assert scores[0].spans.tolist() == [[0, 3], [4, 6], [7, 11]]
        assert len(scores[1].ids) == 0
        texts = view.log_probabilities(["She is kind", "She is"])
        assert texts.log_probabilities == pytest.approx([-9.5, -3.75])
        assert texts.tokens.tolist() == [2, 1]
        same = view.token_ids(["She is", "He is"])
        assert same[0].ids[1] == same[1].ids[1]
        assert same[0].ids[0] != same[1].ids[0]


VOCABULARY = ["<s>", "a", "b", " c", "dé"]


def llama_routes() -> dict:
    """A model of five tokens in the form of llama.cpp: each depends on the one before it."""
    logits = np.random.default_rng(0).normal(size=(5, 5))
    logs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))

    def tokenize(asked: Asked) -> Reply:
        text, ids = asked.body["content"], [0] if asked.body["add_special"] else []
        while text:
            token = next((i for i, piece in enumerate(VOCABULARY) if i and text.startswith(piece)), None)
            ids.append(1 if token is None else token)
            text = text[1 if token is None else len(VOCABULARY[token]) :]
        return Reply({"tokens": [{"id": i, "piece": VOCABULARY[i]} for i in ids]})

    def complete(asked: Asked) -> Reply:
        row = logs[asked.body["prompt"][-1]]
        chosen = asked.body["logit_bias"][0][0] if "logit_bias" in asked.body else int(row.argmax())
        top = [{"id": int(i), "logprob": float(row[i])} for i in np.argsort(-row)[: asked.body["n_probs"]]]
        entry = {"id": chosen, "logprob": float(row[chosen]), "top_logprobs": top}
        return Reply({"completion_probabilities": [entry], "tokens_evaluated": 3, "tokens_predicted": 1})

    routes = VLLM | {
        "/v1/completions": lambda asked: ignored_echo(asked) if asked.body.get("echo") else completion(asked)
    }
    return routes | {"/tokenize": tokenize, "/completion": complete, "logs": logs}


def test_forced_tokens_give_the_log_probabilities_of_the_model() -> None:
    routes = llama_routes()
    logs = routes.pop("logs")
    with serving(routes) as server:
        client = Client(server.base)
        found = inspect_server(client)
        assert found.forced
        view = RemoteLikelihood(RemoteModel(client, found, "d"))
        scores = view.token_log_probabilities(["ab cdé"])[0]
        assert scores.ids.tolist() == [1, 2, 3, 4]
        assert scores.spans.tolist() == [[0, 1], [1, 2], [3, 4], [4, 6]]
        assert scores.log_probabilities == pytest.approx([logs[0, 1], logs[1, 2], logs[2, 3], logs[3, 4]])
        some = view.token_log_probabilities(["ab cdé"], [[2]])[0].log_probabilities
        assert some[2] == pytest.approx(logs[2, 3])
        assert np.isnan(some[[0, 1, 3]]).all()
        with pytest.raises(EvenhandError, match="longer than the 64"):
            view.log_probabilities(["ab" * 40])


def test_an_answer_about_another_token_is_not_kept(tmp_path) -> None:
    routes = llama_routes()
    logs = routes.pop("logs")
    honest = routes["/completion"]

    def other(asked: Asked) -> Reply:
        reply = honest(asked)
        reply.body["completion_probabilities"][0]["id"] = 0
        return reply

    with serving(routes) as server:
        client = Client(server.base)
        model = RemoteModel(client, inspect_server(client), "d")
        with keeping_answers(tmp_path):
            server.routes["/completion"] = other
            with pytest.raises(EndpointError, match="another token"):
                RemoteLikelihood(model).log_probabilities(["ab"])
            server.routes["/completion"] = honest
            scores = RemoteLikelihood(model).token_log_probabilities(["ab"])[0]
    assert scores.log_probabilities == pytest.approx([logs[0, 1], logs[1, 2]])


def test_a_server_that_reports_the_forced_distribution_is_not_believed() -> None:
    routes = llama_routes()
    routes.pop("logs")
    honest = routes["/completion"]

    def biased(asked: Asked) -> Reply:
        reply = honest(asked)
        if "logit_bias" in asked.body:
            reply.body["completion_probabilities"][0]["logprob"] = 0.0
        return reply

    with serving(routes | {"/completion": biased}) as server:
        found = inspect_server(Client(server.base))
    assert not found.forced
    assert "forced to write" in found.missing["likelihood"]


def test_a_text_that_is_too_long_is_not_sent() -> None:
    with serving(VLLM | {"/v1/models": models("m", max_model_len=64)}) as server:
        client = Client(server.base)
        model = RemoteModel(client, inspect_server(client), "d")
        asked = len(server.asked)
        for call in (
            lambda: RemoteChat(model).choose([user("long " * 200)], ["yes", "no"]),
            lambda: RemoteChat(model).answer([user("short")], tokens=65),
            lambda: RemoteWriter(model).continuations(["long " * 200], samples=1, tokens=2),
            lambda: RemoteLikelihood(model).log_probabilities(["long " * 200]),
        ):
            with pytest.raises(TextTooLongError, match="64 tokens that m reads"):
                call()
        assert len(server.asked) == asked


def test_a_rehearsal_counts_what_forced_tokens_would_ask() -> None:
    routes = llama_routes()
    routes.pop("logs")
    with serving(routes) as server:
        subject = EndpointSubject(server.base)
        assert subject.server.forced
        _ = subject.remote
        asked = len(server.asked)
        counted, demand = subject.rehearsal()
        counted.view("likelihood").log_probabilities(["abcdefgh", "abcdijkl", "abcdefgh"])
        assert len(server.asked) == asked
    # the first tokens are the same request; one token stands before each second one
    assert (demand.requests, demand.read, demand.written) == (3, 3, 3)


def test_continuations_are_requests_with_seeds_of_their_own() -> None:
    with serving(VLLM) as server:
        client = Client(server.base)
        writer = RemoteWriter(RemoteModel(client, inspect_server(client), "d"))
        before = len(server.posts())
        texts = writer.continuations(["She ran", "He ran"], samples=2, tokens=5, seed=3)
        asked = server.posts()[before:]
    assert texts == [[" ran", " ran"], [" ran", " ran"]]
    seeds = {(a.body["prompt"], a.body["seed"]) for a in asked}
    assert len(seeds) == 4
    assert len({seed for _, seed in seeds}) == 2  # the same for both prompts


def test_models_are_named_where_there_are_several() -> None:
    with serving({"/v1/models": models("a", "b"), "/v1/chat/completions": chat}) as server:
        with pytest.raises(UsageError, match="has 2 models"):
            inspect_server(Client(server.base))
        with pytest.raises(EndpointError, match="no model 'c'"):
            inspect_server(Client(server.base), "c")
        assert inspect_server(Client(server.base), "b").model == "b"


def test_a_server_that_offers_nothing_is_one_sentence() -> None:
    with (
        serving({"/v1/models": models("a")}) as server,
        pytest.raises(EndpointError, match="neither chat nor completion"),
    ):
        inspect_server(Client(server.base))


@pytest.mark.parametrize(
    "answer",
    [{}, {"choices": []}, {"choices": [1]}, {"choices": [{"message": 3}]}, {"choices": [{"message": {"content": 3}}]}],
)
def test_malformed_chat_answers_are_one_sentence(answer: dict) -> None:
    routes = {"/v1/models": models("a"), "/v1/chat/completions": lambda asked: Reply(answer)}
    with serving(routes) as server, pytest.raises(EndpointError, match="answer without"):
        inspect_server(Client(server.base))


@pytest.mark.parametrize("value", [float("nan"), 3.0, "x", True, None])
def test_log_probabilities_that_are_none_are_refused(value: object) -> None:
    entry = {"token": "a", "logprob": value}
    answer = {"choices": [{"logprobs": {"content": [{"top_logprobs": [entry]}]}}]}
    with pytest.raises(ValueError, match="readable log-probabilities"):
        first_tokens(answer, "server")


def test_echoed_tokens_may_follow_a_token_for_the_beginning() -> None:
    logs = {"tokens": ["<s>", "A", " b", " c"], "token_logprobs": [None, -2.0, -1.0, -3.0]}
    tokens = echoed_tokens({"choices": [{"logprobs": logs}]}, "A b", "server")
    assert [(t.start, t.stop, t.text, t.log_probability) for t in tokens] == [(0, 1, "A", -2.0), (1, 3, " b", -1.0)]


ECHOED = json.loads((Path(__file__).parent / "echoed_prompts.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", ECHOED["cases"], ids=lambda case: case["name"])
def test_an_echo_is_read_as_the_code_of_the_server_writes_it(case: dict) -> None:
    assert "not recorded" in ECHOED["about"]
    assert echo_body("m", "PROMPT") == ECHOED["request"]
    prompt, answer = case["prompt"], case["answer"]
    if case["read"] is None:
        with pytest.raises(EndpointError, match="does not return log-probabilities of the prompt"):
            echoed_tokens(answer, prompt, "server")
        return
    scores = RemoteLikelihood(RemoteModel(None, None, "d", name="m"))._from_echo(
        prompt, echoed_tokens(answer, prompt, "server")
    )
    logs = [None if math.isnan(log) else log for log in scores.log_probabilities.tolist()]
    assert [[*span, log] for span, log in zip(scores.spans.tolist(), logs, strict=True)] == case["read"]
    with pytest.raises(EndpointError, match="do not spell the prompt"):
        echoed_tokens(answer, prompt.replace("is", "was"), "server")


@given(st.text(alphabet="ab é🙂ñ\n", min_size=1, max_size=12), st.booleans(), st.data())
def test_tokens_that_were_split_anywhere_cover_the_prompt(prompt: str, corrected: bool, data: st.DataObject) -> None:
    """Bytes are cut at random; each piece is decoded by itself (SGLang), or the last part has the character (vLLM)."""
    encoded = prompt.encode()
    cuts = sorted(data.draw(st.sets(st.integers(1, max(1, len(encoded) - 1)), max_size=8)) - {len(encoded)})
    pieces = [encoded[low:high] for low, high in zip([0, *cuts], [*cuts, len(encoded)], strict=True)]
    texts, rest = [], b""
    for piece in pieces:
        rest += piece
        if not corrected:
            texts.append(piece.decode("utf-8", errors="replace"))
        else:
            whole = rest.decode("utf-8", errors="ignore")
            texts.append(whole)
            rest = rest[len(whole.encode()) :]
    logs = {"tokens": ["<s>", *texts, "x"], "token_logprobs": [None, *(-1.0 for _ in texts), -2.0]}
    answer = {"choices": [{"logprobs": logs}], "usage": {"prompt_tokens": 1 + len(texts)}}
    tokens = echoed_tokens(answer, prompt, "server")
    assert len(tokens) == len(texts)
    assert {n for token in tokens for n in range(token.start, token.stop)} >= {
        n for n, letter in enumerate(prompt) if letter != " "
    }


def test_the_first_token_is_predicted_from_the_separator_that_the_server_knows() -> None:
    """A server that reads a text alone, such as vLLM with Qwen: the first value is that behind <|endoftext|>."""

    def answer(asked: Asked) -> Reply:
        if not asked.body.get("echo"):
            return completion(asked)
        prompt = asked.body["prompt"]
        tokens = ["<|endoftext|>"] if prompt.startswith("<|endoftext|>") else []
        words_ = prompt.removeprefix("<|endoftext|>").split(" ")
        tokens += [word if not n else f" {word}" for n, word in enumerate(words_)]
        values = [None, *(words(tokens, n) for n in range(1, len(tokens)))]
        logs = {"tokens": [*tokens, "."], "token_logprobs": [*values, -1.0]}
        return Reply({"choices": [{"text": prompt, "logprobs": logs}], "usage": {"prompt_tokens": len(tokens)}})

    with serving(VLLM | {"/v1/completions": answer}) as server:
        subject = EndpointSubject(server.base)
        assert subject.server.separator == "<|endoftext|>"
        assert subject.opening["separator"] == "<|endoftext|>"
        view = subject.view("likelihood")
        scores = view.token_log_probabilities(["She is kind", "", "She is"])
        before = len(server.posts("completions"))
        assert view.log_probabilities(["She is"]).tokens.tolist() == [2]
        assert len(server.posts("completions")) == before + 2
        counted, demand = subject.rehearsal()
        counted.view("likelihood").log_probabilities(["She is", "He is"])
    assert demand.requests == 4
    assert scores[0].log_probabilities == pytest.approx([-3 - 0.25 * 13, -3.75, -5.75])
    assert scores[2].log_probabilities == pytest.approx([-3 - 0.25 * 13, -3.75])


def test_two_first_tokens_of_one_text_both_count() -> None:
    entries = [{"token": "A", "logprob": math.log(p)} for p in (0.5, 0.25, 0.25)] + [{"token": "B", "logprob": -9.0}]
    answer = {"choices": [{"logprobs": {"content": [{**entries[0], "top_logprobs": entries}]}}]}
    assert first_tokens(answer, "server") == [("A", math.log(0.5)), ("A", math.log(0.25)), ("B", -9.0)]
