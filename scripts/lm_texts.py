"""The three texts of Bordia & Bowman 2019 as this repository has them, for lm_experiment.py and lm_pages.py.

    python scripts/lm_texts.py DATA      # mean |bias| of the training texts with labels permuted between documents

This needs no model: it scores 2,000 blocks of each training text, of the length of the samples, and keeps the result in
reproductions/bordia2019.json, from which lm_pages.py fills the page.

DATA has the folders ptb, wikitext-2 and cnn-dailymail-1000. The third is a subset: 1,000 articles of 219,506.
"""

import csv
import json
import re
import sys
import unicodedata
from dataclasses import replace
from pathlib import Path
from typing import Any

from evenhand.models.lm.awd_lstm.corpus import EOS, LMCorpus, TokenVocabulary

RARE = 3  # of the CNN/Daily Mail subset: words of fewer occurrences are <unk>; the paper gives no limit
NUMBER = "<num>"


def corpus_of(name: str, data: Path, *, tiny: bool = False) -> LMCorpus:
    """A corpus by name; `tiny` is its beginning, for trying things out."""
    if name == "cnn-dailymail":
        found = daily_mail(data / "cnn-dailymail-1000" / "cnn_dailymail_validation_subset.csv")
    else:
        found = LMCorpus.folder(data / name)
    if not tiny:
        return found
    return replace(found, train=found.train[:60_000], valid=found.valid[:3_000], test=found.test[:3_000])


def daily_mail(path: Path) -> LMCorpus:
    """1,000 articles: 800 to train, 100 to validate, 100 to test; one sentence a line.

    As far as the paper says: no highlights, ASCII, lower case, numbers as <num>, other symbols stripped. Sentences end
    at . ! or ?. The paper has spaCy's sentences of 219,506 articles, of which it takes one in 100.
    """
    with path.open(encoding="utf-8", newline="") as file:
        articles = [row["article"] for row in csv.DictReader(file)]
    tokens = [[token for line in sentences(article) for token in (*line, EOS)] for article in articles]
    texts = [[token for article in part for token in article] for part in (tokens[:800], tokens[800:900], tokens[900:])]
    vocabulary = TokenVocabulary.of(texts[:1], min_count=RARE, unknown=True)
    train, valid, test = (vocabulary.encode(text) for text in texts)
    return LMCorpus(train, valid, test, vocabulary, name="cnn-dailymail-1000", counted="train")


def sentences(article: str) -> list[list[str]]:
    """The words of each sentence."""
    body = article.split("\n@highlight")[0]
    plain = unicodedata.normalize("NFKD", body).encode("ascii", "ignore").decode().lower()
    lines = re.split(r"[.!?]+\s", re.sub(r"\d[\d.,]*\d|\d", f" {NUMBER} ", plain))
    found = (re.findall(rf"{NUMBER}|[a-z]+", line) for line in lines)
    return [line for line in found if line]


SAMPLES, LENGTH = 2000, 500  # of the experiments
LABELLINGS, SEED = 20, 0


def training_null(name: str, data: Path) -> dict[str, Any]:
    """Return mean |bias| of a training text in blocks, and with labels permuted between the blocks, by context."""
    from evenhand.corpus import ENGLISH, Texts
    from evenhand.corpus.bias import CorpusOptions, score_corpus
    from evenhand.corpus.comparison import CONTEXTS, SPECIAL_TOKENS, same_shape
    from evenhand.reproduce.bordia2019 import PAIRS

    text = corpus_of(name, data)
    words = text.vocabulary.decode(text.train)
    length = round(LENGTH * (1 - words.count(EOS) / len(words)))  # samples are compared without line ends
    blocks, _ = same_shape(Texts([" ".join(words)]), [["word"] * length] * SAMPLES, seed=SEED)
    found: dict[str, Any] = {"blocks": len(tuple(blocks.texts)), "length": length, "seed": SEED}
    for context, reach in CONTEXTS.items():
        options = CorpusOptions(
            lists=PAIRS[name], **reach, tokenizer="whitespace", stop_words=(*ENGLISH, *SPECIAL_TOKENS, NUMBER),
            special_tokens="keep", permutations=LABELLINGS, seed=SEED,
        )  # fmt: skip
        scored = score_corpus(blocks, options).to_dict()
        found[context] = {"mu": scored["mu"], "baseline": scored["baseline"]}
    return found


def main(data: Path) -> None:
    """Score the training texts and keep the result."""
    path = Path(__file__).parents[1] / "reproductions/bordia2019.json"
    kept = json.loads(path.read_text())
    kept["training_null"] = {}
    for name in ("ptb", "wikitext-2", "cnn-dailymail"):
        kept["training_null"][name] = training_null(name, data)
        print(name, kept["training_null"][name], flush=True)
    text = json.dumps(kept, separators=(",", ":"), ensure_ascii=False)
    path.write_text(text.replace('{"experiment":', '\n{"experiment":') + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
