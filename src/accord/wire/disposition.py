"""What became of a field of a model API's request: names that the table, the labels and the receipts share."""

from enum import StrEnum

from pydantic import Field

from accord.wire.capability import CapabilityName
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

    field: str = Field(description="The field, as the table names it.")
    disposition: Disposition = Field(description="What became of it.")
    reason: str = Field(description="Why it was not native.")
    learned: bool | None = Field(
        default=None, description="The endpoint refused the field, now or recently; its manifest does not say so."
    )


class FieldFacts(Message, frozen=True):
    """A field of a model API: a row of the table of dispositions."""

    kind: FieldClass = Field(description="`contract`: without the field, the answer is not what was asked for.")
    capability: CapabilityName | None = Field(
        default=None, description="What the model must have, too; its manifest decides."
    )
    note: str | None = Field(default=None, description="What else is to be known.")
    backends: dict[BackendApi, Disposition] = Field(description="What each kind of backend can make of the field.")


class FieldOutcome(Message, frozen=True):
    """What becomes of a field at one backend now."""

    disposition: Disposition = Field(description="What becomes of it.")
    reason: str | None = Field(default=None, description="Why it is not native.")
    learned: bool | None = Field(default=None, description="The endpoint refused the field recently.")


class BackendFields(Message, frozen=True):
    """What becomes of each field of each API at one backend."""

    api: BackendApi = Field(description="The API that the backend speaks: its column of the table.")
    fields: dict[Api, dict[str, FieldOutcome]] = Field(description="The fields by API and name.")


class ModelApis(Message, frozen=True):
    """The table of dispositions, and what follows from it for every backend of this service."""

    fields: dict[Api, dict[str, FieldFacts]] = Field(
        description="Every field by API and name. `*` is any field that is not listed."
    )
    backends: dict[str, BackendFields] = Field(
        description="By backend: the table, with its manifest, the configured emulations and what was learned."
    )
