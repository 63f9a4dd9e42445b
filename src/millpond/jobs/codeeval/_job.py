"""The job itself: problems in, sandboxes and answers paired, verdicts out.

T is a warm, isolated interpreter, forked from a zygote and thrown away after one use.
Q is a completion of a problem. C runs the problem's tests on the completion in the
interpreter. While a model thinks, no interpreter is held.
"""

import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict, final

from millpond._base import offload
from millpond.errors import InputError
from millpond.flow import Capacity, Pipeline, Retry
from millpond.jobs._job import Job, Report, Results, job
from millpond.jobs.codeeval._answers import DEFAULT_SEED, AnswerBook
from millpond.jobs.codeeval._client import KEY_VARIABLE, ChatClient
from millpond.jobs.codeeval._limits import Limits
from millpond.jobs.codeeval._problems import Problem, extract_completion, load_problems
from millpond.jobs.codeeval._provider import EmbeddedProvider
from millpond.jobs.codeeval._report import Graded, Verdict, make_report
from millpond.jobs.codeeval._samples import load_samples
from millpond.jobs.codeeval._sandbox import Sandbox, Zygote

MEGABYTE = 1 << 20
LEAST_MEMORY_MB = 128
CONSUME_SLACK_SECONDS = 15.0
"""Beyond the program's own limit: for reaping, and for a machine that is busy."""
SHOWN_OUTPUT_CHARACTERS = 2000


class Answer(TypedDict):
    """Q: what came back for one sample of one problem."""

    text: str
    model: str
    """Who answered, by its own account; empty for a samples file."""


@final
@dataclass(frozen=True, slots=True)
class Attempt:
    """One item: a sample of a problem, with its completion if there is one already."""

    problem: Problem
    sample: int
    completion: str | None = None

    @property
    def key(self) -> str:
        """Its name in the record."""
        return f"{self.problem.task_id}#{self.sample}"


