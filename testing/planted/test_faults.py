"""Each fault that can be planted still fits the sources: python3 -m unittest discover -s testing/planted"""

import importlib.util
import pathlib
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLES = ["testing/networks/planted/faults.toml", "hil-tests/planted/faults.toml"]


@unittest.skipUnless(importlib.util.find_spec("tomllib"), "needs Python 3.11")
class Faults(unittest.TestCase):
    def test_what_a_fault_replaces_stands_once_in_its_file(self):
        import tomllib

        for name in TABLES:
            table = tomllib.loads((ROOT / name).read_text())
            changes = table["fault"] + [change for change in table.values() if isinstance(change, dict)]
            for change in changes:
                with self.subTest(table=name, fault=change.get("name"), file=change["file"]):
                    text = (ROOT / change["file"]).read_text()
                    self.assertEqual(text.count(change["was"].strip("\n")), 1, change["was"])


if __name__ == "__main__":
    unittest.main()
