"""Templates in texts and paths of agents: Jinja2 in a sandbox, where a name that nobody has set is an error."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from aar.config.agents.documents import MISSING
from aar.errors import ConfigError

__all__ = ["LARGEST_TEXT", "render"]

LARGEST_TEXT = 512 * 1024  # characters


def render(text: str, variables: Mapping[str, Any], source: str, line: int = 1) -> str:
    """`text` with its `{{ names }}` replaced. Blocking; texts without a brace cost nothing.

    Raises `ConfigError` with file and line. Only for files that the user trusts: it can be slow.
    """
    if "{{" not in text and "{%" not in text and "{#" not in text:
        return text
    try:
        import jinja2
        from jinja2.sandbox import ImmutableSandboxedEnvironment
    except ImportError as error:
        raise ConfigError(MISSING) from error
    environment = ImmutableSandboxedEnvironment(undefined=jinja2.StrictUndefined, keep_trailing_newline=True)
    try:
        done = environment.from_string(text).render(dict(variables))
    except jinja2.TemplateSyntaxError as error:
        raise ConfigError(f"{source}:{line + error.lineno - 1}: {error.message}.") from error
    except jinja2.UndefinedError as error:
        told = f"{source}:{_line_of(error, line)}: "
        unset = re.fullmatch(r"'dict object' has no attribute '(.+)'", error.message or "")
        if unset is not None and f"vars.{unset[1]}" in text:
            raise ConfigError(f"{told}vars.{unset[1]} is not set: add --set {unset[1]}=TEXT.") from error
        raise ConfigError(f"{told}{error.message}. There are: {', '.join(sorted(variables))}.") from error
    except Exception as error:  # a wall: templates run code of their writers
        raise ConfigError(f"{source}:{_line_of(error, line)}: the template fails: {error!r}.") from error
    if len(done) > LARGEST_TEXT:
        raise ConfigError(f"{source}:{line}: the template makes more than {LARGEST_TEXT // 1024} KB of text.")
    return done


def _line_of(error: Exception, first: int) -> int:
    """The line of the file, from the innermost frame that is of the template."""
    found = 1
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "<template>":
            found = trace.tb_lineno
        trace = trace.tb_next
    return first + found - 1
