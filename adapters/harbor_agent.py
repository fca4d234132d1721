"""Aar as an agent of Harbor, the harness of Terminal-Bench: installed in the container of a task, and run there.

    PYTHONPATH=adapters harbor run -d terminal-bench@2.0 --agent harbor_agent:Aar --model anthropic/claude-sonnet-4-6

`--ak package=...` names another package than `aar-agent` from the index: a version, an address, or a wheel of this
machine. Further `--ak`: `max_steps`, `timeout`, `cost_limit`, `server` (the address of a model server of your own).
"""

from __future__ import annotations

import json
import os
import shlex
import tempfile
from pathlib import Path
from typing import Any

from benchmark_config import MAX_STEPS, benchmark_config, key_variables, totals_of
from harbor.agents.installed.base import BaseInstalledAgent, with_prompt_template
from harbor.environments.base import BaseEnvironment
from harbor.models.agent.context import AgentContext

__all__ = ["Aar"]

PYTHON = "3.12"  # of Aar alone; that of the task stays as it is
CONFIG, TASK, OUTPUT = "aar-config.json", "task.md", "aar.json"
FINE = "3|4|5"  # exit codes: no more steps, no more time, no more money. What was done until then counts.
_PATH = 'export PATH="$HOME/.local/bin:$PATH"'


class Aar(BaseInstalledAgent):
    """Installs Aar with uv, writes its settings, gives it the task on standard input and reads what it took."""

    def __init__(
        self,
        logs_dir: Path,
        model_name: str | None = None,
        *,
        package: str = "aar-agent[anthropic,openai,gemini]",
        server: str = "",
        max_steps: int = MAX_STEPS,
        timeout: float = 0.0,
        cost_limit: float = 0.0,
        **more: Any,
    ) -> None:
        super().__init__(logs_dir=logs_dir, model_name=model_name, **more)
        self._package = package
        wheel = Path(package.partition("[")[0])
        self._wheel = wheel if wheel.is_file() else None
        self._config = benchmark_config(
            model_name or "",
            base_url=server,
            logs=str(self.environment_logs_dir),
            max_steps=int(max_steps),
            timeout=float(timeout),
            cost_limit=float(cost_limit),
        )

    @staticmethod
    def name() -> str:
        return "aar"

    def get_version_command(self) -> str:
        return f"{_PATH}; aar version"

    async def install(self, environment: BaseEnvironment) -> None:
        await self.ensure_system_dependencies(environment, ("curl", "bash", "ca_certificates"))
        package = self._package
        if self._wheel is not None:
            there = f"/tmp/{self._wheel.name}"
            await environment.upload_file(self._wheel, there)
            package = package.replace(str(self._wheel), there, 1)
        await self.exec_as_agent(
            environment,
            f"set -eu; {_PATH}; command -v uv >/dev/null || curl -LsSf https://astral.sh/uv/install.sh | sh; "
            f"uv tool install --python {PYTHON} {shlex.quote(package)}; aar version",
        )

    @with_prompt_template
    async def run(self, instruction: str, environment: BaseEnvironment, context: AgentContext) -> None:
        logs = self.environment_logs_dir
        await self._put(environment, CONFIG, json.dumps(self._config, indent=2))
        await self._put(environment, TASK, instruction)
        names = key_variables(self._config)
        keys = {name: os.environ[name] for name in names if name in os.environ}
        code = f"{_PATH}; aar run --config {logs}/{CONFIG} --output json - < {logs}/{TASK} > {logs}/{OUTPUT}"
        await self.exec_as_agent(environment, f"{code} || case $? in {FINE}) ;; *) exit 1 ;; esac", env=keys)

    async def _put(self, environment: BaseEnvironment, name: str, text: str) -> None:
        with tempfile.TemporaryDirectory() as folder:
            file = _written(Path(folder, name), text)
            await environment.upload_file(file, f"{self.environment_logs_dir}/{name}")

    def populate_context_post_run(self, context: AgentContext) -> None:
        output = self.logs_dir / OUTPUT
        totals = totals_of(output.read_text(encoding="utf-8"), self._config) if output.is_file() else None
        if totals is not None:
            context.n_input_tokens = totals.input_tokens
            context.n_cache_tokens = totals.cached_tokens
            context.n_output_tokens = totals.output_tokens
            context.cost_usd = totals.cost
            context.metadata = {"stop": totals.stop}


def _written(file: Path, text: str) -> Path:
    file.write_text(text, encoding="utf-8")
    return file
