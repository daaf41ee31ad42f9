"""Exact evaluation of a whole probe by decomposable attention, with a fraction of the work of evaluating every pair.

For the BiLSTM, where word order matters, see `bilstm`.

Premise and hypothesis share a phrase R and differ in their subjects A and B. Attention ignores order, so a sentence is
a bag of tokens. With E = exp(attend . attend) the following holds without approximation:

- A token of R in the premise attends to B and R: its row depends on (R, B) only, and likewise with A.
- A token a of A attends to B and R. Its mixture is (sum_b E_ab x_b + sum_r E_ar x_r) / (sum_b E_ab + sum_r E_ar),
  and the second parts of both sums depend on (a, R) only.
- The first matrix of compare is linear in the mixture, so it is applied to words instead of mixtures. Aggregate reads
  sums over tokens, so the rows of R are summed once for each (R, A) and (R, B) and added to those of A and B.

What remains for each pair is one row per token of A and B through the second matrix of compare, and aggregate
(`pair_layers`).
"""

from evenhand.models.nli.factorised.decomposable import evaluate

__all__ = ["evaluate"]
