"""Further training by its definition: blocks, masks, the order of blocks, the first loss, what is recorded."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from evenhand.errors import FormatError, OutputError, UsageError  # noqa: E402
from evenhand.models.lm import continued_training as module  # noqa: E402
from evenhand.models.lm.continued_training import (  # noqa: E402
    ContinuedLM,
    ContinuedTraining,
    ContinuedTrainingSettings,
    SpecialIds,
    continue_training,
    cut_blocks,
    mask_blocks,
    with_dropout,
)
from evenhand.version import __version__  # noqa: E402

Folder = Callable[..., Path]
TEXTS = ["the nurse is a woman", "he was here", "the doctor and the teacher were there", "she is the queen"] * 30
SPECIAL = SpecialIds(first=2, last=3, mask=4, never=(0, 1, 2, 3, 4), size=50)


# Blocks -------------------------------------------------------------------------------------------------------------


def letters(texts: list[str]) -> list[list[int]]:
    return [[ord(letter) for letter in text] for text in texts]


@pytest.mark.parametrize("at_once", [1, 2, 1024])
def test_blocks_are_the_texts_one_behind_the_other(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TEXTS_AT_ONCE", at_once)
    monkeypatch.setattr(module, "sentence_tokenizer", lambda tokenizer: letters)
    tokenizer: Any = SimpleNamespace(eos_token_id=9, bos_token_id=8)
    monkeypatch.setattr(module, "encode", lambda tokenizer, texts, **options: {"input_ids": letters(texts)})
    texts = ["abc", "", "de", "f"]
    a, b, c, d, e, f = map(ord, "abcdef")
    masked = cut_blocks(iter(texts), tokenizer, 5, SPECIAL)
    assert masked.tolist() == [[2, a, b, c, 3], [2, 3, 3, d, 3], [2, e, 3, f, 3]]
    assert masked.dtype == np.int32
    assert cut_blocks(texts, tokenizer, 6, SPECIAL).tolist() == [[2, a, b, c, 3, 3], [2, 3, d, e, 3, 3]]
    assert cut_blocks([], tokenizer, 5, SPECIAL).shape == (0, 5)
    assert module._causal_blocks(texts, tokenizer, 5).tolist() == [[a, b, c, 9, 9], [d, e, 9, f, 9]]
    tokenizer.eos_token_id = None
    assert module._causal_blocks(texts, tokenizer, 4).tolist() == [[a, b, c, 8], [8, d, e, 8]]
    tokenizer.bos_token_id = None
    assert module._causal_blocks(texts, tokenizer, 4).tolist() == [[a, b, c, d]]
    tokenizer.eos_token_id = 0
    assert module._causal_blocks(texts, tokenizer, 5).tolist() == [[a, b, c, 0, 0], [d, e, 0, f, 0]]


@pytest.mark.parametrize(("share", "width", "count"), [(0.15, 20, 3), (0.5, 12, 5), (0.01, 10, 1), (0.25, 12, 2)])
def test_masks_by_hand(share: float, width: int, count: int) -> None:
    rng = np.random.default_rng(0)
    blocks = torch.tensor(np.pad(rng.integers(5, 50, (300, width - 2)), ((0, 0), (1, 1)), constant_values=3))
    blocks[::2, 2] = 0
    found = mask_blocks(blocks, SPECIAL, share, torch.Generator().manual_seed(7))
    generator = torch.Generator().manual_seed(7)
    draws = torch.rand(blocks.shape, generator=generator)
    expected = blocks.clone()
    kinds = torch.rand((300, count), generator=generator)
    others = torch.randint(50, (300, count), generator=generator)
    for row in range(300):
        usual = [column for column in range(width) if int(blocks[row, column]) not in SPECIAL.never]
        chosen = sorted(usual, key=lambda column: -float(draws[row, column]))[:count]
        assert found.positions[row].tolist() == chosen
        for place, column in enumerate(chosen):
            assert int(found.labels[row, place]) == int(blocks[row, column])
            if kinds[row, place] >= 0.1:
                expected[row, column] = others[row, place] if kinds[row, place] < 0.2 else 4
    assert torch.equal(found.ids, expected)


def test_each_block_is_used_once_before_any_is_used_again() -> None:
    run = object.__new__(ContinuedTraining)
    run.blocks, run.seed = torch.zeros(7, 3), 5
    orders = [np.random.default_rng([5, 1, epoch]).permutation(7) for epoch in range(7)]
    every = np.concatenate(orders).tolist()
    for batch in (1, 2, 7, 10):
        run.batch = batch
        for step in range(4):
            assert run._rows(step).tolist() == every[step * batch : (step + 1) * batch]
        assert run._rows(0).tolist() == every[:batch]


class Scripted(ContinuedTraining):
    """Takes the losses from a list."""

    def __init__(self, total: int, losses: list[float], **settings: Any) -> None:
        self.settings = ContinuedTrainingSettings(**settings)
        self.total, self.done, self.history, self.path = total, 0, [], None
        self.losses, self.rates, self.rows = losses, [], ""
        self.network = SimpleNamespace(train=lambda: None)
        self.blocks, self.loss, self.counted = torch.zeros(3, 1234), torch.zeros(()), 0

    def _rows(self, step: int) -> Any:
        return torch.tensor([step % 3])

    def _examples(self, blocks: Any) -> Any:
        return blocks, blocks, blocks

    def gradient(self, size: int, loss: Any, *, row: str) -> Any:
        assert size == 1
        self.rows = row
        return torch.tensor(self.losses[self.done])

    def update(self, *, learning_rate: float | None = None, clip: float | None = None) -> None:
        self.rates.append((learning_rate, clip))


@pytest.mark.parametrize(("total", "every"), [(80, 2), (79, 1), (125, 3), (3, 1)])
def test_the_history_holds_the_mean_losses_of_its_parts(total: int, every: int) -> None:
    losses = [float(number**2 % 17) for number in range(total)]
    run, told = Scripted(total, losses, clip=0.5), []
    for _ in range(total):
        run.advance(lambda *what: told.append(what))
        run.done += 1
    ends = [*range(every, total, every), total]
    starts = [0, *ends[:-1]]
    expected = [{"step": b, "loss": pytest.approx(np.mean(losses[a:b]))} for a, b in zip(starts, ends, strict=True)]
    assert run.history == expected
    assert run.rates == [(run.settings.rate(step / total), 0.5) for step in range(1, total + 1)]
    assert told[-1] == (total, total, f"loss {np.mean(losses[starts[-1] :]):.3f}")
    assert told[0] == (1, total, f"loss {losses[0]:.3f}" if every == 1 else "")
    assert run.rows == "block of 1,234 tokens"


def test_a_checkpoint_ends_a_part_of_the_history() -> None:
    run = Scripted(200, [1.0] * 200, checkpoint_every=3)
    assert [step for step in range(1, 13) if run._saves_after(step)] == [3, 6, 9, 12]
    run.path = Path("x")
    for _ in range(9):
        run.advance(lambda *what: None)
        run.done += 1
    assert [part["step"] for part in run.history] == [3, 6, 9]
    assert run.checkpoint_is_due()
    run.done = 10
    assert not run.checkpoint_is_due()
    usual = Scripted(200, [])
    assert [step for step in range(1, 61) if usual._saves_after(step)] == [20, 40, 60]
    assert Scripted(5, [])._saves_after(1)


# Real trainings ------------------------------------------------------------------------------------------------------


QUICK = {"steps": 1, "tokens": 80, "block": 20, "device": "cpu", "hidden_dropout": 0.0, "attention_dropout": 0.0}


def first_loss(folder: Path, blocks: Any, *, masked: bool) -> float:
    """Return the loss of the first batch of four blocks before any update."""
    kind = transformers.AutoModelForMaskedLM if masked else transformers.AutoModelForCausalLM
    model = kind.from_pretrained(folder).eval()
    rows = torch.tensor(blocks[np.random.default_rng([3, 1, 0]).permutation(len(blocks))[:4]]).long()
    if masked:
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        seed = int(np.random.default_rng([3, 2, 0]).integers(1 << 31))
        special = SpecialIds.of(tokenizer)
        found = mask_blocks(rows, special, 0.15, torch.Generator().manual_seed(seed))
        assert found.positions.shape == (4, 3)  # 15 % of 18
        with torch.no_grad():
            logits = model(found.ids).logits
        chosen = torch.stack([logits[row, places] for row, places in enumerate(found.positions)])
        return float(torch.nn.functional.cross_entropy(chosen.flatten(0, 1), found.labels.flatten()))
    with torch.no_grad():
        logits = model(rows[:, :-1]).logits
    return float(torch.nn.functional.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten()))


@pytest.mark.parametrize("class_name", ["BertForMaskedLM", "GPT2LMHeadModel"])
def test_the_first_loss_and_the_manifest_by_hand(class_name: str, tiny_folder: Folder, tmp_path: Path) -> None:
    folder, masked = tiny_folder(class_name), class_name.startswith("Bert")
    trained = continue_training(folder, TEXTS, seed=3, **QUICK)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    ids = [token for text in TEXTS for token in [*tokenizer.encode(text, add_special_tokens=False), 3 * masked]]
    inner = 18 if masked else 20
    rows = np.array(ids[: len(ids) // inner * inner], dtype=np.int32).reshape(-1, inner)
    blocks = np.pad(rows, ((0, 0), (1, 1)), constant_values=((0, 0), (2, 3))) if masked else rows
    assert [part["step"] for part in trained.history] == [1]
    assert trained.history[0]["loss"] == pytest.approx(first_loss(folder, blocks, masked=masked), rel=1e-4)
    found = trained.to_dict()
    assert found.pop("seconds") >= 0
    settings = ContinuedTrainingSettings(**QUICK).resolve().to_dict() | {"checkpoint_every": 0}
    rates = (
        ("hidden_dropout_prob", "attention_probs_dropout_prob")
        if masked
        else ("resid_pdrop", "embd_pdrop", "attn_pdrop")
    )
    parameters = getattr(transformers, class_name).from_pretrained(folder).num_parameters()
    assert found == {
        "evenhand": __version__,
        "model": folder.name,
        "kind": "masked-lm" if masked else "causal-lm",
        "blocks": len(blocks),
        "block": 20,
        "sha256_of_training_tokens": hashlib.sha256(blocks.tobytes()).hexdigest(),
        "settings": settings,
        "dropout": dict.fromkeys(rates, 0.0),
        "seed": 3,
        "trained_parameters": parameters,
        "packages": {name: version(name) for name in ("torch", "transformers", "numpy")},
        "parts_of_a_batch": 1,
        "history": [{"step": 1, "loss": trained.history[0]["loss"]}],
    }
    assert not trained.model.training
    (tmp_path / "out").mkdir()
    path = trained.save(tmp_path / "out")  # an empty folder is filled
    assert json.loads((path / "training.json").read_text(encoding="utf-8")) == json.loads(json.dumps(trained.to_dict()))
    with pytest.raises(OutputError, match="is not an empty folder"):
        trained.save(path)
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="is not an empty folder"):
        trained.save(tmp_path / "file")
    assert trained.save(tmp_path / "a" / "b").is_dir()


@pytest.mark.parametrize(("padding", "block"), [(0, 64), (1, 62)])
def test_a_block_fits_the_window(
    padding: int, block: int, tiny_folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RoBERTa numbers positions from the padding index on."""
    folder = tiny_folder("RobertaForMaskedLM", pad_token_id=padding)
    monkeypatch.setattr(ContinuedTraining, "run", lambda self, *arguments: None)
    for asked, expected in ((200, block), (62, 62), (30, 30)):
        assert continue_training(folder, TEXTS, device="cpu", block=asked).manifest["block"] == expected
    with pytest.raises(UsageError, match=f"the texts are shorter than one block of {block} tokens"):
        continue_training(folder, ["he"], device="cpu")


