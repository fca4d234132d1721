"""Files that go along with what somebody has typed."""

from __future__ import annotations

from functools import partial

import trio

from aar.attachments import attach, attached_kinds, attachment_errors, audio_warning
from aar.client import PromptContent
from aar.errors import InvalidMessage
from aar.messages.settings import AgentConfig
from aar.runtime import reading_rule

__all__ = ["attached", "with_files"]

NOT_SENT = "Nothing was sent: name another file, or put a word with @ that names none in quotes."


async def with_files(text: str, config: AgentConfig, cwd: str, *, is_typed: bool = True) -> PromptContent:
    """The text with the files that its `@` words name.

    Raises `InvalidMessage` when one of them cannot go along and a person typed its name: an answer to the question
    without the file is not what was wanted.
    """
    if "@" not in text:
        return text
    rule = reading_rule(config, cwd, is_typed=is_typed)
    attach_files = partial(attach, text, cwd, rule, is_typed=is_typed)
    prompt = await trio.to_thread.run_sync(attach_files, abandon_on_cancel=True)
    if is_typed and (errors := attachment_errors(prompt)):
        raise InvalidMessage(f"{errors}. {NOT_SENT}")
    return prompt


def attached(prompt: PromptContent, config: AgentConfig) -> list[str]:
    """Lines about the images and sounds that go along, and the files that do not."""
    if isinstance(prompt, str) and not prompt.endswith("]"):  # as the note about files that do not go along does
        return []
    errors, kinds = attachment_errors(prompt), attached_kinds(prompt)
    lines = [f"  Not attached: {errors}"] if errors else []
    lines += [f"  Attached: {kind}" for kind in kinds]
    provider = config.resolve_provider()
    if "audio" in kinds and not provider.extra.get("supports_audio"):
        lines.append(audio_warning(provider.name))
    return lines
