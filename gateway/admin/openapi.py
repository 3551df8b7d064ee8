"""The description of the admin API, made from its models."""

from importlib.metadata import version
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from gateway.board.views import (
    ClientPage,
    Events,
    GatewayLine,
    GroupList,
    GroupPage,
    GroupReadiness,
    Readiness,
)
from gateway.control.messages import (
    GROUP_ID_BYTES_MAX,
    AdoptCommand,
    AdoptionAnswer,
    AllowCommand,
    DrainAnswer,
    DrainCommand,
    HoldCommand,
    PauseCommand,
    PolicySet,
    ReleaseAnswer,
    ReleaseCommand,
    RemovalAnswer,
    RemoveCommand,
    RestartAnswer,
    RestartCommand,
    RollCommand,
)

_REF = "#/components/schemas/{model}"
_GROUP_ID = {"type": "string", "minLength": 1, "maxLength": GROUP_ID_BYTES_MAX}
_TEXT = {"type": "string"}
_WHY = {
    "type": "object",
    "properties": {"reason": {"type": "string", "description": "One line for people."}},
    "required": ["reason"],
}
_REASONS = {
    400: "The request makes no sense.",
    401: "The token is missing or wrong.",
    403: "A page of another site asked, or the token allows no commands.",
    404: "The gateway does not know the group, or the command.",
    408: "The client sent the command too slowly.",
    409: "The command had no effect.",
    413: "The command is too long.",
    415: "The command is not JSON.",
    421: "Without a token the API answers by names and addresses of loopback only.",
    503: "Try again: too many clients ask at a time, or the state log cannot be read.",
}
_VIEWS: tuple[type[BaseModel], ...] = (
    *(GroupList, GroupPage, GroupReadiness, ClientPage, GatewayLine, Events, Readiness),
    *(
        AdoptCommand,
        AdoptionAnswer,
        ReleaseCommand,
        ReleaseAnswer,
        HoldCommand,
        PauseCommand,
        AllowCommand,
        RollCommand,
        PolicySet,
    ),
    *(DrainCommand, DrainAnswer, RemoveCommand, RemovalAnswer, RestartCommand, RestartAnswer),
)


def description() -> dict[str, Any]:
    """The OpenAPI document."""
    _, schemas = models_json_schema(
        [(model, "serialization") for model in _VIEWS], ref_template=_REF
    )
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "groupferry",
            "version": version("groupferry"),
            "description": "How every group stands, and commands.",
        },
        "paths": {
            "/livez": _get("Whether the process runs.", {"type": "object"}, refusals=()),
            "/readyz": _readyz(),
            "/metrics": _get_other("Metrics for Prometheus.", "text/plain"),
            "/api/gateway": _get("The gateway as a whole.", GatewayLine),
            "/api/groups": _get(
                "The groups, in parts, by group id.",
                GroupList,
                _query("after", "The group id after which the part begins.", _TEXT),
                _query(
                    "since",
                    "The revision of an earlier list: groups that are shown as then are left out."
                    " 0 for the first list.",
                    {"type": "integer"},
                ),
            ),
            "/api/group": _get(
                "One group with its members.",
                GroupPage,
                _query("group_id", "Its group id.", _GROUP_ID) | {"required": True},
                refusals=(400, 404, 503),
            ),
            "/api/client": _get(
                "One client over all its groups.",
                ClientPage,
                _query("client_id", "Its client id.", _TEXT | {"minLength": 1})
                | {"required": True},
                refusals=(400, 503),
            ),
            "/api/readiness": _get(
                "Whether a group is ready to be adopted and converted. Asks the cluster.",
                GroupReadiness,
                _query("group_id", "Its group id.", _GROUP_ID) | {"required": True},
                refusals=(400, 404, 503),
            ),
            "/api/latest-events": _get(
                "The latest events of a group, or of the gateway and all groups, without commits.",
                Events,
                _query("group_id", "Only events of this group.", _GROUP_ID),
            ),
            "/api/events": _get_other(
                "Events as they happen, as server-sent events: the data of each is its JSON line,"
                " with the event in words (`sentence`, empty for a detail); its id is"
                " STREAM-POSITION. `hello`, `alive` and `gap` have no data; after a gap, events are"
                " missing.",
                "text/event-stream",
                _query("group_id", "Only events of this group.", _GROUP_ID),
                _query("after", "The id after which to continue.", _TEXT),
                {
                    "name": "Last-Event-ID",
                    "in": "header",
                    "required": False,
                    "schema": _TEXT,
                    "description": "The same, as browsers send it.",
                },
                refusals=(400, 503),
            ),
            "/api/commands/adopt": _post(AdoptCommand, AdoptionAnswer),
            "/api/commands/release": _post(ReleaseCommand, ReleaseAnswer),
            **{
                f"/api/commands/{command.model_fields['command'].default}": _post(
                    command, PolicySet
                )
                for command in (HoldCommand, PauseCommand, AllowCommand, RollCommand)
            },
            "/api/commands/drain": _post(DrainCommand, DrainAnswer),
            "/api/commands/remove": _post(RemoveCommand, RemovalAnswer),
            "/api/commands/restart": _post(RestartCommand, RestartAnswer),
            "/api/openapi.json": _get("This description.", {"type": "object"}),
        },
        "components": {
            "schemas": schemas["$defs"],
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


def _get(
    summary: str,
    answer: type[BaseModel] | dict[str, Any],
    *parameters: dict[str, Any],
    refusals: tuple[int, ...] = (400, 503),
) -> dict[str, Any]:
    return {
        "get": {
            "summary": summary,
            "parameters": list(parameters),
            "responses": {"200": _json("The answer.", _schema(answer)), **_refusals(refusals)},
        }
    }


def _get_other(
    summary: str, kind: str, *parameters: dict[str, Any], refusals: tuple[int, ...] = (503,)
) -> dict[str, Any]:
    answer = {"description": "The answer.", "content": {kind: {"schema": _TEXT}}}
    return {
        "get": {
            "summary": summary,
            "parameters": list(parameters),
            "responses": {"200": answer, **_refusals(refusals)},
        }
    }


def _post(order: type[BaseModel], answer: type[BaseModel]) -> dict[str, Any]:
    return {
        "post": {
            "summary": (order.__doc__ or "").strip(),
            "requestBody": {
                "required": True,
                "content": {"application/json": {"schema": _schema(order)}},
            },
            "responses": {
                "200": _json("What became of it.", _schema(answer)),
                **_refusals((400, 404, 408, 409, 413, 415, 503)),
            },
        }
    }


def _readyz() -> dict[str, Any]:
    operations = _get("Whether the gateway can serve clients.", Readiness, refusals=())
    responses = operations["get"]["responses"]
    responses["503"] = _json("It cannot, and why.", _schema(Readiness))
    return operations


def _refusals(codes: tuple[int, ...]) -> dict[str, Any]:
    responses = {str(code): _json(_REASONS[code], _WHY) for code in sorted({*codes, 401, 403, 421})}
    return responses | {"431": {"description": "The address and the headers are too long."}}


def _json(about: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": about, "content": {"application/json": {"schema": schema}}}


def _schema(answer: type[BaseModel] | dict[str, Any]) -> dict[str, Any]:
    return answer if isinstance(answer, dict) else {"$ref": _REF.format(model=answer.__name__)}


def _query(name: str, about: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": "query", "required": False, "schema": schema, "description": about}
