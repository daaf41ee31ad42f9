"""The process that renders chat templates, from inside, and how a chat model is asked."""

from __future__ import annotations

import io
import json
import signal
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

from evenhand.errors import DegenerateError, FormatError, UsageError
from evenhand.models.lm import chat
from evenhand.models.lm.chat import (
    CONTINUE,
    ChatWriter,
    Choices,
    TemplateChat,
    check_options,
    check_prompt_form,
    from_answers,
    from_log_probabilities,
    has_chat_template,
    option_in,
    option_of,
    render,
    user,
    with_system,
)

ASKS = "{% for m in messages %}{{ m.content }}|{% endfor %}{{ 'go' if add_generation_prompt else 'stop' }}{{ tools }}"


def request_of(template: str, *texts: str) -> dict[str, Any]:
    return {"template": template, "conversations": [user(text) for text in texts], "special": {"bos_token": "<s>"}}


def rendered(template: str, *texts: str) -> dict[str, Any]:
    library = pytest.importorskip("transformers.utils.chat_template_utils")
    answer: dict[str, Any] = chat._rendered(library, request_of(template, *texts))
    return answer


def test_a_template_is_told_that_the_model_speaks_next_and_has_no_tools() -> None:
    assert rendered("{{ bos_token }}" + ASKS, "a", "b") == {"texts": ["<s>a|goNone", "<s>b|goNone"]}


def test_a_text_of_the_longest_length_is_rendered_and_a_longer_one_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat, "MOST_CHARACTERS", 1234)
    assert rendered("{{ 'x' * 1234 }}", "a") == {"texts": ["x" * 1234]}
    assert rendered("{{ 'x' * 1235 }}", "a") == {"failed": "makes a text of more than 1,234 characters"}


def test_messages_of_failing_templates_are_cut() -> None:
    assert rendered("{{ raise_exception('y' * 400) }}", "a") == {"refused": "y" * 300}
    assert rendered("{{ raise_exception('') }}", "a") == {"refused": "TemplateError"}
    assert rendered("{{ 'z' * 400 + 1 }}", "a") == {
        "failed": 'fails (TypeError: can only concatenate str (not "int") to str)'
    }

    class Library:
        def __init__(self, error: Exception) -> None:
            self.error = error

        def _compile_jinja_template(self, template: str) -> None:
            raise self.error

    assert chat._rendered(Library(KeyError("k" * 300)), request_of("")) == {
        "failed": "fails (KeyError: '" + "k" * 199 + ")"
    }
    assert chat._rendered(Library(MemoryError()), request_of("")) == {"failed": "needs more than 2 GB of memory"}


