"""`aar extensions` and `aar install`."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import trio

HELLO = """
def register(api):
    @api.on("user_message")
    def one(text, ctx): ...

    @api.on("user_message")
    def two(text, ctx): ...

    @api.on("tool_call")
    def three(call, ctx): ...

    @api.tool("word_count", "Count the words.", {"type": "object"}, prompt_snippet="counts")
    def word_count(): ...

    @api.command("hello", description="Say hello.")
    def hello(args, ctx): ...

    api.append_system_prompt("Be kind.")
    api.append_system_prompt("Be brief.")
"""


def wheel(folder: Path, name: str, *, entry_points: str = "") -> Path:
    """A package as a file that pip installs without a network."""
    info = f"{name}-1.0.dist-info"
    files = {
        f"{name}.py": "def register(api):\n    api.command('installed')(lambda args, ctx: 'from a package')\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": entry_points,
    }
    files[f"{info}/RECORD"] = "".join(f"{file},,\n" for file in [*files, f"{info}/RECORD"])
    path = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for file, text in files.items():
            archive.writestr(file, text)
    return path


@pytest.fixture
def hello(place) -> Path:
    folder = place.home / "extensions"
    folder.mkdir(parents=True)
    (folder / "hello.py").write_text(HELLO)
    return folder / "hello.py"


@pytest.mark.covers("EXT-21")
def test_they_are_listed_without_running_anything(here, place, hello) -> None:
    evil = place.write(".aar/extensions/evil.py", "raise SystemExit('ran')\n")
    shadowed = place.write(".agent/extensions/hello.py", "raise SystemExit('ran')\n")
    done = here("extensions", "list")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [
        "Discovered Extensions",
        "  Name   Source   State        Path",
        f"  hello  user     ready        {hello}",
        f"  hello  project  not trusted  {shadowed}",
        f"  evil   project  not trusted  {evil}",
    ]


@pytest.mark.covers("EXT-21")
def test_without_any_that_is_said(here) -> None:
    done = here("extensions")
    assert (done.code, done.out) == (0, "No extensions found.\n")


@pytest.mark.covers("EXT-21")
def test_other_folders_stand_in_for_the_usual_ones(here, place, hello, tmp_path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "a.py").write_text(HELLO)
    theirs = place.write("tools/b.py", HELLO)
    done = here("extensions", "list", "--user-dir", str(tmp_path / "mine"), "--project-dir", "tools")
    assert [line.split()[:2] for line in done.out.splitlines()[2:]] == [["a", "user"], ["b", "project"]]
    assert str(theirs) in done.out
    assert here("extensions", "inspect", "a", "--user-dir", str(tmp_path / "mine")).code == 0


@pytest.mark.covers("EXT-21")
def test_one_is_inspected(here, hello) -> None:
    done = here("extensions", "inspect", "hello")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [
        "hello",
        "  Source: user",
        f"  Path: {hello}",
        "  Hooks:",
        "    user_message (2)",
        "    tool_call (1)",
        "  Tools:",
        "    word_count  Count the words.",
        "  Commands:",
        "    /hello  Say hello.",
        "  Prompt parts: 2",
    ]


@pytest.mark.covers("EXT-21")
@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (None, "There is no extension 'odd'."),
        ("x = 1\n", "Extension 'odd' could not be loaded: its module: there is no function register(api) in it"),
        ("def register(api): 1 / 0\n", "Extension 'odd' could not be loaded: register(api): ZeroDivisionError"),
    ],
)
def test_one_that_is_not_there_or_fails_is_an_error(here, place, hello, code, reason) -> None:
    if code is not None:
        (hello.parent / "odd.py").write_text(code)
    done = here("extensions", "inspect", "odd")
    assert (done.code, done.out) == (1, "")
    assert done.err.splitlines()[-1].startswith(f"aar: {reason}")


@pytest.mark.covers("EXT-23")
def test_trust_is_given_by_a_person_and_taken_back(here, place) -> None:
    place.write(".agent/extensions/deploy/__init__.py", "def register(api): ...\n")
    place.write(".agent/extensions/deploy/more.py", "")
    done = here("extensions", "trust", "deploy")
    assert (done.code, done.out) == (1, "")
    assert "  __init__.py  23 bytes\n  more.py  0 bytes\n" in done.err
    assert done.err.endswith("Nobody is here to ask: add --yes when you have read it.\nNothing is trusted.\n")
    assert here("extensions", "inspect", "deploy").code == 1
    done = here("extensions", "trust", "deploy", "--yes")
    assert (done.code, done.out) == (0, "Trusted until a file of it changes: deploy\n")
    assert here("extensions", "inspect", "deploy").code == 0
    assert here("extensions", "trust", "deploy", "--revoke").out == "deploy is trusted no longer.\n"
    assert here("extensions", "trust", "deploy", "--revoke").out == "deploy was not trusted.\n"
    assert here("extensions", "inspect", "deploy").code == 1


def test_only_what_the_project_has_can_be_trusted(here, place, hello) -> None:
    done = here("extensions", "trust", "hello", "--yes")
    assert (done.code, done.err) == (1, "aar: This project has no extension 'hello'; it has: none.\n")


async def test_a_person_at_a_terminal_is_asked(terminal, place) -> None:
    place.write(".aar/extensions/deploy.py", "def register(api): ...\n")
    async with terminal("extensions", "trust", "deploy") as screen:
        await screen.until("Trust it? [y]es / [n]o:")
        await screen.type("y\r")
        assert await screen.end() == 0
        assert "Trusted until a file of it changes: deploy" in screen.text


def test_tools_and_prompt_show_what_extensions_bring(here, hello) -> None:
    assert "  word_count  (none)  Count the words.\n" in here("tools").out
    shown = here("prompt", "--raw").out
    assert "- word_count: counts\n" in shown
    assert shown.endswith("Be kind.\nBe brief.\n")
    assert "extensions  [extensions]  (18 chars)" in here("prompt", "--layers").out


# --- install ----------------------------------------------------------------------------------


@pytest.fixture
def site(place, tmp_path) -> Path:
    """Where pip puts what it installs, and where Python looks for it: not the environment of these tests."""
    folder = tmp_path / "site"
    path = os.pathsep.join([place.environment["PYTHONPATH"], str(folder)])
    place.variables.update(PIP_TARGET=str(folder), PYTHONPATH=path, PIP_NO_INDEX="1", PIP_DISABLE_PIP_VERSION_CHECK="1")
    return folder


@pytest.mark.covers("EXT-22")
async def test_a_package_is_installed_and_its_extension_is_there(aar, place, site, tmp_path) -> None:
    package = wheel(tmp_path, "aar_deploy", entry_points="[aar_extensions]\ndeploy = aar_deploy\n")
    done = await aar("install", str(package))
    assert (done.code, done.err.splitlines()[-1]) == (0, "Installed. It brings the extension deploy.")
    assert (site / "aar_deploy.py").exists()
    listed = await aar("extensions", "list")
    assert listed.out.splitlines()[2].split() == ["deploy", "entrypoint", "ready", "aar_deploy:register"]
    shown = await aar("extensions", "inspect", "deploy")
    assert (shown.code, "    /installed\n" in shown.out) == (0, True)


@pytest.mark.covers("EXT-22")
async def test_a_package_without_an_extension_is_warned_of(aar, site, tmp_path) -> None:
    done = await aar("install", str(wheel(tmp_path, "plain_package")))
    assert done.code == 0
    assert done.err.splitlines()[-1].startswith("Installed, but ")
    assert done.err.splitlines()[-1].endswith("brings no extension of Aar.")


@pytest.mark.covers("EXT-22")
async def test_what_pip_says_is_shown_when_it_fails(aar, site, tmp_path) -> None:
    done = await aar("install", str(tmp_path / "nothing.whl"))
    assert done.code == 1
    assert "could not be installed:\n" in done.err
    assert done.err.splitlines()[-1].startswith("ERROR: ")


@pytest.mark.parametrize("arguments", [("install", "./nothing"), ("sessions", "list")], ids=" ".join)
async def test_modules_of_a_project_do_not_pass_for_those_of_others(started, site, place, arguments) -> None:
    place.write("pip/__main__.py", "print('mine')\n")
    for name in ("trio", "pip", "json", "pydantic"):
        place.write(f"{name}/__init__.py", "raise SystemExit('mine')\n")
    async with started(*arguments, cold=True, stderr=subprocess.STDOUT) as process:
        assert b"mine" not in b"".join([data async for data in process.stdout])


async def test_a_flag_is_no_package(aar) -> None:
    done = await aar("install", "--", "--index-url=http://127.0.0.1:1")
    assert done.code == 2


# --- without any ------------------------------------------------------------------------------


async def test_a_run_without_extensions_imports_nothing_of_them(place, model, flags) -> None:
    model.says("Hi.")
    code = (
        "import sys; sys.argv = ['aar', *sys.argv[1:]]\n"
        "from aar.__main__ import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print(*(name for name in sys.modules if name.startswith('aar.extensions')))\n"
    )
    done = await trio.run_process(
        [sys.executable, "-c", code, "run", "hi", *flags],
        capture_stdout=True,
        cwd=place.project,
        env=place.environment,
    )
    assert done.stdout.decode().split() == ["Hi."]
