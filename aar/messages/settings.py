"""Every setting with its default. Frozen: a change makes a new object.

Finding, merging and explaining configuration files is `aar/config.py`.
"""

import math
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

__all__ = [
    "BUILTIN_TOOLS",
    "DENIED_COMMANDS",
    "DENIED_PATHS",
    "AgentConfig",
    "ExtensionConfig",
    "GuardrailsConfig",
    "LinuxSandbox",
    "MORE_TOOLS",
    "ProviderConfig",
    "SafetyConfig",
    "SandboxConfig",
    "ToolConfig",
    "TuiConfig",
    "WindowsSandbox",
    "WslSandbox",
    "merge_patch",
    "merge_settings",
]

BUILTIN_TOOLS = (
    "read_file",
    "write_file",
    "edit_file",
    "list_directory",
    "bash",
    "grep",
    "find_files",
)

# These come with Aar, too, and are there where `enabled_builtins` names them.
MORE_TOOLS = ("patch", "batch", "load_tools", "todo", "done", "task", "skill", "memory_read", "memory_write")

DENIED_PATHS = (
    "/etc/shadow",
    "/etc/passwd",
    "/etc/sudoers",
    "/etc/sudoers.d/**",
    "**/.env",
    "**/.env.*",
    "**/credentials",
    "**/credentials.*",
    "**/secrets",
    "**/secrets.*",
    "**/*.pem",
    "**/*.key",
    "**/*.p12",
    "**/*.pfx",
    "**/.ssh/**",
    "**/id_rsa",
    "**/id_dsa",
    "**/id_ecdsa",
    "**/id_ed25519",
    "**/.aws/**",
    "**/.azure/**",
    "**/.config/gcloud/**",
    "**/.netrc",
    "**/.npmrc",
    "**/.pypirc",
)

DENIED_COMMANDS = (
    "rm -rf /",
    "rm -rf /*",
    "rm -rf ~",
    "mkfs",
    "dd if=",
    "> /dev/sda",
    "shutdown",
    "reboot",
    "halt",
    "poweroff",
    "init 0",
    "init 6",
    ":(){:|:&};:",
    "chmod 777",
    "chmod -R 777",
    "curl|sh",
    "curl | sh",
    "curl|bash",
    "curl | bash",
    "wget|sh",
    "wget | sh",
    "wget|bash",
    "wget | bash",
    "nc -e",
    "ncat -e",
    "history -c",
)


class Settings(BaseModel):
    """Unknown keys are kept out here; `aar/config.py` warns about them with the nearest known name.

    A part that is left out is made from `{}` by the schema of the whole: a `default_factory` would need a schema of its
    own for each part, which every start would have to build.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)


def _seconds(value: Any) -> float:
    """A finite number of seconds, 0 or more. Text and booleans are mistakes, not numbers."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("must be a number of seconds, 0 or more (0 waits for ever)")
    if not math.isfinite(value) or value < 0:
        raise ValueError("must be a finite number of seconds, 0 or more (0 waits for ever)")
    return float(value)


class ProviderConfig(Settings):
    """One model behind one API. `None` in a limit falls back to the global one, 0 turns it off."""

    name: str = "anthropic"
    model: str = "claude-sonnet-4-6"
    api_key: str = ""
    base_url: str = ""
    max_tokens: int = Field(default=4096, ge=0)
    temperature: float = Field(default=0.0, ge=0.0)
    context_window: int | None = Field(default=None, ge=0)
    token_budget: int | None = Field(default=None, ge=0)
    cost_limit: float | None = Field(default=None, ge=0.0)
    response_format: Literal["", "text", "json", "json_object", "json_schema"] = ""
    json_schema: dict[str, Any] = {}
    extra: dict[str, Any] = {}

    @property
    def label(self) -> str:
        """`provider/model`, as users write it."""
        return f"{self.name}/{self.model}"


_DEFINED: dict[str, type] = {
    "description": str,
    "usage": str,
    "examples": list,
    "parallel": bool,
    "disabled": bool,
    "condition": str,
}