def test_the_process_answers_line_by_line_within_its_time(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("transformers")
    allowed: list[float] = []
    limited: list[bool] = []
    lines = [json.dumps(request_of(ASKS, text)) + "\n" for text in ("a", "b")]
    monkeypatch.setattr(chat, "_allow_seconds", allowed.append)
    monkeypatch.setattr(chat, "_limit_memory", lambda: limited.append(True))
    monkeypatch.setattr(sys, "argv", ["-c", "2.5"])
    monkeypatch.setattr(sys, "stdin", io.StringIO("".join(lines)))
    chat.serve()
    said = capsys.readouterr().out
    assert said.endswith("\n")
    assert [json.loads(line) for line in said.splitlines()] == [
        {"ready": True},
        {"texts": ["a|goNone"]},
        {"texts": ["b|goNone"]},
    ]
    assert allowed == [2.5, 0, 2.5, 0]
    assert limited == [True]


def test_the_limits_of_the_process_are_those_of_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    resource = pytest.importorskip("resource")
    asked: list[tuple[object, ...]] = []
    monkeypatch.setattr(resource, "setrlimit", lambda *limits: asked.append(limits))
    monkeypatch.setattr(signal, "setitimer", lambda *limits: asked.append(limits))
    chat._limit_memory()
    chat._allow_seconds(2.5)
    assert asked == [(resource.RLIMIT_AS, (2 << 30, 2 << 30)), (signal.ITIMER_VIRTUAL, 2.5)]
    monkeypatch.delattr(signal, "setitimer")
    chat._allow_seconds(1.0)  # a system without timers
    assert len(asked) == 2


class Process:
    """Stands for the process: says it is ready, then gives the answers; none where it died."""

    made: ClassVar[list[Process]] = []
    answers: ClassVar[list[str]] = []

    def __init__(self, command: list[str], **options: Any) -> None:
        self.command, self.options = command, options
        self.stdin, self.lines = io.StringIO(), ['{"ready": true}\n', *type(self).answers]
        self.stdout = io.StringIO("".join(self.lines))
        self.ended: int | None = None
        self.killed = self.waited = False
        type(self).made.append(self)

    def poll(self) -> int | None:
        return self.ended

    def kill(self) -> None:
        self.killed, self.ended = True, -9

    def wait(self) -> int:
        self.waited = True
        return -9


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> type[Process]:
    class Made(Process):
        made: ClassVar[list[Process]] = []
        answers: ClassVar[list[str]] = []

    monkeypatch.setattr(chat.subprocess, "Popen", Made)
    return Made


def test_one_process_answers_until_it_ends(processes: type[Process], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/bin")
    monkeypatch.setenv("MY_SECRET_KEY", "sk")
    monkeypatch.setattr(sys, "path", ["", "/one", "/two"])
    processes.answers = ['{"texts": ["a"]}\n', '{"texts": ["b"]}\n']
    threads: list[threading.Thread] = []
    plain = threading.Thread
    monkeypatch.setattr(chat.threading, "Thread", lambda **given: threads.append(plain(**given)) or threads[-1])
    worker = chat._Worker()
    assert [worker.ask({"n": number}) for number in range(2)] == [{"texts": ["a"]}, {"texts": ["b"]}]
    (first,) = processes.made
    assert first.stdin.getvalue() == '{"n": 0}\n{"n": 1}\n'
    assert first.command == [sys.executable, "-P", "-c", chat.SCRIPT, "10.0"]
    assert first.options["env"]["PYTHONPATH"] == "/one:/two"
    assert first.options["env"]["PATH"] == "/bin"
    assert "MY_SECRET_KEY" not in first.options["env"]
    assert first.options["text"] is True
    assert worker.ask({"n": 2}) == {
        "failed": "takes more than 10 seconds, or too much memory"
    }  # it gives no more lines
    assert first.killed
    assert first.waited
    assert first.stdin.closed
    assert first.stdout.closed
    assert worker.ask({"n": 3}) == {"texts": ["a"]}
    processes.made[-1].ended = 1
    assert worker.ask({"n": 4}) == {"texts": ["a"]}
    assert len(processes.made) == 3
    assert [thread.daemon for thread in threads] == [True] * 3  # none keeps the program from ending
    worker.close()
    worker.close()  # which does nothing
    assert processes.made[-1].killed


def test_a_process_that_does_not_start_is_an_error(processes: type[Process], monkeypatch: pytest.MonkeyPatch) -> None:

    def silent(self: Process, command: list[str], **options: Any) -> None:
        Process.__init__(self, command, **options)
        self.stdout = io.StringIO("")

    monkeypatch.setattr(processes, "__init__", silent)
    with pytest.raises(FormatError, match="does not start"):
        chat._Worker().ask({})
    assert processes.made[0].killed


def test_a_process_that_waits_for_ever_is_ended(processes: type[Process], monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither when it starts nor when it renders."""
    monkeypatch.setattr(chat, "_collect", lambda process, lines: None)
    monkeypatch.setattr(chat, "STARTING", 0.01)
    with pytest.raises(FormatError, match="does not start"):
        chat._Worker().ask({})
    monkeypatch.setattr(chat, "_collect", lambda process, lines: lines.put("ready"))
    monkeypatch.setattr(chat, "STARTING", 20.0)
    monkeypatch.setattr(chat, "RENDERING", 0.01)
    assert "takes more than" in chat._Worker().ask({})["failed"]
    assert [process.killed for process in processes.made] == [True, True]


def test_conversations_are_rendered_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("jinja2")
    asked: list[dict[str, Any]] = []

    class Worker:
        def ask(self, request: dict[str, Any]) -> dict[str, Any]:
            asked.append(request)
            return {"texts": [part[0]["content"] for part in request["conversations"]]}

    monkeypatch.setattr(chat, "_worker", Worker)
    texts = [str(number) for number in range(130)]
    assert render("T", [user(text) for text in texts], {"a": "b"}, name="m") == texts
    assert [len(request["conversations"]) for request in asked] == [64, 64, 2]
    assert {(request["template"], request["special"]["a"]) for request in asked} == {("T", "b")}
    for answer, error, says in (
        ({"refused": "no system"}, UsageError, "the chat template of m refuses a conversation: no system"),
        ({"failed": "takes long"}, FormatError, "the chat template of m takes long"),
    ):
        monkeypatch.setattr(Worker, "ask", lambda self, request, answer=answer: answer)
        with pytest.raises(error, match=says):
            render("T", [user("a")], {}, name="m")


# Options -----------------------------------------------------------------------------------------------------------


def test_options_are_compared_without_marks_and_case() -> None:
    assert check_options([" (Yes)", "NO!", "\u0120perhaps"]) == ["yes", "no", "perhaps"]
    assert check_options(["A", "B"]) == ["a", "b"]
    for options in (["maybe", "yes", "yesterday"], ["maybe", "yesterday", "yes"], ["a", "b", "A."]):
        with pytest.raises(UsageError, match="begin alike"):
            check_options(options)
    with pytest.raises(UsageError, match=r"'\.\.\.' has no letter or digit"):
        check_options(["a", "..."])


def test_a_beginning_that_two_options_share_chooses_none() -> None:
    options = ["north", "nowhere", "south"]
    assert [option_of(token, options) for token in ("no", "n", "nor", "s", "2")] == [None, None, 0, 2, None]
    assert [option_in(text, ["not sure", "yes"]) for text in ("Not at all", "y", "Yes", "", "--")] == [
        0,
        None,
        1,
        None,
        None,
    ]
    assert option_in("2nd", ["1st", "2nd"]) == 1


def test_marks_at_the_ends_of_a_token_do_not_count() -> None:
    assert [chat._plain(text) for text in ("a", ".a", "a.", "..", "", "a b", "(1)", "\uff21")] == [
        "a", "a", "a", "", "", "a b", "1", "a",
    ]  # fmt: skip


def test_probabilities_may_exceed_one_by_rounding_alone() -> None:
    assert from_log_probabilities([[("a", np.log(1.005))]], ["a", "b"], name="m").none.tolist() == [0.0]
    for value in (1.02, np.nan, np.inf):
        with pytest.raises(DegenerateError, match="m: the probabilities of the first token are not"):
            from_log_probabilities([[("a", float(np.log(value)))], [("b", -1.0)]], ["a", "b"], name="m")
    with pytest.raises(DegenerateError):
        from_log_probabilities([[("a", -1.0)], [("a", -0.5), ("b", -0.5)]], ["a", "b"], name="m")


def test_answers_by_hand() -> None:
    found = from_answers([["a", "B", "c"], [], ["b"]], ["A", "B"])
    np.testing.assert_allclose(found.probabilities, [[1 / 3, 1 / 3], [0, 0], [0, 1]])
    np.testing.assert_allclose(found.none, [1 / 3, 1, 0], atol=1e-12)
    assert (found.read_from, found.samples, len(found)) == ("sampled answers", 3, 3)
    np.testing.assert_allclose(found.among_options()[[0, 2]], [[0.5, 0.5], [0, 1]])
    assert np.isnan(found.among_options()[1]).all()
    empty = from_answers([], ["A", "B"])
    assert (len(empty), empty.samples) == (0, 0)


def test_a_system_prompt_goes_first() -> None:
    assert user("a", system="S") == [{"role": "system", "content": "S"}, {"role": "user", "content": "a"}]
    more = [*user("a", system="T"), {"role": "assistant", "content": "b"}]
    assert with_system(more, "S") == [{"role": "system", "content": "S\n\nT"}, *more[1:]]
    assert with_system(more, "") == more
    assert with_system(user("a"), "S") == [{"role": "system", "content": "S"}, *user("a")]


# Models ------------------------------------------------------------------------------------------------------------


class Tokenizer:
    """Six tokens, of which the last is special."""

    texts = ("yes", " No", "maybe", "y", "n.", "no")
    all_special_ids = (5,)
    special_tokens_map: ClassVar[dict[str, str]] = {"bos_token": "<s>"}
    is_fast = True

    def __init__(self) -> None:
        self.decoded = 0

    def batch_decode(self, rows: list[list[int]]) -> list[str]:
        self.decoded += 1
        return [self.texts[token] for (token,) in rows]


class Model:
    name, vocabulary_size, chat_template = "m", 6, "T"

    def __init__(self) -> None:
        self.tokenizer = Tokenizer()
        self.asked: list[Any] = []

    def next_token_shares(self, prompts: list[list[int]], groups: list[Any]) -> Any:
        self.asked.append((prompts, [group.tolist() for group in groups]))
        return np.array([[0.5, 0.2]] * len(prompts))

    def continue_ids(self, prompts: list[list[int]], **settings: Any) -> list[list[str]]:
        self.asked.append((prompts, settings))
        return [["x"]] * len(prompts)


def test_a_template_model_reads_a_choice_from_its_vocabulary(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[Any] = []

    def text_of(template: str, messages: Any, special: dict[str, str], *, name: str) -> list[str]:
        said.append((template, messages, special, name))
        return [part[-1]["content"] for part in messages]

    monkeypatch.setattr(chat, "render", text_of)
    monkeypatch.setattr(chat, "encode_one", lambda tokenizer, text: [len(text)])
    model: Any = Model()
    view = TemplateChat(model, system="S")
    assert view.name == "m"
    for _ in range(2):
        found = view.choose([user("ab"), user("abc")], ["Yes", "No"])
        assert found.probabilities.tolist() == [[0.5, 0.2]] * 2
        np.testing.assert_allclose(found.none, [0.3, 0.3])
        assert (found.read_from, found.samples) == ("log-probabilities", 0)
        assert model.asked.pop() == ([[2], [3]], [[0, 3], [1, 4]])
    assert model.tokenizer.decoded == 1  # the vocabulary is read once
    assert said[0] == ("T", [with_system(user(text), "S") for text in ("ab", "abc")], {"bos_token": "<s>"}, "m")
    assert view.answer([user("a")]) == [["x"]]
    assert model.asked.pop() == ([[1]], {"samples": 1, "tokens": 256, "temperature": 1.0, "seed": 0})
    model.chat_template = None
    with pytest.raises(UsageError, match="m has no chat template"):
        TemplateChat(model)


def test_a_chat_model_that_continues_texts_is_asked_to() -> None:
    asked: list[Any] = []
    model: Any = SimpleNamespace(name="m", answer=lambda parts, **settings: asked.append((parts, settings)) or [["x"]])
    assert ChatWriter(model).continuations(["Once"], samples=2, tokens=3, seed=5) == [["x"]]
    assert asked == [
        ([user(CONTINUE.format(prompt="Once"))], {"samples": 2, "tokens": 3, "temperature": 1.0, "seed": 5})
    ]
    ChatWriter(model, "{prompt}!").continuations(["Once"], samples=1, tokens=1, temperature=0.5)
    assert asked[1] == ([user("Once!")], {"samples": 1, "tokens": 1, "temperature": 0.5, "seed": 0})


def test_forms_of_prompts() -> None:
    assert [check_prompt_form(form) for form in ("plain", "chat", "message")] == ["plain", "chat", "message"]
    with pytest.raises(UsageError, match="'plain', 'chat', 'message', not 'x'"):
        check_prompt_form("x")


def test_folders_and_files_with_a_template_are_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not has_chat_template(tmp_path)
    settings = tmp_path / "tokenizer_config.json"
    for content, known in (({}, False), ({"chat_template": ""}, False), ({"chat_template": "x"}, True)):
        settings.write_text(json.dumps(content), encoding="utf-8")
        assert has_chat_template(tmp_path) is known
    settings.unlink()
    (tmp_path / "chat_template.jinja").touch()
    assert has_chat_template(tmp_path)
    file = tmp_path / "m.gguf"
    for before, known in ((b"", True), (b"GGUF" * 4, True), (b"x" * 30, False)):
        monkeypatch.setattr(chat, "GGUF_HEADER", 50)
        file.write_bytes(before + chat.GGUF_TEMPLATE + b"...")
        assert has_chat_template(file) is known
    file.write_bytes(b"GGUF" * 10)
    assert not has_chat_template(file)


def test_shares_without_any_option_are_not_numbers() -> None:
    found = Choices(np.array([[0.0, 0.0], [0.2, 0.6]]), np.array([1.0, 0.2]), "log-probabilities").among_options()
    assert np.isnan(found[0]).all()
    np.testing.assert_allclose(found[1], [0.25, 0.75])
