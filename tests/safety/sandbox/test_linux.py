"""Real commands behind real walls; what each must not reach lies beside its workspace."""

from __future__ import annotations

import errno
import logging
import os
import platform
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from aar.errors import ConfigError
from aar.messages.settings import AgentConfig
from aar.messages.settings import LinuxSandbox as LinuxSettings
from aar.processes.confinement import NotConfined, Place
from aar.processes.guard import open_guard
from aar.safety.sandbox import CommandResult, Sandbox, sandbox_for
from aar.safety.sandbox.landlock import WRITE, landlock_abi, ruleset, within
from aar.safety.sandbox.linux import LinuxSandbox

Run = Callable[..., Any]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder beside the workspace with one file in it."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "file").write_text("untouched")
    return folder


@pytest.fixture
async def run(workspace: Path) -> AsyncIterator[Run]:
    async def run(command: str, sandbox: Sandbox | None = None, **settings: Any) -> CommandResult:
        chosen = sandbox or LinuxSandbox(str(workspace), LinuxSettings(**settings))
        return await chosen.execute(command, timeout=60, output_limit=20_000)

    async with open_guard():
        yield run


def seen(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def exists(path: str) -> bool:
    return os.path.lexists(path)


def put_another_folder_in_its_place(folder: Path, other: Path) -> None:
    folder.rename(folder.with_name("moved"))
    folder.symlink_to(other)


def put_a_new_folder_in_its_place(folder: Path) -> None:
    folder.unlink()
    folder.mkdir()


@pytest.mark.covers("SBX-03", "SBX-04")
async def test_a_command_writes_in_the_workspace_and_nowhere_else(run: Run, workspace: Path, outside: Path) -> None:
    inside = await run("mkdir a b && echo one > a/one && mv a/one b/two && ln b/two hard && ln -s b soft && rmdir a")
    assert (inside.stderr, inside.exit_code) == ("", 0)
    assert (workspace / "soft" / "two").read_text() == "one\n"
    for attempt in (
        f"echo no > {outside}/new",
        f"echo no >> {outside}/file",
        f"truncate -s 0 {outside}/file",
        f"rm {outside}/file",
        f"mkdir {outside}/folder",
        f"mv {outside}/file .",
        f"ln {outside}/file hard-link && echo no > hard-link",
        f"ln -s {outside} link && echo no > link/new",
        f"cd {outside} && echo no > new",
        f"echo no > /proc/self/root{outside}/new",
        f"echo no > /proc/$PPID/root{outside}/new",
        "mknod device b 8 0",
        "cd .. && mv workspace elsewhere",
    ):
        assert (await run(attempt)).exit_code != 0, attempt
    assert (seen(outside), (outside / "file").read_text()) == (["file"], "untouched")
    assert (await run(f"cat {outside}/file")).stdout == "untouched"


async def test_ordinary_work_goes_on(run: Run, workspace: Path) -> None:
    result = await run(
        "set -e; cat <<< text > /dev/null; echo out > /dev/stdout; echo err > /dev/stderr\n"
        "head -c 3 /dev/zero | wc -c\n"
        "diff <(echo a) <(echo a); file=$(mktemp); test -w $file; rm $file; (sleep 0 & wait)\n"
        "git init -q .; git -c user.name=a -c user.email=a@b commit -q --allow-empty -m first; git log --format=%s\n"
    )
    assert (result.stdout, result.stderr, result.exit_code) == ("out\n3\nfirst\n", "err\n", 0)


@pytest.mark.covers("SBX-05")
async def test_the_environment_is_four_variables_and_a_folder_for_temporary_files(
    run: Run, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLAVOUR", "vanilla")
    monkeypatch.setenv("GITHUB_TOKEN", "canary")
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("LANG", "C.UTF-8")
    told = dict(line.split("=", 1) for line in (await run("exec env")).stdout.splitlines())
    added_by_bash, marker = {"PWD", "SHLVL", "_", "OLDPWD"}, "AAR_PROCESS"
    own = {name: value for name, value in told.items() if name not in {*added_by_bash, marker, "TMPDIR"}}
    assert own == {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "TERM": "dumb", "LANG": "C.UTF-8"}
    kept = LinuxSandbox(str(workspace), LinuxSettings(), env_keep=["FLAVOUR"])
    assert (await run("echo $FLAVOUR", kept)).stdout == "vanilla\n"


async def test_each_command_has_a_private_folder_for_temporary_files_that_is_gone_afterwards(run: Run) -> None:
    result = await run("echo $TMPDIR; stat -c %a $TMPDIR; mkdir -p $TMPDIR/a/b; touch $TMPDIR/a/b/c; chmod 0 $TMPDIR/a")
    folder, mode = result.stdout.split()
    assert (mode, exists(folder), result.exit_code) == ("700", False, 0)


async def test_temporary_files_are_gone_however_deep_they_are_and_whatever_their_modes(run: Run, outside: Path) -> None:
    mode = (outside / "file").stat().st_mode
    dig = "import os\nfor _ in range(1500): os.mkdir('a'); os.chdir('a')"
    result = await run(
        f"cd $TMPDIR; ln -s {outside} link; mkfifo pipe; touch -- -f; mkdir b; ln -s {outside}/file b/file; chmod 0 b; "
        f'python3 -c "{dig}"; chmod 0 $TMPDIR; echo $TMPDIR'
    )
    assert (result.exit_code, exists(result.stdout.strip())) == (0, False)
    assert (seen(outside), (outside / "file").stat().st_mode) == (["file"], mode)


@pytest.mark.covers("SBX-06")
async def test_memory_beyond_the_limit_is_refused_and_cannot_be_had_by_asking(run: Run) -> None:
    take = "python3 -I -S -c 'bytearray({} << 20); print(1)'"
    result = await run(
        f"{take.format(20)}; {take.format(200)}; ulimit -d unlimited && {take.format(200)}", max_memory_mb=100
    )
    assert (result.stdout, result.exit_code) == ("1\n", 1)
    assert "MemoryError" in result.stderr


async def test_memory_that_is_only_reserved_does_not_count(run: Run) -> None:
    reserve = "import mmap; mmap.mmap(-1, 1 << 34, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, mmap.PROT_READ); print(1)"
    assert (await run(f"python3 -I -S -c '{reserve}'", max_memory_mb=100)).stdout == "1\n"


async def test_a_command_can_neither_signal_nor_read_nor_trace_aar(run: Run) -> None:
    aar = os.getpid()
    trace = f"import ctypes; print(ctypes.CDLL(None).ptrace(16, {aar}, 0, 0))"
    result = await run(
        f"kill -0 {aar}; kill -0 $PPID; kill -0 $$ && echo itself\n"
        f"cat /proc/{aar}/environ; head -c 1 /proc/{aar}/mem; readlink /proc/{aar}/fd/0; readlink /proc/{aar}/cwd\n"
        f"python3 -I -S -c '{trace}'"
    )
    assert result.stdout == "itself\n-1\n"
    assert len(result.stderr.splitlines()) == 4


@pytest.mark.parametrize("unix_sockets", [False, True])
async def test_a_command_can_limit_itself_and_nobody_else(run: Run, unix_sockets: bool) -> None:
    aar = f"prlimit --pid {os.getpid()} --cpu=9000000"
    result = await run(f"{aar}; ulimit -t 7 && ulimit -t", unix_sockets=unix_sockets)
    assert (result.stdout, "Operation not permitted" in result.stderr) == ("7\n", True)


async def test_no_program_gives_more_rights(run: Run) -> None:
    held = (await run("cat /proc/self/status; unshare -r true; unshare -m true; mount -t tmpfs none /mnt")).stdout
    facts = dict(line.split(":\t") for line in held.splitlines() if ":\t" in line)
    assert (facts["NoNewPrivs"], facts["Seccomp"]) == ("1", "2")
    ptrace, admin, kill, perfmon = 19, 21, 5, 38
    assert not int(facts["CapBnd"], 16) & sum(1 << number for number in (ptrace, admin, kill, perfmon)) or os.getuid()
    assert not int(facts["CapEff"], 16) & sum(1 << number for number in (ptrace, admin, kill, perfmon))


async def test_no_mount_and_no_namespace_leads_outside(run: Run, outside: Path) -> None:
    for attempt in (
        "unshare -rm mount -t tmpfs none /mnt",
        "mount --bind . /mnt",
        "chroot / true && mount -t proc p .",
    ):
        assert (await run(attempt)).exit_code != 0, attempt
    assert (await run(f"unshare -U sh -c 'echo no > {outside}/new'")).exit_code != 0
    assert seen(outside) == ["file"]


async def test_a_command_has_no_descriptor_but_the_standard_ones(run: Run) -> None:
    assert (await run("cd /proc/self/fd && echo *; readlink 0")).stdout == "0 1 2 3\n/dev/null\n"


CONNECT = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1].replace('@', '\\0')); print('in')"


