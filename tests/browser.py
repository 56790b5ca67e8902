"""A headless Chromium, driven over a pipe by its own protocol (DevTools); needs a browser and nothing else."""

import fcntl
import itertools
import json
import os
import select
import shutil
import signal
import tempfile
import time
from pathlib import Path

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge",
            "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
            "/Applications/Chromium.app/Contents/MacOS/Chromium")
MISSING = ("no Chromium or Chrome was found. Install one (Debian, Ubuntu: `apt-get install chromium`; macOS: `brew "
           "install --cask chromium`), or name one in KEYCONTRAST_BROWSER. To run the other tests without it: "
           "`pytest --ignore tests/test_report_page.py`.")
QUIET = ("--headless", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--disable-extensions", "--disable-dev-shm-usage",
         "--mute-audio", "--enable-unsafe-swiftshader", "--hide-scrollbars", "--remote-debugging-pipe")
KEYS = {"Enter": ("Enter", 13, "\r"), "Escape": ("Escape", 27, None), "ArrowDown": ("ArrowDown", 40, None),
        "Tab": ("Tab", 9, None)}


def program():
    """Path of the browser.

    Raises:
        RuntimeError: there is none.
    """
    named = os.environ.get("KEYCONTRAST_BROWSER")
    found = next((path for name in ([named] if named else PROGRAMS) if (path := shutil.which(name))), None)
    if found is None:
        raise RuntimeError(MISSING)
    return found


class Browser:
    """A running browser; use it in a ``with`` block."""

    def __enter__(self):
        path = program()
        self._profile = tempfile.mkdtemp(prefix="keycontrast-browser-")
        ours, theirs = os.pipe(), os.pipe()
        # The browser reads commands from 3 and answers on 4; high numbers keep both ends clear of those.
        reading, writing = (fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 64) for end in (ours[0], theirs[1]))
        # Chromium's own sandbox does not start as root, which containers are.
        sandbox = ("--no-sandbox",) if os.geteuid() == 0 else ()
        null = os.open(os.devnull, os.O_RDWR)
        self._process = os.posix_spawn(
            path, [path, *QUIET, *sandbox, f"--user-data-dir={self._profile}", "about:blank"], os.environ,
            file_actions=[(os.POSIX_SPAWN_DUP2, null, 1), (os.POSIX_SPAWN_DUP2, null, 2),
                          (os.POSIX_SPAWN_DUP2, reading, 3), (os.POSIX_SPAWN_DUP2, writing, 4)], setpgroup=0)
        for end in (ours[0], theirs[1], reading, writing, null):
            os.close(end)
        self._to, self._from = ours[1], theirs[0]
        self._numbers, self._buffer, self.events = itertools.count(1), b"", []
        return self

    def __exit__(self, *_):
        try:
            self.send("Browser.close")
            os.waitpid(self._process, 0)
        except (OSError, RuntimeError, TimeoutError):
            os.killpg(self._process, signal.SIGKILL)
            os.waitpid(self._process, 0)
        finally:
            os.close(self._to)
            os.close(self._from)
            shutil.rmtree(self._profile, ignore_errors=True)

    def open(self, path, width, height=900, dark=False):
        """Open the file in a new tab and return it when it has loaded."""
        return Tab(self, path, width, height, dark)

    def send(self, method, session=None, **params):
        """Send a command and return its result; events that come meanwhile are kept."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": params, **({"sessionId": session} if session else {})}
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._to, data):]
        while True:
            answer = self.receive(20)
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def receive(self, seconds):
        """Return the next message within so many seconds; an event is kept as well."""
        end = time.monotonic() + seconds
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._from], [], [], max(0, end - time.monotonic()))
            if not ready:
                raise TimeoutError("the browser does not answer")
            part = os.read(self._from, 1 << 16)
            if not part:
                raise RuntimeError("the browser has ended")
            self._buffer += part
        text, _, self._buffer = self._buffer.partition(b"\0")
        message = json.loads(text)
        if "method" in message:
            self.events.append(message)
        return message


class Tab:
    """One page: what a reader can do with it, and what went wrong in it."""

    def __init__(self, browser, path, width, height, dark):
        self._browser = browser
        target = browser.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = browser.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "Audits"):
            self.send(f"{domain}.enable")
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                  mobile=width < 600)
        self.send("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
            {"name": "prefers-reduced-motion", "value": "reduce"}])
        self.send("Page.navigate", url=Path(path).resolve().as_uri())
        self.wait("document.readyState === 'complete'")

    def send(self, method, **params):
        """Send a command to this tab."""
        return self._browser.send(method, self._session, **params)

    def evaluate(self, expression):
        """Return the value of a JavaScript expression."""
        result = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(result["exceptionDetails"].get("exception", {}).get("description", "exception"))
        return result["result"].get("value")

    def wait(self, expression, seconds=15):
        """Wait until an expression is true."""
        end = time.monotonic() + seconds
        while not self.evaluate(expression):
            if time.monotonic() > end:
                raise TimeoutError(f"never true: {expression}")
            time.sleep(0.02)

    def click(self, selector, text=None):
        """Press the mouse on the first shown element that matches, and has ``text`` if that is given."""
        place = self.evaluate(f"""(() => {{
            const text = {json.dumps(text)};
            const found = [...document.querySelectorAll({json.dumps(selector)})].find((one) =>
              (text === null || one.textContent.trim() === text) && one.checkVisibility());
            if (!found) return null;
            found.scrollIntoView({{block: "center", inline: "center"}});
            const box = found.getBoundingClientRect();
            return [box.left + box.width / 2, box.top + box.height / 2];
        }})()""")
        if place is None:
            raise AssertionError(f"nothing to click: {selector} {text or ''}")
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], clickCount=1,
                      button="none" if kind == "mouseMoved" else "left")

    def type(self, selector, text):
        """Click into a box, and replace what stands there."""
        self.click(selector)
        self.evaluate(f"document.querySelector({json.dumps(selector)}).select()")
        self.send("Input.insertText", text=text)

    def press(self, key):
        """Press a key."""
        name, code, letter = KEYS[key]
        for kind in ("keyDown", "keyUp"):
            more = {"text": letter} if letter and kind == "keyDown" else {}
            self.send("Input.dispatchKeyEvent", type=kind, key=name, code=name, windowsVirtualKeyCode=code, **more)

    def texts(self, selector):
        """Return the texts of all shown elements that match."""
        return self.evaluate(f"""[...document.querySelectorAll({json.dumps(selector)})]
            .filter((one) => one.checkVisibility()).map((one) => one.textContent.trim())""")

    def problems(self):
        """Return exceptions, console errors, security violations, and requests to anything but the file."""
        self.evaluate("1")      # whatever was under way has been told by then
        found = []
        for event in self._browser.events:
            if event.get("sessionId") != self._session:
                continue
            method, params = event["method"], event["params"]
            if method == "Runtime.exceptionThrown":
                found.append(params["exceptionDetails"].get("exception", {}).get("description", "exception"))
            elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
                found.append(str([part.get("value") for part in params["args"]]))
            elif (method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning")
                  and "GL Driver Message (OpenGL, Performance" not in params["entry"]["text"]):     # for want of a GPU
                found.append(params["entry"]["text"])
            elif method == "Audits.issueAdded" and "ContentSecurityPolicy" in params["issue"]["code"]:
                found.append(json.dumps(params["issue"]["details"]))
            elif (method == "Network.requestWillBeSent"
                  and not params["request"]["url"].startswith(("file:", "data:"))):
                found.append(f"request to {params['request']['url']}")
        return found
