//! A home of its own for each test, and processes that end with it.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

pub const BINARY: &str = env!("CARGO_BIN_EXE_steersman");

/// Nothing here takes a minute, even on a machine that is busy with everything else.
const PATIENCE: Duration = Duration::from_secs(60);

/// A user who has nothing yet.
pub struct Home(pub PathBuf);

impl Home {
    pub fn new(name: &str) -> Home {
        let path = std::env::temp_dir().join(format!("steersman-up-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Home(path)
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(BINARY);
        command
            .args(arguments)
            .env_remove("KUBECONFIG")
            .env_remove("XDG_DATA_HOME")
            .env("HOME", &self.0)
            .stdin(Stdio::null());
        command
    }

    /// Runs a command to its end.
    pub fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("the binary runs")
    }

    /// Runs a command that must succeed; what it said.
    pub fn succeed(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{arguments:?}: {said}{errors}");
        said
    }

    /// Runs a command that must fail with exit code 1 and one error; what that is.
    pub fn refused(&self, arguments: &[&str]) -> String {
        refusal(&mut self.command(arguments))
    }

    pub fn file(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// Starts a cluster on a free port and waits until it is up.
    pub fn up(&self, arguments: &[&str]) -> Up {
        let mut all = vec!["up", "--output=json", "--port=0"];
        all.extend(arguments);
        Up::start(&mut self.command(&all))
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub fn refusal(command: &mut Command) -> String {
    let output = command.output().expect("the binary runs");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(output.stdout.is_empty(), "nothing but the error is said");
    let told = errors.lines().filter(|line| line.starts_with("error: "));
    assert_eq!(told.count(), 1, "{errors}");
    errors
}

/// A cluster in a process that ends with the test.
pub struct Up {
    pub child: Child,
    pub facts: Value,
}

impl Up {
    pub fn start(command: &mut Command) -> Up {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        let mut line = String::new();
        let output = child.stdout.take().expect("it is piped");
        BufReader::new(output).read_line(&mut line).unwrap();
        let facts = serde_json::from_str(&line).unwrap_or_else(|_| {
            let mut errors = String::new();
            let _ = child.stderr.take().unwrap().read_to_string(&mut errors);
            panic!("it did not come up: {line}{errors}")
        });
        Up { child, facts }
    }

    pub fn kubeconfig(&self) -> &Path {
        Path::new(self.facts["kubeconfig"].as_str().unwrap())
    }

    pub fn signal(&self, name: &str) {
        signal(self.child.id(), name);
    }

    pub fn wait(&mut self) -> ExitStatus {
        wait(&mut self.child)
    }

    /// Stops it in order.
    pub fn stop(mut self) {
        self.signal("INT");
        assert!(self.wait().success());
    }

    pub fn api(&self) -> Api {
        Api::new(self.kubeconfig())
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn signal(pid: u32, name: &str) {
    let pid = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
    let signal = match name {
        "INT" => rustix::process::Signal::INT,
        "HUP" => rustix::process::Signal::HUP,
        "TERM" => rustix::process::Signal::TERM,
        _ => rustix::process::Signal::KILL,
    };
    rustix::process::kill_process(pid, signal).unwrap();
}

/// Waits until it has ended. One that does not end fails the test, and must not outlive it.
pub fn wait(child: &mut Child) -> ExitStatus {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if Instant::now() >= deadline {
            let _ = child.kill();
            panic!("waited in vain for the process to end");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The cluster's API, as its administrator.
pub struct Api {
    client: client::Client,
    tokio: tokio::runtime::Runtime,
}

impl Api {
    pub fn new(kubeconfig: &Path) -> Api {
        let environment = client::config::Environment::default();
        let config =
            client::config::Config::from_environment(Some(kubeconfig), None, &environment).unwrap();
        let tokio = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let transport = client::https::transport(config, runtime::clock::wall()).unwrap();
        Api {
            client: client::Client::new(transport),
            tokio,
        }
    }

    pub fn send(&self, method: &str, path: &str, body: &Value) -> Result<Value, String> {
        let kind = match method {
            "PATCH" => "application/merge-patch+json",
            _ => "application/json",
        };
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", kind)
            .body(bytes::Bytes::from(body.to_string()))
            .unwrap();
        let answer = self.tokio.block_on(self.client.request(request));
        match answer {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes).unwrap_or(Value::Null)),
            Err(error) => Err(client::describe(&error)),
        }
    }

    pub fn get(&self, path: &str) -> Value {
        self.send("GET", path, &Value::Null)
            .unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    pub fn create(&self, path: &str, object: &Value) -> Value {
        self.send("POST", path, object)
            .unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// Waits for an object in which the pointer has this value.
    pub fn await_value(&self, path: &str, pointer: &str, expected: &Value) -> Value {
        let mut seen = Value::Null;
        let mut what = String::new();
        let _ = write!(what, "{path} to have {expected} at {pointer}");
        until(&what, || {
            seen = self.send("GET", path, &Value::Null).unwrap_or(Value::Null);
            seen.pointer(pointer) == Some(expected)
        });
        seen
    }
}
