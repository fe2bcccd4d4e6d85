"""Runs experiments and reads run folders."""

from __future__ import annotations

import csv
import json
import os
import tempfile
import warnings
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any, Iterable, Iterator, Mapping, Optional, Sequence, Union, overload

import numpy as np
import pandas as pd

from . import _frames
from ._data import Columns, Interactions, column_words, identifier
from ._program import InputError, TacitError, TacitWarning, call
from ._progress import Progress

PathLike = Union[str, "os.PathLike[str]"]


class Run:
    """A finished run: its metrics as data frames, and its trained model.

    ``tacit.run`` and ``tacit.load`` return it. With several seeds the frames hold all of them, and the model is
    that of the first seed; ``seed(k)`` is the run of one.
    """

    def __init__(self, folder: PathLike, data_dir: Optional[PathLike] = None, _keep: Any = None):
        self.dir = Path(folder).expanduser()
        self.notes: list[str] = []  # of the program, such as on columns that are not used
        self._data_dir = data_dir
        self._keep = _keep  # a temporary folder that lives as long as the run
        path = self.dir / "result.json"
        if not path.is_file():
            raise InputError(
                f"{self.dir} has no finished run (no result.json)",
                _no_result(self.dir),
            )
        try:
            self.result: dict = json.loads(path.read_text(encoding="utf-8"))
            version = self.result.get("schema_version", 1)
            runs = self.result.get("runs") or [self.result]
            if version == 1:
                runs[0]["method"], runs[0]["test"]
        except (ValueError, KeyError, TypeError, AttributeError, IndexError) as err:
            raise InputError(f"{path} is corrupt: {err}") from None
        if version != 1:
            raise InputError(
                f"{path} has schema version {version}, and this package reads version 1",
                "install a newer tacit-rec",
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
            raise InputError(f"seed {seed}: the run has the seeds {self.seeds}")
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
        """Ranks of the held-out items of each user, from 1. The index is the user, or (seed, user).

        A user with several test rows that are ranked together has a row for each, the best first.
        """
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

    def evaluate(
        self,
        protocol: Optional[str] = None,
        *,
        ties: Optional[str] = None,
        eval_users: Union[int, str, None] = None,
        references: bool = True,
        out: Optional[PathLike] = None,
        force: bool = False,
    ) -> "Run":
        """Evaluate the model again, without training, as ``tacit evaluate`` does.

        Parameters
        ----------
        protocol
            One of paper, isolated, deployed and complete, which hold out the same rows. By default that of the run.
        ties
            ``against`` or ``expected``: the rank of tied scores.
        eval_users
            Users to evaluate: ``all``, a number or ``auto``.
        out
            Folder for the result; by default temporary. It has no model.
        """
        args = []
        for flag, value in (("--protocol", protocol), ("--ties", ties), ("--eval-users", eval_users)):
            if value is not None:
                args += [flag, str(value)]
        args += [flag for flag, on in (("--no-references", not references), ("--force", force)) if on]
        with _Place(out, self.method, force) as place:
            self._call("evaluate", *args, "--out", str(place.folder))
            return Run(place.folder, self._data_dir, place.temporary)

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
        pairs. Each call loads the model; use ``recommend_all`` for many users.
        """
        args = ["-n", str(n)]
        if (user is None) == (history is None):
            raise InputError("recommend requires either a user or a history")
        if whole_history:
            args.append("--whole-history")
        if history is None:
            data = self._call("recommend", *args, "--user", identifier(user))
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

    def recommend_all(self, n: int = 10) -> pd.DataFrame:
        """Return the n best items of every user: columns user, rank, item, title, score and held_out."""
        with tempfile.TemporaryDirectory(prefix="tacit-") as folder:
            self._call("export", "--only", "top", "-n", str(n), "-o", folder)
            return _frames.text_frame(Path(folder) / "top.csv", ["rank", "score"])

    def export(
        self, folder: PathLike, format: str = "npy", *, only: Union[str, Sequence[str], None] = None, n: int = 10
    ) -> list[Path]:
        """Write item vectors, user vectors and the n best items of every user to a folder; return the files.

        Parameters
        ----------
        format
            ``npy``: NumPy arrays, beside CSV files with the identifiers of their rows; or ``csv`` or ``parquet``.
        only
            ``items``, ``users``, ``top`` or ``metrics``, or several of them. By default all that the method has.
        """
        args = ["--as", str(format), "-n", str(n), "-o", os.fspath(Path(folder).expanduser())]
        if only is not None:
            args += ["--only", only if isinstance(only, str) else ",".join(only)]
        out = self._call("export", *args)
        for text in out.get("left_out") or []:
            warnings.warn(text, TacitWarning, stacklevel=2)
        return [Path(out["folder"]) / f["file"] for f in out["files"]]

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


class Runs:
    """Several runs: one per protocol and setting of a grid. ``tacit.run`` returns it.

    ``table`` compares them, ``best()`` is the best setting on validation items, and ``runs["paper"]`` or
    ``runs["deployed,lr=0.1"]`` is one of them.
    """

    def __init__(self, several: Mapping[str, Any], data_dir: Optional[PathLike] = None, _keep: Any = None):
        self._variants = [dict(v) for v in several["runs"]]
        self._runs = {v["name"]: Run(v["folder"], data_dir, _keep) for v in self._variants}
        self.notes: list[str] = []

    def __len__(self) -> int:
        return len(self._runs)

    def __iter__(self) -> Iterator[Run]:
        return iter(self._runs.values())

    def __getitem__(self, name: str) -> Run:
        if name not in self._runs:
            raise InputError(f"unknown run {name!r}", f"the runs are {', '.join(self._runs)}")
        return self._runs[name]

    @property
    def names(self) -> list[str]:
        """Names of the runs, such as ``deployed,lr=0.1``."""
        return list(self._runs)

    def best(self, protocol: Optional[str] = None) -> Run:
        """Return the run of a grid that has the best NDCG@10 on the validation items of its protocol."""
        found = [v["name"] for v in self._variants if v.get("best") and protocol in (None, v["protocol"])]
        if len(found) != 1:
            protocols = ", ".join(dict.fromkeys(v["protocol"] for v in self._variants))
            if any(v.get("best") for v in self._variants):
                raise InputError(f"best: protocol {protocol!r} must be one of {protocols}")
            raise InputError("best requires a grid", f"metrics under {protocols} do not compare")
        return self._runs[found[0]]

    @cached_property
    def table(self) -> pd.DataFrame:
        """HR@10 and NDCG@10 of all runs, as means over the seeds, by run.

        With a grid only the best run of a protocol has test metrics: choosing by the others would be a choice on
        test items.
        """
        grid = any(v.get("settings") for v in self._variants)
        rows = {}
        for v in self._variants:
            run = self._runs[v["name"]]
            row: dict[str, Any] = {"protocol": v["protocol"], **(v.get("settings") or {})}
            if grid:
                row["best"] = bool(v.get("best"))
            means = run.metrics.groupby(level=["items", "ranking"], sort=False).mean()
            for items, ranking in (("validation", "sampled"), ("test", "sampled"), ("test", "full")):
                for metric in ("hr@10", "ndcg@10"):
                    known = (items, ranking) in means.index and (items == "validation" or row.get("best", True))
                    row[f"{items} {ranking} {metric}"] = means.loc[(items, ranking), metric] if known else np.nan
            rows[v["name"]] = row
        return pd.DataFrame.from_dict(rows, orient="index").rename_axis("run")

    def _heading(self) -> str:
        first = next(iter(self))
        methods = dict.fromkeys(r.method for r in self)
        return f"{', '.join(methods)} on {first.dataset}, {len(self)} runs"

    def __repr__(self) -> str:
        return f"<tacit.Runs {self._heading()}>\n{self.table.to_string(float_format='{:.4f}'.format, na_rep='-')}"

    def _repr_html_(self) -> str:
        table = self.table.to_html(float_format="{:.4f}".format, na_rep="-", border=0)
        return f"<p><b>{escape(self._heading())}</b></p>{table}"


def _no_result(folder: Path) -> str:
    """Return the next step for a folder without a result."""
    if (folder / "config.toml").is_file():
        return f"finish it with tacit.resume({str(folder)!r})"
    try:
        inside = sorted(p.parent.name for p in folder.glob("*/result.json"))
    except OSError:
        inside = []
    if inside:
        more = f" and {len(inside) - 8} more" if len(inside) > 8 else ""
        return f"it has runs in subfolders: {'; '.join(inside[:8])}{more}"
    return f"create it with tacit.run(..., out={str(folder)!r})"


def _history_frame(history: Iterable[Any]) -> pd.DataFrame:
    if isinstance(history, (str, bytes)):
        raise InputError("a history must be a list of items, not a text")
    rows = []
    for x in history:
        item, rating = x if isinstance(x, (tuple, list)) and len(x) == 2 else (x, 1)
        rows.append((identifier(item), rating))
    return pd.DataFrame(rows, columns=["item", "rating"])


@overload
def run(
    data: Union[pd.DataFrame, PathLike] = ...,
    method: str = ...,
    protocol: str = ...,
    seeds: int = ...,
    *,
    grid: None = ...,
    **settings: Any,
) -> Run: ...


@overload
def run(
    data: Union[pd.DataFrame, PathLike] = ...,
    method: str = ...,
    protocol: Union[str, Sequence[str]] = ...,
    seeds: int = ...,
    *,
    grid: Optional[Mapping[str, Sequence[Any]]] = ...,
    **settings: Any,
) -> Union[Run, Runs]: ...


def run(
    data: Union[pd.DataFrame, PathLike] = "world",
    method: str = "tacit",
    protocol: Union[str, Sequence[str]] = "deployed",
    seeds: int = 1,
    *,
    seed: int = 1,
    grid: Optional[Mapping[str, Sequence[Any]]] = None,
    out: Optional[PathLike] = None,
    columns: Columns = None,
    test: Optional[pd.DataFrame] = None,
    valid: Optional[pd.DataFrame] = None,
    data_dir: Optional[PathLike] = None,
    references: bool = True,
    figures: bool = False,
    force: bool = False,
    progress: Optional[bool] = None,
    **settings: Any,
) -> Union[Run, Runs]:
    """Train a method on a data set and evaluate it, as ``tacit run`` does.

    Parameters
    ----------
    data
        A data frame of interactions, the path of a file, or the name of a known set (``world`` is built in).
        A data frame needs columns for user and item, and may have rating, time, title and genres. Objects with
        a method ``to_pandas``, such as data frames of polars and tables of pyarrow, are converted.
    method, protocol
        Names; ``tacit.methods()`` lists the methods, ``tacit help protocols`` the protocols. A list of protocols
        is several runs.
    seeds
        Number of runs, with consecutive seeds from ``seed`` on.
    grid
        Settings with lists of values, such as ``{"lr": [0.01, 0.1]}``: every combination is a run, and the best is
        chosen on validation items.
    out
        Folder for the run. By default it is temporary, and deleted with the returned object. The interactions
        of a data frame are written beside it, as ``OUT.data.csv``, because recommendations need them.
    columns
        Which columns are which, such as ``{"user": "uid", "item": "film", "context": ["city"]}``. None leaves a
        role out: ``{"rating": None}``. For a data frame, roles that are not named are detected by common names.
    test, valid
        Data frames with the test and the validation rows, if you split the data yourself; ``data`` then has the train
        rows. All test rows of a user are ranked together. For files: ``test_file`` and ``valid_file``.
    data_dir
        Folder of the known data sets; by default $TACIT_DATA or the cache folder.
    references
        Whether to measure the reference rows (popularity, EASE, local training, memoriser).
    figures
        Whether to compute the figures of the report, which takes seconds.
    force
        Whether to replace the run in ``out``.
    progress
        Whether to show a progress bar; by default in notebooks and terminals.
    settings
        Flags of ``tacit run`` and parameters of the method, with ``_`` for ``-``:
        ``rounds=20, lr=0.05, dp={"epsilon": 8}, time_format="day-first"``. None means the default.

    Returns
    -------
    Run
        With several protocols or a grid: Runs.

    Raises
    ------
    InputError
        If the data or a setting is invalid. It is also a ValueError.
    """
    several = grid is not None or not isinstance(protocol, str) or "," in protocol
    if not isinstance(protocol, str):
        protocol = ",".join(map(str, protocol))
    for name, x in (("seeds", seeds), ("seed", seed)):
        if isinstance(x, bool) or not isinstance(x, (int, np.integer)):
            raise InputError(f"{name}={x!r}: must be a whole number", "seeds=5, seed=1 runs the seeds 1 to 5")
    args = ["run", "--method", str(method), "--protocol", protocol, "--seeds", str(seeds), "--seed", str(seed)]
    args += _grid_words(grid)
    for flag, on in (("--no-references", not references), ("--no-figures", not figures), ("--force", force)):
        if on:
            args.append(flag)
    if data_dir is not None:
        args += ["--data-dir", os.fspath(Path(data_dir).expanduser())]
    args += [f"{key.replace('_', '-')}={_value(value)}" for key, value in settings.items() if value is not None]
    if not isinstance(data, pd.DataFrame) and hasattr(data, "to_pandas"):
        data = data.to_pandas()
    rows: Optional[Interactions] = None
    parts = {"--test-file": test, "--valid-file": valid}
    if isinstance(data, pd.DataFrame):
        rows = Interactions(data, columns)
        args += rows.flags
    elif test is not None or valid is not None:
        raise InputError("test and valid require a data frame of train rows", "for files use test_file and valid_file")
    elif isinstance(data, (str, os.PathLike)):
        path = os.fspath(data)
        args += ["--data", os.path.expanduser(path) if path.startswith("~") else path]
        if columns is not None:
            args += ["--columns", column_words(columns)]
    else:
        raise InputError(
            f"data: found {type(data).__name__}, must be a data frame, the path of a file or the name of a data set",
            "pandas.DataFrame(...) makes a data frame",
        )
    with _Place(out, str(method), force) as place:
        if rows is not None:
            rows.write(place.data_file())
            args += ["--data", str(place.data)]
            for flag, part in parts.items():
                if part is not None:
                    args += [flag, str(_write_part(part, columns, rows, place, flag[2:-5]))]
        args += ["--out", str(place.folder)]
        bar = Progress(place.folder, str(method), int(seeds), int(seed), progress)
        failed = True
        try:
            found = call(args, bar.poll, bar.told, save=out is not None)
            failed = False
        except InputError as err:
            if rows is None or place.data is None:
                raise
            raise rows.explain(err, place.data) from None
        finally:
            bar.close(failed)
        done: Union[Run, Runs]
        done = Runs(found, data_dir, place.temporary) if several else Run(place.folder, data_dir, place.temporary)
    done.notes = bar.notes
    caveats = done.privacy["caveats"] if isinstance(done, Run) and done.privacy else []
    for note in bar.notes:
        if note not in caveats:
            warnings.warn(note, TacitWarning, stacklevel=2)
    return done


def _write_part(part: Any, columns: Columns, train: Interactions, place: "_Place", name: str) -> Path:
    """Write the test or validation rows beside the train rows, with the same columns."""
    if not isinstance(part, pd.DataFrame) and hasattr(part, "to_pandas"):
        part = part.to_pandas()
    if not isinstance(part, pd.DataFrame):
        raise InputError(f"{name}: found {type(part).__name__}, must be a data frame as the train rows")
    rows = Interactions(part, columns)
    if rows.flags != train.flags:
        raise InputError(f"{name}: the data frame must have the columns of the train rows", f"train has {train.flags[1]}")
    path = place.data_file(name)
    rows.write(path)
    return path


class _Place:
    """Where a run is written. It leaves no files behind if the run did not begin, or if it is temporary and fails."""

    def __init__(self, out: Optional[PathLike], name: str, force: bool):
        self.temporary: Optional["tempfile.TemporaryDirectory[str]"] = None
        self.data: Optional[Path] = None
        self._files: list[Path] = []
        self._force, self._made = force, []  # type: bool, list[Path]
        if out is None:
            self.temporary = tempfile.TemporaryDirectory(prefix="tacit-")
            self.folder = Path(self.temporary.name) / "".join(c if c.isalnum() or c in "-_" else "_" for c in name)
        else:
            self.folder = Path(out).expanduser()

    def data_file(self, name: str = "data") -> Path:
        """Return the path for the interactions of a data frame, in a folder that exists."""
        if self.temporary is not None:
            path = self.folder.parent / ("dataframe.csv" if name == "data" else name + ".csv")
            self.data = self.data or path
            return path
        path = self.folder.parent / f"{self.folder.name}.{name}.csv"
        if path.exists() and not self._force:
            raise InputError(f"{path} exists", "choose another out, or use force=True to replace it")
        for parent in [*path.parents][::-1]:
            if not parent.exists():
                parent.mkdir()
                self._made.append(parent)
        self.data = self.data or path
        self._files.append(path)
        return path

    def __enter__(self) -> "_Place":
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is None:
            return
        if self.temporary is not None:
            self.temporary.cleanup()
        elif self.data is not None and not self.folder.exists():
            for path in self._files:
                path.unlink(missing_ok=True)
            for parent in self._made[::-1]:
                try:
                    parent.rmdir()
                except OSError:
                    break


def resume(folder: PathLike, *, data_dir: Optional[PathLike] = None, progress: Optional[bool] = None) -> Run:
    """Finish a run that was interrupted, from the last round that it saved. The result is the same, bit for bit."""
    path = Path(folder).expanduser()
    args = ["run", "--resume", str(path)]
    if data_dir is not None:
        args += ["--data-dir", os.fspath(Path(data_dir).expanduser())]
    bar = Progress(path, path.name, 1, 1, progress)
    failed = True
    try:
        call(args, bar.poll, bar.told)
        failed = False
    finally:
        bar.close(failed)
    return Run(path, data_dir)


def load(folder: PathLike, *, data_dir: Optional[PathLike] = None) -> Run:
    """Open the folder of a finished run, which ``tacit run -o`` or ``tacit.run(out=...)`` wrote."""
    return Run(folder, data_dir)


def compare(
    base: Union[Run, PathLike], *others: Union[Run, PathLike], at: Optional[Sequence[int]] = None
) -> pd.DataFrame:
    """Test whether runs differ from the first, by paired Wilcoxon tests over users with Holm's correction.

    The runs must have the same data, protocol and seeds. ``verdict`` is "better" or "worse" only if the test is
    significant. ``at`` is the list lengths to compare by, such as ``[5, 10]``.
    """
    folders = [str(r.dir if isinstance(r, Run) else Path(r).expanduser()) for r in (base, *others)]
    out = pd.DataFrame(call(["compare", *folders, *(["--at", _value(at)] if at is not None else [])]))
    return out.set_index(["run", "metric"]) if len(out) else out


def _grid_words(grid: Optional[Mapping[str, Sequence[Any]]]) -> list[str]:
    words = []
    if grid is not None and (not isinstance(grid, Mapping) or not grid):
        raise InputError(f"grid={grid!r}: must be settings with lists of values", 'example: grid={"lr": [0.01, 0.1]}')
    for key, values in (grid or {}).items():
        texts = [_value(v) for v in (values if isinstance(values, (list, tuple, np.ndarray, range)) else [values])]
        if not texts or any(not t or set(t) & set(", \t\n") for t in texts):
            raise InputError(
                f"grid: {key}={values!r}: must be a list of values without commas and spaces",
                'example: grid={"lr": [0.01, 0.1]}',
            )
        words += ["--grid", f"{key.replace('_', '-')}={','.join(texts)}"]
    return words


def _value(x: Any) -> str:
    """Return a setting as text."""
    if isinstance(x, (bool, np.bool_)):
        return "true" if x else "false"
    if isinstance(x, Mapping):
        return ",".join(f"{key}={_value(value)}" for key, value in x.items())
    if isinstance(x, (list, tuple, np.ndarray, range)):
        return ",".join(_value(v) for v in x)
    return str(x)
