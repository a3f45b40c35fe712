"""Rebuilds the list of model prices: `python -m scripts.refresh_prices`.

Downloads the wheel of `genai-prices` with pip (or takes it from disk), reads its data without importing it, and writes
`prices.json` and `PRICES.md`. The same wheel gives the same files.

The package is not a dependency: loaded, it takes 57 MB and a third of a second, and 70 µs for each request. Its prices
per token are taken, for each model with its start dates and its steps by input length. Left out are discounts by time
of day and for other service tiers, prices of anything but tokens, and models that cost a fee for each request.
"""

import argparse
import ast
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from re import compile as pattern
from typing import Any, Final, cast
from zipfile import BadZipFile, ZipFile

from scripts.refresh_models import FACTS_FOLDER, LICENCE_PAGE, Download, RefreshError, Wheel, download, wheel_source

from accord.backends.facts import FactSource
from accord.backends.prices import FORMAT, PriceList

PACKAGE: Final = "genai-prices"
DATA: Final = pattern(r"genai_prices/data\.py")
UNITS: Final[Mapping[str, str]] = {
    "input_mtok": "input",
    "output_mtok": "output",
    "cache_read_mtok": "cached_input",
    "cache_write_mtok": "cache_write",
}
SIGNS: Final[Mapping[str, str]] = {
    "equals": "=",
    "starts_with": "^",
    "ends_with": "$",
    "contains": "~",
    "regex": "/",
}
"""The kinds of clauses that match the name of a model, as `PriceList` reads them."""

Node = dict[str, Any]


def read_module(text: str) -> list[Node]:
    """Return the providers of the package's module as plain values: a call is a dict of its arguments and its name."""
    for statement in ast.parse(text).body:
        if isinstance(statement, ast.AnnAssign | ast.Assign) and isinstance(statement.value, ast.List):
            listed = _value(statement.value)
            if any(isinstance(each, dict) and "api_pattern" in each for each in listed):
                return listed
    problem = "no list of providers"
    raise ValueError(problem)


def _value(node: ast.expr) -> Any:
    match node:
        case ast.Call():
            name = ast.unparse(node.func)
            positional = [_value(argument) for argument in node.args]
            if name == "Decimal":
                return float(positional[0])
            if name == "datetime.date":
                return "-".join(f"{part:02d}" for part in positional)
            return {"call": name, "positional": positional} | {
                word.arg: _value(word.value) for word in node.keywords if word.arg
            }
        case ast.List():
            return [_value(item) for item in node.elts]
        case ast.Dict():
            return {_value(key): _value(item) for key, item in zip(node.keys, node.values, strict=True) if key}
        case ast.Attribute():
            return ast.unparse(node)  # a time zone
        case _:
            return ast.literal_eval(node)


def clause(node: Node) -> Any:
    """Convert a clause that matches names: a text, a list of which one has to match, or a dict of which all have to."""
    if "or_" in node:
        return [clause(each) for each in node["or_"]]
    if "and_" in node:
        return {"and": [clause(each) for each in node["and_"]]}
    for word, sign in SIGNS.items():
        if word in node:
            return sign + (node[word] if word == "regex" else node[word].lower())
    problem = f"an unknown kind of clause: {node['call']}"
    raise ValueError(problem)


def prices(node: Any) -> list[Node]:
    """Convert the prices of a model: one row, or one for each day from which other prices apply."""
    rows: list[Node] = []
    for each in cast("list[Node]", node) if isinstance(node, list) else [{"prices": node}]:
        constraint = each.get("constraint")
        if constraint is not None and "start_date" not in constraint:
            continue  # a discount at some time of the day
        given = each["prices"]
        if "requests_kcount" in given:
            return []  # a fee for each request: the tokens alone would be too cheap
        row = {name: _unit(given[unit]) for unit, name in UNITS.items() if given.get(unit) is not None}
        if constraint is not None:
            row["since"] = constraint["start_date"]
        if "input" in row and "output" in row:
            rows.append(row)
    return rows


def _unit(value: Any) -> Any:
    if isinstance(value, dict):
        tiered = cast("Node", value)
        return [_number(tiered["base"]), *([tier["start"], _number(tier["price"])] for tier in tiered["tiers"])]
    return _number(value)


def _number(value: float) -> float | int:
    return int(value) if value == int(value) else value


def provider_lines(provider: Node) -> Iterator[str]:
    """Return the lines of one provider: its head, then one for each model."""
    head: Node = {
        "address": provider["api_pattern"],
        "models": clause(provider["model_match"]) if provider.get("model_match") else None,
        "also": provider.get("fallback_model_providers") or [],
    }
    # Those without a price of tokens as well: their names must not be taken for those of other models.
    models = [
        [model["id"].lower(), clause(model["match"]), *prices(model["prices"])] for model in provider.get("models", ())
    ]
    listed = ",\n".join(_compact(model) for model in models)
    yield f'{_compact(provider["id"])}:{_compact(head)[:-1]},"prices":[\n{listed}\n]}}'


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def write_prices(source: FactSource, providers: Sequence[Node]) -> str:
    """Return the text of the file."""
    head = {name: getattr(source, name) for name in ("name", "version", "date", "dated_by", "licence", "copyright")}
    body = ",\n".join(line for provider in providers for line in provider_lines(provider))
    return f'{{"format":{FORMAT},\n"source":{_compact(head)},\n"providers":{{\n{body}\n}}}}\n'


PAGE: Final = """# Where the model prices come from

Written by `scripts/refresh_prices.py`; do not edit. `prices.json` holds list prices per token read as data from
{name} {version} ({date}, {dated_by}). The package is not imported or needed at run time. Prices change and
contracts differ: what an operator sets under `[backends.price]` counts before this list.

## Notices

- {name}: {copyright}

"""


def refresh(path: Path, out: Path) -> str:
    """Write the prices and their source from this wheel; return a line for the report."""
    try:
        with ZipFile(path) as files:
            wheel = Wheel(path, files)
            text = wheel.text(DATA)
            source, providers = wheel_source(wheel, text), read_module(text)
        content = write_prices(source, providers)
    except (OSError, BadZipFile, KeyError, TypeError, ValueError, SyntaxError) as error:
        problem = f"{path.name}: the prices in it cannot be read ({error!r})"
        raise RefreshError(problem) from error
    count = sum(1 for _ in PriceList.read(content.encode()).names())
    out.mkdir(parents=True, exist_ok=True)
    (out / "prices.json").write_text(content, "utf-8")
    fields = {name: getattr(source, name) for name in ("name", "version", "date", "dated_by", "copyright")}
    (out / "PRICES.md").write_text(PAGE.format(**fields) + LICENCE_PAGE, "utf-8")
    return f"  {source.label:<36}{source.date}  {count:>5} prices, {len(content.encode()):,} bytes"


def main(argv: Sequence[str] | None = None, fetch: Download = download) -> int:
    """Run the command; return 0 when the prices were written."""
    parser = argparse.ArgumentParser(description="Rebuild the list of model prices.")
    parser.add_argument("--wheel", type=Path, metavar="WHEEL", help="read this instead of downloading")
    parser.add_argument("--out", type=Path, default=FACTS_FOLDER, metavar="FOLDER", help="default: %(default)s")
    arguments = parser.parse_args(argv)
    try:
        with tempfile.TemporaryDirectory() as folder:
            report = refresh(arguments.wheel or fetch(PACKAGE, Path(folder)), arguments.out)
    except (RefreshError, OSError) as error:
        print(f"refresh_prices: {error}", file=sys.stderr)
        return 1
    print(report)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
