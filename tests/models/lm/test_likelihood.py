"""Log-probabilities of texts: against the model itself, whatever the batch and the order."""

import math
import warnings

import numpy as np
import pytest

from evenhand.errors import DegenerateError, UsageError, VocabularyError
from evenhand.models.lm.likelihood import (
    Likelihood,
    TextScores,
    TokenLikelihood,
    conditional_log_probabilities,
    filler_tokens,
)

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")

from evenhand.models.lm import AWDLSTM, CausalLM, LMSettings, TokenVocabulary, WordLikelihood  # noqa: E402
from evenhand.models.lm.awd_lstm.inference import batches_by_length  # noqa: E402

# Some random texts are longer than the window of the tiny models; test_causal_lm checks the warning.
pytestmark = pytest.mark.filterwarnings("ignore:.*tokens that the model reads at once")
WORDS = ["<s>", "</s>", "she", "he", "saw", "a", "nurse", "doctor", "and", "the"]
VOCABULARY = TokenVocabulary(("<unk>", "<eos>", *WORDS[2:]))


def random_texts(count: int = 23, longest: int = 40) -> list[str]:
    rng = np.random.default_rng(5)
    return [" ".join(rng.choice(WORDS[2:], rng.integers(0, longest))) for _ in range(count)]


@pytest.fixture(scope="module", params=["llama", "gpt2"])
def causal(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> CausalLM:
    """Models with rotary and with absolute positions."""
    torch.manual_seed(1)
    ids = {"bos_token_id": 0, "eos_token_id": 1, "vocab_size": len(WORDS), "initializer_range": 0.4}
    if request.param == "llama":
        config = transformers.LlamaConfig(
            hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
            max_position_embeddings=24, **ids,
        )  # fmt: skip
        model = transformers.LlamaForCausalLM(config)
    else:
        model = transformers.GPT2LMHeadModel(
            transformers.GPT2Config(n_embd=16, n_layer=2, n_head=2, n_positions=24, **ids)
        )
    core = tokenizers.Tokenizer(tokenizers.models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<s>"))
    core.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    folder = tmp_path_factory.mktemp(request.param)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.save_pretrained(folder)
        transformers.PreTrainedTokenizerFast(
            tokenizer_object=core, bos_token="<s>", eos_token="</s>", pad_token="</s>"
        ).save_pretrained(folder)
        return CausalLM(folder, device="cpu", name="tiny")


@pytest.fixture(scope="module")
def word_model() -> WordLikelihood:
    model = AWDLSTM(len(VOCABULARY), LMSettings(embedding=8, hidden=12, layers=2), seed=2)
    for parameter in model.parameters():
        parameter.data.mul_(4)
    return WordLikelihood(model, VOCABULARY, name="words")


def test_both_are_likelihoods(causal: CausalLM, word_model: WordLikelihood) -> None:
    assert isinstance(causal, Likelihood)
    assert isinstance(word_model, Likelihood)
    assert (causal.name, word_model.name) == ("tiny", "words")


def test_log_probability_by_hand(causal: CausalLM) -> None:
    texts = ["she saw a nurse", "he", "", "the doctor and the nurse saw she"]
    scores = causal.log_probabilities(texts)
    assert scores.tokens.tolist() == [4, 1, 0, 7]
    for text, score in zip(texts, scores.log_probabilities, strict=True):
        ids = torch.tensor([[0, *causal.tokenizer.encode(text, add_special_tokens=False)]])
        with torch.no_grad():
            logs = causal.model(ids).logits.log_softmax(-1)[0, :-1]
        assert score == pytest.approx(logs[torch.arange(len(logs)), ids[0, 1:]].sum().item(), rel=1e-5)


def test_tokens_sum_to_the_text(causal: CausalLM, word_model: WordLikelihood) -> None:
    texts = ["she saw a nurse", " he", "", *random_texts(5)]
    for model in (causal, word_model):
        assert isinstance(model, TokenLikelihood)
        assert not model.masked
        tokens, whole = model.token_log_probabilities(texts, tokens=30), model.log_probabilities(texts)
        sums = [score.log_probabilities.sum() for score in tokens]
        np.testing.assert_allclose(sums, whole.log_probabilities, rtol=1e-5, atol=1e-5)
        assert [len(score.ids) for score in tokens] == whole.tokens.tolist()
        for text, score in zip(texts, tokens, strict=True):
            assert [text[start:stop] for start, stop in score.spans] == text.split()
        filled = model.filler_log_probabilities(["{} saw a nurse", "the {}"], ["she", "doctor"])
        assert filled[0, 0] == pytest.approx(whole.log_probabilities[0], rel=1e-5)
        assert filled.shape == (2, 2)
        assert filler_tokens(model, ["{} saw"], ["she", "the nurse"]).tolist() == [[1, 2]]


def test_a_text_after_its_context(causal: CausalLM, word_model: WordLikelihood) -> None:
    for model in (causal, word_model):
        scores = conditional_log_probabilities(model, ["she saw"], ["a nurse"])
        whole = model.log_probabilities(["she saw a nurse", "she saw"]).log_probabilities
        assert scores.tokens.tolist() == [2]
        assert scores.log_probabilities[0] == pytest.approx(whole[0] - whole[1], rel=1e-4)
        with pytest.raises(UsageError, match="1 contexts, but 2 texts"):
            conditional_log_probabilities(model, ["she"], ["a", "b"])


def test_a_loaded_model_is_shared(causal: CausalLM) -> None:
    again = CausalLM(causal.transformer)
    assert again.model is causal.model
    np.testing.assert_array_equal(
        again.log_probabilities(["she saw"]).log_probabilities, causal.log_probabilities(["she saw"]).log_probabilities
    )


@pytest.mark.parametrize("batch", [1, 3, 100])
def test_neither_batch_nor_order_changes_the_scores_of_a_causal_model(causal: CausalLM, batch: int) -> None:
    texts = random_texts()
    expected = causal.log_probabilities(texts)
    order = np.random.default_rng(0).permutation(len(texts))
    scores = causal.log_probabilities([texts[i] for i in order], batch=batch)
    np.testing.assert_allclose(scores.log_probabilities, expected.log_probabilities[order], rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(scores.tokens, expected.tokens[order])


@pytest.mark.parametrize("batch", [1, 3, 100])
def test_neither_batch_nor_order_changes_the_scores_of_a_word_model(word_model: WordLikelihood, batch: int) -> None:
    texts = random_texts()
    expected = word_model.log_probabilities(texts)
    order = np.random.default_rng(0).permutation(len(texts))
    scores = word_model.log_probabilities([texts[i] for i in order], batch=batch)
    np.testing.assert_allclose(scores.log_probabilities, expected.log_probabilities[order], rtol=1e-5, atol=1e-5)


def test_word_models_predict_from_the_end_of_a_line(word_model: WordLikelihood) -> None:
    scores = word_model.log_probabilities(["she saw\na physician", ""])
    ids = torch.from_numpy(VOCABULARY.encode(["<eos>", "she", "saw", "<eos>", "a", "<unk>"]).astype(np.int64))
    word_model.model.eval()
    with torch.no_grad():
        logs = word_model.model(ids[:-1, None]).logits[:, 0].log_softmax(-1)
    assert scores.tokens.tolist() == [5, 0]
    assert scores.log_probabilities[0] == pytest.approx(logs[torch.arange(5), ids[1:]].sum().item(), rel=1e-5)
    assert scores.log_probabilities[1] == 0


def test_long_texts_are_scored_in_pieces_with_the_state_carried_along(
    word_model: WordLikelihood, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = random_texts(5)
    expected = word_model.log_probabilities(texts).log_probabilities
    monkeypatch.setattr("evenhand.models.lm.awd_lstm.inference.SCORES_AT_ONCE", 100)
    np.testing.assert_allclose(word_model.log_probabilities(texts).log_probabilities, expected, rtol=1e-5)


def test_scoring_leaves_the_mode_of_the_model(word_model: WordLikelihood) -> None:
    word_model.model.train()
    once = word_model.log_probabilities(["she saw"]).log_probabilities
    assert word_model.model.training
    np.testing.assert_array_equal(once, word_model.log_probabilities(["she saw"]).log_probabilities)


def test_perplexity_comes_from_the_scores(causal: CausalLM) -> None:
    texts = random_texts()
    scores = causal.log_probabilities(texts)
    assert scores.perplexity == pytest.approx(causal.perplexity(texts).token, rel=1e-9)
    assert scores.perplexity == pytest.approx(math.exp(-scores.log_probabilities.sum() / scores.tokens.sum()), rel=1e-9)
    with pytest.raises(DegenerateError, match="undefined for 0 tokens"):
        _ = TextScores(np.zeros(1), np.zeros(1, dtype=np.int64)).perplexity


def test_inputs_that_are_not_texts_are_refused(causal: CausalLM, word_model: WordLikelihood) -> None:
    for model in (causal, word_model):
        with pytest.raises(UsageError, match="single text"):
            model.log_probabilities("she saw")
        with pytest.raises(UsageError, match="item 1 is not a text"):
            model.log_probabilities(["she", "\ud800"])
        with pytest.raises(UsageError, match="item 0 is not a text"):
            model.log_probabilities([None])
        with pytest.raises(UsageError, match="batch must be at least 1"):
            model.log_probabilities(["she saw"], batch=0)
        assert len(model.log_probabilities([])) == 0


def test_broken_weights_and_foreign_vocabularies_are_named(word_model: WordLikelihood) -> None:
    with pytest.raises(UsageError, match="the model has 10 words, the vocabulary 1"):
        WordLikelihood(word_model.model, TokenVocabulary(("she",)))
    model = AWDLSTM(2, LMSettings(embedding=4, hidden=4, layers=1))
    closed = WordLikelihood(model, TokenVocabulary(("she", "he")))
    assert closed.log_probabilities(["she he she"]).tokens.tolist() == [2]  # without <eos> the first is not predicted
    with pytest.raises(VocabularyError, match="'nurse'"):
        closed.log_probabilities(["nurse"])
    model.decoder.bias.data[:] = math.nan
    with pytest.raises(DegenerateError, match="log-probability of text 1 is nan"):
        closed.log_probabilities(["she", "she he"])


def test_batches_have_similar_lengths_and_few_tokens() -> None:
    batches = [rows.tolist() for rows in batches_by_length([3, 9, 1, 0, 4, 3], 2)]
    assert batches == [[1, 4], [0, 5]]
    assert [rows.tolist() for rows in batches_by_length([3, 9, 4, 3], 9, longest=8)] == [[1], [2, 0], [3]]
