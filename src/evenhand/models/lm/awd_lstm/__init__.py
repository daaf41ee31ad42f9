"""The word-level AWD-LSTM: its network, training, checkpoints, generated text and likelihoods."""
