"""Three questions that lead to a working account: where the API is, which number, and how it gets in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from tools.failing import ServiceError
from tools.rest import Rest
from tools.signal.settings import E164, Settings, save_settings

__all__ = ["Conversation", "onboard"]

ATTEMPTS = 3


@dataclass(frozen=True)
class Conversation:
    """`ask` puts a question and gives the line that was typed; `say` prints a line."""

    ask: Callable[[str], str]
    say: Callable[[str], None]


async def onboard(settings: Settings, path: Path, talk: Conversation) -> bool:
    """Lead through the steps and keep the result at `path`; False when it was given up."""
    url = await _find_api(settings, talk)
    if url is None:
        return False
    number = _ask_number(settings, talk)
    if number is None:
        return False
    settings = settings.model_copy(update={"api_base_url": url, "account_number": number})
    if not await _get_in(settings, talk):
        return False
    save_settings(settings, path)
    talk.say(f"Saved to {path}")
    return True


async def _find_api(settings: Settings, talk: Conversation) -> str | None:
    talk.say("Step 1 of 3: the signal-cli REST API")
    for _ in range(ATTEMPTS):
        url = talk.ask(f"Address [{settings.api_base_url}]: ").strip() or settings.api_base_url
        try:
            await Rest("Signal", url, settings.api_timeout).call("GET", "/v1/about")
        except ServiceError as error:
            talk.say(str(error))
        else:
            return url
    return None


def _ask_number(settings: Settings, talk: Conversation) -> str | None:
    talk.say("Step 2 of 3: your number")
    shown = f" [{settings.account_number}]" if settings.account_number else ""
    for _ in range(ATTEMPTS):
        number = talk.ask(f"Number with country code, as in +491234567{shown}: ").strip() or settings.account_number
        if E164.fullmatch(number):
            return number
        talk.say(f"{number or 'Nothing'} is no number in that form")
    return None


async def _get_in(settings: Settings, talk: Conversation) -> bool:
    talk.say("Step 3 of 3: the account")
    for _ in range(ATTEMPTS):
        match talk.ask("[r]egister this number, [l]ink to a phone, or [s]kip if it is done already: ").strip().lower():
            case "r" | "register":
                return await _register(settings, talk)
            case "l" | "link":
                return _link(settings, talk)
            case "s" | "skip":
                return True
    return False


async def _register(settings: Settings, talk: Conversation) -> bool:
    api = Rest("Signal", settings.api_base_url, settings.api_timeout)
    path = f"/v1/register/{quote(settings.account_number, safe='')}"
    talk.say("Signal wants a captcha: solve https://signalcaptchas.org/registration/generate.html and copy the link")
    captcha = talk.ask("Captcha (empty if none is needed): ").strip().removeprefix("signalcaptcha://")
    try:
        await api.call("POST", path, json={"captcha": captcha} if captcha else {})
    except ServiceError as error:
        talk.say(str(error))
        return False
    for _ in range(ATTEMPTS):
        code = talk.ask("Code from the message: ").strip()
        try:
            await api.call("POST", f"{path}/verify/{quote(code, safe='')}", json={})
        except ServiceError as error:
            talk.say(str(error))
        else:
            talk.say("Registered")
            return True
    return False


def _link(settings: Settings, talk: Conversation) -> bool:
    talk.say(f"Open {settings.api_base_url.rstrip('/')}/v1/qrcodelink?device_name=aar in a browser")
    talk.say("and scan it in Signal on your phone: Settings, Linked devices")
    return talk.ask("Press Enter when it is linked, or type q to give up: ").strip().lower() != "q"
