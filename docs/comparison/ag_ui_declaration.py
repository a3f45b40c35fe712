"""What the AG-UI package does with a declaration: an agent without images gets one, and a client declares nothing."""

# ruff: noqa: T201 - it prints what happens

from ag_ui.core import AgentCapabilities, MultimodalCapabilities, MultimodalInputCapabilities, RunAgentInput

declared = AgentCapabilities(multimodal=MultimodalCapabilities(input=MultimodalInputCapabilities(image=False)))
print("the agent declares:", declared.model_dump(by_alias=True, exclude_none=True))

source = {"type": "data", "value": "iVBORw0KGgo=", "mimeType": "image/png"}
content = [{"type": "text", "text": "What is this?"}, {"type": "image", "source": source}]
message = {"id": "1", "role": "user", "content": content}
request = RunAgentInput.model_validate({"threadId": "t", "runId": "r", "messages": [message]})
print("a request with:", [part.type for part in request.messages[0].content], "is valid")

print("members of a request:", ", ".join(RunAgentInput.model_fields))
