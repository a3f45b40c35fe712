"""`accord keys`: manage API keys and their rules, and show what was used with them.

A key is printed once, when it is made; the store has only its hash. In the store it is a token with rules.
"""

import csv
import json
import sys
from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Annotated, Any

import typer

from accord.assembly.store import is_store_missing, run_with_store
from accord.cli.configuration import load
from accord.cli.options import ConfigOption, JsonOption, StoreOption, TrustOption
from accord.config import LoadedConfig, StoreKind
from accord.console import Cell, Console, styled, styled_line
from accord.errors import StoreConflictError, UsageError
from accord.files import parse_message
from accord.ports import Store
from accord.run.keys import change_rules, describe_key, find_key, make_key
from accord.terminal import format_count
from accord.wire.keys import BudgetPeriod, KeyInfo, KeyRequest, KeyRules, UsageGroup, UsageTotal

NO_RULE = "none"
NONE_LEFT = "No key is left, so every request is refused. To allow access without keys: accord keys open"
IN_MEMORY = "The store is memory, which would lose the key at once; use sqlite or postgres"
REFERENCES = {True: "references into the provider's account", False: "no references into the provider's account"}
COLUMNS = (
    "requests",
    "failed",
    "input_tokens",
    "cached_input_tokens",
    "output_tokens",
    "cost_usd",
    "priced_requests",
    "estimated_requests",
)

keys_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, add_completion=False)

KeyArgument = Annotated[str, typer.Argument(metavar="ID", help="Id of the key, as `accord keys list` shows it.")]
ModelsOption = Annotated[
    str | None,
    typer.Option(metavar="NAMES", help="Allowed models, such as `gpt-*,auto`: backends, groups or patterns."),
]
RateOption = Annotated[
    str | None, typer.Option(metavar="RATES", help="Rates such as `10/second,200/minute`, besides the service's.")
]
BudgetOption = Annotated[
    str | None, typer.Option(metavar="USD[/PERIOD]", help="Budget in USD: `5/day`, `20/month` (UTC), or `100` in all.")
]
PolicyOption = Annotated[
    str | None, typer.Option(metavar="POLICY", help="`strict`: refuse what a model lacks; `labelled`: drop and label.")
]

ReferencesOption = Annotated[
    bool | None,
    typer.Option(
        "--account-references/--no-account-references",
        help="Allow requests to name files and the like in the provider's account, or not.",
    ),
]


@keys_app.callback()
def _keys() -> None:
    """Manage keys with models, rates and budgets; show usage.

    A key without rules may do everything. Once a key was added, the service requires keys, also after the last one was
    revoked, until `keys open`.

    Example:
      accord keys add ada --models gpt-* --budget 5/day
    """


@keys_app.command("add")
def add_command(  # noqa: PLR0913 - one flag each
    user: Annotated[str, typer.Argument(help="User that the key authenticates.")],
    *,
    models: ModelsOption = None,
    rate: RateOption = None,
    budget: BudgetOption = None,
    policy: PolicyOption = None,
    admin: Annotated[bool, typer.Option("--admin", help="Allow the admin API.")] = False,
    references: ReferencesOption = None,
    label: Annotated[str, typer.Option(help="Note for `keys list`, such as what the key is for.")] = "",
    days: Annotated[
        int | None, typer.Option(min=1, max=36_500, help="Days until it expires; by default it does not.")
    ] = None,
    config: ConfigOption = None,
    trust: TrustOption = False,
    store: StoreOption = None,
) -> None:
    """Make a key and print it; it is not shown again.

    Example:
      accord keys add ada --models gpt-*,auto --rate 10/second --budget 20/month
    """
    change = _read_rules(models, rate, budget, policy, "keys add")
    rules = change_rules(None, {**change, "is_admin": admin or None, "account_references": references})
    loaded = load(config, trusted=trust, store=store)
    request = parse_message({"user": user, "label": label, "days": days, "rules": rules}, KeyRequest, "keys add")
    if loaded.config.store.kind is StoreKind.MEMORY:
        raise UsageError(IN_MEMORY)
    secret, key = make_key(request, datetime.now(UTC))
    run_with_store(loaded, lambda store: store.put_token(key), create=True)
    print(secret)
    validity = f"valid until {format_time(key.expires_at)}" if key.expires_at else "valid until it is revoked"
    print(
        f"This is key {key.token_id} of {user}, {validity}. Save it now: it is not shown again.\n"
        "Send it as `Authorization: Bearer <key>` or `x-api-key: <key>`; "
        f"`accord keys revoke {key.token_id}` revokes it.",
        file=sys.stderr,
    )


