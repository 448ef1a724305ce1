"""A run on disk, in Python: its queries, groups, rollouts and rankings, read when they are asked for."""

import json
import weakref
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.api.outside import door_at_once, handed_out, ranking_handed_out
from harness.archive.reader import RunReader
from harness.archive.result_files import RankingFile
from harness.archive.run_info import RunInfo, find_run, list_runs
from harness.core.errors import UsageError, as_spoken, counted, did_you_mean, from_python, quoted
from harness.core.judge_profile import JudgeProfile
from harness.core.rankings import GroupRanking, Ranked
from harness.core.records import Group, Query, Rollout
from harness.core.settings import SETTINGS, Settings
from harness.core.settings_sources import environment
from harness.core.sync import in_step
from harness.pipeline.labelling import answer_labels
from harness.pipeline.rescoring import offer_match
from harness.pipeline.run_environment import RunEnvironment
from harness.pipeline.runs import RunResult
from harness.report.html.run_page import write_page
from harness.report.json import curve_json, judges_json, quality_json, run_json
from harness.report.judge_quality import judge_qualities
from harness.report.learnt_judges import judge_profiles
from harness.report.summary.credit import CreditedRollout, RunCredit
from harness.report.summary.curve import CurveTruth, judging_curve, round_robin_of
from harness.report.summary.evidence import claim_counts
from harness.report.summary.judges import judges_side_by_side
from harness.report.summary.ranking import summarize
from harness.report.summary.rankings import RankingChange, change_against_earlier
from harness.report.summary.why import explain_pair, find_pair, judged_ranking
from harness.report.summary.why_records import PairExplanation
from harness.rollouts.states import StateBy

_PLACE = ("rank", "reward", "advantage", "score", "margin", "uncertainty", "p_best", "p_above_mean", "verified")
_PLAIN = (int, float, bool)

Cells = dict[str, Any]


def _rows(run: str, group: Group, ranking: GroupRanking | None) -> Iterator[Cells]:
    query, places = group.query, {place.index: place for place in ranking.rollouts} if ranking else {}
    for rollout in group.rollouts:
        place = places.get(rollout.index) or Ranked(index=rollout.index)
        yield {
            "run": run,
            "query_id": query.id,
            "query": query.text,
            "reference": query.reference,
            **{f"metadata.{name}": value for name, value in query.metadata.items()},
            "index": rollout.index,
            "role": rollout.role,
            "temperature": rollout.requested.temperature,
            "recipe": rollout.recipe.name if rollout.recipe else None,
            "model": ", ".join(rollout.effective.models) or None,
            "status": rollout.status,
            "failure": rollout.failure.kind if rollout.failure else None,
            "capture": rollout.capture,
            "answer": rollout.trajectory.answer,
            "steps": len(rollout.trajectory.path),
            "input_tokens": rollout.usage.input,
            "cached_tokens": rollout.usage.cached,
            "output_tokens": rollout.usage.output,
            "price_usd": rollout.price_usd,
            "duration_s": rollout.duration_s,
            "retries": rollout.retries,
            "started_at": rollout.started_at.isoformat(),
            "origin_id": rollout.origin_id,
            "given_reward": rollout.given_reward,
            **{f"rollout_metadata.{name}": value for name, value in rollout.metadata.items()},
            **{name: getattr(place, name) for name in _PLACE},
            "signal": ranking.signal if ranking else None,
            "p_value": ranking.p_value if ranking else None,
            "explanation": place.explanation,
        }


def _of_steps(rollout: CreditedRollout) -> Cells:
    step = rollout.decisive
    return {
        "step_credits": [of_step.worth.credit for of_step in rollout.steps] or None,
        "decisive_call": step.call if step else None,
        "decisive_credit": step.worth.credit if step else None,
        "decisive_named": step.worth.named if step else None,
    }


def _kind(value: Any) -> type:
    """Return what a data frame's column would be for the value; whole numbers and others share one."""
    for kind in (type(None), str, bool):
        if isinstance(value, kind):
            return kind
    return float if isinstance(value, int | float) else str


