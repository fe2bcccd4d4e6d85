"""Runs experiments and reads run folders."""

from __future__ import annotations

import csv
import json
import os
import tempfile
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any, Iterable, Mapping, Optional, Sequence, Union

import numpy as np
import pandas as pd

from . import _frames
from ._program import InputError, TacitError, call
from ._progress import Progress

PathLike = Union[str, "os.PathLike[str]"]

ROLES = ("user", "item", "rating", "time", "title", "genres")


class Run:
    """A finished run: its metrics as data frames, and its trained model.

    ``tacit.run`` and ``tacit.load`` return it. With several seeds the frames hold all of them, and the model is
    that of the first seed; ``seed(k)`` is the run of one.
    """

    def __init__(self, folder: PathLike, data_dir: Optional[PathLike] = None, _keep: Any = None):
        self.dir = Path(folder)
        self._data_dir = data_dir
        self._keep = _keep  # a temporary folder that lives as long as the run
        path = self.dir / "result.json"
        if not path.is_file():
            raise InputError(
                f"{self.dir} has no finished run (no result.json)",
                f'finish it with `tacit run --resume {self.dir}`, or create it with tacit.run(..., out="{self.dir}")',
                "bad_input",
                2,
            )
        try:
            self.result: dict = json.loads(path.read_text(encoding="utf-8"))
            version = self.result.get("schema_version", 1)
            runs = self.result.get("runs") or [self.result]
            if version == 1:
                runs[0]["method"], runs[0]["test"]
        except (ValueError, KeyError, TypeError, AttributeError, IndexError) as err:
            raise InputError(f"{path} is corrupt: {err}", "", "bad_input", 2) from None
        if version != 1:
            raise InputError(
                f"{path} has schema version {version}, and this package reads version 1",
                "install a newer tacit-rec",
                "bad_input",
                2,
            )
        self._runs: list[dict] = runs

    # What was run.

    @property
    def method(self) -> str:
        """Name of the method."""
        return self._runs[0]["method"]

    @property
    def dataset(self) -> str:
        """Name of the data set."""
        return self._runs[0]["dataset"]

    @property
    def protocol(self) -> str:
        """Name of the evaluation protocol."""
        return self._runs[0]["protocol"]

    @property
    def leaks(self) -> bool:
        """Whether the protocol leaks the held-out items."""
        return self._runs[0]["leaks"]

    @property
    def seeds(self) -> list[int]:
        """Seeds of the run."""
        return [r["seed"] for r in self._runs]

    @property
    def settings(self) -> dict:
        """Settings of the run, those of the method included."""
        return {**self._runs[0]["options"], **self._runs[0]["params"]}

    @property
    def privacy(self) -> Optional[dict]:
        """The privacy guarantee and what it cost; None without one."""
        return self._runs[0]["privacy"]

    @property
    def report(self) -> Path:
        """Path of the HTML report."""
        return self.dir / "report.html"

    def seed(self, seed: int) -> "Run":
        """Return the run of one of several seeds."""
        if len(self._runs) == 1 and self.seeds == [seed]:
            return self
        if seed not in self.seeds:
            raise InputError(f"seed {seed}: the run has the seeds {self.seeds}", "", "bad_input", 2)
        return Run(self.dir / f"seed-{seed}", self._data_dir, self._keep)

    # What was measured.

    @cached_property
    def metrics(self) -> pd.DataFrame:
        """Metrics as fractions, with the index (seed, items, ranking).

        ``items`` is validation or test; ``ranking`` is sampled (among sampled candidates) or full (among all items).
        """
        rows = []
        for r in self._runs:
            rows += _frames.rows_of(r, (r["seed"],))
        return _frames.frame(rows, ["seed", "items", "ranking"])

    @property
    def summary(self) -> pd.DataFrame:
        """Mean and, with several seeds, standard deviation of the metrics over the seeds."""
        groups = self.metrics.groupby(level=["items", "ranking"], sort=False)
        if len(self._runs) == 1:
            return groups.mean()
        return pd.concat({"mean": groups.mean(), "sd": groups.std(ddof=1)}, names=["value"])

    @cached_property
    def references(self) -> pd.DataFrame:
        """Metrics of the reference rows, with the index (seed, reference, items, ranking)."""
        rows = []
        for r in self._runs:
            for name, reference in (r["references"] or {}).items():
                rows += _frames.rows_of(reference, (r["seed"], name))
        return _frames.frame(rows, ["seed", "reference", "items", "ranking"])

    @cached_property
    def curves(self) -> pd.DataFrame:
        """One row per round, with columns such as ``valid.sampled.hr@10`` and ``train_loss``.

        The index is the round; with several seeds it is (seed, round).
        """
        return self._each(lambda folder: _frames.curves(folder / "metrics.jsonl"))

    @cached_property
    def per_user(self) -> pd.DataFrame:
        """Ranks of the held-out items of each user, from 1. The index is the user, or (seed, user)."""
        return self._each(lambda folder: _frames.per_user(folder / "per_user.csv"))

    def _each(self, read: Any) -> pd.DataFrame:
        try:
            if len(self._runs) == 1:
                return read(self.dir)
            frames = {s: read(self.dir / f"seed-{s}") for s in self.seeds}
        except OSError as err:
            raise TacitError(f"the run folder is incomplete: {err}") from None
        return pd.concat(frames, names=["seed"])

    # The trained model.

    def recommend(
        self,
        user: Any = None,
        n: int = 10,
        *,
        history: Optional[Iterable[Any]] = None,
        whole_history: bool = False,
    ) -> pd.DataFrame:
        """Return the n best items for a user of the data, or for a history outside of training.

        Held-out items may appear in the list of a user, and are marked in the column ``held_out``;
        ``whole_history=True`` also reads them. A history is item identifiers, oldest first, or (item, rating)
        pairs. Each call loads the model; use ``top`` for many users.
        """
        args = ["-n", str(n)]
        if (user is None) == (history is None):
            raise InputError("recommend requires either a user or a history", "", "bad_input", 2)
        if whole_history:
            args.append("--whole-history")
        if history is None:
            data = self._call("recommend", *args, "--user", str(user).strip(" "))  # as files are read
        else:
            with tempfile.TemporaryDirectory(prefix="tacit-") as folder:
                path = Path(folder) / "history.csv"
                _history_frame(history).to_csv(path, index=False, quoting=csv.QUOTE_ALL)
                data = self._call("recommend", *args, "--history", str(path))
        columns = ["item", "title", "score", "held_out"]
        out = pd.DataFrame(data["items"] or []).rename(columns={"id": "item"}).reindex(columns=columns)
        out[["title", "held_out"]] = out[["title", "held_out"]].fillna("")
        out.index = pd.RangeIndex(1, len(out) + 1, name="rank")
        return out

    def top(self, n: int = 10) -> pd.DataFrame:
        """Return the n best items of every user: columns user, rank, item, title, score and held_out."""
        with tempfile.TemporaryDirectory(prefix="tacit-") as folder:
            self._call("export", "--only", "top", "-n", str(n), "-o", folder)
            return _frames.text_frame(Path(folder) / "top.csv", ["rank", "score"])

    @property
    def item_vectors(self) -> np.ndarray:
        """Vectors of the items, one row for each row of ``items``."""
        return self._items[0]

    @property
    def items(self) -> pd.DataFrame:
        """Identifiers and titles of the items, in the order of ``item_vectors``."""
        return self._items[1]

    @property
    def user_vectors(self) -> np.ndarray:
        """Vectors of the users, one row for each of ``users``.

        If it has one column more than ``item_vectors``, the last is the user's bias: scores are
        ``user_vectors[:, :d] @ item_vectors.T + user_vectors[:, d:]`` with ``d = item_vectors.shape[1]``.
        """
        return self._users[0]

    @property
    def users(self) -> pd.DataFrame:
        """Identifiers of the users, in the order of ``user_vectors``."""
        return self._users[1]

    @cached_property
    def _items(self) -> tuple[np.ndarray, pd.DataFrame]:
        return self._vectors("items")

    @cached_property
    def _users(self) -> tuple[np.ndarray, pd.DataFrame]:
        return self._vectors("users")

    def _vectors(self, name: str) -> tuple[np.ndarray, pd.DataFrame]:
        with tempfile.TemporaryDirectory(prefix="tacit-") as folder:
            self._call("export", "--only", name, "--as", "npy", "-o", folder)
            ids = _frames.text_frame(Path(folder) / f"{name}_ids.csv").drop(columns="row")
            return np.load(Path(folder) / f"{name}.npy"), ids

    def _call(self, command: str, *args: str) -> Any:
        args = (command, "--run", str(self.dir), *args)
        if self._data_dir is not None:
            args += ("--data-dir", str(self._data_dir))
        return call(args)

    # How it is shown.

    def _table(self) -> pd.DataFrame:
        """Test metrics beside those of the references, as means over the seeds."""
        columns = ["hr@10", "ndcg@10"]
        mine = self.metrics.xs("test", level="items")[columns].groupby(level="ranking", sort=False).mean()
        frames = {self.method: mine}
        if len(self.references):
            theirs = self.references.xs("test", level="items")[columns]
            for name, group in theirs.groupby(level="reference", sort=False):
                frames[name] = group.groupby(level="ranking", sort=False).mean()
        return pd.concat(frames, names=["method"]).unstack("ranking").swaplevel(axis=1).sort_index(axis=1, ascending=[False, True])

    def _heading(self) -> str:
        seeds = f"{len(self.seeds)} seeds" if len(self.seeds) > 1 else f"seed {self.seeds[0]}"
        out = f"{self.method} on {self.dataset}, protocol {self.protocol}, {seeds}"
        if self.leaks:
            out += "; the protocol leaks: compare with published numbers only"
        if self.privacy:
            out += f"; epsilon {self.privacy['epsilon']} at delta {self.privacy['delta']:g}"
        return out

    def __repr__(self) -> str:
        return f"<tacit.Run {self._heading()}>\n{self._table().to_string(float_format='{:.4f}'.format)}"

    def _repr_html_(self) -> str:
        table = self._table().to_html(float_format="{:.4f}".format, border=0)
        return f"<p><b>{escape(self._heading())}</b><br>test items</p>{table}"


