"""The callback on a real `transformers.Trainer` and a small real transformer."""

import copy
import warnings

import pytest

from evenhand.errors import UsageError, VocabularyError

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")
tokenizers = pytest.importorskip("tokenizers")

from evenhand.models.lm.regulariser import (  # noqa: E402
    BiasRegulariser,
    token_pairs,
)
from evenhand.models.lm.trainer_callback import BiasRegulariserCallback  # noqa: E402

WORDS = ["[UNK]", "she", "he", "her", "him", "nurse", "doctor", "saw", "met", "the", "a", "queen", "and"]
PAIRS = [("she", "he"), ("her", "him"), ("queen", "king")]


@pytest.fixture(autouse=True)
def _no_foreign_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def tokenizer():
    model = tokenizers.models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]")
    core = tokenizers.Tokenizer(model)
    core.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=core, unk_token="[UNK]", pad_token="[UNK]")


def gpt2(*, tie: bool = True):
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=len(WORDS), n_positions=16, n_embd=8, n_layer=1, n_head=2, tie_word_embeddings=tie,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    model = transformers.GPT2LMHeadModel(config)
    with torch.no_grad():
        model.get_input_embeddings().weight.mul_(20)  # from the 0.02 of a fresh GPT-2 to about the size of trained ones
    return model


def batches(rows: int = 8):
    ids = torch.randint(1, len(WORDS), (rows, 6), generator=torch.Generator().manual_seed(1))
    return [{"input_ids": row, "labels": row} for row in ids]


def trained(tmp_path, model, *callbacks, data=None, batch=2, accumulate=1, steps=1, lr=0.1, **options):
    args = transformers.TrainingArguments(
        output_dir=str(tmp_path), per_device_train_batch_size=batch, gradient_accumulation_steps=accumulate,
        max_steps=steps, learning_rate=lr, lr_scheduler_type="constant", optim="sgd", report_to="none", use_cpu=True,
        logging_steps=1, save_strategy="no", disable_tqdm=True, seed=0, **{"max_grad_norm": 0.0, **options},
    )  # fmt: skip
    trainer = transformers.Trainer(
        model, args, train_dataset=data or batches(), processing_class=tokenizer(), callbacks=list(callbacks)
    )
    trainer.train()
    return trainer


def moved(before, after):
    return (after.get_input_embeddings().weight - before.get_input_embeddings().weight).detach()


def expected_gradient(model, **options):
    """The gradient of the term by itself."""
    model = copy.deepcopy(model)
    found = token_pairs(PAIRS, tokenizer())
    term = BiasRegulariser(found.pairs, exempt=found.alone, **options)
    term.on("input")(model).backward()
    return model.get_input_embeddings().weight.grad


