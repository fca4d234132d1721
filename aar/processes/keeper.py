"""The program that starts Aar's children and outlives Aar just long enough to end them.

Run as `python -I -S keeper.py` with a socket to Aar as standard input. It has two parts. The *guard* is one process for
each Aar: it waits for requests, each of which is four descriptors, and forks a *keeper* for each. A keeper is the
parent of one command: it becomes the subreaper, so whatever the command forks comes back to it, also after `setsid`
and double forks, and it ends when the other side of its control socket closes: first politely, then by killing its
children until it has none. Aar closes that socket when it is done; the kernel closes it when Aar is killed. When a
command kills its keeper, the guard adopts what is left and kills it.

It is a program of its own because Aar has threads, and a process with threads must not run Python between fork and
exec. It imports nothing of Aar and nothing that is slow to load.

The control socket carries, to the keeper, one order (length, then `marshal` of argv, cwd, environment, term_grace and
the walls of `confinement.py`, or None) and then end of file. From the keeper come lines: `forked PID KEEPER`, then
`running` or `failed STEP ERRNO`, then `exited STATUS`, at last `gone`.
"""

from __future__ import annotations

import ctypes
import errno
import marshal
import os
import select
import signal
import socket
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress

PR_SET_PDEATHSIG, PR_SET_NAME, PR_SET_CHILD_SUBREAPER = 1, 15, 36
LENGTH_BYTES = 4
POLL_SECONDS = 0.005
STUBBORN_POLL_SECONDS = 0.1
LEAVE_SECONDS = 0.5

_libc = ctypes.CDLL(None)


def _prctl(option: int, value: int | bytes) -> None:
    _libc.prctl(option, value if isinstance(value, bytes) else ctypes.c_ulong(value), *[ctypes.c_ulong(0)] * 3)


def _wake_when_parent_dies() -> None:
    """A command may have stopped us; with Aar gone nobody else would let us go on to see the end of file."""
    _prctl(PR_SET_PDEATHSIG, signal.SIGCONT)


def guard(requests: socket.socket) -> None:
    """Fork a keeper for each request until Aar closes the socket."""
    _prctl(PR_SET_NAME, b"aar-guard")
    _wake_when_parent_dies()
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    wake = _wake_at_child_ends()
    keepers: set[int] = set()
    while True:
        ready, _, _ = select.select([requests.fileno(), wake], [], [])
        if wake in ready:
            _drain(wake)
            _end_adopted(keepers)
        if requests.fileno() not in ready:
            continue
        message, descriptors, _, _ = socket.recv_fds(requests, 1, 4)
        if not message:
            return _leave(keepers, wake)
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)
        try:
            forked = os.fork()
        except OSError:
            forked = -1  # Aar sees its control socket close
        if forked == 0:
            os.close(wake)
            _run_keeper(requests, descriptors)
        if forked > 0:
            keepers.add(forked)
        for descriptor in descriptors:
            os.close(descriptor)


def _wake_at_child_ends() -> int:
    """A descriptor that can be read once a child has ended."""
    wake, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    return wake


def _end_adopted(keepers: set[int]) -> None:
    """Reap, and kill what came to us because somebody killed its keeper. What that leaves comes with its end."""
    with suppress(ChildProcessError):
        while pid := os.waitpid(-1, os.WNOHANG)[0]:
            keepers.discard(pid)
    _signal_groups(signal.SIGKILL, spared=keepers)


def _leave(keepers: set[int], wake: int) -> None:
    """Stay for those that we just adopted, but not for ever."""
    until = time.monotonic() + LEAVE_SECONDS
    _end_adopted(keepers)
    while not keepers.issuperset(_children()) and time.monotonic() < until:
        select.select([wake], [], [], POLL_SECONDS)
        _drain(wake)
        _end_adopted(keepers)


def _run_keeper(requests: socket.socket, descriptors: list[int]) -> None:
    try:
        os.dup2(1, requests.detach())  # standard input is nothing, like standard output
        with socket.socket(fileno=descriptors[0]) as control:
            keep(control, descriptors[1:])
    finally:
        os._exit(0)


