"""Images that a provider would refuse."""

from __future__ import annotations

import base64
import json
from io import BytesIO
from typing import Any

import PIL.Image
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from aar.journal.context import trim
from aar.journal.transcript import Transcript
from aar.messages.events import AssistantMessage, UserMessage
from aar.messages.provider import History, ImageLimits
from aar.providers.images import LostImages, fit_images
from aar.providers.openai_wire import encode_message

THREADS = trio.CapacityLimiter(2)


def picture(width: int, height: int, form: str = "PNG", colour: str = "red") -> str:
    out = BytesIO()
    PIL.Image.new("RGB", (width, height), colour).save(out, form)
    return f"data:image/{form.lower()};base64,{base64.b64encode(out.getvalue()).decode()}"


def noise(side: int) -> str:
    out = BytesIO()
    PIL.Image.effect_noise((side, side), 90).save(out, "PNG")
    return f"data:image/png;base64,{base64.b64encode(out.getvalue()).decode()}"


def said(*urls: str, text: str = "look") -> UserMessage:
    return UserMessage.of(
        [*({"type": "image_url", "image_url": {"url": url}} for url in urls), {"type": "text", "text": text}]
    )


def conversation(*messages: UserMessage) -> Transcript:
    transcript = Transcript()
    for message in messages:
        transcript.apply(message)
        transcript.apply(AssistantMessage(content="I see"))
    return transcript


def urls_of(history: History) -> list[str]:
    return [
        block["image_url"]["url"]
        for message in history
        if not isinstance(message["content"], str)
        for block in message["content"]
        if block["type"] == "image_url"
    ]


def texts_of(history: History) -> list[str]:
    return [
        block["text"]
        for message in history
        if not isinstance(message["content"], str)
        for block in message["content"]
        if block["type"] == "text"
    ]


def opened(url: str) -> PIL.Image.Image:
    return PIL.Image.open(BytesIO(base64.b64decode(url.partition(",")[2])))


async def test_without_limits_and_without_images_nothing_is_looked_at() -> None:
    history = conversation(said("data:image/png;base64,nonsense")).history()
    assert await fit_images(history, ImageLimits(), THREADS) == (history, LostImages())
    plain = conversation(UserMessage(content="hello")).history()
    fitted, lost = await fit_images(plain, ImageLimits(at_most=0, side=10), THREADS)
    assert fitted is plain
    assert lost == LostImages()


async def test_an_image_that_fits_stays_the_same_object() -> None:
    transcript = conversation(said(picture(20, 10)))
    fitted, lost = await fit_images(transcript.history(), ImageLimits(side=20, bytes_each=10_000), THREADS)
    assert list(fitted) == transcript.messages()
    assert next(iter(fitted)) is transcript.messages()[0]
    assert lost == LostImages()


@pytest.mark.parametrize(("width", "height"), [(400, 100), (100, 400), (320, 320)])
async def test_an_image_with_too_many_pixels_is_made_smaller_in_its_own_proportions(width: int, height: int) -> None:
    history = conversation(said(picture(width, height))).history()
    fitted, lost = await fit_images(history, ImageLimits(side=40), THREADS)
    (url,) = urls_of(fitted)
    small = opened(url)
    assert max(small.size) == 40
    assert small.width * height == small.height * width
    assert lost == LostImages(shrunk=1)


async def test_an_image_with_too_many_bytes_becomes_a_jpeg_that_has_few_enough() -> None:
    url = noise(200)
    assert len(url) > 20_000
    fitted, lost = await fit_images(conversation(said(url)).history(), ImageLimits(bytes_each=20_000), THREADS)
    (small,) = urls_of(fitted)
    assert small.startswith("data:image/jpeg;base64,")
    assert len(small.partition(",")[2]) <= 20_000
    assert opened(small).format == "JPEG"
    assert lost.shrunk == 1


async def test_a_format_that_the_provider_does_not_read_becomes_one_that_it_does() -> None:
    fitted, lost = await fit_images(conversation(said(picture(8, 8, "BMP"))).history(), ImageLimits(side=100), THREADS)
    assert [opened(url).format for url in urls_of(fitted)] == ["PNG"]
    assert lost.shrunk == 1


async def test_an_image_that_is_named_wrongly_is_named_for_what_it_is() -> None:
    url = picture(8, 8, "JPEG").replace("image/jpeg", "image/png")
    fitted, _ = await fit_images(conversation(said(url)).history(), ImageLimits(side=100), THREADS)
    assert urls_of(fitted) == [picture(8, 8, "JPEG")]


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("data:image/png;base64,bm90IGEgcGljdHVyZQ==", "it is no picture that can be read"),
        ("data:image/png;base64,%%%", "it is no picture that can be read"),
        ("data:image/svg+xml;base64,PHN2Zy8+", "it is no picture that can be read"),
        (picture(40, 40)[:-60], "it is no picture that can be read"),
    ],
    ids=["text", "no base64", "svg", "cut"],
)
async def test_what_cannot_be_read_is_left_out_and_the_reason_stands_in_its_place(url: str, why: str) -> None:
    fitted, lost = await fit_images(conversation(said(url)).history(), ImageLimits(side=20), THREADS)
    assert urls_of(fitted) == []
    assert texts_of(fitted) == [f"[image left out: {why}]", "look"]
    assert lost == LostImages(reasons=(f"an image is left out: {why}",))


