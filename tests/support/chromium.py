"""One headless Chromium for many pages, driven over its DevTools pipe."""

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
from pathlib import Path

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_OPTIONS = (
    *(
        "--headless",
        "--no-sandbox",
        "--disable-dev-shm-usage",
        "--disable-gpu",
        "--no-first-run",
        "--hide-scrollbars",
    ),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--font-render-hinting=none", "--disable-lcd-text", "--force-color-profile=srgb"),
)
_PATIENCE_S = 120.0
PINNED = "DejaVu Sans"  # the font whose widths drawings count with


def find_chromium():
    """The path of a browser.

    Raises:
        LookupError: there is none, or the font of the tests is missing.
    """
    found = next((path for name in _NAMES if (path := shutil.which(name))), None)
    if found is None:
        raise LookupError("no chromium (Debian: apt install chromium)")
    fonts = Path("/usr/share/fonts")
    if not any(fonts.rglob("DejaVuSans.ttf")):
        raise LookupError("no DejaVu Sans (Debian: apt install fonts-dejavu-core)")
    return found


class Chromium:
    """A running browser with one page.

    Attributes:
        requested: addresses of all that pages asked for, files aside.
        dialogs: what alert() and the like said.
    """

    def __init__(self, program, folder):
        to_browser, from_us = _pipe()
        to_us, from_browser = _pipe()
        # The pipe is of descriptors 3 and 4.
        line = f'exec "$0" "$@" 3<&{to_browser} 4>&{from_browser}'
        options = [*_OPTIONS, "--remote-debugging-pipe", f"--user-data-dir={folder}"]
        self._process = subprocess.Popen(
            ["bash", "-c", line, program, *options],
            pass_fds=(to_browser, from_browser),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self._out = os.fdopen(from_us, "wb", buffering=0)
        self._in = os.fdopen(to_us, "rb", buffering=0)
        self._rest = b""
        self._number = 0
        self._session = {}
        self.requested = []
        self.dialogs = []
        page = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=page, flatten=True)
        self._session = {"sessionId": attached["sessionId"]}
        self.call("Page.enable")
        self.call("Network.enable")

    def call(self, method, **parameters):
        """Ask the browser and wait for its answer."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters, **self._session}
        self._out.write(json.dumps(message).encode() + b"\0")
        while (got := self._read()).get("id") != self._number:
            pass
        if "error" in got:
            raise RuntimeError(f"{method}: {got['error']}")
        return got["result"]

    def _read(self):
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._in], [], [], _PATIENCE_S)
            more = self._in.read(1 << 16) if ready else b""
            if not more:
                raise RuntimeError("chromium has ended, or does not answer")
            self._rest += more
        first, _, self._rest = self._rest.partition(b"\0")
        message = json.loads(first)
        parameters = message.get("params", {})
        if message.get("method") == "Network.requestWillBeSent":
            address = parameters["request"]["url"]
            self.requested += [address] if not address.startswith("file:") else []
        if message.get("method") == "Page.javascriptDialogOpening":
            self.dialogs.append(parameters["message"])
        return message

    def resize(self, width):
        """Give the window this width; below 500 it is a telephone's."""
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
        self.call("Emulation.setDeviceMetricsOverride", **size)

    def emulate(self, media, *, dark):
        """Show the page on a `screen` or in `print`."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media=media, features=[scheme])

    def open(self, page, width, *, dark=False):
        """Load a page in the pinned font."""
        self.resize(width)
        self.emulate("screen", dark=dark)
        self.call("Page.navigate", url=page.as_uri())
        while self._read().get("method") != "Page.loadEventFired":
            pass
        self.run(
            "const pinned = document.createElement('style');"
            f"pinned.textContent = '* {{ font-family: \"{PINNED}\" !important }}';"
            "document.head.append(pinned); document.fonts.ready.then(() => null)"
        )

    def run(self, script):
        """The value of a JavaScript expression on the page."""
        answer = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise RuntimeError(json.dumps(answer["exceptionDetails"])[:500])
        return answer["result"].get("value")

    def picture(self, selector, scale):
        """A PNG of the first element that the selector finds."""
        box = self.run(
            f"(() => {{ const r = document.querySelector('{selector}').getBoundingClientRect();"
            "return { x: r.x + scrollX, y: r.y + scrollY, width: r.width, height: r.height } })()"
        )
        options = {"clip": {**box, "scale": scale}, "captureBeyondViewport": True}
        return base64.b64decode(self.call("Page.captureScreenshot", **options)["data"])

    def close(self):
        """End the browser."""
        self._session = {}
        try:
            self.call("Browser.close")
        except (RuntimeError, OSError):
            self._process.kill()
        self._process.wait(timeout=30)
        self._out.close()
        self._in.close()


def _pipe():
    """Both ends, out of the way of descriptors 3 and 4."""
    ends = os.pipe()
    moved = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends]
    for end in ends:
        os.close(end)
    return moved[0], moved[1]
