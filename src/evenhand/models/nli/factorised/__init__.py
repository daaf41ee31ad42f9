"""Exact evaluation of a whole probe by decomposable attention, in a fraction of the work of pair after pair.

For the BiLSTM, where the order of words matters, see `recurrent`.

Premise and hypothesis share a phrase R and differ in their subjects A and B. Attention has no order, so that a sentence
is a bag of tokens, and with E = exp(attend . attend) the following holds without approximation:

- a token of R in the premise attends to B and R: its row depends on (R, B) only, and likewise with A;
- a token a of A attends to B and R: its mixture is (sum_b E_ab x_b + sum_r E_ar x_r) / (sum_b E_ab + sum_r E_ar),
  whose second parts depend on (a, R) only;
- the first matrix of compare is linear in the mixture, so that it is applied to words, not to mixtures; the first
  matrix of aggregate is linear in the sum over tokens, so that shared rows pass it once for each (R, A) and (R, B).

What remains for each pair: one row for every token of A and B through the second matrix of compare, and aggregate.
"""

from evenhand.models.nli.factorised.decomposable import evaluate

__all__ = ["evaluate"]