async def test_what_only_its_name_says_is_a_picture_is_left_out_also_where_sizes_do_not_matter() -> None:
    text = base64.b64encode(b"not a picture\n").decode()
    heic = f"data:image/heic;base64,{text}"  # tells nothing by its first bytes
    history = conversation(said(f"data:image/png;base64,{text}"), said(heic)).history()
    fitted, lost = await fit_images(history, ImageLimits(bytes_each=9999, formats=("image/png", "image/heic")), THREADS)
    assert urls_of(fitted) == [heic]
    assert texts_of(fitted)[0] == "[image left out: it is no picture that can be read]"
    assert lost.reasons == ("an image is left out: it is no picture that can be read",)


@pytest.mark.parametrize("form", ["PNG", "JPEG", "GIF", "WEBP"])
async def test_a_wrong_name_is_seen_in_the_first_bytes_without_opening_the_picture(form: str) -> None:
    own = picture(8, 8, form)
    wrong = own.replace(f"image/{form.lower()}", "image/png" if form != "PNG" else "image/gif")
    fitted, lost = await fit_images(conversation(said(wrong)).history(), ImageLimits(bytes_each=9999), THREADS)
    assert (urls_of(fitted), lost.reasons) == ([own], ())


async def test_a_picture_that_would_fill_the_memory_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PIL.Image, "MAX_IMAGE_PIXELS", 1000)
    fitted, lost = await fit_images(conversation(said(picture(400, 400))).history(), ImageLimits(side=20), THREADS)
    assert urls_of(fitted) == []
    assert lost.reasons == ("an image is left out: it has too many pixels",)


async def test_a_model_that_takes_no_images_gets_none_and_the_reason_is_told() -> None:
    history = conversation(said(picture(8, 8)), said("https://example.org/a.png")).history()
    fitted, lost = await fit_images(history, ImageLimits(at_most=0), THREADS)
    assert urls_of(fitted) == []
    assert lost.reasons == ("the model takes no images",)


async def test_of_too_many_images_the_oldest_go_and_a_few_more_so_that_the_next_one_changes_nothing() -> None:
    urls = [f"https://example.org/{n}.png" for n in range(11)]
    limits = ImageLimits(at_most=8)
    kept = []
    for count in range(7, 12):
        history = conversation(*(said(url) for url in urls[:count])).history()
        fitted, _ = await fit_images(history, limits, THREADS)
        kept.append([urls.index(url) for url in urls_of(fitted)])
    assert [len(one) for one in kept] == [7, 8, 7, 8, 7]
    assert kept[2][0] == kept[3][0] == 2
    assert kept[4][0] == 4


async def test_images_with_too_many_bytes_together_go_from_the_oldest_on() -> None:
    url = picture(8, 8)
    limits = ImageLimits(bytes_total=4 * len(url))
    history = conversation(*(said(url) for _ in range(5))).history()
    fitted, lost = await fit_images(history, limits, THREADS)
    assert len(urls_of(fitted)) == 4
    assert lost.reasons == ("the oldest image is not sent any more: the provider takes only so many in one request",)


async def test_when_there_are_many_each_must_be_smaller() -> None:
    limits = ImageLimits(side=100, many=2, side_of_many=40)
    few = conversation(*(said(picture(80, 80)) for _ in range(2))).history()
    many = conversation(*(said(picture(80, 80)) for _ in range(3))).history()
    assert [opened(url).width for url in urls_of((await fit_images(few, limits, THREADS))[0])] == [80, 80]
    assert [opened(url).width for url in urls_of((await fit_images(many, limits, THREADS))[0])] == [40, 40, 40]


async def test_a_message_is_worked_on_once_and_encoded_once_however_many_requests_it_is_part_of() -> None:
    transcript = conversation(said(picture(300, 300)))
    encoded: list[Any] = []

    def encode(message: Any) -> bytes:
        encoded.append(message)
        return encode_message(message)

    limits = ImageLimits(side=50)
    first, _ = await fit_images(transcript.history(), limits, THREADS)
    start = first.encoded("wire", encode)
    transcript.apply(UserMessage(content="and now?"))
    transcript.apply(AssistantMessage(content="Now nothing"))
    count = len(encoded)
    second, _ = await fit_images(transcript.history(), limits, THREADS)
    assert second.encoded("wire", encode)[: len(start)] == start
    assert len(encoded) == count + 2
    assert next(iter(first)) is next(iter(second))


