"""What happened in a run, in one SQLite file that outlives the process.

Law of this floor: nothing that happened goes unrecorded. What you have seen finished
survives ``kill -9``: see the invariants of `Record`.

A run has a folder, and in it ``record.db`` (and ``record.lock``, by which one process at a
time may write; while it does, SQLite keeps ``record.db-wal`` and ``record.db-shm`` beside
it). When a run has ended in order, ``record.db`` alone is the whole record. It may be read
at any time, by `read_run` and `list_runs`, or with SQL; do not delete or move it, and do
not open it other than through SQLite, while it is written.

===========  ====================================================================================
Table        Columns
===========  ====================================================================================
meta         One row: schema_version, run_id, job, millpond_version, created_at, settings (JSON),
             state (running, finished, interrupted, failed), state_reason, state_at
answers      key, value, at: what came back, and was paid for
outcomes     key, status, value, stage, layer, error_type, error, degraded_reason, timings (JSON,
             seconds per stage), at: how each item ended; value is NULL unless ok or degraded
events       seq, at, kind, version, key (NULL: of no item), data (JSON): in order of happening
===========  ====================================================================================

``value`` is what the codec made: JSON, unless the record was given another. Times are those
of the wall clock, which may be set back and forth; ISO-8601 in UTC, all of one length, so
they sort as text. Order is told by ``seq``, and in the other tables by ``rowid``::

    SELECT status, count(*) FROM outcomes GROUP BY status;
    SELECT key, error_type, error FROM outcomes WHERE status = 'failed' ORDER BY rowid;
    SELECT kind, count(*) FROM events GROUP BY kind;

What each end of a process costs:

===================================  ============================================================
End                                  Cost
===================================  ============================================================
normal, error, cancel, Ctrl+C        nothing: leaving the block writes what is queued
SIGKILL, crash of the interpreter    what was said and not yet committed (milliseconds)
power loss, crash of the system      the same: every commit is synced to disk. A disk that only
                                     pretends to sync may lose more, and may damage the file
full or failing disk                 everything from the first failed write on; the program goes
                                     on, `Record.committed` raises, `Record.failed` says why
===================================  ============================================================
"""

from millpond.record._codec import JSON, Codec, JSONCodec
from millpond.record._record import Record, RecordStatistics
from millpond.record._runs import RunInfo, list_runs, list_runs_async, read_run, read_run_async
from millpond.record._schema import RunState

__all__ = [
    "JSON",
    "Codec",
    "JSONCodec",
    "Record",
    "RecordStatistics",
    "RunInfo",
    "RunState",
    "list_runs",
    "list_runs_async",
    "read_run",
    "read_run_async",
]