def _definitions(value: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    for tool, entry in value.items():
        for key, told in entry.items():
            kind = _DEFINED.get(key)
            if kind is None:
                raise ValueError(f"{tool}.{key[:80]} is unknown; known: {', '.join(_DEFINED)}")
            if not isinstance(told, kind) or (isinstance(told, list) and not all(isinstance(one, str) for one in told)):
                raise ValueError(f"{tool}.{key} must be of type {kind.__name__}")
    return value


class ToolConfig(Settings):
    """`filters` are patterns of tool names by who says so: each leaves some of the tools, and none brings one back.

    `!name*` takes away. Tools in `opt_in` are there only where a filter names them in full. `definitions` is what a
    tool is to be instead, by its name: its words for the model, how it runs, and whether and when it is there.
    Tools that fit `deferred` are there once the model has loaded them.
    """

    enabled_builtins: list[str] = list(BUILTIN_TOOLS)
    bash_default_timeout: int = Field(default=120, ge=1)
    command_timeout: int = Field(default=300, ge=0)
    max_output_chars: int = Field(default=50_000, ge=1)
    env_keep: list[str] = []
    filters: dict[str, list[str]] = {}
    opt_in: list[str] = []
    deferred: list[str] = []
    definitions: Annotated[dict[str, dict[str, Any]], AfterValidator(_definitions)] = {}


class LinuxSandbox(Settings):
    """`writable` are folders beside the workspace. `allow_fallback`: rather run without walls than not at all."""

    workspace: str | None = None
    writable: list[str] = []
    max_memory_mb: int = Field(default=512, ge=1)
    unix_sockets: bool = False
    allow_fallback: bool = False


class WindowsSandbox(Settings):
    workspace: str | None = None
    max_memory_mb: int = Field(default=512, ge=1)
    max_processes: int = Field(default=10, ge=1)
    use_low_integrity: bool = True


class WslSandbox(Settings):
    profile: str | None = None
    distro: str = "aar-sandbox"
    shell: str = "sh"
    wsl_user: str | None = None
    restrict_to_workspace: bool = True
    workspace: str | None = None
    install_path: str | None = None
    rootfs_url: str = (
        "https://dl-cdn.alpinelinux.org/alpine/v3.23/releases/x86_64/alpine-minirootfs-3.23.0-x86_64.tar.gz"
    )
    pre_install_commands: list[str] = []
    packages: list[str] = ["python3", "py3-pip"]
    package_install_command: str = "apk add --no-cache {packages}"
    system_prompt_hint: str = ""


class SandboxConfig(Settings):
    """Where shell commands run. A plain string is short for the mode."""

    mode: Literal["local", "linux", "windows", "wsl", "auto"] = "local"
    local: dict[str, Any] = {}
    linux: LinuxSandbox = Field(default={}, validate_default=True)
    windows: WindowsSandbox = Field(default={}, validate_default=True)
    wsl: WslSandbox = Field(default={}, validate_default=True)


def _sandbox(value: Any) -> Any:
    return {"mode": value} if isinstance(value, str) else value


class SafetyConfig(Settings):
    """What tools may do. `<cwd>` in a pattern stands for the session's folder.

    `deny`, `confirm` and `auto` are rules for calls, as `tool` or `tool:prefix*`; the first of the three counts most.
    """

    read_only: bool = False
    require_approval_for_writes: bool = True
    require_approval_for_execute: bool = True
    denied_paths: list[str] = list(DENIED_PATHS)
    allowed_paths: list[str] = ["<cwd>/**"]
    sandbox: Annotated[SandboxConfig, BeforeValidator(_sandbox)] = Field(default={}, validate_default=True)
    deny: list[str] = []
    confirm: list[str] = []
    auto: list[str] = []
    read_before_write: bool = False
    log_all_commands: bool = False
    acp_approval_timeout: Annotated[float, BeforeValidator(_seconds)] = 0.0


class TuiConfig(Settings):
    theme: str = "default"
    layout: dict[str, Any] = {}
    history: bool = True
    keymap: Literal["default", "enter"] = "default"
    keys: dict[str, str] = {}


class GuardrailsConfig(Settings):
    max_tokens_recoveries: int = Field(default=2, ge=0)
    max_repeated_tool_steps: int = Field(default=3, ge=1)
    reserve_tokens: int = Field(default=512, ge=0)
    reserve_cost_fraction: float = Field(default=0.1, ge=0.0, le=1.0)


class ExtensionConfig(Settings):
    """`builtin` names shipped extensions to load. `replace_tools`: tools whose place those of extensions may take.

    `include` and `exclude` are patterns of names. `settings` are those of extensions by their names; `local` has
    others for the folders that it names.
    """

    enabled: bool = True
    builtin: list[str] = []
    include: list[str] = ["*"]
    exclude: list[str] = []
    replace_tools: list[str] = []
    settings: dict[str, dict[str, Any]] = {}
    local: dict[str, dict[str, dict[str, Any]]] = {}


class AgentConfig(Settings):
    """All settings of a session. `provider` is an object, or a key of `providers`.

    `fallback_providers` are keys of `providers` too: who is asked next when the one before cannot be reached.
    `agent` and `mode` name files of the user's; `prompts` is what they add to the system prompt, by who says it.
    `fallback_agents` are agents in order, each as `{"agent": name, "patch": what makes it the one in force}`.
    """

    agent: str = ""
    mode: str = ""
    provider: ProviderConfig | str = Field(default={}, validate_default=True)
    providers: dict[str, ProviderConfig] = {}
    fallback_providers: list[str] = []
    fallback_agents: list[dict[str, Any]] = []
    tools: ToolConfig = Field(default={}, validate_default=True)
    safety: SafetyConfig = Field(default={}, validate_default=True)
    tui: TuiConfig = Field(default={}, validate_default=True)
    guardrails: GuardrailsConfig = Field(default={}, validate_default=True)
    extensions: ExtensionConfig = Field(default={}, validate_default=True)
    injectors: dict[str, Any] = {}
    shell_hooks: dict[str, Any] = {}
    reviewer: dict[str, Any] = {}
    max_steps: int = Field(default=50, ge=1)
    timeout: Annotated[float, BeforeValidator(_seconds)] = 0.0
    max_retries: int = Field(default=3, ge=1)
    streaming: bool = False
    context_window: int = Field(default=0, ge=0)
    context_strategy: Literal["sliding_window", "compact", "none"] = "sliding_window"
    compact_at: float = Field(default=0.0, ge=0.0, le=1.0)
    compact_keep: int = Field(default=10, ge=1)
    token_budget: int = Field(default=0, ge=0)
    cost_limit: float = Field(default=0.0, ge=0.0)
    token_warning_threshold: float = Field(default=0.8, ge=0.0, le=1.0)
    cost_warning_threshold: float = Field(default=0.8, ge=0.0, le=1.0)
    session_dir: str = "~/.aar/sessions"
    file_snapshots: bool = False
    transcript_file: str | None = None
    attachable: bool = True
    project_rules_dir: str = ".agent"
    system_prompt: str = ""
    prompts: dict[str, str] = {}
    agents_md: Literal["all", "global", "local", "none"] = "none"
    log_level: str = "WARNING"
    log_file: str | None = None

    def resolve_provider(self) -> ProviderConfig:
        """The active provider's settings. Raises `ValueError` when `provider` names no profile."""
        if isinstance(self.provider, ProviderConfig):
            return self.provider
        return self._profile(self.provider, "Provider")

    def resolve_fallbacks(self) -> dict[str, ProviderConfig]:
        """The settings of the fallback providers by their keys, in order. Raises `ValueError` for an unknown key."""
        return {key: self._profile(key, "Fallback provider") for key in self.fallback_providers}

    def _profile(self, key: str, what: str) -> ProviderConfig:
        found = self.providers.get(key)
        if found is None:
            available = ", ".join(sorted(self.providers)) or "(none)"
            raise ValueError(f"{what} key '{key}' not found in providers dict. Available: {available}")
        return found

    @property
    def effective_context_window(self) -> int:
        own = self.resolve_provider().context_window
        return self.context_window if own is None else own

    @property
    def effective_token_budget(self) -> int:
        own = self.resolve_provider().token_budget
        return self.token_budget if own is None else own

    @property
    def effective_cost_limit(self) -> float:
        own = self.resolve_provider().cost_limit
        return self.cost_limit if own is None else own

    def patched(self, patch: dict[str, Any]) -> "AgentConfig":
        """These settings with a patch over them, see `merge_settings`. Raises `pydantic.ValidationError`."""
        base = self.model_dump()
        base["provider"] = self.resolve_provider().model_dump()
        provider = patch.get("provider")
        if isinstance(provider, dict) and provider.get("name", "") is None:  # nobody else's: this one's, changed
            patch = {**patch, "provider": {key: value for key, value in provider.items() if key != "name"}}
        return AgentConfig.model_validate(merge_settings(base, patch))


def merge_settings(base: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """`base` with a JSON merge patch over it, but a provider that is named replaces the other one as a whole.

    So do definitions of tools. What was set for one provider (address, key, extra) means nothing to another.
    """
    provider = patch.get("provider")
    if isinstance(provider, str) or (isinstance(provider, dict) and "name" in provider):
        base = {**base, "provider": None}
    tools = patch.get("tools")
    if isinstance(tools, dict) and "definitions" in tools and isinstance(base.get("tools"), dict):
        base = {**base, "tools": {**base["tools"], "definitions": None}}
    merged: dict[str, Any] = merge_patch(base, patch)
    return merged


_NULL_MEANS_SOMETHING = ("context_window", "token_budget", "cost_limit", "log_file")


def merge_patch(base: Any, patch: Any) -> Any:
    """`base` with a JSON merge patch (RFC 7396) over it; `null` removes, save where it is a value of its own."""
    if not isinstance(patch, dict) or not isinstance(base, dict):
        return patch
    merged = dict(base)
    for key, value in patch.items():
        if value is None and key not in _NULL_MEANS_SOMETHING:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value) if isinstance(value, dict) else value
    return merged
