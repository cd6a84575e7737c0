"""READMEs on the site: pages include them, whole or by sections, and their links lead to where that stands.

A page says `<!-- include crowdsweep/models/README.md "Choosing a model" -->` for what stands under that heading, and
without a heading for all of it, with links in place of what other pages include. So every line of a README is on the
site once, and is written in one place.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from posixpath import dirname, join, normpath, relpath

_INCLUDE = re.compile(r'^<!-- include (\S+?)(?: "([^"]+)")? -->$', re.MULTILINE)
_FENCED = re.compile(r"^(```.*?^```$)", re.MULTILINE | re.DOTALL)
_FENCE_WITH_FILE = re.compile(r"\A```(\w+) (\S+)$", re.MULTILINE)
_HEADING = re.compile(r"(#{1,6}) (.+)")
_LINK = re.compile(r"(?<=\]\()([^)\s]+)(?=\))")
_CODE = re.compile(r"(\[?)`([^`]+)`")
_FIRST_ENTRY = re.compile(r"\s*(?:[-*]|1\.) ")  # other numbers may begin a line of a sentence
_ENTRY = re.compile(r"\s*(?:[-*]|\d+\.) ")


class NotThere(ValueError):
    """A page includes or links what is not there."""


@dataclass(frozen=True, kw_only=True)
class Section:
    """A heading of a document with what stands under it, up to the next heading, of any level.

    Attributes:
        title: of the heading.
        level: 1 to 6.
        text: the heading's line and all lines to the next heading.
    """

    title: str
    level: int
    text: str


@dataclass(frozen=True, kw_only=True)
class Rooms:
    """The pages of the site as they are written, over a clone.

    Attributes:
        root: of the clone.
        pages: what is written, by the page's address (`how-to/choose-a-model.md`).
        named: where what a text names as `code` is explained: models, keys of sweep files.
    """

    root: Path
    pages: Mapping[str, str]
    named: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def _taken(self) -> dict[tuple[str, str], str]:
        """The page of each section that one includes by its heading, with the sections below it."""
        found: dict[tuple[str, str], str] = {}
        for page, text in self.pages.items():
            for path, title in _INCLUDE.findall(text):
                if title:
                    found.update({(path, section.title): page for section in self._under(path, title, page)})
        return found

    @cached_property
    def _homes(self) -> dict[str, str]:
        """The page of each document that one includes without a heading, and of each page itself."""
        pages = {f"docs/pages/{page}": page for page in self.pages}
        found = {path: page for page, text in self.pages.items() for path, title in _INCLUDE.findall(text) if not title}
        return pages | found

    def expanded(self, page: str) -> str:
        """Returns a page with what it includes, as Python-Markdown reads it.

        Raises:
            NotThere: it includes or links what is not there.
        """
        text = _INCLUDE.sub(lambda match: self._included(match[1], match[2] or "", page), self.pages[page])
        return "".join(
            _FENCE_WITH_FILE.sub(r'```\1 title="\2"', part)
            if part.startswith("```")
            else _nested(_CODE.sub(lambda match: match[0] if match[1] else self._linked_code(match[2], page), part))
            for part in _FENCED.split(text)
        )

    def pictures(self) -> dict[str, Path]:
        """Returns the files of all pictures in what is included, by their addresses on the site."""
        documents = {path for text in self.pages.values() for path, _ in _INCLUDE.findall(text)}
        return {
            _picture(path): self.root / path
            for document in documents
            for target in re.findall(r"!\[[^]]*\]\(([^)\s]+)\)", self._document(document))
            for path in [_beside(document, target)]
        }

    def _document(self, path: str) -> str:
        file = self.root / path
        if not file.is_file():
            raise NotThere(f"a page includes {path}, and there is no such file")
        return file.read_text(encoding="utf-8")

    def _under(self, path: str, title: str, page: str) -> list[Section]:
        """Returns a section and those below it; of the title of a document, what stands before its first section."""
        sections = list(sections_of(self._document(path)))
        at = next((n for n, section in enumerate(sections) if section.title == title), None)
        if at is None:
            raise NotThere(f"{page} includes the section {title!r} of {path}, which has none of that name")
        level = sections[at].level
        end = at + 1
        while level > 1 and end < len(sections) and sections[end].level > level:
            end += 1
        return sections[at:end]

    def _included(self, path: str, title: str, page: str) -> str:
        if title:
            first, *below = self._under(path, title, page)
            parts = [first.text.partition("\n")[2], *(_raised(section, first.level - 1) for section in below)]
        else:
            parts = [self._kept(path, section, page) for section in sections_of(self._document(path))]
        outside = _FENCED.split("".join(parts).strip("\n"))
        return "".join(
            part if part.startswith("```") else _LINK.sub(lambda match: self._led(path, match[1], page), part)
            for part in outside
        )

    def _kept(self, path: str, section: Section, page: str) -> str:
        """Returns what stands of a section on the page of its document: all of it, or where it is to be read."""
        reader = self._taken.get((path, section.title))
        if reader is None:
            return section.text
        if section.level == 1 or not self._is_included(path, section.title, reader):
            return ""
        told = next(s.title for s in sections_of(self.pages[reader]) if s.title)
        return f"{'#' * section.level} {section.title}\n\nSee [{told}](page:{relpath(reader, dirname(page))}).\n\n"

    def _led(self, path: str, target: str, page: str) -> str:
        """Returns where a link of a document leads, from the page that includes it."""
        if target.startswith("page:"):
            return target.removeprefix("page:")
        if re.match(r"[a-z]+:", target):
            return target
        file, _, fragment = target.partition("#")
        document = _beside(path, file) if file else path
        if document in self._homes:
            return self._address(document, fragment, page)
        if not (self.root / document).is_file() or not document.endswith((".png", ".svg")):
            raise NotThere(f"{path} links {target}, which is neither a page of the site nor a picture")
        return relpath(_picture(document), dirname(page))

    def _address(self, document: str, fragment: str, page: str) -> str:
        titles = {slug(section.title): section.title for section in sections_of(self._document(document))}
        if fragment and fragment not in titles:
            raise NotThere(f"{page}: there is no section #{fragment} in {document}")
        title = titles.get(fragment, "")
        home = self._taken.get((document, title), self._homes[document])
        is_page = self._is_included(document, title, home)  # which has a title of its own in the heading's place
        return relpath(home, dirname(page)) + (f"#{fragment}" if fragment and not is_page else "")

    def _is_included(self, path: str, title: str, page: str) -> bool:
        return f'<!-- include {path} "{title}" -->' in self.pages[page]

    def _linked_code(self, words: str, page: str) -> str:
        """Returns `code` as a link, where the site has a page on what it names."""
        if words in self._homes and self._homes[words] != page:
            title = next(s.title for s in sections_of(self._document(words)) if s.title).replace("`", "")
            return f"[{title}]({self._address(words, '', page)})"
        if words in self.named:
            return f"[`{words}`]({relpath(self.named[words], dirname(page))})"
        return f"`{words}`"


def sections_of(text: str) -> Iterator[Section]:
    """Yields the sections of a document; headings in blocks of code are none."""
    lines: list[str] = []
    title, level, in_block = "", 1, False
    for line in text.splitlines(keepends=True):
        in_block ^= line.startswith("```")
        heading = None if in_block else _HEADING.match(line)
        if heading is not None:
            if lines:
                yield Section(title=title, level=level, text="".join(lines))
            lines, title, level = [], heading[2].strip(), len(heading[1])
        lines.append(line)
    yield Section(title=title, level=level, text="".join(lines))


def slug(title: str) -> str:
    """Returns the address of a heading within its page."""
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower())


def _beside(document: str, target: str) -> str:
    return normpath(join(dirname(document), target))


def _picture(path: str) -> str:
    return f"pictures/{Path(path).name}"


def _raised(section: Section, by: int) -> str:
    return section.text.replace("#" * section.level, "#" * (section.level - by), 1)


def _nested(text: str) -> str:
    """Returns Markdown whose lists are as Python-Markdown wants them: after an empty line, what an entry holds indented
    by four."""
    lines: list[str] = []
    in_list, before = False, ""
    for line in text.split("\n"):
        entry = (_ENTRY if in_list else _FIRST_ENTRY).match(line) is not None
        if entry and not in_list and before.strip():
            lines.append("")
        in_list = entry or (in_list and (not line.strip() or line.startswith("  ") or bool(before.strip())))
        lines.append(f"  {line}" if in_list and line.startswith("  ") else line)
        before = line
    return "\n".join(lines)
