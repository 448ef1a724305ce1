"""Records what the commands print, as what tests/test_old_archives.py expects from then on; see README.md.

python -m tests.data.golden.record [WORD...]      only the cases whose names contain one of the words
"""

import json
import shlex
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.nursery import Nursery
from tests.test_old_archives import EXPECTED, GOLDEN, Case, comparable, folder_of, id_of, played

TOPOLOGIES = [f"--topology {t}" for t in ("arena", "anchor", "single", "double", "swiss", "round_robin", "cyclic")]
ESTIMATORS = [f"--estimator {e}" for e in ("tiers", "wins", "margins", "bt", "pooled")]

IMPORTED = "--judge-model offline-features"
RESCORED: dict[str, list[str]] = {
    "imported": [IMPORTED, f"{IMPORTED} --topology swiss --estimator margins"],
    "offline-arena": [
        *(f"{topology} {estimator}" for topology, estimator in zip(TOPOLOGIES, ESTIMATORS * 2, strict=False)),
        "--order single",
        "--reward score --estimator margins",
        "--exclude 3",
        "--budget 5",
        "--rubric task",
    ],
    "offline-cyclic": ["", "--estimator bt", "--topology arena", "--budget 5"],
    "offline-ruler": ["", "--judge pairwise --topology arena"],
    "online-arena": ["", "--estimator bt --exclude sort/1", "--include lend/"],
    "online-asked-again": ["--estimator wins"],
    "online-best": ["", "--topology single --order single --estimator tiers"],
    "online-jury": [
        "--topology arena",
        "--topology cyclic --estimator margins",
        "--jury mean",
        "--judge-model two",
        "--order balanced --estimator wins",
    ],
    "online-responses": ["", "--judge-repeats 1"],
    "online-resumed": ["--topology anchor"],
    "online-ruler": [""],
    "online-verified": ["--judge-when always", "--failed exclude", "--failed last", "--exclude 0 --anchor-failed stop"],
}
"""Settings under which an archive is rescored with `--free`."""

BOUGHT = {
    "offline-arena": ["--topology round_robin --estimator bt", "--order single --judge-repeats 2", "--judge ruler"],
    "offline-cyclic": ["--rubric research", "--rubric rubric.md --judge-budget 200"],
    "offline-unjudged": ["--topology double"],
    "imported": [f"{IMPORTED} --hide-instructions"],
    "online-arena": ["--estimator margins", IMPORTED],
    "online-jury": [""],
}
"""Settings under which it is rescored without `--free`: the embedded judge judges, or every verdict is there."""

ALL_MATCHES = ("offline-cyclic", "online-verified", "online-asked-again")

RUN = (
    "run 'Why is tea hot?' --agent stopping.py --offline --json -q -n 3 --seed 5 --temperature 0.8 --topology arena "
    "--order both --estimator tiers --reward rank --failed by-cause --rubric writing --judge pairwise "
    "--judge-budget 32000 --judge-repeats 1 --show-instructions --max-turns 20"
)
BEST = (
    "best 'Why is tea hot?' --agent stopping.py --offline --json -q -n 3 --seed 5 --confidence 0.95 --temperature 0.8"
)
"""With every setting named that a default could change."""

Made = Iterator[tuple[str, Case]]


def case(names: str, *commands: str, together: bool = False, before: Sequence[dict[str, Any]] = ()) -> Case:
    """Return a case whose expectations have yet to be recorded."""
    return Case(tuple(names.split()), tuple(before), tuple({"run": shlex.split(c)} for c in commands), together)


def archives() -> list[str]:
    """Return the names of all archives."""
    return sorted(p.name for p in GOLDEN.iterdir() if any(p.glob("*/run.json")))


def lines(archive: str, kind: str) -> list[dict[str, Any]]:
    """Return the records in a folder of the archive."""
    files = sorted(folder_of(archive).glob(f"{kind}/*.jsonl"))
    found = [json.loads(line) for path in files for line in path.read_text("utf-8").splitlines()]
    return [line for line in found if line["kind"] not in {"header", "footer"}]


def parts(of: Sequence[str], most: int) -> Iterator[Sequence[str]]:
    """Cut a list into parts, so that several processes can share the cases."""
    return (of[start : start + most] for start in range(0, len(of), most))


def shown() -> Made:
    """Everything that reads an archive and writes nothing."""
    for archive in archives():
        queries = [line["id"] for line in lines(archive, "queries")]
        rankings = sorted(p.stem for p in folder_of(archive).glob("rankings/*.jsonl"))
        matches = [len(line.get("matches", ())) for line in lines(archive, "rankings") if line["kind"] == "group"]
        of = f"--query {queries[-1]}" if len(queries) > 1 else ""
        ks = sorted({r["index"] for r in lines(archive, "rollouts") if r["query"] == queries[-1]})
        commands = ["show --json", "stats --json", "validate --json"]
        commands += [f"{word} --ranking {r} --json" for r in rankings[:-1] for word in ("show", "stats")]
        commands += [f"show {of} --json"] if of else []
        commands += [f"show {of} --rollout {k} --json" for k in (ks[1:5] if len(ks) == 7 else ks[-1:])]
        commands += [f"show {of} --rollout {ks[0]} --transcript --json"]
        if matches and matches[-1] > 1:
            commands += [f"show {of} --matches --json" if archive in ALL_MATCHES else f"show {of} --match 2 --json"]
        yield f"shown-{archive}", case(archive, *commands, together=True)
    every = " ".join(archives())
    looks = ("ls --json", f"show {id_of('online-jury')[:24]} --json", f"report {id_of('online-verified')}")
    yield "shown-all", case(every, *looks, together=True)


