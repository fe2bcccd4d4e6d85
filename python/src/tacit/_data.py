"""Writes the interactions of a data frame as a file that the program reads."""

from __future__ import annotations

import datetime
import re
import warnings
from pathlib import Path
from typing import Any, Iterable, Mapping, Optional, Sequence, Union

import numpy as np
import pandas as pd

from ._program import InputError, TacitWarning

Columns = Union[str, Mapping[str, Any], None]

ROLES = ("user", "item", "rating", "time", "title", "genres")

# Names of columns in public data sets, in lower case, reduced to letters and digits, as the program has them.
HEADERS = {
    "user": "user userid uid customer customerid reviewer reviewerid member memberid visitorid client clientid "
    "profileid",
    "item": "item itemid iid movie movieid film filmid product productid asin isbn parentasin artist artistid app "
    "appid book bookid track trackid song songid game gameid businessid video videoid news newsid article "
    "articleid",
    "rating": "rating ratings value score stars overall bookrating count cnt weight plays playcount",
    "time": "time timestamp ts unixtime unixreviewtime unixtimestamp date datetime reviewtime createdat",
    "title": "title itemtitle movietitle filmtitle producttitle booktitle songtitle itemname moviename productname "
    "artistname trackname songname appname bookname",
    "genres": "genre genres category categories",
}


class Interactions:
    """The interactions of a data frame: the columns of its roles, as the program reads them."""

    def __init__(self, frame: pd.DataFrame, columns: Columns = None):
        self._source = frame
        if not len(frame.columns):
            raise InputError("the data frame has no columns", "it needs at least a user and an item in each row")
        chosen = _parsed(columns)
        contexts = chosen.pop("context", [])
        roles: dict[str, Any] = {}
        left_out = {role for role, name in chosen.items() if name is None}
        for role, name in chosen.items():
            if role not in ROLES:
                raise InputError(
                    f"columns: unknown role {role!r}",
                    f"roles are {', '.join(ROLES)} and context",
                )
            if name is not None:
                roles[role] = name
        for name in [*roles.values(), *contexts]:
            self._check(name)
        for role in ROLES:
            if role not in roles and role not in left_out:
                found = self._find(role, [*roles.values(), *contexts])
                if found is not None:
                    roles[role] = found
        used: dict[Any, str] = {}
        for role, name in [*roles.items(), *(("context", c) for c in contexts)]:
            if name in used:
                raise InputError(f"columns: {name!r} is both {used[name]} and {role}", "a column has one role")
            used[name] = role
        for role in ("user", "item"):
            if role not in roles:
                raise self._no_column(role)
        if not len(frame):
            raise InputError("the data frame is empty", "it needs at least 3 rows for each user")
        self._suggest({*roles, *left_out}, used)
        out = {role: self._values(role, roles[role]) for role in ROLES if role in roles}
        words = [f"{role}={role}" for role in out]
        for k, name in enumerate(contexts):
            header = str(name)
            if header in out or not re.fullmatch(r"[\w.-]+", header):
                header = f"context{k + 1}"
            out[header] = self._values("context", name)
            words.append(f"context={header}")
        self.frame = pd.DataFrame(out)
        self.flags = ["--columns", ",".join(words), "--sep", "comma", "--header", "yes"]

    def write(self, path: Path) -> None:
        """Write the interactions as CSV."""
        self.frame.to_csv(path, index=False)

    def explain(self, err: InputError, path: Path) -> InputError:
        """Return an error of the program that names rows of the data frame instead of lines of the file."""

        def row(match: "re.Match[str]") -> str:
            at = int(match.group(1)) - 2
            return f"row {at} of the data frame" if at >= 0 else "the data frame"

        message, hint = (
            re.sub(re.escape(path.name), "the data frame", re.sub(re.escape(path.name) + r" line (\d+)", row, text))
            for text in (err.message, err.hint)
        )
        return InputError(message, hint, err.code, err.exit_code)

    def _check(self, name: Any) -> None:
        names = list(self._source.columns)
        if name not in names:
            raise InputError(f"columns: the data frame has no column {name!r}", self._has())
        if names.count(name) > 1:
            raise InputError(f"the data frame has several columns named {name!r}", "rename or drop one of them")

    def _has(self) -> str:
        names = [str(c) for c in self._source.columns]
        more = f" and {len(names) - 20} more" if len(names) > 20 else ""
        return f"it has the columns {', '.join(names[:20])}{more}"

    def _no_column(self, role: str) -> InputError:
        example = "user_id" if role == "user" else "item_id"
        hint = f'{self._has()}; name one of them: columns={{"{role}": "{example}"}}'
        if any(_role_of(n) == role for n in self._source.index.names if n is not None):
            hint = "the index has it: call reset_index() on the data frame"
        return InputError(f"the data frame has no column for the {role}", hint)

    def _find(self, role: str, used: Sequence[Any]) -> Optional[Any]:
        for name in self._source.columns:
            if _role_of(name) == role and not any(name is u or name == u for u in used):
                self._check(name)
                return name
        return None

    def _suggest(self, roles: set[str], used: Mapping[Any, str]) -> None:
        """Warn of columns that probably have a role which is missing."""
        hints = {}
        for at, name in enumerate(self._source.columns):
            if name in used or not isinstance(name, str):
                continue
            lower = name.lower()
            column = self._source.iloc[:, at]
            if "time" not in roles and "time" not in hints and _is_time(column):
                hints["time"] = name
            elif "title" not in roles and "title" not in hints and ("title" in lower or lower.endswith("name")) and (
                "user" not in lower
            ):
                hints["title"] = name
        if hints:
            names = ", ".join(map(repr, hints.values()))
            text = f"column{'s' if len(hints) > 1 else ''} {names} of the data frame: not used; did you mean columns={hints}?"
            warnings.warn(text, TacitWarning, stacklevel=4)

    def _values(self, role: str, name: Any) -> pd.Series:
        """Return the column of a role as the program reads it."""
        column = self._source[name]
        if role in ("title", "genres", "context"):
            return column.astype(object).map(_line).reset_index(drop=True)
        missing = int(column.isna().sum())
        if missing:
            raise InputError(
                f"column {name!r} of the data frame ({role}): {missing} of {len(column)} rows have no value",
                f"drop these rows, dropna(subset=[{name!r}]), or fill them",
            )
        column = column.reset_index(drop=True)
        if role in ("user", "item"):
            return _identifiers(column, name)
        if role == "rating":
            return _numbers(column, name)
        if pd.api.types.is_datetime64_any_dtype(column):
            return _seconds(column)
        return column


