"""Where extensions come from, which one wins, and what becomes of those that cannot be loaded."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path

import pytest
import trio

from aar.client import opening_problems
from aar.config.extensions import may_have_extensions, site_folders
from aar.extensions.finding import find_extensions, in_force
from aar.extensions.sources import read_source
from aar.messages.settings import AgentConfig

SAYS = """
    def register(api):
        @api.command("who")
        def who(args, ctx):
            return "{}"
"""


def installed(place: Path, name: str, code: str, *, point: str = "") -> None:
    """A package with an entry point, as pip leaves it in `place`."""
    place.mkdir(exist_ok=True)
    (place / f"{name}.py").write_text(code)
    info = place / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[aar_extensions]\n{name} = {point or name + ':register'}\n")


@pytest.fixture
def site(tmp_path, monkeypatch) -> Path:
    """A folder of installed packages."""
    place = tmp_path / "site"
    place.mkdir()
    monkeypatch.syspath_prepend(str(place))
    known = set(sys.modules)
    yield place
    for name in set(sys.modules) - known:
        if (getattr(sys.modules[name], "__file__", None) or "").startswith(str(place)):
            del sys.modules[name]


async def replies(session) -> dict[str, str | None]:
    return {one.name: await session.run_command(one.name) for one in await session.commands()}


@pytest.mark.covers("EXT-01")
async def test_register_may_be_a_function_or_a_coroutine_function(world) -> None:
    world.user("plain.py", "def register(api):\n    api.command('plain')(lambda args, ctx: 'p')\n")
    world.user(
        "waiting.py",
        """
        import trio

        async def register(api):
            await trio.sleep(0)
            api.command("waiting")(lambda args, ctx: "w")
        """,
    )
    async with world.session() as session:
        assert await replies(session) == {"plain": "p", "waiting": "w"}


@pytest.mark.covers("EXT-02", "EXT-03")
async def test_a_project_beats_the_user_and_the_user_beats_what_is_installed(world, site) -> None:
    installed(site, "who", "def register(api):\n    api.command('who')(lambda args, ctx: 'installed')\n")
    async with world.session() as session:
        assert await replies(session) == {"who": "installed"}
    world.user("who.py", SAYS.format("user"))
    async with world.session() as session:
        assert await replies(session) == {"who": "user"}
    world.of_project("who.py", SAYS.format("agent"), folder=".agent")
    world.trust()
    async with world.session() as session:
        assert await replies(session) == {"who": "agent"}
    world.of_project("who.py", SAYS.format("aar"))
    world.trust()
    async with world.session() as session:
        assert await replies(session) == {"who": "aar"}


async def test_an_entry_point_may_name_its_function(world, site) -> None:
    installed(site, "other", "def start(api):\n    api.command('x')(lambda args, ctx: 'y')\n", point="other:start")
    async with world.session() as session:
        assert await replies(session) == {"x": "y"}


async def test_a_project_cannot_pass_as_a_folder_of_installed_packages(world, monkeypatch) -> None:
    installed(world.project, "evil", "raise SystemExit\n")
    monkeypatch.syspath_prepend(str(world.project))
    monkeypatch.chdir(world.project)
    assert str(world.project) not in site_folders(world.project)
    assert not may_have_extensions(world.home, world.project)
    async with world.session() as session:
        assert (await session.commands(), opening_problems(session)) == ((), [])


@pytest.mark.covers("EXT-04", "EXT-05")
async def test_a_folder_is_an_extension_and_names_with_an_underscore_or_a_dot_are_none(world) -> None:
    world.user(
        "pack/__init__.py",
        """
        from . import more
        from .inner.words import WORD

        def register(api):
            api.command("who")(lambda args, ctx: WORD + more.MORE)
        """,
    )
    world.user("pack/inner/words.py", "from .. import more\nWORD = 'inner' + more.MORE\n")
    world.user("pack/more.py", "MORE = '!'\n")
    for name in ("_x.py", ".x.py", "_y/__init__.py", "plain/notes.txt", "notes.txt"):
        world.user(name, "raise SystemExit\n")
    assert [found.name for found in find_extensions(world.home, world.project)] == ["pack"]
    async with world.session() as session:
        assert await replies(session) == {"who": "inner!!"}


async def test_extensions_of_one_name_in_a_home_folder_that_is_a_project_are_the_users_own(world) -> None:
    world.user("who.py", SAYS.format("mine"))
    (world.project / ".aar").symlink_to(world.home)
    assert [(one.name, one.source) for one in find_extensions(world.home, world.project)] == [("who", "user")]


BROKEN = {
    "import_error.py": ("import no_such_module_anywhere\n", "ModuleNotFoundError"),
    "syntax.py": ("def register(api:\n", "SyntaxError"),
    "nothing.py": ("x = 1\n", "there is no function register(api)"),
    "raises.py": ("def register(api):\n    raise ValueError('no')\n", "register(api): ValueError: no"),
    "leaves.py": ("import sys\nsys.exit(3)\n", "it called sys.exit()"),
    "async_leaves.py": ("async def register(api):\n    raise SystemExit\n", "it called sys.exit()"),
    "bad_tool.py": ("def register(api):\n    api.register_tool('no tool')\n", "a tool is a ToolSpec"),
    "bad_name.py": ("def register(api):\n    api.command('a b')\n", "no name for a command"),
    "no_brackets.py": (
        "def register(api):\n    @api.tool\n    def words(text: str): ...\n",
        "wants a name in brackets",
    ),
    "null.py": ("x = '\0'\n", "null bytes"),
}


@pytest.mark.covers("EXT-06")
async def test_extensions_that_cannot_be_loaded_are_told_and_the_others_work(world) -> None:
    for name, (code, _) in BROKEN.items():
        world.user(name, code)
    world.user("who.py", SAYS.format("me"))
    async with world.session() as session:
        assert await replies(session) == {"who": "me"}
        told = opening_problems(session)
        assert len(told) == len(BROKEN)
        for name, (_, reason) in BROKEN.items():
            [problem] = [text for text in told if f"'{name[:-3]}'" in text]
            assert reason in problem


async def test_an_extension_that_hangs_while_it_loads_is_given_up(world, monkeypatch) -> None:
    monkeypatch.setattr("aar.extensions.loading.LOAD_TIMEOUT", 0.2)
    world.user("import_hangs.py", "import threading\nthreading.Event().wait(3)\n")
    world.user("register_hangs.py", "import trio\nasync def register(api):\n    await trio.sleep_forever()\n")
    world.user("who.py", SAYS.format("me"))
    with trio.fail_after(3):
        async with world.session() as session:
            assert await replies(session) == {"who": "me"}
            assert opening_problems(session) == [
                "Extension 'import_hangs' could not be loaded: its module: took longer than 0.2 s",
                "Extension 'register_hangs' could not be loaded: register(api): took longer than 0.2 s",
            ]


async def test_an_extension_is_loaded_once_and_anew_when_its_file_changes(world) -> None:
    counting = "import itertools\nCOUNT = itertools.count(1)\ndef register(api):\n"
    counting += "    number = next(COUNT)\n    api.command('n')(lambda args, ctx: number)\n"
    file = world.user("counting.py", counting)
    async with world.runtime() as runtime:
        first = await runtime.sessions.open(str(world.project))
        second = await runtime.sessions.open(str(world.project))
        assert [await replies(first), await replies(second)] == [{"n": "1"}, {"n": "1"}]
        file.write_text(counting.replace("count(1)", "count(7)"))
        third = await runtime.sessions.open(str(world.project))
        assert [await replies(first), await replies(third)] == [{"n": "1"}, {"n": "7"}]


async def test_nothing_is_left_in_python_when_a_runtime_has_ended(world) -> None:
    world.user("who.py", SAYS.format("me"))
    before, finders = set(sys.modules), list(sys.meta_path)
    async with world.session() as session:
        await replies(session)
        assert [name for name in sys.modules if name.startswith("_aar_extension_who")]
    assert [name for name in set(sys.modules) - before if name.startswith("_aar_extension")] == []
    assert sys.meta_path == finders


async def test_extensions_can_be_switched_off_and_are_off_for_programs_that_do_not_ask(world) -> None:
    world.user("who.py", SAYS.format("me"))
    off = AgentConfig.model_validate({"extensions": {"enabled": False}})
    async with world.session(config=off) as session:
        assert await session.commands() == ()
    from aar.testing import open_test_runtime

    async with open_test_runtime(home=world.home) as runtime:
        session = await runtime.sessions.open(str(world.project))
        assert await session.commands() == ()


async def test_a_late_registration_is_refused(world, caplog) -> None:
    world.user(
        "late.py",
        """
        def register(api):
            @api.command("late")
            def late(args, ctx):
                api.command("later")(late)
        """,
    )
    async with world.session() as session:
        with pytest.raises(Exception, match="register everything in register"):
            await session.run_command("late")


async def test_an_unknown_event_is_warned_of_and_registered(world, caplog) -> None:
    world.user("odd.py", "def register(api):\n    api.on('no_such')(print)\n")
    with caplog.at_level(logging.WARNING):
        async with world.session() as session:
            assert opening_problems(session) == []
    [text] = [record.getMessage() for record in caplog.records if record.name == "aar.ext.odd"]
    assert text.startswith("there is no event 'no_such'")


# --- what is read -----------------------------------------------------------------------------


def test_a_link_in_a_project_must_not_lead_out_of_it(world, tmp_path) -> None:
    secret = tmp_path / "secret.py"
    secret.write_text("x = 1\n")
    pack = world.of_project("pack/__init__.py", "def register(api): ...\n").parent
    (pack / "data.txt").symlink_to(secret)
    with pytest.raises(Exception, match="leads out of the project"):
        read_source(pack, project=world.project)
    (pack / "data.txt").unlink()
    (pack / "folder").symlink_to(tmp_path, target_is_directory=True)
    with pytest.raises(Exception, match="link to a folder"):
        read_source(pack, project=world.project)


def test_a_whole_folder_of_extensions_may_not_be_a_link_out_of_the_project(world, tmp_path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "x.py").write_text("def register(api): ...\n")
    (world.project / ".aar").mkdir()
    (world.project / ".aar" / "extensions").symlink_to(tmp_path / "elsewhere")
    [found] = in_force(find_extensions(world.home, world.project))
    with pytest.raises(Exception, match="leads out of the project"):
        read_source(Path(found.path), project=found.project)


def test_what_is_no_file_is_not_waited_for(world) -> None:
    pack = world.of_project("pack/__init__.py", "def register(api): ...\n").parent
    os.mkfifo(pack / "pipe")
    with pytest.raises(Exception, match="not a regular file"):
        read_source(pack, project=world.project)


def test_every_file_of_a_projects_extension_counts_and_compiled_ones_do_not(world) -> None:
    pack = world.of_project("pack/__init__.py", "def register(api): ...\n").parent
    first = read_source(pack, project=world.project).digest
    (pack / "__pycache__").mkdir()
    (pack / "__pycache__" / "x.pyc").write_bytes(b"1")
    assert read_source(pack, project=world.project).digest == first
    (pack / "data.json").write_text("{}")
    second = read_source(pack, project=world.project).digest
    (pack / "data.json").rename(pack / "data.jsom")
    assert len({first, second, read_source(pack, project=world.project).digest}) == 3
