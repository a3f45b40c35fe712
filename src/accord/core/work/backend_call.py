"""One request to a backend: what it used, and where its endpoint did not say so, an estimate by what arrived. Pure.

Whatever sends a request begins a `BackendCall` first, so that attempts, retries and descriptions are all recorded. A
reported count is used if it is positive and the answer is complete. Otherwise the input is estimated from the request
(`estimate_tokens.py`), and the output from the text that arrived, by the same classes of bytes: the reported count or
the estimate, whichever is more. No count above `MAX_COUNT` is believed.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import Any, Final, Protocol

from accord.core.work.estimate_tokens import estimate_tokens, json_tokens, text_tokens
from accord.core.work.fields import ModelRequest, order_of
from accord.wire.work import AnyPiece, EndPiece, TextPiece, ThinkingPiece, ToolCallPiece, WorkOrder

MAX_COUNT: Final = 10**9
"""The largest count of tokens that is believed; sums of such counts fit every store."""


class ArrivedBytes(Protocol):
    """What has arrived of an answer that comes in bytes."""

    def tokens(self) -> int:
        """How many tokens a model wrote in it."""
        ...

    def clear(self) -> None:
        """Drop what is kept to be counted: the usage is known."""
        ...


@dataclass(slots=True)
class BackendCall:
    """One request to a backend, made for an answer or for the description of an image."""

    backend: str
    work: WorkOrder | ModelRequest
    """What it was about; the order of a request that is passed on is read only if it is needed."""
    describes: bool = False
    model: str | None = None
    """The model that answered, as the endpoint names it."""
    usage: dict[str, Any] | None = None
    """As it was reported, or estimated; None if it used nothing or that is not known."""
    is_estimated: bool = False
    is_complete: bool = False
    has_failed: bool = False
    """Whether the backend failed, and not the client or a time limit ended the call."""
    cost_micro: int | None = None
    """What it cost in micro-dollars, once it is settled; None if that is not known."""
    arrived: ArrivedBytes | None = None
    """What a backend that gets its answers in bytes has got; of others, the pieces are counted."""
    _piece_tokens: float = field(default=0.0, init=False)

    @property
    def order(self) -> WorkOrder:
        """The work order."""
        return order_of(self.work)

    def report(self, usage: Mapping[str, Any] | None, model: str | None) -> None:
        """Note what the endpoint said of the answer so far."""
        self.usage = clamp_counts(usage) if usage else self.usage
        self.model = model or self.model

    def complete(self) -> None:
        """Note that the whole answer has arrived."""
        self.is_complete = True
        if self.arrived and _count(self.usage, "input_tokens") and _count(self.usage, "output_tokens"):
            self.arrived.clear()

    def see(self, piece: AnyPiece) -> None:
        """Note a piece of an answer of which no bytes are counted."""
        match piece:
            case TextPiece() | ThinkingPiece():
                self._piece_tokens += text_tokens(piece.text)
            case ToolCallPiece():
                self._piece_tokens += text_tokens(piece.name) + json_tokens(piece.input)
            case EndPiece():
                self.report(piece.usage, piece.model)
                self.complete()
            case _:  # work of the backend itself
                pass

    def estimate_usage(self) -> None:
        """Estimate what was not reported. A backend that failed before any of its answer arrived has used nothing."""
        given_input, given_output = _count(self.usage, "input_tokens"), _count(self.usage, "output_tokens")
        if self.is_estimated or (self.is_complete and given_input and given_output):
            return
        arrived = ceil(self._piece_tokens) + (self.arrived.tokens() if self.arrived else 0)
        if (self.is_complete and given_input and not arrived) or (self.has_failed and not given_input and not arrived):
            return
        self.usage = {
            **((self.usage or {}) if given_input else {}),
            "input_tokens": given_input or estimate_tokens(self.order),
            "output_tokens": max(given_output, arrived),
            "estimated": True,
        }
        self.is_estimated = True


def clamp_counts(usage: Mapping[str, Any]) -> dict[str, Any]:
    """The usage that an endpoint reported, with no count above `MAX_COUNT`; `clamped` names those that were."""
    clamped = sorted(name for name, value in usage.items() if isinstance(value, int | float) and value > MAX_COUNT)
    return {**usage, **dict.fromkeys(clamped, MAX_COUNT), "clamped": clamped} if clamped else dict(usage)


BeginCall = Callable[[], BackendCall]
"""Begins the record of one more request; called before each one is sent."""


def _count(usage: Mapping[str, Any] | None, name: str) -> int:
    value = (usage or {}).get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
