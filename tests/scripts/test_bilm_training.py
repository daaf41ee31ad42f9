"""Training a biLM: the loss falls, the seed decides, a resumed training equals an uninterrupted one."""

import lzma
import math
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from evenhand.errors import DegenerateError, FormatError, UsageError  # noqa: E402
from evenhand.models.encoders.elmo.files import character_ids  # noqa: E402
from tiny_elmo import TINY  # noqa: E402

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))

import bilm_training as training  # noqa: E402
from bilm_training import (  # noqa: E402
    END,
    OTHER,
    START,
    BiLM,
    BiLMSettings,
    BiLMTraining,
    SentenceBatches,
    SentenceCorpus,
    TrainedBiLM,
    train_bilm,
)

NOUNS, VERBS = ("king", "queen", "cat", "dog"), ("saw", "met", "fed")
LINES = [f"the {noun} {verb} the {other}" for noun in NOUNS for verb in VERBS for other in NOUNS]
LINES += ["he slept", "she slept and she sang and he sang"]
SETTINGS = BiLMSettings(vocabulary=100, samples=0, tokens=60, epochs=3, warmup=3, learning_rate=0.02)


@pytest.fixture(scope="module")
def corpus() -> SentenceCorpus:
    return SentenceCorpus.of([line.split() for line in LINES], name="toy")


def train(corpus: SentenceCorpus, **options: object) -> TrainedBiLM:
    given = {"options": TINY, "settings": SETTINGS, "device": "cpu", **options}
    return train_bilm(corpus, SentenceCorpus.of([line.split() for line in LINES[:9]], words=corpus.words), **given)  # type: ignore[arg-type]


def test_words_are_numbered_by_frequency_after_the_special_ones(corpus: SentenceCorpus) -> None:
    assert corpus.words[:4] == ("<S>", "</S>", "<unk>", "the")
    assert len(corpus) == len(LINES)
    assert corpus.sentence(0) == ["the", "king", "saw", "the", "king"]
    valid = SentenceCorpus.of([["the", "horse"], []], words=corpus.words)
    assert (len(valid), valid.ids.tolist()) == (1, [3, OTHER])
    with pytest.raises(FormatError, match="toy: no sentences"):
        SentenceCorpus.of([[]], name="toy")


def test_a_corpus_is_read_from_plain_and_compressed_files(tmp_path: Path, corpus: SentenceCorpus) -> None:
    text = "\n".join(LINES) + "\n"
    (tmp_path / "a.txt").write_text(text)
    (tmp_path / "a.txt.xz").write_bytes(lzma.compress(text.encode()))
    for name in ("a.txt", "a.txt.xz"):
        read = SentenceCorpus.read(tmp_path / name)
        assert (read.words, read.sha256, read.name) == (corpus.words, corpus.sha256, name)
    assert len(SentenceCorpus.read(tmp_path / "a.txt", most=5)) == 5


@pytest.mark.parametrize("tokens", [5, 20, 64, 1_000])
def test_an_epoch_has_every_sentence_once_in_batches_within_the_limit(corpus: SentenceCorpus, tokens: int) -> None:
    batches = SentenceBatches(corpus, tokens=tokens, device=torch.device("cpu"))
    order = batches.order(0, 0)
    assert sorted(np.concatenate(order).tolist()) == list(range(len(corpus)))
    for batch in order:
        words, lengths = batches.batch(batch)
        assert words.numel() <= tokens or len(batch) == 1
        for row, length, sentence in zip(words.tolist(), lengths.tolist(), batch, strict=True):
            start = corpus.starts[sentence]
            inner = corpus.ids[start : start + corpus.lengths[sentence]].tolist()
            assert row[:length] == [START, *inner, END]
    assert [batch.tolist() for batch in order] == [batch.tolist() for batch in batches.order(0, 0)]


def test_each_direction_predicts_the_next_word_in_its_order(corpus: SentenceCorpus) -> None:
    model = BiLM(TINY, 100, 0.0)
    words = torch.tensor([[START, 7, 8, 9, END], [START, 5, END, END, END]])
    targets, inside = model.targets(words, torch.tensor([5, 3]))
    assert targets[0, :, 0].tolist() == [7, 8, 9, END]
    assert targets[1, :, 0].tolist() == [9, 8, 7, START]
    assert targets[0, :, 1][inside[0, :, 1]].tolist() == [5, END]
    assert targets[1, :, 1][inside[1, :, 1]].tolist() == [5, START]
    few, _ = BiLM(TINY, 8, 0.0).targets(words, torch.tensor([5, 3]))
    assert few[0, :, 0].tolist() == [7, OTHER, OTHER, END]


def test_outputs_do_not_see_what_they_predict(corpus: SentenceCorpus) -> None:
    model = BiLM(TINY, 100, 0.0).eval()
    model.initialise(0)
    characters = torch.as_tensor(character_ids(corpus.words, TINY.longest_word))
    words = torch.tensor([[START, 3, 4, 5, END]])
    other = words.clone()
    other[0, 3] = 9
    one, two = (model.outputs(characters, ids, torch.tensor([5]))[:, :, 0] for ids in (words, other))
    torch.testing.assert_close(one[0, :3], two[0, :3])  # before position 3, left to right
    assert (one[0, 3] - two[0, 3]).abs().max() > 1e-6
    torch.testing.assert_close(one[1, :1], two[1, :1])  # before position 3, right to left
    assert (one[1, 1] - two[1, 1]).abs().max() > 1e-6


