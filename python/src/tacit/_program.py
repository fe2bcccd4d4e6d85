"""Finds the program tacit, calls it, and turns its errors into exceptions."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Callable, Optional, Sequence


class TacitError(Exception):
    """A command of tacit failed. ``hint`` is the next step, or empty."""

    def __init__(self, message: str, hint: str = "", code: str = "failed", exit_code: int = 1):
        super().__init__(message + ("\n" + hint if hint else ""))
        self.message = message
        self.hint = hint
        self.code = code
        self.exit_code = exit_code


class InputError(TacitError, ValueError):
    """The input is invalid: data, settings or names."""


class ProgramNotFoundError(TacitError, FileNotFoundError):
    """The package has no program for this machine."""


def program() -> str:
    """Return the path of the program: $PYTACIT_PROGRAM, the one in the package, or the one on the PATH."""
    chosen = os.environ.get("PYTACIT_PROGRAM")
    if chosen:
        if not os.access(chosen, os.X_OK):
            raise ProgramNotFoundError(f"PYTACIT_PROGRAM={chosen} is not an executable file")
        return chosen
    name = "tacit.exe" if sys.platform == "win32" else "tacit"
    inside = Path(__file__).parent / "bin" / name
    if inside.is_file():
        return str(inside)
    found = shutil.which(name)
    if found:
        return found
    raise ProgramNotFoundError(
        "the program tacit was not found",
        "install the wheel of this platform, build one with `make wheel`, or set PYTACIT_PROGRAM",
    )


def call(
    args: Sequence[str],
    poll: Optional[Callable[[], None]] = None,
    every: float = 0.2,
) -> Any:
    """Run a command with ``--format json`` and return its data.

    ``poll`` is called every few tenths of a second while the command runs. An interrupt is passed on: the
    program then finishes its round and saves.
    """
    command = [program(), *args, "--format", "json", "--quiet"]
    with tempfile.TemporaryFile("w+", encoding="utf-8") as out, tempfile.TemporaryFile(
        "w+", encoding="utf-8", errors="replace"
    ) as err:
        # A session of its own: Ctrl-C reaches the program once, from us.
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True
        )
        try:
            while True:
                try:
                    process.wait(every)
                    break
                except subprocess.TimeoutExpired:
                    if poll:
                        poll()
        except BaseException:
            _stop(process)
            raise
        out.seek(0)
        err.seek(0)
        return _data(out.read(), err.read(), process.returncode)


def _stop(process: "subprocess.Popen[str]") -> None:
    """Interrupt a program and wait until it has saved."""
    try:
        if sys.platform == "win32":
            process.terminate()
        else:
            process.send_signal(signal.SIGINT)
        process.wait()
    except BaseException:
        process.kill()
        process.wait()
        raise


def _data(out: str, err: str, exit_code: int) -> Any:
    try:
        envelope = json.loads(out)
    except ValueError:
        last = (err.strip() or out.strip() or "no output").splitlines()[-1]
        raise TacitError(f"tacit stopped with exit code {exit_code}: {last}", exit_code=exit_code) from None
    if envelope.get("status") == "ok":
        return envelope.get("data")
    error = envelope.get("error") or {}
    kind = InputError if error.get("code") == "bad_input" else TacitError
    raise kind(
        error.get("message", "unknown error"), error.get("hint", ""), error.get("code", "failed"), exit_code
    )
