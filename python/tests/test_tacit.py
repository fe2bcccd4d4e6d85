"""Tests of the Python package. They run the program that is in the package."""

import json
import math
import os
import re
import shutil
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import tacit
from tacit import _data
from tacit._progress import Progress

WORLD = {"users": 60, "items": 130, "mean-rows": 12}


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A run on the built-in data, in a folder."""
    out = tmp_path_factory.mktemp("runs") / "ials"
    return tacit.run("world", method="ials", rounds=3, world=WORLD, preset="none", out=out)


def clicks(users=24, items=30, rows=7):
    """A data frame whose names and types are not those of the program."""
    return pd.DataFrame(
        [
            (f"u,{u}", 100 + i, pd.Timestamp(2024, 1, 1 + k), f'Film "{i}"')
            for u in range(users)
            for k in range(rows)
            for i in [(7 * u + 2 * k) % items]
        ],
        columns=["who", "film", "seen", "name"],
    )


ROLES = {"user": "who", "item": "film", "time": "seen", "title": "name"}


def test_metrics_are_those_of_the_result(small):
    result = json.loads((small.dir / "result.json").read_text())
    assert small.metrics.loc[(1, "test", "full"), "hr@10"] == result["test"]["full"]["hr@10"]
    assert small.metrics.loc[(1, "validation", "sampled"), "ndcg@10"] == result["valid"]["sampled"]["ndcg@10"]
    assert (small.method, small.dataset, small.protocol, small.seeds) == ("ials", "world", "deployed", [1])
    assert small.settings["rounds"] == 3 and small.privacy is None and not small.leaks
    assert set(small.references.index.unique("reference")) == {"popularity", "ease", "local", "memoriser"}
    assert small.report.is_file()


def test_ranks_and_curves(small):
    assert list(small.curves.index) == [1, 2, 3]
    assert small.curves.loc[3, "valid.sampled.hr@10"] >= 0
    ranks = small.per_user["test_full_rank"]
    assert len(ranks) == 60 and ranks.index[0] == "0"
    assert (ranks <= 10).mean() == pytest.approx(small.metrics.loc[(1, "test", "full"), "hr@10"])


def test_recommendations(small):
    top = small.recommend(7, n=5)
    assert list(top.columns) == ["item", "title", "score", "held_out"] and list(top.index) == [1, 2, 3, 4, 5]
    assert top["score"].is_monotonic_decreasing and top["title"].str.len().min() > 0
    everything = small.recommend("7", n=1000)
    rest = small.recommend("7", n=1000, whole_history=True)
    assert set(everything["held_out"]) == {"", "validation", "test"} and len(rest) == len(everything) - 2
    stranger = small.recommend(history=["3", ("9", 4.5), "unknown"], n=1000)
    assert len(stranger) == 128 and not set(stranger["item"]) & {"3", "9"}
    lists = small.recommend_all(5)
    assert lists[lists.user == "7"]["item"].tolist() == top["item"].tolist() and len(lists) == 5 * 60


def test_vectors_give_the_scores(small):
    d = small.item_vectors.shape[1]
    scores = small.user_vectors[:, :d] @ small.item_vectors.T
    if small.user_vectors.shape[1] > d:
        scores += small.user_vectors[:, d:]
    top = small.recommend("7", n=3)
    row = small.users["user"].tolist().index("7")
    columns = [small.items["item"].tolist().index(i) for i in top["item"]]
    assert scores[row, columns] == pytest.approx(top["score"].to_numpy(), rel=1e-4)
    assert small.item_vectors.dtype == np.float32 and list(small.items.columns) == ["item", "title"]


def test_a_run_is_shown(small):
    assert "ials on world, protocol deployed, seed 1" in repr(small) and "popularity" in repr(small)
    page = small._repr_html_()
    assert page.count("<table") == 1 and "ndcg@10" in page and "<b>ials on world" in page


def test_load_and_compare(small):
    again = tacit.load(small.dir)
    pd.testing.assert_frame_equal(again.metrics, small.metrics)
    other = tacit.run("world", method="fedmf", rounds=1, world=WORLD, references=False)
    table = tacit.compare(small, other)
    assert set(table["verdict"]) <= {"better", "worse", "mixed", "no difference shown"}
    assert table["base"].iloc[0] == pytest.approx(small.metrics.loc[(1, "test", "sampled"), "hr@10"])
    with pytest.raises(tacit.InputError, match="no finished run"):
        tacit.load(small.dir / "checkpoint")


def test_a_data_frame_is_data():
    frame = clicks()
    r = tacit.run(frame, method="ials", columns=ROLES, rounds=2, preset="none", references=False)
    assert len(r.per_user) == 24 and r.per_user.index[3] == "u,3"
    top = r.recommend("u,3", n=3)
    assert top["item"].str.startswith("1").all()
    assert (top["title"] == 'Film "' + (top["item"].astype(int) - 100).astype(str) + '"').all()
    # Times decide what is held out, not the order of the rows.
    shuffled = tacit.run(
        frame.sample(frac=1, random_state=1), method="ials", columns=ROLES, rounds=2, preset="none", references=False
    )
    held = lambda r: set(r.recommend("u,5", n=100).query("held_out == 'test'")["item"])
    assert held(r) == held(shuffled) == {str(frame[frame.who == "u,5"]["film"].iloc[-1])}


def held_out(frame, **how):
    """What a run holds out for testing, which shows how the columns were read."""
    r = tacit.run(frame, method="fedmf", rounds=1, preset="none", references=False, **how)
    lists = r.recommend_all(1000)
    return lists[lists["held_out"] == "test"].set_index("user")["item"].to_dict(), r


def test_types_of_columns():
    """Other types of the same values are read in the same way."""
    frame = clicks().set_axis(["user", "item", "time", "title"], axis=1)
    want = _data.Interactions(frame).frame
    assert want["time"].iloc[1] == 1704153600 and want["item"].iloc[1] == "102"
    for change in (
        {"time": frame["time"].dt.tz_localize("UTC").dt.tz_convert("Europe/Paris")},
        {"user": frame["user"].astype("category"), "item": frame["item"].astype("category")},
        {"user": frame["user"].astype("string"), "item": frame["item"].astype("Int64")},
        {"item": frame["item"].astype(float)},  # as after a merge
        {"item": frame["item"].astype(str).str.encode("utf-8")},
    ):
        pd.testing.assert_frame_equal(_data.Interactions(frame.assign(**change)).frame, want)
    for genres in (["a", "b"], np.array(["a", "b"]), ("a", "b")):
        got = _data.Interactions(frame.assign(rating=True, genres=[genres] * len(frame), title=None)).frame
        assert set(got["genres"]) == {"a|b"} and set(got["rating"]) == {1} and set(got["title"]) == {""}
    late = _data.Interactions(frame.assign(time=frame["time"] + pd.Timedelta(milliseconds=250))).frame["time"]
    assert late.iloc[1] == 1704153600.25
    with pytest.warns(tacit.TacitWarning, match="columns={'time': 'when'}"):
        _data.Interactions(frame.rename(columns={"time": "when"}))


def test_dates_that_are_text_or_objects():
    frame = clicks().set_axis(["user", "item", "time", "title"], axis=1)
    want, _ = held_out(frame)
    assert len(want) == 24
    for change in (
        {"time": frame["time"].dt.strftime("%Y-%m-%dT%H:%M:%S")},
        {"time": pd.Series([t.date() for t in frame["time"]], dtype=object)},
    ):
        got, _ = held_out(frame.assign(**change).sample(frac=1, random_state=2))
        assert got == want, change

    class Other:  # such as a data frame of polars
        to_pandas = staticmethod(lambda: frame)

    assert held_out(Other())[0] == want


def test_names_of_columns():
    frame = clicks().set_axis(["UserID", "movie_id", "Timestamp", "Title"], axis=1)
    want = _data.Interactions(clicks(), ROLES).frame
    pd.testing.assert_frame_equal(_data.Interactions(frame).frame, want)
    text = _data.Interactions(clicks(), "user=who, item=film, time=seen, title=name")
    pd.testing.assert_frame_equal(text.frame, want)
    assert list(_data.Interactions(frame, {"title": None}).frame.columns) == ["user", "item", "time"]
    _, r = held_out(frame.assign(city="Bonn", **{"a b": 1}), columns={"context": ["city", "a b"], "time": "Timestamp"})
    assert len(r.per_user) == 24 and "context=city,context=context2" in (r.dir / "config.toml").read_text()


def test_names_are_those_of_the_program():
    path = Path(__file__).parents[2] / "data" / "layout.go"
    if not path.is_file():
        pytest.skip("the source of the program is not here")
    text = path.read_text(encoding="utf-8")
    block = text[text.index("var headerNames") : text.index("// layout is how")]
    for role, names in _data.HEADERS.items():
        part = block[block.index(role + "Col:") :]
        part = part[: part.index('",\n')]
        assert names.split() == "".join(re.findall('"([^"]*)"', part + '"')).split(), role


def test_paths(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "Haus é 漢"))
    _, r = held_out(clicks(), columns=ROLES, out="~/ein Lauf")
    assert r.dir == tmp_path / "Haus é 漢" / "ein Lauf" and tacit.load("~/ein Lauf").method == "fedmf"
    clicks().to_csv(tmp_path / "a file.csv", index=False)
    _, other = held_out(tmp_path / "a file.csv", columns=ROLES, out=tmp_path / "b b")
    assert set(tacit.compare(r, other)["verdict"]) == {"no difference shown"}
    files = other.export(tmp_path / "ex port", "csv", only=["items", "top"], n=3)
    assert [f.name for f in files] == ["items.csv", "top.csv"] and len(pd.read_csv(files[1])) == 3 * 24


def test_several_runs(tmp_path):
    how = dict(method="fedmf", rounds=2, world=WORLD, references=False, preset="none")
    both = tacit.run("world", protocol=["paper", "deployed"], **how)
    alone = tacit.run("world", protocol="paper", **how)
    pd.testing.assert_frame_equal(both["paper"].metrics, alone.metrics)
    assert both.names == ["paper", "deployed"] and [r.leaks for r in both] == [True, False]
    assert both.table["test sampled hr@10"].notna().all() and "2 runs" in repr(both)
    with pytest.raises(tacit.InputError, match="best requires a grid"):
        both.best()
    grid = tacit.run("world", grid={"lr": [0.001, 0.5], "dim": [4, 8]}, out=tmp_path / "grid", **how)
    table = grid.table
    assert len(grid) == 4 and table["best"].sum() == 1 and "<table" in grid._repr_html_()
    assert table["test full hr@10"].notna().tolist() == table["best"].tolist()
    assert table["validation sampled ndcg@10"].idxmax() == table.index[table["best"]][0]
    best = grid.best()
    assert best.dir.name == table.index[table["best"]][0] and len(best.recommend("7", n=3)) == 3
    with pytest.raises(tacit.InputError, match="unknown run 'x'"):
        grid["x"]
    with pytest.raises(tacit.InputError, match="runs in subfolders"):
        tacit.load(tmp_path / "grid")


def test_evaluate_again(small, tmp_path):
    same = small.evaluate(references=False)
    pd.testing.assert_frame_equal(same.metrics, small.metrics)
    other = small.evaluate("paper", references=False, out=tmp_path / "paper")
    assert other.protocol == "paper" and other.leaks and "full" not in other.metrics.index.unique("ranking")
    with pytest.raises(tacit.InputError, match="temporal"):
        small.evaluate("temporal")


def test_several_test_rows(tmp_path):
    frame = clicks().set_axis(["user", "item", "time", "title"], axis=1)
    late = frame["time"] >= "2024-01-05"
    how = dict(method="ials", rounds=2, preset="none", references=False)
    r = tacit.run(frame[~late], test=frame[late], out=tmp_path / "run", **how)
    for name, part in (("train", ~late), ("test", late)):
        frame[part].to_csv(tmp_path / f"{name}.csv", index=False)
    files = tacit.run(tmp_path / "train.csv", test_file=tmp_path / "test.csv", **how)
    pd.testing.assert_frame_equal(files.metrics, r.metrics)
    with pytest.raises(tacit.InputError, match="columns of the train rows"):
        tacit.run(frame[~late], test=frame[late].drop(columns="title"), out=tmp_path / "other", **how)
    assert not list(tmp_path.glob("other*"))
    test = r.metrics.loc[(1, "test", "full")]
    assert len(r.per_user) == 3 * 24 and test["users"] == 24 and test["recall@5"] <= test["hr@5"]
    first = r.per_user["test_full_rank"].groupby(level="user").min()
    assert (first <= 10).mean() == pytest.approx(test["hr@10"])
    assert (r.per_user["test_full_rank"] <= 10).mean() == pytest.approx(test["recall@10"])


def test_a_temporary_run_goes_with_its_object():
    r = tacit.run("world", method="fedmf", rounds=1, world=WORLD, references=False)
    folder = r.dir
    assert folder.is_dir()
    del r
    assert not folder.exists()


def test_seeds():
    r = tacit.run("world", method="fedmf", rounds=2, seeds=2, seed=5, world=WORLD, references=False)
    assert r.seeds == [5, 6] and len(r.per_user) == 120 and len(r.curves) == 4
    values = r.metrics.xs(("test", "full"), level=("items", "ranking"))["hr@10"]
    assert r.summary.loc[("mean", "test", "full"), "hr@10"] == pytest.approx(values.mean())
    assert r.seed(6).metrics.loc[(6, "test", "full"), "hr@10"] == values.loc[6]
    with pytest.raises(tacit.InputError, match="seed 9"):
        r.seed(9)


def test_privacy():
    spent = tacit.privacy.spend(noise=1, q=0.01, rounds=1000, delta=1e-6)
    assert math.isclose(spent["epsilon"], 2.1245, rel_tol=1e-3) and spent["accountant"] == "pld"
    r = tacit.run(
        "world", method="fedmf", rounds=1, dim=4, world=WORLD, references=False, dp={"epsilon": 5, "delta": 1e-3}
    )
    assert len(r.notes) > 0 and set(r.notes) <= set(r.privacy["caveats"])
    assert 0 < r.privacy["epsilon"] <= 5 and "epsilon" in repr(r)
    with pytest.raises(tacit.InputError):
        tacit.privacy.spend(noise=-1, rounds=10)
    plan = tacit.privacy.plan(epsilon=8, users=100_000, rounds=5, delta=1e-6)
    assert plan.index[0] == "as planned" and len(plan) > 1 and (plan["epsilon"] <= 8).all()
    again = tacit.privacy.spend(
        noise=plan["noise"].iloc[0], sampler="none", rounds=5, delta=1e-6, accountant="rdp", adjacency="zero-out"
    )
    assert again["epsilon"] == pytest.approx(plan["epsilon"].iloc[0], rel=1e-3)
    with pytest.raises(tacit.InputError):
        tacit.privacy.plan(epsilon=8, users=0, rounds=50)


def test_lists():
    assert "pfedrec" in tacit.methods().index and "world" in tacit.datasets().index
    assert "dim" in tacit.method("ials")["params"].index


def test_errors_are_exceptions_with_our_messages(tmp_path, monkeypatch):
    with pytest.raises(tacit.InputError, match='did you mean "pfedrec"') as e:
        tacit.run(method="pfedrek")
    assert e.value.hint and e.value.exit_code == 2 and isinstance(e.value, ValueError)
    with pytest.raises(tacit.InputError, match="lrr"):
        tacit.run("world", method="fedmf", lrr=1)
    with pytest.raises(tacit.InputError, match="no column for the user"):
        tacit.run(clicks())
    with pytest.raises(tacit.InputError, match="'filmm'"):
        tacit.run(clicks(), columns={"user": "who", "item": "filmm"})
    with pytest.raises(tacit.InputError, match="168 of 168 rows have no value"):
        tacit.run(clicks().assign(film=None), columns=ROLES)
    with pytest.raises(tacit.InputError, match="several columns named 'film'"):
        tacit.run(pd.concat([clicks(), clicks()[["film"]]], axis=1), columns=ROLES)
    with pytest.raises(tacit.InputError, match="one line of text"):
        tacit.run(clicks().assign(who="a\nb"), columns=ROLES)
    with pytest.raises(tacit.InputError, match="both user and item"):
        tacit.run(clicks(), columns={"user": "who", "item": "who"})
    with pytest.raises(tacit.InputError, match="unknown role 'city'"):
        tacit.run(clicks(), columns={**ROLES, "city": "name"})
    with pytest.raises(tacit.InputError, match="call reset_index"):
        tacit.run(clicks().rename(columns={"who": "user", "film": "item"}).set_index("user"))
    with pytest.raises(tacit.InputError, match="is empty"):
        tacit.run(clicks().iloc[:0], columns=ROLES)
    with pytest.raises(tacit.InputError, match="row 0 has 'good', must be a number"):
        tacit.run(clicks().assign(stars="good"), columns=ROLES)
    with pytest.raises(tacit.InputError, match="row 3 of the data frame"):
        tacit.run(clicks().assign(seen=["2024-01-01"] * 3 + ["soon"] * 165), columns=ROLES)
    for data in ({"user": [1]}, None, [1], clicks()["film"]):
        with pytest.raises(tacit.InputError, match="must be a data frame"):
            tacit.run(data)
    with pytest.raises(tacit.InputError, match="whole number"):
        tacit.run("world", seeds=[1, 2])
    with pytest.raises(tacit.InputError, match="without commas"):
        tacit.run("world", grid={"lr": ["0.1,0.2"]})
    with pytest.raises(tacit.InputError, match="did you mean"):
        tacit.run(clicks(), columns=ROLES, out=tmp_path / "run", method="pfedrek")
    assert not (tmp_path / "run.data.csv").exists()
    (tmp_path / "run.data.csv").write_text("mine")
    with pytest.raises(tacit.InputError, match="run.data.csv exists"):
        tacit.run(clicks(), columns=ROLES, out=tmp_path / "run")
    assert (tmp_path / "run.data.csv").read_text() == "mine"
    with pytest.raises(tacit.InputError, match="lrr"):
        tacit.run(clicks(), columns=ROLES, out=tmp_path / "new" / "typo", lrr=1)
    assert not (tmp_path / "new").exists()
    (tmp_path / "result.json").write_text('{"schema_version": 2}')
    with pytest.raises(tacit.InputError, match="schema version 2"):
        tacit.load(tmp_path)
    (tmp_path / "result.json").write_text("[1]")
    with pytest.raises(tacit.InputError, match="corrupt"):
        tacit.load(tmp_path)
    monkeypatch.setenv("PYTACIT_PROGRAM", str(tmp_path / "none"))
    with pytest.raises(tacit.ProgramNotFoundError):
        tacit.methods()


def test_a_user_or_a_history(small):
    for arguments in ({}, {"user": "7", "history": ["3"]}, {"history": "39"}, {"history": ["none"]}):
        with pytest.raises(tacit.InputError):
            small.recommend(**arguments)
    with pytest.raises(tacit.InputError, match='unknown user "nobody"'):
        small.recommend("nobody")


def test_a_program_that_prints_no_json(tmp_path, monkeypatch):
    path = tmp_path / "tacit"
    path.write_text("#!/bin/sh\necho broken >&2\nexit 3\n")
    path.chmod(0o755)
    monkeypatch.setenv("PYTACIT_PROGRAM", str(path))
    with pytest.raises(tacit.TacitError, match="exit code 3: broken"):
        tacit.methods()


def test_progress(small, capsys):
    bar = Progress(small.dir, "ials", 1, 1, True)
    bar.poll()
    assert "round 3/3" in capsys.readouterr().err
    bar.close()
    Progress(small.dir, "ials", 1, 1, False).poll()
    assert capsys.readouterr().err.strip() == ""
    bar = Progress(small.dir.parent, "ials", 1, 1, True)
    bar.poll()
    assert "ials: reading the data" in capsys.readouterr().err
    bar.told("run 2/4: ials")
    bar.told("evaluating the reference ease")
    bar.told("          note: unused columns: a")
    bar.poll()
    shown = capsys.readouterr().err
    assert "run 2/4, round 3/3" in shown and "[##########" in shown and bar.notes == ["unused columns: a"]


def test_a_notebook_shows_a_bar(small, monkeypatch):
    shown = []
    handle = types.SimpleNamespace(update=shown.append)
    ipython, display = types.ModuleType("IPython"), types.ModuleType("IPython.display")
    ipython.get_ipython = lambda: types.SimpleNamespace(kernel=object())
    display.HTML = str
    display.display = lambda page, display_id: shown.append(page) or handle
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    bar = Progress(small.dir, "<ials>", 1, 1, None)
    bar.poll()
    bar.poll()
    bar.close()
    assert len(shown) == 2 and shown[0].startswith('<progress value="1.000"')
    assert "&lt;ials&gt;: round 3/3" in shown[0] and "&lt;ials&gt;: done" in shown[1]


def test_the_readme(capsys):
    """The first example of the README runs; drawing needs another package."""
    text = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
    code = text.split("```python\n")[1].split("```")[0]
    assert "r.recommend" in code
    exec(code.replace(".plot()", "").replace('"ials", rounds=5', '"ials", rounds=5, references=True, world="users=60,items=130"'), {})


CHILD = """
import os, signal, subprocess, sys, tempfile
import tacit
from tacit import _run

