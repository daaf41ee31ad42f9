"""Every field of a model's configuration with every hostile value: what opening the folder may answer, and at what price.

`python tests/models/config_attack.py CLASS FOLDER SHARE` tries a share of all changes of one architecture. Each change is tried in a
child process, forked from one that has imported what it needs, with limits of memory and processor time.
"""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import socket
import sys
import time
import traceback
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

CLASSES = (
    "BertForSequenceClassification", "BertModel", "RobertaForMaskedLM", "DistilBertForMaskedLM", "ModernBertForMaskedLM",
    "AlbertForMaskedLM", "ElectraForMaskedLM", "MPNetForMaskedLM", "DebertaV2ForMaskedLM", "GPT2LMHeadModel",
    "LlamaForCausalLM", "Qwen2ForCausalLM", "Gemma3ForCausalLM",
)  # fmt: skip
MEMORY = 768 << 20  # bytes more than the process had before; the models have some ten thousand numbers
SECONDS = 20  # of a processor
HOSTILE: tuple[object, ...] = (
    None, True, -1, 0, 1, 3, 1 << 27, 1 << 40, 10**30, 1.5, float("nan"), float("inf"), -0.0, "x", "", "../../etc/passwd", [], [1],
    [None], ["x"] * 3, {}, {"a": 1}, {"rope_type": "yarn", "factor": -1.0}, {"": {}},
)  # fmt: skip
ADDED: dict[str, tuple[object, ...]] = {
    "dtype": ("int8", "complex64", "float8_e4m3fn", "float64", "bool", "torch.float32", "__class__", "nn"),
    "torch_dtype": ("int8", "complex64", "float8_e5m2", "uint8", "auto", 7),
    "quantization_config": (
        {"quant_method": "bitsandbytes", "load_in_8bit": True}, {"quant_method": "gptq", "bits": 4},
        {"quant_method": "x"}, {}, {"quant_method": "torchao", "quant_type": "int8_weight_only"}, {"quant_method": "fp8"},
    ),
    "auto_map": ({"AutoModel": "code.Evil", "AutoModelForCausalLM": "code.Evil", "AutoConfig": "code.Evil"}, "code.Evil",
                 {"AutoConfig": "evil/repo--code.Evil"}),
    "rope_scaling": ({"type": "linear", "factor": 0}, {"rope_type": "dynamic", "factor": 1 << 60}, {"rope_type": "longrope",
                     "short_factor": [1.0] * 9, "long_factor": []}, {"type": "evil"}, {"rope_type": "llama3"}, [1], "x"),
    "rope_parameters": ({"rope_type": "default", "rope_theta": 0}, {"rope_theta": "x"}, {"rope_type": 1}, []),
    "attn_implementation": ("evil/kernel", "flash_attention_2", "flex_attention", "x"),
    "_attn_implementation": ("evil/kernel", "sdpa|paged"),
    "architectures": (["T5ForConditionalGeneration"], ["BertForMaskedLM"], ["GPT2Model"], ["Nothing"], [], [1], "Bert", None,
                      ["__init__"], ["LlamaForSequenceClassification"], ["BertForPreTraining"]),
    "model_type": ("gpt2", "bert", "t5", "llava", "clip", "nothing", 1, "", "encoder-decoder", "timm_wrapper", "whisper", "mamba2"),
    "is_encoder_decoder": (True,), "is_decoder": (True,), "add_cross_attention": (True,), "cross_attention_hidden_size": (1 << 30,),
    "tie_word_embeddings": (True, False), "num_labels": (1 << 27, -1), "id2label": ({"x": "y"}, {"0": 1}, {}, "x"),
    "text_config": ({}, {"vocab_size": 1 << 27}, 3), "vision_config": ({}, {"hidden_size": 1 << 20}), "encoder": ({},),
    "transformers_weights": ("../x.safetensors", "/etc/passwd", 1), "gradient_checkpointing": (True,), "torchscript": (True,),
    "use_return_dict": (False,), "output_hidden_states": ("x",), "output_attentions": (True,), "pruned_heads": ({"0": [0, 1]}, {"x": 1}),
    "chunk_size_feed_forward": (1, 3, -1), "base_model_pp_plan": ({"x": 1},), "base_model_tp_plan": ({"layers.*": "colwise"},),
    "device_map": ("auto",), "tp_plan": ("auto",), "use_kernels": (True,), "adapter": ("evil/repo",), "name_or_path": ("evil/repo",),
    "_name_or_path": ("evil/repo",), "_commit_hash": ("x",), "tokenizer_class": ("Evil", "LlamaTokenizer"), "auxiliary": ("x",),
    "loss_type": ("x",), "per_layer_config": ({},), "layer_types": (["full_attention"], ["x"] * 3, [1, 2, 3]),
    "attribute_map": ({"vocab_size": "x"},), "keys_to_ignore_at_inference": ("x",), "sub_configs": ({},), "__class__": ("x",),
    "forward": ("x",), "to_dict": (1,), "get_text_config": (1,), "save_pretrained": (1,), "from_dict": ("x",),
    "moe_layers": (1 << 30,), "num_local_experts": (1 << 27,), "num_experts": (1 << 20,), "quantization": ({"bits": 1},),
}  # fmt: skip