def test_a_model_without_a_longest_text_reads_blocks_of_any_length(
    tiny_folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Run:
        dropout, history, parts = (), (), 1
        network = SimpleNamespace(parameters=list)

        def __init__(self, *arguments: object) -> None: ...

        def run(self, *arguments: object) -> None: ...

        def finished_model(self) -> None: ...

    model = SimpleNamespace(config=SimpleNamespace(pad_token_id=3))
    monkeypatch.setattr(module, "load_model", lambda folder, kind: SimpleNamespace(model=model))
    monkeypatch.setattr(module, "ContinuedTraining", Run)
    folder = tiny_folder("GPT2LMHeadModel")
    assert continue_training(folder, TEXTS, device="cpu", block=100).manifest["block"] == 98
    model.config.pad_token_id = None
    assert continue_training(folder, TEXTS, device="cpu", block=100).manifest["block"] == 100


def test_dropout_is_set_where_the_configuration_has_it() -> None:
    config = transformers.BertConfig(
        vocab_size=9, hidden_size=4, num_hidden_layers=1, num_attention_heads=1, intermediate_size=4
    )
    model: Any = SimpleNamespace(config=config)
    rates = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}
    changed, found = with_dropout(model, 0.3, None)
    assert found == {**rates, "hidden_dropout_prob": 0.3}
    assert (changed.hidden_dropout_prob, config.hidden_dropout_prob) == (0.3, 0.1)
    assert with_dropout(model, None, 0)[1] == {**rates, "attention_probs_dropout_prob": 0.0}
    assert with_dropout(model, None, None)[1] == rates
    model.config = SimpleNamespace(model_type="bert", dropout="x", attention_probs_dropout_prob=0.1)
    with pytest.raises(FormatError, match=r"bert models have no hidden dropout \(none of hidden_dropout_prob, dropout"):
        with_dropout(model, 0.3, None)
    assert with_dropout(model, None, None)[1] == {"attention_probs_dropout_prob": 0.1}


