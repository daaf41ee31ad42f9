"""Causal language models as subjects: our AWD-LSTM folders, Hugging Face folders and GGUF files."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from evenhand.corpus.readers.source import Texts
from evenhand.errors import UsageError
from evenhand.files import existing, writing
from evenhand.models.device import PRECISIONS, device_kind
from evenhand.models.lm.causal import written_once
from evenhand.models.lm.chat import MESSAGES, ChatWriter, check_prompt_form
from evenhand.models.tokenizing import TEXT_READING
from evenhand.progress import Progress, tell
from evenhand.subjects.opening import kind_of_address, parse_address
from evenhand.subjects.subject import (
    AWD_LSTM,
    MODEL_NUMERICS,
    ON_ENGINE,
    SUBJECTS,
    Address,
    Change,
    Subject,
    TextView,
    ViewName,
    files_digest,
    folder_kind,
    join_prompts,
)
from evenhand.subjects.transformer_subjects import TransformerPart, resolve

if TYPE_CHECKING:
    from evenhand.models.encoders.transformer import Transformer
    from evenhand.models.lm.likelihood import Likelihood

SAMPLES, TOKENS = 2_000, 500  # texts and tokens of Bordia & Bowman 2019


class LanguageModel(Protocol):
    """A model that writes texts and predicts them."""

    whitespace: bool
    """Whether its texts are whitespace-separated tokens, as its training text is."""

    def texts_at_once(self, tokens: int) -> int:
        """Return how many texts of a number of tokens it samples side by side."""

    @property
    def longest(self) -> int:
        """The most tokens that a text can have."""

    def texts(
        self, samples: int, tokens: int, *, seed: int, progress: Progress | None = None, **options: Any
    ) -> list[str]:
        """Sample texts; reproducible for a given seed."""

    @property
    def likelihood(self) -> Likelihood:
        """The model as a source of log-probabilities."""

    def perplexity(self, path: str | Path) -> dict[str, float]:
        """Return the perplexity of a text file, by word and where it differs by token."""

    def describe(self) -> dict[str, object]:
        """Return what a record keeps of the model."""


class WordLevelModel:
    """An AWD-LSTM that `evenhand lm train` wrote."""

    whitespace = True

    def __init__(self, folder: Path, device: str) -> None:
        from evenhand.models import lm
        from evenhand.models.device import resolve_device

        self.model, self.vocabulary, self.manifest = lm.load(folder, device=str(resolve_device(device)))

    def texts_at_once(self, tokens: int) -> int:
        """By device."""
        from evenhand.models.lm.awd_lstm.inference import samples_at_once

        return samples_at_once(self.model)

    @property
    def longest(self) -> int:
        """A recurrent model writes texts of any length."""
        return sys.maxsize

    def texts(
        self, samples: int, tokens: int, *, seed: int, progress: Progress | None = None, **options: Any
    ) -> list[str]:
        """Sample texts of one line each, with `<eos>` where a line of the training text would end."""
        from evenhand.models import lm

        settings = {**options, "start": options.get("start") or "uniform"}
        rows = lm.generate(
            self.model, self.vocabulary, samples=samples, tokens=tokens, seed=seed, progress=progress, **settings
        )
        return [" ".join(self.vocabulary.decode(row)) for row in rows]

    @property
    def likelihood(self) -> Likelihood:
        """Log-probabilities of whitespace-separated text."""
        from evenhand.models.lm.awd_lstm.inference import WordLikelihood

        return WordLikelihood(self.model, self.vocabulary)

    def perplexity(self, path: str | Path) -> dict[str, float]:
        """By word, which is the token of this model."""
        from evenhand.models import lm
        from evenhand.models.lm.awd_lstm.corpus import tokens_of

        ids = self.vocabulary.encode(tokens_of(Path(path)))
        return {"word": lm.perplexity(self.model, ids), "tokens": len(ids) - 1}  # the first token is not predicted

    def describe(self) -> dict[str, object]:
        """Kind, seed and regulariser; the settings are in the model's own config."""
        return {"kind": AWD_LSTM, "seed": self.manifest.get("seed"), "regulariser": self.manifest.get("regulariser")}


class SubwordModel:
    """A causal language model of `transformers`, from a folder or a GGUF file."""

    whitespace = False

    def __init__(self, transformer: Transformer) -> None:
        from evenhand.models.lm.causal import CausalLM

        self.model = CausalLM(transformer)

    def texts_at_once(self, tokens: int) -> int:
        """By the memory that texts of this length take."""
        return self.model.texts_at_once(tokens)

    @property
    def longest(self) -> int:
        """The window of the model, less the token that a text begins with."""
        return self.model.window - 1

    def texts(
        self, samples: int, tokens: int, *, seed: int, progress: Progress | None = None, **options: Any
    ) -> list[str]:
        """Sample texts as they are, line ends included."""
        if options.get("burn_in"):
            raise UsageError("`burn_in=` applies to word-level models only", hint="leave it out")
        settings = {
            name: options[name] for name in ("temperature", "start", "batch", "first_text") if options.get(name)
        }
        return self.model.generate(samples, tokens, seed=seed, progress=progress, **settings)

    @property
    def likelihood(self) -> Likelihood:
        """The model itself."""
        return self.model

    def perplexity(self, path: str | Path) -> dict[str, float]:
        """By token and by word."""
        text = existing(Path(path)).read_text(encoding="utf-8")
        return self.model.perplexity([text]).to_dict()

    def describe(self) -> dict[str, object]:
        """Kind, size and precision."""
        return self.model.describe()