async def test_sockets_of_this_machine_cannot_be_reached_unless_the_settings_say_so(run: Run, tmp_path: Path) -> None:
    named, abstract = str(tmp_path / "socket"), f"\0aar-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as first, socket.socket(socket.AF_UNIX) as second:
        for listener, address in ((first, named), (second, abstract)):
            listener.bind(address)
            listener.listen()
        both = "; ".join(f'python3 -I -S -c "{CONNECT}" {at}' for at in (named, abstract.replace("\0", "@")))
        assert (await run(both)).stdout == ""
        assert (await run(both, unix_sockets=True)).stdout == "in\n"  # abstract ones belong to Landlock
    inner = "import socket; a, b = socket.socketpair(); a.send(b'pair'); print(b.recv(9)); socket.socket().listen()"
    assert (await run(f'python3 -I -S -c "{inner}"')).stdout == "b'pair'\n"


async def test_a_pair_of_sockets_is_no_way_to_a_named_one(run: Run, tmp_path: Path) -> None:
    named = str(tmp_path / "socket")
    send = "import socket; socket.socketpair(socket.AF_UNIX, socket.{})[0].sendto(b'in', '{}')"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(named)
        listener.setblocking(False)
        for kind in ("SOCK_DGRAM", "SOCK_RAW", "SOCK_STREAM", "SOCK_SEQPACKET"):
            assert (await run(f'python3 -I -S -c "{send.format(kind, named)}"')).exit_code == 1
        with pytest.raises(BlockingIOError):
            listener.recv(10)
        await run(f'python3 -I -S -c "{send.format("SOCK_DGRAM", named)}"', unix_sockets=True)
        assert listener.recv(10) == b"in"


