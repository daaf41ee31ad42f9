"""The parts of the word-level models by their definitions: corpus, network, scores, samples, settings, the clock."""

from __future__ import annotations

import hashlib
import json
import math
import platform
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from evenhand.errors import (  # noqa: E402
    DegenerateError,
    FormatError,
    InputMissingError,
    UnknownNameError,
    UsageError,
)
from evenhand.models.lm.awd_lstm import inference, training  # noqa: E402
from evenhand.models.lm.awd_lstm.corpus import EOS, UNK, LMCorpus, TokenVocabulary, columns, stretches  # noqa: E402
from evenhand.models.lm.awd_lstm.inference import (  # noqa: E402
    WordLikelihood,
    batches_by_length,
    generate,
    mean_loss,
    perplexity,
    samples_at_once,
    token_scores,
    write_samples,
)
from evenhand.models.lm.awd_lstm.model_folder import (  # noqa: E402
    LMSettings,
    is_saved,
    load,
    save,
    settings_of,
    word_table,
)
from evenhand.models.lm.awd_lstm.network import AWDLSTM, LMOutput, LSTMLayer  # noqa: E402
from evenhand.models.lm.awd_lstm.training import NTASGD, Schedule, TrainingState, train  # noqa: E402
from evenhand.models.lm.sampling import uniform_draws  # noqa: E402
from evenhand.version import __version__  # noqa: E402

WORDS = TokenVocabulary(("he", "she", "nurse", "doctor", EOS, UNK))
SMALL = LMSettings(embedding=4, hidden=5, layers=2)


def made(settings: LMSettings = SMALL, seed: int = 0) -> AWDLSTM:
    model = AWDLSTM(6, settings, seed=seed)
    with torch.no_grad():
        model.encoder.weight.mul_(8)
    return model.eval()


def logs_of(model: AWDLSTM, ids: list[int]) -> Any:
    with torch.no_grad():
        return model(torch.tensor(ids)[:, None]).logits[:, 0].double().log_softmax(-1).numpy()


# Corpus --------------------------------------------------------------------------------------------------------------


def test_special_words_are_added_where_words_can_be_unknown() -> None:
    texts = [["a", "b", "a"], ["b", "c"]]
    assert TokenVocabulary.of(texts).words == ("a", "b", "c")
    assert TokenVocabulary.of(texts, unknown=True).words == ("a", "b", "c", UNK, EOS)
    assert TokenVocabulary.of(texts, min_count=2).words == ("a", "b", UNK, EOS)
    assert TokenVocabulary.of(texts, min_count=2, unknown=True).words == ("a", "b", UNK, EOS)
    assert TokenVocabulary.of([[EOS, "a"]], unknown=True).words == (EOS, "a", UNK)
    with pytest.raises(UsageError, match="min_count must be at least 1, got 0"):
        TokenVocabulary.of(texts, min_count=0)
    closed = TokenVocabulary(("a", "b"))
    assert closed.encode(["b", "a"]).tolist() == [1, 0]
    assert "a" in closed
    assert "c" not in closed
    assert TokenVocabulary(("a", UNK)).encode(["b", "a"]).tolist() == [1, 0]


def test_numbers_of_a_corpus_are_those_of_its_words() -> None:
    two, none = np.array([0, 5]), np.array([], dtype=np.int32)
    corpus = LMCorpus(two, two, none, WORDS)
    assert corpus.train.dtype == np.int32
    for wrong in (np.array([0, 6]), np.array([-1, 0])):
        with pytest.raises(UsageError, match="the train text has numbers outside the vocabulary of 6"):
            LMCorpus(wrong, two, none, WORDS)
        with pytest.raises(UsageError, match="the test text has numbers"):
            LMCorpus(two, two, wrong, WORDS)
    for train_text, valid in ((two, two[:1]), (two[:1], two)):
        with pytest.raises(FormatError, match="training and validation text need tokens, got "):
            LMCorpus(train_text, valid, none, WORDS)
    hasher = hashlib.sha256("\n".join(WORDS.words).encode())
    for split, tokens in (("train", corpus.train), ("valid", corpus.valid), ("test", corpus.test)):
        hasher.update(split.encode() + tokens.tobytes())
    assert corpus.describe() == {
        "name": "", "tokens": {"train": 2, "valid": 2, "test": 0}, "words": 6, "vocabulary_from": "all",
        "sha256": hasher.hexdigest(),
    }  # fmt: skip


