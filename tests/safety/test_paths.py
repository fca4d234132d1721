from __future__ import annotations

import os
import stat
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aar.errors import ToolError
from aar.messages.settings import SafetyConfig
from aar.safety.paths import PathGuard, PathRule
from aar.tools.walk import walk

FREE = SafetyConfig(allowed_paths=[], denied_paths=[])


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def guard_of(work: Path, safety: SafetyConfig | None = None, rules: Sequence[PathRule] = ()) -> PathGuard:
    return PathGuard(str(work), safety or SafetyConfig(), path_rules=rules, state_dir=str(work.parent / "state"))


def test_the_folder_must_be_absolute() -> None:
    with pytest.raises(ValueError, match="absolute path"):
        PathGuard("work", SafetyConfig())


def test_reasons_name_the_path_and_the_rule(work: Path) -> None:
    guard = guard_of(work)
    assert guard.check("a/b.txt", write=True) is None
    assert guard.check(".", write=False) is None
    assert guard.check(".env", write=False) == f"'{work}/.env' is denied by '**/.env'"
    assert guard.check("/etc/hosts", write=False) == "'/etc/hosts' is outside the allowed paths"
    assert guard.check("../x", write=False) == f"'{work.parent}/x' is outside the allowed paths"
    assert guard.check(".git/config", write=True) == f"'{work}/.git/config' is protected: it decides what runs later"
    assert guard.check(".git/config", write=False) is None
    assert guard.check("a\0b", write=False) == "the path contains a NUL character"
    assert guard.check("a\ud800", write=False) == "the path contains half a surrogate pair"
    assert guard.check("a/" * 2_049, write=False) == "the path is too long"


def test_both_the_spelling_and_the_target_of_a_link_are_judged(work: Path) -> None:
    (work / "fine.txt").write_text("x")
    (work / ".env").symlink_to("fine.txt")
    (work / "other.txt").symlink_to(".env")
    (work / "up").symlink_to("..")
    guard = guard_of(work)
    assert guard.check(".env", write=False) == f"'{work}/.env' is denied by '**/.env'"
    assert guard.check("other.txt", write=False) is None  # leads to fine.txt by a name that nobody spelled
    assert guard.check("up/work/fine.txt", write=False) is None
    assert guard.check("up/file", write=False) == f"'{work.parent}/file' is outside the allowed paths"


def test_a_session_folder_that_is_a_link_works_by_both_names(tmp_path: Path, work: Path) -> None:
    (tmp_path / "alias").symlink_to("work")
    (work / "a.txt").write_text("x")
    guard = guard_of(tmp_path / "alias")
    for path in ("a.txt", f"{tmp_path}/alias/a.txt", f"{work}/a.txt"):
        assert guard.check(path, write=True) is None
        with guard.open_read(path) as file:
            assert file.read() == b"x"
    assert [found.path for found in walk(guard, lambda name: True)] == [str(work / "a.txt")]


def test_an_allowed_folder_behind_a_link_works(tmp_path: Path, work: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "shared").symlink_to("real")
    (tmp_path / "real" / "a.txt").write_text("x")
    guard = guard_of(work, SafetyConfig(allowed_paths=["<cwd>/**", f"{tmp_path}/shared/**"]))
    assert guard.check(f"{tmp_path}/shared/a.txt", write=False) is None
    assert guard.check(f"{tmp_path}/other.txt", write=False) is not None


def test_denied_names_hold_in_any_case(work: Path) -> None:
    guard = guard_of(work, SafetyConfig(allowed_paths=[]))
    for path in (".ENV", "a/Credentials.json", "x/ID_RSA", "/etc/SHADOW", "//etc/shadow", "/etc/./shadow"):
        assert guard.check(path, write=False) is not None


def test_the_state_folder_cannot_be_written_even_inside_allowed_paths(tmp_path: Path, work: Path) -> None:
    guard = guard_of(work, FREE)
    state = tmp_path / "state"
    assert guard.check(str(state / "sessions" / "x.jsonl"), write=True) is not None
    assert guard.check(str(state), write=True) is not None
    for private in ("config.json", "sessions/x.jsonl", "aar.log", ""):
        reason = f"'{state / private!s}' is private to Aar or to a running program"
        assert guard.check(str(state / private), write=False) == reason
    for open_name in ("models/a.gguf", "themes/dark.json", "skills/a/SKILL.md", "rules.md", "rules.d/a.md"):
        assert guard.check(str(state / open_name), write=False) is None
    assert guard.check(str(tmp_path / "statement"), write=True) is None


