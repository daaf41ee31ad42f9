"""Text and perplexity: seeded, exact, and kept on disk."""

import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from evenhand import corpus as corpora  # noqa: E402
from evenhand.errors import DegenerateError, EvenhandError, FormatError, InputMissingError, UsageError  # noqa: E402
from evenhand.models.lm import (  # noqa: E402
    AWDLSTM,
    LMSettings,
    TokenVocabulary,
    generate,
    load,
    perplexity,
    save,
    write_samples,
)
from evenhand.models.lm.awd_lstm.model_folder import is_saved  # noqa: E402
from evenhand.models.lm.sampling import draw_tokens  # noqa: E402

WORDS = TokenVocabulary(("he", "she", "nurse", "doctor", "<eos>", "<unk>"))
TOKENS = np.random.default_rng(0).integers(0, 6, 101).astype(np.int32)


def made(seed: int = 0, spread: float = 8.0) -> AWDLSTM:
    model = AWDLSTM(6, LMSettings(embedding=5, hidden=9, layers=2), seed=seed)
    with torch.no_grad():
        model.encoder.weight.mul_(spread)
    return model.eval()


def uniform() -> AWDLSTM:
    model = made()
    with torch.no_grad():
        model.decoder.weight.zero_()
    return model


def test_perplexity_of_a_uniform_model_is_the_vocabulary_size() -> None:
    assert perplexity(uniform(), TOKENS) == pytest.approx(6)
    assert perplexity(uniform(), TOKENS, batch=7) == pytest.approx(6)


def test_perplexity_is_that_of_the_whole_text_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model = made()
    with torch.no_grad():
        logits = model(torch.from_numpy(TOKENS[:-1]).long()[:, None]).logits[:, 0].double()
    picked = torch.log_softmax(logits, dim=-1)[torch.arange(100), torch.from_numpy(TOKENS[1:]).long()]
    expected = math.exp(-float(picked.mean()))
    assert perplexity(model, TOKENS) == pytest.approx(expected, rel=1e-6)
    for chunk in (7, 10):  # the state is carried from chunk to chunk, the last of which may be whole
        monkeypatch.setattr("evenhand.models.lm.awd_lstm.inference.CHUNK", chunk)
        assert perplexity(model, TOKENS) == pytest.approx(expected, rel=1e-6)


def test_perplexity_restores_the_mode_and_refuses_nan() -> None:
    model = made().train()
    first, second = perplexity(model, TOKENS), perplexity(model, TOKENS)
    assert first == second
    assert model.training
    model.decoder.bias.data[0] = math.nan
    with pytest.raises(DegenerateError, match="mean loss is nan"):
        perplexity(model, TOKENS)


def test_samples_depend_on_the_seed_and_not_on_the_batch() -> None:
    model = made()
    whole = generate(model, WORDS, samples=7, tokens=12, seed=4)
    assert whole.shape == (7, 12)
    assert (whole == generate(model, WORDS, samples=7, tokens=12, seed=4, batch=3)).all()
    assert (whole[:2] == generate(model, WORDS, samples=2, tokens=12, seed=4)).all()
    assert (whole != generate(model, WORDS, samples=7, tokens=12, seed=5)).any()
    assert len({tuple(sample) for sample in whole.tolist()}) == 7


def test_burn_in_discards_the_first_tokens() -> None:
    model = made()
    assert (
        generate(model, WORDS, samples=3, tokens=9, burn_in=4) == generate(model, WORDS, samples=3, tokens=13)[:, 4:]
    ).all()


def test_words_are_sampled_with_their_probabilities() -> None:
    logits = torch.tensor([0.5, 0.0, 0.25, 0.2, 0.05]).log()
    draws = (torch.arange(20_000) + 0.5) / 20_000
    found = draw_tokens(logits.expand(20_000, 5), draws)
    assert torch.bincount(found, minlength=5).tolist() == [10_000, 0, 5_000, 4_000, 1_000]
    edges = draw_tokens(logits.expand(2, 5), torch.tensor([0.0, 1.0]))
    assert edges.tolist() == [0, 4]


def test_a_low_temperature_samples_the_likeliest_word() -> None:
    model = made()
    cold = generate(model, WORDS, samples=2, tokens=6, temperature=1e-4, start="eos")
    state, token, expected = None, torch.tensor([[4]]), []
    for _ in range(6):
        with torch.no_grad():
            out = model(token, state)
        token, state = out.logits.argmax(dim=-1), out.state
        expected.append(int(token))
    assert cold.tolist() == [expected, expected]


def test_the_first_input_is_uniform_or_the_end_of_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    model, fed = made(), []
    forward = AWDLSTM.forward
    monkeypatch.setattr(
        AWDLSTM, "forward", lambda self, tokens, *a, **k: fed.append(tokens) or forward(self, tokens, *a, **k)
    )
    generate(model, WORDS, samples=600, tokens=1, batch=600)
    counts = torch.bincount(fed[0].flatten(), minlength=6)
    assert counts.min() > 60
    generate(model, WORDS, samples=4, tokens=1, start="eos")
    assert fed[1].flatten().tolist() == [4] * 4


