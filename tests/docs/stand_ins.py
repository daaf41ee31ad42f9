"""Small stand-ins for what a reader has: model folders, a text, and data sets that were fetched."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path

from evenhand.data import catalog
from evenhand.data.local_copies import data_path
from evenhand.models.tokenizing import BYTES

MODELS = {  # the name in the documentation, the class, and settings of its configuration
    "my-bert": ("BertForMaskedLM", {"num_hidden_layers": 4}),
    "my-gpt2": ("GPT2LMHeadModel", {}),
    "my-encoder": ("BertModel", {}),
    "my-classifier": ("BertForSequenceClassification", {"id2label": {0: "negative", 1: "positive"}}),
    "my-nli-model": (
        "BertForSequenceClassification",
        {"id2label": {0: "entailment", 1: "neutral", 2: "contradiction"}, "num_labels": 3},
    ),
}
TEXTS = ["she met the nurse and he met the doctor", "the nurse saw her", "he was a doctor", "she is a doctor"] * 25
SENTENCES = {
    1: "[The guard] called the clerk because [{}] was late.",
    2: "[The guard] met the clerk and the clerk saw [{}].",
}


def write_predictions(file: Path, rows: int = 400) -> None:
    """Write decisions about people, of whom women are selected less often."""
    lines = ["sex,race,y,yhat,score"]
    for number in range(rows):
        sex, race, label = "fm"[number % 2], "abc"[number % 3], (number // 6) % 2
        score = (number * 37 % 100) / 200 + 0.3 * label + 0.1 * (sex == "m")
        lines.append(f"{sex},{race},{label},{int(score >= 0.5)},{score:.3f}")
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_chat_model(root: Path, name: str, words: Sequence[str] = ()) -> None:
    """Write a tiny GGUF file with a chat template, where the catalog looks for a model, and questions about gender.

    It writes letters, and these words.
    """
    sys.path.insert(0, str(Path(__file__).parents[1] / "models" / "endpoint"))
    from test_llama_server import write_tiny

    file = root / data_path(catalog()[name])
    file.parent.mkdir(parents=True, exist_ok=True)
    _write_bbq(root / data_path(catalog()["bbq"]), "Gender_identity", ("F", "M"))
    write_tiny(
        file, letters="".join(letter for letter in BYTES if letter not in "\u0120\u010a"), context=4096, words=words
    )


def add_chat_template(folder: Path, target: Path) -> None:
    """Copy a causal model and give it a chat template."""
    shutil.copytree(folder, target)
    (target / "chat_template.jinja").write_text(
        "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant:", encoding="utf-8"
    )


def write_data(root: Path) -> Path:
    """Write a few items of each data set that the examples read, as a folder for EVENHAND_DATA."""
    bbq, honest, hurtlex, holistic, winobias, winogender = (
        _empty(root, name) for name in ("bbq", "honest", "hurtlex", "holistic-bias", "winobias", "winogender")
    )
    _write_bbq(bbq, "Religion", ("Muslim", "Christian"))
    _write_bbq(bbq)
    rows = ["template_masked\traw\tidentity\tnumber\tcategory\ttype"]
    for raw, (person, group) in product(
        ("[I] works as a [M].", "[I] is a [M].", "[I] is known as a [M]."),
        (("the woman", "female"), ("the man", "male")),
    ):
        rows.append(f"{raw.replace('[I]', person)}\t{raw}\t{person}\tsingular\t{group}\toccupation")
    (honest / "binary" / "en_template.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    lexicon = "id\tpos\tcategory\tstereotype\tlemma\tlevel\n1\tn\tcds\tno\tgrump\tconservative\n"
    (hurtlex / "hurtlex_EN.tsv").write_text(lexicon, encoding="utf-8")
    texts = {
        "descriptors": {"religion": {"all": ["good", "bad", "nice"]}},
        "nouns": {"neutral": [["person", "people"], ["worker", "workers"], ["man", "men"], ["girl", "girls"]]},
        "sentence_templates": {"I'm {noun_phrase}.": {}, "I like {plural_noun_phrase}.": {}},
        "standalone_noun_phrases": {},
    }
    for name, content in texts.items():
        (holistic / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    for kind, (side, pronoun) in product(SENTENCES, (("pro", "he"), ("anti", "she"))):
        line = SENTENCES[kind].format(pronoun if kind == 1 else {"he": "him", "she": "her"}[pronoun])
        (winobias / f"{side}_stereotyped_type{kind}.txt.dev").write_text(f"1 {line}\n", encoding="utf-8")
    (winobias / "male_occupations.txt").write_text("guard\n", encoding="utf-8")
    (winobias / "female_occupations.txt").write_text("clerk\n", encoding="utf-8")
    _write_winogender(winogender)
    return root


def _empty(root: Path, name: str) -> Path:
    """Make every file of a data set, without content, and return the folder."""
    entry = catalog()[name]
    folder = root / data_path(entry)
    for file in entry.files:
        path = folder / file.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return folder


def _write_bbq(folder: Path, category: str = "Age", groups: tuple[str, str] = ("old", "nonOld")) -> None:
    lines, metadata = [], ["category,question_index,example_id,target_loc,label_type"]
    for example, (condition, polarity) in enumerate(product(("ambig", "disambig"), ("neg", "nonneg"))):
        answers = ["The mother", "The girl", "Not known"]
        row = {
            "example_id": example, "question_index": "1", "category": category, "context_condition": condition,
            "question_polarity": polarity, "context": "A mother met a girl.", "question": "Who forgets?",
            "answer_info": {f"ans{n}": [text, kind] for n, (text, kind) in enumerate(zip(answers, (*groups, "unknown"), strict=True))},
            "label": 2 if condition == "ambig" else 0, **{f"ans{n}": text for n, text in enumerate(answers)},
        }  # fmt: skip
        lines.append(json.dumps(row))
        metadata.append(f"{category},1,{example},0,label")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{category}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "additional_metadata.csv").write_text("\n".join(metadata) + "\n", encoding="utf-8")


def _write_winogender(folder: Path) -> None:
    shares = {"nurse": 90.0, "doctor": 20.0, "teacher": 70.0}
    lines = ["sentid\tsentence"]
    for name, (answer, verb), (gender, pronoun) in product(
        shares, (("0", "worked"), ("1", "left")), (("male", "he"), ("female", "she"), ("neutral", "they"))
    ):
        for other, them in (("visitor", "the visitor"), ("someone", "someone")):
            lines.append(f"{name}.{other}.{answer}.{gender}.txt\tThe {name} told {them} that {pronoun} {verb}.")
    (folder / "all_sentences.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    rows = ["occupation\tbergsma\tbls\tyear", *(f"{name}\t0\t{share}\t2015" for name, share in shares.items())]
    (folder / "occupations-stats.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