async def test_more_folders_may_be_writable(run: Run, outside: Path, tmp_path: Path) -> None:
    wanted = [str(outside), str(tmp_path / "missing")]
    assert (await run(f"echo more > {outside}/new; mv {outside}/new .", writable=wanted)).exit_code == 0
    (tmp_path / "missing").mkdir()
    assert (await run(f"touch {tmp_path}/missing/file")).exit_code != 0


async def test_a_command_cannot_make_a_writable_folder_mean_another_one(
    run: Run, workspace: Path, outside: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (workspace / "build").mkdir()
    (tmp_path / "named").symlink_to(workspace / "build")
    settings = {"writable": ["build", "build/sub", str(tmp_path / "named")]}
    (outside / "sub").mkdir()
    assert (await run(f"rmdir build && ln -s {outside} build", **settings)).exit_code == 0
    result = await run("touch build/a build/sub/b; touch ../named/c; touch here", **settings)
    assert (result.exit_code, seen(outside), seen(outside / "sub")) == (0, ["file", "sub"], [])
    assert seen(workspace) == ["build", "here"]
    assert caplog.text.count(f"{workspace}/build is a link that they could have made") == 3


async def test_a_workspace_of_its_own_is_where_commands_run_and_write(run: Run, workspace: Path, outside: Path) -> None:
    sandbox = LinuxSandbox(str(outside), LinuxSettings(workspace=str(workspace)))
    assert (await run("pwd; touch here", sandbox)).stdout == f"{workspace}\n"
    result = await sandbox.execute("pwd; touch there", timeout=60, cwd=str(outside), output_limit=1000)
    assert (result.stdout, seen(workspace), seen(outside)) == (f"{outside}\n", ["here"], ["file"])


async def test_relative_folders_start_at_that_of_the_session(run: Run, workspace: Path) -> None:
    (workspace / "build").mkdir()
    (workspace / "cache").mkdir()
    sandbox = LinuxSandbox(str(workspace), LinuxSettings(workspace="build", writable=["cache"]))
    result = await run("pwd; touch here ../cache/there ../no", sandbox)
    assert result.stdout == f"{workspace}/build\n"
    assert (seen(workspace / "build"), seen(workspace / "cache")) == (["here"], ["there"])


async def test_a_workspace_that_was_exchanged_is_refused(run: Run, workspace: Path, outside: Path) -> None:
    sandbox = LinuxSandbox(str(workspace), LinuxSettings(allow_fallback=True))
    put_another_folder_in_its_place(workspace, outside)
    with pytest.raises(NotConfined, match="nothing was run"):
        await run("touch new", sandbox)
    put_a_new_folder_in_its_place(workspace)
    with pytest.raises(NotConfined, match="replaced by another"):
        await run("touch new", sandbox)
    assert seen(outside) == ["file"]


async def test_a_workspace_that_is_not_there_is_a_mistake_in_the_settings(workspace: Path) -> None:
    with pytest.raises(ConfigError, match="nowhere: No such file"):
        LinuxSandbox(str(workspace), LinuxSettings(workspace="/nowhere"))


@pytest.mark.covers("SBX-09", "SBX-10")
async def test_a_timeout_is_told_and_leaves_neither_a_process_nor_temporary_files(
    workspace: Path, mock_clock: trio.testing.MockClock
) -> None:
    mock_clock.rate = 1.0
    async with open_guard():
        result = await LinuxSandbox(str(workspace), LinuxSettings()).execute(
            "touch $TMPDIR/a; setsid sh -c 'trap : TERM; while :; do sleep 9; done' & echo $! $TMPDIR; sleep 1000",
            timeout=30,
            report=lambda _: mock_clock.jump(30),
            output_limit=1000,
        )
    pid, folder = result.stdout.split()
    assert (result.exit_code, result.timed_out, exists(folder)) == (-1, True, False)
    assert not exists(f"/proc/{pid}")


@pytest.mark.covers("SBX-10")
async def test_a_cancel_leaves_neither_a_process_nor_temporary_files(workspace: Path) -> None:
    reported: list[str] = []

    def cancel(text: str) -> None:
        reported.append(text)
        scope.cancel()

    async with open_guard():
        with trio.CancelScope() as scope:
            await LinuxSandbox(str(workspace), LinuxSettings()).execute(
                "setsid sleep 1000 & echo $! $TMPDIR; wait", timeout=None, report=cancel, output_limit=1000
            )
    pid, folder = "".join(reported).split()
    assert (exists(f"/proc/{pid}"), exists(folder)) == (False, False)


# --- when the kernel does not do its part -----------------------------------------------------------


@pytest.mark.covers("SBX-07")
async def test_without_landlock_there_is_one_warning_and_the_rest_of_the_sandbox(
    run: Run, workspace: Path, outside: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLAVOUR", "vanilla")
    with caplog.at_level(logging.WARNING):
        sandbox = LinuxSandbox(str(workspace), LinuxSettings(max_memory_mb=100), abi=0)
        for _ in range(2):
            result = await run(f"echo [$FLAVOUR]; ulimit -d; touch {outside}/new", sandbox)
    assert (result.stdout, seen(outside), sandbox.enforces_paths) == ("[]\n102400\n", ["file", "new"], False)
    assert caplog.messages == ["Commands are not held in the workspace: this kernel has no Landlock."]


@pytest.mark.parametrize("abi", range(1, landlock_abi()))
async def test_an_older_landlock_holds_what_it_knows(run: Run, workspace: Path, outside: Path, abi: int) -> None:
    sandbox = LinuxSandbox(str(workspace), LinuxSettings(), abi=abi)
    result = await run(f"touch here; echo no > /dev/null; touch {outside}/new; rm {outside}/file", sandbox)
    assert (seen(workspace), seen(outside), len(result.stderr.splitlines())) == (["here"], ["file"], 2)
    assert sandbox.enforces_paths == (abi >= 3)


def test_a_newer_landlock_is_asked_for_what_we_know() -> None:
    assert within(99) == (1 << 16) - 1
    assert [len(ruleset(abi)) for abi in (1, 5, 6, 99)] == [8, 8, 24, 24]


class Refused(LinuxSandbox):
    """One whose ruleset no kernel takes."""

    def _walls(self, folder: str) -> Any:
        return super()._walls(folder)._replace(ruleset=b"\xff" * 8)


@pytest.mark.covers("SBX-08")
async def test_a_command_whose_walls_cannot_be_put_up_is_not_run(run: Run, workspace: Path) -> None:
    with pytest.raises(NotConfined, match=r"nothing was run \(Landlock: Invalid argument\)") as refusal:
        await run("touch here", Refused(str(workspace), LinuxSettings()))
    assert (refusal.value.errno, refusal.value.step) == (errno.EINVAL, "landlock")
    assert seen(workspace) == []


async def test_it_is_run_without_walls_where_the_settings_allow_that(
    run: Run, workspace: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sandbox = Refused(str(workspace), LinuxSettings(allow_fallback=True))
    assert sandbox.enforces_paths
    assert (await run("touch here; echo $FLAVOUR", sandbox)).exit_code == 0
    assert (seen(workspace), sandbox.enforces_paths) == (["here"], False)
    assert "A command runs without walls" in caplog.text


async def test_walls_that_fail_for_want_of_memory_or_descriptors_are_never_left_out(run: Run, workspace: Path) -> None:
    class Exhausted(LinuxSandbox):
        def _walls(self, folder: str) -> Any:
            raise NotConfined(errno.ENFILE, "landlock")

    sandbox = Exhausted(str(workspace), LinuxSettings(allow_fallback=True))
    with pytest.raises(NotConfined):
        await run("touch here", sandbox)
    assert (seen(workspace), sandbox.enforces_paths) == ([], True)


async def test_each_wall_that_fails_stops_the_command(run: Run, workspace: Path) -> None:
    for change, step in (
        ({"memory": 1 << 70}, "memory"),
        ({"places": (Place("/nowhere", WRITE),)}, "places"),
        ({"places": (Place("/dev/null", WRITE),)}, "places"),
        ({"system_calls": b"12345678"}, "seccomp"),
    ):

        class Broken(LinuxSandbox):
            change_of_walls = change

            def _walls(self, folder: str) -> Any:
                return super()._walls(folder)._replace(**self.change_of_walls)

        with pytest.raises(NotConfined) as refusal:
            await run("touch here", Broken(str(workspace), LinuxSettings()))
        assert refusal.value.step == step
    assert seen(workspace) == []


async def test_on_a_machine_whose_system_calls_are_not_known_nothing_is_promised(
    run: Run, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "s390x")
    sandbox = LinuxSandbox(str(workspace), LinuxSettings())
    assert (sandbox.enforces_paths, (await run("touch here; touch ../there", sandbox)).exit_code) == (False, 1)
    assert seen(workspace) == ["here"]
    assert LinuxSandbox(str(workspace), LinuxSettings(unix_sockets=True)).enforces_paths


def test_sessions_that_are_kept_in_the_workspace_are_what_aar_lives_on(tmp_path: Path) -> None:
    config = AgentConfig().patched({"safety": {"sandbox": "linux"}, "session_dir": ".agent/sessions"})
    assert sandbox_for(config, str(tmp_path), home="/elsewhere").enforces_paths is False


def test_a_workspace_within_what_aar_lives_on_holds_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    config = AgentConfig().patched({"safety": {"sandbox": "linux"}})
    (folder := tmp_path / ".aar" / "extensions" / "mine").mkdir(parents=True)
    assert sandbox_for(config, str(folder), home=str(tmp_path / ".aar")).enforces_paths is False
    assert f"{folder} lies in {tmp_path / '.aar'}, which Aar lives on" in caplog.text
    packages = Path(trio.__file__).parent
    assert sandbox_for(config, str(packages), home="/elsewhere").enforces_paths is False


def test_a_workspace_in_which_python_looks_for_modules_holds_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = AgentConfig().patched({"safety": {"sandbox": "linux"}})
    monkeypatch.syspath_prepend(tmp_path / "src")
    assert sandbox_for(config, str(tmp_path), home="/elsewhere").enforces_paths is False


@pytest.mark.parametrize("relation", ["same", "above"])
def test_a_workspace_that_contains_what_aar_lives_on_holds_nothing(tmp_path: Path, relation: str) -> None:
    home = tmp_path if relation == "same" else tmp_path / "a" / ".aar"
    config = AgentConfig().patched({"safety": {"sandbox": "linux"}})
    assert sandbox_for(config, str(tmp_path), home=str(home)).enforces_paths is False
    assert sandbox_for(config, str(tmp_path), home=str(tmp_path.parent / "b")).enforces_paths is True


def test_a_workspace_that_is_a_file_is_refused_with_its_name(workspace: Path) -> None:
    (workspace / "file").write_text("")
    with pytest.raises(ConfigError, match="/file: this is no folder"):
        LinuxSandbox(str(workspace), LinuxSettings(workspace="file"))