@job
async def codeeval(  # noqa: PLR0913 - one per option
    *,
    items: Path | None = None,
    samples: Path | None = None,
    model: str | None = None,
    base_url: str | None = None,
    n: int | None = None,
    seed: int = DEFAULT_SEED,
    temperature: float | None = None,
    max_tokens: int | None = None,
    allow_code_execution: bool = False,
    allow_missing_isolation: bool = False,
    time_limit: float = 3.0,
    memory_mb: int = 512,
    in_flight: int = 0,
    physical: int = 0,
    latency: float = 0.25,
) -> AsyncGenerator[Job[Attempt, Verdict]]:
    """Grade code that models write: run its tests in sandboxes and print pass@k.

    Without options: two dozen problems that come along, answered by an embedded
    provider on this machine whose score is known beforehand. The sandbox limits what a
    program can do, but it is not a security boundary.

    Args:
        items: Problems in HumanEval's format, JSONL, plain or gzip.
        samples: Completions in a file (`task_id`, `completion`) instead of a model.
        model: Model to ask, at --base-url.
        base_url: OpenAI-compatible endpoint, usually ending in /v1; its key is taken
            from the environment variable OPENAI_API_KEY.
        n: Samples per problem; 1 unless said, and with --samples all that are there.
        seed: Decides answers, latencies and faults of the embedded provider.
        temperature: Sent to the model; else it decides.
        max_tokens: Sent to the model; else it decides.
        allow_code_execution: Run code that is not our own: of a model, or from a file.
        allow_missing_isolation: Run it even where a protection of the sandbox is missing.
        time_limit: Seconds that one program may take.
        memory_mb: Memory that one program may take, its interpreter included; at least 128.
        in_flight: Requests at once; 0 takes the default of 12.
        physical: Sandboxes being made or used at once; 0 derives it from the machine.
        latency: Mean seconds of an answer of the embedded provider.
    """
    _check_numbers(
        {"in_flight": in_flight, "physical": physical, "latency": latency},
        {"n": 1 if n is None else n, "time_limit": time_limit, "memory_mb": memory_mb},
    )
    _check_sources(samples, model, base_url)
    foreign = items is not None or samples is not None or model is not None
    if foreign and not allow_code_execution:
        msg = (
            "this would run code that is not our own (from a file, or written by a model);"
            " the sandbox limits what it can do, but is not a security boundary"
        )
        hint = "add --allow-code-execution if you accept that"
        raise InputError(msg, where="codeeval", hint=hint)
    found = await load_problems(items)
    set_aside = list(found.set_aside)
    limits = Limits(
        wall_seconds=time_limit,
        cpu_seconds=max(1, round(time_limit) + 1),
        memory_bytes=memory_mb * MEGABYTE,
    )
    # Files of /proc and /sys are read, and perhaps a profile.
    capacity = await offload(
        Capacity.resolve, physical=physical, q_pending=in_flight, environ=os.environ
    )
    book: AnswerBook | None = None
    unanswered = 0
    async with AsyncExitStack() as stack:
        if samples is not None:
            given = await load_samples(samples, found.problems)
            set_aside += given.set_aside
            unanswered = len(given.missing)
            problems = {problem.task_id: problem for problem in found.problems}
            attempts = [
                Attempt(problems[sample.task_id], sample.index, sample.completion)
                for sample in given.samples
                if n is None or sample.index < n
            ]
            request: Callable[[Attempt], Awaitable[Answer]] = _look_up
        else:
            attempts = [Attempt(p, sample) for p in found.problems for sample in range(n or 1)]
            if model is None or base_url is None:
                book = AnswerBook(found.problems, seed=seed, n=n or 1)
                provider = await stack.enter_async_context(
                    EmbeddedProvider(book, seed=seed, mean_seconds=latency)
                )
                client = ChatClient(provider.base_url, model=provider.model, key=provider.key)
            else:
                key = os.environ.get(KEY_VARIABLE)
                client = ChatClient(base_url, model=model, key=key)
            await stack.enter_async_context(client)
            await client.check()
            request = _asking(client, temperature=temperature, max_tokens=max_tokens)
        zygote = await stack.enter_async_context(Zygote(limits=limits))
        missing = zygote.protections.missing
        if foreign and missing and not allow_missing_isolation:
            msg = f"the sandbox lacks protections on this system: {', '.join(missing)}"
            hint = "run it in a container, or accept that with --allow-missing-isolation"
            raise InputError(msg, where="sandbox", hint=hint)

        async def grade(sandbox: Sandbox, answer: Answer, attempt: Attempt) -> Verdict:
            text = answer["text"]
            if attempt.completion is None:
                text = extract_completion(text, attempt.problem)
            verdict = await sandbox.run(attempt.problem.program(text))
            return Verdict(
                kind=verdict.kind.value,
                detail=verdict.detail,
                line=verdict.line,
                seconds=round(verdict.seconds, 4),
                output=verdict.output[:SHOWN_OUTPUT_CHARACTERS],
            )

        def report(results: Results[Attempt, Verdict]) -> Report:
            verdicts = {o.item.key: o.value for o in results.outcomes if o.value is not None}
            # In the order of the input, so that a resumed run has the same table.
            graded = [
                Graded(attempt.problem.task_id, attempt.sample, verdicts[attempt.key])
                for attempt in attempts
                if attempt.key in verdicts
            ]
            return make_report(
                graded,
                planned=len(attempts),
                book=book,
                missing=missing,
                unanswered=(unanswered, len(found.problems)),
            )

        yield Job(
            Pipeline(
                supply=zygote.fork,
                request=request,
                consume=grade,
                discard_t=Sandbox.close,
                capacity=capacity,
                consume_timeout=time_limit + CONSUME_SLACK_SECONDS,
                retry=Retry(attempts=5),
            ),
            items=attempts,
            key=lambda attempt: attempt.key,
            report=report,
            total=len(attempts),
            set_aside=set_aside,
        )


def _check_numbers(not_negative: Mapping[str, float], positive: Mapping[str, float]) -> None:
    """Say all that is wrong, each by the name of its option."""
    wrong = [f"{name} must be >= 0, got {n}" for name, n in not_negative.items() if not n >= 0]
    wrong += [f"{name} must be > 0, got {n}" for name, n in positive.items() if not n > 0]
    if positive["memory_mb"] < LEAST_MEMORY_MB:
        wrong.append(f"memory_mb must be >= {LEAST_MEMORY_MB}, what an interpreter itself takes")
    both = {**not_negative, **positive}
    wrong += [f"{name} must be finite, got {n}" for name, n in both.items() if n == float("inf")]
    if wrong:
        text = "; ".join(f"--{line.replace('_', '-', 2)}" for line in wrong)
        raise InputError(text, where="codeeval")


def _check_sources(samples: Path | None, model: str | None, base_url: str | None) -> None:
    if samples is not None and (model is not None or base_url is not None):
        msg = "--samples and --model exclude each other: answers come from a file or from a model"
        raise InputError(msg, where="codeeval")
    if (model is None) != (base_url is None):
        msg = "--model and --base-url belong together"
        hint = "name both, or neither for the embedded provider"
        raise InputError(msg, where="codeeval", hint=hint)


async def _look_up(attempt: Attempt) -> Answer:
    return Answer(text=attempt.completion or "", model="")


def _asking(
    client: ChatClient, *, temperature: float | None, max_tokens: int | None
) -> Callable[[Attempt], Awaitable[Answer]]:
    async def ask(attempt: Attempt) -> Answer:
        completion = await client.complete(
            attempt.problem.question,
            sample=attempt.sample,
            temperature=temperature,
            max_tokens=max_tokens,
        )
        return Answer(text=completion.text, model=completion.model)

    return ask
