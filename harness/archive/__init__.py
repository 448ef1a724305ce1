"""The archive: `runs/<id>/`, append-only, from which everything later is read.

A record is on disk before it counts. This room knows records and files; it must not know how rollouts are made,
judged or ranked.
"""

from typing import TYPE_CHECKING

from harness.core.lazy_door import lazy_names

if TYPE_CHECKING:
    from harness.archive.attestations import Attestation, attest, attest_addresses, attestation_of, withdraw
    from harness.archive.batch_log import BatchLog, BatchOnRecord, with_provider
    from harness.archive.batch_records import (
        BatchEnded,
        BatchMade,
        BatchRecord,
        BatchResult,
        BatchSubmitted,
        BatchUploaded,
    )
    from harness.archive.blobs import Blobs
    from harness.archive.comparison_reader import ComparisonFile, ComparisonReader
    from harness.archive.comparison_records import ComparisonHead, ComparisonInfo
    from harness.archive.comparison_store import ComparisonStore, ComparisonWriter
    from harness.archive.comparison_validation import comparison_findings
    from harness.archive.extracts import Extracts
    from harness.archive.folder_check import Finding
    from harness.archive.folder_reader import FolderReader
    from harness.archive.folder_store import segment_names
    from harness.archive.layout import (
        ASIDE,
        LABELS,
        Archived,
        append_label,
        find_archived,
        find_run,
        linked_runs,
        list_archived,
        list_comparisons,
        list_runs,
        new_run_id,
    )
    from harness.archive.memory_store import MemoryStore
    from harness.archive.merging import at_rest, copy_records, make_merged_run, refuse_damage, write_ranking
    from harness.archive.missing import (
        MissingWork,
        Remaining,
        last_unfinished,
        missing_of,
        redacted_of,
        remaining_of,
    )
    from harness.archive.page_folder import PageFolder, opened_pages, page_name, remove_pages
    from harness.archive.rankings import RankingFile
    from harness.archive.read_store import ReadStore
    from harness.archive.reader import RunReader
    from harness.archive.repair import move_aside
    from harness.archive.run_files import write_file
    from harness.archive.run_info import RunInfo
    from harness.archive.run_state import RunState, state_of, state_of_comparison
    from harness.archive.run_store import RunStore
    from harness.archive.schema import schema_of, schemas
    from harness.archive.store import Store, VerdictStore
    from harness.archive.typed_records import RankingHead, checked, recorded_settings
    from harness.archive.validation import findings
    from harness.archive.verdict_folder import VerdictFolder
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "attestations": "Attestation attest attest_addresses attestation_of withdraw",
            "batch_log": "BatchLog BatchOnRecord with_provider",
            "batch_records": "BatchEnded BatchMade BatchRecord BatchResult BatchSubmitted BatchUploaded",
            "blobs": "Blobs",
            "comparison_reader": "ComparisonFile ComparisonReader",
            "comparison_records": "ComparisonHead ComparisonInfo",
            "comparison_store": "ComparisonStore ComparisonWriter",
            "extracts": "Extracts",
            "folder_reader": "FolderReader",
            "folder_store": "segment_names",
            "layout": "ASIDE LABELS Archived append_label find_archived find_run linked_runs "
            "list_archived list_comparisons list_runs new_run_id",
            "memory_store": "MemoryStore",
            "merging": "at_rest copy_records make_merged_run refuse_damage write_ranking",
            "missing": "MissingWork Remaining last_unfinished missing_of redacted_of remaining_of",
            "page_folder": "PageFolder opened_pages page_name remove_pages",
            "rankings": "RankingFile",
            "read_store": "ReadStore",
            "reader": "RunReader",
            "repair": "move_aside",
            "run_files": "write_file",
            "run_info": "RunInfo",
            "run_state": "RunState state_of state_of_comparison",
            "run_store": "RunStore",
            "schema": "schema_of schemas",
            "store": "Store VerdictStore",
            "typed_records": "RankingHead checked recorded_settings",
            "comparison_validation": "comparison_findings",
            "folder_check": "Finding",
            "validation": "findings",
            "verdict_folder": "VerdictFolder",
        },
    )

__all__ = [
    "ASIDE",
    "LABELS",
    "Archived",
    "Attestation",
    "BatchEnded",
    "BatchLog",
    "BatchMade",
    "BatchOnRecord",
    "BatchRecord",
    "BatchResult",
    "BatchSubmitted",
    "BatchUploaded",
    "Blobs",
    "ComparisonFile",
    "ComparisonHead",
    "ComparisonInfo",
    "ComparisonReader",
    "ComparisonStore",
    "ComparisonWriter",
    "Extracts",
    "Finding",
    "FolderReader",
    "MemoryStore",
    "MissingWork",
    "PageFolder",
    "RankingFile",
    "RankingHead",
    "ReadStore",
    "Remaining",
    "RunInfo",
    "RunReader",
    "RunState",
    "RunStore",
    "Store",
    "VerdictFolder",
    "VerdictStore",
    "append_label",
    "at_rest",
    "attest",
    "attest_addresses",
    "attestation_of",
    "checked",
    "comparison_findings",
    "copy_records",
    "find_archived",
    "find_run",
    "findings",
    "last_unfinished",
    "linked_runs",
    "list_archived",
    "list_comparisons",
    "list_runs",
    "make_merged_run",
    "missing_of",
    "move_aside",
    "new_run_id",
    "opened_pages",
    "page_name",
    "recorded_settings",
    "redacted_of",
    "refuse_damage",
    "remaining_of",
    "remove_pages",
    "schema_of",
    "schemas",
    "segment_names",
    "state_of",
    "state_of_comparison",
    "with_provider",
    "withdraw",
    "write_file",
    "write_ranking",
]
