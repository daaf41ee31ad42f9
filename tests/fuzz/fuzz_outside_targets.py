"""What comes from outside in other ways than files of data: bytes on a socket, chat templates, judges, logs of other tools."""

from __future__ import annotations

import functools
import io
import json
import resource
import shutil
import signal
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NoReturn

import fuzz_socket
import numpy as np
from fuzz_targets import JSON_TOKENS, TABLE_TOKENS, target

LOGS = Path(__file__).parents[1] / "interop" / "logs"

# Sockets -----------------------------------------------------------------------------------------------------------

target(
    "http-raw", "request.bin", fuzz_socket.requests, tokens=fuzz_socket.TOKENS, needs=("starlette", "uvicorn", "h11")
)(fuzz_socket.ask)  # fmt: skip

# Chat templates ----------------------------------------------------------------------------------------------------

LONGEST, MORE_MEMORY = (
    0.5,
    1 << 30,
)  # seconds and bytes that a template may take here; the child process has 10 s and 2 GB
CONVERSATION = [{"role": "system", "content": "Be fair."}, {"role": "user", "content": "Is she a nurse?\u202e"}]
TEMPLATES = (
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content | trim }}{{ eos_token }}{% endfor %}{% if add_generation_prompt %}<|a|>{% endif %}",
    "{%- if messages[0]['role'] == 'system' %}{{ raise_exception('no system') }}{% endif %}{{ messages | tojson }}",
    "{% macro f(x) %}{{ x }}{% endmacro %}{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{{ f(m) }}{% endfor %}",
    "{{ messages[0].content.split(' ')[:2] | join('-') }}{{ strftime_now('%Y') }}{{ [1, 2] | sum }}{{ 'a' * 3 }}{{ range(3) | list }}",
    "{{ ''.__class__.__mro__ }}{{ cycler.__init__.__globals__ }}{{ messages.__len__() }}{{ '{0.__class__}'.format(messages) }}",
)  # fmt: skip
TEMPLATE_TOKENS = (
    b"{{ ", b" }}", b"{% ", b" %}", b"{# ", b"{%- for m in messages %}", b"{% endfor %}", b"{% if ", b"{% endif %}", b"messages", b"m.content",
    b"| tojson", b"| join", b"| map(attribute='x')", b"| replace('a', 'b' * 999)", b"range(99999)", b"| list", b"* 99999999", b"** 9 ** 9",
    b".__class__", b"[0]", b"namespace(n=0)", b"raise_exception('x')", b"{% generation %}", b"{% break %}", b"{% include 'x' %}",
    b"{% import 'os' %}", b"loop.index", b"| attr('__class__')", b"'%c' % 0", b"'{:>99999999}'.format(1)", b"lipsum(99999)", b"\\u202e",
)  # fmt: skip


class _TooLong(BaseException):
    """The time is over."""


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    raise _TooLong


