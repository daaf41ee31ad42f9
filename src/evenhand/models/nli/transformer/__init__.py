"""NLI classifiers of Hugging Face transformers: loading, token ids, batches and predictions."""
