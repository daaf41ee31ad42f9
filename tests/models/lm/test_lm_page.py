"""The Python examples of docs/how-to/language-models.md run as they are printed."""

import re
import warnings
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")
tokenizers = pytest.importorskip("tokenizers")

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "language-models.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
WORDS = ["<unk>", "she", "he", "her", "him", "saw", "the", "nurse"]


def belongings() -> dict:
    """What the page calls yours: a small model, its tokenizer and some text."""
    core = tokenizers.Tokenizer(tokenizers.models.WordLevel({w: i for i, w in enumerate(WORDS)}, unk_token="<unk>"))
    core.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=core, unk_token="<unk>", pad_token="<unk>")
    config = transformers.GPT2Config(
        vocab_size=8, n_positions=8, n_embd=8, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=0
    )
    row = torch.tensor([1, 5, 6, 7])
    return {
        "tokenizer": tokenizer,
        "model": transformers.GPT2LMHeadModel(config),
        "dataset": [{"input_ids": row, "labels": row}] * 16,
    }


@pytest.mark.parametrize("example", EXAMPLES, ids=("loop", "trainer", "train"))
def test_examples_run(example: str, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    for part in ("train", "valid", "test"):
        Path(f"{part}.txt").write_text("she saw the nurse\nhe saw the doctor\n" * 60)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(example, str(PAGE), "exec"), belongings())
    assert capsys.readouterr().out
