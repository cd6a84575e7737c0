"""A headless Chromium, driven through a pipe by its own protocol: opens pages, waits, reads, takes pictures."""

import base64
import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any

WAIT_S = 120.0
_LOOK_S = 0.25
_ARGUMENTS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run")


def chromium() -> str | None:
    """Returns the browser of this machine; None where it has none."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Browser:
    """One tab of a headless Chromium.

    Args:
        profile: an empty folder for what it keeps.
        width, height: of the window, in pixels.
    """

    def __init__(self, profile: Path, *, width: int = 1280, height: int = 900) -> None:
        path = chromium()
        assert path is not None, "there is no chromium: apt-get install chromium"
        to_browser, self._commands = os.pipe()
        self._answers, from_browser = os.pipe()
        # It reads what stands at 3 and writes to 4, which Popen cannot place: a shell does.
        line = f'exec "$@" 3<&{to_browser} 4>&{from_browser}'
        self._process = subprocess.Popen(
            ["bash", "-c", line, "bash", path, *_ARGUMENTS, "--remote-debugging-pipe", f"--user-data-dir={profile}"],
            pass_fds=(to_browser, from_browser),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self._left = b""
        self._number = 0
        self._session = ""
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.resize(width, height)

    def __enter__(self) -> "Browser":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._commands)  # it ends then
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._answers)

    def open(self, url: str) -> None:
        """Goes to a page; what scripts then do to waiting for it by `until`."""
        self._call("Page.navigate", url="about:blank")  # else only what follows a # changes, and nothing is loaded
        self._call("Page.navigate", url=url)

    def value(self, expression: str) -> Any:
        """Returns the value of an expression of JavaScript."""
        answer = self._call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        return answer["result"].get("value")

    def text(self) -> str:
        """Returns all text that the page shows."""
        return self.value("document.body ? document.body.innerText : ''")

    def until(self, expression: str, *, wait_s: float = WAIT_S) -> Any:
        """Waits until an expression of JavaScript is true, and returns its value."""
        deadline = time.monotonic() + wait_s
        while not (found := self.value(expression)):
            assert time.monotonic() < deadline, f"waited for {expression}; the page says: {self.text()[:3000]}"
            time.sleep(_LOOK_S)
        return found

    def until_shown(self, *words: str) -> None:
        """Waits until the page shows all of these words."""
        for word in words:
            self.until(f"document.body && document.body.innerText.includes({json.dumps(word)})")

    def click(self, words: str) -> None:
        """Clicks the innermost element that shows exactly these words."""
        find = (
            f"[...document.querySelectorAll('*')].filter(e => e.innerText && e.innerText.trim() === "
            f"{json.dumps(words)}).at(-1)"
        )
        self.until(f"Boolean({find})")
        self.value(f"{find}.click()")

    def resize(self, width: int, height: int) -> None:
        """Gives the window another size, in pixels."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self._call("Emulation.setDeviceMetricsOverride", **size)

    def dress(self, *, dark: bool = False, printed: bool = False, scripts: bool = True) -> None:
        """Shows pages light or dark, as on paper, or without their scripts (those that are opened from now on)."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", media="print" if printed else "", features=[scheme])
        self._call("Emulation.setScriptExecutionDisabled", value=not scripts)

    def point(self, x: float, y: float) -> None:
        """Moves the pointer to a place of the window."""
        self._call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def drag(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        """Moves the pointer from one place of the window to another with its button down."""
        held: dict[str, Any] = {"button": "left", "buttons": 1, "clickCount": 1}
        self.point(*start)
        self._call("Input.dispatchMouseEvent", type="mousePressed", x=start[0], y=start[1], **held)
        for share in (0.5, 1.0):
            x, y = (a + share * (b - a) for a, b in zip(start, end, strict=True))
            self._call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y, **held)
        self._call("Input.dispatchMouseEvent", type="mouseReleased", x=end[0], y=end[1], **held)

    def press(self, key: str) -> None:
        """Presses a key that is no letter, as `ArrowRight`."""
        for kind in ("rawKeyDown", "keyUp"):
            self._call("Input.dispatchKeyEvent", type=kind, key=key, code=key)

    def picture(self, path: Path, *, whole: bool = False) -> None:
        """Saves what the window shows as PNG, or the whole page."""
        taken = self._call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(taken["data"]))

    def _call(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self._left:
                more = os.read(self._answers, 1 << 20)
                assert more, f"{chromium()} ended"
                self._left += more
            text, _, self._left = self._left.partition(b"\0")
            answer = json.loads(text)
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]