tempfile.tempdir = sys.argv[2]
start = subprocess.Popen

class Popen(start):  # the program inherits the pipe of the test
    def __init__(self, *args, **how):
        super().__init__(*args, close_fds=False, **how)

subprocess.Popen = Popen

def poll(self):
    if self._newest():
        if sys.argv[1] == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        raise KeyboardInterrupt

_run.Progress.poll = poll
try:
    tacit.run("world", method="pfedrec", rounds=100000, out=sys.argv[3] or None, references=False)
except KeyboardInterrupt:
    sys.exit(17)
"""


def interrupted(how, temporary, out):
    """Interrupt a run in another process, and wait until its program has ended."""
    env = {**os.environ, "PYTHONPATH": str(Path(tacit.__file__).parent.parent)}
    source, sink = os.pipe()  # it ends with the last process that has it
    with subprocess.Popen(
        [sys.executable, "-c", CHILD, how, str(temporary), str(out)],
        env=env,
        pass_fds=[sink],
    ) as process:
        os.close(sink)
        process.wait()
    os.read(source, 1)
    os.close(source)
    return process.returncode


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_an_interrupt_reaches_the_program(tmp_path):
    """The program saves what it has, and the run can be resumed."""
    out = tmp_path / "run"
    assert interrupted("interrupt", tmp_path, out) == 17
    assert (out / "checkpoint" / "state").is_file() and not (out / "result.json").exists()
    with pytest.raises(tacit.InputError, match="finish it with tacit.resume"):
        tacit.load(out)


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_an_interrupted_temporary_run_leaves_no_files(tmp_path):
    assert interrupted("interrupt", tmp_path, "") == 17
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_the_program_stops_if_python_is_killed(tmp_path):
    assert interrupted("kill", tmp_path, tmp_path / "run") == -9
    assert (tmp_path / "run" / "checkpoint" / "state").is_file() and not (tmp_path / "run" / "result.json").exists()


def test_the_wheel_has_the_program(tmp_path):
    """The wheel is built without a network and its program runs."""
    build = pytest.importorskip("build")
    root = Path(__file__).parent.parent
    if not (root / "src" / "tacit" / "bin" / "tacit").is_file():
        pytest.skip("the package has no program: make wheel builds it")
    shutil.copytree(root, tmp_path / "python", ignore=shutil.ignore_patterns("build", "dist", "*.egg-info", "__pycache__"))
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path, tmp_path / "python"],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    (wheel,) = tmp_path.glob("tacit_rec-*.whl")
    assert "-py3-none-" in wheel.name and "any" not in wheel.name
    shutil.unpack_archive(wheel, tmp_path / "installed", "zip")
    path = tmp_path / "installed" / "tacit"
    assert (path / "py.typed").is_file()
    path.joinpath("bin", "tacit").chmod(0o755)  # an installer keeps the mode
    out = subprocess.run(
        [sys.executable, "-c", "import tacit; print(tacit.program()); print(len(tacit.methods()))"],
        env={**os.environ, "PYTHONPATH": str(tmp_path / "installed")},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert out[0] == str(path / "bin" / "tacit") and int(out[1]) > 20
