"""The validator itself: one table of rules, three contexts, a policy for each (decision 18).

A validator belongs to one declaration; a new declaration is a new validator, which is cheap. Nothing is processed,
stored or repeated here: content is looked at, and a verdict is given.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from pydantic_core import from_json

from accord.core.prompt.rules import ContentLimits, check_block, size_fault, structure_fault
from accord.core.prompt.sweep import all_in_order, json_in_order
from accord.core.prompt.verdict import Declaration, Declared, Verdict, Violation, read_declaration
from accord.core.vocabulary import unknown_name
from accord.errors import UsageError
from accord.wire.message import Message


class ValidationContext(StrEnum):
    """Where content is on its way."""

    PROMPT = "prompt"
    TOOL_RESULT = "tool_result"
    SESSION_UPDATE = "session_update"


class ValidationPolicy(StrEnum):
    """What a violation costs: a refusal, a warning, or not even a look."""

    ENFORCE = "enforce"
    WARN = "warn"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class BlockDecision:
    """Why one block may come in or not, for logs and for people; never what it carried."""

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


class ContentValidator:
    """Checks content blocks against what an agent declared."""

    __slots__ = ("declaration", "limits", "policies")

    def __init__(
        self,
        capabilities: Declared = None,
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
        """The verdict on these blocks, each a mapping as received or a `ContentBlock`."""
        policy = self.policies[_context(context)]
        if isinstance(blocks, str | bytes | Mapping) or not isinstance(blocks, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
            return self._refuse_whole("content must be an array", policy)
        return self._check([block.dump() if isinstance(block, Message) else block for block in blocks], policy)

    def validate_json(self, raw: bytes | str, context: ValidationContext | str = ValidationContext.PROMPT) -> Verdict:
        """The verdict on an array of blocks as it came over the wire."""
        policy = self.policies[_context(context)]
        if (count := json_in_order(raw, self.declaration, self.limits)) is not None:
            return Verdict([True] * count, enforced=policy is ValidationPolicy.ENFORCE)
        try:
            blocks = from_json(raw, allow_inf_nan=False)
        except ValueError as error:
            return Verdict(results=[], unreadable=str(error))
        if not isinstance(blocks, list):
            return self._refuse_whole("content must be an array", policy)
        return self._check(blocks, policy)  # pyright: ignore[reportUnknownArgumentType]

    def explain(
        self, blocks: Iterable[Any], context: ValidationContext | str = ValidationContext.PROMPT
    ) -> list[BlockDecision]:
        """Why each block may come in or not."""
        context, blocks = _context(context), list(blocks)
        verdict = self.validate(blocks, context)
        found = {violation.index: violation.message for violation in verdict.violations}
        return [
            BlockDecision(
                index, _type_of(block), accepted, found.get(index, "accepted"), context, self.policies[context]
            )
            for index, (block, accepted) in enumerate(zip(blocks, verdict.results, strict=True))
        ]

    def _check(self, blocks: Sequence[Any], policy: ValidationPolicy) -> Verdict:
        if policy is ValidationPolicy.OFF or all_in_order(blocks, self.declaration, self.limits):
            return Verdict([True] * len(blocks), enforced=policy is ValidationPolicy.ENFORCE)
        violations = self._violations(blocks)
        if policy is ValidationPolicy.WARN:
            return Verdict([True] * len(blocks), violations, enforced=False)
        refused = {violation.index for violation in violations}
        fit = range(min(len(blocks), self.limits.max_blocks))
        beyond = len(blocks) - len(fit)
        return Verdict([index not in refused for index in fit] + [False] * beyond, violations)

    def _violations(self, blocks: Sequence[Any]) -> list[Violation]:
        limits = self.limits
        room = limits.max_prompt_bytes
        violations: list[Violation] = []
        for index, block in enumerate(blocks[: limits.max_blocks]):
            outcome = check_block(index, block, self.declaration, limits)
            if isinstance(outcome, Violation):
                violations.append(outcome)
                continue
            room -= outcome
            if room < 0:
                size = limits.max_prompt_bytes - room
                violations.append(size_fault(index, "the prompt", size, limits.max_prompt_bytes))
        if len(blocks) > limits.max_blocks:
            violations.append(size_fault(limits.max_blocks, "the number of blocks", len(blocks), limits.max_blocks))
        return violations

    @staticmethod
    def _refuse_whole(details: str, policy: ValidationPolicy) -> Verdict:
        return Verdict(
            results=[], violations=[structure_fault(0, details)], enforced=policy is ValidationPolicy.ENFORCE
        )


def _context(named: ValidationContext | str) -> ValidationContext:
    try:
        return ValidationContext(named)
    except ValueError:
        raise UsageError(f"context: {unknown_name('context', str(named), ValidationContext)}") from None


def _policy(named: ValidationPolicy | str) -> ValidationPolicy:
    try:
        return ValidationPolicy(named)
    except ValueError:
        raise UsageError(f"policies: {unknown_name('policy', str(named), ValidationPolicy)}") from None


def _type_of(block: Any) -> str:
    kind = block.get("type") if isinstance(block, Mapping) else getattr(block, "type", None)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return kind[:64] if isinstance(kind, str) else "unknown"
