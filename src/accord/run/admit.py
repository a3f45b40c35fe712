"""Admission: whether a request may run, decided once for every transport, before anything runs.

Two questions, in this order: does the agent accept the content, and can the backends meet what the request and the
agent state as required. Every decision can be logged (`decision_log.py`). What a single question of the agent needs
besides is decided when the agent asks it (`dispatch.py`). The content of what the agent sends is checked here as well,
against the same declaration.
"""

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from accord.agent import Agent
from accord.core.prompt import (
    EVERY_TYPE,
    ContentLimits,
    ContentValidator,
    ValidationContext,
    ValidationPolicy,
    content_in_event,
)
from accord.core.work.plan import check_requirements
from accord.errors import AgentError, ErrorCode, InvalidMessageError, RefusedError
from accord.run.decision_log import log_content, log_requirements, log_warning
from accord.run.dispatch import Dispatcher, stated_requirements
from accord.wire.plan import Refusal
from accord.wire.request import Identity, ServiceRequest
from accord.wire.session import MAX_ID_CHARS

NO_AGENT: Final = "There is no agent {} here; context.agent may name {}"
WARN_ONLY: Final[Mapping[ValidationContext | str, ValidationPolicy | str]] = dict.fromkeys(
    ValidationContext, ValidationPolicy.WARN
)


@dataclass(frozen=True, slots=True)
class SentContent:
    """Content blocks as a client sent them, for a transport whose request does not hold them in that form.

    `blocks` is a JSON array; `version` is the ACP version of the client. `unparsed` is the error of blocks that could
    not be parsed into the request; it is raised if the content rules find nothing wrong with them. `values` are the
    blocks as plain values, if they could be read: reading megabytes again would take their memory twice.
    """

    blocks: bytes
    version: int = 1
    unparsed: InvalidMessageError | None = None
    values: Any = None


@dataclass(frozen=True, slots=True)
class Rejection:
    """A request that may not run: the error for its client, and the refusal of the backends if that is the reason."""

    error: RefusedError
    refusal: Refusal | None = None


MAX_REFUSED_BYTES: Final = 256 * 1024
"""How much of a refused prompt is stored with it."""
NOT_KEPT: Final = "({} more content blocks of {} bytes are not stored, because this prompt was refused.)"


def kept_prompt(sent: SentContent | None, rejection: Rejection | None) -> bytes:
    """The prompt to be stored with its turn: as it was sent; of one that is refused, the blocks that are not large."""
    if sent is None or rejection is None:
        return b"" if sent is None else sent.blocks
    try:
        blocks = msgspec.json.decode(sent.blocks, type=list[msgspec.Raw])
    except ValueError:
        return b""  # not an array
    kept, sizes, left = list[Any](), [memoryview(block).nbytes for block in blocks], MAX_REFUSED_BYTES
    for block, size in zip(blocks, sizes, strict=True):
        if size <= left:
            kept.append(block)
            left -= size
    if dropped := len(blocks) - len(kept):
        text = NOT_KEPT.format(dropped, sum(sizes) - (MAX_REFUSED_BYTES - left))
        kept.append({"type": "text", "text": text})
    return msgspec.json.encode(kept)


def unknown_agent(named: Identity, agents: Iterable[str]) -> Rejection:
    """The rejection of a request that names an agent which is none of these: another one never answers it."""
    known = list(agents)
    message = NO_AGENT.format(named.id[:MAX_ID_CHARS], ", ".join(known))
    return Rejection(RefusedError(message, ErrorCode.NOT_FOUND, {"agents": known}))


class Admission:
    """Decides for one agent and its backends which requests may run."""

    def __init__(self, agent: Agent, dispatcher: Dispatcher, limits: ContentLimits) -> None:
        self._agent: Final = agent
        self._dispatcher: Final = dispatcher
        self.validator: Final = ContentValidator(agent.accepts, limits=limits)
        # One declaration, but an error names the capability as the client's version of ACP spells it.
        self._validators: Final = {1: self.validator, 2: self.validator.in_version(2)}
        self._forwarded: Final = ContentValidator(EVERY_TYPE, policies=WARN_ONLY, limits=limits)

    def decide(
        self, request: ServiceRequest, sent: SentContent | None = None, backends: Container[str] | None = None
    ) -> Rejection | None:
        """Return why this request may not run, with only these backends if they are named; None if it may."""
        if (rejection := self._check_content(request, sent)) is not None:
            return rejection
        stated = stated_requirements(self._agent, request)
        if stated is None:
            return None
        candidates = self._dispatcher.candidates(request.context.user.id, backends)
        refusal = check_requirements(stated, candidates, self._dispatcher.config)
        log_requirements(stated, refusal, str(request.request_id))
        if refusal is None:
            return None
        return Rejection(RefusedError(refusal.message, refusal.code, refusal.dump()), refusal)

    def _check_content(self, request: ServiceRequest, sent: SentContent | None) -> Rejection | None:
        validator = self._validators[sent.version if sent is not None else 1]
        if sent is not None and sent.values is not None:
            blocks, verdict = sent.values, validator.validate(sent.values)
        elif sent is not None:
            blocks, verdict = sent.blocks, validator.validate_json(sent.blocks)
        elif request.payload.content:
            blocks, verdict = request.payload.content, validator.validate(request.payload.content)
        else:
            return None
        log_content(validator, blocks, ValidationContext.PROMPT, str(request.request_id))
        if verdict.error is not None and verdict.code is not None:
            return Rejection(RefusedError(verdict.error["message"], verdict.code, verdict.error["data"]))
        if sent is not None and sent.unparsed is not None:
            raise sent.unparsed
        return None

    def check_event(self, event: Mapping[str, Any], request_id: str, *, is_forwarded: bool) -> None:
        """Raise `AgentError` if an event of the agent has content that the agent did not declare.

        An event that the agent forwards from another agent only gets a warning, and only if its content is malformed:
        ACP itself restricts prompts alone.
        """
        if (found := content_in_event(event)) is None:
            return
        context, blocks = found
        validator = self._forwarded if is_forwarded else self.validator
        verdict = validator.validate(blocks, context)
        log_content(validator, blocks, context, request_id)
        if verdict.error is not None:
            message, data = verdict.error["message"], verdict.error["data"]
            raise AgentError(f"The agent sent content that is not valid here ({context}): {message}", details=data)
        if verdict.violations:
            log_warning(verdict.violations[0], context, request_id)
