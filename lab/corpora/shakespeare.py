"""`shakespeare`: tiny-shakespeare, downloaded once and checked against its hash."""

from __future__ import annotations

from pathlib import Path

from lab.corpora.base import Corpus, CorpusInfo, split_by_position

URL = "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt"
SHA256 = "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"
FILE_NAME = "tinyshakespeare.txt"

INFO = CorpusInfo(
    name="shakespeare",
    kind="text",
    title={"en": "Tiny Shakespeare", "zh": "小莎士比亚"},
    description={
        "en": "1,115,394 characters of Shakespeare's plays, the text on which small character models are "
        "compared. Downloaded on first use (1.1 MB).",
        "zh": "莎士比亚剧本 1,115,394 个字符，小型字符模型常用的对比文本。首次使用时下载（1.1 MB）。",
    },
    licence="public domain",
    source=URL,
)


class CorpusUnavailable(ConnectionError, ValueError):
    """A corpus that has to be downloaded could not be; the message says what to do instead."""


def cache_folder() -> Path:
    """Where downloads are kept, the user's cache folder of this system."""
    import platformdirs

    return Path(platformdirs.user_cache_dir("residlab")) / "corpora"


def open_shakespeare(size: int | None = None) -> Corpus:
    """The corpus from the cache, downloaded if it is not there. CorpusUnavailable, a sentence that says what
    to do, when it can be neither read nor fetched."""
    text = _fetch().read_text(encoding="utf-8")
    if size is not None:
        text = text[:size]
    train, validation = split_by_position(text)
    return Corpus(info=INFO, train=train, validation=validation)


def _fetch() -> Path:
    import pooch

    folder = cache_folder()
    logger = pooch.get_logger()
    level = logger.level
    logger.setLevel("WARNING")  # its progress lines would mix with ours
    try:
        return Path(pooch.retrieve(URL, known_hash=f"sha256:{SHA256}", fname=FILE_NAME, path=folder))
    except Exception as error:  # pooch passes on whatever requests, urllib3 or the file system raise
        raise CorpusUnavailable(
            f"tiny-shakespeare is not in the cache and could not be downloaded ({_reason(error)}). "
            f"Put a copy at {folder / FILE_NAME}, or name your own text file as the corpus, "
            f"or use 'stories', which needs no network"
        ) from error
    finally:
        logger.setLevel(level)


def _reason(error: Exception) -> str:
    """The first line of what went wrong, short."""
    lines = str(error).splitlines() or [""]
    first = lines[0]
    return f"{type(error).__name__}: {first[:117]}..." if len(first) > 120 else f"{type(error).__name__}: {first}"
