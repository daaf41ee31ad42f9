"""Training of NLI models over frozen word vectors, several at once. Needs torch.

What a trained model answers belongs one folder up and needs numpy alone.
"""

from evenhand.errors import require

require("torch", extra="models")

from evenhand.models.nli.training.result import Trained  # noqa: E402
from evenhand.models.nli.training.settings import Settings  # noqa: E402
from evenhand.models.nli.training.train import train, train_members  # noqa: E402

__all__ = ["Settings", "Trained", "train", "train_members"]