def _parsed(columns: Columns) -> dict[str, Any]:
    """Return the roles that the user chose; context as a list."""
    if columns is None:
        return {}
    out: dict[str, Any] = {}
    if isinstance(columns, str):
        pairs: Iterable[tuple[str, Any]] = []
        words = [w.partition("=") for w in columns.split(",") if w.strip()]
        if not all(eq and name.strip() for _, eq, name in words):
            raise InputError(
                f"columns={columns!r}: must name roles and columns",
                "example: columns={'user': 'uid', 'item': 'film'}",
            )
        pairs = [(role.strip(), name.strip()) for role, _, name in words]
    elif isinstance(columns, Mapping):
        pairs = [(str(role), name) for role, name in columns.items()]
    else:
        raise InputError(
            f"columns: found {type(columns).__name__}, must be a dict", "example: columns={'user': 'uid', 'item': 'film'}"
        )
    for role, name in pairs:
        if role == "context":
            out.setdefault(role, []).extend(name if isinstance(name, (list, set)) else [name])
        else:
            out[role] = name
    return out


def column_words(columns: Columns) -> str:
    """Return columns of a file as the program reads them: ``user=uid,item=film``."""
    if isinstance(columns, str):
        return columns
    words = []
    for role, name in _parsed(columns).items():
        for one in name if role == "context" else [name]:
            if one is not None:
                words.append(f"{role}={one}")
    return ",".join(words)


def _role_of(name: Any) -> Optional[str]:
    word = re.sub(r"[^a-z0-9]", "", str(name).lower())
    for role, names in HEADERS.items():
        if word and word in names.split():
            return role
    return None


def _is_time(column: pd.Series) -> bool:
    """Report whether a column has dates, by its type or its first values."""
    if pd.api.types.is_datetime64_any_dtype(column):
        return True
    first = column.head(20).dropna()
    if not len(first) or pd.api.types.is_numeric_dtype(column):
        return False
    return all(
        isinstance(x, datetime.date) or isinstance(x, str) and re.match(r"\d{4}-\d\d-\d\d([T ]|$)", x) for x in first
    )


def identifier(x: Any) -> str:
    """Return an identifier as one line of text. Whole numbers have no point: 3.0 is the identifier 3."""
    if isinstance(x, bytes):
        x = x.decode("utf-8", "replace")
    if isinstance(x, (float, np.floating)) and float(x).is_integer():
        x = int(x)
    text = str(x).strip(" ")  # as files are read
    if not text or "\n" in text or "\r" in text:
        raise InputError(f"invalid identifier {text!r}: must be one line of text that is not empty")
    return text


def _identifiers(column: pd.Series, name: Any) -> pd.Series:
    try:
        codes, values = pd.factorize(column)
    except TypeError:
        raise InputError(f"column {name!r} of the data frame: identifiers must be text or numbers") from None
    try:
        texts = np.array([identifier(x) for x in values], dtype=object)
    except InputError as err:
        raise InputError(f"column {name!r} of the data frame: {err.message}") from None
    return pd.Series(texts[codes] if len(texts) else [], dtype=object)


def _numbers(column: pd.Series, name: Any) -> pd.Series:
    if pd.api.types.is_bool_dtype(column):
        return column.astype(int)
    out = pd.to_numeric(column.astype(object) if isinstance(column.dtype, pd.CategoricalDtype) else column, errors="coerce")
    wrong = ~np.isfinite(out.astype(float))
    if wrong.any():
        at = int(np.flatnonzero(wrong)[0])
        raise InputError(
            f"column {name!r} of the data frame (rating): row {at} has {column.iloc[at]!r}, must be a number",
            'convert them, or leave them out: columns={"rating": None}',
        )
    return out


def _line(x: Any) -> str:
    """Return a title, genres or a context as one line of text; several genres have | between them."""
    if isinstance(x, (list, tuple, set, frozenset, np.ndarray)):
        x = "|".join(map(str, x))
    return "" if pd.isna(x) else " ".join(str(x).split())


def _seconds(column: pd.Series) -> pd.Series:
    """Return times as seconds since 1970, with fractions only if a time has one."""
    if getattr(column.dt, "tz", None) is not None:
        column = column.dt.tz_convert("UTC").dt.tz_localize(None)
    since = column - pd.Timestamp(0)
    whole = since // pd.Timedelta(seconds=1)
    rest = since - whole * pd.Timedelta(seconds=1)
    if not rest.any():
        return whole
    return whole + rest / pd.Timedelta(seconds=1)
