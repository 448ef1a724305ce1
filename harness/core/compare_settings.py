"""Which settings a comparison takes: those of its judging, and those of sides that are rolled out for it."""

OF_JUDGING = (
    *("judge_model", "judge_base_url", "judge_api", "judge_label", "judge_tier", "judge_budget", "judge_repeats"),
    *("jury", "rubric"),
    *("show_instructions", "seed", "judge_concurrency", "judge_timeout", "max_cost", "prices", "price_by_name"),
    *("request_timeout", "give_up", "grace", "retries", "repairs", "max_failures"),
)
"""They change those of the runs that are compared."""
OF_ROLLING_OUT = (
    *("n", "temperature", "top_p", "strict_temperature", "base_url", "api", "concurrency", "timeout", "max_turns"),
    *("approve", "redact", "upload_traces", "offline", "corpus"),
)
"""Only agents have a use for them."""
VARIED = ("instructions", "model")
"""The same; one agent with several values is as many sides."""