def rescored() -> Made:
    """New rankings of old verdicts."""
    for archive, settings in RESCORED.items():
        for number, some in enumerate(parts(settings, 6), 1):
            free = [f"rescore --free --json {s}" for s in some]
            yield f"rescored-{archive}-{number}", case(archive, *free, together=True)
    for archive, settings in BOUGHT.items():
        bought = [f"rescore --json {s}" for s in settings]
        yield f"rescored-{archive}-bought", case(archive, f"{bought[0]} --dry-run", *bought, together=True)
    three = ("offline-cyclic", "online-jury", "online-arena")
    several = f"rescore {' '.join(id_of(a) for a in three)} --free --json --estimator margins"
    after = ("show --json", "stats --json", "validate --json")
    yield "rescored-three", case(" ".join(three), several, *after)
    other = f"rescore {id_of('offline-resumed')} --free --json --topology round_robin --reuse {id_of('offline-cyclic')}"
    yield "rescored-reusing", case("offline-resumed offline-cyclic", other)


def replayed() -> Made:
    """The agents' own code on recorded replies. Agents that are not the harness's own have to be named."""
    for archive in archives():
        word = json.loads((folder_of(archive) / "run.json").read_text("utf-8")).get("agent_word") or ""
        named = f"--agent {word}" if ".py" in word else ""
        yield f"replayed-{archive}", case(archive, f"replay --json {named}")
    named = "replay --json --agent librarian.py:agent"
    some = (f"{named} --rollout 1 --query sort", f"{named} --live-tools --query lend", "replay --json")
    yield "replayed-online-arena-in-part", case("online-arena", *some, together=True)
    changed = {"file": "librarian.py", "old": "Search, show", "new": "Search twice, show"}
    yield "replayed-online-arena-by-a-changed-agent", case("online-arena", named, before=[changed])


def resumed() -> Made:
    """Runs that were stopped, and runs that were not."""
    stopped = "offline-interrupted"
    yield (
        f"resumed-{stopped}",
        case(stopped, "resume --json -q --agent stopping.py", "show --json", "stats --json", "resume --json"),
    )
    cut = {"file": "runs/*/rankings/*.jsonl", "cut": 300}
    for archive in ("offline-cyclic", "online-arena", "online-jury"):
        commands = ("validate --json", "show --json", "resume --json -q", "show --json", "validate --json")
        yield f"resumed-{archive}-cut", case(archive, *commands, before=[cut])
    gone = {"file": "runs/*/rankings/*.jsonl"}
    yield "resumed-offline-arena-unranked", case("offline-arena", "show --json", "resume --json -q", before=[gone])
    lost = {"file": "runs/*/verdicts/*.jsonl"}
    yield "resumed-offline-resumed-unjudged", case("offline-resumed", "resume last --json -q", before=[lost, gone])
    finished = ("offline-ruler", "offline-unjudged", "online-asked-again", "online-verified")
    each = [f"resume {id_of(a)} --json" for a in finished]
    yield "resumed-finished", case(" ".join(finished), *each, "resume --json", together=True)


def damaged() -> Made:
    """Archives that are not whole."""
    commands = ("validate --json", "show --json", "validate --repair --json", "validate --json")
    for kind, line in (("rollouts", 3), ("verdicts", 2), ("blobs", 2), ("queries", 2), ("rankings", 2)):
        flipped = {"file": f"runs/*/{kind}/*.jsonl", "line": line}
        yield f"damaged-{kind}", case("offline-cyclic", *commands[:3], before=[flipped])
    tail = {"file": "runs/*/verdicts/*.jsonl", "cut": 25}
    yield "damaged-tail", case("online-arena", *commands, "rescore --free --json", before=[tail])
    flipped = {"file": "runs/*/rollouts/*.jsonl", "line": 2}
    yield (
        "damaged-then-resumed",
        case("offline-resumed", *commands, "resume --json -q --agent stopping.py", "show --json", before=[flipped]),
    )
    head = {"file": "runs/*/run.json", "cut": 40}
    looks = ("validate --json", "show --json", "ls --json", "replay --json")
    yield "damaged-head", case("online-best", *looks, together=True, before=[head])


