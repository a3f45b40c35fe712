"""The content validator: one table of rules, three contexts, a policy for each.

A validator belongs to one declaration; for another declaration make another validator, which is cheap. It only checks
content: it does not change, store or forward it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Self

from pydantic_core import from_json

from accord.acp.base import AcpMessage
from accord.core.prompt.fast_check import are_all_valid, count_valid_json
from accord.core.prompt.rules import MAX_TYPE_CHARS, ContentLimits, check_block, size_fault, structure_fault
from accord.core.prompt.verdict import (
    Declaration,
    PromptCapabilitiesLike,
    Verdict,
    Violation,
    read_declaration,
    unwrap_declaration,
)
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


class BlockOutcome(StrEnum):
    """What happens to one block; a warning accepts a block that the rules refuse."""

    ACCEPTED = "accepted"
    WARNED = "warned"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class BlockDecision:
    """Why one block is accepted or not, for logs and people. It never quotes the content of the block.

    `capability` is the path of the flag that declares the type; None for a type that needs none or is unknown.
    `declared` says whether the agent accepts the type.
    """

    index: int
    content_type: str
    context: ValidationContext
    policy: ValidationPolicy
    capability: str | None
    declared: bool
    outcome: BlockOutcome
    why: str

    @property
    def accepted(self) -> bool:
        """Whether the block is used, with or without a warning."""
        return self.outcome is not BlockOutcome.REFUSED


ENFORCE_ALL: Final[Mapping[ValidationContext, ValidationPolicy]] = dict.fromkeys(
    ValidationContext, ValidationPolicy.ENFORCE
)
DEFAULT_LIMITS: Final = ContentLimits()
NOT_AN_ARRAY: Final = "content must be an array"
EMPTY_PROMPT: Final = "a prompt must have at least one content block"


class ContentValidator:
    """Checks content blocks against the prompt capabilities that an agent declared.

    `capabilities` are the prompt capabilities, the agent's capabilities around them, or a whole `initialize` result.
    What is omitted is unsupported, and unknown members are ignored.
    """

    __slots__ = ("declaration", "limits", "policies")

    def __init__(
        self,
        capabilities: PromptCapabilitiesLike | AcpMessage | Declaration = None,
        *,
        protocol_version: int = 1,
        policies: Mapping[ValidationContext | str, ValidationPolicy | str] | None = None,
        limits: ContentLimits = DEFAULT_LIMITS,
    ) -> None:
        self.declaration: Final[Declaration] = read_declaration(unwrap_declaration(capabilities), protocol_version)
        self.limits: Final = limits
        self.policies: Final[Mapping[ValidationContext, ValidationPolicy]] = (
            ENFORCE_ALL
            if policies is None
            else {**ENFORCE_ALL, **{_context(context): _policy(policy) for context, policy in policies.items()}}
        )

    def in_version(self, version: int) -> Self:
        """A validator with the same types, policies and limits, whose errors and rules are those of this version."""
        return type(self)(self.declaration, protocol_version=version, policies={**self.policies}, limits=self.limits)

    def validate(self, blocks: Iterable[Any], context: ValidationContext | str = ValidationContext.PROMPT) -> Verdict:
        """Check these blocks, each a mapping as received or a `ContentBlock`."""
        context = _context(context)
        if not _is_array(blocks):
            return self._malformed(NOT_AN_ARRAY, context)
        return self._check([block.dump() if isinstance(block, Message) else block for block in blocks], context)

    def validate_content_block(
        self, block: Any, context: ValidationContext | str = ValidationContext.PROMPT
    ) -> Verdict:
        """Check one block, a mapping as received or a `ContentBlock`."""
        return self.validate([block], context)

    def validate_json(self, raw: bytes | str, context: ValidationContext | str = ValidationContext.PROMPT) -> Verdict:
        """Check a JSON array of blocks."""
        context = _context(context)
        if count := count_valid_json(raw, self.declaration, self.limits):
            return Verdict([True] * count, enforced=self.policies[context] is ValidationPolicy.ENFORCE)
        try:
            blocks = from_json(raw, allow_inf_nan=False)
        except ValueError as error:
            return Verdict(results=[], unreadable=str(error))
        if not isinstance(blocks, list):
            return self._malformed(NOT_AN_ARRAY, context)
        return self._check(blocks, context)  # pyright: ignore[reportUnknownArgumentType]

    def explain(
        self, blocks: Iterable[Any], context: ValidationContext | str = ValidationContext.PROMPT
    ) -> list[BlockDecision]:
        """Return the decision on each block, with its reason."""
        context, blocks = _context(context), list(blocks) if _is_array(blocks) else [None]
        policy, verdict = self.policies[context], self.validate(blocks, context)
        found = {violation.index: violation.message for violation in verdict.violations}
        unnamed = "not checked" if policy is ValidationPolicy.OFF else "accepted"
        decisions: list[BlockDecision] = []
        for index, (block, accepted) in enumerate(zip(blocks, verdict.results, strict=True)):
            kind = block.get("type") if isinstance(block, Mapping) else getattr(block, "type", None)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
            kind = kind[:MAX_TYPE_CHARS] if isinstance(kind, str) else "unknown"
            capability, declared = self.declaration.capability(kind), self.declaration.accepts(kind)
            # One violation stands for all blocks beyond the limit.
            message = found.get(min(index, self.limits.max_blocks))
            outcome = BlockOutcome.WARNED if message else BlockOutcome.ACCEPTED
            outcome, why = outcome if accepted else BlockOutcome.REFUSED, message or unnamed
            decisions.append(BlockDecision(index, kind, context, policy, capability, declared, outcome, why))
        return decisions

    def _malformed(self, details: str, context: ValidationContext) -> Verdict:
        """The verdict on content that has no blocks to point at."""
        return Verdict([], [structure_fault(0, details)], enforced=self.policies[context] is ValidationPolicy.ENFORCE)

    def _check(self, blocks: Sequence[Any], context: ValidationContext) -> Verdict:
        policy, is_draft = self.policies[context], self.declaration.protocol_version >= 2
        is_prompt = context is ValidationContext.PROMPT
        if not blocks and is_draft and is_prompt and policy is not ValidationPolicy.OFF:
            return self._malformed(EMPTY_PROMPT, context)
        if policy is ValidationPolicy.OFF or are_all_valid(blocks, self.declaration, self.limits):
            return Verdict([True] * len(blocks), enforced=policy is ValidationPolicy.ENFORCE)
        # The draft lets implementations add types of their own everywhere but in prompts.
        violations = self._violations(blocks, extensions=is_draft and not is_prompt)
        if policy is ValidationPolicy.WARN:
            return Verdict([True] * len(blocks), violations, enforced=False)
        rejected = {violation.index for violation in violations}
        checked = range(min(len(blocks), self.limits.max_blocks))
        beyond = len(blocks) - len(checked)
        return Verdict([index not in rejected for index in checked] + [False] * beyond, violations)

    def _violations(self, blocks: Sequence[Any], *, extensions: bool) -> list[Violation]:
        limits = self.limits
        size = 0
        violations: list[Violation] = []
        for index, block in enumerate(blocks[: limits.max_blocks]):
            outcome = check_block(index, block, self.declaration, limits, extensions=extensions)
            if isinstance(outcome, Violation):
                violations.append(outcome)
                continue
            size += outcome
            if size > limits.max_prompt_bytes:
                violations.append(size_fault(index, "the prompt", size, limits.max_prompt_bytes))
        if len(blocks) > limits.max_blocks:
            violations.append(size_fault(limits.max_blocks, "the number of blocks", len(blocks), limits.max_blocks))
        return violations


def _is_array(blocks: object) -> bool:
    return isinstance(blocks, Iterable) and not isinstance(blocks, str | bytes | Mapping)


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