def test_settings_at_their_limits() -> None:
    ContinuedTrainingSettings(steps=1, tokens=1, rank=1, block=8, hidden_dropout=0.0, attention_dropout=0.0)
    for name, value in (
        ("steps", 0), ("tokens", 0), ("rank", 0), ("block", 7), ("checkpoint_every", -1), ("hidden_dropout", 1.0),
        ("attention_dropout", -0.1), ("masked", 0.0), ("masked", 1.0), ("adapter", "x"),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=name):
            ContinuedTrainingSettings(**{name: value})
    assert ContinuedTrainingSettings(checkpoint_every=3) == ContinuedTrainingSettings()
    assert ContinuedTrainingSettings(block=9) != ContinuedTrainingSettings()


def test_a_tokenizer_without_special_tokens_is_named() -> None:
    class Tokenizer:
        cls_token_id, sep_token_id, mask_token_id, all_special_ids = 2, 3, 4, [4, 2, 3, 2, 0]

        def __len__(self) -> int:
            return 50

    tokenizer: Any = Tokenizer()
    assert SpecialIds.of(tokenizer) == (2, 3, 4, (0, 2, 3, 4), 50)
    tokenizer.sep_token_id = None
    with pytest.raises(UsageError, match=r"the tokenizer has no \[SEP\]$|the tokenizer has no \[SEP\]\n"):
        SpecialIds.of(tokenizer)
    tokenizer.cls_token_id = None
    with pytest.raises(UsageError, match=r"no \[CLS\], \[SEP\]"):
        SpecialIds.of(tokenizer)


def test_a_result_is_compared_by_identity() -> None:
    parts: Any = (None, None, (), {})
    assert ContinuedLM(*parts) != ContinuedLM(*parts)
