"""Generative models: codes of plausible contexts."""

import lazy_loader

# Loaded on first use: tasks need the protocol, and not what trains models. The names are those of
# __init__.pyi.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
