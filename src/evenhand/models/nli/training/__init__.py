"""Training of NLI models over frozen word vectors, several at once. Needs torch.

What a trained model answers belongs one folder up and needs numpy alone.
"""

from evenhand.errors import require

require("torch", extra="models")

from evenhand.models.nli.training.settings import Settings  # noqa: E402
from evenhand.models.nli.training.train import (  # noqa: E402
    Trained,
    train,
    train_members,
)

__all__ = ["Settings", "Trained", "train", "train_members"]
