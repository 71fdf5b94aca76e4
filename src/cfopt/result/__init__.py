"""What comes back: an outcome for each row, the explanation of all, its words, JSON and metrics."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, ["metrics"])