def test_samples_on_disk_are_documents_for_the_corpus_scores(tmp_path: Path) -> None:
    samples = generate(uniform(), WORDS, samples=30, tokens=40, seed=1)
    path = write_samples(tmp_path / "text.txt", samples, WORDS)
    lines = path.read_text().splitlines()
    assert [len(line.split()) for line in lines] == [40] * 30
    assert "<eos>" in lines[0].split()
    found = corpora.bias(
        path, groups={"female": ["she"], "male": ["he"]}, tokenizer="whitespace", documents="line", window=2
    )
    assert (found.documents, found.tokens) == (30, 1200)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"samples": 0}, "got 0"),
        ({"temperature": 0.0}, "above 0, got 0.0"),
        ({"start": "he"}, "unknown start 'he'"),
        ({"burn_in": -1}, "-1"),
        ({"seed": -1}, "seed must be"),
    ],
)
def test_wrong_arguments_are_named(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        generate(made(), WORDS, **wrong)


def test_model_and_vocabulary_must_fit() -> None:
    with pytest.raises(UsageError, match="the model has 6 words, the vocabulary 2"):
        generate(made(), TokenVocabulary(("a", "b")))


@pytest.mark.parametrize("tied", [True, False])
def test_a_saved_model_is_loaded_unchanged(tmp_path: Path, tied: bool) -> None:
    model = AWDLSTM(6, LMSettings(embedding=5, hidden=9, layers=2, tied=tied), seed=3)
    save(model, WORDS, tmp_path / "m", manifest={"seed": 3})
    again, words, manifest = load(tmp_path / "m")
    assert is_saved(tmp_path / "m")
    assert not is_saved(tmp_path)
    assert words == WORDS
    assert manifest == {"seed": 3}
    assert again.settings == model.settings
    assert (again.decoder.weight is again.encoder.weight) == tied
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), again.parameters(), strict=True))
    assert not again.training


def test_folders_that_are_not_a_saved_model_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputMissingError, match="nowhere"):
        load(tmp_path / "nowhere")
    with pytest.raises(InputMissingError, match=r"config\.json"):
        load(tmp_path)
    save(made(), WORDS, tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"torn")
    with pytest.raises(FormatError, match=r"model\.safetensors: not a complete safetensors file"):
        load(tmp_path)
    (tmp_path / "vocabulary.txt").write_text("he\n")
    with pytest.raises(FormatError, match=r"vocabulary\.txt: 1 words, expected 6"):
        load(tmp_path)
    (tmp_path / "config.json").write_text('{"kind": "bert", "format": 1}')
    with pytest.raises(FormatError, match="a 'bert' of format 1"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("layers", 10**7, "tensors for 10,000,000 layers"),
        ("hidden", 10**9, "expected \\(4000000000, "),
        ("hidden", "12", "hidden is '12', expected int"),
        ("layers", 2.5, "layers is 2.5, expected int"),
        ("layers", 0, "layers"),
        ("unheard_of", 1, "settings"),
        ("dropout_input", float("nan"), "dropout_input"),
    ],
)
def test_settings_that_the_weights_rule_out_are_refused(tmp_path: Path, name: str, value: object, says: str) -> None:
    """Before memory is taken for the model."""
    save(made(), WORDS, tmp_path)
    config = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    config["settings"][name] = value
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(FormatError, match=says):
        load(tmp_path)


@pytest.mark.parametrize("text", ['{"kind": ' * 100_000, "[1]", '{"kind": "awd-lstm", "format": 1, "words": "x"}', "{"])
def test_damaged_configurations_are_named(tmp_path: Path, text: str) -> None:
    save(made(), WORDS, tmp_path)
    (tmp_path / "config.json").write_text(text, encoding="utf-8")
    with pytest.raises(FormatError, match=r"config\.json"):
        load(tmp_path)
    assert is_saved(tmp_path) == ("awd-lstm" in text)


def test_weights_in_bfloat16_and_float8(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    save(made(), WORDS, tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    save_file({name: tensor.bfloat16() for name, tensor in tensors.items()}, tmp_path / "model.safetensors")
    loaded = dict(load(tmp_path)[0].named_parameters())
    assert all(torch.equal(loaded[name], tensor.bfloat16().float()) for name, tensor in tensors.items())
    narrow = {name: tensor.to(torch.float8_e4m3fn) for name, tensor in tensors.items()}
    save_file(narrow, tmp_path / "model.safetensors")
    with pytest.raises(FormatError, match="stored as F8_E4M3"):
        load(tmp_path)


def test_a_vocabulary_that_is_not_utf8_or_repeats_a_word_is_named(tmp_path: Path) -> None:
    save(made(), WORDS, tmp_path)
    whole = (tmp_path / "vocabulary.txt").read_bytes()
    (tmp_path / "vocabulary.txt").write_bytes(b"\xff" + whole)
    with pytest.raises(FormatError, match=r"vocabulary\.txt: not UTF-8"):
        load(tmp_path)
    (tmp_path / "vocabulary.txt").write_bytes(whole + whole)
    with pytest.raises(FormatError, match=r"vocabulary\.txt: .* twice"):
        load(tmp_path)


@pytest.mark.parametrize("name", ["config.json", "vocabulary.txt", "model.safetensors"])
def test_pipes_are_refused_instead_of_waited_for(tmp_path: Path, name: str) -> None:
    save(made(), WORDS, tmp_path)
    (tmp_path / name).unlink()
    os.mkfifo(tmp_path / name)
    with pytest.raises(EvenhandError, match="is a pipe or a device"):
        load(tmp_path)
