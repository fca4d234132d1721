"""Code of a project runs only when its user has said so, and only the very code that was meant."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from aar.client import opening_problems
from aar.errors import ConfigError
from aar.extensions.finding import Found
from aar.extensions.loading import Loader
from aar.extensions.sources import read_source
from aar.extensions.trust import TrustFile

MARK = """
    from pathlib import Path
    Path(__file__).parents[3].joinpath("ran").write_text("{0}")

    def register(api):
        api.command("{0}")(lambda args, ctx: "{0}")
"""


def ran(world) -> bool:
    return (world.project.parent / "ran").exists()


async def names(world) -> list[str]:
    async with world.session() as session:
        return [one.name for one in await session.commands()]


@pytest.mark.covers("EXT-23")
@pytest.mark.parametrize("folder", [".aar", ".agent"])
async def test_an_extension_that_nobody_trusts_does_not_run_and_people_are_told_how_to_trust_it(world, folder) -> None:
    world.of_project("mark.py", MARK.format("one"), folder=folder)
    async with world.session() as session:
        assert await session.commands() == ()
        assert opening_problems(session) == [
            "The extension mark of this project was not loaded: it is code, and nobody has trusted it yet. "
            "Read it, then run `aar extensions trust mark` here."
        ]
    assert not ran(world)
    world.trust()
    assert (await names(world), ran(world)) == (["one"], True)


async def test_a_change_of_any_file_ends_the_trust(world) -> None:
    pack = world.of_project("pack/__init__.py", "def register(api): ...\n").parent
    world.of_project("pack/words.py", "WORD = 1\n")
    world.trust()
    async with world.session() as session:
        assert opening_problems(session) == []
    (pack / "words.py").write_text("WORD = 2\n")
    async with world.session() as session:
        assert "nobody has trusted it yet" in opening_problems(session)[0]


async def test_trust_is_of_one_project_and_not_of_its_copy(world, tmp_path) -> None:
    world.of_project("mark.py", MARK.format("one"))
    world.trust()
    other = tmp_path / "deeper" / "copy"
    (other / ".aar" / "extensions").mkdir(parents=True)
    (other / ".aar" / "extensions" / "mark.py").write_text((world.project / ".aar/extensions/mark.py").read_text())
    async with world.runtime() as runtime:
        assert await (await runtime.sessions.open(str(other))).commands() == ()
        (tmp_path / "link").symlink_to(world.project)
        through = await runtime.sessions.open(str(tmp_path / "link"))
        assert [one.name for one in await through.commands()] == ["one"]


async def test_an_untrusted_extension_takes_nobodys_place(world) -> None:
    world.user("guard.py", "def register(api):\n    api.command('mine')(lambda args, ctx: 1)\n")
    world.of_project("guard.py", MARK.format("theirs"))
    assert (await names(world), ran(world)) == (["mine"], False)


async def test_what_was_looked_at_is_what_runs(world) -> None:
    """The file changes between the look at it and its import."""
    file = world.of_project("mark.py", "def register(api):\n    api.command('good')(lambda args, ctx: 1)\n")
    world.trust()
    found = Found("mark", "project", str(file), world.project)
    source = read_source(file, project=world.project)
    file.write_text("raise SystemExit\n")
    loader = Loader(world.home, lambda name, work: None)
    loaded = await loader.load_one(found, source)
    loader.close()
    assert (loaded.error, [one.name for one in loaded.api.commands]) == ("", ["good"])


async def test_what_was_looked_at_is_what_runs_also_of_the_modules_of_a_package(world) -> None:
    pack = world.of_project(
        "pack/__init__.py",
        """
        def register(api):
            from .late import NAME
            api.command(NAME)(lambda args, ctx: 1)
        """,
    ).parent
    world.of_project("pack/late.py", "NAME = 'good'\n")
    source = read_source(pack, project=world.project)
    (pack / "late.py").write_text("NAME = 'bad'\n")
    loader = Loader(world.home, lambda name, work: None)
    loaded = await loader.load_one(Found("pack", "project", str(pack), world.project), source)
    loader.close()
    assert [one.name for one in loaded.api.commands] == ["good"]


def found_in(world, name: str = "x") -> Found:
    path = world.project / ".aar" / "extensions" / f"{name}.py"
    return Found(name, "project", str(path), world.project)


def test_trust_is_kept_in_a_file_that_only_its_user_reads(world) -> None:
    trust = TrustFile(world.home)
    assert not trust.covers(found_in(world), "1")
    trust.add(found_in(world), "1")
    trust.add(found_in(world, "y"), "2")
    assert [trust.covers(found_in(world), "1"), trust.covers(found_in(world), "2")] == [True, False]
    assert stat.S_IMODE(os.stat(trust.path).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(trust.path.parent).st_mode) == 0o700
    assert Path(trust.path).is_relative_to(world.home)
    assert [trust.remove(found_in(world)), trust.remove(found_in(world))] == [True, False]
    assert [trust.covers(found_in(world), "1"), trust.covers(found_in(world, "y"), "2")] == [False, True]


@pytest.mark.parametrize("content", ["", "no json", "[]", '{"trusted": []}', "\udcff"])
async def test_a_file_of_trust_that_makes_no_sense_trusts_nobody_and_is_told(world, content) -> None:
    world.of_project("mark.py", MARK.format("one"))
    trust = TrustFile(world.home)
    trust.path.parent.mkdir(parents=True)
    trust.path.write_text(content, errors="surrogateescape")
    async with world.session() as session:
        assert await session.commands() == ()
        assert str(trust.path) in opening_problems(session)[0]
    assert not ran(world)
    with pytest.raises(ConfigError):
        trust.add(found_in(world), "1")
