"""Chat templates: the text that transformers makes, and an end for templates that have none."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("transformers")

from evenhand.errors import FormatError, UsageError
from evenhand.models.lm import chat as templates
from evenhand.models.lm.chat import render

CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
HELLO = [{"role": "user", "content": "Hello \u00e9\U0001f600\u2028<&>"}]
LOOP = "{% for i in range(99999) %}{% for j in range(99999) %}{% for k in range(99999) %}{% endfor %}{% endfor %}{% endfor %}"
DOUBLING = (
    "{% set ns = namespace(text='x' * 1000) %}{% for i in range(60) %}{% set ns.text = ns.text ~ ns.text %}{% endfor %}"
)


def test_a_template_makes_the_text_of_transformers() -> None:
    from transformers.utils.chat_template_utils import render_jinja_template

    special = {"bos_token": "<s>", "eos_token": "</s>"}
    dated = "{{ bos_token }}" + CHATML + "{{ messages | tojson }}{% generation %}{% endgeneration %}"
    for template in (CHATML, dated):
        chats = [HELLO, [{"role": "system", "content": "Be brief."}, *HELLO]] * 50  # more than one line of the worker
        ours = render(template, chats, special, name="m")
        theirs, _ = render_jinja_template(chats, chat_template=template, add_generation_prompt=True, **special)
        assert ours == theirs


@pytest.mark.parametrize(
    ("template", "says"),
    [
        (LOOP, "takes more than 1 second"),
        ("{{ 'x' * 99999999999 }}", "memory"),
        (DOUBLING, "memory"),
        ("{{ 'x' * 1000001 }}", "more than 1,000,000 characters"),
        ("{{ messages[7].content.nothing }}", "refuses a conversation"),
        ("{{ 1 // 0 }}", "ZeroDivisionError"),
        ("{% if %}", "refuses a conversation"),
        ("{{ raise_exception('System role not supported') }}", "System role not supported"),
        ("{{ ''.__class__.__mro__ }}", "unsafe"),
    ],
)
def test_a_template_that_never_ends_or_fails_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, template: str, says: str
) -> None:
    if template is LOOP:
        monkeypatch.setattr(templates, "COMPUTING", 1.0)
        templates._worker().close()
    with pytest.raises((FormatError, UsageError)) as error:
        render(template, [HELLO], {}, name="some-model")
    assert "some-model" in error.value.message
    assert says in error.value.message
    monkeypatch.undo()
    assert render(CHATML, [HELLO], {}, name="m")  # the next one is rendered as before


def test_the_worker_does_not_see_the_keys_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_SECRET_KEY", "sk-4711")
    templates._worker().close()
    render(CHATML, [HELLO], {}, name="m")
    process = templates._worker()._process
    environment = Path(f"/proc/{process.pid}/environ")
    if environment.exists():
        assert b"sk-4711" not in environment.read_bytes()
