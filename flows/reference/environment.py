"""docs/reference/environment.md: the variables that are read, and those that assay sets itself."""

from dataclasses import dataclass

from flows.reference.markdown import WRITTEN, code, table
from tasks.doctor import TELEMETRY


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """A variable that a user may set. without_it: what is so where it is not set."""

    name: str
    is_: str
    without_it: str


ASSAY = (
    Variable(
        name="ASSAY_HOME",
        is_="The folder of everything that runs leave behind: tables, reports, logs, converted models, MLflow's and"
        " Prefect's own data.",
        without_it="`warehouse/data` in a checkout, else the user's data folder",
    ),
    Variable(
        name="ASSAY_PREFECT_API_URL",
        is_="A Prefect server of yours, as `https://prefect.example.org/api`. The only way to name one: other variables"
        " that begin with `PREFECT_`, and a profile in your home, play no part.",
        without_it="the one of `assay up` if it is up, else a temporary server for each run",
    ),
    Variable(
        name="ASSAY_PREFECT_UI",
        is_="Where Prefect's pages are, for the links in reports and in MLflow; where it is not the API's address"
        " without `/api`. `assay up` sets it for its workers.",
        without_it="taken from `ASSAY_PREFECT_API_URL`",
    ),
    Variable(
        name="ASSAY_MLFLOW_UI",
        is_="Where MLflow's pages are, for the links in reports and in Prefect; where it is not the tracking address."
        " `assay up` sets it for its workers.",
        without_it="taken from `MLFLOW_TRACKING_URI`",
    ),
    Variable(
        name="ASSAY_PUSH",
        is_="Where `assay push` copies the tables to, as `s3://bucket/prefix`.",
        without_it="`assay push` asks for the address",
    ),
    Variable(
        name="ASSAY_WORKER_FOLDER",
        is_="Where launched runs look for `configs/`; set by `assay worker` to the folder that it was started in.",
        without_it="the empty folder that Prefect makes for a run",
    ),
    Variable(
        name="ASSAY_CLIENT_TICKET",
        is_="What lets a client on another machine join a run; set by the flow `client` for the processes that it"
        " starts, and worth nothing once the run is over.",
        without_it="no client is started by hand",
    ),
)
"""Every variable of assay's own. A test looks for others in the code."""

OTHERS = (
    Variable(
        name="MLFLOW_TRACKING_URI",
        is_="An MLflow of yours, as `https://mlflow.example.org`. MLflow's own variables for its client"
        " (`MLFLOW_TRACKING_USERNAME`, `MLFLOW_TRACKING_PASSWORD`, `MLFLOW_TRACKING_TOKEN`) work too.",
        without_it="`mlflow.db` under `ASSAY_HOME`",
    ),
    Variable(
        name="PREFECT_API_AUTH_STRING",
        is_="`user:password` for a Prefect server that asks for it. Read only beside `ASSAY_PREFECT_API_URL`.",
        without_it="no authentication",
    ),
    Variable(
        name="PREFECT_API_KEY",
        is_="The key to Prefect Cloud. Read only beside `ASSAY_PREFECT_API_URL`.",
        without_it="no key",
    ),
    Variable(
        name="HF_TOKEN",
        is_="The key to models and datasets on the Hugging Face hub that are not public.",
        without_it="public ones only",
    ),
    Variable(
        name="HF_HUB_OFFLINE",
        is_="`1`: the hub is not asked, only its local cache is read.",
        without_it="the hub is asked for what is not in the cache",
    ),
    Variable(
        name="CUDA_VISIBLE_DEVICES",
        is_="The GPUs that the engine may see, by number.",
        without_it="all; the engine takes the first",
    ),
    Variable(
        name="HTTPS_PROXY",
        is_="A proxy for the hub and for pip. assay's own servers are reached without it.",
        without_it="no proxy",
    ),
)

_HEAD = f"""{WRITTEN}
# Environment variables

The [experiment's file](config.md) says what is measured; variables say where things are. None of them changes a
result.
"""
_SET = """## Set by assay

For every run, whatever stands in your environment, so that no component reports home:
"""
_AGAIN = """`PREFECT_HOME` and `PREFECT_PROFILES_PATH` are set to `prefect/` under `ASSAY_HOME`; 127.0.0.1 is added to
`NO_PROXY`. The variables of `make` are in [Getting started](../getting-started.md#set-up-in-detail); those of the
servers in [Deploying](../deploy/README.md).
"""


def environment_page() -> str:
    """The whole page."""
    told = table(("variable", "value"), ((code(name), code(value)) for name, value in TELEMETRY.items()))
    return "\n".join(
        [_HEAD, "## assay's own\n", _table(ASSAY), "## Of its parts\n", _table(OTHERS), _SET, told, _AGAIN]
    )


def _table(variables: tuple[Variable, ...]) -> str:
    return table(("variable", "is", "without it"), ((code(each.name), each.is_, each.without_it) for each in variables))
