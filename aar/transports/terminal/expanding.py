"""What somebody has typed, with what its directives and `@file` words bring."""

from __future__ import annotations

from aar.client import PromptContent, SessionHandle
from aar.directives import check_size, expand, find_directives, takes_images
from aar.messages.content import ContentBlock, TextBlock
from aar.messages.settings import AgentConfig
from aar.runtime import reading_rule
from aar.transports.terminal.attaching import attached, with_files

__all__ = ["has_directives", "typed_prompt", "words_about"]


def has_directives(text: str) -> bool:
    """Whether a session is needed to say what this text brings. Raises `InvalidMessage` for a directive without end."""
    return "@" in text and bool(find_directives(text))


async def typed_prompt(text: str, config: AgentConfig, handle: SessionHandle) -> PromptContent:
    """The prompt that somebody has typed for this session. Nothing is said when it raises.

    Commands in it are under the session's rules and may be asked about: somebody has to attend the session, and to
    follow it. Raises `InvalidMessage` when something cannot be had, or would take too much of the model's context.
    """
    directives = find_directives(text) if "@" in text else []
    if not directives:
        return await with_files(text, config, handle.cwd)
    rule = reading_rule(config, handle.cwd)
    expanded = await expand(text, directives, cwd=handle.cwd, may_read=rule, run_shell=handle.run_shell)
    rest = await with_files(expanded.text, config, handle.cwd)
    if isinstance(rest, str) and not expanded.parts:
        return expanded.finish(rest)
    parts: list[ContentBlock] = [*expanded.parts, *([TextBlock(text=rest)] if isinstance(rest, str) else rest)]
    if isinstance(parts[-1], TextBlock):
        parts[-1] = TextBlock(text=expanded.finish(parts[-1].text))
    said = handle.snapshot().transcript.sizes().total // 4
    check_size(parts, said, config.effective_context_window)
    return parts


def words_about(prompt: PromptContent, config: AgentConfig) -> list[str]:
    """Lines about what goes along with a prompt, and what the model will not see of it."""
    lines = attached(prompt, config)
    if any(line.endswith("Attached: image") for line in lines) and not takes_images(config):
        lines.append(f"{config.resolve_provider().label} takes no images: it gets the text alone.")
    return lines
