"""A masked-language-model head trained on the body of an encoder."""

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from evenhand.errors import FormatError, UsageError  # noqa: E402
from evenhand.models.encoders.transformer import load_model  # noqa: E402
from evenhand.models.huggingface import load_tokenizer  # noqa: E402
from evenhand.models.huggingface_folder import model_kind  # noqa: E402
from evenhand.models.lm.continued_training import SpecialIds, cut_blocks, mask_blocks  # noqa: E402

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))

from masked_head import train_masked_lm  # noqa: E402

Folder = Callable[..., Path]
TEXTS = ["he saw the king and his son", "she saw the queen and her daughter", "the man said that he likes art"] * 30
FAST = {"steps": 40, "batch": 8, "block": 16, "learning_rate": 3e-3, "device": "cpu"}


@pytest.fixture(scope="module")
def body(tiny_folder: Folder) -> Path:
    return tiny_folder("BertModel")


def test_training_lowers_the_loss_and_the_folder_is_a_masked_model(body: Path, tmp_path: Path) -> None:
    options = {**FAST, "steps": 150, "learning_rate": 1e-2}
    trained = train_masked_lm(body, TEXTS, TEXTS[:12], name="ours", data="three sentences", **options)
    assert trained.after.loss < trained.before.loss - 2
    assert trained.after.accuracy > trained.before.accuracy
    folder = trained.save(tmp_path / "ours", dtype="float16")
    assert model_kind(folder) == "masked-lm"
    model = load_model(folder, "masked-lm").model
    assert type(model).__name__ == "BertForMaskedLM"
    assert model.get_output_embeddings().weight is model.get_input_embeddings().weight
    card = (folder / "README.md").read_text()
    assert card.startswith("# ours")
    assert "bert-base" not in card.lower()
    assert f"{trained.before.loss:.3f} before, {trained.after.loss:.3f}" in card
    assert "three sentences" in card


def test_the_body_is_trained_as_well(body: Path) -> None:
    before = transformers.AutoModel.from_pretrained(body).state_dict()
    trained = train_masked_lm(body, TEXTS, TEXTS[:12], name="ours", data="x", **{**FAST, "steps": 2})
    after = trained.model.base_model.state_dict()
    name = "encoder.layer.0.attention.self.query.weight"
    assert not torch.equal(before[name], after[name])


def test_the_same_seed_gives_the_same_model(body: Path) -> None:
    options = {**FAST, "steps": 4}
    first, again, other = (
        train_masked_lm(body, TEXTS, TEXTS[:12], name="ours", data="x", seed=seed, **options) for seed in (1, 1, 2)
    )
    assert first.after == again.after != other.after
    assert first.before != other.before  # the head is new for each seed


def test_a_time_limit_ends_the_training(body: Path) -> None:
    options = {**FAST, "steps": 1_000_000}
    trained = train_masked_lm(body, TEXTS, TEXTS[:12], name="ours", data="x", time_limit=1.0, **options)
    assert 0 < trained.manifest["steps"] < 1_000_000
    assert trained.history[-1]["step"] == trained.manifest["steps"]


def test_blocks_hold_the_texts_between_special_tokens(body: Path) -> None:
    tokenizer = load_tokenizer(body)
    special = SpecialIds.of(tokenizer)
    blocks = cut_blocks(TEXTS[:2], tokenizer, 8, special)
    ids = [number for text in TEXTS[:2] for number in (*tokenizer(text, add_special_tokens=False)["input_ids"], 3)]
    assert blocks.shape == (len(ids) // 6, 8)
    assert (blocks[:, 0] == special.first).all()
    assert (blocks[:, -1] == special.last).all()
    assert blocks[:, 1:-1].ravel().tolist() == ids[: blocks.shape[0] * 6]


def test_masks_cover_their_share_and_never_a_special_token() -> None:
    special = SpecialIds(first=2, last=3, mask=4, never=(0, 1, 2, 3, 4), size=1000)
    blocks = torch.randint(5, 1000, (2000, 42), generator=torch.Generator().manual_seed(1))
    blocks[:, 0], blocks[:, -1], blocks[:, 20] = 2, 3, 3
    masked = mask_blocks(blocks, special, 0.15, torch.Generator().manual_seed(0))
    assert masked.positions.shape == (2000, 6)  # 15 % of 40
    assert torch.equal(masked.labels, blocks.gather(1, masked.positions))
    assert not torch.isin(masked.labels, torch.tensor([2, 3])).any()
    shown = masked.ids.gather(1, masked.positions)
    shares = [float((shown == special.mask).float().mean()), float((shown == masked.labels).float().mean())]
    assert shares == pytest.approx([0.8, 0.1], abs=0.015)  # 12,000 draws: about four standard errors
    unchanged = torch.ones_like(blocks, dtype=torch.bool).scatter(1, masked.positions, False)
    assert torch.equal(masked.ids[unchanged], blocks[unchanged])


def test_what_cannot_be_trained_is_refused(body: Path, tiny_folder: Folder) -> None:
    with pytest.raises(UsageError, match="shorter than one block"):
        train_masked_lm(body, ["he"], TEXTS, name="ours", data="x", **FAST)
    with pytest.raises(UsageError, match="masked must be"):
        train_masked_lm(body, TEXTS, TEXTS, name="ours", data="x", masked=1.0)
    with pytest.raises(UsageError, match=r"\[CLS\]"):
        train_masked_lm(tiny_folder("GPT2LMHeadModel"), TEXTS, TEXTS, name="ours", data="x", **FAST)
    with pytest.raises(FormatError, match="no head"):
        train_masked_lm(tiny_folder("DistilBertModel"), TEXTS, TEXTS, name="ours", data="x", **FAST)


def test_blocks_do_not_depend_on_how_many_texts_are_tokenised_at_once(
    body: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokenizer = load_tokenizer(body)
    special = SpecialIds.of(tokenizer)
    whole = cut_blocks(TEXTS, tokenizer, 16, special)
    monkeypatch.setattr("evenhand.models.lm.continued_training.TEXTS_AT_ONCE", 7)
    assert np.array_equal(whole, cut_blocks(TEXTS, tokenizer, 16, special))
