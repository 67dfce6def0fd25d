//! What `up` says on the terminal: parts as they start, what to do now, and a live line below.

use std::io::Write;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::instance::Facts;
use super::{Arguments, Output, places};
use crate::terminal::{Terminal, Tone, fitting};

/// Where things are said. Whoever reads them may go away: that is no reason to stop.
#[derive(Clone)]
pub(crate) struct Screen {
    shows_text: bool,
    terminal: Terminal,
    begun: Instant,
    /// What the live line says; empty where there is none.
    live: Arc<Mutex<String>>,
}

/// Wide enough for an address and for "1000 of 1000 ready".
const WIDTH: usize = 34;

/// To the beginning of the line, and nothing on it.
const CLEAR: &str = "\r\u{1b}[K";

impl Screen {
    pub(crate) fn new(arguments: &Arguments) -> Screen {
        let shows_text =
            !arguments.quiet && !arguments.detached && arguments.output == Output::Text;
        Screen {
            shows_text,
            terminal: Terminal::of_stdout(),
            begun: Instant::now(),
            live: Arc::default(),
        }
    }

    /// Is there a line that can be written over?
    pub(crate) fn is_live(&self) -> bool {
        self.shows_text && self.terminal.is_terminal
    }

    pub(crate) fn separator(&self) -> &'static str {
        match self.terminal.unicode {
            true => " · ",
            false => "; ",
        }
    }

    pub(crate) fn open(&self, name: &str) {
        let version = env!("CARGO_PKG_VERSION");
        let called = match name {
            places::DEFAULT => String::new(),
            name => format!(", called {name}"),
        };
        let title = self
            .terminal
            .paint(Tone::Heading, &format!("Steersman {version}"));
        self.say(&format!(
            "{title}: a Kubernetes 1.36 cluster in a box{called}\n"
        ));
    }

    pub(crate) fn say(&self, text: &str) {
        if self.shows_text {
            let text = self.terminal.wrap(text);
            let _ = writeln!(std::io::stdout(), "{text}");
        }
    }

    /// A part of the cluster is there.
    pub(crate) fn step(&self, part: &str, what: &str) {
        let seconds = format!("{:.2} s", self.begun.elapsed().as_secs_f64());
        let seconds = self.terminal.paint(Tone::Faint, &seconds);
        let back = if self.is_live() { CLEAR } else { "" };
        self.say(&format!("{back}  {part:<13} {what:<WIDTH$} {seconds}"));
    }

    /// A part of the cluster is on its way; seen on terminals alone.
    pub(crate) fn progress(&self, part: &str, what: &str) {
        self.write_over(&format!("  {part:<13} {what:<WIDTH$}"));
    }

    /// The cluster is up.
    pub(crate) fn greet(&self, facts: &Facts) {
        self.say(&greeting(facts, "Ctrl-C stops it"));
        if self.is_live() {
            self.say("");
        }
    }

    /// What the line below says now; written only where that is something new.
    pub(crate) fn live(&self, text: &str) {
        let mut said = self.live.lock();
        if *said != text {
            text.clone_into(&mut said);
            self.write_over(text);
        }
    }

    /// Takes the live line away, for whatever is said last.
    pub(crate) fn close(&self) {
        self.write_over("");
    }

    fn write_over(&self, text: &str) {
        if self.is_live() {
            // A line that is full to the last column would begin another one.
            let room = self.terminal.chart_width().saturating_sub(1);
            let text = self.terminal.paint(Tone::Faint, &fitting(text, room));
            let mut out = std::io::stdout();
            let _ = write!(out, "{CLEAR}{text}");
            let _ = out.flush();
        }
    }
}

/// What to do with a cluster that is up.
pub(crate) fn greeting(facts: &Facts, how_to_stop: &str) -> String {
    let after = match &facts.data_dir {
        Some(dir) => format!("what is in it stays in {}", dir.display()),
        None => "what is in it is forgotten".to_owned(),
    };
    let pending = match facts.nodes {
        0 => "\nThere are no nodes: pods stay Pending, and `kubectl describe pod` says why.",
        _ => "",
    };
    let merged = facts.merged_into.as_ref().map_or(String::new(), |path| {
        let (path, context) = (path.display(), places::context_of(&facts.name));
        format!(
            "\n  kubectl config use-context {context}    (it is in {path} until the cluster stops)"
        )
    });
    let dashboard = facts.dashboard.as_ref().and_then(|place| place.link().ok());
    let dashboard = dashboard.map_or(String::new(), |link| {
        format!("\nSee what the controllers do, and why (the link opens once; `steersman dashboard` prints another):\n  {link}\n")
    });
    let log = facts.log.as_ref().map_or(String::new(), |log| {
        format!("\nThe log is {}.", log.display())
    });
    format!(
        "
  export KUBECONFIG={}{merged}

Try:
  kubectl create deployment web --image=nginx --replicas=3
  kubectl rollout status deployment/web
  steersman why deployment/web
{dashboard}{pending}
Nodes, scheduler and containers are simulated: nothing is pulled and nothing runs.{log}
{how_to_stop}; {after}.",
        facts.kubeconfig.display(),
    )
}