@SUBJECTS.register("lm")
class LanguageModelSubject(Subject):
    """A causal language model.

    It offers `likelihood`, `text` (what it writes) and its input table as `vectors`; a transformer also `sentences`
    and `generation` (what it writes after a prompt), and `chat` if it comes with a chat template. The other views read
    texts without the template, unless it is opened with `prompts="chat"`: `generation` then asks for a continuation,
    and with `prompts="message"` for an answer to the prompt.
    """

    kind = "lm"
    title = "a causal language model"
    opens = "a GGUF file, a folder of `evenhand lm train`"
    schemes = ("gguf",)
    likelihood_of = "causal-lm"
    on_engine: ClassVar[tuple[ViewName, ...]] = ON_ENGINE
    libraries: ClassVar[tuple[str, ...]] = MODEL_NUMERICS
    options: ClassVar[tuple[str, ...]] = (
        "device", "precision", "samples", "tokens", "temperature", "seed", "batch", "allow_pickle",
        "system", "prompts",
    )  # fmt: skip

    def __init__(
        self,
        path: Path,
        address: str = "",
        *,
        model_kind: str,
        device: str | None = None,
        precision: str | None = None,
        samples: int | None = None,
        tokens: int | None = None,
        seed: int | None = None,
        temperature: float | None = None,
        batch: int | None = None,
        system: str | None = None,
        prompts: str | None = None,
    ) -> None:
        super().__init__(path.name, address)
        self.path, self.model_kind = path, model_kind
        supported = ("float32",) if model_kind == AWD_LSTM else PRECISIONS
        self._device, self._precision = resolve(device, precision, supported=supported)
        self.sampling: dict[str, Any] = {"samples": samples or SAMPLES, "tokens": tokens, "seed": seed or 0}
        self.sampling |= {"temperature": temperature} if temperature else {}
        self._own_seed, self._batch, self.system = seed, batch, system or ""
        if model_kind == AWD_LSTM:
            self.title = "an AWD-LSTM language model"
            self.instead_of_changes = "train it with a regulariser: `evenhand lm train --lambda`"
        else:
            self.network = TransformerPart(path, self._load, device=self._device, precision=self._precision)
        self.prompts = check_prompt_form(prompts or "plain")
        if self.prompts in MESSAGES and "chat" not in self.offers:
            raise UsageError(f"{self.name} has no chat template to put prompts with", hint="leave `prompts=` out")
        if self.system and "chat" not in self.offers:
            raise UsageError(
                f"{self.name} has no chat template; a system prompt is for conversations", hint="leave `system=` out"
            )

    @cached_property
    def model(self) -> LanguageModel:
        """The model itself, loaded on first use."""
        if self.network is None:
            return WordLevelModel(self.path, self._device)
        return SubwordModel(self.network.transformer)

    def _load(self) -> Transformer:
        from evenhand.models.encoders.transformer import Transformer

        return Transformer.load(self.path, "causal-lm", device=self._device, precision=self._precision)

    @property
    def offers(self) -> tuple[ViewName, ...]:
        """Vectors, likelihood and text; a transformer also sentences, continuations of prompts, and chat."""
        if self.network is None:
            return ("vectors", "likelihood", "text")
        views: tuple[ViewName, ...] = ("vectors", "sentences", "likelihood", "text", "generation")
        return (*views, "chat") if self._has_template else views

    @cached_property
    def _has_template(self) -> bool:
        from evenhand.models.lm.chat import has_chat_template

        return has_chat_template(self.path)

    @property
    def opening(self) -> dict[str, object]:
        """Where the model runs and how precisely, and the system prompt."""
        prompt = {"system": self.system} if self.system else {}
        prompt |= {"prompts": self.prompts, "message": MESSAGES[self.prompts]} if self.prompts in MESSAGES else {}
        reading = {} if self.network is None else {"beginning": TEXT_READING}
        return {"device": device_kind(self._device), "precision": self._precision, **reading, **prompt}

    @property
    def changeable(self) -> tuple[str, ...]:
        """The transformer, and the prompt of a model that comes with a chat template."""
        return (*super().changeable, "prompt") if "chat" in self.offers else super().changeable

    def _apply(self, change: Change) -> None:
        if change.acts_on == "prompt":
            self.system = join_prompts(self.system, getattr(change, "system", ""))
        else:
            super()._apply(change)

    def _open_view(self, name: ViewName) -> Any:
        if name == "generation" and self.prompts in MESSAGES:
            return ChatWriter(self.view("chat"), MESSAGES[self.prompts])
        if name in ("likelihood", "generation"):  # the causal model of transformers does both
            return self.model.likelihood
        if name == "text":
            return self.text()
        if name == "chat":
            from evenhand.models.lm.causal import CausalLM
            from evenhand.models.lm.chat import TemplateChat

            return TemplateChat(CausalLM(self.require_network().transformer), system=self.system)
        if self.network is None:
            from evenhand.models.lm.awd_lstm.model_folder import word_table

            return word_table(self.path)
        return self.network.sentences() if name == "sentences" else self.network.table

    def text(self, *, samples: int | None = None, tokens: int | None = None, seed: int = 0) -> TextView:
        """Return texts that the model writes, by default as many as it was opened with; each set is written once.

        Text i depends on the model, the settings and i alone, so more of them go on where fewer ended.
        """
        sampling = self.sampling | {"samples": samples or self.sampling["samples"]}
        sampling["seed"] = seed if self._own_seed is None else self._own_seed
        sampling["tokens"] = min(tokens or self.sampling["tokens"] or TOKENS, self.model.longest)
        name = f"text {sorted(sampling.items())}"
        if name not in self._views:
            self._views[name] = self._sampled_text(sampling)
        view: TextView = self._views[name]
        return view

    def _sampled_text(self, sampling: dict[str, Any]) -> TextView:
        batch = self._batch or self.model.texts_at_once(sampling["tokens"])
        options = {name: value for name, value in sampling.items() if name != "samples"} | {"batch": batch}
        settings = ["texts", options, self.model.describe()]
        texts: list[str] = []
        while len(texts) < sampling["samples"]:
            count = min(batch, sampling["samples"] - len(texts))  # whole batches are those of any number of samples
            write = partial(self.model.texts, count, first_text=len(texts), **options)
            texts += written_once([*settings, count], len(texts) // batch, write)
            tell(len(texts), sampling["samples"], "texts")
        tokenizer = "whitespace" if self.model.whitespace else "words"
        return TextView(f"text by {self.name}", Texts(texts), {"tokenizer": tokenizer}, sampling)

    def _content_digest(self) -> str:
        files = [self.path] if self.path.is_file() else [file for file in self.path.iterdir() if file.is_file()]
        return hashlib.sha256(f"{files_digest(iter(files))} {sorted(self.sampling.items())}".encode()).hexdigest()

    def describe(self) -> dict[str, object]:
        """Name, hash, kind of model, how its texts are sampled, and which views use its chat template."""
        template = {view: view == "chat" or (view == "generation" and self.prompts in MESSAGES) for view in self.offers}
        about = {"model": self.model_kind, "sampling": dict(self.sampling)}
        used = {"chat_template": [view for view, uses in template.items() if uses]} if "chat" in self.offers else {}
        return super().describe() | about | used

    @classmethod
    def recognise(cls, address: Address) -> str:
        """A GGUF file, a folder of `evenhand lm train`, or a Hugging Face folder of a causal language model."""
        if address.named(".gguf"):
            return "its name ends in .gguf"
        reasons = {AWD_LSTM: "its config names an AWD-LSTM", "causal-lm": "its config names a causal language model"}
        return reasons.get(folder_kind(address), "") if address.path.is_dir() or address.scheme == "hf" else ""

    @classmethod
    def from_address(cls, address: Address, **options: Any) -> LanguageModelSubject:
        """Open the model; weights are read when a view needs them."""
        from evenhand.models.encoders.prepared_folder import prepared

        path = address.path if address.path.is_dir() else existing(address.path, what="language model")
        if path.is_file() and not address.named(".gguf"):
            raise UsageError(
                f"{address.text} is a file, not a language model",
                hint="name a folder of `evenhand lm train` or of transformers, or a .gguf file",
            )
        kind = "gguf" if address.named(".gguf") else folder_kind(address)
        path = prepared(path, allow_pickle=bool(options.pop("allow_pickle", False)))
        return cls(path, address.text, model_kind=kind, **options)


def open_language_model(address: str, *, device: str = "auto", precision: str = "auto") -> LanguageModel:
    """Open the model at an address."""
    kind = kind_of_address(parse_address(address))
    if kind is not LanguageModelSubject:
        raise UsageError(
            f"{address} is {kind.title}, not a causal language model",
            hint="name a folder of `evenhand lm train` or of transformers, or a .gguf file",
        )
    subject = LanguageModelSubject.from_address(parse_address(address), device=device, precision=precision)
    return subject.model


def is_model(address: str) -> bool:
    """Return whether an address means a model rather than a text: a folder, a GGUF file or a catalog id."""
    from evenhand import data

    path = Path(address)
    in_catalog = not path.exists() and address in data.catalog()
    return path.is_dir() or address.startswith(("hf:", "lm:")) or path.suffix.lower() == ".gguf" or in_catalog


def write_texts(path: Path, texts: Sequence[str]) -> None:
    """Write one text per line with line ends as blanks; or JSON lines, which keep them."""
    name = path.name.lower()
    for packed in (".gz", ".zst", ".xz", ".bz2"):
        name = name.removesuffix(packed)
    with writing(path) as out:
        for text in texts:
            record: Mapping[str, str] = {"text": text}
            line = json.dumps(record, ensure_ascii=False) if name.endswith(".jsonl") else " ".join(text.split())
            out.write(f"{line}\n".encode())
