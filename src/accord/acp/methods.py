"""The methods of the Agent Client Protocol.

Written by scripts/acp_types.py from the JSON Schema of the protocol, with its descriptions; do not edit. The schema is
Copyright 2025 Zed Industries, Inc. and contributors, under the Apache License 2.0: see scripts/acp_schema/README.md.
"""

from enum import StrEnum


class Method(StrEnum):
    """Every method of both versions of the protocol."""

    CANCEL_REQUEST = "$/cancel_request"
    AUTH_LOGIN = "auth/login"
    AUTH_LOGOUT = "auth/logout"
    AUTHENTICATE = "authenticate"
    ELICITATION_COMPLETE = "elicitation/complete"
    ELICITATION_CREATE = "elicitation/create"
    FS_READ_TEXT_FILE = "fs/read_text_file"
    FS_WRITE_TEXT_FILE = "fs/write_text_file"
    INITIALIZE = "initialize"
    LOGOUT = "logout"
    SESSION_CANCEL = "session/cancel"
    SESSION_CLOSE = "session/close"
    SESSION_DELETE = "session/delete"
    SESSION_LIST = "session/list"
    SESSION_LOAD = "session/load"
    SESSION_NEW = "session/new"
    SESSION_PROMPT = "session/prompt"
    SESSION_REQUEST_PERMISSION = "session/request_permission"
    SESSION_RESUME = "session/resume"
    SESSION_SET_CONFIG_OPTION = "session/set_config_option"
    SESSION_SET_MODE = "session/set_mode"
    SESSION_UPDATE = "session/update"
    TERMINAL_CANCEL = "terminal/cancel"
    TERMINAL_CREATE = "terminal/create"
    TERMINAL_KILL = "terminal/kill"
    TERMINAL_OUTPUT = "terminal/output"
    TERMINAL_RELEASE = "terminal/release"
    TERMINAL_WAIT_FOR_EXIT = "terminal/wait_for_exit"
    TOOL_CALL_CANCEL = "tool_call/cancel"
