"""Our models as request and response models of a web framework: used the way FastAPI does, without any warning.

FastAPI itself is no dependency. It wraps each model in a `TypeAdapter` together with a field of its own, silencing one
warning of pydantic's while it does so, and later validates, serialises and describes with that adapter.
"""

import subprocess
import sys
import warnings
from typing import Annotated, Any

from pydantic import BaseModel, Field, TypeAdapter
from pydantic.warnings import UnsupportedFieldAttributeWarning

import accord
from accord.wire.message import Message


def public_models() -> list[type[BaseModel]]:
    found = (getattr(accord, name) for name in accord.__all__)
    return [each for each in found if isinstance(each, type) and issubclass(each, BaseModel)]


annotated: Any = Annotated
"""For annotations that are made at run time, which type checkers do not allow."""


def use_as_fastapi_does(model: type[BaseModel]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", category=UnsupportedFieldAttributeWarning)
        adapter: Any = TypeAdapter(annotated[model, Field(alias="body")])
    assert adapter.core_schema
    assert adapter.validator
    assert adapter.serializer
    for mode in ("validation", "serialization"):
        assert adapter.json_schema(mode=mode)


def test_our_models_are_used_in_fastapi_without_a_warning():
    # In a process of its own: what other tests used before is built already, and would not warn.
    script = (
        "import warnings; warnings.simplefilter('error')\n"
        "from tests.wire.test_type_adapters import public_models, use_as_fastapi_does\n"
        "for model in public_models(): use_as_fastapi_does(model)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert len(public_models()) > 30


def test_a_message_is_built_on_first_use():
    class Fresh(Message, frozen=True):
        """A message that nobody has used."""

        text: str

    assert not Fresh.__pydantic_complete__
    assert Fresh.parse('{"text": "a"}').text == "a"
    assert Fresh.__pydantic_complete__
