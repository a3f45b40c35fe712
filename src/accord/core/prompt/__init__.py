"""Check content blocks against the prompt capabilities that an agent declared (ACP)."""

from accord.core.prompt.event_content import content_in_event
from accord.core.prompt.rules import ContentLimits
from accord.core.prompt.validator import (
    BlockDecision,
    BlockOutcome,
    ContentValidator,
    ValidationContext,
    ValidationPolicy,
)
from accord.core.prompt.verdict import EVERY_TYPE, Declaration, Fault, Verdict, Violation, read_declaration

__all__ = [
    "EVERY_TYPE",
    "BlockDecision",
    "BlockOutcome",
    "ContentLimits",
    "ContentValidator",
    "Declaration",
    "Fault",
    "ValidationContext",
    "ValidationPolicy",
    "Verdict",
    "Violation",
    "content_in_event",
    "read_declaration",
]
