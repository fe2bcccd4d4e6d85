"""Finds the program tacit, calls it, and turns its errors into exceptions."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import IO, Any, Callable, Optional, Sequence


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

    def __init__(self, message: str, hint: str = "", code: str = "bad_input", exit_code: int = 2):
        super().__init__(message, hint, code, exit_code)


class ProgramNotFoundError(TacitError, FileNotFoundError):
    """The package has no program for this machine."""


class TacitWarning(UserWarning):
    """A note of the program, such as on a column that is not used."""


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
    told: Optional[Callable[[str], None]] = None,
    save: bool = True,
    every: float = 0.2,
) -> Any:
    """Run a command with ``--format json`` and return its data.

    ``poll`` is called every few tenths of a second while the command runs, and ``told`` from another thread with
    each line of its progress. If an exception such as KeyboardInterrupt arrives, the program stops: with ``save``
    after the round that it is in, which it saves, otherwise at once. It also stops if this process is killed.
    """
    command = [program(), *args, "--format", "json", "--stop-at-eof"]
    if told is None:
        command.append("--quiet")
    lines: list[str] = []

    def read(stream: IO[str]) -> None:
        for line in stream:
            lines.append(line)
            del lines[:-50]
            if told is not None:
                told(line.rstrip("\n"))

    # A session of its own, so that Ctrl-C in a terminal does not reach the program as well.
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as out, subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=out,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,
        **_FLAGS,
    ) as process:
        assert process.stdin and process.stderr
        reader = threading.Thread(target=read, args=(process.stderr,), daemon=True)
        try:
            reader.start()
            while True:
                try:
                    process.wait(every)
                    break
                except subprocess.TimeoutExpired:
                    if poll:
                        poll()
        except BaseException:
            _stop(process, save)
            raise
        finally:
            reader.join(1)
        out.seek(0)
        return _data(out.read(), "".join(lines), process.returncode)


# A group of its own on Windows, for the same reason as a session elsewhere.
_FLAGS: dict[str, Any] = {"creationflags": 0x200} if sys.platform == "win32" else {}


def _stop(process: "subprocess.Popen[str]", save: bool) -> None:
    """Ask the program to stop, by the end of its standard input, and wait; a second interrupt kills it."""
    try:
        if process.stdin:
            process.stdin.close()
        process.wait(None if save else 1)
    except subprocess.TimeoutExpired:
        process.kill()
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
