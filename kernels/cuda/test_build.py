"""Archives, and what makes a module stale: `python3 -m unittest discover -s kernels/cuda`."""

import json
import unittest

import archives
import build
from nvrtc import Usage, usages

HEAD = b"//\n// Generated\n//\n\n.version 8.5\n.target sm_87\n"
BODY = b".address_size 64\n\n\t// a comment\n.visible .entry k()\n{\n}\n"


class Archives(unittest.TestCase):
    def test_an_archive_of_code_is_read_as_it_was_written(self):
        modules = {
            "general": archives.Module.of(b"\x7fELF" * 1000, False, {"k": Usage(12, 34, 0), "a": Usage(1, 0, 0)}),
            "probe": archives.Module.of(b"// ptx\0", True, {}),
        }
        read = archives.read_code(archives.write_code(modules))
        self.assertEqual(read, modules)
        self.assertEqual(read["general"].code(), b"\x7fELF" * 1000)

    def test_ptx_is_read_as_it_was_written_and_a_text_is_there_once(self):
        one = archives.Ptx.of(b"a cubin", HEAD + BODY + b"\0")
        two = archives.Ptx.of(b"another", HEAD.replace(b"87", b"90") + BODY + b"\0")
        entries = {("sm_87", "general"): one, ("sm_90", "general"): two}
        read, packed = archives.read_ptx(archives.write_ptx(entries, {}))
        self.assertEqual(read, entries)
        self.assertEqual(set(packed), {one.head, two.head, BODY})
        self.assertEqual(one.head + one.body, HEAD + BODY)

    def test_compressed_bytes_of_a_text_that_stays_are_kept(self):
        one = archives.Ptx.of(b"a cubin", HEAD + BODY)
        first = archives.write_ptx({("sm_87", "general"): one}, {})
        _, packed = archives.read_ptx(first)
        packed[BODY] = archives.zlib.compress(BODY, 1)
        self.assertIn(packed[BODY], archives.write_ptx({("sm_87", "general"): one}, packed))

    def test_ptx_that_has_code_before_its_target_is_refused(self):
        with self.assertRaises(ValueError):
            archives.Ptx.of(b"", b"//\n.version 8.5\n.global .u32 x;\n.target sm_87\n" + BODY)


class Staleness(unittest.TestCase):
    def setUp(self):
        self.images = build.Images()

    def test_the_images_in_the_tree_are_those_of_their_sources(self):
        self.assertEqual(self.images.stale(), [])
        self.assertEqual(self.images.surplus(), [])

    def test_only_modules_that_include_a_header_depend_on_it(self):
        depend = [module for module in build.MODULES if "attention.cuh" in build.headers_of(f"{module}.cu")]
        self.assertEqual(depend, ["operators"])
        self.assertIn("guard.cuh", build.headers_of("conv_gemm_64x64.cu"), "by other headers")

    def test_a_module_of_other_inputs_is_stale_and_no_other(self):
        self.images.manifest["images"]["sm_87"]["modules"]["bytes"]["inputs"] = "0"
        self.assertEqual(self.images.stale(), [("sm_87", "bytes")])

    def test_a_cubin_without_its_ptx_is_stale(self):
        del self.images.ptx["sm_90", "general"]
        self.assertEqual(self.images.stale(), [("sm_90", "general")])

    def test_each_of_the_inputs_of_a_module_counts(self):
        before = build.inputs_of("sm_87", "probe")
        self.assertNotEqual(before, build.inputs_of("sm_90", "probe"), "architecture")
        self.assertNotEqual(before, build.inputs_of("sm_87-cuda11", "probe"), "compiler")
        self.assertNotEqual(before, build.inputs_of("sm_87", "bytes"), "sources")

    def test_something_else_than_the_compiler_makes_is_found(self):
        pair = ("sm_87", "probe")
        ptx = self.images.ptx[pair]
        same = build.Compiled(self.images.modules[pair].code(), ptx.head + ptx.body + b"\0")
        self.assertFalse(self.images.differs(pair, same))
        self.assertTrue(self.images.differs(pair, build.Compiled(same.code + b"\0", same.ptx)))
        self.assertTrue(self.images.differs(pair, build.Compiled(same.code, same.ptx.replace(b"add", b"sub", 1))))

    def test_the_table_of_the_readme_is_that_of_the_manifest(self):
        readme = (build.HERE / "README.md").read_text()
        self.assertIn(build.ptx_table(json.loads(build.MANIFEST.read_text())), readme)


class Log(unittest.TestCase):
    def test_what_a_kernel_needs_is_read_from_the_log_of_the_assembler(self):
        log = """ptxas info    : Compiling entry function 'k' for 'sm_87'
ptxas info    : Function properties for k
    8 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers, 2048 bytes smem, 444 bytes cmem[0]
"""
        self.assertEqual(usages(log), {"k": Usage(40, 2048, 8, 16)})


if __name__ == "__main__":
    unittest.main()