@contextmanager
def _limits() -> Iterator[None]:
    """Limit time and memory in this process, as the child process that renders templates is limited."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    limits, before = resource.getrlimit(resource.RLIMIT_AS), signal.signal(signal.SIGVTALRM, _stop)
    resource.setrlimit(resource.RLIMIT_AS, (used + MORE_MEMORY, limits[1]))
    signal.setitimer(signal.ITIMER_VIRTUAL, LONGEST)
    try:
        yield
    except _TooLong:  # the child process is ended then
        pass
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
        resource.setrlimit(resource.RLIMIT_AS, limits)


@target(
    "chat-template", "chat_template.jinja", lambda: [text.encode() for text in TEMPLATES], tokens=TEMPLATE_TOKENS,
    needs=("transformers", "jinja2"),
)  # fmt: skip
def _template(path: Path) -> object:
    """Render a template as the child process does; it answers with texts or with a sentence, and touches nothing else."""
    from transformers.utils import chat_template_utils

    from evenhand.models.lm import chat

    template = path.read_bytes().decode("utf-8", "replace")
    request = {
        "template": template,
        "conversations": [CONVERSATION, CONVERSATION[1:]],
        "special": {"eos_token": "</s>"},
    }
    answer: dict[str, object] = {"failed": "time"}
    with _limits():
        answer = chat._rendered(chat_template_utils, request)
        line = json.dumps(answer)
        assert len(line) < 12 * chat.MOST_CHARACTERS
        assert set(answer) <= {"texts", "refused", "failed"}
        assert len(answer) == 1
        for text in answer.get("texts", ()):  # type: ignore[attr-defined]
            assert isinstance(text, str)
            for leak in ("<class '", "__globals__", "<module", "<built-in"):
                assert leak not in text or leak in template, f"the sandbox shows {text[:200]!r}"
    return answer


@target(
    "chat-folder", "model/tokenizer_config.json", lambda: [json.dumps({"chat_template": TEMPLATES[0], "eos_token": "x"}).encode()],
    tokens=JSON_TOKENS, beside={"model/config.json": b"{}"},
)  # fmt: skip
def _has_template(path: Path) -> object:
    from evenhand.models.lm.chat import has_chat_template

    return has_chat_template(path.parent)


# Judges ------------------------------------------------------------------------------------------------------------

LEXICON = "# words\nawful\t-1.9\t0.5\nkind,2\nnurse\nDoctor \t 1e2\nZoë\t-0.5\n"
SENTENCES = ["She is an awful nurse, Zoë.", "", "KIND kind doctor's"]


@target(
    "judge-lexicon",
    "l.txt",
    lambda: [LEXICON.encode(), b"vader\t1\nx\t2"],
    tokens=(*TABLE_TOKENS, b"1e308", b"nan", b"-0", b"1_0"),
)
def _lexicon(path: Path) -> object:
    """Read a list of words, and judge texts with it; its verdicts are from 0 to 1."""
    from evenhand.subjects.judges import open_judge

    judge = open_judge(f"lexicon:{path}")
    scores = judge.scores(SENTENCES)
    assert len(scores) == len(SENTENCES)
    assert np.isfinite(scores).all()
    assert scores.min() >= 0
    assert scores.max() <= 1
    return judge.title, judge.classifier.digest


class _Labelled:
    exclusive = True

    def __init__(self, labels: tuple[str, ...], unit: str) -> None:
        self.name, self.labels, self.unit = "toy", labels, unit

    def predict(self, texts: list[str], *, tokens: int | None = None) -> object:
        return np.full((len(texts), len(self.labels)), 1 / max(1, len(self.labels)))


@target(
    "judge-labels",
    "j.json",
    lambda: [json.dumps({"labels": ["fine", "toxic"], "label": "toxic"}).encode()],
    tokens=JSON_TOKENS,
)
def _labels(path: Path) -> object:
    """Choose one of the labels that the configuration of a classifier names."""
    from evenhand.subjects.judges import open_judge

    try:
        content = json.loads(path.read_bytes())
        labels, label = tuple(map(str, content["labels"])), str(content["label"])
    except (ValueError, LookupError, TypeError, RecursionError):
        labels, label = ("a",), path.read_bytes().decode("utf-8", "replace")
    judge = open_judge(_Labelled(labels, "probability"), label)  # type: ignore[arg-type]
    return judge.scores(SENTENCES)


# Logs of other tools -----------------------------------------------------------------------------------------------


@functools.cache
def _results(task: str) -> tuple[bytes, bytes, str]:
    """Return the results and two or three samples of a task that lm-eval has logged, and the date in their names."""
    sample = next(LOGS.glob(f"lm-eval/**/samples_{task}_*.jsonl"))
    date = sample.stem.rpartition("_")[2]
    results = json.loads(next(sample.parent.glob(f"results_*{date}*.json")).read_text())
    kept = {"results": {task: results["results"][task]}, "n-samples": {task: results.get("n-samples", {}).get(task)}}
    kept |= {
        name: results[name] for name in ("model_name", "model_source", "lm_eval_version", "config") if name in results
    }
    kept["config"] = {"model": "hf", "model_args": "pretrained=x"} if "config" in kept else {}
    lines = sample.read_bytes().splitlines()
    return json.dumps(kept).encode(), b"\n".join(lines[: 12 if task.startswith("bbq") else 4]), date


def _tasks() -> list[str]:
    names = [
        path.name.removeprefix("samples_").rpartition("_")[0]
        for path in sorted(LOGS.glob("lm-eval/**/samples_*.jsonl"))
    ]
    return list(dict.fromkeys(names))


@target(
    "import-lm-eval", "log.bin", lambda: [b"\n".join(_results(task)[:2]) for task in _tasks()], tokens=JSON_TOKENS, needs=("polars",)
)  # fmt: skip
def _lm_eval(path: Path) -> object:
    """Write the first line as results and the others as samples of each task in it; read them, and make a record."""
    from evenhand.interop.logs.lm_eval import read_lm_eval

    folder = path.parent / "log"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    first, _, rest = path.read_bytes().partition(b"\n")
    date = "2025-01-01T00-00-00.000000"
    (folder / f"results_{date}.json").write_bytes(first)
    for task in _tasks():
        (folder / f"samples_{task}_{date}.jsonl").write_bytes(rest)
    return read_lm_eval(folder).audit()


@functools.cache
def _inspect_logs() -> list[bytes]:
    """Return logs of inspect as lines of JSON: the header, and a few samples."""
    made = []
    for file in sorted(LOGS.glob("inspect/*.eval")):
        from evenhand.interop.logs.inspect import _open_archive

        header, samples = _open_archive(file)
        parts = [header.values, *(fields.values for fields, _ in zip(samples, range(3), strict=False))]
        made.append(b"\n".join(json.dumps(part).encode() for part in parts))
    return made


def _read_log(path: Path) -> object:
    from evenhand.interop.logs.inspect import read_inspect

    return read_inspect(path).audit()


def _archive(data: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for number, line in enumerate(data.split(b"\n")[:8]):
            archive.writestr(f"samples/{number}.json" if number else "header.json", line)
    return stream.getvalue()


def _whole(data: bytes) -> bytes:
    lines = data.split(b"\n")
    return lines[0].rstrip()[:-1] + b', "samples": [' + b", ".join(lines[1:]) + b"]}"


target("import-inspect", "log.eval", _inspect_logs, tokens=JSON_TOKENS, wrap=_archive)(_read_log)
target("import-inspect-json", "log.json", _inspect_logs, tokens=JSON_TOKENS, wrap=_whole)(_read_log)
target(
    "import-inspect-zip",
    "log.eval",
    lambda: [_archive(data) for data in _inspect_logs()],
    tokens=(b"PK\1\2", b"PK\3\4", b"PK\5\6"),
)(_read_log)
