"""The base of plugins behind one endpoint of a server: their common arguments, their client, and a trial request."""

import re
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from prmcal.errors import PrmcalError
from prmcal.registry.client import Address, ServerClient
from prmcal.registry.contracts.plugin import Count, Plugin, Positive, errors_of
from prmcal.registry.models.checkpoints import is_on_this_machine
from prmcal.registry.models.files import tokenizer_problems
from prmcal.registry.network import DEFAULT_PATIENCE


@dataclass(eq=False, kw_only=True)
class Served(Plugin):
    """The base of an LLM or a PRM that sends requests to a server. It stands in front of the contract."""

    not_found: ClassVar[str] = "Check 'base_url', which usually ends in /v1, and 'model'."
    """Advice if the server answers 404."""
    refused: ClassVar[str]
    """Advice if the server refuses a request with another status."""
    understood: ClassVar[re.Pattern[str] | None] = None
    """Matches a refusal that is read like a reply; see :class:`ServerClient`."""

    base_url: Address
    """The address, such as ``http://localhost:8000/v1``. The path of the interface is appended."""
    model: str
    """The name of the model on the server."""
    weights: str = ""
    """A text that identifies the server's weights among those with the same name, such as a commit. It is part of the
    job keys."""
    key_variable: str | None = None
    """The environment variable with the server's key. The key itself is not an argument and is never stored."""
    concurrency: Count = 64
    """The number of parallel requests."""
    timeout: Positive = 600.0
    """The time limit of a request in seconds."""
    patience: Positive = DEFAULT_PATIENCE
    """The seconds for which a request is sent again, with growing pauses, after its first failure. A request is
    repeated if the server is down, slow, busy (429) or broken (5xx), or if its reply is incomplete. A ``Retry-After``
    of the server is respected."""

    @property
    @abstractmethod
    def path(self) -> str:
        """The path that is appended to `base_url`."""

    @abstractmethod
    def probe(self, question: str) -> None:
        """Raise the error of a request about a bare question, by the client's `probe`."""

    def problems(self, asked: Mapping[str, int]) -> list[PrmcalError]:
        """Return also why a tokenizer cannot be loaded, or the server does not answer about a bare question."""
        found = super().problems(asked)
        for checkpoint in self.checkpoints:
            found += tokenizer_problems(checkpoint)
        if not found and all(map(is_on_this_machine, self.checkpoints)):
            found = errors_of(partial(self.probe, next(iter(asked), "What is 6 times 7?")))
        return found

    @property
    def client(self) -> ServerClient:
        """The client of the endpoint."""
        return ServerClient(
            self.base_url,
            self.path,
            self.key_variable,
            self.concurrency,
            self.timeout,
            self.patience,
            not_found=self.not_found,
            refused=self.refused,
            understood=self.understood,
        )
