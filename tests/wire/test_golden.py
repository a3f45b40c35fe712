"""Every message of the specification, as a file: it is read, and written again without loss."""

import json
from pathlib import Path

import pytest

from accord.acp.schema_parts import ContentBlock
from accord.wire.adaptation import AdaptationReport
from accord.wire.conversation import ChatMessage, Conversation
from accord.wire.disposition import ForgottenRefusals
from accord.wire.emulation import EmulationConfig, EmulationReport
from accord.wire.event import PresentationEvent
from accord.wire.inspection import InspectionReport
from accord.wire.keys import KeyChange, KeyInfo, KeyList, KeyRequest, NewKey, UsageReport
from accord.wire.manifest import CapabilityRequirements, CompatibilityReport, NegotiationResult
from accord.wire.message import Message
from accord.wire.packet import StreamError, StreamPacket
from accord.wire.plan import PlanRequest, PlanResponse
from accord.wire.problem import ProblemBody
from accord.wire.receipt import Receipt, ReceiptVerification
from accord.wire.request import (
    AgentRequest,
    ClientCapabilities,
    Identity,
    ServiceRequest,
    ServiceResponse,
    SessionContext,
)
from accord.wire.service import HealthCheckResponse, ServiceCapabilities
from accord.wire.work import WorkOrder

GOLDEN = Path(__file__).parent / "golden"

GOLDEN_CASES: dict[str, type[Message]] = {
    "adaptation_report": AdaptationReport,
    "agent_request": AgentRequest,
    "capability_requirements": CapabilityRequirements,
    "chat_message": ChatMessage,
    "client_capabilities_cli": ClientCapabilities,
    "client_capabilities_silent": ClientCapabilities,
    "client_capabilities_voice": ClientCapabilities,
    "client_capabilities_web": ClientCapabilities,
    "compatibility_report": CompatibilityReport,
    "conversation": Conversation,
    "emulation_config": EmulationConfig,
    "emulation_report": EmulationReport,
    "event_citation_block": PresentationEvent,
    "event_markdown_block": PresentationEvent,
    "event_media_carousel": PresentationEvent,
    "event_progress_indicator": PresentationEvent,
    "event_thought_trace": PresentationEvent,
    "event_user_error": PresentationEvent,
    "health_check_response": HealthCheckResponse,
    "identity": Identity,
    "inspection_report": InspectionReport,
    "key_request": KeyRequest,
    "negotiation_result": NegotiationResult,
    "negotiation_result_with_reasons": NegotiationResult,
    "packet_close": StreamPacket,
    "packet_delta": StreamPacket,
    "packet_error": StreamPacket,
    "packet_event": StreamPacket,
    "plan_request": PlanRequest,
    "plan_response": PlanResponse,
    "plan_response_refusal": PlanResponse,
    "problem_body": ProblemBody,
    "receipt_verification": ReceiptVerification,
    "service_capabilities": ServiceCapabilities,
    "service_request": ServiceRequest,
    "service_request_full": ServiceRequest,
    "service_response": ServiceResponse,
    "session_context": SessionContext,
    "stream_error": StreamError,
    "usage_report": UsageReport,
}

LENIENT_CASES: dict[str, type[Message]] = {
    "content_audio": ContentBlock,
    "content_image": ContentBlock,
    "content_resource": ContentBlock,
    "content_resource_link": ContentBlock,
    "content_text": ContentBlock,
    "key_change": KeyChange,
    "key_info": KeyInfo,
    "forgotten_refusals": ForgottenRefusals,
    "key_list": KeyList,
    "new_key": NewKey,
    "receipt": Receipt,
    "work_order": WorkOrder,
}
"""Messages with values of any type, with parts that ACP says to ignore if they are malformed, or only written by us."""


@pytest.mark.parametrize(("name", "model"), [*GOLDEN_CASES.items(), *LENIENT_CASES.items()])
def test_a_golden_message_is_written_as_it_was_read(name: str, model: type[Message]):
    raw = (GOLDEN / f"{name}.json").read_bytes()
    message = model.parse(raw)
    assert json.loads(message.to_json()) == json.loads(raw)
    assert message.dump() == json.loads(raw)
    assert model.parse(message.to_json()) == message


def test_every_golden_file_is_in_the_table():
    assert {path.stem for path in GOLDEN.glob("*.json")} == {*GOLDEN_CASES, *LENIENT_CASES, "capability_manifest"}
