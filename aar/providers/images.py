"""Images that a provider would refuse are made smaller, or left out with a word to the user.

One image that a provider cannot take would otherwise end every later request of its session, too.
"""

from __future__ import annotations

import base64
import binascii
import warnings
from collections.abc import Iterator, Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Any, NamedTuple

import trio

from aar.messages.provider import History, ImageLimits, NeutralMessage

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["LostImages", "fit_images"]

QUALITIES = (85, 60, 40)  # of JPEG, tried in this order when an image has too many bytes
LEAST_SIDE = 16  # pixels
SMALLER = 0.75  # each further try has so much of the side before

# How the base64 of these formats begins.
_BEGINNINGS = {"image/png": "iVBORw0KGg", "image/jpeg": "/9j/", "image/gif": "R0lGO", "image/webp": "UklGR"}

Block = dict[str, Any]


class LostImages(NamedTuple):
    """How many images of a request were made smaller, and the reasons why others are not part of it."""

    shrunk: int = 0
    reasons: tuple[str, ...] = ()


async def fit_images(
    history: History, limits: ImageLimits, threads: trio.CapacityLimiter
) -> tuple[History, LostImages]:
    """The history with images as the provider takes them. Costs nothing for a conversation without images.

    When there are too many, the oldest are left out, some more than need be: a history that changed at every new
    image would never be found in a provider's cache.
    """
    found = history.messages_with_images()
    if not found or limits == ImageLimits():
        return history, LostImages()
    side = limits.side
    if limits.many is not None and sum(map(_image_count, found.values())) > limits.many:
        side = limits.side_of_many
    fitted: dict[int, _Fitted] = {}
    for index, message in found.items():
        key = ("images", index, side, limits.bytes_each, limits.formats)
        fits: _Fitted | None = None if history.is_passing(index) else history.kept.get(key)
        if fits is None:
            fits = await trio.to_thread.run_sync(
                _fit_message, message, limits, side, abandon_on_cancel=True, limiter=threads
            )
            _keep(history, index, key, fits)
        fitted[index] = fits
    return _without_oldest(history, found, fitted, limits)


class _Fitted(NamedTuple):
    """A message whose images each fit. `sizes` are those of its images, in order."""

    message: NeutralMessage
    sizes: tuple[int, ...]
    shrunk: int
    reasons: tuple[str, ...]


def _keep(history: History, index: int, key: tuple[Any, ...], fitted: _Fitted) -> None:
    """Under other limits, those of another provider or of fewer images, this message was another one."""
    if history.is_passing(index):
        return
    for former in [one for one in history.kept if one[:2] == ("images", index)]:
        old = history.kept.pop(former)
        history.forget(old)
        history.forget(old.message)
    history.kept[key] = fitted


def _without_oldest(
    history: History, found: dict[int, NeutralMessage], fitted: dict[int, _Fitted], limits: ImageLimits
) -> tuple[History, LostImages]:
    sizes = [size for one in fitted.values() for size in one.sizes]
    too_many = _excess_count(sizes, limits)
    dropped = too_many
    reasons: list[str] = []
    instead: dict[int, NeutralMessage] = {}
    for index, one in fitted.items():
        gone = min(too_many, len(one.sizes))
        too_many -= gone
        if (message := _dropping(history, index, one, gone)) is not found[index]:
            instead[index] = message
        reasons += one.reasons
    if dropped:
        reasons.append(_why_fewer(dropped, limits))
    return history.replacing(instead), LostImages(sum(one.shrunk for one in fitted.values()), tuple(reasons))


