"""Reads the files of a run folder into data frames."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Iterable, Mapping

import pandas as pd

PARTS = {"valid": "validation", "test": "test"}


def rows_of(summaries: Mapping[str, Any], key: tuple) -> list[dict]:
    """Return a row for each part and ranking of a result or a reference."""
    out = []
    for part, name in PARTS.items():
        for ranking, metrics in (summaries.get(part) or {}).items():
            if metrics:
                row = dict(metrics)
                row["users"] = int(row["users"]) if "users" in row else 0
                out.append({"__key": (*key, name, ranking), **row})
    return out


def frame(rows: list[dict], names: Iterable[str]) -> pd.DataFrame:
    """Return rows as a frame with an index of the given names, and columns in a stable order."""
    names = list(names)
    index = pd.MultiIndex.from_tuples([row.pop("__key") for row in rows] or [], names=names) if rows else None
    out = pd.DataFrame(rows, index=index)
    return out[sorted(out.columns, key=_order)]


def _order(column: str) -> tuple:
    name, _, k = str(column).partition("@")
    kinds = ["hr", "ndcg", "recall", "mrr", "coverage", "users"]
    return (kinds.index(name) if name in kinds else len(kinds), int(k) if k.isdigit() else 0, str(column))


def curves(path: Path) -> pd.DataFrame:
    """Read metrics.jsonl: a row per round, with columns such as ``valid.sampled.hr@10``."""
    rows = []
    with path.open(encoding="utf-8") as f:
        for line in f:
            if line.strip():
                value = json.loads(line)
                value.pop("spectra", None)
                rows.append(flat(value))
    out = pd.DataFrame(rows)
    return out.set_index("round") if "round" in out else out


def flat(value: Mapping[str, Any], prefix: str = "") -> dict:
    """Return nested values by dotted names."""
    out: dict = {}
    for key, x in value.items():
        if isinstance(x, Mapping):
            out.update(flat(x, f"{prefix}{key}."))
        else:
            out[prefix + key] = x
    return out


def per_user(path: Path) -> pd.DataFrame:
    """Read per_user.csv. Users are text; ranks that are missing are NA."""
    out = pd.read_csv(path, dtype={"user": str}, keep_default_na=False, na_values={})
    for column in out.columns.drop("user"):
        out[column] = pd.to_numeric(out[column], errors="coerce").astype("Int64")
    return out.set_index("user")


def text_frame(path: Path, numbers: Iterable[str] = ()) -> pd.DataFrame:
    """Read a CSV file of text, with some columns of numbers."""
    out = pd.read_csv(path, dtype=str, keep_default_na=False, na_values={})
    for column in numbers:
        out[column] = pd.to_numeric(out[column])
    return out
