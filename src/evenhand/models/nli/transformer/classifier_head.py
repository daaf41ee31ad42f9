"""A linear layer on [CLS], trained as such and stored in a classifier class of transformers, which loads anywhere.

Dev et al. (2020) classify by a linear layer on the last layer's first vector. The classes of transformers have a dense
layer and an activation before their last layer. A linear classifier is stored in them by a dense layer that keeps the
vector where the activation is a straight line: near 0 for tanh, far on the positive side for ReLU and GELU.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import torch

from evenhand.errors import FormatError, UsageError, few, require
from evenhand.models.encoders.transformer import load_model
from evenhand.models.huggingface import quiet
from evenhand.models.nli.protocol import LABELS
from evenhand.models.nli.transformer.device_model import Tensor

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel

Head = Literal["linear", "own"]
SCALE = 2.0**-12  # tanh(x) = x to 1e-7 for |x| < .001, and half precision still resolves x
SHIFT = 2.0**6  # beyond the range of any normalised vector; GELU(x) = x there
INITIAL_SCALE = 0.02  # standard deviation of new weights, as in BERT
DROPOUTS = ("hidden_dropout_prob", "attention_probs_dropout_prob", "dropout", "attention_dropout")
CLASSIFIER_DROPOUTS = ("classifier_dropout", "seq_classif_dropout")


class HeadLayers(NamedTuple):
    """Where a class keeps its dense layer and its last layer, and the activation between them."""

    dense: str
    last: str
    activation: Literal["tanh", "relu", "gelu"]


HEADS: dict[str, HeadLayers] = {
    "bert": HeadLayers("bert.pooler.dense", "classifier", "tanh"),
    "roberta": HeadLayers("classifier.dense", "classifier.out_proj", "tanh"),
    "xlm-roberta": HeadLayers("classifier.dense", "classifier.out_proj", "tanh"),
    "camembert": HeadLayers("classifier.dense", "classifier.out_proj", "tanh"),
    "mpnet": HeadLayers("classifier.dense", "classifier.out_proj", "tanh"),
    "distilbert": HeadLayers("pre_classifier", "classifier", "relu"),
    "electra": HeadLayers("classifier.dense", "classifier.out_proj", "gelu"),
}


class TrainableClassifier(torch.nn.Module):  # type: ignore[misc]  # torch has no types here
    """A classifier of transformers, with a linear layer on [CLS] in place of its own head, or with its own."""

    def __init__(self, model: PreTrainedModel, head: Head) -> None:
        super().__init__()
        self.model = model
        self.linear: torch.nn.Linear | None = None
        if head == "linear":
            layers = head_layers(model)
            self.linear = torch.nn.Linear(int(model.config.hidden_size), len(LABELS))
            torch.nn.init.normal_(self.linear.weight, std=INITIAL_SCALE)
            torch.nn.init.zeros_(self.linear.bias)
            for name in (layers.dense, layers.last):
                model.get_submodule(name).requires_grad_(False)

    def forward(self, inputs: dict[str, Tensor]) -> Tensor:
        """Return the logits."""
        if self.linear is None:
            return self.model(**inputs).logits
        return self.linear(self.model.base_model(**inputs).last_hidden_state[:, 0])

    def stored(self) -> PreTrainedModel:
        """Return the classifier, with the linear layer stored in its own head."""
        if self.linear is not None:
            store_linear(self.model, self.linear.weight.detach(), self.linear.bias.detach())
        return self.model


def head_layers(model: PreTrainedModel) -> HeadLayers:
    """Return where the class of a model keeps its head.

    Raises:
        UsageError: If no linear layer can be stored in the class.
    """
    kind = str(model.config.model_type)
    if kind not in HEADS:
        raise UsageError(
            f"a linear layer on [CLS] cannot be stored in {type(model).__name__}; known types are {', '.join(HEADS)}",
            hint='use head="own" to train the head of the class',
        )
    return HEADS[kind]


@torch.no_grad()  # type: ignore[untyped-decorator,unused-ignore]
def store_linear(model: PreTrainedModel, weight: Tensor, bias: Tensor) -> None:
    """Set the head of a classifier so that its logits are those of a linear layer on the first vector."""
    layers = head_layers(model)
    dense, last = model.get_submodule(layers.dense), model.get_submodule(layers.last)
    identity = torch.eye(dense.weight.shape[0], device=weight.device, dtype=dense.weight.dtype)
    if layers.activation == "tanh":
        dense.weight.copy_(identity * SCALE)
        dense.bias.zero_()
        last.weight.copy_(weight / SCALE)
        last.bias.copy_(bias)
    else:
        dense.weight.copy_(identity)
        dense.bias.fill_(SHIFT)
        last.weight.copy_(weight)
        last.bias.copy_(bias - SHIFT * weight.double().sum(1).to(bias.dtype))
    model.requires_grad_(True)


def build_classifier(folder: str | Path, *, dropout: float) -> PreTrainedModel:
    """Return a classifier of sentence pairs with the weights of an encoder and a new head, in float32.

    Args:
        folder: an encoder, or a model with another head, which is left out.
        dropout: the rate inside the encoder; the classification layer has none.

    Raises:
        FormatError: If the encoder does not fit into a classifier of its type.
    """
    transformers: Any = require("transformers", extra="models")
    body = load_model(folder, "encoder").model
    config = _classifier_config(body.config, dropout)
    with quiet(transformers):
        try:
            model = transformers.AutoModelForSequenceClassification.from_config(config)
        except ValueError as error:  # no such class for this type
            raise FormatError(
                f"{folder}: transformers has no classifier for {config.model_type} models", hint="use an encoder"
            ) from error
    missing, surplus = model.base_model.load_state_dict(body.state_dict(), strict=False)
    lost = [name for name in missing if not name.startswith("pooler.")]
    unknown = [name for name in surplus if not name.startswith("pooler.")]
    if lost or unknown:
        raise FormatError(
            f"{folder}: {type(body).__name__} does not fit into {type(model).__name__}: {few([*lost, *unknown])}",
            hint="use a BERT-like encoder",
        )
    return model.float()


def _classifier_config(config: PretrainedConfig, dropout: float) -> PretrainedConfig:
    changed = copy.deepcopy(config)
    changed.num_labels = len(LABELS)
    changed.id2label = dict(enumerate(LABELS))
    changed.label2id = {label: index for index, label in enumerate(LABELS)}
    changed.problem_type = "single_label_classification"
    for names, rate in ((DROPOUTS, dropout), (CLASSIFIER_DROPOUTS, 0.0)):
        for name in names:
            if hasattr(changed, name):
                setattr(changed, name, rate)
    return changed
