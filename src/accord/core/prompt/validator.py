"""The content validator: one table of rules, three contexts, a policy for each (decision 18).

A validator belongs to one declaration; for another declaration make another validator, which is cheap. It only checks
content: it does not change, store or forward it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from pydantic_core import from_json

from accord.core.prompt.fast_check import are_all_valid, count_valid_json
from accord.core.prompt.rules import MAX_TYPE_CHARS, ContentLimits, check_block, size_fault, structure_fault
from accord.core.prompt.verdict import Declaration, PromptCapabilitiesLike, Verdict, Violation, read_declaration
from accord.core.vocabulary import unknown_name
from accord.errors import UsageError
from accord.wire.message import Message


class ValidationContext(StrEnum):
    """Where the content appears."""

    PROMPT = "prompt"
    TOOL_RESULT = "tool_result"
    SESSION_UPDATE = "session_update"


class ValidationPolicy(StrEnum):
    """What happens on a violation: refuse, warn, or do not check at all."""

    ENFORCE = "enforce"
    WARN = "warn"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class BlockDecision:
    """Why one block is accepted or not, for logs and people. It never quotes the content of the block."""

    index: int
    content_type: str
    accepted: bool
    why: str
    context: ValidationContext
    policy: ValidationPolicy


ENFORCE_ALL: Final[Mapping[ValidationContext, ValidationPolicy]] = dict.fromkeys(
    ValidationContext, ValidationPolicy.ENFORCE
)
DEFAULT_LIMITS: Final = ContentLimits()
NOT_AN_ARRAY: Final = "content must be an array"


class ContentValidator:
    """Checks content blocks against the prompt capabilities that an agent declared."""

    __slots__ = ("declaration", "limits", "policies")

    def __init__(
        self,
        capabilities: PromptCapabilitiesLike = None,
        *,
        protocol_version: int = 1,
        policies: Mapping[ValidationContext | str, ValidationPolicy | str] | None = None,
        limits: ContentLimits = DEFAULT_LIMITS,
    ) -> None:
        self.declaration: Final[Declaration] = read_declaration(capabilities, protocol_version)
        self.limits: Final = limits
        self.policies: Final[Mapping[ValidationContext, ValidationPolicy]] = (
            ENFORCE_ALL
            if policies is None
            else {**ENFORCE_ALL, **{_context(context): _policy(policy) for context, policy in policies.items()}}
        )

    def validate(self, blocks: Iterable[Any], context: ValidationContext | str = ValidationContext.PROMPT) -> Verdict:
        """Check these blocks, each a mapping as received or a `ContentBlock`."""
        policy = self.policies[_context(context)]
        if isinstance(blocks, str | bytes | Mapping) or not isinstance(blocks, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
            return Verdict([], [structure_fault(0, NOT_AN_ARRAY)], enforced=policy is ValidationPolicy.ENFORCE)
        return self._check([block.dump() if isinstance(block, Message) else block for block in blocks], policy)

    def validate_json(self, raw: bytes | str, context: ValidationContext | str = ValidationContext.PROMPT) -> Verdict:
        """Check a JSON array of blocks."""
        policy = self.policies[_context(context)]
        if (count := count_valid_json(raw, self.declaration, self.limits)) is not None:
            return Verdict([True] * count, enforced=policy is ValidationPolicy.ENFORCE)
        try:
            blocks = from_json(raw, allow_inf_nan=False)
        except ValueError as error:
            return Verdict(results=[], unreadable=str(error))
        if not isinstance(blocks, list):
            return Verdict([], [structure_fault(0, NOT_AN_ARRAY)], enforced=policy is ValidationPolicy.ENFORCE)
        return self._check(blocks, policy)  # pyright: ignore[reportUnknownArgumentType]

    def explain(
        self, blocks: Iterable[Any], context: ValidationContext | str = ValidationContext.PROMPT
    ) -> list[BlockDecision]:
        """Return the decision on each block, with its reason."""
        context, blocks = _context(context), list(blocks)
        verdict = self.validate(blocks, context)
        found = {violation.index: violation.message for violation in verdict.violations}
        decisions: list[BlockDecision] = []
        for index, (block, accepted) in enumerate(zip(blocks, verdict.results, strict=True)):
            kind = block.get("type") if isinstance(block, Mapping) else getattr(block, "type", None)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
            kind = kind[:MAX_TYPE_CHARS] if isinstance(kind, str) else "unknown"
            why = found.get(index, "accepted")
            decisions.append(BlockDecision(index, kind, accepted, why, context, self.policies[context]))
        return decisions

    def _check(self, blocks: Sequence[Any], policy: ValidationPolicy) -> Verdict:
        if policy is ValidationPolicy.OFF or are_all_valid(blocks, self.declaration, self.limits):
            return Verdict([True] * len(blocks), enforced=policy is ValidationPolicy.ENFORCE)
        violations = self._violations(blocks)
        if policy is ValidationPolicy.WARN:
            return Verdict([True] * len(blocks), violations, enforced=False)
        rejected = {violation.index for violation in violations}
        checked = range(min(len(blocks), self.limits.max_blocks))
        beyond = len(blocks) - len(checked)
        return Verdict([index not in rejected for index in checked] + [False] * beyond, violations)

    def _violations(self, blocks: Sequence[Any]) -> list[Violation]:
        limits = self.limits
        size = 0
        violations: list[Violation] = []
        for index, block in enumerate(blocks[: limits.max_blocks]):
            outcome = check_block(index, block, self.declaration, limits)
            if isinstance(outcome, Violation):
                violations.append(outcome)
                continue
            size += outcome
            if size > limits.max_prompt_bytes:
                violations.append(size_fault(index, "the prompt", size, limits.max_prompt_bytes))
        if len(blocks) > limits.max_blocks:
            violations.append(size_fault(limits.max_blocks, "the number of blocks", len(blocks), limits.max_blocks))
        return violations


def _context(name: ValidationContext | str) -> ValidationContext:
    try:
        return ValidationContext(name)
    except ValueError:
        raise UsageError(f"context: {unknown_name('context', str(name), ValidationContext)}") from None


def _policy(name: ValidationPolicy | str) -> ValidationPolicy:
    try:
        return ValidationPolicy(name)
    except ValueError:
        raise UsageError(f"policies: {unknown_name('policy', str(name), ValidationPolicy)}") from None
