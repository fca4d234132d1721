"""A first extension: copy it, rename it, change it. Aar calls `register` once, when it starts."""


def register(api):
    @api.on("session_start")
    def hello(event, ctx):
        ctx.logger.info("hello from %s", api.name)

    # A tool that the model may call:
    #
    # @api.tool(
    #     "word_count",
    #     "Count the words of a text.",
    #     {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
    # )
    # def word_count(text):
    #     return str(len(text.split()))

    # A command that you type as /hello:
    #
    # @api.command("hello", description="Say hello.")
    # def say_hello(args, ctx):
    #     return f"Hello, {args or 'world'}."

    # A guard: calls that it blocks do not run.
    #
    # @api.on("tool_call")
    # def no_force_push(call, ctx):
    #     if call.tool_name == "bash" and "push --force" in call.arguments.get("command", ""):
    #         return api.block("force pushes are for people")

    # A sentence for the system prompt:
    #
    # api.append_system_prompt("Answer in British English.")
