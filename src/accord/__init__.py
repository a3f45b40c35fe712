"""Capability negotiation for agents: what content an agent accepts, which backend can do the work, what a client shows.

This module has the public names. They are imported on first use, so that `import accord` is fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    __version__: str
    from accord.acp.schema_parts import ContentBlock, PromptCapabilities
    from accord.agent import Agent, Turn
    from accord.core.output import ClientAdapter
    from accord.core.prompt.validator import ContentValidator, ValidationContext, ValidationPolicy
    from accord.core.work.emulation.engine import EmulationEngine, apply_emulation, can_emulate, default_strategy
    from accord.core.work.negotiate import check_capability, generate_report, negotiate
    from accord.core.work.plan import Candidate, PlanConfig, plan
    from accord.errors import (
        AccordError,
        AgentError,
        BackendBusyError,
        BackendError,
        BackendRetriedError,
        BackendSkippedError,
        ConfigError,
        ConnectionFailedError,
        EmulationError,
        ErrorCode,
        ErrorSeverity,
        InvalidMessageError,
        MissingExtraError,
        NotSerialisableError,
        RefusedError,
        StoreConflictError,
        StoreError,
        TimedOutError,
        TurnCancelledError,
        UsageError,
    )
    from accord.wire.adaptation import AdaptationReport
    from accord.wire.capability import Capability
    from accord.wire.contract import ServiceContract
    from accord.wire.conversation import ChatMessage, Conversation, Role
    from accord.wire.emulation import (
        Disabled,
        EmulationConfig,
        EmulationEntry,
        EmulationReport,
        EmulationStrategy,
        PostProcessing,
        SystemPromptInjection,
    )
    from accord.wire.event import (
        CitationBlock,
        CitationItem,
        MarkdownBlock,
        MediaCarousel,
        MediaItem,
        PresentationEvent,
        PresentationEventType,
        ProgressUpdate,
    )
    from accord.wire.manifest import (
        CapabilityManifest,
        CapabilityRequirement,
        CapabilityRequirements,
        CompatibilityReport,
        MinSupport,
        NegotiationResult,
        ReportedSupport,
        SupportLevel,
    )
    from accord.wire.packet import StreamError, StreamOpCode, StreamPacket
    from accord.wire.plan import Plan, Refusal
    from accord.wire.receipt import Receipt
    from accord.wire.request import (
        AgentRequest,
        ClientCapabilities,
        Identity,
        ServiceRequest,
        ServiceResponse,
        SessionContext,
    )
    from accord.wire.service import HealthCheckResponse, HealthCheckStatus
    from accord.wire.work import WorkOrder

__all__ = [
    "AccordError",
    "AdaptationReport",
    "Agent",
    "AgentError",
    "AgentRequest",
    "BackendBusyError",
    "BackendError",
    "BackendRetriedError",
    "BackendSkippedError",
    "Candidate",
    "Capability",
    "CapabilityManifest",
    "CapabilityRequirement",
    "CapabilityRequirements",
    "ChatMessage",
    "CitationBlock",
    "CitationItem",
    "ClientAdapter",
    "ClientCapabilities",
    "CompatibilityReport",
    "ConfigError",
    "ConnectionFailedError",
    "ContentBlock",
    "ContentValidator",
    "Conversation",
    "Disabled",
    "EmulationConfig",
    "EmulationEngine",
    "EmulationEntry",
    "EmulationError",
    "EmulationReport",
    "EmulationStrategy",
    "ErrorCode",
    "ErrorSeverity",
    "HealthCheckResponse",
    "HealthCheckStatus",
    "Identity",
    "InvalidMessageError",
    "MarkdownBlock",
    "MediaCarousel",
    "MediaItem",
    "MinSupport",
    "MissingExtraError",
    "NegotiationResult",
    "NotSerialisableError",
    "Plan",
    "PlanConfig",
    "PostProcessing",
    "PresentationEvent",
    "PresentationEventType",
    "ProgressUpdate",
    "PromptCapabilities",
    "Receipt",
    "Refusal",
    "RefusedError",
    "ReportedSupport",
    "Role",
    "ServiceContract",
    "ServiceRequest",
    "ServiceResponse",
    "SessionContext",
    "StoreConflictError",
    "StoreError",
    "StreamError",
    "StreamOpCode",
    "StreamPacket",
    "SupportLevel",
    "SystemPromptInjection",
    "TimedOutError",
    "Turn",
    "TurnCancelledError",
    "UsageError",
    "ValidationContext",
    "ValidationPolicy",
    "WorkOrder",
    "apply_emulation",
    "can_emulate",
    "check_capability",
    "default_strategy",
    "generate_report",
    "negotiate",
    "plan",
]

_MODULES: Final = {
    "AccordError": "accord.errors",
    "AdaptationReport": "accord.wire.adaptation",
    "Agent": "accord.agent",
    "AgentError": "accord.errors",
    "AgentRequest": "accord.wire.request",
    "BackendBusyError": "accord.errors",
    "BackendError": "accord.errors",
    "BackendRetriedError": "accord.errors",
    "BackendSkippedError": "accord.errors",
    "Candidate": "accord.core.work.plan",
    "Capability": "accord.wire.capability",
    "CapabilityManifest": "accord.wire.manifest",
    "CapabilityRequirement": "accord.wire.manifest",
    "CapabilityRequirements": "accord.wire.manifest",
    "ChatMessage": "accord.wire.conversation",
    "CitationBlock": "accord.wire.event",
    "CitationItem": "accord.wire.event",
    "ClientAdapter": "accord.core.output",
    "ClientCapabilities": "accord.wire.request",
    "CompatibilityReport": "accord.wire.manifest",
    "ConfigError": "accord.errors",
    "ConnectionFailedError": "accord.errors",
    "ContentBlock": "accord.acp.schema_parts",
    "ContentValidator": "accord.core.prompt.validator",
    "Conversation": "accord.wire.conversation",
    "Disabled": "accord.wire.emulation",
    "EmulationConfig": "accord.wire.emulation",
    "EmulationEngine": "accord.core.work.emulation.engine",
    "EmulationEntry": "accord.wire.emulation",
    "EmulationError": "accord.errors",
    "EmulationReport": "accord.wire.emulation",
    "EmulationStrategy": "accord.wire.emulation",
    "ErrorCode": "accord.errors",
    "ErrorSeverity": "accord.errors",
    "HealthCheckResponse": "accord.wire.service",
    "HealthCheckStatus": "accord.wire.service",
    "Identity": "accord.wire.request",
    "InvalidMessageError": "accord.errors",
    "MarkdownBlock": "accord.wire.event",
    "MediaCarousel": "accord.wire.event",
    "MediaItem": "accord.wire.event",
    "MinSupport": "accord.wire.manifest",
    "MissingExtraError": "accord.errors",
    "NegotiationResult": "accord.wire.manifest",
    "NotSerialisableError": "accord.errors",
    "Plan": "accord.wire.plan",
    "PlanConfig": "accord.core.work.plan",
    "PostProcessing": "accord.wire.emulation",
    "PresentationEvent": "accord.wire.event",
    "PresentationEventType": "accord.wire.event",
    "ProgressUpdate": "accord.wire.event",
    "PromptCapabilities": "accord.acp.schema_parts",
    "Receipt": "accord.wire.receipt",
    "Refusal": "accord.wire.plan",
    "RefusedError": "accord.errors",
    "ReportedSupport": "accord.wire.manifest",
    "Role": "accord.wire.conversation",
    "ServiceContract": "accord.wire.contract",
    "ServiceRequest": "accord.wire.request",
    "ServiceResponse": "accord.wire.request",
    "SessionContext": "accord.wire.request",
    "StoreConflictError": "accord.errors",
    "StoreError": "accord.errors",
    "StreamError": "accord.wire.packet",
    "StreamOpCode": "accord.wire.packet",
    "StreamPacket": "accord.wire.packet",
    "SupportLevel": "accord.wire.manifest",
    "SystemPromptInjection": "accord.wire.emulation",
    "TimedOutError": "accord.errors",
    "Turn": "accord.agent",
    "TurnCancelledError": "accord.errors",
    "UsageError": "accord.errors",
    "ValidationContext": "accord.core.prompt.validator",
    "ValidationPolicy": "accord.core.prompt.validator",
    "WorkOrder": "accord.wire.work",
    "apply_emulation": "accord.core.work.emulation.engine",
    "can_emulate": "accord.core.work.emulation.engine",
    "check_capability": "accord.core.work.negotiate",
    "default_strategy": "accord.core.work.emulation.engine",
    "generate_report": "accord.core.work.negotiate",
    "negotiate": "accord.core.work.negotiate",
    "plan": "accord.core.work.plan",
}


def __getattr__(name: str) -> Any:
    """Import a public name from its module."""
    if module := _MODULES.get(name):
        return getattr(import_module(module), name)
    if name == "__version__":
        return import_module("accord.version").package_version()
    raise AttributeError(f"module 'accord' has no attribute {name!r}")


def __dir__() -> list[str]:
    """The public names."""
    return __all__
