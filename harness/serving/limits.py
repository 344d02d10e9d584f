"""How large and how many requests may be."""

from __future__ import annotations

from dataclasses import dataclass

from prmcal.errors import PrmcalError

__all__ = ["Limits"]


@dataclass(frozen=True)
class Limits:
    """The limits of a server. Requests beyond them are refused before a model sees them.

    Attributes
    ----------
    body : int
        Bytes of the body of a request.
    concurrent : int
        Requests that are answered at one time.
    rows : int
        Trajectories of one request.
    characters : int
        Characters of a question.
    batch : int
        Trajectories that are scored together, from all requests that wait.
    body_seconds : float
        Within this time the body of a request must have arrived.
    grace_seconds : float
        Time for running requests when the server is told to end.

    Raises
    ------
    PrmcalError
        If a limit is not positive.
    """

    body: int = 2**20
    concurrent: int = 64
    rows: int = 256
    characters: int = 20_000
    batch: int = 64
    body_seconds: float = 30.0
    grace_seconds: float = 20.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not value > 0:
                raise PrmcalError(f"The limit '{name}' must be above 0. Got {value}.")
