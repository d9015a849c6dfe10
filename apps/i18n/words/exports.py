"""The row that takes a view home."""

WORDS: dict[str, tuple[str, str]] = {
    "export.png": ("PNG", "PNG 图片"),
    "export.png_help": (
        "A browser on this machine photographs the page; that takes a few seconds.",
        "由本机的浏览器把页面拍成图片，需要几秒钟。",
    ),
    "export.png_missing": (
        "PNG needs Chrome, Chromium or Edge on the machine that serves the explorer; none is found. The camera above a picture saves it from your own browser.",
        "PNG 需要运行探索器的机器上装有 Chrome、Chromium 或 Edge，这里没有找到。图上方的相机按钮可以用你自己的浏览器保存图片。",
    ),
    "export.python": ("Copy as Python", "复制为 Python"),
}
