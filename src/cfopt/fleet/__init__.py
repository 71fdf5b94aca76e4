"""From one machine to many: data sets in parts, the engines, and what all answers say."""

from typing import Any

import lazy_loader

from cfopt.extras import require

_find, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    if name in __all__:
        require(f"cfopt.fleet.{name}", "cli")
    return _find(name)
