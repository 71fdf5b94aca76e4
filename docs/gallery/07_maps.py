"""Maps, plausibly.

A convolutional network reads the cost of every cell off a map. The codes of a variational
autoencoder are searched, so that the answer is terrain and not noise.
"""

import cfopt

t = cfopt.load_terrain()
wanted = t.pipeline.decide(t.maps[150:151])
e = cfopt.explain(
    t.maps[:1],
    t.pipeline,
    cfopt.Relative(wanted),
    generative=t.generative,
    plausibility=cfopt.Sphere(beta=10),
)
print(e.summary())
e.plot("maps.png")
