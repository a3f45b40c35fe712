"""Writes the models of the Agent Client Protocol from its JSON Schemas: `make acp-types`.

`scripts/acp_schema/` has the schemas, and says where they are from. Version 1 is written whole; the draft of version 2
only where it differs from that. What the models do besides their fields is in `accord/acp/base.py`.
"""

import json
import re
import subprocess
import sys
import sysconfig
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

Json = dict[str, Any]

ROOT: Final = Path(__file__).parent.parent
SCHEMAS: Final = ROOT / "scripts" / "acp_schema"
TARGET: Final = ROOT / "src" / "accord" / "acp"

HEADER: Final = '''"""{title}

Written by scripts/acp_types.py from the JSON Schema of the protocol, with its descriptions; do not edit. The schema is
Copyright 2025 Zed Industries, Inc. and contributors, under the Apache License 2.0: see scripts/acp_schema/README.md.
"""

'''
TITLES: Final = {
    "schema_parts": "The parts of the Agent Client Protocol that requests and events of Accord have, too.",
    "schema_v1": "Version 1 of the Agent Client Protocol.",
    "schema_v2": "The draft of version 2 of the Agent Client Protocol, where it differs from version 1.",
    "methods": "The methods of the Agent Client Protocol.",
}

# The rules that are not in the schemas.

PARTS: Final = (
    "ContentBlock",
    "PlanEntry",
    "PromptCapabilities",
    "RequestPermissionRequest",
    "RequestPermissionResponse",
)
"""What is used without the protocol, in a module of its own, so that a service does not load the rest."""

LEFT_OUT: Final = ("elicitation/",)
"""Methods whose messages Accord passes on without looking inside."""

WRITTEN_BY_HAND: Final[Mapping[tuple[int, str], str]] = {
    (1, "Annotations"): "FreeObject",  # passed on as it came
    (1, "RequestId"): "int | str",  # in a parameter; null names no request
    (2, "RequestId"): "int | str",
    (2, "Error"): "RpcErrorObject",
    # The draft's blocks are those of version 1, and any other.
    (2, "ContentBlock"): "OpenContentBlock",
}
"""The types of definitions that get no model."""

CLOSED: Final = {"ContentBlock", "StopReason"}
"""The unions and words that version 1 closes. All others are open, as in the draft: a peer may be newer than we are."""

FLAT: Final[Mapping[str, Mapping[str, str]]] = {
    "StateUpdate": {"state": "SessionState", "stopReason": "StopReason"},
    "SetSessionConfigOptionRequest": {},
}
"""Unions that are read as one model with the members of all, and the names of the words that tell them apart."""

NAMES: Final[Mapping[tuple[str, str], str]] = {
    ("RequestPermissionOutcome", "cancelled"): "CancelledPermissionOutcome",  # which has no name in version 1
    ("SessionUpdate", "tool_call_update"): "ToolCallChanged",  # `ToolCallUpdate` is also a part of permission requests
}
"""The names of kinds that cannot have those of their definitions."""


TYPES: Final = {"string": "str", "integer": "int", "number": "Number", "boolean": "bool", "object": "FreeObject"}
LIMITS: Final = {"minimum": "ge", "maximum": "le", "minLength": "min_length"}
ON_ERROR: Final = {
    "bool": ("Flag", "default=False"),
    "str": ("LenientStr", "default=None"),
    "Supported": ("Declared", "default=None"),
}
"""What stands for a type whose malformed values count as its default, and that default."""


