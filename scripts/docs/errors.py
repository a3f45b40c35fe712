"""docs/reference/errors.md: the table of error codes, the JSON-RPC codes and the exceptions, from `accord.errors`."""

from typing import Final

from scripts.docs.markdown import code, first_paragraph, head, table

from accord import errors
from accord.errors import ERROR_FACTS, REMEDIES, AccordError, ErrorSeverity, RpcCode

INTRODUCTION: Final = """
Every error has a code. It is the same over HTTP, in a stream, over ACP, in a receipt and in Python (`error.code`); only
the envelope differs:

- over HTTP, a body of type `application/problem+json`: [ProblemBody](messages.md#problembody);
- in a stream, a last packet with `"op": "error"`: [StreamError](messages.md#streamerror);
- over ACP, a JSON-RPC error with the code below; `data.code` is the error code, except for errors of content, whose
  `data` ACP specifies;
- in a receipt, the `code` of its [Outcome](messages.md#outcome).

*Retry* is whether the same request may succeed later (`transient`) or not (`fatal`). A failed backend decides that for
each failure: an endpoint that rejects the request is `fatal`, one that is overloaded is `transient`.
"""


def page() -> str:
    """The whole page."""
    rows = (
        [
            code(each),
            str(facts.http),
            str(facts.jsonrpc),
            f"{'yes' if facts.severity is ErrorSeverity.TRANSIENT else 'no'} ({facts.severity})",
            f"{facts.title}.",
            REMEDIES[each],
        ]
        for each, facts in ERROR_FACTS.items()
    )
    names = {number: name for name, number in vars(RpcCode).items() if isinstance(number, int) and name.isupper()}
    numbers = (
        [str(number), name.replace("_", " ").lower(), _codes_of(number)]
        for number, name in sorted(names.items(), reverse=True)
    )
    kinds = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, AccordError)]
    exceptions = (
        [code(each.__name__), code(each.__mro__[1].__name__), code(each.code), first_paragraph(each.__doc__)]
        for each in kinds
    )
    return "\n".join(
        [
            head("Errors", "src/accord/errors.py", INTRODUCTION),
            "## Codes\n",
            table(["code", "HTTP", "JSON-RPC", "retry", "meaning", "what to do"], rows),
            "## JSON-RPC codes\n",
            table(["code", "meaning", "error codes"], numbers),
            "## Exceptions\n",
            "All are in `accord`, and carry `code`, `message`, `details` and `severity`.\n",
            table(["exception", "base", "code", "meaning"], exceptions),
        ]
    )


def _codes_of(number: int) -> str:
    return ", ".join(code(each) for each, facts in ERROR_FACTS.items() if facts.jsonrpc == number)