@keys_app.command("list")
def list_command(
    *, config: ConfigOption = None, trust: TrustOption = False, store: StoreOption = None, as_json: JsonOption = False
) -> None:
    """List the keys, oldest first, with their rules and what they spent.

    Example:
      accord keys list
    """
    found, now = _read_keys(load(config, trusted=trust, store=store)), datetime.now(UTC)
    if as_json:
        print(json.dumps([key.dump() for key in found], indent=2, ensure_ascii=False))
        return
    if found:
        rows = [
            (
                key.key_id,
                styled_line(key.user),
                styled_line(key.label),
                styled_line(", ".join(describe_rules(key.rules)) or "everything"),
                _format_spent(key),
                format_expiry(key.expires_at, now),
            )
            for key in found
        ]
        Console().print_table(("id", "user", "label", "may use", "spent", "expires"), rows)
    print(format_count(len(found), "key") if found else "No keys yet; `accord keys add USER` makes one")


@keys_app.command("show")
def show_command(
    key_id: KeyArgument,
    *,
    config: ConfigOption = None,
    trust: TrustOption = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show one key, its rules, and its usage by model.

    Example:
      accord keys show 3f9a1c0b77de
    """
    loaded = load(config, trusted=trust, store=store)
    key = next((each for each in _read_keys(loaded) if each.key_id == key_id), None)
    if key is None:
        raise _unknown(key_id)
    usage = run_with_store(loaded, lambda store: store.usage(by=UsageGroup.MODEL, key=key_id))
    if as_json:
        found = {**key.dump(), "usage": [total.dump() for total in usage]}
        print(json.dumps(found, indent=2, ensure_ascii=False))
        return
    rows: list[tuple[str, Cell]] = [
        ("id", key.key_id),
        ("user", styled_line(key.user)),
        ("label", styled_line(key.label)),
        ("may use", styled_line(", ".join(describe_rules(key.rules)) or "everything")),
        ("spent", _format_spent(key)),
        ("budget starts again", "" if key.renews_at is None else f"{format_time(key.renews_at)} UTC"),
        ("created", format_time(key.created_at)),
        ("expires", format_expiry(key.expires_at, datetime.now(UTC))),
    ]
    Console().print_table(("", "key"), [row for row in rows if row[1]])
    _print_usage(usage, UsageGroup.MODEL)


@keys_app.command("set")
def set_command(  # noqa: PLR0913 - one flag each
    key_id: KeyArgument,
    *,
    models: ModelsOption = None,
    rate: RateOption = None,
    budget: BudgetOption = None,
    policy: PolicyOption = None,
    admin: Annotated[bool | None, typer.Option("--admin/--no-admin", help="Allow the admin API, or not.")] = None,
    references: ReferencesOption = None,
    config: ConfigOption = None,
    trust: TrustOption = False,
    store: StoreOption = None,
) -> None:
    """Change the rules of a key.

    Rules that are not named stay as they are; `none` removes a rule. A running service notices within seconds.

    Example:
      accord keys set 3f9a1c0b77de --budget 50/month --models none
    """
    change = _read_rules(models, rate, budget, policy, "keys set")
    if admin is not None:
        change["is_admin"] = admin
    if references is not None:
        change["account_references"] = references
    if not change:
        raise UsageError(
            "keys set: nothing to change; give --models, --rate, --budget, --policy, --admin or --account-references"
        )
    loaded = load(config, trusted=trust, store=store)

    async def replace(opened: Store) -> KeyRules | None:
        key = await find_key(opened, key_id)
        rules = None if key is None else change_rules(key.rules, change)
        if key is None or not await opened.set_token_rules(key_id, rules):
            raise _unknown(key_id)
        return rules

    if is_store_missing(loaded):
        raise _unknown(key_id)
    rules = run_with_store(loaded, replace)
    Console().print(styled_line(f"{key_id} may use {', '.join(describe_rules(rules)) or 'everything'}"))


@keys_app.command("revoke")
def revoke_command(
    key_id: KeyArgument, *, config: ConfigOption = None, trust: TrustOption = False, store: StoreOption = None
) -> None:
    """Revoke a key; its usage stays.

    A running service notices within seconds.
    Without any key left, the service refuses every request until one is added, or until `accord keys open`.

    Example:
      accord keys revoke 3f9a1c0b77de
    """
    loaded = load(config, trusted=trust, store=store)
    if is_store_missing(loaded) or not run_with_store(loaded, lambda store: store.revoke_token(key_id)):
        raise _unknown(key_id)
    print(f"Revoked {key_id}")
    if not run_with_store(loaded, lambda store: store.tokens()):
        print(NONE_LEFT, file=sys.stderr)


@keys_app.command("open")
def open_command(*, config: ConfigOption = None, trust: TrustOption = False, store: StoreOption = None) -> None:
    """Allow access without keys, after the last one was revoked.

    Once a key was added, the service requires keys; only this command changes that, at the next `accord serve`.

    Example:
      accord keys open
    """
    loaded = load(config, trusted=trust, store=store)
    try:
        if not is_store_missing(loaded):  # without a store there are no keys
            run_with_store(loaded, lambda store: store.allow_open())
    except StoreConflictError:
        print("accord: there are keys; revoke all of them first (`accord keys list`)", file=sys.stderr)
        raise typer.Exit(1) from None
    print("No key is required from the next `accord serve` on")


@keys_app.command("usage")
def usage_command(  # noqa: PLR0913 - one flag each
    *,
    key: Annotated[str | None, typer.Option(metavar="ID", help="Only this key.")] = None,
    by: Annotated[UsageGroup, typer.Option(help="What to add up by.")] = UsageGroup.KEY,
    since: Annotated[str | None, typer.Option(metavar="DAY", help="First day (UTC), such as 2026-11-01.")] = None,
    until: Annotated[str | None, typer.Option(metavar="DAY", help="Last day (UTC).")] = None,
    config: ConfigOption = None,
    trust: TrustOption = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
) -> None:
    """Show requests, tokens and costs.

    Costs are those of requests whose price is known; `priced` says how many these are. `estimated` says for how many
    a part of the usage is estimated from what arrived. A running service writes its usage every second.

    Example:
      accord keys usage --by model --since 2026-11-01
    """
    first, last = _read_day(since, "--since"), _read_day(until, "--until")
    loaded = load(config, trusted=trust, store=store)
    found: list[UsageTotal] = []
    if not is_store_missing(loaded):
        found = run_with_store(loaded, lambda store: store.usage(by=by, key=key, since=first, until=last))
    if as_json:
        print(json.dumps([total.dump() for total in found], indent=2, ensure_ascii=False))
    elif as_csv:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow((by.value, *COLUMNS))
        writer.writerows(map(csv_cell, (total.name, *(getattr(total, name) for name in COLUMNS))) for total in found)
    else:
        _print_usage(found, by)


def csv_cell(value: str | float) -> str:
    """Return a cell that a spreadsheet does not take for a formula: models and users are named by others."""
    text = str(value)
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r", "\n")) else text


def describe_rules(rules: KeyRules | None) -> list[str]:
    """Describe each rule in a few words; none if there are no rules."""
    if rules is None:
        return []
    words = [f"models {' '.join(rules.models) or '(none)'}"] if rules.models is not None else []
    words += rules.rates or []
    if rules.budget_usd is not None:
        words.append(f"{rules.budget_usd:g} USD{_per(rules.budget_period)}")
    words += [rules.policy] if rules.policy else []
    words += [] if rules.account_references is None else [REFERENCES[rules.account_references]]
    return [*words, "admin API"] if rules.is_admin else words


def _per(period: BudgetPeriod) -> str:
    return " in all" if period is BudgetPeriod.TOTAL else f" per {period}"


def _format_spent(key: KeyInfo) -> Cell:
    spent = f"{key.spent_usd:.4f} USD"
    if key.rules is None or key.rules.budget_usd is None:
        return styled(spent)
    is_used_up = key.spent_usd >= key.rules.budget_usd
    return styled(f"{spent} of {key.rules.budget_usd:g}", "red" if is_used_up else "")


def _print_usage(usage: Sequence[UsageTotal], by: UsageGroup) -> None:
    if not usage:
        print("No usage yet")
        return
    rows = [
        (
            styled_line(total.name or "(none)"),
            f"{total.requests:,}",
            f"{total.failed:,}",
            f"{total.input_tokens:,}",
            f"{total.cached_input_tokens:,}",
            f"{total.output_tokens:,}",
            f"{total.cost_usd:.4f}",
            f"{total.priced_requests:,}",
            f"{total.estimated_requests:,}",
        )
        for total in usage
    ]
    columns = (by.value, "requests", "failed", "input", "cached", "output", "USD", "priced", "estimated")
    Console().print_table(columns, rows)


def _read_rules(
    models: str | None, rate: str | None, budget: str | None, policy: str | None, place: str
) -> dict[str, Any]:
    """The members of the rules that options name; None for a rule that is to be removed."""
    change: dict[str, Any] = {}
    for name, text in (("models", models), ("rates", rate)):
        if text is not None:
            listed = [part.strip() for part in text.split(",") if part.strip()]
            change[name] = None if text == NO_RULE else listed
    if budget is not None:
        change |= _read_budget(budget)
    if policy is not None:
        change["policy"] = None if policy == NO_RULE else policy
    parse_message({name: value for name, value in change.items() if value is not None}, KeyRules, place)
    return change


def _read_budget(text: str) -> dict[str, Any]:
    if text == NO_RULE:
        return {"budget_usd": None, "budget_period": None}
    amount, _, period = text.partition("/")
    try:
        found = float(amount)
        return {"budget_usd": found, "budget_period": BudgetPeriod(period or BudgetPeriod.TOTAL)}
    except ValueError:
        raise UsageError(f"--budget {text}: expected an amount in USD and a period: 5/day, 20/month or 100") from None


def _read_day(text: str | None, option: str) -> date | None:
    try:
        return None if text is None else date.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{option} {text}: expected a day such as 2026-11-01") from None


def _read_keys(loaded: LoadedConfig) -> list[KeyInfo]:
    async def read(store: Store) -> list[KeyInfo]:
        now = datetime.now(UTC)
        return [await describe_key(key, store, now) for key in await store.tokens()]

    return [] if is_store_missing(loaded) else run_with_store(loaded, read)


def _unknown(key_id: str) -> typer.Exit:
    print(f"accord: there is no key {key_id}; `accord keys list` lists them", file=sys.stderr)
    return typer.Exit(1)


def format_expiry(expires_at: datetime | None, now: datetime) -> Cell:
    """Format when a key expires."""
    if expires_at is None:
        return styled("never")
    day = format_time(expires_at)
    return styled(f"expired {day}", "red") if now >= expires_at else styled(day)


def format_time(moment: datetime) -> str:
    """Format a moment to the minute."""
    return f"{moment:%Y-%m-%d %H:%M}"
