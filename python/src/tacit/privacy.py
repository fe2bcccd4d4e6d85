"""Computes what differential privacy costs."""

from __future__ import annotations

from typing import Any, Optional

import pandas as pd

from ._program import call


def spend(
    *,
    noise: float,
    rounds: int,
    q: float = 1.0,
    delta: float = 1e-6,
    sampler: str = "poisson",
    adjacency: Optional[str] = None,
    accountant: str = "pld",
    conversion: Optional[str] = None,
) -> dict:
    """Return the epsilon of rounds with Gaussian noise, and how it was computed.

    Parameters
    ----------
    noise
        The noise multiplier: standard deviation over the L2 sensitivity under the adjacency.
    rounds
        Number of rounds.
    q
        Sampling rate: the fraction of users per round.
    delta
        Probability that the guarantee fails.
    sampler
        ``poisson``, ``wor`` (without replacement) or ``none``.
    adjacency
        ``zero-out``, ``add-remove`` or ``replace-one``; by default that of the sampler.
    accountant
        ``pld`` or ``rdp``.
    conversion
        Of RDP to epsilon: ``improved`` or ``classic``.
    """
    args = ["privacy", "spend", "--noise", repr(float(noise)), "--rounds", str(rounds), "-q", repr(float(q))]
    args += ["--delta", repr(float(delta)), "--sampler", sampler, "--accountant", accountant]
    for flag, value in (("--adjacency", adjacency), ("--conversion", conversion)):
        if value is not None:
            args += [flag, value]
    return call(args)


def plan(
    *,
    epsilon: float,
    rounds: int,
    users: int,
    cohort: str = "all",
    delta: Optional[float] = None,
    clip: float = 1.0,
    mechanism: str = "gauss",
    trust: str = "central",
    **settings: Any,
) -> pd.DataFrame:
    """Return the noise that an epsilon requires: the plan in the first row, then alternatives to it.

    ``noise`` is the noise multiplier, ``noise_on_mean`` the deviation of the noise on a number of the mean update,
    and ``dp`` with ``cohort`` are the settings of ``tacit.run`` that follow the plan. ``holds`` says against whom the
    guarantee holds.

    Parameters
    ----------
    epsilon, delta
        The budget. By default delta is 0.1 / users.
    rounds, users, cohort
        Rounds of training, number of users, and devices per round: ``all``, ``100``, ``10%``, ``poisson:0.1``,
        ``cycle:100`` or ``checkin:100/20``.
    clip
        Clipping bound: the largest L2 norm of an update.
    mechanism, trust
        ``gauss``, ``tree`` or ``laplace``; ``central``, ``distributed`` or ``local``.
    settings
        Further flags of ``tacit privacy plan``, with ``_`` for ``-``: ``accountant="pld"``.
    """
    delta = 0.1 / users if delta is None and users > 0 else delta
    values = {"target-epsilon": epsilon, "rounds": rounds, "users": users, "cohort": cohort, "delta": delta}
    values.update({"clip": clip, "mechanism": mechanism, "trust": trust})
    values.update({key.replace("_", "-"): value for key, value in settings.items()})
    args = ["privacy", "plan"]
    for key, value in values.items():
        if value is not None:
            args += [f"--{key}", repr(float(value)) if isinstance(value, float) else str(value)]
    data = call(args)
    out = pd.DataFrame([data["chosen"], *(data.get("others") or [])]).set_index("name")
    columns = ["cohort", "dp", "adjacency", "sampler", "q", "spent", "noise", "noise_on_mean", "holds"]
    return out[[c for c in columns if c in out]].rename(columns={"spent": "epsilon"})