def snake(name: str) -> str:
    """The name of a field in Python."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def branches(schema: Json) -> list[Json]:
    """The alternatives of a union."""
    return schema.get("oneOf") or schema.get("anyOf") or []


def reference(schema: Json) -> str:
    """The name of the definition that a schema refers to."""
    inner: Json = schema["allOf"][0] if "allOf" in schema else schema
    return inner["$ref"].rpartition("/")[2]


def words_of(schema: Json) -> list[Json]:
    """The known words of an open or closed vocabulary."""
    return [each for each in branches(schema) if isinstance(each.get("const"), str)]


def tags_of(schema: Json) -> Iterator[tuple[str, str, Json]]:
    """The member that names the kind, the name, and the alternative, for each alternative of a union that has these."""
    for branch in branches(schema):
        for name, each in branch.get("properties", {}).items():
            if "const" in each and name in branch["required"]:
                yield name, each["const"], branch


def without_null(schema: Json) -> tuple[Json, bool]:
    """A schema without the alternative null, and whether it had that."""
    if isinstance(schema.get("type"), list):
        return {**schema, "type": schema["type"][0]}, True
    options = [each for each in schema.get("anyOf", ()) if each.get("type") != "null"]
    if len(options) == 1 and len(schema["anyOf"]) == 2:
        return {**{key: value for key, value in schema.items() if key != "anyOf"}, **options[0]}, True
    return schema, False


def prose(schema: Json, indent: str, fallback: str = "") -> str:
    """The description of a schema as a docstring."""
    text = schema.get("description", fallback).partition("See protocol docs:")[0].strip()
    lines: list[str] = []
    for paragraph in text.split("\n\n"):
        for item in re.split(r"\n(?=- )", paragraph):
            width = 120 - len(indent) - (0 if lines else 6)
            lines += textwrap.wrap(" ".join(item.split()), width, break_on_hyphens=False)
        lines.append("")
    lines.pop()
    quoted = "\n".join(f"{indent}{line}".rstrip() for line in lines).strip().replace("\\", "\\\\")
    return f'{indent}"""{quoted}"""\n' if len(lines) == 1 else f'{indent}"""{quoted}\n{indent}"""\n'


@dataclass(frozen=True)
class Part:
    """The code of a definition, and the module that has it."""

    module: str
    code: str


class Writer:
    """Writes one module of models; what an earlier module has in the same form is imported from there."""

    def __init__(self, version: int, definitions: Json, words: Mapping[str, list[Json]], earlier: Mapping[str, Part]):
        self.version: Final = version
        self.definitions: Final = definitions
        self.words: Final = words
        self.earlier: Final = earlier
        self.code: Final[dict[str, str]] = {}
        """The code of each definition, after those that it needs."""
        self.uses: Final[dict[str, set[str]]] = {}
        self._stack: Final[list[str]] = []

    def write(self, module: str, roots: Sequence[str], tail: str = "") -> tuple[str, dict[str, Part]]:
        """The source of the module with these definitions and all that they need, and its parts."""
        for name in roots:
            self.use(name)
        same = self._same_as_earlier()
        imported: dict[str, list[str]] = {}
        for name in sorted(same):
            if name in roots or any(name in used for user, used in self.uses.items() if user not in same):
                imported.setdefault(f"accord.acp.{self.earlier[name].module}", []).append(name)
        own = {name: Part(module, code) for name, code in self.code.items() if name not in same}
        code = "\n\n".join(part.code for part in own.values()) + tail
        return header(module) + imports(code, imported) + code, {**self.earlier, **own}

    def _same_as_earlier(self) -> set[str]:
        """The definitions that an earlier module has in the same form, and so all that they need."""
        same = {
            name
            for name, code in self.code.items()
            if name in self.earlier and plain(self.earlier[name].code) == plain(code)
        }
        while changed := {name for name in same if self.uses[name] & self.code.keys() - same}:
            same -= changed
        return same

    def use(self, name: str) -> None:
        """Write a definition, unless it was written, and note that the current one needs it."""
        if self._stack:
            self.uses[self._stack[-1]].add(name)
        if name not in self.uses:
            self._add(name, lambda: self._definition(name, self.definitions[name]))

    def _add(self, name: str, write: Callable[[], str]) -> None:
        self.uses[name] = set()
        self._stack.append(name)
        self.code[name] = write()
        self._stack.pop()

    def _definition(self, name: str, schema: Json) -> str:
        if words_of(schema):
            return vocabulary(name, schema, self.words[name])
        if name in FLAT:
            return self._model(name, "AcpMessage", self._flat(name))
        tagged = [branch for _, _, branch in tags_of(schema)]
        if tagged and len(tagged) == len([each for each in branches(schema) if each.get("title") != "other"]):
            return self._union(name, schema)
        if tagged:
            kinds = " | ".join(map(self._alternative, branches(schema)))
            return f'{name} = Annotated[{kinds}, Field(union_mode="left_to_right")]\n' + prose(schema, "")
        return self._model(name, "AcpMessage", schema)

    def _alternative(self, branch: Json) -> str:
        """A kind of a union of which one kind has no tag."""
        name = reference({"allOf": branch["allOf"]})
        tag = [f'{snake(key)}: Literal["{const}"]' for key, const, _ in tags_of({"anyOf": [branch]})]
        self.uses[self._stack[-1]].add(name)
        self._add(name, lambda: self._model(name, "AcpMessage", self.definitions[name], tag))
        return name

    def _model(self, name: str, bases: str, schema: Json, members: Iterable[str] = (), doc: str = "") -> str:
        """A model with these members, and the fields of a schema."""
        required = schema.get("required", ())
        properties = {key: each for key, each in schema.get("properties", {}).items() if key != "_meta"}
        fields = [*members, *(self._field(key, each, key in required) for key, each in properties.items())]
        body = "".join(f"    {field}\n" for field in fields)
        return f"class {name}({bases}, frozen=True):\n{prose(schema, '    ', doc)}\n{body}"

    def _union(self, name: str, schema: Json) -> str:
        """The base of a tagged union, its kinds, and the kind of every other tag if it is open."""
        rows = [*tags_of(schema)]
        label = rows[0][0]
        field = snake(label)
        kinds: dict[str, list[str]] = {}
        for _, tag, branch in rows:
            kinds.setdefault(NAMES.get((name, tag)) or reference({"allOf": branch["allOf"]}), []).append(tag)
        body = {tag: branch for _, tag, branch in rows}
        parts = [
            self._model(name, "OpenTagged", pick(schema, "description", "properties", "required"), [f"{field}: str"])
        ]
        parts[0] += "\n    if TYPE_CHECKING:  # the other members are those of the kind\n\n"
        parts[0] += f"        def __init__(self, *, {field}: str, **members: Any) -> None: ...\n"
        parts += [self._kind(name, field, kind, tags, body[tags[0]]) for kind, tags in kinds.items()]
        table, other = ", ".join(f'"{tag}": {kind}' for kind, tags in kinds.items() for tag in tags), ""
        if name not in CLOSED:
            rest = next((each for each in branches(schema) if each.get("title") == "other"), Json())
            properties = {key: each for key, each in rest.get("properties", {}).items() if key != label}
            doc = f"A kind of `{name}` that is not known; every member is kept."
            parts.append(self._model(f"Other{name}", name, {**rest, "properties": properties}, doc=doc))
            other = f", other=Other{name}"
        return "\n\n".join([*parts, f'close_union({name}, "{field}", {{{table}}}{other})\n'])

    def _kind(self, union: str, field: str, kind: str, tags: Sequence[str], branch: Json) -> str:
        literals = ", ".join(f'"{tag}"' for tag in tags)
        member = f"{field}: Literal[{literals}]" + (f' = "{tags[0]}"' if len(tags) == 1 else "")
        if "allOf" not in branch:
            return self._model(kind, union, pick(branch, "description"), [member])
        name = reference({"allOf": branch["allOf"]})
        if name != kind:  # it is used without the tag, too
            self.use(name)
            return self._model(kind, f"{name}, {union}", pick(branch, "description"), [member])
        if branches(self.definitions[name]) and name not in FLAT:
            raise NotImplementedError(f"{name}, a kind of {union}, is a union itself: add it to FLAT")
        return self._model(kind, union, self._flat(name) if name in FLAT else self.definitions[name], [member])

    def _flat(self, name: str) -> Json:
        """The members of all alternatives of a union in one object; some words become a vocabulary."""
        schema = self.definitions[name]
        always = [set[str](branch.get("required", ())) for branch in branches(schema)]
        required = {*schema.get("required", ()), *set[str].intersection(*always)}
        merged: Json = {}
        for key, found in self._members(schema).items():
            known, others = words_of({"anyOf": found}), [each for each in found if "const" not in each]
            described = next((each for each in others if "description" in each), (others or known)[0])
            if key in FLAT[name]:
                self._add_words(FLAT[name][key], described, known)
                marks = {mark: value for mark, value in described.items() if mark.startswith("x-")}
                merged[key] = {"$words": FLAT[name][key], **marks, **pick(described, "description")}
            elif known:
                merged[key] = {"type": "string", **pick(described, "description")}
            elif len({str({**each, "description": ""}) for each in others}) > 1:
                merged[key] = {"$any": others}
            else:
                merged[key] = described
        return {**pick(schema, "description"), "properties": merged, "required": sorted(required)}

    def _add_words(self, name: str, schema: Json, words: Sequence[Json]) -> None:
        unique = {each["const"]: each for each in words}
        self.uses[self._stack[-1]].add(name)
        self._add(name, lambda: vocabulary(name, pick(schema, "description"), unique.values()))

    def _members(self, schema: Json) -> dict[str, list[Json]]:
        """The members of an object and of all its alternatives; one may be there several times."""
        found: dict[str, list[Json]] = {key: [each] for key, each in schema.get("properties", {}).items()}
        for inner in [*schema.get("allOf", ()), *branches(schema)]:
            target = self.definitions[reference(inner)] if "$ref" in inner else inner
            for key, each in self._members(target).items():
                found.setdefault(key, []).extend(each)
        return found

    def _field(self, key: str, schema: Json, required: bool) -> str:
        kind, default = self._field_type(schema, required)
        options = [default] if default else []
        if "description" in schema:
            summary = " ".join(schema["description"].partition("\n\n")[0].split())
            options.append(f"description={json.dumps(summary, ensure_ascii=False)}")
        return f"{snake(key)}: {kind}" + (f" = Field({', '.join(options)})" if options else "")

    def _field_type(self, schema: Json, required: bool) -> tuple[str, str | None]:
        """The type of a field, and its default; the marks of the schema say what is done with a malformed value."""
        bare, nullable = without_null(schema)
        kind, on_error = self._type(bare), "x-deserialize-default-on-error" in schema
        if kind == "FreeValue":
            return kind, "default=None"
        if bare.get("type") == "array":
            return self._list_type(bare, required and not nullable, on_error)
        if not on_error:
            return (kind, None) if required else (f"{kind} | None", "default=None")
        if kind in ON_ERROR:
            return ON_ERROR[kind]
        if isinstance(schema.get("default"), dict):
            return f"Annotated[{kind}, DefaultIfMalformed({kind})]", f"default_factory={kind}"
        return f"Annotated[{kind} | None, AbsentIfMalformed()]", "default=None"

    def _list_type(self, schema: Json, required: bool, on_error: bool) -> tuple[str, str | None]:
        item = self._type(schema["items"])
        if "x-deserialize-default-on-null" in schema:
            return f"NullIsEmpty[{item}]", f"default_factory=list[{item}]"
        if "x-deserialize-skip-invalid-items" not in schema:
            absent = f"Annotated[list[{item}] | None, AbsentIfMalformed()]", "default=None"
            return (f"list[{item}]", None) if required else absent
        if not required:
            return f"ListOrAbsent[{item}]", "default=None"
        return (f"ListOrEmpty[{item}]" if on_error else f"list[Annotated[{item}, SkipIfMalformed()]]"), None

    def _type(self, schema: Json) -> str:
        """The type of a value that is well-formed and not null."""
        if "$words" in schema:
            return f"Open[{schema['$words']}]"
        if "$any" in schema:
            kinds = dict.fromkeys(map(self._type, schema["$any"]))
            return "FreeValue" if "FreeValue" in kinds else " | ".join(kinds)
        if "$ref" in schema or "allOf" in schema:
            return self._reference_type(reference(schema))
        if schema.get("type") == "array":
            return f"list[{self._type(schema['items'])}]"
        limits = [f"{ours}={schema[theirs]}" for theirs, ours in LIMITS.items() if theirs in schema]
        plain_type = TYPES.get(schema.get("type", ""), "FreeValue")
        if limits and plain_type in ("int", "str"):
            return "Count" if limits == ["ge=0"] else f"Annotated[{plain_type}, Field({', '.join(limits)})]"
        return plain_type

    def _reference_type(self, name: str) -> str:
        if (self.version, name) in WRITTEN_BY_HAND:
            return WRITTEN_BY_HAND[self.version, name]
        schema = self.definitions[name]
        if words_of(schema):
            self.use(name)
            return name if name in CLOSED else f"Open[{name}]"
        if branches(schema) and not [*tags_of(schema)]:
            return " | ".join(map(self._type, branches(schema)))
        if schema.get("type", "object") != "object":
            return self._type(schema)
        if not branches(schema) and not schema.get("properties", {}).keys() - {"_meta"}:
            return "Supported"
        self.use(name)
        return name


def vocabulary(name: str, schema: Json, words: Iterable[Json]) -> str:
    """The code of a vocabulary."""
    lines = [f'    {each["const"].upper()} = "{each["const"]}"\n' for each in words]
    docs = [prose(each, "    ") if "description" in each else "" for each in words]
    body = "".join(line + doc for line, doc in zip(lines, docs, strict=True))
    return f"class {name}(StrEnum):\n{prose(schema, '    ', f'The words of `{name}`.')}\n{body}"


def pick(schema: Json, *keys: str) -> Json:
    """These members, if they are there."""
    return {key: schema[key] for key in keys if key in schema}


def plain(code: str) -> str:
    """Code without its descriptions."""
    return re.sub(r'\s*""".*?"""|description="(?:[^"\\]|\\.)*"', "", code, flags=re.DOTALL)


IMPORTS: Final[Mapping[str, str]] = {
    "collections.abc": "Mapping",
    "enum": "StrEnum",
    "typing": "TYPE_CHECKING Annotated Any Final Literal",
    "pydantic": "Field",
    "accord.acp.base": "AbsentIfMalformed AcpMessage Count Declared DefaultIfMalformed Flag LenientStr ListOrAbsent "
    "ListOrEmpty NullIsEmpty Number Open OpenTagged SkipIfMalformed",
    "accord.acp.content": "OpenContentBlock",
    "accord.acp.jsonrpc": "RpcErrorObject",
    "accord.wire.message": "FreeObject FreeValue close_union",
}


def imports(code: str, imported: Mapping[str, list[str]]) -> str:
    """The imports that the code needs; names that only the module's readers need are exported by their repetition."""
    used = set(re.findall(r"\w+", plain(code)))
    found = {module: [name for name in names.split() if name in used] for module, names in IMPORTS.items()}
    lines = [f"from {module} import {', '.join(names)}\n" for module, names in found.items() if names]
    for module, names in imported.items():
        lines.append(f"from {module} import {', '.join(f'{name} as {name}' for name in names)}\n")
    return "".join(lines) + "\n\n"


