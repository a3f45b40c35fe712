"""docs/reference/README.md: the pages of the reference, and the diagrams."""

from typing import Final

from scripts.docs.markdown import head, table

INTRODUCTION: Final = """
What is on these pages is taken from the code, so that it is never older than the code. To learn how to use Accord,
begin with the [guides](../README.md).
"""
REFERENCE: Final = {
    "messages.md": "Every message with its fields and an example.",
    "errors.md": "Every error code: its HTTP status, its JSON-RPC code, whether to try again, what to do.",
    "capabilities.md": "Every capability, and how Accord emulates it.",
    "settings.md": "Every key of `accord.toml`, with its variable and its option.",
    "commands.md": "Every command with its arguments, options and exit statuses.",
    "http.md": "Every path of the service.",
    "metrics.md": "Every metric and its labels.",
    "python.md": "Every public name of the package.",
    "../answers.md": "What becomes of each part of an answer of the model APIs.",
    "../dispositions.md": "What becomes of each field of the model APIs.",
    "../asyncapi.yaml": "What travels over the queue, as AsyncAPI.",
}
DIAGRAMS: Final = {
    "pipeline": "The stages of one turn.",
    "layers": "The parts of the package, and which may import which.",
    "packet-order": "Which packet may follow which.",
    "run-states": "The states of a run in its process, and every transition.",
    "session-life": "The states of a turn, and the calls of the store between them.",
    "negotiation": "What becomes of a required capability at one backend.",
    "ladder": "What each kind of client gets of each kind of event.",
}


def page() -> str:
    """The whole page."""
    pages = ([f"[{name.removeprefix('../')}]({name})", text] for name, text in REFERENCE.items())
    pictures = (f"### {name}\n\n{text}\n\n![{text}](../diagrams/{name}.svg)\n" for name, text in DIAGRAMS.items())
    parts = [head("Reference", "src/accord/", INTRODUCTION), table(["page", ""], pages), "## Diagrams\n", *pictures]
    return "\n".join(parts)
