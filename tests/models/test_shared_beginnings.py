"""Texts that share their beginning are read once, and score as they do alone."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenhand.models.lm.likelihood import conditional_log_probabilities
from evenhand.models.shared_beginnings import LONGEST_ROW, READ_TREES, plant

SEQUENCES = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=8), min_size=1, max_size=12)


def rows(*texts):
    return [np.array(text, dtype=np.int64) for text in texts]


def test_a_tree_by_hand() -> None:
    """5 6 7 and 5 6 8 9 share two tokens; 5 6 is the beginning of both."""
    (tree,) = plant(rows([5, 6, 8, 9], [5, 6], [5, 6, 7]))
    assert tree.ids == [5, 6, 7, 8, 9]
    assert tree.depths == [0, 1, 2, 2, 3]
    assert {number: path.tolist() for number, path in tree.paths.items()} == {0: [0, 1, 3, 4], 1: [0, 1], 2: [0, 1, 2]}
    assert tree.visible(6).astype(int).tolist() == [
        [1, 0, 0, 0, 0, 0],
        [1, 1, 0, 0, 0, 0],
        [1, 1, 1, 0, 0, 0],
        [1, 1, 0, 1, 0, 0],
        [1, 1, 0, 1, 1, 0],
        [0, 0, 0, 0, 0, 1],
    ]
    assert not tree.is_chain


@settings(max_examples=60)
@given(SEQUENCES, st.integers(0, 20))
def test_every_text_is_a_path_of_one_tree(texts, longest) -> None:
    trees = plant(rows(*texts), longest=longest)
    found = {}
    for tree in trees:
        seen = tree.visible(len(tree.ids))
        assert len(tree.ids) <= max(longest, max(map(len, tree.paths.values())))
        for number, path in tree.paths.items():
            assert number not in found
            found[number] = [tree.ids[place] for place in path]
            assert [tree.depths[place] for place in path] == list(range(len(path)))
            for size, place in enumerate(path, start=1):  # each token sees those before it in its text, and no others
                assert np.flatnonzero(seen[place]).tolist() == sorted(path[:size].tolist())
    assert [found[number] for number in range(len(texts))] == texts


def test_equal_texts_are_read_once_and_short_ones_fill_a_row() -> None:
    texts = rows([1, 2, 3], [1, 2, 3], [1, 7, 7, 7, 7, 7, 7], [4])  # one token of seven is not worth sharing
    (tree,) = plant(texts)
    assert tree.ids == [1, 2, 3, 1, 7, 7, 7, 7, 7, 7, 4]
    assert tree.depths == [0, 1, 2, 0, 1, 2, 3, 4, 5, 6, 0]
    trees = plant(texts, longest=0)
    assert [tree.ids for tree in trees] == [[1, 2, 3], [1, 7, 7, 7, 7, 7, 7], [4]]
    assert all(tree.is_chain for tree in trees)
    long = plant(rows(*([number] * 100 for number in range(5))))
    assert [len(tree.ids) for tree in long] == [200, 200, 100]
    assert [tree.ids for tree in plant(rows([1, 2], [1, 2, 3]), longest=0)] == [[1, 2], [1, 2, 3]]


SIZES = {
    "vocab_size": 40,
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
SPECIAL = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1, "initializer_range": 0.4}
OTHER_NAMES = {
    "gpt2": {"n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 64},
    **{kind: {"head_dim": 8} for kind in ("gemma", "gemma2", "gemma3_text", "qwen3")},
}


@pytest.fixture(scope="module")
def read():
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")
    from evenhand.models.encoders.transformer import Transformer
    from evenhand.models.lm.causal import CausalLM

    words = {"<s>": 0, "</s>": 1} | {f"w{number}": number for number in range(2, 40)}
    core = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="w2"))
    core.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=core, bos_token="<s>", eos_token="</s>")

    def build(kind: str, **options):
        torch.manual_seed(0)
        given = {
            **SIZES,
            **SPECIAL,
            "intermediate_size": 48,
            "max_position_embeddings": 64,
            **OTHER_NAMES.get(kind, {}),
        }
        config = transformers.AutoConfig.for_model(kind, **given, **options)
        model = transformers.AutoModelForCausalLM.from_config(config).eval()
        return CausalLM(Transformer(kind, "causal-lm", model, tokenizer, "cpu", "float32"))

    return build


def texts_of(count: int = 24) -> list[str]:
    """Texts of which each goes on after a part of an earlier one."""
    rng = np.random.default_rng(3)
    texts = [[f"w{word}" for word in rng.integers(2, 40, 12)]]
    while len(texts) < count:
        start = texts[rng.integers(len(texts))]
        texts.append([*start[: rng.integers(len(start))], *(f"w{word}" for word in rng.integers(2, 40, 6))][:30])
    return [" ".join(text) for text in texts]


@pytest.mark.parametrize("kind", sorted(READ_TREES))
def test_models_score_trees_as_single_texts(read, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from evenhand.models.lm import causal

    model, texts, masks = read(kind), texts_of(), []
    plain = causal.logits_at
    monkeypatch.setattr(causal, "logits_at", lambda *a, **k: masks.append("attention_mask" in k) or plain(*a, **k))
    together = model.log_probabilities(texts)
    assert True in masks
    masks.clear()
    alone = model.log_probabilities(texts, batch=1)
    assert True not in masks
    np.testing.assert_allclose(together.log_probabilities, alone.log_probabilities, atol=1e-4, rtol=0)
    assert together.tokens.tolist() == alone.tokens.tolist()
    spread = np.ptp(alone.log_probabilities / alone.tokens)
    assert spread > 0.05  # the model is not indifferent to its input


@pytest.mark.parametrize("kind", sorted(READ_TREES))
def test_prompts_of_different_lengths_are_continued_as_alone(read, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, sizes = read(kind), []
    plain = model.model.forward

    def forward(*args, **inputs):
        sizes.append(tuple(inputs["input_ids"].shape))
        return plain(*args, **inputs)

    monkeypatch.setattr(model.model, "forward", forward)
    prompts = ["w3 w4 w5", "w9", "w3 w4 w5 w6 w7 w8", "w11 w12 w13", "w20 w21 w22 w23"]
    found = model.continuations(prompts, samples=4, tokens=8, seed=1)
    # Of two and twice four tokens with the first one; the others are more than twice as long as the shortest.
    assert [size for size in sizes if size[1] > 1] == [(3, 4), (2, 7)]
    alone = [model.continuations([prompt], samples=4, tokens=8, seed=1)[0] for prompt in prompts]
    assert found == alone
    assert len({text for texts in found for text in texts}) > 10


def test_next_tokens_are_those_of_single_prompts(read) -> None:
    model = read("llama")
    prompts = [[0, *ids.ids.tolist()] for ids in model.token_ids(texts_of())]
    groups = rows([3, 4, 5], [20])
    together = model.next_token_shares([*prompts, prompts[0]], groups)
    alone = np.concatenate([model.next_token_shares([prompt], groups) for prompt in prompts])
    np.testing.assert_allclose(together[:-1], alone, atol=1e-5)
    assert together[-1].tolist() == together[0].tolist()


@pytest.mark.parametrize("pooling", ["last", "mean", "max", "cls"])
def test_sentence_vectors_are_those_of_single_texts(read, pooling: str) -> None:
    from evenhand.models.encoders.sentences import TransformerSentences

    model, texts = read("llama"), texts_of()
    view = TransformerSentences(model.transformer)
    together = view.encode_layers(texts, pooling=pooling)
    alone = np.concatenate([view.encode_layers([text], pooling=pooling) for text in texts], axis=1)
    np.testing.assert_allclose(together, alone, atol=2e-4)  # states of up to 27
    assert np.array_equal(view.encode(texts, pooling=pooling), together[-1])


def test_only_asked_tokens_are_scored(read) -> None:
    model, texts = read("llama"), texts_of(6)
    every = model.token_log_probabilities(texts)
    positions = [[1, 4], [], [0], [2, 3], [5], list(range(4))]
    some = model.token_log_probabilities(texts, positions)
    for whole, part, chosen in zip(every, some, positions, strict=True):
        np.testing.assert_allclose(part.log_probabilities[chosen], whole.log_probabilities[chosen], atol=1e-5)
        assert np.isnan(np.delete(part.log_probabilities, chosen)).all()


def test_the_model_reads_a_context_of_several_answers_once(read, monkeypatch: pytest.MonkeyPatch) -> None:
    from evenhand.models.lm import causal

    model, work = read("llama"), []
    plain = causal.logits_at
    monkeypatch.setattr(
        causal, "logits_at", lambda m, r, c, **k: work.append((k["input_ids"].numel(), len(r))) or plain(m, r, c, **k)
    )
    context = " ".join(f"w{number}" for number in range(2, 22))
    conditional_log_probabilities(model, [context] * 3, ["w30 w31", "w32", "w33 w34"])
    # first token, 20 of the context, and two of the answers; the last token of an answer predicts nothing
    assert work == [(23, 3)]


def test_models_that_cannot_read_trees_score_single_texts(read) -> None:
    from evenhand.models.shared_beginnings import reads_trees

    assert not reads_trees(read("bloom", n_layer=2, n_head=4).model, 5)  # positions are part of its attention
    windowed = read("mistral", sliding_window=8)
    assert reads_trees(windowed.model, 8)
    assert not reads_trees(windowed.model, 9)
    texts = texts_of()
    together, alone = windowed.log_probabilities(texts), windowed.log_probabilities(texts, batch=1)
    np.testing.assert_allclose(together.log_probabilities, alone.log_probabilities, atol=1e-4)


def test_long_rows_are_divided() -> None:
    trees = plant(rows(*([*range(40), number, number] for number in range(1000))))
    assert max(len(tree.ids) for tree in trees) <= LONGEST_ROW
    assert sum(len(tree.ids) for tree in trees) == pytest.approx(1000 * 2 + len(trees) * 40, abs=3)
    assert [len(tree.ids) for tree in plant(rows(range(1000), range(2000)))] == [1000, 2000]
