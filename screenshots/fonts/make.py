"""Makes the fonts of the pictures: subsets, and symbols squeezed into a cell of the mono face.

Debian's fonts-dejavu-core, fonts-noto-core and fonts-noto-cjk unpacked into one folder, and fonttools:
    python3 make.py FOLDER
"""

import sys
from pathlib import Path

from fontTools.pens.boundsPen import BoundsPen
from fontTools.pens.transformPen import TransformPen
from fontTools.pens.ttGlyphPen import TTGlyphPen
from fontTools.subset import Options, Subsetter
from fontTools.ttLib import TTFont

HERE = Path(__file__).parent

# Latin, Greek, Cyrillic, punctuation, arrows, technical, frames and blocks, shapes, symbols, check marks.
MONO = [
    *range(0x20, 0x7F), *range(0xA0, 0x180), *range(0x370, 0x460), *range(0x300, 0x340), *range(0x2010, 0x2028),
    *range(0x2030, 0x203B), 0x20AC, *range(0x2190, 0x2400), *range(0x2423, 0x2424), *range(0x2500, 0x2700),
    *range(0x2713, 0x2719),
]
# Hourglass and the pictures of control characters, which the mono face lacks.
SYMBOLS = [0x231B, *range(0x2400, 0x2427)]
CJK = "データ同期承認待ち日本語中文한국어漢字請求書支払銀行送金確認許可拒否期限緊急"

CELL_EM = 1233 / 2048


def subset(folder, name, wanted, number=-1):
    [path] = folder.rglob(name)
    font = TTFont(path, fontNumber=number)
    options = Options(layout_features=[], hinting=False, notdef_outline=True, drop_tables=["FFTM", "GPOS", "GSUB", "GDEF"])
    subsetter = Subsetter(options)
    subsetter.populate(unicodes=wanted)
    subsetter.subset(font)
    return font


def squeeze(font):
    """Gives every glyph the width of a cell, and narrows what is wider."""
    cell = round(CELL_EM * font["head"].unitsPerEm)
    margin = cell // 16
    glyphs = font.getGlyphSet()
    for name in font.getGlyphOrder():
        bounds, pen = BoundsPen(glyphs), TTGlyphPen(None)
        glyphs[name].draw(bounds)
        left, _, right, _ = bounds.bounds or (0, 0, 0, 0)
        scale = min(1, (cell - 2 * margin) / max(right - left, 1))
        shift = (cell - (right - left) * scale) / 2 - left * scale
        glyphs[name].draw(TransformPen(pen, (scale, 0, 0, 1, shift, 0)))
        glyph = pen.glyph()
        glyph.recalcBounds(font["glyf"])
        font["glyf"][name] = glyph
        font["hmtx"][name] = (cell, glyph.xMin if hasattr(glyph, "xMin") else 0)


def main(folder):
    for name in ("DejaVuSansMono.ttf", "DejaVuSansMono-Bold.ttf"):
        subset(folder, name, MONO).save(HERE / name)
    symbols = subset(folder, "NotoSansSymbols2-Regular.ttf", SYMBOLS)
    squeeze(symbols)
    symbols.save(HERE / "NotoSansSymbols2-Regular.ttf")
    subset(folder, "NotoSansCJK-Regular.ttc", map(ord, CJK), 0).save(HERE / "NotoSansCJK-Regular.otf")


main(Path(sys.argv[1]))
