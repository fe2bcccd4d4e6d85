"""Runs the notebooks of this folder, without a browser: python3 execute.py stores what they print.

The tests use outputs() to check that the stored outputs are current.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def executed(path: Path) -> Any:
    """Return the notebook with the outputs of a run with the package of this repository."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    source = str(HERE.parent / "src")
    old = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = source + (os.pathsep + old if old else "")
    try:
        NotebookClient(notebook, timeout=None, kernel_name="python3", resources={"metadata": {"path": str(HERE)}}).execute()
    finally:
        if old is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = old
    clean(notebook)
    return notebook


def clean(notebook: Any) -> None:
    """Remove what differs from run to run: progress bars, times and the version of Python."""
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.metadata.pop("execution", None)
            cell.outputs = [o for o in cell.outputs if "<progress" not in o.get("data", {}).get("text/html", "")]
            for o in cell.outputs:
                if o.output_type in ("display_data", "execute_result"):
                    o.metadata = {}
                    o.get("transient", {}).clear()
    notebook.metadata["language_info"] = {"name": "python"}


def outputs(notebook: Any) -> list[list[str]]:
    """Return the texts that each code cell printed."""
    out = []
    for cell in notebook.cells:
        if cell.cell_type == "code":
            out.append([o["text"] if o.output_type == "stream" else o["data"].get("text/plain", "") for o in cell.outputs])
    return out


def main() -> None:
    import nbformat

    for path in sorted(HERE.glob("*.ipynb")):
        nbformat.write(executed(path), path)
        print(f"wrote {path.name}", file=sys.stderr)


if __name__ == "__main__":
    main()
