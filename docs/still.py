#!/usr/bin/env python3
"""A still of a terminal as SVG: the command, and what it printed.

    cargo run --release -- demo | tail -n 17 | python3 docs/still.py "cargo run --release -- demo" > docs/demo.svg
"""
import html
import sys

WIDTH, LINE, LEFT, TOP = 8.43, 20, 18, 44

lines = [f"$ {sys.argv[1]}", ""] + [line.rstrip() for line in sys.stdin]
width = max(map(len, lines)) * WIDTH + 2 * LEFT
height = len(lines) * LINE + TOP + 8
print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" height="{height}">')
# Browsers collapse the spaces between columns otherwise, whatever `xml:space` says.
print('<style>text { white-space: pre }</style>')
print(f'<rect width="{width:.0f}" height="{height}" rx="8" fill="#16181d"/>')
for at, colour in enumerate(("#ff5f57", "#febc2e", "#28c840")):
    print(f'<circle cx="{LEFT + 4 + 18 * at}" cy="16" r="5" fill="{colour}"/>')
print('<g font-family="ui-monospace, Menlo, Consolas, DejaVu Sans Mono, monospace" font-size="14" fill="#d7dae0" xml:space="preserve">')
for at, line in enumerate(lines):
    colour = ' fill="#7fd1ae"' if at == 0 else ""
    y = TOP + at * LINE
    print(f'<text x="{LEFT}" y="{y}"{colour} textLength="{len(line) * WIDTH:.1f}">{html.escape(line)}</text>' if line else "")
print("</g></svg>")
