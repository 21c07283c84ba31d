//! A real browser without a screen, driven by the WebDriver protocol (W3C): JSON over HTTP.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};

use crate::command::{fetch, find_tool};
use crate::foreign::prepare;
use crate::layout::source_dir;
use crate::port::Port;
use crate::skip::Missing;
use crate::wait::{wait_for, wait_until};

/// Time limit for the start of the driver and the browser on a busy machine.
const START_LIMIT: Duration = Duration::from_secs(60);

/// Time limit for one command of the driver.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);

/// Time limit for expected content of a page, on a busy machine.
const PAGE_LIMIT: Duration = Duration::from_secs(120);

/// Arguments of the browser: no screen, no sandbox (which does not work for root), and no network
/// except this machine.
const ARGUMENTS: [&str; 7] = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--window-size=1360,860",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
];

/// Chromium with one window. It ends when this value is dropped.
#[derive(Debug)]
pub struct Browser {
    driver: Child,
    port: Port,
    session: String,
}

impl Browser {
    /// Starts a browser.
    ///
    /// # Errors
    /// [`Missing`] if Chromium or its driver is not installed.
    pub fn start() -> Result<Self, Missing> {
        let driver = find_tool("chromedriver")?;
        find_tool("chromium")?;
        let port = Port::take();
        let child = Command::new(driver)
            .arg(format!("--port={}", port.number()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .expect("start the driver of the browser");
        let mut browser = Self {
            driver: child,
            port,
            session: String::new(),
        };
        wait_for("driver of the browser", START_LIMIT, || {
            let status = browser.ask("GET", "/status", None)?;
            (status["ready"] == true).then_some(())
        });
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "browserName": "chrome",
            "goog:loggingPrefs": { "browser": "ALL" },
            "goog:chromeOptions": { "args": ARGUMENTS },
        } } });
        let begun = wait_for("browser", START_LIMIT, || {
            browser.ask("POST", "/session", Some(&wanted))
        });
        let id = begun["sessionId"]
            .as_str()
            .expect("a session of the driver");
        browser.session = format!("/session/{id}");
        Ok(browser)
    }

    /// Sends one command. Returns `None` if it fails or there is no answer.
    fn ask(&self, method: &str, target: &str, body: Option<&Value>) -> Option<Value> {
        let body = body.map_or_else(String::new, Value::to_string);
        let head = format!(
            "{method} {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let mut stream = TcpStream::connect(("127.0.0.1", self.port.number())).ok()?;
        stream.set_read_timeout(Some(ANSWER_LIMIT)).ok()?;
        stream.set_write_timeout(Some(ANSWER_LIMIT)).ok()?;
        stream.write_all(head.as_bytes()).ok()?;
        stream.write_all(body.as_bytes()).ok()?;
        let (is_good, answer) = read_answer(BufReader::new(stream)).ok()?;
        let mut answered: Value = serde_json::from_slice(&answer).ok()?;
        is_good.then(|| answered["value"].take())
    }

    fn order(&self, what: &str, body: &Value) -> Value {
        let target = format!("{}/{what}", self.session);
        let done = self.ask("POST", &target, Some(body));
        done.unwrap_or_else(|| panic!("the browser does not do {what} {body:.300}"))
    }

    /// Opens an address.
    pub fn go(&self, url: &str) {
        self.order("url", &json!({ "url": url }));
    }

    /// Runs a function body in the page and returns its result.
    pub fn run(&self, script: &str, arguments: &[Value]) -> Value {
        let body = json!({ "script": script, "args": arguments });
        self.order("execute/sync", &body)
    }

    /// Runs a function body that calls its last argument when it is done, and returns the result.
    pub fn run_to_its_end(&self, script: &str) -> Value {
        let body = json!({ "script": script, "args": [] });
        self.order("execute/async", &body)
    }

    /// Waits until an expression in the page has a value, and returns the value. The expression may
    /// throw until then, because an element appears only with the first answer.
    pub fn wait(&self, expression: &str) -> Value {
        let script = format!("try {{ return {expression}; }} catch {{ return null; }}");
        let found = wait_until(PAGE_LIMIT, || {
            let value = self.run(&script, &[]);
            let is_there = !matches!(value, Value::Null | Value::Bool(false));
            is_there.then_some(value)
        });
        found.unwrap_or_else(|| {
            let text = self.run("return document.body.innerText", &[]);
            panic!("the page never shows {expression}; it is {text}")
        })
    }

    /// Clicks on the first visible button or link with this text.
    pub fn click(&self, text: &str) {
        let script = "const named = [...document.querySelectorAll('button, a')]\
            .filter((one) => one.textContent.trim() === arguments[0] && one.checkVisibility());\
            const open = document.querySelector('dialog[open]');\
            const one = named.find((one) => !open || open.contains(one));\
            one?.click(); return Boolean(one);";
        wait_for(&format!("button {text}"), PAGE_LIMIT, || {
            (self.run(script, &[json!(text)]) == true).then_some(())
        });
    }

    /// Presses keys one after the other, on the focused element.
    pub fn press(&self, keys: &[&str]) {
        let strokes = keys
            .iter()
            .flat_map(|key| ["keyDown", "keyUp"].map(|kind| json!({ "type": kind, "value": key })));
        let keyboard = json!({
            "type": "key", "id": "keyboard", "actions": strokes.collect::<Vec<_>>(),
        });
        self.order("actions", &json!({ "actions": [keyboard] }));
    }

    /// Presses several keys together, the last one while the others are down.
    pub fn chord(&self, keys: &[&str]) {
        let down = keys
            .iter()
            .map(|key| json!({ "type": "keyDown", "value": key }));
        let up = keys
            .iter()
            .rev()
            .map(|key| json!({ "type": "keyUp", "value": key }));
        let keyboard = json!({
            "type": "key", "id": "keyboard", "actions": down.chain(up).collect::<Vec<_>>(),
        });
        self.order("actions", &json!({ "actions": [keyboard] }));
    }

    /// Types a text.
    pub fn type_text(&self, text: &str) {
        let keys: Vec<String> = text.chars().map(String::from).collect();
        self.press(&keys.iter().map(String::as_str).collect::<Vec<_>>());
    }

    /// Sets the preferred colour scheme: `dark` or `light`.
    pub fn prefer(&self, scheme: &str) {
        let feature = json!({ "name": "prefers-color-scheme", "value": scheme });
        let parameters = json!({ "features": [feature] });
        let body = json!({ "cmd": "Emulation.setEmulatedMedia", "params": parameters });
        self.order("goog/cdp/execute", &body);
    }

    /// Sets the size of the window, as that of a phone.
    pub fn size(&self, width: u32, height: u32) {
        let parameters = json!({
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false,
        });
        let body = json!({ "cmd": "Emulation.setDeviceMetricsOverride", "params": parameters });
        self.order("goog/cdp/execute", &body);
    }

    /// Goes back to the address before.
    pub fn back(&self) {
        self.order("back", &json!({}));
    }

    /// Returns the errors that the browser has logged since the last call.
    pub fn complaints(&self) -> Vec<String> {
        let lines = self.order("se/log", &json!({ "type": "browser" }));
        let lines = lines.as_array().cloned().unwrap_or_default();
        lines
            .iter()
            .filter_map(|line| Some(line["message"].as_str()?.to_owned()))
            .collect()
    }

    /// Returns the window as a WebP picture, which is much smaller than a PNG.
    pub fn screenshot(&self) -> Vec<u8> {
        let parameters = json!({ "format": "webp", "quality": 60 });
        let body = json!({ "cmd": "Page.captureScreenshot", "params": parameters });
        let shot = self.order("goog/cdp/execute", &body);
        let text = shot["data"].as_str().expect("base64");
        STANDARD.decode(text).expect("base64")
    }
}