async def test_no_image_is_kept_in_a_form_that_is_not_sent() -> None:
    """A session with many images would otherwise hold each of them several times."""
    urls = [noise(60) for _ in range(4)]
    big = picture(300, 300)
    transcript = conversation(said(big), *(said(url) for url in urls))
    limits = ImageLimits(side=100, many=5, side_of_many=50)
    encoded: list[bytes] = []

    def encode(message: Any) -> bytes:
        encoded.append(encode_message(message))
        return encoded[-1]

    first, _ = await fit_images(transcript.history(), limits, THREADS)
    first.encoded("wire", encode)
    assert not any(big.encode() in data for data in encoded)
    assert held(first) == {len(data) for data in encoded}

    transcript.apply(said(noise(60)))
    transcript.apply(AssistantMessage(content="too many"))
    second, _ = await fit_images(transcript.history(), limits, THREADS)
    sent = second.encoded("wire", encode)
    assert held(second) <= {len(data) for data in sent} | {
        len(encode_message(message)) for message in transcript.messages()
    }
    fits = [value for key, value in second.kept.items() if key[0] == "images"]
    assert len(fits) == 6
    assert len([key for key in second.kept if key[0] == "wire"]) == 6


async def test_what_one_provider_was_sent_is_let_go_when_others_have_taken_over() -> None:
    transcript = conversation(said(picture(300, 300)))
    for provider, side in (("a", 40), ("b", 50), ("c", 60), ("a", 40)):
        history, _ = await fit_images(transcript.history(), ImageLimits(side=side), THREADS)
        message = history.encoded(provider, encode_message)[0]
        assert opened(json.loads(message)["content"][0]["image_url"]["url"]).width == side
    assert sorted(key[0] for key in history.kept) == ["a", "images"]


async def test_what_is_said_in_one_request_only_is_fitted_and_counted_with_the_rest_and_not_kept() -> None:
    transcript = conversation(*(said(picture(40, 40)) for _ in range(2)))
    limits = ImageLimits(side=50, at_most=2)
    first, _ = await fit_images(transcript.history(), limits, THREADS)
    kept = set(first.kept)
    screen = conversation(said(picture(300, 300), text="screen")).messages()[0]
    passing, lost = await fit_images(first.followed_by(screen), limits, THREADS)
    assert [opened(url).width for url in urls_of(passing)] == [40, 50]
    assert "not sent any more" in texts_of(passing)[0]
    assert lost.reasons == ("the oldest image is not sent any more: the provider takes only so many in one request",)
    assert [json.loads(data)["content"][-1]["text"] for data in passing.encoded("wire", encode_message)[::2]] == [
        "look",
        "look",
        "screen",
    ]
    assert {key for key in passing.kept if key not in kept and key[0] not in ("wire", "dropped")} == set()

    none, lost = await fit_images(first.followed_by(screen), ImageLimits(at_most=0), THREADS)
    assert (urls_of(none), lost.reasons) == ([], ("the model takes no images",))
    assert screen["content"][0]["type"] == "image_url"


def held(history: History) -> set[int]:
    """The sizes of all messages that are kept as bytes."""
    replaced = {len(value[1]) for value in history.kept.values() if isinstance(value[1], bytes)}
    return replaced | {len(data) for kept in history._cache.values() for data in kept if data}


async def test_the_first_message_which_trimming_keeps_is_fitted_too() -> None:
    transcript = conversation(said(picture(300, 300)), *(UserMessage(content="x" * 400) for _ in range(20)))
    history, dropped = trim(transcript, 500, "compact")
    assert dropped
    fitted, lost = await fit_images(history, ImageLimits(side=50), THREADS)
    assert [opened(url).width for url in urls_of(fitted)] == [50]
    assert b"image_url" in fitted.encoded("wire", encode_message)[0]
    assert lost.shrunk == 1


@given(counts=st.lists(st.integers(0, 4), max_size=12), most=st.integers(0, 9))
def test_however_many_images_there_are_no_more_than_the_limit_are_sent_and_no_text_is_lost(
    counts: list[int], most: int
) -> None:
    messages = [
        said(*(f"https://example.org/{at}/{n}.png" for n in range(count)), text=f"text {at}")
        for at, count in enumerate(counts)
    ]
    history = conversation(*messages).history()

    fitted, lost = trio.run(fit_images, history, ImageLimits(at_most=most), THREADS)
    sent = urls_of(fitted)
    every = urls_of(history)
    assert len(sent) <= most
    assert sent == every[len(every) - len(sent) :]
    assert bool(lost.reasons) == (len(sent) < len(every))
    assert len(fitted) == len(history)
    said_at_all = " ".join(texts_of(fitted))
    assert all(f"text {at}" in said_at_all for at in range(len(counts)))