def keep(control: socket.socket, stdio: list[int]) -> None:
    """Start one command, tell how it ends, and leave nothing of it behind."""
    os.setsid()
    _prctl(PR_SET_NAME, b"aar-keeper")
    _wake_when_parent_dies()
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    wake = _wake_at_child_ends()
    leader = _obey(control, stdio)
    for descriptor in stdio:
        os.close(descriptor)
    if leader:
        _watch_and_end(control, wake, *leader)
    _tell(control, "gone")


def _obey(control: socket.socket, stdio: list[int]) -> tuple[int, float] | None:
    """Start what Aar orders: the pid of the command and its term_grace, None when there is nothing to watch."""
    order = _receive_order(control)
    if order is None or _has_left(control):
        return None
    argv, cwd, env, term_grace, walls = marshal.loads(order)
    pid = _start(control, argv, cwd, env, stdio, walls)
    return (pid, term_grace) if pid else None


def _receive_order(control: socket.socket) -> bytes | None:
    header = _receive(control, LENGTH_BYTES)
    return _receive(control, int.from_bytes(header, "big")) if header else None


def _receive(control: socket.socket, size: int) -> bytes | None:
    """Exactly `size` bytes, or None when Aar left first."""
    received = bytearray()
    while len(received) < size:
        chunk = _recv(control, size - len(received))
        if not chunk:
            return None
        received += chunk
    return bytes(received)


def _recv(control: socket.socket, size: int) -> bytes:
    """What has come; nothing when Aar is gone, also when it died before it had read all that we told it."""
    try:
        return control.recv(size)
    except OSError:
        return b""


def _has_left(control: socket.socket) -> bool:
    """Aar may have given up while we could not start: after the order nothing comes but the end."""
    return bool(select.select([control.fileno()], [], [], 0)[0])


def _tell(control: socket.socket, line: str) -> None:
    with suppress(OSError):  # Aar may be gone, and then there is nobody to tell
        control.sendall(f"{line}\n".encode())


# --- starting ---------------------------------------------------------------------------------


def _start(
    control: socket.socket,
    argv: list[bytes],
    cwd: bytes,
    env: dict[bytes, bytes],
    stdio: list[int],
    walls: tuple[object, ...] | None,
) -> int:
    """The pid of the command, or 0 when it could not be started; Aar is told either way."""
    ours, theirs = socket.socketpair()
    keeper = os.getpid()
    try:
        leader = os.fork()
    except OSError as error:
        _tell(control, f"failed fork {error.errno}")
        return 0
    if leader == 0:
        ours.close()
        _become(theirs, keeper, argv, cwd, env, stdio, walls)
    theirs.close()
    _tell(control, f"forked {leader} {keeper}")
    with ours:
        ours.send(b"+")  # not earlier: the command may kill us, and then Aar has to know that it ran
        trouble = _recv(ours, 64).decode()  # nothing once it is running
    if trouble:
        os.waitpid(leader, 0)
        _tell(control, f"failed {trouble}")
        return 0
    _tell(control, "running")
    return leader


def _become(
    report: socket.socket,
    keeper: int,
    argv: list[bytes],
    cwd: bytes,
    env: dict[bytes, bytes],
    stdio: list[int],
    walls: tuple[object, ...] | None,
) -> None:
    """In the child: turn into the command. Does not return."""
    step = "chdir"
    try:
        os.setsid()
        _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != keeper or not _recv(report, 1):
            os._exit(1)
        signal.set_wakeup_fd(-1)
        for ignored in (signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(ignored, signal.SIG_DFL)
        os.chdir(cwd)
        for number, descriptor in enumerate(stdio):
            os.dup2(descriptor, number)
        if walls is not None:
            step = "wall:program"
            for wall in _walls()(*walls):
                step = f"wall:{wall}"
        step = "exec"
        os.execvpe(argv[0], argv, env)
    except Exception as error:  # the end of this program, so that no mistake in it becomes a command that runs
        report.send(f"{step} {getattr(error, 'errno', errno.EINVAL)}".encode())
    finally:
        os._exit(127)


def _walls() -> Callable[..., Iterator[str]]:
    """What puts them up: `walls.py`, which is read here, where `aar` cannot be imported, and only when it is needed."""
    from _frozen_importlib_external import SourceFileLoader  # loading importlib.machinery takes a millisecond

    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "walls.py")
    module = type(os)("walls")
    SourceFileLoader("walls", path).exec_module(module)
    put_up: Callable[..., Iterator[str]] = module.put_up
    return put_up