def test_a_corpus_of_two_files(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("a b\nb\n")
    (tmp_path / "VALID").write_text("a c\n\n")
    (tmp_path / "test.d").mkdir()  # a folder is no split
    corpus = LMCorpus.folder(tmp_path, vocabulary="train")
    assert (corpus.name, corpus.counted, corpus.test.tolist()) == (tmp_path.name, "train", [])
    assert corpus.vocabulary.words == ("a", "b", EOS, UNK)
    assert corpus.vocabulary.decode(corpus.valid) == ["a", UNK, EOS, EOS]
    assert LMCorpus.read(tmp_path / "train.txt", tmp_path / "VALID").name == "train.txt"
    assert LMCorpus.read(tmp_path / "train.txt", tmp_path / "VALID", name="x").name == "x"
    with pytest.raises(UsageError, match="unknown vocabulary 'some'"):
        LMCorpus.folder(tmp_path, vocabulary="some")


def test_columns_need_two_tokens_each() -> None:
    assert columns(np.arange(6), 3).tolist() == [[0, 2, 4], [1, 3, 5]]
    with pytest.raises(
        UsageError, match=r"5 tokens are too few for 3 columns of at least 2\n.*more text, or a smaller batch"
    ):
        columns(np.arange(5), 3)
    with pytest.raises(UsageError, match=r"too few for 1 columns of at least 2\n.*use more text$"):
        columns(np.arange(1), 1)


@pytest.mark.parametrize(("steps", "bptt", "seed", "epoch"), [(1, 70, 0, 1), (900, 70, 3, 2), (400, 8, 1, 1)])
def test_stretches_by_hand(steps: int, bptt: int, seed: int, epoch: int) -> None:
    rng, expected = np.random.default_rng([seed, epoch]), []
    while sum(expected) < steps - 1:
        centre = bptt / 2 if rng.random() < 0.05 else bptt
        expected.append(min(steps - 1 - sum(expected), max(5, math.trunc(rng.normal(centre, 5)))))
    assert stretches(steps, bptt, seed=seed, epoch=epoch) == expected


# Network -------------------------------------------------------------------------------------------------------------


def cells(layer: LSTMLayer, values: Any, hidden: Any, cell: Any, recurrent: Any) -> Any:
    """The outputs of a layer, step by step, with given recurrent weights, and its last cells."""
    outputs = []
    for value in values:
        gates = value @ layer.weight_ih.T + hidden @ recurrent.T + layer.bias_ih + layer.bias_hh
        i, f, g, o = gates.chunk(4, -1)
        cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
        hidden = o.sigmoid() * cell.tanh()
        outputs.append(hidden)
    return torch.stack(outputs), cell


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("train_mode", [True, False])
def test_a_forward_pass_by_hand(train_mode: bool, tied: bool) -> None:
    settings = replace(SMALL, layers=3, tied=tied, dropout_embedding=0.3, dropout_hidden=0.2)
    model = made(settings).train(train_mode)
    tokens = torch.randint(0, 6, (7, 3), generator=torch.Generator().manual_seed(1))
    state = tuple(
        tuple(torch.randn(1, 3, units, generator=torch.Generator().manual_seed(units + n)) for n in range(2))
        for units in (5, 5, 4)
    )
    found = model(tokens, state, generator=torch.Generator().manual_seed(2))
    drawn = torch.Generator().manual_seed(2)

    def mask(shape: tuple[int, ...], share: float) -> Any:
        if not train_mode:
            return torch.ones(shape)
        return torch.empty(shape).bernoulli_(1 - share, generator=drawn) / (1 - share)

    values = model.encoder.weight[tokens] * mask((6, 1), 0.3)[tokens]
    values = values * mask((1, 3, 4), settings.dropout_input)
    for number, layer in enumerate(model.layers):
        recurrent = layer.weight_hh * mask(tuple(layer.weight_hh.shape), settings.weight_drop)
        raw, cell = cells(layer, values, state[number][0][0], state[number][1][0], recurrent)
        torch.testing.assert_close(found.state[number][0][0], raw[-1])
        torch.testing.assert_close(found.state[number][1][0], cell)
        share = settings.dropout_output if number == 2 else settings.dropout_hidden
        values = raw * mask((1, 3, layer.units), share)
    torch.testing.assert_close(found.raw, raw)
    torch.testing.assert_close(found.dropped, values)
    torch.testing.assert_close(found.logits, values @ model.decoder.weight.T + model.decoder.bias)
    assert (model.decoder.weight is model.encoder.weight) is tied


@pytest.mark.parametrize("tied", [True, False])
def test_the_first_weights_by_hand(tied: bool) -> None:
    model = AWDLSTM(6, replace(SMALL, tied=tied), seed=3)
    drawn = torch.Generator().manual_seed(3)
    for weight in (model.encoder.weight, *([] if tied else [model.decoder.weight])):
        assert torch.equal(weight, torch.empty(6, 4).uniform_(-0.1, 0.1, generator=drawn))
    assert not model.decoder.bias.any()
    assert [(layer.inputs, layer.units) for layer in model.layers] == [(4, 5), (5, 4)]
    for layer in model.layers:
        bound = layer.units**-0.5
        shapes = [
            (4 * layer.units, layer.inputs),
            (4 * layer.units, layer.units),
            (4 * layer.units,),
            (4 * layer.units,),
        ]
        assert [tuple(parameter.shape) for parameter in layer.parameters()] == shapes
        for parameter in layer.parameters():
            assert torch.equal(parameter, torch.empty(parameter.shape).uniform_(-bound, bound, generator=drawn))


def test_units_are_aligned_on_a_gpu_alone() -> None:
    layer = LSTMLayer(3, 9)
    assert (layer.width("cpu"), layer.width("cuda"), LSTMLayer(3, 16).width("cuda:1")) == (9, 16, 16)
    layer.align = 4
    assert (layer.width("cpu"), layer.width("cuda")) == (12, 12)
    hidden, cell = layer.start(2, torch.zeros(1, dtype=torch.float64))
    assert hidden.shape == cell.shape == (1, 2, 12)
    assert hidden.dtype == torch.float64
    assert not hidden.any()
    assert hidden is not cell


def test_sizes_and_states_of_a_model() -> None:
    model = made()
    assert (model.words, model.device.type) == (6, "cpu")
    assert [tuple(hidden.shape) for hidden, _ in model.start(3)] == [(1, 3, 5), (1, 3, 4)]
    assert model.start(3, dtype=torch.float64)[0][0].dtype == torch.float64
    assert LMSettings(embedding=4, hidden=5, layers=1).layer_widths() == [4, 4]
    assert LMSettings(embedding=4, hidden=5, layers=4).layer_widths() == [4, 5, 5, 5, 4]


# Scores --------------------------------------------------------------------------------------------------------------


def test_scores_of_texts_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    model = made()
    view = WordLikelihood(model, WORDS, name="mine")
    texts = ["he nurse\nshe  x ", "", " she", "doctor he she he nurse he"]
    numbers = [[0, 2, 4, 1, 5], [], [1], [3, 0, 1, 0, 2, 0]]
    expected = []
    for ids in numbers:
        logs = logs_of(model, [4, *ids])
        expected.append([logs[place, token] for place, token in enumerate(ids)])
    for at_once in (1 << 25, 12, 1):
        monkeypatch.setattr(inference, "SCORES_AT_ONCE", at_once)
        found = view.token_log_probabilities(texts)
        assert [score.ids.tolist() for score in found] == numbers
        for score, logs in zip(found, expected, strict=True):
            np.testing.assert_allclose(score.log_probabilities, logs, atol=1e-5)
    assert [texts[0][start:stop] for start, stop in found[0].spans] == ["he", "nurse", "\n", "she", "x"]
    assert [texts[2][start:stop] for start, stop in found[2].spans] == ["she"]
    assert found[1].spans.shape == (0, 2)
    for batch in (None, 1, 3):
        sums = view.log_probabilities(texts, batch=batch)
        np.testing.assert_allclose(sums.log_probabilities, [sum(logs) for logs in expected], atol=1e-5)
        assert sums.tokens.tolist() == [5, 0, 1, 6]
    filled = view.filler_log_probabilities(["he {}", "{} she"], ["nurse", "he"])
    wanted = view.log_probabilities(["he nurse", "he he", "nurse she", "he she"]).log_probabilities
    np.testing.assert_allclose(filled, wanted.reshape(2, 2), atol=1e-5)
    assert (view.name, view.masked, WordLikelihood(model, WORDS).name) == ("mine", False, "awd-lstm")


def test_without_the_end_of_a_line_the_first_word_is_not_predicted() -> None:
    model = made()
    closed = TokenVocabulary(("a", "b", "c", "d", "e", "f"))
    (found,) = WordLikelihood(model, closed).token_log_probabilities(["b a f"])
    logs = logs_of(model, [1, 0, 5])
    assert np.isnan(found.log_probabilities[0])
    np.testing.assert_allclose(found.log_probabilities[1:], [logs[0, 0], logs[1, 5]], atol=1e-5)
    scores = WordLikelihood(model, closed).log_probabilities(["b a f", "a", ""])
    assert scores.tokens.tolist() == [2, 0, 0]
    assert scores.log_probabilities[1:].tolist() == [0, 0]
    model.decoder.bias.data[5] = math.nan
    with pytest.raises(DegenerateError, match="mine: the log-probability of text 2 is nan"):
        WordLikelihood(model, closed, name="mine").log_probabilities(["b", "", "b a f"])


def test_scores_of_tokens_by_hand() -> None:
    logits = torch.randn(3, 4, 5, generator=torch.Generator().manual_seed(0))
    targets = torch.randint(0, 5, (3, 4), generator=torch.Generator().manual_seed(1))
    found = token_scores(logits, targets, torch.tensor([4, 2, 0]))
    logs = logits.double().log_softmax(-1)
    for row, count in enumerate((4, 2, 0)):
        for step in range(4):
            expected = float(logs[row, step, targets[row, step]]) if step < count else 0.0
            assert float(found[row, step]) == pytest.approx(expected, abs=1e-6)
    assert found.dtype == torch.float64


def test_batches_of_sequences_by_hand() -> None:
    lengths = [3, 1, 9, 2, 0, 4, 3]
    for batch, longest in ((1, None), (2, None), (9, None), (9, 8), (2, 100), (9, 1)):
        left, expected = sorted((row for row in range(7) if lengths[row] > 1), key=lambda row: (-lengths[row], row)), []
        while left:
            size = batch if longest is None else min(batch, max(1, longest // lengths[left[0]]))
            expected.append(left[:size])
            left = left[size:]
        assert [rows.tolist() for rows in batches_by_length(lengths, batch, longest=longest)] == expected
    with pytest.raises(UsageError, match="batch must be at least 1, got 0"):
        list(batches_by_length([2], 0))


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("chunk", [4096, 5, 1])
def test_perplexity_by_hand(batch: int, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inference, "CHUNK", chunk)
    model, tokens = made(), np.random.default_rng(0).integers(0, 6, 20).astype(np.int32)
    steps = 20 // batch
    losses = []
    for column in range(batch):
        ids = tokens[column * steps : (column + 1) * steps].tolist()
        logs = logs_of(model, ids)
        losses += [-logs[place, token] for place, token in enumerate(ids[1:])]
    assert perplexity(model, tokens, batch=batch) == pytest.approx(math.exp(np.mean(losses)), rel=1e-5)
    assert mean_loss(model.train(), columns(tokens, batch)) == pytest.approx(np.mean(losses), rel=1e-5)
    assert model.training


# Samples -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("start", "burn_in", "temperature"), [("uniform", 0, 1.0), ("eos", 2, 2.0), ("uniform", 3, 0.5)]
)
def test_samples_by_hand(start: str, burn_in: int, temperature: float) -> None:
    model, told = made(), []
    options = {"tokens": 5, "temperature": temperature, "start": start, "burn_in": burn_in, "seed": 4}
    found = generate(model, WORDS, samples=5, batch=2, progress=lambda *what: told.append(what), **options)
    assert told == [(2, 5, "samples"), (4, 5, "samples"), (5, 5, "samples")]
    expected = []
    for draws in uniform_draws(4, range(5), 1 + burn_in + 5):
        ids = [4 if start == "eos" else min(5, int(draws[0] * 6))]
        for draw in draws[1:]:
            shares = np.exp(logs_of(model, ids)[-1] / temperature)
            ids.append(int(np.searchsorted(np.cumsum(shares / shares.sum()), draw, side="right")))
        expected.append(ids[1 + burn_in :])
    assert found.tolist() == expected
    assert generate(model, WORDS, samples=2, first_text=3, **options).tolist() == expected[3:]
    assert (found.dtype, samples_at_once(model)) == (np.int32, 100)


def test_samples_are_drawn_as_many_at_once_as_usual(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    monkeypatch.setattr(
        inference,
        "_sample",
        lambda model, draws, *rest: sizes.append(len(draws)) or np.zeros((len(draws), 1), np.int32),
    )
    generate(made(), WORDS, samples=230, tokens=1)
    assert sizes == [100, 100, 30]


def test_sampling_leaves_the_mode_of_the_model(tmp_path: Path) -> None:
    model = made().train()
    generate(model, WORDS, samples=1, tokens=1)
    assert model.training
    path = write_samples(tmp_path / "out.txt", np.array([[0, 4], [5, 1]]), WORDS)
    assert path.read_bytes() == b"he <eos>\n<unk> she\n"
    for wrong, says in (
        ({"samples": 0}, "got 0, 1, 0"), ({"tokens": 0}, "got 1, 0, 0"), ({"burn_in": -1}, "got 1, 1, -1"),
        ({"temperature": math.nan}, "above 0, got nan"), ({"start": "x"}, "unknown start 'x'"),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=says):
            generate(model, WORDS, **{"samples": 1, "tokens": 1, **wrong})
    closed = TokenVocabulary(tuple("abcdef"))
    assert generate(model, closed, samples=1, tokens=1).shape == (1, 1)
    with pytest.raises(UsageError, match="the vocabulary has no <eos>"):
        generate(model, closed, samples=1, tokens=1, start="eos")


# Settings and folders ------------------------------------------------------------------------------------------------


def test_settings_at_their_limits() -> None:
    whole = ("embedding", "hidden", "layers", "patience", "bptt", "batch", "eval_batch", "epochs")
    shares = ("dropout_embedding", "dropout_input", "dropout_hidden", "dropout_output", "weight_drop")
    LMSettings(**dict.fromkeys(whole, 1), **dict.fromkeys((*shares, "alpha", "beta", "weight_decay"), 0.0))
    for names, values in (
        (whole, (0,)), (shares, (-0.1, 1.0)), (("learning_rate", "clip"), (0.0,)),
        (("alpha", "beta", "weight_decay"), (-1.0,)),
    ):  # fmt: skip
        for name in names:
            for value in values:
                with pytest.raises(UsageError, match=name):
                    LMSettings(**{name: value})


def test_published_settings() -> None:
    assert settings_of("ptb") == LMSettings()
    assert settings_of("wikitext-2") == LMSettings(batch=80)
    assert settings_of("cnn-dailymail", layers=2) == LMSettings(batch=80, epochs=500, layers=2)
    with pytest.raises(UnknownNameError, match="preset"):
        settings_of("x")
    with pytest.raises(UnknownNameError, match="'a'"):
        settings_of("ptb", z=1, a=2)


def test_a_folder_by_its_files(tmp_path: Path) -> None:
    folder = save(made(), WORDS, tmp_path / "lm", manifest={"seed": 3})
    config = {"format": 1, "kind": "awd-lstm", "words": 6, "settings": SMALL.to_dict(), "manifest": {"seed": 3}}
    text = (folder / "config.json").read_text(encoding="utf-8")
    assert json.loads(text) == config
    assert text == json.dumps(config, indent=1) + "\n"
    assert (folder / "vocabulary.txt").read_text(encoding="utf-8") == "he\nshe\nnurse\ndoctor\n<eos>\n<unk>\n"
    (folder / "notes.txt").touch()
    save(made(), WORDS, folder)
    assert (folder / "notes.txt").exists()
    assert load(folder)[2] == {}
    for change, says in (
        ({"kind": "x"}, "a 'x' of format 1, expected 'awd-lstm' of 1"),
        ({"format": 2}, "of format 2"),
        ({"words": 0}, "words is 0, expected"),
        ({"words": True}, "words is True|words is true"),
        ({"manifest": []}, "expected the size of the vocabulary"),
        ({"settings": []}, r"\(settings\)"),
        ({"settings": {"tied": 1}}, "tied is 1, expected bool"),
        ({"settings": {"layers": True}}, "layers is .*, expected int"),
        ({"settings": {"alpha": "x"}}, "alpha is 'x', expected float"),
    ):
        (folder / "config.json").write_text(json.dumps(config | change), encoding="utf-8")
        with pytest.raises(FormatError, match=says):
            load(folder)
    settings = SMALL.to_dict() | {"alpha": 1}  # a whole number is a number
    (folder / "config.json").write_text(json.dumps(config | {"settings": settings, "words": 1}), encoding="utf-8")
    with pytest.raises(FormatError, match=r"vocabulary\.txt: 6 words, expected 1"):
        load(folder)
    (folder / "config.json").write_text(json.dumps(config | {"settings": settings}), encoding="utf-8")
    assert load(folder)[0].settings.alpha == 1
    (folder / "config.json").write_text(json.dumps({"kind": "bert"}), encoding="utf-8")
    assert not is_saved(folder)


def test_weights_that_are_not_those_of_the_settings_are_named(tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors.torch")
    folder = save(made(replace(SMALL, tied=False)), WORDS, tmp_path / "lm")
    stored = safetensors.load_file(folder / "model.safetensors")
    assert {name: tuple(tensor.shape) for name, tensor in stored.items()} == {
        "encoder.weight": (6, 4), "decoder.weight": (6, 4), "decoder.bias": (6,),
        "layers.0.weight_ih": (20, 4), "layers.0.weight_hh": (20, 5), "layers.0.bias_ih": (20,), "layers.0.bias_hh": (20,),
        "layers.1.weight_ih": (16, 5), "layers.1.weight_hh": (16, 4), "layers.1.bias_ih": (16,), "layers.1.bias_hh": (16,),
    }  # fmt: skip
    for name in stored:
        others = {other: tensor for other, tensor in stored.items() if other != name}
        safetensors.save_file(others, folder / "model.safetensors")
        with pytest.raises(FormatError, match=f"no tensor '{name}'"):
            load(folder)
        safetensors.save_file(others | {name: torch.zeros(3, 3)}, folder / "model.safetensors")
        with pytest.raises(FormatError, match=rf"tensor '{name}' has the shape \(3, 3\), expected \("):
            load(folder)


def test_a_table_needs_words(tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors.torch")
    folder = save(made(), WORDS, tmp_path / "lm")
    table = word_table(folder)
    assert (table.words, table.name) == (("he", "she", "nurse", "doctor"), "lm")
    assert dict(table.source) == {
        "kind": "input table", "model": "awd-lstm", "tensor": "encoder.weight", "words": 4, "left_out": {"special": 2},
    }  # fmt: skip
    assert word_table(folder, name="x").name == "x"
    for wrong in (torch.zeros(5, 4), torch.zeros(6), torch.zeros(6, 4, 1)):
        safetensors.save_file({"encoder.weight": wrong}, folder / "model.safetensors")
        with pytest.raises(FormatError, match="no word table of 6 rows"):
            word_table(folder)
    (folder / "vocabulary.txt").write_text("<eos>\n<unk>\n")
    safetensors.save_file({"encoder.weight": torch.zeros(2, 4)}, folder / "model.safetensors")
    with pytest.raises(InputMissingError, match="the vocabulary has no words"):
        word_table(folder)


# Training ------------------------------------------------------------------------------------------------------------


QUICK = LMSettings(embedding=4, hidden=5, layers=2, batch=3, eval_batch=2, bptt=6, learning_rate=2.0, patience=1)


@pytest.fixture(scope="module")
def corpus() -> LMCorpus:
    text = np.tile(np.arange(6, dtype=np.int32), 12)
    return LMCorpus(text, text[:40], text[:20], WORDS, name="tiles")


def state_of(corpus: LMCorpus, **options: Any) -> TrainingState:
    given = {"seed": 3, "device": "cpu", "dtype": torch.float32, "term": None, **options}
    return TrainingState(corpus, QUICK, **given)


def test_penalties_of_activations_by_hand(corpus: LMCorpus) -> None:
    run = state_of(corpus)
    raw, dropped = (torch.randn(4, 3, 4, generator=torch.Generator().manual_seed(n)) for n in range(2))
    found = run._activation_penalty(LMOutput(None, (), raw, dropped))
    change = np.diff(raw.numpy(), axis=0)
    assert float(found) == pytest.approx(2 * float((dropped**2).mean()) + 1 * float((change**2).mean()), rel=1e-5)
    once = run._activation_penalty(LMOutput(None, (), raw[:1], dropped[:1]))
    assert float(once) == pytest.approx(2 * float((dropped[:1] ** 2).mean()), rel=1e-5)


def test_an_epoch_is_recorded_by_hand(corpus: LMCorpus) -> None:
    run = state_of(corpus, term=lambda model: model.encoder.weight.sum() * 0 + 0.25)
    assert (run.best_epoch, run.best_loss, run.seconds, run.epoch, run.step) == (0, math.inf, 0.0, 1, 0)
    assert run.text.shape == (24, 3)
    assert run.valid.shape == (20, 2)
    before = [parameter.detach().clone() for parameter in run.model.parameters()]
    while run.step < len(run.lengths):
        run.advance()
    run.records[2] = torch.linspace(0.5, 1.0, len(run.lengths))
    weights = np.array(run.lengths) / sum(run.lengths)
    loss = mean_loss(run.model, run.valid)
    epoch = run.finish_epoch(4.0)
    assert epoch.to_dict() == pytest.approx(
        {
            "number": 1,
            "train_loss": float(run.records[0].numpy() @ weights),
            "valid_perplexity": math.exp(loss),
            "regulariser": 0.25,
            "unclipped": float(np.linspace(0.5, 1.0, len(run.lengths)) @ weights),
            "averaging": False,
            "seconds": 4.0,
            "tokens_per_second": 23 * 3 / 4.0,
        },
        rel=1e-5,
    )
    assert (run.best_epoch, run.best_loss, run.optimiser.losses) == (1, loss, [loss])
    assert run.history == [epoch]
    kept = [tensor.clone() for tensor in run.best]
    assert all(torch.equal(a, b) for a, b in zip(kept, run.model.parameters(), strict=True))
    run.finish_epoch(1.0)  # the same loss is not better
    assert run.best_epoch == 1
    with torch.no_grad():
        for parameter, old in zip(run.model.parameters(), before, strict=True):
            parameter.copy_(old)
    model = run.best_model()
    assert all(torch.equal(a, b) for a, b in zip(kept, model.parameters(), strict=True))
    assert not model.training
    run.start_epoch(2)
    assert (run.epoch, run.step, run.seconds) == (2, 0, 0.0)
    assert not run.records.any()
    assert run.records.shape == (3, len(run.lengths))
    assert run.model.training


def test_weights_that_are_not_finite_end_the_training(corpus: LMCorpus) -> None:
    run = state_of(corpus)
    run.advance()
    run.check_finite()
    run.records[2, 0] = math.nan  # the share that clipping left is of no weight
    run.records[:, 1:] = math.nan  # steps to come
    run.check_finite()
    run.records[1, 0] = math.inf
    with pytest.raises(DegenerateError, match="the loss became NaN or infinite in epoch 1, step 1"):
        run.check_finite()
    run = state_of(corpus)
    run.step = 2
    run.model.decoder.bias.data[0] = math.nan
    with pytest.raises(DegenerateError, match="a weight became NaN or infinite in epoch 1, by step 2"):
        run.check_finite()
    run = state_of(corpus)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "mean_loss", lambda model, valid: math.inf)
        with pytest.raises(DegenerateError, match="the validation loss became inf after epoch 1"):
            run.finish_epoch(1.0)


class Clock:
    """A clock that is set by hand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(training.time, "perf_counter", lambda: self.now)


def scheduled(path: Path | None = None, limit: float | None = None, save_every: float = 0.0, **state: Any) -> Any:
    told: list[Any] = []
    run: Any = SimpleNamespace(history=[], step=2, lengths=[1] * 9, epoch=4, saved=[], checked=0, **state)
    run.save = lambda where, identity: run.saved.append((where, identity))

    def check() -> None:
        run.checked += 1

    run.check_finite = check
    schedule = Schedule(run, limit, path, save_every, {"a": 1}, lambda *what: told.append(what), lambda: False)
    return schedule, run, told


def test_the_clock_of_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    schedule, run, told = scheduled(Path("c"))
    for now, checked, saved in (
        (100.9, 0, 0),
        (101.0, 1, 0),
        (101.9, 1, 0),
        (102.5, 2, 0),
        (700.0, 3, 0),
        (701.5, 4, 1),
    ):
        clock.now = now
        schedule.after_step()
        assert (run.checked, len(run.saved), len(told)) == (checked, saved, checked)
    assert run.saved == [(Path("c"), {"a": 1})]
    assert told[0] == (2, 9, "epoch 4")
    clock.now = 703.0
    schedule.after_step()
    assert len(run.saved) == 1
    run.history = [SimpleNamespace(valid_perplexity=12.34)]
    schedule.report()
    assert told[-1] == (2, 9, "epoch 4, valid perplexity 12.3")
    schedule.progress = None
    schedule.report()


def test_the_clock_of_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    schedule, run, told = scheduled(Path("c"), limit=50.0, save_every=10.0)
    assert schedule.epoch_seconds == 0.0
    for now, saved, seconds in ((109.0, 0, 9.0), (110.0, 1, 1.0), (119.0, 1, 9.0), (120.0, 2, 1.0)):
        clock.now = now
        schedule.after_epoch()
        assert (len(run.saved), schedule.epoch_seconds) == (saved, seconds)
    assert len(told) == 4
    assert schedule.elapsed() == 20.0
    assert [schedule.has_time_for(seconds) for seconds in (29.9, 30.0, 30.1)] == [True, True, False]
    unlimited, other, _ = scheduled()
    assert unlimited.has_time_for(1e30)
    unlimited.save()  # without a place
    assert other.saved == []
    assert unlimited.saved == 120.0
    history = [SimpleNamespace(seconds=3.0), SimpleNamespace(seconds=7.0)]
    run.history = history
    assert Schedule(run, None, None, 0.0, {}, None, lambda: False).epoch_seconds == 7.0


def test_an_epoch_that_would_not_fit_is_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)

    def advance() -> None:
        run.step += 1
        clock.now += 2.0

    def finish(seconds: float) -> None:
        run.history.append(SimpleNamespace(seconds=seconds, valid_perplexity=1.0))
        run.ended.append((run.epoch, seconds))
        clock.now += 1.0

    def begin(epoch: int) -> None:
        run.epoch, run.step, run.seconds = epoch, 0, 0.0

    for limit, total, ended, reason, epoch, step in (
        (None, 2, [(1, 18.0), (2, 18.0)], "epochs", 3, 0),
        (37.9, 9, [(1, 18.0)], "time", 2, 0),  # an epoch and its validation take 19
        (38.0, 2, [(1, 18.0), (2, 18.0)], "epochs", 3, 0),
        (38.0, 9, [(1, 18.0), (2, 18.0)], "time", 3, 0),
        (5.0, 9, [], "time", 1, 3),
    ):
        schedule, run, _ = scheduled(limit=limit, ended=[], advance=advance, finish_epoch=finish, start_epoch=begin)
        begin(1)
        assert training._run_epochs(run, total, schedule, None) == reason
        assert (run.ended, run.epoch, run.step) == (ended, epoch, step)
    schedule, run, _ = scheduled(ended=[], advance=advance, finish_epoch=finish, start_epoch=begin)
    begin(1)
    assert training._run_epochs(run, 9, schedule, lambda history: len(history) == 2) == "stop"
    assert (run.epoch, run.seconds) == (3, 0.0)
    schedule, run, _ = scheduled(ended=[], advance=advance, finish_epoch=finish, start_epoch=begin)
    begin(1)
    run.seconds = 5.0  # of an earlier call
    schedule.interrupted = lambda: run.step == 4
    assert not training._run_steps(run, schedule)
    assert (run.step, run.seconds) == (4, 13.0)


def test_hints_name_the_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "c"
    assert training._resume_hint(None) == "nothing was saved: give a checkpoint to be able to resume"
    assert training._resume_hint(path) == f"no checkpoint was written yet to {path}"
    assert (
        training._failure_hint(path)
        == f"no checkpoint was written yet to {path}; a lower learning rate or strength may help"
    )
    assert "nothing was saved" in training._failure_hint(None)
    path.touch()
    assert training._resume_hint(path) == f"run again to resume from {path}"
    assert training._failure_hint(path).startswith(f"{path} holds the last good state")


def test_the_manifest_of_a_training(corpus: LMCorpus) -> None:
    def term(model: AWDLSTM) -> Any:
        return 0.0 * model.encoder.weight.sum()

    trained = train(corpus, settings=QUICK, regulariser=term, epochs=2, device="cpu")
    found = dict(trained.manifest)
    history = [epoch.to_dict() for epoch in trained.history]
    settings = {name: value for name, value in QUICK.to_dict().items() if name != "epochs"}
    best = min(trained.history, key=lambda epoch: epoch.valid_perplexity).number
    assert found == {
        "kind": "awd-lstm",
        "settings": settings,
        "seed": 1111,
        "corpus_sha256": corpus.digest(),
        "device": "cpu",
        "precision": "float32",
        "regulariser": "function",
        "corpus": corpus.describe(),
        "stopped_by": "epochs",
        "parameters": sum(parameter.numel() for parameter in trained.model.parameters()),
        "epochs": 2,
        "best_epoch": best,
        "averaging_since": None,
        "history": history,
        "device_name": platform.processor() or "cpu",
        "evenhand": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
    none = train(corpus, settings=QUICK, epochs=0, device="cpu")
    assert (none.manifest["best_epoch"], none.manifest["regulariser"], none.history) == (None, "", ())
    term.description = "the term"  # type: ignore[attr-defined]
    named = training._identity(corpus, state_of(corpus), term)
    assert named["regulariser"] == "the term"


def test_the_epoch_since_which_weights_are_averages() -> None:
    history = [SimpleNamespace(number=n, averaging=n >= 3, to_dict=dict) for n in range(1, 5)]
    run: Any = SimpleNamespace(
        text=torch.zeros(1), history=history, model=SimpleNamespace(parameters=list), best_epoch=0
    )
    assert (training._results(run)["averaging_since"], training._results(run)["best_epoch"]) == (3, None)


def test_averages_begin_above_the_least_of_the_earlier_losses() -> None:
    parameter = torch.nn.Parameter(torch.zeros(2))
    optimiser = NTASGD([parameter], weight_decay=0.0, clip=10.0, patience=1)
    for loss in (2.0, 3.0):
        optimiser.observe(loss)
    assert not optimiser.averaging
    optimiser.observe(2.0)  # equal to the least of 2
    assert not optimiser.averaging
    optimiser.observe(2.5)
    assert optimiser.averaging
    assert optimiser.losses == [2.0, 3.0, 2.0, 2.5]
    assert optimiser.averaged == 0
    with optimiser.averaged_weights():  # no step since
        assert not parameter.any()
    for step in (1.0, 2.0):
        parameter.grad = torch.full((2,), -step)
        assert float(optimiser.step(1.0)) == 1.0
    assert optimiser.averaged == 2
    assert optimiser.averages[0].tolist() == pytest.approx([2.0, 2.0])  # of 1 and 3
    assert parameter.tolist() == [3.0, 3.0]