def header(module: str) -> str:
    """The docstring of a module."""
    return HEADER.format(title=TITLES[module])


def modules() -> dict[str, str]:
    """The source of each module that this script writes, by its name."""
    first, second = (json.loads((SCHEMAS / f"v{version}.json").read_bytes())["$defs"] for version in (1, 2))
    words = vocabularies(first, second)
    sources, earlier = dict[str, str](), dict[str, Part]()
    sources["schema_parts"], earlier = Writer(1, first, words, earlier).write("schema_parts", PARTS)
    for version, definitions in ((1, first), (2, second)):
        module, sent = f"schema_v{version}", messages(definitions)
        tail = table(
            "PARAMETERS",
            "The parameters of each method.",
            {m: n for n, m in sent.items() if not n.endswith("Response")},
        )
        tail += table(
            "RESULTS", "The results of each method.", {m: n for n, m in sent.items() if n.endswith("Response")}
        )
        sources[module], earlier = Writer(version, definitions, words, earlier).write(module, [*sent], tail)
    names = sorted({each["x-method"] for each in [*first.values(), *second.values()] if "x-method" in each})
    rows = "".join(f'    {re.sub("[^a-z]+", "_", name.lstrip("$/")).upper()} = "{name}"\n' for name in names)
    doc = '"""Every method of both versions of the protocol."""'
    sources["methods"] = (
        header("methods") + f"from enum import StrEnum\n\n\nclass Method(StrEnum):\n    {doc}\n\n{rows}"
    )
    return {f"{name}.py": formatted(source) for name, source in sources.items()}


