"""A progress bar for notebooks and terminals, from the lines of the program and the metrics that a run writes."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any, Optional


class Progress:
    """Shows how far a run in a folder is. ``show`` None means: in notebooks and terminals only."""

    def __init__(self, folder: Path, title: str, seeds: int, first: int, show: Optional[bool]):
        self._base = self._folder = folder
        self._title, self._seeds, self._first = title, seeds, first
        self._shell = _notebook()
        self._on = show if show is not None else self._shell is not None or sys.stderr.isatty()
        self._handle: Any = None
        self._width = 0
        self._rounds = 0
        self._phase = ""  # what the program does besides rounds
        self._run, self._runs = 1, 1  # of several runs
        self._last: tuple = ()
        self.notes: list[str] = []

    def told(self, line: str) -> None:
        """Take a line of the program."""
        text = line.strip()
        if text.startswith("note: "):
            if text[6:] not in self.notes:
                self.notes.append(text[6:])
            return
        several = re.match(r"run (\d+)/(\d+): (.*)", text)
        if several:
            self._run, self._runs = int(several.group(1)), int(several.group(2))
            self._folder = self._base / several.group(3)
            self._rounds, self._phase = 0, ""
        elif text.startswith(("evaluating ", "drawing ", "trying ")):
            self._phase = text.split(" (--")[0]
        elif text.startswith(("round ", "seed ")):
            self._phase = ""

    def poll(self) -> None:
        """Show the newest round."""
        if not self._on:
            return
        found = self._newest()
        if not found:
            self._show(f"{self._title}: {self._phase or 'reading the data'}", (self._run - 1) / self._runs)
            return
        seed, line, total = found
        text = f"{self._title}: "
        if self._runs > 1:
            text += f"run {self._run}/{self._runs}, "
        text += f"round {line['round']}/{total}"
        if self._seeds > 1:
            text += f", seed {seed - self._first + 1}/{self._seeds}"
        metrics = ((line.get("valid") or {}).get("sampled")) or {}
        if "hr@10" in metrics:
            text += f", validation HR@10 {metrics['hr@10']:.4f}"
        if self._phase:
            text += f"; {self._phase}"
        done = (seed - self._first + line["round"] / max(total, 1)) / self._seeds
        self._show(text, (self._run - 1 + min(done, 1.0)) / self._runs)

    def close(self, failed: bool = False) -> None:
        """Remove the bar of a terminal; that of a notebook stays, complete unless the run failed."""
        if not self._on:
            return
        if self._shell:
            if self._handle is not None:
                self._show(f"{self._title}: {'stopped' if failed else 'done'}", self._last[1] if failed else 1.0)
        elif self._width:
            sys.stderr.write("\r" + " " * self._width + "\r")
            sys.stderr.flush()

    def _newest(self) -> Optional[tuple[int, dict, int]]:
        """Return the seed, the newest line of its metrics, and its number of rounds."""
        for seed in range(self._first + self._seeds - 1, self._first - 1, -1):
            folder = self._folder / f"seed-{seed}" if self._seeds > 1 else self._folder
            line = _last_line(folder / "metrics.jsonl")
            if not line:
                continue
            try:
                value = json.loads(line)
                if not self._rounds:
                    text = (folder / "config.toml").read_text(encoding="utf-8")
                    match = re.search(r"^rounds = (\d+)$", text, re.M)
                    self._rounds = int(match.group(1)) if match else 0
            except (OSError, ValueError):
                continue
            return seed, value, max(self._rounds, value["round"])
        return None

    def _show(self, text: str, done: float) -> None:
        if (text, done) == self._last:
            return
        self._last = (text, done)
        if self._shell:
            from html import escape

            from IPython.display import HTML, display

            page = HTML(f'<progress value="{done:.3f}" max="1"></progress> {escape(text)}')
            if self._handle is None:
                self._handle = display(page, display_id=True)
            else:
                self._handle.update(page)
            return
        bar = "#" * round(20 * done)
        line = f"[{bar:<20}] {text}"[: max(shutil.get_terminal_size().columns - 1, 20)]
        sys.stderr.write("\r" + line.ljust(self._width))
        sys.stderr.flush()
        self._width = max(self._width, len(line))


def _last_line(path: Path) -> bytes:
    """Return the last complete line of a file; empty if the file has no complete line."""
    try:
        with path.open("rb") as f:
            f.seek(0, 2)
            f.seek(max(0, f.tell() - (1 << 16)))
            lines = f.read().split(b"\n")
    except OSError:
        return b""
    return lines[-2] if len(lines) > 1 else b""


def _notebook() -> Any:
    """Return IPython's shell in a notebook; otherwise None."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return shell if shell is not None and getattr(shell, "kernel", None) is not None else None
