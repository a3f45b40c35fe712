"""Puts together what an agent asks leave for, and reads what a client answers: only what was offered can be a yes.

Pure. Who is asked, and how long that takes, is not known here.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic import ValidationError

from accord.core.show import read_shown
from accord.wire.acp.tool import (
    CancelledOutcome,
    PermissionOptionKind,
    RequestPermissionResponse,
    SelectedOutcome,
)
from accord.wire.permission import OfferedOption, Permission, PermissionQuestion, PermissionStatus

Offered = Sequence[OfferedOption | Mapping[str, Any]] | Mapping[str, Mapping[str, Any]]
"""Options with `id`, `name` and `kind` each; or `name` and `kind` by id."""

ALLOW_OR_REJECT: Final = (
    OfferedOption.trusted(id="allow", name="Allow", kind=PermissionOptionKind.ALLOW_ONCE),
    OfferedOption.trusted(id="reject", name="Reject", kind=PermissionOptionKind.REJECT_ONCE),
)
"""What is offered unless an agent says otherwise."""

DISMISSED: Final = "The client says that it was cancelled"
UNREADABLE: Final = "The client's answer cannot be read"
UNKNOWN_OUTCOME: Final = "The client's answer is of a kind that is not known"
NOT_OFFERED: Final = "The client chose an option that was not offered"


def permission_question(
    title: str, call_id: str, content: Sequence[Any], more: Mapping[str, Any], offered: Offered
) -> PermissionQuestion:
    """What is asked; raises `ValueError` for content or options that are none."""
    call = read_shown(call_id, title, content, more)
    return PermissionQuestion.model_validate({"title": title, "call": call, "options": _options(offered)})


def read_permission(question: PermissionQuestion, answered: Any) -> Permission:
    """What a client's answer comes to, whatever it looks like."""
    try:
        outcome = RequestPermissionResponse.model_validate(answered).outcome
    except ValidationError:
        return Permission(status=PermissionStatus.FAILED, why=UNREADABLE)
    match outcome:
        case SelectedOutcome():
            for option in question.options:
                if option.id == outcome.option_id:
                    return Permission.chosen(option)
            return Permission(status=PermissionStatus.FAILED, why=NOT_OFFERED)
        case CancelledOutcome():
            return Permission(status=PermissionStatus.CANCELLED, why=DISMISSED)
        case _:
            return Permission(status=PermissionStatus.FAILED, why=UNKNOWN_OUTCOME)


def _options(offered: Offered) -> list[Any]:
    if isinstance(offered, Mapping):
        return [{**told, "id": own} for own, told in offered.items()]
    return list(offered)
