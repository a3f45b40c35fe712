"""The openai package through Accord: the same code as before, another address, and a label on every answer.

Needs `pip install openai`. In another terminal (`accord-agents[serve]`): `accord serve`. Then

    python examples/08_openai_sdk.py

The backends of the demo are scripts without `seed`, without JSON schemas, and one of the two without images.
"""

import argparse
import json
from typing import Any, cast

from openai import BadRequestError, OpenAI
from openai.types.chat import ChatCompletionMessageParam

SALE: dict[str, object] = {
    "type": "object",
    "properties": {"region": {"type": "string"}, "units": {"type": "integer"}},
    "required": ["region", "units"],
}
IMAGE: ChatCompletionMessageParam = {
    "role": "user",
    "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}],
}


def main() -> None:
    parser = argparse.ArgumentParser(description="Ask the backends of Accord with the openai package.")
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    chat = OpenAI(base_url=f"{parser.parse_args().url}/v1", api_key="unused").chat.completions

    # Tuning that the model lacks is dropped, a schema is emulated: both are labelled.
    done = chat.create(
        model="auto",
        messages=[{"role": "user", "content": "North sold 42 units."}],
        seed=7,
        response_format={"type": "json_schema", "json_schema": {"name": "sale", "schema": SALE}},
    )
    label = cast("dict[str, Any]", (done.model_extra or {})["accord"])
    print(f"{label['served_by']} answered {json.loads(done.choices[0].message.content or '')}")
    for each in label["dispositions"]:
        print(f"  {each['field']}: {each['disposition']} ({each['reason']})")

    # The same label in a header, for programs that see only the response.
    raw = chat.with_raw_response.create(model="auto", messages=[{"role": "user", "content": "Hello"}], seed=7)
    print(f"Accord-Dispositions: {raw.headers['Accord-Dispositions']}")

    # Content that a model cannot read is refused before anything is sent to it.
    try:
        chat.create(model="demo-text", messages=[IMAGE])
    except BadRequestError as refusal:
        print(f"{refusal.status_code} {refusal.message}")


if __name__ == "__main__":
    main()
