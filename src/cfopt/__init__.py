"""cfopt: why this decision, and what would have changed it?"""

import lazy_loader

__version__ = "0.1.0"

# Loaded on first use: torch takes seconds, and the command line shall answer at once. The names
# are those of __init__.pyi.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
