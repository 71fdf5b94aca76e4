"""How the shipped models are trained: on how many maps, and for how long."""

from cfopt.generative import Training

#: Maps that a model is trained on, and the most epochs of the VAEs that are not sharp.
MAPS, EPOCHS = 10_000, 30
SHARP = Training(alpha=2.0, epochs=14, learning_rate=3e-3, batch_size=32)
#: The judge has other maps, another seed and another width than the model that it judges, and knows
#: nothing of costs.
JUDGE = Training(epochs=14, learning_rate=3e-3, batch_size=32, seed=1)
JUDGE_MAPS, JUDGE_HELD_OUT, JUDGE_WIDTH = 200, 201, 32
FLOW = Training(epochs=15, learning_rate=2e-3, batch_size=128, warm_up=0)
#: Couplings of a level of the prior, and the width of their networks.
LAYERS, WIDTH = 6, 48
#: The seeds of the maps whose codes the prior is trained on, as many of each as the VAE has seen.
#: Hundreds of thousands of weights would learn the VAE's own maps by heart.
PRIOR_SEEDS = range(100, 105)
