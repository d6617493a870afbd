"""Which keywords of JSON Schema a schema uses."""

from typing import Any

from tasks.guide.lint.edit import nodes

# fmt: off
KEYWORDS = frozenset({
    "$dynamicRef", "$recursiveRef", "$ref", "additionalItems", "additionalProperties", "allOf", "anyOf", "const",
    "contains", "contentEncoding", "contentMediaType", "dependencies", "dependentRequired", "dependentSchemas", "else",
    "enum", "exclusiveMaximum", "exclusiveMinimum", "format", "if", "items", "maxContains", "maxItems", "maxLength",
    "maxProperties", "maximum", "minContains", "minItems", "minLength", "minProperties", "minimum", "multipleOf", "not",
    "oneOf", "pattern", "patternProperties", "prefixItems", "properties", "propertyNames", "required", "then", "type",
    "unevaluatedItems", "unevaluatedProperties", "uniqueItems",
})
# fmt: on
"""Those that say what is valid, of all drafts; annotations are none."""


def keywords_of(schema: Any) -> list[str]:
    """The keywords that a schema uses anywhere, sorted. Names of properties are not taken for keywords."""
    if not isinstance(schema, dict):
        return []
    return sorted({key for node in nodes(schema) for key in node.node if key in KEYWORDS})