def test_the_state_folder_is_found_in_the_environment(
    tmp_path: Path, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AAR_HOME", str(tmp_path / "home"))
    assert PathGuard(str(work), FREE).check(str(tmp_path / "home" / "config.json"), write=True) is not None
    monkeypatch.delenv("AAR_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    assert PathGuard(str(work), FREE).check(str(tmp_path / "user" / ".aar" / "x"), write=True) is not None


def test_without_rules_everything_but_protected_names_is_allowed(work: Path) -> None:
    guard = guard_of(work, FREE)
    assert guard.check("/etc/passwd", write=True) is None
    assert guard.check(str(work / ".git" / "hooks" / "pre-commit"), write=True) is not None


def test_a_special_file_is_no_file_and_is_not_touched(work: Path) -> None:
    os.mkfifo(work / "fifo")
    with pytest.raises(FileNotFoundError, match="a FIFO, not a regular file"):
        guard_of(work).open_read("fifo")
    with pytest.raises(FileNotFoundError, match="a device, not a regular file"):
        guard_of(work, FREE).open_read("/dev/zero")


def test_replacing_keeps_what_is_there_until_the_new_content_is_whole(work: Path) -> None:
    (work / "a.txt").write_text("old")
    (work / "a.txt").chmod(0o640)
    with (work / "a.txt").open() as reader:
        assert guard_of(work).replace("a.txt", b"new") == str(work / "a.txt")
        assert reader.read() == "old"
    assert (work / "a.txt").read_text() == "new"
    assert stat.S_IMODE((work / "a.txt").stat().st_mode) == 0o640
    assert os.listdir(work) == ["a.txt"]


def test_new_files_have_the_mode_that_the_user_wants(work: Path) -> None:
    (work / "plain").touch()
    guard_of(work).replace("new/file", b"")
    assert (work / "new/file").stat().st_mode == (work / "plain").stat().st_mode


# --- races --------------------------------------------------------------------------------------


class Swapper(threading.Thread):
    """Makes a name lead inside and outside in turns, as fast as it can."""

    def __init__(self, inside: Path, outside: Path, name: Path) -> None:
        super().__init__()
        self.stopping = threading.Event()
        self.inside, self.outside, self.name_to_swap = inside, outside, name

    def run(self) -> None:
        spare = self.name_to_swap.with_name("spare")
        while not self.stopping.is_set():
            for target in (self.outside, self.inside):
                spare.symlink_to(target)
                spare.rename(self.name_to_swap)

    def __enter__(self) -> Swapper:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        self.join()


def test_a_name_that_is_swapped_while_it_is_opened_never_leads_outside(tmp_path: Path, work: Path) -> None:
    for folder, text in ((work / "in", "fine"), (tmp_path / "out", "secret")):
        folder.mkdir()
        (folder / "file").write_text(text)
    (work / "name").symlink_to("in")
    guard = guard_of(work)
    outcomes = set()
    with Swapper(work / "in", tmp_path / "out", work / "name"):
        for _ in range(1500):
            try:
                with guard.open_read("name/file") as file:
                    outcomes.add(file.read())
            except (ToolError, FileNotFoundError):
                outcomes.add(b"refused")
            try:
                guard.replace("name/new", b"x")
            except ToolError:
                outcomes.add(b"refused")
    assert b"fine" in outcomes <= {b"fine", b"refused"}
    assert os.listdir(tmp_path / "out") == ["file"]


def test_a_file_that_is_swapped_for_a_link_never_leads_outside(tmp_path: Path, work: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    guard = guard_of(work)
    stopping = threading.Event()

    def swap() -> None:
        while not stopping.is_set():
            (work / "spare").write_text("fine")
            (work / "spare").rename(work / "file")
            (work / "spare").symlink_to(tmp_path / "secret")
            (work / "spare").rename(work / "file")

    (work / "file").write_text("fine")
    thread = threading.Thread(target=swap)
    thread.start()
    outcomes = set()
    try:
        for _ in range(1500):
            try:
                with guard.open_read("file") as file:
                    outcomes.add(file.read())
            except ToolError:
                outcomes.add(b"refused")
    finally:
        stopping.set()
        thread.join()
    assert b"fine" in outcomes <= {b"fine", b"refused"}


# --- any tree of links --------------------------------------------------------------------------

NAMES = st.sampled_from(["a", "b", ".env", "d"])
TARGETS = st.sampled_from(["a", "b", "d", "d/a", "..", "../out", "../out/a", "../work/a", "d/../b", ".env", "missing"])
KINDS = st.one_of(
    st.sampled_from(["file", "folder", "fifo"]),
    st.tuples(st.just("link"), TARGETS),
    st.tuples(st.just("absolute"), st.sampled_from(["out", "out/a", "work", "work/d"])),
    st.tuples(st.just("hard"), st.sampled_from(["out/a", "work/a", "work/.env", "out/.env"])),
)
PLACES = st.tuples(st.sampled_from(["work", "work/d", "out"]), NAMES)
SPELLINGS = st.lists(st.sampled_from(["a", "b", "d", ".env", "..", ".", "work", "out"]), min_size=1, max_size=4).map(
    "/".join
)


def build(root: Path, entries: Sequence[tuple[tuple[str, str], object]]) -> None:
    for folder in ("work", "work/d", "out"):
        (root / folder).mkdir()
    for (folder, name), kind in entries:
        path = root / folder / name
        if path.exists() or path.is_symlink():
            continue
        match kind:
            case "file":
                path.write_text(f"{folder}/{name}")
            case "folder":
                path.mkdir()
            case "fifo":
                os.mkfifo(path)
            case ("link", target):
                path.symlink_to(target)
            case ("absolute", target):
                path.symlink_to(root / target)
            case ("hard", target) if os.path.isfile(root / target) and not (root / target).is_symlink():
                os.link(root / target, path)


def model_allows(root: Path, path: str) -> bool:
    """May this be read? Slowly, from the definition: link-free name inside, regular, not denied by any name inside."""
    work = str(root / "work")
    literal = os.path.normpath(os.path.join(work, path))
    try:
        real = os.path.realpath(os.path.join(work, path), strict=True)
    except OSError:
        return False
    if not os.path.isfile(real) or not os.path.isfile(os.path.join(work, path)):  # `file/.` is nothing to the kernel
        return False
    for form in (literal, real):
        if not form.startswith(work + "/") or os.path.basename(form) == ".env":
            return False
    status = os.stat(real)
    inside = [one for one in (root / "work").rglob("*") if not one.is_symlink() and one.is_file()]
    return all(one.name != ".env" for one in inside if one.stat().st_ino == status.st_ino)


@given(st.lists(st.tuples(PLACES, KINDS), max_size=12), st.lists(SPELLINGS, min_size=1, max_size=12))
@settings(max_examples=150, deadline=None)
def test_what_can_be_read_is_what_the_rules_say_for_any_tree_of_links(
    entries: list[tuple[tuple[str, str], object]], spellings: list[str]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(os.path.realpath(folder))
        build(root, entries)
        guard = guard_of(root / "work")
        for path in spellings:
            try:
                with guard.open_read(path) as file:
                    opened = file.read().decode()
            except (OSError, ToolError):
                opened = ""
            assert bool(opened) == model_allows(root, path), path
            if opened:
                assert (root / "work" / path).read_text() == opened
        found = {one.name: one.path for one in walk(guard, lambda name: True)}
        assert set(found) == {
            name
            for name in ("a", "b", ".env", "d", "d/a", "d/b", "d/.env", "d/d")
            if not (root / "work/d").is_symlink() and model_allows(root, name)
        }
        for name, path in found.items():
            assert os.path.realpath(root / "work" / name) == path


@pytest.mark.covers("SAFE-04")
def test_the_first_path_rule_that_fits_beats_denied_and_allowed_paths(work: Path) -> None:
    rules = [
        PathRule("**/private/**", allow_read=False),
        PathRule("**/.env"),
        PathRule("/data/**", allow_write=True),
        PathRule("/data/late/**", allow_read=False),
    ]
    guard = guard_of(work, rules=rules)
    assert guard.check(".env", write=False) is None
    assert guard.check(".env", write=True) == f"'{work}/.env' is denied by the path rule '**/.env'"
    assert guard.check("private/.env", write=False) is not None
    assert guard.check("/data/late/x", write=True) is None
    assert guard.check("/elsewhere", write=False) == "'/elsewhere' is outside the allowed paths"


@pytest.mark.parametrize(
    "name",
    ["/proc/self/environ", "/proc/1/environ", "/proc/1/task/1/mem", "/proc/thread-self/maps", "/dev/fd/0", "link"],
)
def test_what_the_kernel_tells_of_processes_is_read_by_no_tool(work: Path, name: str) -> None:
    (work / "link").symlink_to("/proc/self/environ")
    guard = guard_of(work, FREE)
    with pytest.raises(ToolError, match="private to Aar or to a running program"):
        guard.open_read(name)
    assert guard.check("/proc/cpuinfo", write=False) is None


@pytest.mark.parametrize(
    "name",
    [".husky/pre-commit", ".claude/settings.json", ".cursor/mcp.json", ".zed/tasks.json", ".git/info/attributes"],
)
def test_folders_of_other_programs_that_run_commands_are_protected(work: Path, name: str) -> None:
    assert "is protected" in (guard_of(work, FREE).check(name, write=True) or "")


@pytest.mark.parametrize(
    "name",
    [
        ".git/rebase-merge/git-rebase-todo",  # may say `exec command`
        ".git/config.lock",
        ".git/HEAD",
        "sub/commondir",  # makes its folder a repository with settings from elsewhere
        "bare.git/config.lock",
        ".gitconfig",
        ".config/git/config",
    ],
)
def test_nothing_that_git_obeys_can_be_written(work: Path, name: str) -> None:
    assert "is protected" in (guard_of(work, FREE).check(name, write=True) or "")


@pytest.mark.parametrize(
    "name", [".gitignore", ".github/workflows/ci.yml", ".gitattributes", "src/hooks/use.ts", "config"]
)
def test_ordinary_files_of_a_project_can_be_written(work: Path, name: str) -> None:
    guard_of(work).replace(name, b"x")
    assert (work / name).read_bytes() == b"x"


@pytest.mark.parametrize("name", ["config", "hooks/post-checkout", "info/attributes", "config.worktree"])
def test_what_runs_programs_is_not_added_to_a_repository_of_any_name(work: Path, name: str) -> None:
    guard = guard_of(work, FREE)
    for one in ("HEAD", "objects/info/x", "refs/heads/main"):
        guard.replace(f"docs/{one}", b"x")
    with pytest.raises(ToolError, match="would make a Git repository"):
        guard.replace(f"docs/{name}", b"x")
    assert not (work / "docs" / name).exists()


@pytest.mark.parametrize("last", ["HEAD", "objects/info/x", "refs/heads/main"])
def test_hooks_do_not_become_those_of_a_repository(work: Path, last: str) -> None:
    guard = guard_of(work, FREE)
    for one in {"HEAD", "objects/info/x", "refs/heads/main", "hooks/post-checkout"} - {last}:
        guard.replace(f"docs/{one}", b"x")
    with pytest.raises(ToolError, match="would make a Git repository"):
        guard.replace(f"docs/{last}", b"x")


@pytest.mark.parametrize("last", ["HEAD", "config", "objects/info/x", "refs/heads/main"])
def test_no_file_completes_a_bare_repository(work: Path, last: str) -> None:
    guard = guard_of(work, FREE)
    names = ["HEAD", "config", "objects/info/x", "refs/heads/main"]
    for name in names:
        if name != last:
            guard.replace(f"docs/{name}", b"x")
    with pytest.raises(ToolError, match="would make a Git repository"):
        guard.replace(f"docs/{last}", b"x")
    assert not (work / "docs" / last).exists()


@pytest.mark.parametrize(
    "pattern",
    [
        "private",
        "private/",
        "./private",
        "./private/**",
        "private/**",
        "../work/private/**",
        "<cwd>/private",
        "**/private/",
        "**/private",
    ],
)
def test_a_denied_folder_is_denied_with_all_below_it_however_it_is_written(work: Path, pattern: str) -> None:
    guard = guard_of(work, SafetyConfig(denied_paths=[pattern]))
    assert "is denied by" in (guard.check("private/a/b", write=False) or "")
    assert guard.check("privateer", write=False) is None


@pytest.mark.parametrize("name", [".hidden", "_p", "-x"])
def test_relative_patterns_may_start_with_any_character(work: Path, name: str) -> None:
    guard = guard_of(work, SafetyConfig(denied_paths=[f"{name}/**"]))
    assert "is denied by" in (guard.check(f"{name}/x", write=False) or "")


# --- hard links ---------------------------------------------------------------------------------


def can_read(guard: PathGuard, path: str) -> bool:
    try:
        guard.open_read(path).close()
    except ToolError:
        return False
    return True


def test_a_file_that_a_package_store_has_linked_here_can_be_read(tmp_path: Path, work: Path) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "0f3a").write_text("x")
    (work / "node_modules").mkdir()
    os.link(tmp_path / "store" / "0f3a", work / "node_modules" / "index.js")
    os.link(tmp_path / "store" / "0f3a", work / "copy.js")
    guard = guard_of(work)
    assert can_read(guard, "node_modules/index.js")
    assert [found.name for found in walk(guard, lambda name: True)] == ["copy.js"]


@pytest.mark.parametrize("secret", [".env", "deep/down/key.pem", "private/plan"])
def test_a_hard_link_to_a_denied_file_of_the_folder_cannot_be_read(work: Path, secret: str) -> None:
    (work / secret).parent.mkdir(parents=True, exist_ok=True)
    (work / secret).write_text("x")
    os.link(work / secret, work / "innocent.txt")
    for allowed in (["<cwd>/**"], []):
        guard = guard_of(work, SafetyConfig(allowed_paths=allowed, denied_paths=["**/.env", "**/*.pem", "private"]))
        with pytest.raises(ToolError, match="by another of its names"):
            guard.open_read("innocent.txt")
        assert [found.name for found in walk(guard, lambda name: True)] == []


@pytest.mark.parametrize(
    "secret", ["user/.ssh/id_work", "user/.aws/sso/cache/a.json", "user/.netrc", "user/.config/gcloud/x", "state/s/a"]
)
def test_a_hard_link_to_a_secret_of_the_user_cannot_be_read(
    tmp_path: Path, work: Path, secret: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    (tmp_path / secret).parent.mkdir(parents=True)
    (tmp_path / secret).write_text("x")
    (tmp_path / "user").mkdir(exist_ok=True)
    (tmp_path / "user" / "notes").write_text("x")
    os.link(tmp_path / secret, work / "one")
    os.link(tmp_path / "user" / "notes", work / "two")
    guard = guard_of(work)
    assert [can_read(guard, name) for name in ("one", "two")] == [False, True]


def test_a_hard_link_to_a_file_in_a_denied_folder_elsewhere_cannot_be_read(tmp_path: Path, work: Path) -> None:
    (tmp_path / "vault").mkdir()
    (tmp_path / "vault" / "plan").write_text("x")
    os.link(tmp_path / "vault" / "plan", work / "one")
    for pattern in (f"{tmp_path}/vault/**", f"{tmp_path}/vault", f"{tmp_path}/vault/plan"):
        assert not can_read(guard_of(work, SafetyConfig(denied_paths=[pattern])), "one")
    assert can_read(guard_of(work, SafetyConfig(denied_paths=[f"{tmp_path}/other/**"])), "one")


def test_a_path_of_any_length_is_judged_in_time(work: Path) -> None:
    guard = guard_of(work)
    before = time.process_time()
    for path in ("a/" * 500_000, "../" * 300_000 + "x", "/" * 1_000_000, "é" * 2_100):
        assert guard.check(path, write=False) == "the path is too long"
        guard.resolve(path)
    assert time.process_time() - before < 1


@pytest.mark.parametrize("folder", ["kept", "kept/", "{work}/kept", "~/kept"])
def test_sessions_that_are_kept_in_the_working_folder_are_for_no_tool(
    work: Path, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(work))
    (work / "kept").mkdir()
    guard = PathGuard(str(work), FREE, state_dir=str(work.parent / "state"), private_dir=folder.format(work=work))
    for path in ("kept", "kept/a.jsonl", "./kept/../kept/a.jsonl"):
        assert "is private to Aar" in str(guard.check(path, write=False))
        assert "is private to Aar" in str(guard.check(path, write=True))
    assert guard.check("kept.txt", write=True) is None
