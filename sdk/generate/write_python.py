"""Writes the types and the methods of the Python SDK."""

import keyword
import re
import textwrap

from contract import nullable, name_of, operations, pascal, snake

HEADER = '"""{what}\n\nMade by `make clients-write` from openapi/openapi.yaml; do not edit.\n"""\n\nfrom __future__ import annotations\n'
SCALARS = {"string": "str", "integer": "int", "number": "float", "boolean": "bool"}


class Types:
    """Turns schemas into Python types; an object without a name gets that of its parent and field."""

    def __init__(self, contract):
        self.schemas = contract["components"]["schemas"]
        self.classes = []
        self.aliases = {}  # expression and comment by name
        for name, schema in self.schemas.items():
            self.named(name, schema)

    def named(self, name, schema):
        if "properties" in schema or "allOf" in schema:
            self.typed_dict(name, schema)
            return
        self.aliases[name] = (self.of(schema, name), comment(schema))

    def typed_dict(self, name, schema):
        bases, properties, required = ["TypedDict"], schema.get("properties", {}), schema.get("required", [])
        if "allOf" in schema:
            base, own = schema["allOf"]
            bases, properties, required = [name_of(base["$ref"])], own["properties"], own["required"]
        fields = []
        for field, described in properties.items():
            kind = self.of(described, name + pascal(field))
            fields.append((field, kind if field in required else f"NotRequired[{kind}]", described.get("description", "")))
        if any(keyword.iskeyword(field) for field, _, _ in fields):
            self.classes.append(functional(name, schema, fields))
            return
        lines = [f"class {name}({', '.join(bases)}):"]
        if schema.get("description"):
            lines += [docstring(schema["description"], 4), ""]
        for field, kind, description in fields:
            lines.append(f"    {field}: {kind}")
            if description:
                lines.append(docstring(description, 4))
        self.classes.append("\n".join(lines) + "\n")

    def of(self, schema, name):
        schema, null = nullable(schema)
        kind = self.without_null(schema, name)
        return f"{kind} | None" if null else kind

    def without_null(self, schema, name):
        if "$ref" in schema:
            return name_of(schema["$ref"])
        if "const" in schema:
            return literal([schema["const"]])
        if "enum" in schema:
            return literal(schema["enum"])
        for word in ("oneOf", "anyOf"):
            if word in schema:
                return " | ".join(self.of(one, name + "Object") for one in schema[word])
        if schema.get("type") == "array":
            return f"list[{self.of(schema['items'], name + 'Item')}]"
        if "properties" in schema:
            self.typed_dict(name, schema)
            return name
        return SCALARS.get(schema.get("type"), "dict[str, Any]")


def literal(values):
    return f"Literal[{', '.join('True' if value is True else quoted(value) for value in values)}]"


def quoted(text):
    return f"'{text}'" if '"' in text else f'"{text}"'


def comment(schema):
    text = schema.get("description", "").strip().replace("\n\n", "\n")
    return "".join(f"# {line}\n" for paragraph in text.splitlines() for line in textwrap.wrap(paragraph, 98))


def docstring(text, indent):
    text = " ".join(text.split()).replace("\\", "\\\\").replace('"""', "'''")
    lines = textwrap.wrap(f'"""{text}"""', 100 - indent)
    return textwrap.indent("\n".join(lines), " " * indent)


def functional(name, schema, fields):
    """A field such as `from` is a keyword and cannot stand in a class."""
    lines = [f'{comment(schema)}{name} = TypedDict(\n    "{name}",\n    {{']
    for field, kind, description in fields:
        lines += [f"        # {line}" for line in textwrap.wrap(" ".join(description.split()), 90)]
        lines.append(f'        "{field}": {quoted(kind)},')
    return "\n".join(lines) + "\n    },\n)\n"


def types(contract):
    found = Types(contract)
    unions = {name: alias for name, alias in found.aliases.items() if " | " in alias[0] and "None" not in alias[0]}
    scalars = {name: alias for name, alias in found.aliases.items() if name not in unions}
    return (
        HEADER.format(what="The types of the contract.")
        + "\nfrom typing import Any, Literal, NotRequired, TypeAlias, TypedDict\n\n"
        + "\n".join(ordered(scalars)) + "\n\n" + "\n\n".join(found.classes) + "\n\n" + "\n".join(ordered(unions))
    )


def ordered(aliases):
    """The aliases as text, each after those that it names, because Python evaluates them."""
    done = []

    def add(name):
        expression, text = aliases[name]
        for other in aliases:
            if other != name and re.search(rf"\b{other}\b", expression) and '"' not in expression:
                add(other)
        line = text + wrapped_alias(name, expression) + "\n"
        if line not in done:
            done.append(line)

    for name in aliases:
        add(name)
    return done


def wrapped_alias(name, expression):
    line = f"{name}: TypeAlias = {expression}"
    if len(line) <= 100:
        return line
    if expression.startswith("Literal["):
        return f"{name}: TypeAlias = Literal[\n" + "".join(f"    {value},\n" for value in expression[8:-1].split(", ")) + "]"
    return f"{name}: TypeAlias = (\n    " + "\n    | ".join(expression.split(" | ")) + "\n)"


def methods(contract):
    text = HEADER.format(what="One method for each operation of the contract.")
    text += "\nfrom typing import Literal\n\nfrom . import types\nfrom ._core import Core, List, Upload\n\n\nclass Operations(Core):\n"
    return text + "\n".join(method(operation) for operation in operations(contract))


def method(operation):
    signature = ["self"] + [f"{parameter.name}: str" for parameter in operation.path_parameters]
    path = "[" + ", ".join(segment(part) for part in operation.path.strip("/").split("/")) + "]"
    arguments = [f'"{operation.method}"', path]
    if operation.body:
        kind = "Upload" if operation.multipart else f"types.{operation.body}"
        signature.append(f"body: {kind}" if operation.body_required else f"body: {kind} | None = None")
        arguments.append("body=body")
    if operation.query or operation.method == "POST":
        signature.append("*")
    for parameter in operation.query:
        signature.append(f"{parameter.name}: {query_type(parameter.schema)} | None = None")
    if operation.query:
        pairs = [f'"{parameter.name}": {parameter.name}' for parameter in operation.query]
        arguments.append(wrapped("query={", pairs, "}").replace("\n", "\n    "))
    if operation.method == "POST":
        signature.append("idempotency_key: str | None = None")
        arguments.append("idempotency_key=idempotency_key")
    if operation.item:
        result = f"List[types.{operation.item}, types.{operation.answer}]"
        call = wrapped("return List(", ["self"] + arguments[1:], ")")
    elif operation.answer:
        result = f"types.{operation.answer}"
        call = wrapped("return self.request(", arguments, ")")
    else:
        result = "str"
        call = wrapped("return self.location(", arguments, ")")
    head = wrapped(f"def {snake(operation.id)}(", signature, f") -> {result}:")
    text = f'{head}\n    """{operation.summary}."""\n{textwrap.indent(call, "    ")}\n'
    return textwrap.indent(text, "    ")


def wrapped(head, arguments, tail):
    """One line, or one for each argument when that is too long."""
    line = head + ", ".join(arguments) + tail
    if len(line) <= 92:
        return line
    return head + "\n" + "".join(f"    {argument},\n" for argument in arguments).replace("*,,", "*,") + tail


def segment(part):
    return part[1:-1] if part.startswith("{") else f'"{part}"'


def query_type(schema):
    if "$ref" in schema:
        return f"types.{name_of(schema['$ref'])}"
    if "enum" in schema:
        return literal(schema["enum"])
    return SCALARS[schema["type"]]
