"""Writes the methods of the TypeScript SDK; its types are made by openapi-ts."""

from contract import camel, name_of, operations, pascal

HEADER = "// Made by `make clients-write` from openapi/openapi.yaml; do not edit.\n\n"


def methods(contract):
    text = HEADER + 'import { Core, List, type RequestOptions, type Upload } from "./core.js";\n'
    text += 'import type * as types from "./types.js";\n\n'
    text += "/** One method for each operation of the contract. */\nexport class Operations extends Core {\n"
    return text + "\n".join(method(operation) for operation in operations(contract)) + "}\n\n" + events(contract)


def method(operation):
    signature = [f"{camel(parameter.name)}: string" for parameter in operation.path_parameters]
    path = ", ".join(
        camel(part[1:-1]) if part.startswith("{") else f'"{part}"' for part in operation.path.strip("/").split("/")
    )
    given = []
    if operation.body:
        kind = "Upload" if operation.multipart else f"types.{pascal(operation.body)}"
        signature.append(f"body: {kind}" if operation.body_required else f"body?: {kind}")
        given.append("body")
    if operation.query:
        signature.append(f'query: NonNullable<types.{pascal(operation.id)}Data["query"]> = {{}}')
        given.append("query")
    options = "RequestOptions" if operation.method == "POST" else 'Omit<RequestOptions, "idempotencyKey">'
    if operation.item:
        result = f"List<types.{pascal(operation.item)}, types.{pascal(operation.answer)}>"
        signature.append(f"options: {options} = {{}}")
        call = f"return new List(this, [{path}], query, options);"
    else:
        signature.append(f"options: {options} = {{}}")
        result = f"Promise<types.{pascal(operation.answer)}>" if operation.answer else "Promise<string>"
        verb = "request" if operation.answer else "location"
        more = f"{{ {', '.join(given)}, ...options }}" if given else "options"
        call = f'return this.{verb}("{operation.method}", [{path}], {more});'
    head = f"  {camel(operation.id)}({', '.join(signature)}): {result} {{"
    if len(head) > 120:
        head = f"  {camel(operation.id)}(\n" + "".join(f"    {one},\n" for one in signature) + f"  ): {result} {{"
    return f"  /** {operation.summary}. */\n{head}\n    {call}\n  }}\n"


def events(contract):
    lines = "".join(
        f'  "{name}": types.{pascal(name_of(webhook["post"]["requestBody"]["content"]["application/json"]["schema"]["$ref"]))};\n'
        for name, webhook in contract["webhooks"].items()
    )
    return f"/** The body of each event, by its type. */\nexport interface EventBodies {{\n{lines}}}\n"
