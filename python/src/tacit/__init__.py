"""Federated recommendation: run published methods, evaluate them under named protocols, recommend.

>>> import tacit
>>> r = tacit.run("world", method="ials", rounds=5)
>>> r.metrics.loc[(1, "test", "full"), "hr@10"]
>>> r.recommend("7", n=3)

The package calls the program ``tacit``, which is inside the wheel. It contacts no network.
"""

from __future__ import annotations

import pandas as pd

from . import privacy
from ._program import InputError, ProgramNotFoundError, TacitError, TacitWarning, call, program
from ._run import Run, Runs, compare, load, resume, run
from ._version import __version__

__all__ = [
    "InputError",
    "ProgramNotFoundError",
    "Run",
    "Runs",
    "TacitError",
    "TacitWarning",
    "__version__",
    "compare",
    "datasets",
    "load",
    "method",
    "methods",
    "privacy",
    "program",
    "resume",
    "run",
]


def methods() -> pd.DataFrame:
    """List the methods: title and paper by name."""
    return pd.DataFrame(call(["methods"])).set_index("name")[["title", "paper"]]


def method(name: str) -> dict:
    """Describe a method: what it is, and its parameters as a data frame under ``params``."""
    out = dict(call(["methods", name]))
    params = pd.DataFrame(out.get("params") or [])
    params.columns = [str(c).lower() for c in params.columns]
    out["params"] = params.set_index("key") if "key" in params else params
    return out


def datasets() -> pd.DataFrame:
    """List the known data sets, and where they were found."""
    out = pd.DataFrame(call(["data", "list"]))
    out.columns = [str(c).lower() for c in out.columns]
    return out.set_index("name")