@pytest.mark.parametrize("accumulate", [1, 4])
def test_adds_exactly_one_gradient_of_the_term_to_each_update(tmp_path, accumulate: int) -> None:
    start = gpt2()
    plain, regularised = copy.deepcopy(start), copy.deepcopy(start)
    trained(tmp_path / "a", plain, batch=8 // accumulate, accumulate=accumulate)
    callback = BiasRegulariserCallback(PAIRS, strength=0.5)
    trained(tmp_path / "b", regularised, callback, batch=8 // accumulate, accumulate=accumulate)
    difference = moved(start, regularised) - moved(start, plain)
    torch.testing.assert_close(difference, -0.1 * expected_gradient(start, strength=0.5), atol=2e-6, rtol=1e-4)
    assert difference.abs().max() > 1e-3
    assert callback.lost == (("queen", "king"),)


class OwnLoss(torch.nn.Module):
    """A model that takes no number of items, so that the Trainer divides its loss by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = gpt2()

    def get_input_embeddings(self):
        return self.inner.get_input_embeddings()

    def forward(self, input_ids, attention_mask=None, labels=None):
        return (self.inner(input_ids=input_ids, labels=labels).loss,)


@pytest.mark.parametrize("accumulate", [4])
def test_a_model_whose_loss_the_trainer_divides(tmp_path, accumulate: int) -> None:
    start = OwnLoss()
    plain, regularised = copy.deepcopy(start), copy.deepcopy(start)
    trained(tmp_path / "a", plain, batch=8 // accumulate, accumulate=accumulate)
    trained(
        tmp_path / "b", regularised, BiasRegulariserCallback(PAIRS, strength=0.5),
        batch=8 // accumulate, accumulate=accumulate,
    )  # fmt: skip
    difference = moved(start, regularised) - moved(start, plain)
    torch.testing.assert_close(difference, -0.1 * expected_gradient(start.inner, strength=0.5), atol=2e-6, rtol=1e-4)


def test_a_last_update_of_fewer_batches_has_the_whole_term(tmp_path) -> None:
    """Five batches, four a time: the second update has one batch."""
    start, lr = gpt2(), 1e-3  # small, so that the second update starts nearly where the first did
    plain, regularised = copy.deepcopy(start), copy.deepcopy(start)
    trained(tmp_path / "a", plain, data=batches(5), batch=1, accumulate=4, steps=2, lr=lr)
    trained(
        tmp_path / "b",
        regularised,
        BiasRegulariserCallback(PAIRS),
        data=batches(5),
        batch=1,
        accumulate=4,
        steps=2,
        lr=lr,
    )
    difference = moved(start, regularised) - moved(start, plain)
    torch.testing.assert_close(difference, -2 * lr * expected_gradient(start), atol=1e-6, rtol=0.01)


def test_the_term_is_clipped_with_the_loss(tmp_path) -> None:
    start = gpt2()
    model = copy.deepcopy(start)
    trained(tmp_path, model, BiasRegulariserCallback(PAIRS, strength=1e4), max_grad_norm=0.25)
    pairs = zip(start.parameters(), model.parameters(), strict=True)
    step = torch.sqrt(sum((after - before).square().sum() for before, after in pairs)).item()
    assert step == pytest.approx(0.1 * 0.25, rel=1e-3)


def test_mixed_precision(tmp_path) -> None:
    start = gpt2()
    plain, regularised = copy.deepcopy(start), copy.deepcopy(start)
    trained(tmp_path / "a", plain, bf16=True)
    trained(tmp_path / "b", regularised, BiasRegulariserCallback(PAIRS, strength=0.5), bf16=True)
    difference = moved(start, regularised) - moved(start, plain)
    torch.testing.assert_close(difference, -0.1 * expected_gradient(start, strength=0.5), atol=2e-6, rtol=1e-4)


def test_logs_the_term_without_changing_evaluation_or_model(tmp_path) -> None:
    model = gpt2()
    trainer = trained(tmp_path, model, BiasRegulariserCallback(PAIRS, strength=3.0), steps=12)
    logged = [entry["bias_penalty"] for entry in trainer.state.log_history if "bias_penalty" in entry]
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert len(logged) == 12
    assert logged[-1] < 0.5 * logged[0]
    assert losses[0] > logged[0]
    assert not model._forward_hooks
    plain = trainer.evaluate(batches())["eval_loss"]
    trainer.remove_callback(BiasRegulariserCallback)
    assert trainer.evaluate(batches())["eval_loss"] == plain


def test_untied_output_embeddings(tmp_path) -> None:
    start = gpt2(tie=False)
    plain, regularised = copy.deepcopy(start), copy.deepcopy(start)
    trained(tmp_path / "a", plain)
    trained(tmp_path / "b", regularised, BiasRegulariserCallback(PAIRS, where="output"))
    torch.testing.assert_close(moved(start, regularised), moved(start, plain))
    assert not torch.allclose(regularised.lm_head.weight, plain.lm_head.weight, atol=1e-4)


def test_a_loss_that_is_not_the_models_raises_an_error(tmp_path) -> None:
    with pytest.raises(UsageError, match="not part of it"):
        trained(tmp_path, gpt2(), BiasRegulariserCallback(PAIRS), label_smoothing_factor=0.1)


def test_frozen_embeddings_are_an_error(tmp_path) -> None:
    model = gpt2()
    model.get_input_embeddings().weight.requires_grad_(False)
    with pytest.raises(UsageError, match=r"input embeddings of the GPT2LMHeadModel are frozen"):
        trained(tmp_path, model, BiasRegulariserCallback(PAIRS))


@pytest.mark.parametrize("option", ["deepspeed", "fsdp", "torch_compile"])
def test_ways_of_training_that_are_not_supported(option: str) -> None:
    args = type("Args", (), {option: True})()
    with pytest.raises(UsageError, match=option):
        BiasRegulariserCallback(PAIRS).on_train_begin(args, None, None, model=gpt2(), processing_class=tokenizer())


def test_pairs_as_tokens() -> None:
    merges = [("s", "h"), ("sh", "e"), ("h", "e"), ("Ġ", "he"), ("Ġ", "she")]
    pieces = ["s", "h", "e", "Ġ", "sh", "she", "he", "Ġhe", "Ġshe", "q"]
    core = tokenizers.Tokenizer(tokenizers.models.BPE({p: i for i, p in enumerate(pieces)}, merges))
    core.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=core)
    found = token_pairs([("she", "he"), ("she", "qqq")], fast)
    assert found.pairs == ((5, 6), (8, 7))  # she-he, and the same with a blank before
    assert found.alone == {5, 6, 7, 8}
    assert found.lost == (("she", "qqq"),)
    with pytest.raises(VocabularyError, match="none of the 1 pairs"):
        token_pairs([("qqq", "hhh")], fast)
    with pytest.raises(UsageError, match="tokenizer"):
        token_pairs([("she", "he")], None)


@pytest.mark.slow
@pytest.mark.data
def test_the_model_of_the_catalog(tmp_path) -> None:
    """SmolLM2-135M: one update with the term brings it down."""
    from evenhand import data
    from evenhand.models.lm.causal import CausalLM

    place = data.locate("smollm2-135m")
    if place is None:
        pytest.skip("smollm2-135m is not fetched: evenhand fetch smollm2-135m")
    real = CausalLM(place, device="cpu")
    ids = torch.tensor(real.tokenizer.encode("The nurse said that she was late."))
    args = transformers.TrainingArguments(
        output_dir=str(tmp_path), per_device_train_batch_size=1, max_steps=2, learning_rate=0.1, optim="sgd",
        lr_scheduler_type="constant", report_to="none", use_cpu=True, logging_steps=1, save_strategy="no",
        disable_tqdm=True, max_grad_norm=0.0,
    )  # fmt: skip
    callback = BiasRegulariserCallback(strength=1.0, tokenizer=real.tokenizer)
    trainer = transformers.Trainer(
        real.model, args, train_dataset=[{"input_ids": ids, "labels": ids}] * 4, callbacks=[callback]
    )
    trainer.train()
    first, second = (entry["bias_penalty"] for entry in trainer.state.log_history if "bias_penalty" in entry)
    assert second < 0.8 * first
    assert len(callback.regulariser.first) > len(callback.lost)
