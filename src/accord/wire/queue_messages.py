"""Names of what travels over NATS: subjects, streams and headers, each spelled here only.

docs/asyncapi.yaml describes them to other programs (`queue_contract.py`).
"""

from dataclasses import dataclass
from string import ascii_letters, digits
from typing import Final

SEQ_HEADER: Final = "Accord-Seq"
"""The number of the first packet of a message."""
LAST_HEADER: Final = "Accord-Last"
"""The number of the last packet, of a message without the packets themselves: they have to be read from the store."""
EPOCH_HEADER: Final = "Accord-Epoch"
"""Counts the processes that were given the turn: of two messages, the one of the higher epoch is right."""
OVER_HEADER: Final = "Accord-Over"
"""Present if the turn has ended with these packets."""
FENCE_HEADER: Final = "Accord-Fence"
"""Present on a message without packets, after which earlier epochs cannot publish any more."""
REASON_HEADER: Final = "Accord-Reason"
"""Why a message is among the dead letters."""

MESSAGE_ID_HEADER: Final = "Nats-Msg-Id"
"""JetStream drops a second message with the same id within its window for duplicates."""
EXPECTED_HEADER: Final = "Nats-Expected-Last-Subject-Sequence"
SEQUENCE_HEADER: Final = "Nats-Sequence"
PENDING_HEADER: Final = "Nats-Num-Pending"

TOKEN_BYTES: Final = f"{ascii_letters}{digits}-_".encode()
CANCEL_TOPIC: Final = "cancel"
"""The topic of request ids whose turns are to be cancelled."""


@dataclass(frozen=True, slots=True)
class Names:
    """The names of subjects and streams, which all begin with a prefix."""

    prefix: str = "accord"

    @property
    def all_work(self) -> str:
        """The subjects of requests; the last token is an agent."""
        return f"{self.prefix}.work.*"

    @property
    def all_dead(self) -> str:
        """The subjects of what cannot be processed; the last token is a request id."""
        return f"{self.prefix}.dead.*"

    def work(self, agent: str) -> str:
        """The subject of requests to this agent."""
        return self.all_work.replace("*", subject_token(agent))

    def packets_in(self, request_id: str) -> str:
        """The subject to which the packets of a turn are published, by one worker at a time."""
        return f"{self.prefix}.packets.in.{request_id}"

    def packets_out(self, request_id: str) -> str:
        """The subject on which stored packets of a turn are followed."""
        return f"{self.prefix}.packets.out.{request_id}"

    def dead(self, request_id: str) -> str:
        """The subject of what cannot be processed."""
        return self.all_dead.replace("*", subject_token(request_id))

    def topic(self, topic: str) -> str:
        """The subject of a topic of the channel."""
        return f"{self.prefix}.bus.{topic}"

    def stream(self, name: str) -> str:
        """The name of a stream: WORK, PACKETS or DEAD."""
        return f"{self.prefix}_{name}".upper()


def subject_token(name: str) -> str:
    """A name as one token of a subject: letters, digits, - and _ stay, any other byte becomes `=` and two digits.

    Two names never become one token.
    """
    return "".join(chr(byte) if byte in TOKEN_BYTES else f"={byte:02X}" for byte in name.encode()) or "="
