"""The sync twins of the API's functions: for scripts, and for notebooks, where an event loop is running already."""

from harness.api.best import best_of
from harness.api.comparing import compare
from harness.api.groups import rank, rollout
from harness.api.message_tournament import rank_messages
from harness.api.messages import ruler
from harness.api.runs import plan, quote, replay, rescore, resume, run, validate
from harness.core.sync import in_step

best_of_sync = in_step(best_of)
compare_sync = in_step(compare)
plan_sync = in_step(plan)
quote_sync = in_step(quote)
rank_messages_sync = in_step(rank_messages)
rank_sync = in_step(rank)
replay_sync = in_step(replay)
rescore_sync = in_step(rescore)
resume_sync = in_step(resume)
rollout_sync = in_step(rollout)
ruler_sync = in_step(ruler)
run_sync = in_step(run)
validate_sync = in_step(validate)
