"""What became of a field of a model API's request: names that the table, the labels and the receipts share."""

from enum import StrEnum

from pydantic import Field

from accord.wire.message import Message


class Api(StrEnum):
    """A model API that Accord serves."""

    CHAT = "chat"
    RESPONSES = "responses"
    MESSAGES = "messages"


class BackendApi(StrEnum):
    """The API that a kind of backend speaks: the columns of the table."""

    CHAT = "chat"
    RESPONSES = "responses"
    MESSAGES = "messages"
    GEMINI = "gemini"
    ACP = "acp"
    OTHER = "other"


class Disposition(StrEnum):
    """What becomes of a field at a backend."""

    NATIVE = "native"
    EMULATED = "emulated"
    DROPPED = "dropped"
    REFUSED = "refused"


class FieldClass(StrEnum):
    """Whether the answer is still what was asked for without the field."""

    TUNING = "tuning"
    CONTRACT = "contract"


class FieldPolicy(StrEnum):
    """Whether a tuning field that a backend lacks is dropped with a label, or refuses the request."""

    LABELLED = "labelled"
    STRICT = "strict"


class FieldRecord(Message, frozen=True):
    """A field of a request that was not native at the backend that answered."""

    field: str
    disposition: Disposition
    reason: str
    learned: bool | None = Field(
        default=None, description="The endpoint refused the field, now or recently; its manifest does not say so."
    )
