"""The client side of an inspection: what the inspector offers to an agent, and how it answers the agent's requests.

By default it offers nothing and rejects every permission. The checks of files, terminals and permissions use a client
that offers more. What the agent did wrong is judged in `conduct`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, cast

from accord.core.rpc import RpcRequest
from accord.errors import RpcCode
from accord.wire.acp.rpc import Method

NOT_OFFERED: Final = "Not offered by the inspector"


class PermissionPolicy(Enum):
    """How permission requests are answered."""

    REJECT = "reject"
    ALLOW = "allow"
    HOLD = "hold"
    """Not answered until the turn is cancelled."""


@dataclass(frozen=True, slots=True)
class RefusedRequest:
    """An error response to a request of the agent."""

    code: int
    message: str


@dataclass(slots=True)
class InspectorClient:
    """What the inspector offers on one connection, and what the agent requested."""

    capabilities: Mapping[str, Any] = field(default_factory=dict[str, Any])
    permissions: PermissionPolicy = PermissionPolicy.REJECT
    requests: list[RpcRequest] = field(default_factory=list[RpcRequest])

    async def answer(self, request: RpcRequest) -> Mapping[str, Any] | RefusedRequest | None:
        """The result of a request, or the error; None if it is not answered now."""
        self.requests.append(request)
        if request.method == Method.SESSION_REQUEST_PERMISSION:
            return self._decide_permission(request.value())
        return RefusedRequest(RpcCode.METHOD_NOT_FOUND, NOT_OFFERED)

    async def close(self) -> None:
        """Release what the agent left open."""

    def _decide_permission(self, params: Any) -> Mapping[str, Any] | None:
        if self.permissions is PermissionPolicy.HOLD:
            return None
        wanted = "allow" if self.permissions is PermissionPolicy.ALLOW else "reject"
        options: Any = params.get("options") if isinstance(params, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        for option in cast("list[Any]", options) if isinstance(options, list) else []:
            kind: Any = option.get("kind") if isinstance(option, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
            if isinstance(kind, str) and kind.startswith(wanted):
                return {"outcome": {"outcome": "selected", "optionId": option["optionId"]}}
        return {"outcome": {"outcome": "cancelled"}}
