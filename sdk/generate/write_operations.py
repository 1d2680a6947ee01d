"""Writes sdk/testdata/operations.json: how each operation is called, for the tests of the SDKs."""

import json

from contract import operations


def table(contract):
    rows = []
    for operation in operations(contract):
        row = {"operation": operation.id, "method": operation.method}
        row["arguments"] = [f"{parameter.name} {index}" for index, parameter in enumerate(operation.path_parameters)]
        path = operation.path
        for parameter, argument in zip(operation.path_parameters, row["arguments"]):
            path = path.replace("{" + parameter.name + "}", argument.replace(" ", "%20"))
        row["path"] = "/v1" + path
        row["status"] = 200 if operation.answer else 302
        row["answer"] = {"data": [], "has_more": False, "next_cursor": None} if operation.item else {}
        if operation.multipart:
            row["upload"] = {"filename": "a", "content": "a", "fields": {}}
        elif operation.body and operation.body_required:
            row["body"] = {}
        rows.append(row)
    return "[\n" + ",\n".join("  " + json.dumps(row) for row in rows) + "\n]\n"
