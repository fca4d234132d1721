"""The parts of a multimodal user message."""

from typing import Annotated, Any, Literal

from pydantic import Field

from aar.messages.base import Message

__all__ = [
    "AudioBlock",
    "ContentBlock",
    "Document",
    "DocumentBlock",
    "ImageBlock",
    "Media",
    "ImageURL",
    "TextBlock",
    "VideoBlock",
    "text_of_parts",
]


class TextBlock(Message):
    type: Literal["text"] = "text"
    text: str


class ImageURL(Message):
    """`url` is http(s) or a `data:` URI; `detail` is OpenAI's hint: auto, low or high."""

    url: str
    detail: str | None = None


class ImageBlock(Message):
    type: Literal["image_url"] = "image_url"
    image_url: ImageURL


class Media(Message):
    """`url` is http(s) or a `data:` URI; `format` is the usual file suffix without its dot."""

    url: str
    format: str = ""


class AudioBlock(Message):
    type: Literal["audio"] = "audio"
    audio: Media


class Document(Message):
    """`url` is http(s) or a `data:` URI, of a PDF; `name` is what the model is told that it is called."""

    url: str
    name: str = ""


class DocumentBlock(Message):
    """A PDF with its pages as they look. Providers that cannot take one leave it out with a warning."""

    type: Literal["document"] = "document"
    document: Document


class VideoBlock(Message):
    """Part of the event model; no provider takes it yet."""

    type: Literal["video"] = "video"
    video: Media


ContentBlock = Annotated[
    TextBlock | ImageBlock | AudioBlock | DocumentBlock | VideoBlock,
    Field(discriminator="type"),
]


def text_of_parts(parts: list[Any]) -> str:
    """The text parts joined by one space: what is shown and logged of a multimodal message."""
    return " ".join(part.text for part in parts if isinstance(part, TextBlock))