class Run:
    """A run in its folder. What made or changed the run in this process also says how that ended.

    Records are read when they are asked for. What reads a record that is damaged raises ArchiveDamaged.
    """

    def __init__(self, path: Path, result: RunResult | None = None) -> None:
        """Open the run in the folder `path`. Raises ArchiveDamaged, NeedsUpgrade."""
        self.path = path
        self._reader = RunReader(path)
        weakref.finalize(self, self._reader.close)
        self.ranking_id = result.ranking_id if result else None
        """The ranking that was made or gone on with just now; None for a run that was only opened."""
        self.stopped = result.stopped if result else None
        """Why it was not brought to an end: `max_cost` was reached. `harness.resume` goes on."""
        self.given_up = as_spoken(result.given_up) if result and result.given_up else None
        """Why it was not brought to an end: an endpoint gave no reply. `harness.resume` goes on."""
        self.spent = result.spent if result else 0.0
        """USD that this took just now, as far as prices are known."""

    def __repr__(self) -> str:
        """Name the run and its folder."""
        return f"<Run {self.id} in {self.path}>"

    @property
    def id(self) -> str:
        """The run's id, which is the name of its folder."""
        return self._reader.info.id

    @property
    def info(self) -> RunInfo:
        """What `run.json` says: agent, judge, versions, when it began."""
        return self._reader.info

    @property
    def settings(self) -> Settings:
        """The settings that the run began with."""
        return self._reader.settings

    @property
    def page(self) -> Path:
        """The run's page, `report.html`."""
        return self.path / "report.html"

    @property
    def queries(self) -> Sequence[Query]:
        """The queries, in the order they came."""
        return tuple(self._reader.queries())

    def groups(self) -> Iterator[Group]:
        """Yield each query with its rollouts; one group at a time is in memory."""
        return (handed_out(self._reader.group(query)) for query in self._reader.queries())

    @from_python()
    def rollouts(self, query: Query | str | None = None) -> Sequence[Rollout]:
        """Return the rollouts of a query (a Query, its id, or its text) in index order; None: of the only query.

        Raises UsageError for a query that the run does not hold, or where it holds several and none is named.
        """
        return handed_out(self._reader.group(self._query(query))).rollouts

    @from_python()
    def ranking(self, id: str | None = None) -> RankingFile:  # noqa: A002 - the field's word
        """Return a ranking by its id; without one the ranking made just now, else the newest.

        `ranking.of(query)` is one group's. Raises UsageError where there is none.
        """
        return self._as_kept(id).passed_through(ranking_handed_out)

    @property
    def rankings(self) -> Sequence[RankingFile]:
        """All rankings, oldest first."""
        return tuple(ranking.passed_through(ranking_handed_out) for ranking in self._reader.rankings())

    @from_python()
    def to_frame(
        self, ranking: str | None = None, *, credit: bool = False, evidence: bool = False
    ) -> list[dict[str, Any]]:
        """Return a flat dict a rollout, all with the same keys, for pandas, polars or csv.

        Slots are those of the ranking with the id `ranking`, else of `run.ranking()`, and None in a run without one.
        Ranks count from 0; the best has 0. Query metadata is in `metadata.KEY`, JSON text where it is nested. `credit`
        adds what each step was worth, and the step that decided; `evidence` how many claims of the answer could be
        looked up in its tools' outputs (`claims`), and how many stand nowhere (`unsupported`), None where not checked.
        """
        of_run = self._as_kept(ranking) if ranking or self._reader.newest_head() else None
        rows = list[Cells]()
        for group in self.groups():
            of_group = list(_rows(self.id, group, of_run and of_run.of(group.query.id)))
            if evidence:
                for row, rollout in zip(of_group, group.rollouts, strict=True):
                    row.update(claim_counts(rollout, group.query.reference))
            rows += of_group
        if credit:
            of_steps = (group for group in RunCredit(self._reader, self._as_kept(ranking)).of_all(self.queries))
            known = {(group.query.id, rollout.index): rollout for group in of_steps for rollout in group.rollouts}
            for row in rows:
                row.update(_of_steps(known.get((row["query_id"], row["index"])) or CreditedRollout(row["index"])))
        columns = dict.fromkeys(name for row in rows for name in row)
        mixed = {name for name in columns if len({_kind(row.get(name)) for row in rows} - {type(None)}) > 1}

        def cell(name: str, value: Any) -> Any:  # JSON text for what is nested, or stands beside another kind of value
            plain = value is None or isinstance(value, str) or (isinstance(value, _PLAIN) and name not in mixed)
            return value if plain else json.dumps(value, ensure_ascii=False)

        return [{name: cell(name, row.get(name)) for name in columns} for row in rows]

    def to_json(self, ranking: str | None = None) -> Mapping[str, Any]:
        """Return what `harness show --json` prints: the run with one of its rankings."""
        return run_json(self._reader, self._as_kept(ranking))

    def judge_quality(self, ranking: str | None = None) -> list[dict[str, Any]]:
        """Return how far to believe each judge of a ranking: the `judges` of `harness stats --json`."""
        of_run = self._as_kept(ranking)
        return list(map(quality_json, judge_qualities(self._reader, of_run, summarize(self._reader, of_run))))

    def judge_profiles(self, ranking: str | None = None) -> list[JudgeProfile]:
        """Return what the verdicts of a ranking teach of each judge; `harness.rank_many(profile=)` takes one."""
        return judge_profiles(self._reader, self._as_kept(ranking))

    @from_python()
    def judges(self, labels: Path | str | None = None) -> Mapping[str, Any]:
        """Return the judges of the run side by side, as `harness judges --json` does.

        `labels` is a file of labelled pairs, by default labels.jsonl of the run. Raises UsageError for a bad file.
        """
        labelled = answer_labels(self._reader, Path(labels) if labels else None)
        return judges_json(judges_side_by_side(self._reader, self._reader.rankings(), labelled))

    @from_python()
    def curve(
        self,
        ranking: str | None = None,
        *,
        truth: CurveTruth | None = None,
        against: str | None = None,
        labels: Path | str | None = None,
        seed: int = 0,
    ) -> Mapping[str, Any]:
        """Return accuracy against judge calls of a judged round robin, as `harness stats --curve --json` does.

        Raises UsageError without a round robin, or for a truth that there is not; NothingRankable.
        """
        judged = round_robin_of(self._reader, ranking)
        other = self._reader.ranking(against) if against else None
        labelled = answer_labels(self._reader, Path(labels) if labels else None)
        return curve_json(judging_curve(self._reader, judged, truth=truth, against=other, labels=labelled, seed=seed))

    @from_python()
    def why(
        self,
        a: int | None = None,
        b: int | None = None,
        *,
        query: Query | str | None = None,
        ranking: str | None = None,
    ) -> PairExplanation:
        """Return why rollout `a` is above `b`, or `b` above `a`, as `harness why` says it; None: the best others.

        Raises UsageError for a rollout or query that there is not, NothingRankable for what is not judged.
        """
        chosen = judged_ranking(self._reader, ranking or self.ranking_id)
        explanation = explain_pair(self._reader, chosen, find_pair(self._reader, chosen, self._query(query), a, b))
        return in_step(offer_match)(self._reader, chosen, explanation, str(self.path), RunEnvironment(environment()))

    @from_python()
    def credit(
        self, query: Query | str | None = None, *, ranking: str | None = None, state: StateBy = "requests"
    ) -> Mapping[str, Any]:
        """Return what the steps of a query's rollouts were worth: one of the `groups` of `harness credit --json`.

        Raises UsageError for a query that there is not, NothingRankable for a run that is not judged.
        """
        chosen = judged_ranking(self._reader, ranking or self.ranking_id)
        return RunCredit(self._reader, chosen, state).of(self._query(query)).as_json()

    def change(self, ranking: str | None = None) -> RankingChange | None:
        """Return what a ranking changed against the one before it, as `harness rescore` ends with; None for a first."""
        return change_against_earlier(self._reader, self._as_kept(ranking))

    def write_page(self, ranking: str | None = None, path: Path | None = None) -> Path:
        """Write the page of a ranking, by default to `run.page`, and return its path."""
        write_page(self._reader, self._as_kept(ranking), path or self.page, anew=True)
        return path or self.page

    @from_python()
    def _as_kept(self, ranking: str | None) -> RankingFile:
        return self._reader.ranking(ranking or self.ranking_id)

    def _query(self, asked: Query | str | None) -> Query:
        reader, ids = self._reader, list(self._reader.index.queries)
        if asked is None and len(ids) != 1:
            queries = counted(len(ids), "query", "queries")
            raise UsageError(f"run {self.id} has {queries}: name one, e.g. {', '.join(map(quoted, ids[:1]))}")
        key = ids[0] if asked is None else asked.id if isinstance(asked, Query) else asked
        query = reader.query(key) or next((query for query in reader.queries() if query.text == key), None)
        if query is None:
            raise UsageError(f"no query {quoted(key)} in run {self.id}{did_you_mean(key, ids)}")
        return query


AnyRun = Run | Path | str
"""A run in Python: a Run, its folder, its id, a prefix of its id, or `last`."""


@door_at_once
def open_archive(run: AnyRun = "last", runs_dir: str | Path | None = None) -> Run:
    """Open an archived run: a folder, an id or a prefix of it in `runs_dir` (default: runs), or `last`.

    Raises UsageError where there is no such run; ArchiveDamaged, NeedsUpgrade.
    """
    return Run(find_folder(run, runs_dir))


@door_at_once
def list_of_runs(runs_dir: str | Path | None = None) -> Sequence[Path]:
    """Return the folders of all runs in `runs_dir` (default: runs), oldest first, as `harness ls` lists them."""
    return list_runs(runs_parent(runs_dir))


def find_folder(run: AnyRun, runs_dir: str | Path | None) -> Path:
    """Return the folder of a run. Raises UsageError where there is no such run."""
    return run.path if isinstance(run, Run) else find_run(str(run), runs_parent(runs_dir))


def runs_parent(runs_dir: str | Path | None) -> Path:
    """Return where runs are."""
    return Path(SETTINGS["runs_dir"].default if runs_dir is None else runs_dir)