def _history_frame(history: Iterable[Any]) -> pd.DataFrame:
    if isinstance(history, (str, bytes)):
        raise InputError("a history must be a list of items, not a text", "", "bad_input", 2)
    rows = []
    for x in history:
        item, rating = x if isinstance(x, (tuple, list)) and len(x) == 2 else (x, 1)
        rows.append((_identifier(item), rating))
    return pd.DataFrame(rows, columns=["item", "rating"])


def _identifier(x: Any) -> str:
    text = str(x)
    if not text or "\n" in text or "\r" in text:
        raise InputError(f"invalid identifier {text!r}: must be one line of text", "", "bad_input", 2)
    return text


def run(
    data: Union[pd.DataFrame, PathLike] = "world",
    method: str = "tacit",
    protocol: str = "deployed",
    seeds: int = 1,
    *,
    seed: int = 1,
    out: Optional[PathLike] = None,
    columns: Union[str, Mapping[str, str], None] = None,
    data_dir: Optional[PathLike] = None,
    references: bool = True,
    figures: bool = False,
    force: bool = False,
    progress: Optional[bool] = None,
    **settings: Any,
) -> Run:
    """Train a method on a data set and evaluate it, as ``tacit run`` does.

    Parameters
    ----------
    data
        A data frame of interactions, the path of a file, or the name of a known set (``world`` is built in).
        A data frame needs columns for user and item, and may have rating, time, title and genres.
    method, protocol
        Names; ``tacit.methods()`` lists the methods, ``tacit help protocols`` the protocols.
    seeds
        Number of runs, with consecutive seeds from ``seed`` on.
    out
        Folder for the run. By default it is temporary, and deleted with the returned object. The interactions
        of a data frame are written beside it, as ``OUT.data.csv``, because recommendations need them.
    columns
        Which columns are which, such as ``{"user": "uid", "item": "film"}``.
    data_dir
        Folder of the known data sets; by default $TACIT_DATA or the cache folder.
    references
        Whether to measure the reference rows (popularity, EASE, local training, memoriser).
    figures
        Whether to compute the figures of the report, which takes seconds.
    progress
        Whether to show a progress bar; by default in notebooks and terminals.
    settings
        Settings of the run and the method, with ``_`` for ``-``: ``rounds=20, lr=0.05, dp="epsilon=8"``.

    Raises
    ------
    InputError
        If the data or a setting is invalid. It is also a ValueError.
    """
    if "," in str(protocol) or not isinstance(protocol, str):
        raise InputError(f"protocol {protocol!r}: must be one name", "call run once per protocol", "bad_input", 2)
    keep = None
    if out is None:
        keep = tempfile.TemporaryDirectory(prefix="tacit-")
        folder = Path(keep.name) / "run"
    else:
        folder = Path(out)
    args = ["run", "--method", str(method), "--protocol", str(protocol), "--seeds", str(seeds), "--seed", str(seed)]
    args += ["--out", str(folder)]
    written: Optional[Path] = None
    if isinstance(data, pd.DataFrame):
        written = _write_data(data, columns, folder, force)
        args += ["--data", str(written)]
        args += ["--columns", ",".join(f"{r}={r}" for r in ROLES if _column(data, columns, r) is not None)]
        args += ["--sep", "comma", "--header", "yes"]
    else:
        args += ["--data", os.fspath(data)]
        if columns is not None:
            args += ["--columns", columns if isinstance(columns, str) else _value(columns)]
    for flag, on in (("--no-references", not references), ("--no-figures", not figures), ("--force", force)):
        if on:
            args.append(flag)
    if data_dir is not None:
        args += ["--data-dir", os.fspath(data_dir)]
    args += [f"{key.replace('_', '-')}={_value(value)}" for key, value in settings.items()]
    bar = Progress(folder, method, int(seeds), int(seed), progress)
    try:
        call(args, bar.poll)
    except TacitError:
        if written is not None and not folder.exists():  # the run has not begun: leave nothing behind
            written.unlink()
        raise
    finally:
        bar.close()
    return Run(folder, data_dir, keep)


