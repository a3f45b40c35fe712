"""May this content come in? Content blocks against what the agent declared (ACP; decisions 16, 17 and 18)."""

from accord.core.validate.declaration import Declaration, read_declaration
from accord.core.validate.rules import Limits
from accord.core.validate.validator import ContentValidator, Context, Decision, Policy
from accord.core.validate.verdict import Fault, Verdict, Violation

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
