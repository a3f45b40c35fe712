"""May this content come in? Content blocks against what the agent declared (ACP; decisions 16, 17 and 18)."""

from accord.core.prompt.rules import Limits
from accord.core.prompt.validator import ContentValidator, Context, Decision, Policy
from accord.core.prompt.verdict import Declaration, Fault, Verdict, Violation, read_declaration

__all__ = [
    "ContentValidator",
    "Context",
    "Decision",
    "Declaration",
    "Fault",
    "Limits",
    "Policy",
    "Verdict",
    "Violation",
    "read_declaration",
]
