"""Writes schemas.json: of each operator that the compiler knows, in each version from operator set 11 on, what ONNX says.

pip install onnx && python schemas.py > schemas.json
"""

import json, pathlib, re

import numpy
from onnx import defs, helper

# The oldest operator set that is compiled.
FIRST = 11

source = pathlib.Path(__file__).parents[2] / "src"
rows = re.compile(r'^    "(\w+)" => (?:lower|fold|measure|compose) ', re.M)
known = {name for path in source.glob("lower*/**/*.rs") for name in rows.findall(path.read_text())}
known |= set(rows.findall((source / "lower.rs").read_text()))


def value(attribute):
    default = helper.get_attribute_value(attribute)
    if isinstance(default, bytes):
        return default.decode()
    if isinstance(default, list):
        return [one.decode() if isinstance(one, bytes) else one for one in default]
    # As the shortest decimal that means this f32.
    return float(str(numpy.float32(default))) if isinstance(default, float) else default


def attribute(of):
    found = {"type": of.type.name.lower()}
    if of.required:
        found["required"] = True
    if of.default_value.name:
        found["default"] = value(of.default_value)
    return found


def version(schema):
    return {
        "since": schema.since_version,
        "inputs": [schema.min_input, schema.max_input],
        "attributes": {name: attribute(of) for name, of in sorted(schema.attributes.items())},
    }


versions = {name: [] for name in sorted(known)}
for schema in sorted(defs.get_all_schemas_with_history(), key=lambda schema: schema.since_version):
    if schema.domain == "" and schema.name in known:
        of = versions[schema.name]
        # One that a later version replaces before the first set is not in any.
        if schema.since_version <= FIRST:
            of.clear()
        of.append(version(schema))
# What onnxruntime alone has is in none of the schemas.
lines = [f" {json.dumps(name)}: {json.dumps(of)}" for name, of in versions.items() if of]
print("{\n" + ",\n".join(lines) + "\n}")