/// Returns whether the status is 200, and the body. The driver keeps connections open, whatever the
/// request.
fn read_answer(mut stream: BufReader<TcpStream>) -> io::Result<(bool, Vec<u8>)> {
    let mut status = String::new();
    stream.read_line(&mut status)?;
    let mut length = 0;
    loop {
        let mut line = String::new();
        stream.read_line(&mut line)?;
        let Some((name, value)) = line.split_once(':') else {
            break;
        };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().map_err(io::Error::other)?;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    Ok((status.starts_with("HTTP/1.1 200"), body))
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() {
            // The browser deletes its directory.
            self.ask("DELETE", &self.session, None);
        }
        if let Some(group) = i32::try_from(self.driver.id()).ok().and_then(Pid::from_raw) {
            kill_process_group(group, Signal::KILL).ok();
        }
        self.driver.wait().ok();
    }
}

/// Returns the source of axe-core, which finds problems for users of a screen reader or a keyboard.
///
/// # Errors
/// If the machine lacks a required tool.
pub fn axe() -> Result<String, Missing> {
    let npm = find_tool("npm")?;
    let sources = ["package.json", "package-lock.json"].map(|f| source_dir("browser").join(f));
    let dir = prepare("browser", &sources, |dir| {
        for source in &sources {
            let copy = dir.join(source.file_name().unwrap_or_default());
            std::fs::copy(source, &copy).expect("copy a list of packages");
        }
        let mut install = Command::new(&npm);
        install
            .current_dir(dir)
            .args(["ci", "--no-audit", "--no-fund", "--ignore-scripts"]);
        fetch(&mut install)
    })?;
    let file = dir.join("node_modules/axe-core/axe.min.js");
    Ok(std::fs::read_to_string(file).expect("read axe-core"))
}