def load(folder: PathLike, *, data_dir: Optional[PathLike] = None) -> Run:
    """Open the folder of a finished run, which ``tacit run -o`` or ``tacit.run(out=...)`` wrote."""
    return Run(folder, data_dir)


def compare(base: Union[Run, PathLike], *others: Union[Run, PathLike]) -> pd.DataFrame:
    """Test whether runs differ from the first, by paired Wilcoxon tests over users with Holm's correction.

    The runs must have the same data, protocol and seeds. ``verdict`` is "better" or "worse" only if the test is
    significant.
    """
    folders = [str(r.dir if isinstance(r, Run) else Path(r)) for r in (base, *others)]
    out = pd.DataFrame(call(["compare", *folders]))
    return out.set_index(["run", "metric"]) if len(out) else out


def _value(x: Any) -> str:
    """Return a setting as text."""
    if isinstance(x, bool):
        return "true" if x else "false"
    if isinstance(x, Mapping):
        return ",".join(f"{key}={_value(value)}" for key, value in x.items())
    if isinstance(x, (list, tuple)):
        return ",".join(_value(v) for v in x)
    return str(x)


def _column(frame: pd.DataFrame, columns: Union[str, Mapping[str, str], None], role: str) -> Any:
    """Return the column of a role; None if the frame has none."""
    if isinstance(columns, str):
        raise InputError("columns of a data frame must be a dict such as {'user': 'uid', 'item': 'film'}", "",
                         "bad_input", 2)
    if columns and role in columns:
        return columns[role]
    names = {
        "user": ("user", "user_id", "userid", "uid"),
        "item": ("item", "item_id", "itemid", "movie_id", "movieid", "iid"),
        "rating": ("rating", "ratings", "score", "stars"),
        "time": ("time", "timestamp", "date", "datetime"),
        "title": ("title",),
        "genres": ("genres",),
    }[role]
    used = set((columns or {}).values())
    for column in frame.columns:
        if str(column).lower() in names and column not in used:
            return column
    return None


