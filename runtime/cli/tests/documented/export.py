"""Writes the ONNX files of docs/networks.md beside this file: python export.py

Runs the Python of that page as it stands, with weights from a seed. It needs torch and onnx (models/zoo/requirements.txt).
The files are committed: tests/command/documented_commands.rs compiles them.
"""

import os
import re
from pathlib import Path

import torch

FOLDER = Path(__file__).parent
PAGE = FOLDER.parents[3] / "docs/networks.md"

if __name__ == "__main__":
    torch.manual_seed(0)
    os.chdir(FOLDER)
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    exec("\n".join(blocks), {})