def _excess_count(sizes: Sequence[int], limits: ImageLimits) -> int:
    """How many of the oldest images must go: whole quarters of what the provider takes."""
    gone = 0
    if limits.at_most is not None and len(sizes) > limits.at_most:
        gone = min(len(sizes), _in_steps(len(sizes) - limits.at_most, max(1, limits.at_most // 4)))
    if limits.bytes_total is not None and sum(sizes) > limits.bytes_total:
        excess, freed, count = _in_steps(sum(sizes) - limits.bytes_total, max(1, limits.bytes_total // 4)), 0, 0
        while freed < excess and count < len(sizes):
            freed += sizes[count]
            count += 1
        gone = max(gone, count)
    return gone


def _in_steps(amount: int, step: int) -> int:
    return -(-amount // step) * step


def _why_fewer(dropped: int, limits: ImageLimits) -> str:
    if limits.at_most == 0:
        return "the model takes no images"
    what = "the oldest image is" if dropped == 1 else f"the {dropped} oldest images are"
    return f"{what} not sent any more: the provider takes only so many in one request"


def _dropping(history: History, index: int, one: _Fitted, gone: int) -> NeutralMessage:
    """The message without its first images; of one that stays, the same object each time."""
    if not gone:
        return one.message
    if history.is_passing(index):
        return _without_first(one.message, gone)
    key = ("dropped", id(one), gone)
    if key not in history.kept:
        history.kept[key] = (one, _without_first(one.message, gone))
    message: NeutralMessage = history.kept[key][1]
    return message


def _without_first(message: NeutralMessage, count: int) -> NeutralMessage:
    content: list[Block] = []
    for block in _blocks(message):
        if block.get("type") == "image_url" and count:
            count -= 1
            block = _left_out("not sent any more")
        content.append(block)
    return {"role": message["role"], "content": content}


def _left_out(why: str) -> Block:
    return {"type": "text", "text": f"[image left out: {why}]"}


def _blocks(message: NeutralMessage) -> list[Block]:
    content = message["content"]
    return [] if isinstance(content, str) else content


def _image_count(message: NeutralMessage) -> int:
    return sum(block.get("type") == "image_url" for block in _blocks(message))


# --- one message, in a thread -----------------------------------------------------------------


class _Unfit(Exception):
    """Why an image cannot be sent."""


def _fit_message(message: NeutralMessage, limits: ImageLimits, side: int | None) -> _Fitted:
    content: list[Block] = []
    sizes: list[int] = []
    reasons: list[str] = []
    shrunk = 0
    for block in _blocks(message):
        if block.get("type") == "image_url":
            try:
                fitted = _fit_block(block, limits, side)
            except _Unfit as unfit:
                reasons.append(f"an image is left out: {unfit}")
                content.append(_left_out(str(unfit)))
                continue
            shrunk += fitted is not block
            url = fitted["image_url"]["url"]
            sizes.append(len(url) if url.startswith("data:") else 0)
            block = fitted
        content.append(block)
    if not shrunk and not reasons:
        return _Fitted(message, tuple(sizes), 0, ())
    return _Fitted({"role": message["role"], "content": content}, tuple(sizes), shrunk, tuple(reasons))


def _fit_block(block: Block, limits: ImageLimits, side: int | None) -> Block:
    """The block itself when it fits. Raises `_Unfit`."""
    url = block["image_url"]["url"]
    if not url.startswith("data:") or limits.at_most == 0:
        return block
    head, _, payload = url.partition(",")
    kind = head[5:].split(";")[0].lower()
    is_big = limits.bytes_each is not None and len(payload) > limits.bytes_each
    if side is None and not is_big and (begun := _begun_kind(kind, payload)) in limits.formats:
        return _named(block, kind, begun, payload)
    image = _opened(payload)
    actual = _kind_of(image)
    if not is_big and actual in limits.formats and (side is None or max(image.size) <= side):
        return _named(block, kind, actual, payload)
    return _with_url(block, _made_smaller(image, limits, side))


def _begun_kind(kind: str, payload: str) -> str:
    """The format by the first bytes; the one it is said to be where those tell nothing; empty for what is none."""
    found = next((known for known, start in _BEGINNINGS.items() if payload.startswith(start)), "")
    return found or ("" if kind in _BEGINNINGS else kind)


def _named(block: Block, kind: str, actual: str, payload: str) -> Block:
    """The block under the name of its format: some providers refuse one that is named wrongly."""
    return block if actual == kind else _with_url(block, f"data:{actual};base64,{payload}")


def _with_url(block: Block, url: str) -> Block:
    return {**block, "image_url": {**block["image_url"], "url": url}}


def _opened(payload: str) -> Image:
    try:
        from PIL import Image
    except ImportError:
        raise _Unfit("it cannot be checked or made smaller without Pillow (pip install pillow)") from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            return Image.open(BytesIO(base64.b64decode(payload, validate=False)))
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise _Unfit("it has too many pixels") from None
    except (OSError, ValueError, SyntaxError, binascii.Error):
        raise _Unfit("it is no picture that can be read") from None


def _kind_of(image: Image) -> str:
    return (image.get_format_mimetype() if hasattr(image, "get_format_mimetype") else None) or ""


def _made_smaller(image: Image, limits: ImageLimits, side: int | None) -> str:
    """The picture within the limits as a data URI: as PNG if that is small enough, else as JPEG."""
    longest = min(max(image.size), side or max(image.size))
    try:
        image.load()
        while True:
            for kind, data in _encodings(image, longest):
                text = base64.b64encode(data).decode()
                if limits.bytes_each is None or len(text) <= limits.bytes_each:
                    return f"data:{kind};base64,{text}"
            longest = int(longest * SMALLER)
            if longest < LEAST_SIDE:
                raise _Unfit("it is too big")
    except (OSError, ValueError, SyntaxError):
        raise _Unfit("it is no picture that can be read") from None


def _encodings(image: Image, longest: int) -> Iterator[tuple[str, bytes]]:
    import PIL.Image

    scale = longest / max(image.size)
    size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    resized = image.convert("RGBA").resize(size, PIL.Image.Resampling.LANCZOS)
    yield "image/png", _saved(resized, "PNG")
    plain = PIL.Image.new("RGB", size, "white")
    plain.paste(resized, mask=resized.getchannel("A"))
    for quality in QUALITIES:
        yield "image/jpeg", _saved(plain, "JPEG", quality=quality)


def _saved(image: Image, form: str, **options: Any) -> bytes:
    out = BytesIO()
    image.save(out, form, **options)
    return out.getvalue()
