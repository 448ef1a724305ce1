"""What the commands take that start a run."""

import click

from harness.cli import completion, options
from harness.core.fork_rules import ForkRules

run_command = options.declared(
    "begin:begin_run",
    """Run an agent N times on each query, judge the runs pairwise, rank them, and archive everything.

    Keys come from OPENAI_API_KEY (and HARNESS_JUDGE_API_KEY for a judge elsewhere). With neither a key nor an
    address the packaged example agents run on an embedded model and judge, as a self-test.
    """,
    options.query_argument,
    options.run_agent_option,
    click.option("--queries", metavar="FILE", help="Many queries: JSONL, CSV or lines; - for stdin."),
    options.setting_options(
        *("n", "temperature", "anchor_temperature", "top_p", "vary", "strict_temperature", "model", "base_url", "api"),
        *options.RANKING_SETTINGS,
        *("show_instructions", "concurrency", "judge_concurrency", "max_unjudged", "engine", "ray_address"),
        *("ship", "isolate", "memory", "timeout", "judge_timeout", "request_timeout", "give_up", "grace", "retries"),
        *("repairs", "max_turns", "approve", "max_failures", "max_cost", "prices", "price_by_name", "seed", "shard"),
        *("redact", "tokens", "upload_traces", "offline", "instructions", "corpus", "runs_dir"),
    ),
    options.config_option,
    options.reuse_option,
    options.dry_run_option,
    options.wait_option,
    options.caller("json", "wide", "quiet", "report", "verbose"),
)
best_command = options.declared(
    "begin:begin_best",
    """Run an agent N times on a query and print the best answer alone; the runs are archived.

    Every pair of runs meets once before the judge until one is surely best; from 16 runs on by double elimination.
    A structured output is printed as JSON. A line on stderr says why the answer is the best. Exits 0 with an answer,
    even if other runs or the judge failed (without verdicts it is the answer of run 0, the anchor); 3 without.
    """,
    options.query_argument,
    options.run_agent_option,
    options.setting_options("confidence", default="0.95"),
    options.setting_options(
        *("n", "temperature", "anchor_temperature", "top_p", "vary", "strict_temperature", "model", "base_url", "api"),
        *("judge_model", "judge_base_url", "judge_api", "judge_label", "judge_profile", "rubric", "show_instructions"),
        *("concurrency", "judge_concurrency", "timeout", "judge_timeout", "request_timeout", "give_up", "grace"),
        *("retries", "repairs", "max_turns", "approve", "max_cost", "prices", "price_by_name"),
        *("require_citations", "seed", "upload_traces", "offline", "instructions", "corpus", "runs_dir"),
    ),
    click.option(
        "--deadline",
        type=click.FloatRange(min=0, min_open=True, max=1e9),
        metavar="SECONDS",
        help="Answer within so many seconds: by what is there by then. Two thirds are for the runs, the rest for "
        "judging.",
    ),
    options.config_option,
    options.dry_run_option,
    options.caller("json", "quiet", "verbose"),
)
fork_command = options.declared(
    "begin:begin_fork",
    """Take recorded rollouts up again at chosen model calls: the calls before from the record, the rest live.

    Makes a new run: the rollouts of RUN, and branches, ranked together; `harness credit` then says which step decided.
    Every request before a branch is compared with the record, and tools give what they gave; only new model calls and
    verdicts are bought. The run's own settings hold.
    """,
    options.run_argument,
    options.record(
        "rules",
        ForkRules,
        click.option(
            "--at",
            metavar="PLACES",
            help="After which model calls, with commas (0: a fresh rollout); `parted`: where ranked rollouts part; "
            "`auto`: where a branch tells most of which step decided (with --budget); `tools`: after each result of a "
            "tool; `all`. Equal states count once, but for numbers. [default: auto with --budget, else parted]",
        ),
        click.option(
            "--rollout",
            "-r",
            "rollouts",
            type=int,
            multiple=True,
            help="Only this rollout. Repeatable. [default: all that ended well]",
        ),
        options.query_option("Only this query, by its id. [default: all]"),
        click.option(
            "--branches", type=click.IntRange(1, 1000), default=1, help="So many from each place. [default: 1]"
        ),
        click.option(
            "--budget",
            type=click.IntRange(1),
            metavar="CALLS",
            help="New model calls at most: branches are begun until the next would not fit. [default: no limit]",
        ),
        options.flag("--live-tools", "Run the tools before a branch again; one that gives another output ends it."),
    ),
    click.option(
        "--edit",
        "edit_file",
        type=options.FILE,
        metavar="FILE",
        help="Change a step of one rollout, and go on from there: JSON with `call` (from 1) and `output` (of a tool; "
        "`tool` names it) or `message` (of the model).",
    ),
    options.agent_option("Where the run's agent is now. [default: where it was]"),
    options.setting_options("base_url", "judge_base_url", default="the run's own, and no other"),
    options.trust_option,
    options.setting_options("max_cost", default="none"),
    options.setting_options("prices", "price_by_name", "concurrency", "judge_concurrency", default="the run's own"),
    options.setting_options("approve", default="the run's own, then the agent file's approve()"),
    options.dry_run_option,
    options.caller("runs_dir", "json", "wide", "quiet", "report", "verbose"),
)
resume_command = options.declared(
    "begin:begin_resume",
    """Do what is missing of a run that was stopped: rollouts, verdicts, the ranking; or of a comparison or improvement.

    What is there is kept. The run's own settings hold; keys come from the environment. On a finished run it says so and
    costs nothing. A run that came from elsewhere gets keys only with its addresses named here, or with --trust-archive;
    a path or a module that it names as its agent is loaded only with --agent.
    """,
    click.argument(
        "run",
        metavar="[RUN]",
        required=False,
        shell_complete=completion.run_ids,
        help="As for the other commands. [default: the last unfinished]",
    ),
    options.agent_option("Where the run's agent is now. [default: where it was]"),
    options.flag("--retry-failed", "Run failed rollouts again, too."),
    options.flag("--accept-changed-agent", "Go on although the agent has changed; the archive notes the change."),
    options.setting_option("rubric", default="the text that the run holds"),
    options.setting_options("base_url", "judge_base_url", default="the run's own, and no other"),
    options.trust_option,
    options.setting_options(
        *("max_cost", "prices", "price_by_name", "concurrency", "judge_concurrency", "max_unjudged"),
        default="the run's own",
    ),
    options.setting_options("engine", "ray_address", "ship", "isolate", "memory"),
    options.setting_options("instructions", default="the text that the run holds"),
    options.setting_options("approve", default="the run's own, then the agent file's approve()"),
    options.wait_option,
    options.caller("runs_dir", "json", "wide", "quiet", "report", "verbose"),
)
doctor_command = options.declared(
    "doctor:doctor",
    """Tell what `run` with the same options would use, whether it would work, and what to set where it would not.

    Without --live no model is asked and nothing is spent. A model server found on this machine is shown with the
    command that uses it; doctor never switches to one. Exits 2 if anything failed that would stop a run. With --judge
    only the judge is looked at: it is asked about each pair in both orders, and its verdicts are compared with the
    known answers.
    """,
    options.run_agent_option,
    options.setting_options(
        *("model", "base_url", "api", "judge_model", "judge_base_url", "judge_api", "judge_label", "rubric", "offline"),
        *("judge_agent", "judge_agent_when", "judge_max_turns", "judge_timeout", "give_up", "approve"),
        *("prices", "price_by_name"),
    ),
    options.config_option,
    options.flag("--live", "Ask the models too: one small call for each thing that only they can tell."),
    options.flag("--judge", "Ask the judge about pairs with known answers, and say how often it is right."),
    options.file_option(
        "--pairs",
        "With --judge: your own pairs, JSONL or CSV: query, a, b, label a|b|tie; or query, chosen, rejected; or run, "
        "query_id, rollouts (two numbers), label. "
        "[default: packaged]",
    ),
    click.option(
        "--probe",
        metavar="RUN",
        shell_complete=completion.run_ids,
        help="With --judge: ask the judge of a run what it gives for length, formatting and talk of itself, by at most "
        "40 calls on answers of the run; `rescore` then takes that out.",
    ),
    click.option(
        "--ports",
        metavar="LIST",
        help="Ports of this machine to look for model servers at, with commas; an empty list for none. "
        "[default: 8000,8080,11434,1234,4000,30000]",
    ),
    options.caller("runs_dir", "json", "wide"),
)
_new_agent = options.declared(
    "new_files:new_agent",
    """Copy a packaged example agent into agents_config/, ready to edit.""",
    click.argument("name", help="What --agent will take: the file is agents_config/NAME.py."),
    click.option(
        "--from", "source", default="search", metavar="NAME", help="The packaged example to copy. [default: search]"
    ),
    options.overwrite_option,
)
agents_command = options.declared(
    "agents:agents",
    """List the agents there are: here in agents_config/, packaged, and installed entry points.

    Each is loaded as a run would load it now, with the same key and address; one that cannot be loaded is listed with
    the reason. `agents new` begins one of your own.
    """,
    options.caller("json", "wide"),
    cls=options.OrderedGroup,
    commands={"new": _new_agent},
    invoke_without_command=True,
    subcommand_metavar="[new NAME]",
)
