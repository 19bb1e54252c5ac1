"""numpy, which only arrays, records and described types need: it is imported where they are met."""

from __future__ import annotations

import functools as _functools
import importlib as _importlib
from typing import Any as _Any


@_functools.cache
def numpy() -> _Any:
    """Returns numpy, or raises ``ModuleNotFoundError`` that says how to install it."""
    try:
        return _importlib.import_module("numpy")
    except ModuleNotFoundError as error:
        if error.name != "numpy":
            raise  # numpy is there, and lacks something itself.
        text = "arrays, records and described types need numpy: pip install numpy"
        raise ModuleNotFoundError(text, name="numpy") from None
