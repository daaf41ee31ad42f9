"""System prompts as a method: what changes, what is refused, records and keys; servers take nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import evenhand as eh
from evenhand.audit.cells import change_key
from evenhand.errors import FormatError, UsageError
from evenhand.mitigations.decoding.system_prompt import CONTROL, PROMPT, PromptChange, SystemPrompt
from evenhand.subjects.subject import Subject, ViewName

TEMPLATE = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:"


class Remote(Subject):
    """A subject that offers chat and takes a prompt only, as a server does."""

    kind = "remote"
    title = "a language model behind a server"
    instead_of_changes = "a prompt only"
    system = ""

    @property
    def offers(self) -> tuple[ViewName, ...]:
        return ("chat",)

    @property
    def changeable(self) -> tuple[str, ...]:
        return ("prompt",)

    def _apply(self, change: object) -> None:
        self.system = change.system  # type: ignore[attr-defined]

    def _open_view(self, name: ViewName) -> object:
        return object()

    def _content_digest(self) -> str:
        return "remote"


@pytest.fixture
def chat(tiny_folder: Callable[..., Path], tmp_path: Path) -> eh.subjects.Subject:
    pytest.importorskip("torch")
    import shutil

    folder = tmp_path / "chat"
    shutil.copytree(tiny_folder("GPT2LMHeadModel"), folder)
    config = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps(config | {"chat_template": TEMPLATE}))
    return eh.open(f"hf:{folder}")


def test_the_prompt_stands_in_front_of_a_conversation(chat: eh.subjects.Subject) -> None:
    changed = SystemPrompt(text="Be fair.").fit(chat, "gender")(chat)
    view = changed.view("chat")
    asked = [{"role": "user", "content": "Is she here?"}]
    text = view.model.tokenizer.decode(view.prompts([asked])[0])
    assert text == "system: Be fair.\nuser: Is she here?\nassistant:"
    assert chat.view("chat").system == ""
    assert changed.digest != chat.digest
    assert changed.describe()["changes"][0]["system"] == "Be fair."
    twice = SystemPrompt(text="Be brief.").fit(changed, "gender")(changed)
    assert twice.system == "Be fair.\n\nBe brief."
    before, after = (one.view("likelihood").log_probabilities(["she is here"]) for one in (chat, changed))
    assert before.log_probabilities.tobytes() == after.log_probabilities.tobytes()


def test_the_default_text_names_the_concept_and_the_control_does_not(chat: eh.subjects.Subject) -> None:
    assert SystemPrompt().fit(chat, "gender").system == PROMPT.format(concept="gender")
    control = SystemPrompt(control=True).fit(chat, "gender")
    assert control.system == CONTROL
    assert "gender" not in CONTROL
    assert 0.8 < len(CONTROL) / len(PROMPT) < 1.25
    with pytest.raises(UsageError, match="control has a text of its own"):
        SystemPrompt(text="x", control=True).fit(chat, "gender")
    with pytest.raises(UsageError, match="needs a text"):
        SystemPrompt(text=" ").fit(chat, "gender")


def test_a_server_takes_a_prompt_and_nothing_else() -> None:
    remote = Remote("model")
    assert SystemPrompt(text="Be fair.").fit(remote, "gender")(remote).system == "Be fair."
    for id in ("linear", "leace", "steering", "directional-ablation", "self-debias", "qleace", "gbdd", "cda"):
        with pytest.raises(UsageError, match="behind a server") as caught:
            eh.mitigations.get(id)().fit(remote, "gender")
        assert caught.value.hint == "a prompt only"


def test_word_vectors_and_models_without_a_template_are_refused(tiny_folder: Callable[..., Path]) -> None:
    with pytest.raises(UsageError, match="chat models and servers"):
        SystemPrompt().fit(eh.open("glove-embedded"), "gender")
    pytest.importorskip("torch")
    with pytest.raises(UsageError, match="chat models and servers"):
        SystemPrompt().fit(eh.open(f"hf:{tiny_folder('GPT2LMHeadModel')}"), "gender")


def test_it_is_saved_as_a_change_and_not_as_a_model(chat: eh.subjects.Subject, tmp_path: Path) -> None:
    change = SystemPrompt(text="Be fair.").fit(chat, "gender")
    file = change.save(tmp_path / "prompt.json")
    assert PromptChange.load(file) == change
    with pytest.raises(UsageError, match="changed by a prompt"):
        change(chat).save(tmp_path / "model")
    file.write_text(file.read_text().replace("Be fair.", "Be mean.", 1))
    with pytest.raises(FormatError, match="checksum"):
        PromptChange.load(file)


def test_the_text_is_part_of_the_key_of_a_stage() -> None:
    concept = eh.concept("gender")
    chains = ("system-prompt", "system-prompt(text=Be fair.)", "system-prompt(control=true)")
    assert len({change_key("subject", chain, concept, 0) for chain in chains}) == 3