class Answer(NamedTuple):
    """What opening a changed folder came to: `opened`, the sentence of a refusal, or what is wrong."""

    text: str
    wrong: bool
    memory: int = 0
    seconds: float = 0.0


def changes(config: dict[str, Any]) -> Iterator[tuple[str, object]]:
    """Yield every field, known and added, with every hostile value."""
    for name in sorted(config):
        for value in HOSTILE:
            yield name, value
    for name, values in ADDED.items():
        for value in values:
            yield name, value


def sampled(class_name: str, config: dict[str, Any], share: float) -> list[tuple[str, object]]:
    """Return a share of all changes, other ones for each architecture."""
    every = list(changes(config))
    choose = random.Random(zlib.crc32(class_name.encode()))
    return every if share >= 1 else choose.sample(every, max(1, round(share * len(every))))


def attack(folder: Path, name: str, value: object) -> Answer:
    """Open a copy of a folder with one field changed, in a child with limits, and ask each view that it offers."""
    changed = folder.with_name("changed")
    shutil.rmtree(changed, ignore_errors=True)
    shutil.copytree(folder, changed)
    config = json.loads((changed / "config.json").read_text())
    (changed / "config.json").write_text(json.dumps(config | {name: value}))
    receive, send = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(receive)
        try:
            answer = _limited(changed)
        except BaseException:
            answer = Answer(traceback.format_exc()[-1500:], True)
        os.write(send, json.dumps(answer).encode()[: 1 << 15])
        os._exit(0)
    os.close(send)
    with os.fdopen(receive, "rb") as stream:
        text = stream.read()
    status = os.waitpid(pid, 0)[1]
    if not text:
        return Answer(f"ended by signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"exit {status}", True)
    return Answer(*json.loads(text))


def _limited(folder: Path) -> Answer:
    """Open a folder in this process, with limits of time, and without a network."""
    started = time.process_time()
    resource.setrlimit(resource.RLIMIT_CPU, (int(started) + SECONDS, int(started) + SECONDS + 1))
    socket.socket.connect = _no_network  # type: ignore[method-assign, assignment]
    socket.getaddrinfo = _no_network
    return opened(folder)


def opened(folder: Path) -> Answer:
    """Open a folder and ask each view that it offers, with a limit of memory."""
    import evenhand as eh
    from evenhand.errors import EvenhandError

    before, started = _memory(), time.process_time()
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (_mapped() + MEMORY, limits[1]))
    wrong, text = False, "opened"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            subject = eh.open(f"hf:{folder}", device="cpu")
            for view in subject.offers:
                _ask(subject, view)
    except EvenhandError as error:
        text = str(error)
        wrong = "memory" in text.lower() and "alloc" in text.lower()
    except Exception:
        text, wrong = traceback.format_exc()[-1500:], True
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)
    return Answer(text, wrong, _memory() - before, time.process_time() - started)


def _ask(subject: Any, view: str) -> None:
    texts = ["She is a nurse.", "he"]
    if view == "labels":
        subject.view(view).predict(texts)
    elif view == "inference":
        subject.view(view).predict(texts, texts)
    elif view == "sentences":
        subject.view(view).encode(texts)
    elif view == "likelihood":
        subject.view(view).log_probabilities(texts)
    elif view == "vectors":
        subject.view(view)


def _no_network(*arguments: object) -> None:
    raise AssertionError(f"the network is asked: {arguments!r}")


def _memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def _mapped() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def main() -> None:
    """Try a share of the changes of one architecture; print what is wrong, and the largest prices."""
    sys.path[:0] = [str(Path(__file__).parents[1])]
    from tiny_transformers import save_tiny

    class_name, place, share = sys.argv[1], Path(sys.argv[2]), float(sys.argv[3])
    shutil.rmtree(place, ignore_errors=True)
    folder = save_tiny(place / class_name, class_name)
    import evenhand as eh

    subject = eh.open(f"hf:{folder}", device="cpu")
    for view in subject.offers:  # imports what the children need
        _ask(subject, view)
    config = json.loads((folder / "config.json").read_text())
    opened, worst = 0, Answer("", False)
    todo = sampled(class_name, config, share)
    for name, value in todo:
        answer = attack(folder, name, value)
        opened += answer.text == "opened"
        worst = max(worst, answer, key=lambda each: each.memory)
        if answer.wrong or "-v" in sys.argv:
            sys.stdout.write(
                json.dumps({"class": class_name, "field": name, "value": value, **answer._asdict()}) + "\n"
            )
            sys.stdout.flush()
    sys.stdout.write(
        f"# {class_name}: {len(todo)} changes, {opened} opened, at most {worst.memory >> 20} MB and {worst.text[:60]!r}\n"
    )


if __name__ == "__main__":
    main()
