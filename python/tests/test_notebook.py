"""The notebooks run without a browser, and their stored outputs are those of the program."""

import importlib.util
import re
from pathlib import Path

import pytest

NOTEBOOKS = Path(__file__).parent.parent / "notebooks"


def words(texts):
    """Split printed texts into words and numbers: column widths depend on the version of pandas."""
    return [float(w) if re.fullmatch(r"-?\d*\.?\d+(e[+-]\d+)?", w) else w for t in texts for w in t.split()]


@pytest.mark.parametrize("name", sorted(p.name for p in NOTEBOOKS.glob("*.ipynb")))
def test_stored_outputs_are_current(name):
    for package in ("nbformat", "nbclient", "ipykernel"):
        pytest.importorskip(package, reason=f"notebooks require {package}; Debian: python3-nbclient python3-ipykernel")
    import nbformat

    spec = importlib.util.spec_from_file_location("execute", NOTEBOOKS / "execute.py")
    execute = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(execute)
    stored = nbformat.read(NOTEBOOKS / name, as_version=4)
    current = execute.executed(NOTEBOOKS / name)
    for cell, (want, got) in enumerate(zip(execute.outputs(stored), execute.outputs(current)), 1):
        assert same(words(got), words(want)), f"code cell {cell} of {name} prints other results; run: make notebook"


def same(got, want):
    return len(got) == len(want) and all(
        g == pytest.approx(w, rel=1e-5) if isinstance(w, float) and isinstance(g, float) else g == w
        for g, w in zip(got, want)
    )
