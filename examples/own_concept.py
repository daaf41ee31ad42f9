"""Ask about a concept of your own: are titles of senior people nearer to praise than titles of junior ones?"""

import evenhand as eh

senior, junior = ["director", "manager", "chief"], ["assistant", "trainee", "clerk"]
praise = eh.Query(
    "praise",
    targets=[senior, junior],
    attributes=[["competent", "brilliant", "skilled"], ["incompetent", "foolish", "clumsy"]],
)
concept = eh.Concept(
    "seniority",
    groups={"senior": senior, "junior": junior},
    pairs=list(zip(senior, junior, strict=True)),
    queries=[praise],
)
audit = eh.Audit.run(eh.Vectors.default(), concept=concept, measures=["weat"], methods=["linear"])
for label in audit.labels:
    for stage in audit.stage_names:
        print(label, stage, audit.get(label, stage))
