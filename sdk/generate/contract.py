"""Reads the contract (OpenAPI as JSON) and lists its operations in the form that the writers need."""

import json
import re
from dataclasses import dataclass


@dataclass
class Parameter:
    name: str  # as in the contract, such as phone_number_id
    schema: dict
    description: str


@dataclass
class Operation:
    id: str  # the operationId, such as sendMessage
    method: str  # in capitals
    path: str  # with its parameters in braces
    summary: str
    path_parameters: list[Parameter]
    query: list[Parameter]  # without cursor where there is an iterator
    body: str | None  # the name of the body's schema
    body_required: bool
    multipart: bool
    answer: str | None  # the name of the answer's schema; None when the answer is a redirect
    item: str | None  # the name of the schema of a list's items


def load(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def name_of(reference):
    return reference.rsplit("/", 1)[1]


def operations(contract):
    found = []
    for path, item in contract["paths"].items():
        for method, described in item.items():
            if method != "parameters":
                found.append(_operation(contract, path, method, described, item.get("parameters", [])))
    return found


def _operation(contract, path, method, described, shared):
    parameters = {"path": [], "query": [], "header": []}
    for parameter in shared + described.get("parameters", []):
        if "$ref" in parameter:
            parameter = contract["components"]["parameters"][name_of(parameter["$ref"])]
        parameters[parameter["in"]].append(
            Parameter(parameter["name"], parameter["schema"], parameter.get("description", ""))
        )
    parameters["path"].sort(key=lambda parameter: path.index("{" + parameter.name + "}"))
    body = described.get("requestBody", {})
    content = body.get("content", {})
    answer = _answer(described)
    item = _item(contract, answer) if described.get("x-paginated") else None
    return Operation(
        id=described["operationId"],
        method=method.upper(),
        path=path,
        summary=described["summary"],
        path_parameters=parameters["path"],
        query=parameters["query"],
        body=name_of(next(iter(content.values()))["schema"]["$ref"]) if content else None,
        body_required=body.get("required", False),
        multipart="multipart/form-data" in content,
        answer=answer,
        item=item,
    )


def _answer(described):
    """The one schema of all 2xx answers of an operation."""
    names = {
        name_of(response["content"]["application/json"]["schema"]["$ref"])
        for status, response in described["responses"].items()
        if status.startswith("2")
    }
    if len(names) > 1:
        raise SystemExit(f"{described['operationId']} has several answers: {names}")
    return names.pop() if names else None


def _item(contract, answer):
    schema = contract["components"]["schemas"][answer]
    if not {"data", "has_more", "next_cursor"} <= set(schema["required"]):
        raise SystemExit(f"{answer} is not a list as the others")
    return name_of(schema["properties"]["data"]["items"]["$ref"])


def words(name):
    """The words of a name in snake_case or camelCase, in lower case."""
    spaced = re.sub(r"([a-z0-9])([A-Z])|([A-Z])([A-Z][a-z])", r"\1\3 \2\4", name)
    return re.split(r"[ _.-]+", spaced.lower())


def snake(name):
    return "_".join(words(name))


def pascal(name):
    return "".join(word.capitalize() for word in words(name))


def camel(name):
    made = pascal(name)
    return made[0].lower() + made[1:]


def nullable(schema):
    """The schema without null, and whether null is allowed."""
    if isinstance(schema.get("type"), list):
        (kind,) = (kind for kind in schema["type"] if kind != "null")
        return {**schema, "type": kind}, True
    for word in ("oneOf", "anyOf"):
        rest = [one for one in schema.get(word, []) if one.get("type") != "null"]
        if len(rest) < len(schema.get(word, [])):
            return (rest[0] if len(rest) == 1 else {**schema, word: rest}), True
    return schema, False