# --- watching and ending ----------------------------------------------------------------------


def _watch_and_end(control: socket.socket, wake: int, leader: int, term_grace: float) -> None:
    told = False
    try:
        while not _is_over(control, wake):
            told = told or _tell_exit(control, leader)
            _reap_adopted(leader)
    finally:
        _end(control, wake, None if told else leader, term_grace)


def _is_over(control: socket.socket, wake: int) -> bool:
    """Wait until a child ends (False) or Aar wants the end (True)."""
    ready, _, _ = select.select([control.fileno(), wake], [], [])
    _drain(wake)
    return control.fileno() in ready and not _recv(control, 1)


def _tell_exit(control: socket.socket, leader: int) -> bool:
    """Tell the status once it is there. The leader stays a zombie, so that its id cannot be given away."""
    ended = os.waitid(os.P_PID, leader, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    if ended is None:
        return False
    status = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
    _tell(control, f"exited {status}")
    return True


def _reap_adopted(leader: int) -> None:
    for pid in _children():
        if pid != leader:
            os.waitpid(pid, os.WNOHANG)


def _end(control: socket.socket, wake: int, untold: int | None, term_grace: float) -> None:
    """Ask to end, wait, then kill until no child is left, for they may go on forking while we kill.

    `untold` is the leader while Aar does not know its exit status.
    """
    polite_until = time.monotonic() + term_grace
    stubborn_from = polite_until + 1.0
    _signal_groups(signal.SIGTERM)
    _signal_groups(signal.SIGCONT)  # a stopped process gets the request only when it goes on
    for pid, status in _reaped(wake, polite_until, stubborn_from):
        if pid == untold:
            _tell(control, f"exited {os.waitstatus_to_exitcode(status)}")


def _reaped(wake: int, polite_until: float, stubborn_from: float) -> Iterator[tuple[int, int]]:
    """Every child with its status, as they end, until there is none."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid:
            yield pid, status
            continue
        now = time.monotonic()
        if now < polite_until:
            pause = polite_until - now
        else:
            _signal_groups(signal.SIGKILL)
            pause = POLL_SECONDS if now < stubborn_from else STUBBORN_POLL_SECONDS
        select.select([wake], [], [], pause)
        _drain(wake)


def _signal_groups(number: int, spared: Collection[int] = ()) -> None:
    """Signal the groups of our own children only: nobody but us reaps them, so their ids are theirs."""
    own = os.getpgrp()
    for pid in _children():
        if pid in spared:
            continue
        try:
            group = os.getpgid(pid)
            if group == own:
                os.kill(pid, number)
            else:
                os.killpg(group, number)
        except OSError:
            continue  # ended meanwhile, or belongs to another user


def _children() -> list[int]:
    try:
        with open(f"/proc/self/task/{os.getpid()}/children") as listing:
            return [int(pid) for pid in listing.read().split()]
    except FileNotFoundError:  # a kernel without CONFIG_PROC_CHILDREN
        return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _parent(pid) == os.getpid()]


def _parent(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            return int(stat.read().rpartition(b")")[2].split()[1])
    except OSError:
        return 0


def _drain(wake: int) -> None:
    with suppress(BlockingIOError):
        while os.read(wake, 4096):
            pass


if __name__ == "__main__":
    with socket.socket(fileno=0) as requests_from_aar:
        guard(requests_from_aar)
