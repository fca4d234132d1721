"""What a session may still spend, less what its running calls may take."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from aar.errors import AarError
from aar.journal.journal import Journal
from aar.journal.sizes import CHARACTERS_PER_TOKEN
from aar.messages.provider import ProviderRequest
from aar.messages.settings import AgentConfig
from aar.usage import Price, budget_error

__all__ = ["Budget", "BudgetTaken"]

LEAST_OUTPUT = 16  # tokens: what a call gets at least, so that its answer says something


class BudgetTaken(AarError):
    """Nothing of a budget is left, or what is left is reserved by calls that are running."""


class _Reservation(NamedTuple):
    tokens: int
    dollars: float


@dataclass
class Budget:
    """Calls reserve before they go out, so that any number at the same time keeps within the limits.

    What a call reserves is its input, estimated, and the longest answer that it may get; that answer is limited by
    what is left. The journal's session tells what is spent.
    """

    journal: Journal
    _reserved: list[_Reservation] = field(default_factory=list)

    @contextmanager
    def reserve(
        self, config: AgentConfig, request: ProviderRequest, price: Price | None, usual_output: int | None = None
    ) -> Generator[ProviderRequest, None, None]:
        """The request with its answer limited, and what it may take set aside until the block is left.

        `usual_output` is how long an answer may get when the request does not say (0: as long as it likes), by default
        `max_tokens` of the settings. Raises `BudgetTaken` when nothing is left, or the running calls may take it all.
        """
        if config.effective_token_budget <= 0 and config.effective_cost_limit <= 0:
            yield request
            return
        over = budget_error(self.journal.session.total_tokens, self.journal.session.total_cost, config)
        if over is not None:
            raise BudgetTaken(over)
        price = price or Price()
        input_tokens = self._estimate(config, request)
        usual = config.resolve_provider().max_tokens if usual_output is None else usual_output
        asked = usual if request.max_tokens is None else request.max_tokens
        most = self._most_output(config, input_tokens, price)
        output = min(asked, most) if asked and most is not None else asked if most is None else most
        spent = (input_tokens * price.input_per_million + output * price.output_per_million) / 1e6
        held = _Reservation(input_tokens + output, spent)
        self._reserved.append(held)
        try:
            yield replace(request, max_tokens=output) if output != asked else request
        finally:
            self._reserved.remove(held)

    def left(self, config: AgentConfig) -> tuple[int, float]:
        """Tokens and dollars that are left, at least a little of both; 0 where there is no limit."""
        session, tokens, dollars = self.journal.session, config.effective_token_budget, config.effective_cost_limit
        return (
            max(1, tokens - session.total_tokens) if tokens > 0 else 0,
            max(1e-9, dollars - session.total_cost) if dollars > 0 else 0.0,
        )

    def _most_output(self, config: AgentConfig, input_tokens: int, price: Price) -> int | None:
        """The longest answer that keeps within the limits, in tokens; `None` when it need not be limited."""
        limits: list[int] = []
        if config.effective_token_budget > 0:
            limits.append(self._tokens_left(config.effective_token_budget) - input_tokens)
        if config.effective_cost_limit > 0:
            rest = self._dollars_left(config.effective_cost_limit) - input_tokens * price.input_per_million / 1e6
            if price.output_per_million:
                limits.append(int(rest / price.output_per_million * 1e6))
        return max(LEAST_OUTPUT, min(limits)) if limits else None

    def _tokens_left(self, limit: int) -> int:
        left = limit - self.journal.session.total_tokens - sum(one.tokens for one in self._reserved)
        if left <= 0 and self._reserved:
            raise BudgetTaken("What is left of the token budget is reserved by calls that are running")
        return left

    def _dollars_left(self, limit: float) -> float:
        left = limit - self.journal.session.total_cost - sum(one.dollars for one in self._reserved)
        if left <= 0 and self._reserved:
            raise BudgetTaken("What is left of the cost limit is reserved by calls that are running")
        return left

    def _estimate(self, config: AgentConfig, request: ProviderRequest) -> int:
        said = self.journal.session.transcript.sizes().total // CHARACTERS_PER_TOKEN
        if config.effective_context_window:
            said = min(said, config.effective_context_window)
        tools = sum(len(tool.description) + len(str(tool.input_schema)) for tool in request.tools or ())
        return said + (len(request.system) + tools) // CHARACTERS_PER_TOKEN
