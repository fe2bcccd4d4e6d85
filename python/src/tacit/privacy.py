"""Computes what differential privacy costs."""

from __future__ import annotations

from typing import Optional

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