def messages(definitions: Json) -> dict[str, str]:
    """The definitions that are sent on their own, and the methods that have them."""
    methods = {name: each["x-method"] for name, each in definitions.items() if "x-method" in each}
    return {name: method for name, method in sorted(methods.items()) if not method.startswith(LEFT_OUT)}


def table(name: str, doc: str, rows: Mapping[str, str]) -> str:
    """A table of models by method."""
    listed = "".join(f'    "{method}": {model},\n' for method, model in sorted(rows.items()))
    return f'\n\n{name}: Final[Mapping[str, type[AcpMessage]]] = {{\n{listed}}}\n"""{doc}"""\n'


def vocabularies(*versions: Json) -> dict[str, list[Json]]:
    """The words of each vocabulary: those of all versions if it is open, so that they can share it."""
    found: dict[str, dict[str, Json]] = {}
    for definitions in versions:
        for name, schema in definitions.items():
            if name not in CLOSED or name not in found:
                known = found.setdefault(name, {})
                known.update({each["const"]: each for each in words_of(schema) if each["const"] not in known})
    return {name: [*words.values()] for name, words in found.items()}


def formatted(source: str) -> str:
    """The source as the project formats it."""
    ruff = Path(sysconfig.get_path("scripts")) / "ruff"
    fixed = [ruff, "check", "--fix-only", "--quiet", "--select", "I", "--stdin-filename", TARGET / "schema.py", "-"]
    for command in (fixed, [ruff, "format", "--quiet", "--stdin-filename", TARGET / "schema.py", "-"]):
        source = subprocess.run(command, input=source, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    return source


def main() -> None:
    """Write the modules."""
    for name, source in modules().items():
        (TARGET / name).write_text(source, encoding="utf-8")
        print(f"Wrote {name}: {source.count(chr(10))} lines")


if __name__ == "__main__":
    sys.exit(main())
