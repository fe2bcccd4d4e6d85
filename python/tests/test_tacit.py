"""Tests of the Python package. They run the program that is in the package."""

import json
import math
import os
import shutil
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import tacit
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
    lists = small.top(5)
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
    assert 0 < r.privacy["epsilon"] <= 5 and "epsilon" in repr(r)
    with pytest.raises(tacit.InputError):
        tacit.privacy.spend(noise=-1, rounds=10)


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
    with pytest.raises(tacit.InputError, match="missing values"):
        tacit.run(clicks().assign(film=None), columns=ROLES)
    with pytest.raises(tacit.InputError, match="several columns named 'film'"):
        tacit.run(pd.concat([clicks(), clicks()[["film"]]], axis=1), columns=ROLES)
    with pytest.raises(tacit.InputError, match="one line of text"):
        tacit.run(clicks().assign(who="a\nb"), columns=ROLES)
    with pytest.raises(tacit.InputError, match="one name"):
        tacit.run("world", protocol=["paper", "deployed"])
    with pytest.raises(tacit.InputError, match="did you mean"):
        tacit.run(clicks(), columns=ROLES, out=tmp_path / "run", method="pfedrek")
    assert not (tmp_path / "run.data.csv").exists()
    (tmp_path / "run.data.csv").write_text("mine")
    with pytest.raises(tacit.InputError, match="run.data.csv exists"):
        tacit.run(clicks(), columns=ROLES, out=tmp_path / "run")
    assert (tmp_path / "run.data.csv").read_text() == "mine"
    with pytest.raises(tacit.InputError, match="lrr"):
        tacit.run(clicks(), columns=ROLES, out=tmp_path / "typo", lrr=1)
    assert not (tmp_path / "typo.data.csv").exists()
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
    Progress(small.dir / "none", "ials", 1, 1, True).poll()
    assert capsys.readouterr().err.strip() == ""


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
    assert len(shown) == 2 and shown[0].startswith('<progress value="1.000"') and "&lt;ials&gt;: round 3/3" in shown[1]


def test_the_readme(capsys):
    """The first example of the README runs; drawing needs another package."""
    text = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
    code = text.split("```python\n")[1].split("```")[0]
    assert "r.recommend" in code
    exec(code.replace(".plot()", "").replace('"ials", rounds=5', '"ials", rounds=5, references=True, world="users=60,items=130"'), {})


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_an_interrupt_reaches_the_program(tmp_path):
    """The program saves what it has, and the run can be resumed."""
    out = tmp_path / "run"
    code = (
        "import tacit, sys, _thread\n"
        "from tacit import _run\n"
        "def poll(self):\n"
        "    if self._newest(): raise KeyboardInterrupt\n"
        "_run.Progress.poll = poll\n"
        "try:\n"
        f"    tacit.run('world', method='pfedrec', rounds=100000, out={str(out)!r}, references=False)\n"
        "except KeyboardInterrupt:\n"
        "    sys.exit(17)\n"
    )
    source = Path(tacit.__file__).parent.parent
    env = {**os.environ, "PYTHONPATH": str(source)}
    assert subprocess.run([sys.executable, "-c", code], env=env).returncode == 17
    assert (out / "checkpoint" / "state").is_file() and not (out / "result.json").exists()
    with pytest.raises(tacit.InputError, match="no finished run"):
        tacit.load(out)


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
