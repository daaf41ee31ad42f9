"""Train NLI models over frozen word vectors, several at once. Needs torch.

Trained models are in the folder above; decomposable attention runs on numpy alone.
"""

from evenhand.errors import require

require("torch", extra="models")

from evenhand.models.nli.training.settings import NLITrainingSettings  # noqa: E402
from evenhand.models.nli.training.train import (  # noqa: E402
    TrainedNLI,
    train,
    train_members,
)

__all__ = ["NLITrainingSettings", "TrainedNLI", "train", "train_members"]