REFUSED = {
    "show": (
        "online-arena",
        ["show nope --json", "show --ranking nope --json", "show --rollout 0 --json", "show --query nope --json"],
        ["show --query sort --rollout 99 --json", "show --query sort --match 99 --json", "show --transcript --json"],
        ["show --rollout 1 --matches --json", "validate nope --json"],
        ["stats --ranking nope --json"],
    ),
    "rescore": (
        "offline-cyclic",
        ["rescore nope --json", "rescore --topology maze"],
        ["rescore --budget 2 --free --json", "rescore --budget 8 --topology swiss --free --json"],
        ["rescore --include 9 --free --json", "rescore --reuse nope"],
        ["rescore --rubric nope", "rescore --judge-model gpt-5.2 --json"],
    ),
    "matches-of-a-list": ("online-ruler", ["show --matches --json", "show --match 1 --json"]),
    "imported": (
        "imported",
        ["replay --agent stopping.py", "rescore --free --json"],
    ),
    "unjudged": ("offline-unjudged", ["show --match 1 --json"]),
    "failed": ("online-verified", ["show --rollout 2 --transcript --json", "replay --rollout 9 --json"]),
    "run": (
        "",
        ["run --agent nope", "run --temperature 8 --offline", "run --nope", "nope"],
        ["run --offline --budget 3", "run --queries nope.jsonl --offline", "run --offline --config nope.yaml"],
        ["run --agent stopping.py --dry-run", "run '' --offline --dry-run"],
        ["best --confidence 2 --offline", "show", "ls --json"],
    ),
    "files": (
        "",
        ["rank nope.json", "rank rubric.md", "rank table.json --topology maze"],
        ["rubric check table.json", "rubric show nope", "schema nope"],
        ["import rubric.md", "import made.jsonl --format atfi", "import atif.json --format messages"],
    ),
}
"""Commands that cannot be done, and the archives that they are tried on."""


def refused() -> Made:
    """Commands that cannot be done."""
    for name, (archive, *some) in REFUSED.items():
        yield f"refused-{name}", case(str(archive), *(c for commands in some for c in commands), together=True)


def alone() -> Made:
    """Commands that need no archive."""
    yield "alone-agents", case("", "agents --json")
    yield "alone-schema", case("", "schema", "schema group", together=True)
    rank = "rank table.json --json --order both --seed 3"
    designs = [f"{rank} {t} {e}" for t, e in zip(TOPOLOGIES, ESTIMATORS * 2, strict=False)]
    yield "alone-rank", case("", *designs, "rank table.json --topology arena --order single", together=True)
    shows = [f"rubric show {name} --json" for name in ("writing", "rubric.md")]
    yield "alone-rubric", case("", "rubric show --json", *shows, "rubric check rubric.md", together=True)
    doctor = ("doctor --json --ports ''", "doctor --json --ports '' --agent nope", "doctor --nope")
    yield "alone-doctor", case("", *doctor, together=True)
    yield "alone-version", case("", "--version")
    again = "rescore --judge-model offline-features --json --topology round_robin --order both --estimator margins"
    yield "alone-import", case("", "import made.jsonl atif.json --json --first-is-anchor --name others", again)
    yield "alone-import-of-samples", case("", "import made.jsonl --json")
    yield "alone-run", case("", RUN, "replay --json --agent stopping.py", "resume --json", "validate --json")
    ruler = RUN.replace("--judge pairwise", "--judge ruler").replace(
        "--topology arena --order both --estimator tiers ", ""
    )
    others = (f"{RUN} --dry-run", ruler, f"{RUN} --topology cyclic --estimator margins --budget 6", BEST)
    yield "alone-other-runs", case("", *others, together=True)


def compared() -> Made:
    """Run against run: what `compare`, `gate` and `judges` conclude from the same verdicts."""
    short, long = id_of("offline-short"), id_of("offline-long")
    both = f"{short} {long} --allow-offline --json -q"
    commands = [f"compare {both}", f"compare {both} --pairs 4 --cluster kind", f"gate {both} --margin 0.45 --looks 2"]
    yield "compared-runs", case("offline-short offline-long", *commands, together=True)
    after = ("show --json", "stats --json", "validate --json", "resume --json")
    yield "compared-then-shown", case("offline-short offline-long", commands[0], *after)
    yield "compared-judges", case("offline-arena", "rescore --json --judge ruler", "judges --json")


def record(one: Case, nursery: Nursery) -> str:
    """Run the commands of a case, and return it with what they did, one on a line."""
    with tempfile.TemporaryDirectory() as folder:
        steps: list[str] = []
        for step, done, at in played(one, nursery, Path(folder)):
            assert "Traceback" not in done.err, f"{step}\n{done.err}"
            told = comparable(done, step["run"], one, at)
            found = {"run": step["run"], "code": done.code} | ({} if told is None else {"json": told})
            steps.append(json.dumps(found, ensure_ascii=False))
    head = json.dumps({"archives": one.archives, "before": one.before, "together": one.together})
    return head[:-1] + ', "steps": [\n' + ",\n".join(steps) + "\n]}\n"


def main(words: list[str]) -> None:
    """Record all cases, or those that are named."""
    EXPECTED.mkdir(exist_ok=True)
    with Nursery() as nursery:
        for kind in (shown, rescored, replayed, resumed, damaged, refused, alone, compared):
            for name, one in kind():
                if not words or any(w in name for w in words):
                    (EXPECTED / f"{name}.json").write_text(record(one, nursery), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
