//! A browser without a window, driven through its debugging pipe: no driver, no port, no package of its own.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use base64::Engine;
use serde_json::{Value, json};

pub struct Browser {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    profile: PathBuf,
    calls: u64,
    session: Option<String>,
    /// Every address that was asked for.
    pub requests: Vec<String>,
    /// What the page complained about.
    pub complaints: Vec<String>,
}

/// Nothing here takes a minute, even on a machine that is busy with everything else.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where Chromium is, or a line that says that it is not.
pub fn chromium() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let found = std::env::split_paths(&path)
        .flat_map(|dir| names.map(|name| dir.join(name)))
        .find(|path| path.is_file());
    if found.is_none() {
        skip("there is no Chromium here; Debian's package is `chromium`");
    }
    found
}

/// A line for people; continuous integration has everything that a test needs, or fails.
pub fn skip(reason: &str) {
    assert!(
        std::env::var("CI").is_err(),
        "{reason}; .ci/tools installs it"
    );
    eprintln!("SKIPPED: {reason}");
}

impl Browser {
    /// None where there is no Chromium.
    pub fn start(name: &str) -> Option<Browser> {
        let program = chromium()?;
        let profile =
            std::env::temp_dir().join(format!("steersman-chromium-{name}-{}", std::process::id()));
        let mut child = Command::new("sh")
            // The debugging pipe is on descriptors 3 and 4.
            .args([
                "-c",
                "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1",
            ])
            .arg(program)
            .args([
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--remote-debugging-pipe",
            ])
            .args([
                "--hide-scrollbars",
                "--force-color-profile=srgb",
                "--no-first-run",
            ])
            .arg(format!("--user-data-dir={}", profile.display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the browser starts");
        let mut browser = Browser {
            input: child.stdin.take().unwrap(),
            output: BufReader::new(child.stdout.take().unwrap()),
            child,
            profile,
            calls: 0,
            session: None,
            requests: Vec::new(),
            complaints: Vec::new(),
        };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"}));
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let session = browser.call("Target.attachToTarget", attach);
        browser.session = session["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Network", "Log"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser.resize(1280, 900);
        Some(browser)
    }

    pub fn call(&mut self, method: &str, params: Value) -> Value {
        let answer = self.try_call(method, params);
        answer.unwrap_or_else(|problem| panic!("{method}: {problem}"))
    }

    fn try_call(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        self.calls += 1;
        let mut message = json!({"id": self.calls, "method": method, "params": params});
        if let Some(session) = &self.session {
            message["sessionId"] = session.as_str().into();
        }
        write!(self.input, "{message}\0").unwrap();
        self.input.flush().unwrap();
        loop {
            let answer = self.read();
            if answer["id"] == self.calls {
                return match answer["error"].is_null() {
                    true => Ok(answer["result"].clone()),
                    false => Err(answer),
                };
            }
            self.note(&answer);
        }
    }

    fn read(&mut self) -> Value {
        let mut text = Vec::new();
        self.output.read_until(0, &mut text).unwrap();
        assert_eq!(text.pop(), Some(0), "the browser went away");
        serde_json::from_slice(&text).unwrap()
    }

    fn note(&mut self, event: &Value) {
        let params = &event["params"];
        match event["method"].as_str() {
            Some("Network.requestWillBeSent") => {
                let url = params["request"]["url"].as_str().unwrap_or_default();
                self.requests.push(url.to_owned());
            }
            Some("Runtime.exceptionThrown") => self.complaints.push(params.to_string()),
            Some("Log.entryAdded") if params["entry"]["source"] == "security" => {
                self.complaints.push(params.to_string());
            }
            _ => {}
        }
    }

    pub fn open(&mut self, url: &str) {
        self.call("Page.navigate", json!({"url": url}));
    }

    pub fn resize(&mut self, width: u32, height: u32) {
        let metrics = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600});
        self.call("Emulation.setDeviceMetricsOverride", metrics);
    }

    pub fn prefer(&mut self, scheme: &str) {
        let features = json!([
            {"name": "prefers-color-scheme", "value": scheme},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]);
        self.call("Emulation.setEmulatedMedia", json!({"features": features}));
    }

    /// What an expression of the page is.
    pub fn eval(&mut self, expression: &str) -> Value {
        let found = self.try_eval(expression);
        found.unwrap_or_else(|problem| panic!("{expression}: {problem}"))
    }

    fn try_eval(&mut self, expression: &str) -> Result<Value, Value> {
        let params = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let answer = self.try_call("Runtime.evaluate", params)?;
        match answer["exceptionDetails"].is_null() {
            true => Ok(answer["result"]["value"].clone()),
            false => Err(answer),
        }
    }

    /// Waits until an expression of the page is true; while a page is loading there is nothing to ask.
    pub fn until(&mut self, expression: &str) {
        let asked = format!("Boolean({expression})");
        let deadline = Instant::now() + PATIENCE;
        while self.try_eval(&asked) != Ok(true.into()) {
            if Instant::now() > deadline {
                let said = self.try_eval("document.body?.innerText.slice(0, 3000)");
                panic!("waited in vain for {expression}; the page says: {said:?}");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until the page says this.
    pub fn until_said(&mut self, text: &str) {
        self.until(&format!(
            "document.body.innerText.includes({})",
            json!(text)
        ));
    }

    pub fn says(&mut self, text: &str) -> bool {
        self.eval(&format!(
            "document.body.innerText.includes({})",
            json!(text)
        )) == true
    }

    pub fn click(&mut self, selector: &str) {
        self.until(&format!("document.querySelector({})", json!(selector)));
        self.eval(&format!(
            "document.querySelector({}).click()",
            json!(selector)
        ));
    }

    pub fn screenshot(&mut self, path: &Path) {
        let picture = self.call("Page.captureScreenshot", json!({"format": "png"}));
        let data = picture["data"].as_str().unwrap();
        let data = base64::engine::general_purpose::STANDARD
            .decode(data)
            .unwrap();
        std::fs::write(path, data).unwrap();
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.profile);
    }
}