def test_a_sampled_softmax_over_many_samples_comes_near_the_full_one() -> None:
    torch.manual_seed(0)
    model = BiLM(TINY, 40, 0.0)
    model.initialise(0)
    outputs, targets = torch.randn(2, 3, 5, TINY.projection), torch.randint(0, 40, (2, 3, 5))
    full = model.losses(outputs, targets)
    sampled = model.sampled_losses(outputs, targets, 200_000)
    torch.testing.assert_close(sampled, full, atol=0.02, rtol=0.02)


@pytest.mark.parametrize("samples", [0, 16])
def test_the_loss_falls_and_the_toy_language_is_learnt(corpus: SentenceCorpus, samples: int) -> None:
    settings = BiLMSettings(**{**vars(SETTINGS), "samples": samples, "epochs": 8})
    trained = train(corpus, settings=settings)
    losses = [epoch["loss"] for epoch in trained.manifest["history"]]
    assert len(losses) == 8
    assert losses[-1] < losses[0] - 0.5
    perplexity = trained.manifest["valid_perplexity"]
    for direction in ("forward", "backward"):
        assert 1 < perplexity[direction] < 0.6 * len(corpus.words)
    assert trained.manifest["device"] == "cpu"
    assert trained.manifest["vocabulary"] == len(corpus.words)
    assert trained.elmo.vectors([["an", "unseen", "word"]])[0].shape == (3, 3, 8)


def test_the_seed_decides(corpus: SentenceCorpus) -> None:
    first, again, other = (train(corpus, seed=seed).elmo.digest for seed in (0, 0, 1))
    assert first == again
    assert first != other


def test_training_leaves_the_random_state_alone(corpus: SentenceCorpus) -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    train(corpus)
    torch.testing.assert_close(torch.rand(3), expected, rtol=0, atol=0)


@pytest.fixture
def stops_after(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of steps after which training is interrupted; none while the list is empty."""
    limit: list[int] = []
    step = BiLMTraining._step

    def interrupted(self: BiLMTraining, *given: object) -> torch.Tensor:
        if limit and self.step >= limit[0]:
            raise KeyboardInterrupt
        return step(self, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(BiLMTraining, "_step", interrupted)
    return limit


@pytest.mark.parametrize("step", [1, 7, 11])
def test_a_resumed_training_equals_an_uninterrupted_one(
    corpus: SentenceCorpus, stops_after: list[int], tmp_path: Path, step: int
) -> None:
    settings = BiLMSettings(**{**vars(SETTINGS), "samples": 8, "epochs": 2})
    whole = train(corpus, settings=settings)
    assert step < whole.manifest["steps"]
    checkpoint = tmp_path / "state.safetensors"
    stops_after.append(step)
    with pytest.raises(KeyboardInterrupt):
        train(corpus, settings=settings, checkpoint=checkpoint, save_every=0.0)
    stops_after.clear()
    resumed = train(corpus, settings=settings, checkpoint=checkpoint)
    assert resumed.elmo.digest == whole.elmo.digest
    assert resumed.manifest["valid_perplexity"] == whole.manifest["valid_perplexity"]
    assert resumed.manifest["steps"] == whole.manifest["steps"]
    finished = train(corpus, settings=settings, checkpoint=checkpoint)  # nothing is left to do
    assert finished.elmo.digest == whole.elmo.digest


def test_a_checkpoint_of_another_training_is_refused(corpus: SentenceCorpus, tmp_path: Path) -> None:
    checkpoint = tmp_path / "state.safetensors"
    train(corpus, checkpoint=checkpoint)
    with pytest.raises(UsageError, match="another training: seed was 0, is 1"):
        train(corpus, checkpoint=checkpoint, seed=1)
    with pytest.raises(UsageError, match="another training: settings"):
        train(corpus, checkpoint=checkpoint, settings=BiLMSettings(**{**vars(SETTINGS), "dropout": 0.3}))
    checkpoint.write_bytes(checkpoint.read_bytes()[:500])
    with pytest.raises(FormatError, match="not a checkpoint of a biLM, or damaged"):
        train(corpus, checkpoint=checkpoint)


def test_the_time_limit_ends_training_after_a_step(corpus: SentenceCorpus) -> None:
    trained = train(corpus, time_limit=1e-9)
    assert trained.manifest["steps"] == 1
    assert math.isfinite(trained.manifest["valid_perplexity"]["forward"])


def test_a_diverging_training_is_stopped(corpus: SentenceCorpus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training.BiLM, "losses", lambda self, outputs, targets: outputs.sum(-1) * math.nan)
    with pytest.raises(DegenerateError, match="the loss is nan near step"):
        train(corpus)


def test_bad_settings_and_foreign_validation_sentences_are_refused(corpus: SentenceCorpus) -> None:
    with pytest.raises(UsageError, match="epochs must be at least 1, got 0"):
        BiLMSettings(epochs=0)
    with pytest.raises(UsageError, match=r"dropout in \[0, 1\)"):
        BiLMSettings(dropout=1.0)
    with pytest.raises(UsageError, match="numbered by other words"):
        train_bilm(corpus, SentenceCorpus.of([["he"]]), options=TINY, settings=SETTINGS, device="cpu")
