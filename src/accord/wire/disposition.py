"""What became of a field of a model API's request: names that the table, the labels and the receipts share."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field

from accord.wire.capability import CapabilityName
from accord.wire.message import Message, UtcTime, Value


class Api(StrEnum):
    """What a client or a backend speaks: a model API, the Agent Client Protocol, or something of its own."""

    CHAT = "chat"
    RESPONSES = "responses"
    MESSAGES = "messages"
    GEMINI = "gemini"
    ACP = "acp"
    OTHER = "other"


SERVED: Final = (Api.CHAT, Api.RESPONSES, Api.MESSAGES)
"""The model APIs that Accord serves."""


class Disposition(StrEnum):
    """What becomes of a field at a backend."""

    NATIVE = "native"
    EMULATED = "emulated"
    DROPPED = "dropped"
    REFUSED = "refused"
    ASSUMED = "assumed"
    """The request does not set it, the backend's API requires it, and Accord chose; in no table."""


class FieldClass(StrEnum):
    """Whether the answer is still what was asked for without the field."""

    TUNING = "tuning"
    CONTRACT = "contract"


class FieldPolicy(StrEnum):
    """Whether a tuning field that a backend lacks is dropped with a label, or refuses the request."""

    LABELLED = "labelled"
    STRICT = "strict"


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldRecord(Value):
    """A field of a request that was not native at the backend that answered, or that Accord had to choose for it."""

    field: Annotated[str, Field(description="The field, as the table names it.")]
    disposition: Annotated[Disposition, Field(description="What became of it.")]
    reason: Annotated[str, Field(description="Why it was not native; of one that is `assumed`, the choice.")]
    learned: Annotated[
        bool | None, Field(description="The endpoint refused the field, now or recently; its manifest does not say so.")
    ] = None


class AnswerDisposition(StrEnum):
    """What becomes of a part of an answer in the API of the client."""

    NATIVE = "native"
    CARRIED = "carried"
    LOST = "lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerRecord(Value):
    """A part of an answer that the API of the client has no place for, or another form."""

    part: Annotated[str, Field(description="The part, as the table of answers of the backend's API names it.")]
    disposition: Annotated[AnswerDisposition, Field(description="`carried`: the client gets it in another form.")]
    reason: Annotated[str, Field(description="Why it is lost, or its form.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldFacts(Value):
    """A field of a model API: a row of the table of dispositions."""

    kind: Annotated[
        FieldClass, Field(description="`contract`: without the field, the answer is not what was asked for.")
    ]
    capability: Annotated[
        CapabilityName | None, Field(description="What the model must have, too; its manifest decides.")
    ] = None
    note: Annotated[str | None, Field(description="What else is to be known.")] = None
    backends: Annotated[dict[Api, Disposition], Field(description="What each kind of backend can make of the field.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldOutcome(Value):
    """What becomes of a field at one backend now."""

    disposition: Annotated[Disposition, Field(description="What becomes of it.")]
    reason: Annotated[str | None, Field(description="Why it is not native.")] = None
    learned: Annotated[bool | None, Field(description="The endpoint refused the field recently.")] = None


class RememberedRefusal(Message, frozen=True):
    """What an endpoint refused by name, and until when it is not sent there again."""

    backend: str = Field(description="The backend.")
    api: Api | None = Field(default=None, description="The API of the field.")
    field: str | None = Field(default=None, description="The refused field.")
    value: str | None = Field(
        default=None, description="The value that was refused, as JSON, shortened. Absent: every value."
    )
    capability: CapabilityName | None = Field(default=None, description="The refused capability, if it is no field.")
    contradicted: bool | None = Field(
        default=None, description="Nothing was refused: answers did not show this capability."
    )
    since: UtcTime = Field(description="When it was refused first.")
    until: UtcTime = Field(description="When it is tried again.")
    times: int = Field(description="How often it was refused.")
    for_all: bool = Field(description="Whether it counts for every caller, since several met it.")
    example: str | None = Field(default=None, description="The id of the last request that met it.")


class ForgottenRefusals(Message, frozen=True):
    """What was forgotten of a backend."""

    backend: str = Field(description="The backend.")
    forgotten: int = Field(
        description="How many refusals the process that answers had kept; the others of the service forget theirs, too."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendFields(Value):
    """What becomes of each field of each API at one backend."""

    api: Annotated[Api, Field(description="The API that the backend speaks: its column of the table.")]
    fields: Annotated[dict[Api, dict[str, FieldOutcome]], Field(description="The fields by API and name.")]


class ModelApis(Message, frozen=True):
    """The table of dispositions, and what follows from it for every backend of this service."""

    fields: dict[Api, dict[str, FieldFacts]] = Field(
        description="Every field by API and name. `*` is any field that is not listed."
    )
    backends: dict[str, BackendFields] = Field(
        description="By backend: the table, with its manifest, the configured emulations and what was learned."
    )
