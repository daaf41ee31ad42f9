"""Hyper-parameters of a word-level language model and its training, with the published values."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace

from evenhand.errors import UsageError, unknown_name

GATES = 4  # of an LSTM cell


@dataclass(frozen=True)
class LMSettings:
    """Hyper-parameters of the AWD-LSTM (Merity et al. 2018), with the values of Bordia & Bowman 2019.

    Args:
        embedding: width of the word vectors and of the last layer, so that input and output can share a matrix.
        hidden: width of the other layers.
        layers: number of LSTM layers.
        tied: whether input and output words share one matrix.
        dropout_embedding: share of words whose vector is zero throughout a batch.
        dropout_input: share of coordinates of the input dropped, the same at every time step.
        dropout_hidden: the same between layers.
        dropout_output: the same after the last layer.
        weight_drop: share of the hidden-to-hidden weights dropped, drawn anew for each batch.
        alpha: weight of the mean square of the last layer's output (AR).
        beta: weight of the mean square of its change from step to step (TAR).
        learning_rate: for a stretch of `bptt` steps; proportionally less for a shorter stretch.
        weight_decay: L2 penalty on every parameter.
        clip: largest norm of a gradient.
        patience: validations without improvement before averaging starts (n of NT-ASGD).
        bptt: usual number of time steps through which gradients flow.
        batch: columns of the training text that are read side by side.
        eval_batch: columns of the validation text.
        epochs: number of passes over the text.
    """

    embedding: int = 400
    hidden: int = 1150
    layers: int = 3
    tied: bool = True
    dropout_embedding: float = 0.1
    dropout_input: float = 0.65
    dropout_hidden: float = 0.3
    dropout_output: float = 0.4
    weight_drop: float = 0.5
    alpha: float = 2.0
    beta: float = 1.0
    learning_rate: float = 30.0
    weight_decay: float = 1.2e-6
    clip: float = 0.25
    patience: int = 5
    bptt: int = 70
    batch: int = 40
    eval_batch: int = 10
    epochs: int = 750

    def __post_init__(self) -> None:
        for name in ("embedding", "hidden", "layers", "patience", "bptt", "batch", "eval_batch", "epochs"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} must be at least 1, got {getattr(self, name)}")
        for name in (field.name for field in fields(self) if "drop" in field.name):
            if not 0 <= getattr(self, name) < 1:
                raise UsageError(f"{name} must be at least 0 and below 1, got {getattr(self, name)}")
        if not (self.learning_rate > 0 and self.clip > 0 and min(self.alpha, self.beta, self.weight_decay) >= 0):
            raise UsageError("learning_rate and clip must be above 0; alpha, beta and weight_decay at least 0")

    def layer_widths(self) -> list[int]:
        """Return the input width of the first LSTM layer, followed by the width of each layer."""
        return [self.embedding, *[self.hidden] * (self.layers - 1), self.embedding]

    def to_dict(self) -> dict[str, float]:
        """Return plain data for JSON."""
        return asdict(self)


PRESETS: dict[str, LMSettings] = {
    "ptb": LMSettings(),
    "wikitext-2": LMSettings(batch=80),
    "cnn-dailymail": LMSettings(batch=80, epochs=500),
}


def settings_of(name: str, **changes: float) -> LMSettings:
    """Return the settings of a published corpus, with some of them changed."""
    if name not in PRESETS:
        raise unknown_name("preset", name, PRESETS)
    unknown = set(changes) - {field.name for field in fields(LMSettings)}
    if unknown:
        raise unknown_name("setting", min(unknown), (field.name for field in fields(LMSettings)))
    return replace(PRESETS[name], **changes)  # type: ignore[arg-type]  # whole numbers are whole where they must be