def _write_data(
    frame: pd.DataFrame, columns: Union[str, Mapping[str, str], None], folder: Path, force: bool
) -> Path:
    """Write the interactions of a data frame beside the run folder."""
    known = set(ROLES)
    for role, name in (columns or {}).items() if not isinstance(columns, str) else ():
        if role not in known or name not in frame.columns:
            raise InputError(
                f"columns: {role!r}: {name!r}: must name a role ({', '.join(ROLES)}) and a column of the data frame",
                f"the data frame has the columns {list(map(str, frame.columns))}",
                "bad_input",
                2,
            )
    out = {}
    for role in ROLES:
        name = _column(frame, columns, role)
        if name is None:
            if role in ("user", "item"):
                raise InputError(
                    f"the data frame has no column for the {role}: it has {list(map(str, frame.columns))}",
                    f'name it: columns={{"{role}": ...}}',
                    "bad_input",
                    2,
                )
            continue
        if list(frame.columns).count(name) > 1:
            raise InputError(f"the data frame has several columns named {name!r}", "rename or drop one of them",
                             "bad_input", 2)
        column = frame[name]
        if role in ("title", "genres"):
            out[role] = column.map(_line)
            continue
        if column.isna().any():
            raise InputError(f"column {name!r} of the data frame has missing values", "drop them with dropna()",
                             "bad_input", 2)
        if role in ("user", "item"):
            column = column.map(_identifier)
        elif pd.api.types.is_datetime64_any_dtype(column):
            column = _seconds(column)
        out[role] = column
    path = folder.parent / (folder.name + ".data.csv")
    if path.exists() and not force:
        raise InputError(f"{path} exists", "choose another out, or use force=True to replace it", "bad_input", 2)
    path.parent.mkdir(parents=True, exist_ok=True)
    pd.DataFrame(out).to_csv(path, index=False)
    return path


def _line(x: Any) -> str:
    """Return a title or genres as one line of text; several genres have | between them."""
    if isinstance(x, (list, tuple, set)):
        x = "|".join(map(str, x))
    return "" if pd.isna(x) else " ".join(str(x).split())


def _seconds(column: pd.Series) -> pd.Series:
    """Return times as seconds since 1970, with fractions only if there are some."""
    if getattr(column.dt, "tz", None) is not None:
        column = column.dt.tz_convert("UTC").dt.tz_localize(None)
    since = column - pd.Timestamp(0)
    whole = since // pd.Timedelta(seconds=1)
    if (since == whole * pd.Timedelta(seconds=1)).all():
        return whole
    return since / pd.Timedelta(seconds=1)
