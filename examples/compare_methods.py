"""Compare methods: how much bias is left, and how many neighbours are kept."""

import evenhand as eh

vectors = eh.Vectors.default()
print(f"{'method':12} {'weat-6':>7} {'clusters':>9} {'kept':>6}")
for method in ("none", "linear", "hard", "leace", "random"):
    changed = vectors if method == "none" else eh.mitigations.get(method)().fit(vectors, "gender", seed=0)(vectors)
    weat = eh.measures.weat(changed, "weat-6")
    clusters = eh.measures.clustering(changed, per_side=100, runs=1, reference=vectors)
    kept = eh.measures.retention(changed, sample=100, reference=vectors)
    print(f"{method:12} {weat.value:7.2f} {clusters.value:9.2f} {kept.value:6.2f}")
