"""How the sharp VAE and the prior of its codes are trained."""

from cfopt.generative import Training

SHARP = Training(alpha=2.0, epochs=14, learning_rate=3e-3, batch_size=32)
FLOW = Training(epochs=5, learning_rate=1e-3, batch_size=64, warm_up=0)
#: How many codes of each map the prior is trained on.
DRAWS = 3
