"""Every path of the HTTP service, and where a reader declares its capabilities, spelled only here."""

from typing import Final
from urllib.parse import quote

PAGE_PATH: Final = "/"
PAGE_FILE_PATH: Final = "/page/{path:path}"
ASSIST_PATH: Final = "/v1/assist"
WEBSOCKET_PATH: Final = "/v1/ws"
REQUEST_PATH: Final = "/v1/requests/{request_id}"
RECEIPT_PATH: Final = f"{REQUEST_PATH}/receipt"
VERIFICATION_PATH: Final = f"{RECEIPT_PATH}/verification"
ADAPTATION_PATH: Final = f"{REQUEST_PATH}/adaptation"
ITEM_PATH: Final = f"{REQUEST_PATH}/items/{{item_id}}"
CAPABILITIES_PATH: Final = "/v1/capabilities"
PLAN_PATH: Final = "/v1/plan"
CHAT_PATH: Final = "/v1/chat/completions"
RESPONSES_PATH: Final = "/v1/responses"
RESPONSE_PATH: Final = f"{RESPONSES_PATH}/{{response_id}}"
MESSAGES_PATH: Final = "/v1/messages"
COUNT_TOKENS_PATH: Final = f"{MESSAGES_PATH}/count_tokens"
MODELS_PATH: Final = "/v1/models"
MODEL_PATH: Final = f"{MODELS_PATH}/{{model:path}}"
MODEL_INFO_PATH: Final = "/v1/model/info"
KEYS_PATH: Final = "/v1/admin/keys"
KEY_PATH: Final = f"{KEYS_PATH}/{{key_id}}"
USAGE_PATH: Final = "/v1/admin/usage"
REFUSALS_PATH: Final = "/v1/admin/backends/{backend}/refusals"
HEALTH_PATH: Final = "/health"
LIVE_PATH: Final = f"{HEALTH_PATH}/live"
READY_PATH: Final = f"{HEALTH_PATH}/ready"
METRICS_PATH: Final = "/metrics"
OPENAPI_PATH: Final = "/openapi.json"
DOCS_PATH: Final = "/docs"

DISPOSITIONS_HEADER: Final = "Accord-Dispositions"
RECEIPT_HEADER: Final = "Accord-Receipt"
SERVED_BY_HEADER: Final = "Accord-Served-By"
POLICY_HEADER: Final = "Accord-Policy"
"""Headers of the model APIs: what became of the fields, the path of the receipt, the backend that answered; and, of a
request, whether a field may be dropped."""

CAPABILITIES_HEADER: Final = "Accord-Capabilities"
CAPABILITIES_PARAMETER: Final = "capabilities"
"""The header, or the parameter of the query, with the capabilities of a client that reads an earlier request."""


def fill_path(path: str, **ids: object) -> str:
    """Put ids into a path, each quoted as one segment, whatever it contains."""
    # Quoting leaves dots as they are, and a segment of two dots would go up one level.
    return path.format(**{name: quote(str(value), safe="").replace(".", "%2E") for name, value in ids.items()})


def receipt_path(request_id: str) -> str:
    """The path of a receipt; `request_id` is a UUID, which needs no quoting."""
    return f"{_BEFORE_ID}{request_id}{_AFTER_ID}"


_BEFORE_ID, _AFTER_ID = RECEIPT_PATH.split("{request_id}")
