"""Settings of a session: its modes and its config options."""

from typing import Any, Final

from accord.acp.methods import Method
from accord.acp_tools.inspect.checks.table import MUST, SHOULD, CheckTable, Needs
from accord.acp_tools.inspect.probe import AgentProbe, CannotJudgeError
from accord.acp_tools.inspect.replies import Answered, CheckOutcome, Reply, failed, not_applicable, passed
from accord.acp_tools.inspect.session_results import (
    ConfigOption,
    OfferedModes,
    choose_option,
    config_fault,
    judge_declared,
    judge_unknown,
    read_config_options,
    read_modes,
)
from accord.wire.inspection import CheckGroup, Result

MODES: Final = "ACP: Session Modes"
OPTIONS: Final = "ACP: Session Config Options"
COMPLETE: Final = f"{OPTIONS} – the response has the complete list"
UNKNOWN: Final = "accord-no-such-value"

SETTINGS: Final = CheckTable(CheckGroup.SESSION)


async def _open(probe: AgentProbe) -> tuple[str, OfferedModes | None, list[ConfigOption]]:
    """Open a session; its id, modes and config options."""
    created = await probe.create_session()
    return created["sessionId"], read_modes(created), read_config_options(created)


async def _open_with_modes(probe: AgentProbe) -> tuple[str, OfferedModes]:
    first = probe.inspection.first_session
    if isinstance(first, Answered) and read_modes(first.result):
        session, modes, _ = await _open(probe)
        if modes:
            return session, modes
    raise CannotJudgeError(not_applicable("The agent offers no modes"))


async def _open_with_options(probe: AgentProbe) -> tuple[str, list[ConfigOption]]:
    first = probe.inspection.first_session
    if isinstance(first, Answered) and read_config_options(first.result):
        session, _, options = await _open(probe)
        if options:
            return session, options
    raise CannotJudgeError(not_applicable("The agent offers no config options"))


async def _set_mode(probe: AgentProbe, session: str, mode: Any) -> Reply:
    return await (await probe.agent()).call(Method.SESSION_SET_MODE, {"sessionId": session, "modeId": mode})


async def _set_option(probe: AgentProbe, session: str, option: Any, value: Any) -> Reply:
    params = {"sessionId": session, "configId": option, "value": value, **({"type": "id"} if probe.is_draft else {})}
    return await (await probe.agent()).call(Method.SESSION_SET_CONFIG_OPTION, params)


@SETTINGS.check("modes", "the current mode is one of the available modes", MODES, MUST, Needs.SESSION)
async def _modes(probe: AgentProbe) -> CheckOutcome:
    _, modes = await _open_with_modes(probe)
    return failed(fault) if (fault := modes.fault()) else passed("The current mode is one of the available modes")


@SETTINGS.check("set-mode", "session/set_mode sets an available mode", MODES, MUST, Needs.SESSION)
async def _sets_mode(probe: AgentProbe) -> CheckOutcome:
    session, modes = await _open_with_modes(probe)
    others = [mode for mode in modes.ids if mode != modes.current]
    outcome: CheckOutcome | None = not_applicable("The agent offers only one mode")
    for mode in others:
        outcome = judge_declared(await _set_mode(probe, session, mode), Method.SESSION_SET_MODE)
        if outcome is None:
            break  # others may be refused, for example one without permissions in a folder that is not trusted
    if outcome is None and modes.current in modes.ids:
        outcome = judge_declared(await _set_mode(probe, session, modes.current), Method.SESSION_SET_MODE)
    return outcome or passed("Another mode was set, and then the first one again")


@SETTINGS.check("unknown-mode", "an unknown mode gets an error", MODES, SHOULD, Needs.SESSION, quick=False)
async def _unknown_mode(probe: AgentProbe) -> CheckOutcome:
    session, _ = await _open_with_modes(probe)
    return judge_unknown(await _set_mode(probe, session, UNKNOWN), Method.SESSION_SET_MODE, "An unknown mode")


@SETTINGS.check("config-options", "the value of each config option is one of its values", OPTIONS, MUST, Needs.SESSION)
async def _config_options(probe: AgentProbe) -> CheckOutcome:
    _, options = await _open_with_options(probe)
    fault = config_fault(options, is_draft=probe.is_draft)
    return failed(fault) if fault else passed("The value of each config option is one of its values")


@SETTINGS.check("set-config-option", "session/set_config_option sets an option", COMPLETE, MUST, Needs.SESSION)
async def _sets_option(probe: AgentProbe) -> CheckOutcome:
    session, options = await _open_with_options(probe)
    chosen = choose_option(options)
    if chosen is None:
        return not_applicable("No config option has two values")
    option, other = chosen
    returned: dict[Any, Any] = {}
    for value in (other, option.current):
        reply = await _set_option(probe, session, option.id, value)
        if outcome := judge_declared(reply, Method.SESSION_SET_CONFIG_OPTION):
            return outcome
        result = reply.result if isinstance(reply, Answered) else None
        returned = {each.id: each.current for each in read_config_options(result)}
        if option.id in returned and returned[option.id] != value:
            return failed(f"{option.id} was set to {value!r}, but the result has {returned[option.id]!r}", reply)
    # Which options there are may depend on a value, so the list is compared when the first value is set again.
    if missing := [each.id for each in options if each.id not in returned]:
        return failed(f"The result of session/set_config_option lacks the option {missing[0]!r}")
    return passed("An option was set to another value and back, and every option was returned")


@SETTINGS.check(
    "unknown-config-option",
    "an unknown config option, or an unknown value, gets an error",
    OPTIONS,
    SHOULD,
    Needs.SESSION,
    draft_level=MUST,
    quick=False,
)
async def _unknown_option(probe: AgentProbe) -> CheckOutcome:
    session, options = await _open_with_options(probe)
    option = options[0]
    for what, option_id, value in (
        ("An unknown config option", UNKNOWN, option.current),
        (f"An unknown value of the config option {option.id!r}", option.id, UNKNOWN),
    ):
        reply = await _set_option(probe, session, option_id, value)
        outcome = judge_unknown(reply, Method.SESSION_SET_CONFIG_OPTION, what)
        if outcome.result is not Result.PASS:
            return outcome
    return passed("An unknown config option and an unknown value each got an error")
