"""Tables of a run over a corpus of schemas: what each grammar backend made of each schema and of each instance."""

import pyarrow as pa  # type: ignore[import-untyped]

from warehouse.schema.table import REVISION, RUN_ID, Table, count, flag, json, listed, number, text, texts

_CASE = text("case_id", "The schema: its place in the corpus's file, and the first hex digits of its content's hash.")
_SPLIT = text("split", "Which part of the corpus it belongs to.")
_BACKEND = text("backend", "The grammar backend, by vLLM's name.")

CORPUS_SCHEMAS = Table(
    name="corpus_schemas",
    doc="One row per schema of a corpus and grammar backend: was it taken, at what cost, how did its instances fare.",
    key=("run_id", "case_id", "backend"),
    columns=(
        RUN_ID,
        REVISION,
        _CASE,
        _BACKEND,
        _SPLIT,
        text("name", "What the corpus calls the schema."),
        text("kind", "Kind of grammar: json_schema."),
        json("schema", "The schema."),
        text("schema_fault", "Why the validator cannot use the schema; NULL where it can."),
        texts("keywords", "Keywords of JSON Schema that it uses anywhere."),
        text("backend_version", "Version of the backend's package."),
        text("vllm_version", "Version of the vLLM whose settings and checks were used."),
        text("tokenizer", "The model whose tokenizer was used; NULL: one of single bytes."),
        text("status", "accepted, refused, timeout, crashed; error: it could not be asked, see message."),
        text("stage", "check (vLLM's own look at a request) or compile: where it was not accepted; NULL if it was."),
        text("message", "What was said against it, or how compiling ended; NULL if it was accepted."),
        number("check_s", "s", "Time of vLLM's check."),
        number("compile_s", "s", "Time to compile."),
        count("grown_bytes", "bytes", "Resident memory that compiling added."),
        count("peak_bytes", "bytes", "Highest resident memory of the process that compiled."),
        count("tests", "instances", "Instances that the corpus has of it."),
        count(
            "tests_right", "instances", "Those that the backend tells apart as the corpus does; NULL if not accepted."
        ),
        count("over", "instances", "Valid ones that it rejects, in every order of keys that was tried."),
        count("under", "instances", "Invalid ones that it takes."),
        count("reordered", "instances", "Valid ones that it takes only with their keys in another order."),
        count(
            "unjudged", "instances", "Those that it gave no answer on: out of time, crashed, or left out after such."
        ),
        count("disputed", "instances", "Those on which the corpus and the validator differ: they count for nobody."),
        text(
            "verdict",
            "right, over (rejects a valid instance), under (takes an invalid one), both, untested; or the status.",
        ),
        count("mask_tokens", "tokens", "Masks that were made and timed."),
        number("mask_us_mean", "us", "Time of a token's mask: mean."),
        number("mask_us_p50", "us", "Time of a token's mask: median."),
        number("mask_us_p95", "us", "Time of a token's mask: 95th percentile."),
        number("mask_us_p99", "us", "Time of a token's mask: 99th percentile."),
        number("mask_us_max", "us", "Time of a token's mask: longest."),
        number("seconds", "s", "All that this row took."),
    ),
    small=False,
)

CORPUS_TESTS = Table(
    name="corpus_tests",
    doc="One row per instance of a schema of a corpus and grammar backend: what is right, and what the backend said.",
    key=("run_id", "case_id", "backend", "test_index"),
    columns=(
        RUN_ID,
        REVISION,
        _CASE,
        _BACKEND,
        count("test_index", "", "Number of the instance within its schema, from 0."),
        _SPLIT,
        flag("expected", "Whether the schema allows it, as the corpus says."),
        flag("validated", "Whether the schema allows it, as the validator says; NULL where it has no word."),
        flag("accepted", "Whether the backend would let a model write it; NULL where it gave no answer."),
        text("status", "answered, timeout, crashed, or skipped after three of its schema without an answer."),
        text("why", "What stopped it: mask, token or end; NULL if it was accepted."),
        flag("reordered", "It was accepted only with its keys in another order; NULL if it was not accepted."),
        json("instance", "The instance."),
        count("tokens", "tokens", "Tokens that were taken."),
        listed("mask_us", pa.float32(), "us", "Time of each token's mask, the end's last."),
        number("seconds", "s", "All that this row took."),
    ),
    small=False,
)

CORPUS_ANSWERS = Table(
    name="corpus_answers",
    doc="One row per schema of a corpus and grammar backend, of a run with a model: what became of the model's answer.",
    key=("run_id", "case_id", "backend"),
    columns=(
        RUN_ID,
        REVISION,
        _CASE,
        _BACKEND,
        _SPLIT,
        text("child_run_id", "The backend's own run, which has the answer; NULL where it had none."),
        text("request_id", "Its request there; NULL where none was made."),
        text("grammar_status", "What the backend's matcher made of the schema before: as `corpus_schemas.status`."),
        text(
            "request_status",
            "ok, invalid, truncated, refused, error or cancelled, as `requests.status`; skipped: the prompt is too"
            " long for the model or the run; not_asked: the backend does not take the schema; NULL: see error.",
        ),
        text("finish_reason", "stop: the answer ended by itself; length: at the most tokens."),
        flag("valid", "Whether the answer obeys the schema, by the validator; NULL where there is no answer."),
        count("prompt_tokens", "tokens", "Length of the prompt."),
        count("output_tokens", "tokens", "Length of the answer."),
        number("e2e_ms", "ms", "From sent to the last token."),
        number("tpot_ms", "ms/token", "Mean time per token after the first."),
        text("error", "Why there is no answer; NULL where there is one."),
    ),
    small=False,
)
